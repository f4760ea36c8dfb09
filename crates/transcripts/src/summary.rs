//! What a session file is about, from its beginning and its end.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wire::{PieceEnd, Splitter};

use crate::branch::prompt_title;
use crate::directory::TranscriptFile;
use crate::line::TranscriptLine;

/// How much is read of each end. Most of what is looked for is in the first and the last lines.
const END_BYTES: u64 = 24 << 10;

/// How much of the beginning is read if that is not enough: a first prompt may be long.
const LONG_HEAD_BYTES: u64 = 512 << 10;

/// How much is read at once to count messages.
const COUNT_CHUNK: usize = 1 << 20;

/// What a session file is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TranscriptSummary {
    /// The title that the user or the CLI gave the session, or the beginning of the first prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The directory in which the session began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The git branch at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The model that answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many messages there are; unknown for a large file until they are
    /// [counted](TranscriptFile::count_messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// The last count, also of a file that has grown since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<MessageCount>,
    /// In dollars. Versions before 2.1.325 do not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// How many tokens the model read and wrote for its last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<u64>,
}

/// How many messages are in a file up to an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageCount {
    pub messages: u64,
    /// Behind the last line that was counted.
    pub offset: u64,
}

impl TranscriptFile {
    /// Counts the messages behind those of an earlier count. Reads that part of the file.
    pub fn count_messages(&self, before: MessageCount) -> io::Result<MessageCount> {
        let mut file = self.open()?;
        file.seek(SeekFrom::Start(before.offset))?;
        let mut count = before;
        let mut place = before.offset;
        let mut splitter = Splitter::new();
        let mut chunk = vec![0; COUNT_CHUNK];
        loop {
            let read = match file.read(&mut chunk) {
                Ok(0) => return Ok(count),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let mut pieces = splitter.feed(&chunk[..read]);
            while let Some(piece) = pieces.next() {
                place += piece.bytes.len() as u64;
                if piece.end != PieceEnd::Newline {
                    continue;
                }
                place += 1;
                count.offset = place;
                let line = TranscriptLine::read(piece.bytes).filter(|_| piece.is_whole());
                count.messages += u64::from(line.is_some_and(|it| is_counted(&it)));
            }
        }
    }

    /// Reads what the file is about. Takes a few dozen KiB of it, however large it is.
    pub fn summarize(&self) -> io::Result<TranscriptSummary> {
        let mut file = self.open()?;
        let mut ends = SummaryScan::default();
        if self.size <= 2 * END_BYTES {
            let mut all = Vec::new();
            file.read_to_end(&mut all)?;
            ends.read(&all);
            return Ok(ends.finish(true));
        }
        let head = read_part(&mut file, 0, END_BYTES)?;
        ends.read(whole_lines(&head, true));
        if ends.directory.is_none() || ends.first_prompt.is_none() {
            let head = read_part(&mut file, 0, LONG_HEAD_BYTES)?;
            ends = SummaryScan::default();
            ends.read(whole_lines(&head, true));
        }
        let tail = read_part(&mut file, self.size - END_BYTES, END_BYTES)?;
        ends.read(whole_lines(&tail, false));
        Ok(ends.finish(false))
    }
}

fn read_part(file: &mut File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(length).read_to_end(&mut part)?;
    Ok(part)
}

/// A part without the line that goes on behind it, or that began before it.
fn whole_lines(part: &[u8], from_start: bool) -> &[u8] {
    if from_start {
        let end = part.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
        &part[..end]
    } else {
        let start = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
        &part[start..]
    }
}

/// Whether a line is a message of the session itself.
fn is_counted(line: &TranscriptLine<'_>) -> bool {
    line.is_message() && !line.sidechain
}

#[derive(Default)]
struct SummaryScan {
    custom_title: Option<String>,
    generated_title: Option<String>,
    first_prompt: Option<String>,
    directory: Option<PathBuf>,
    branch: Option<String>,
    model: Option<String>,
    messages: u64,
    cost: Option<f64>,
    context: Option<u64>,
}

impl SummaryScan {
    fn read(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            if let Some(line) = TranscriptLine::read(line).filter(|line| !line.sidechain) {
                self.line(&line);
            }
        }
    }

    fn line(&mut self, line: &TranscriptLine<'_>) {
        let title = line.title.map(|it| it.decode().trim().to_owned()).filter(|it| !it.is_empty());
        if line.is_kind("custom-title") {
            self.custom_title = title.or(self.custom_title.take());
        } else if line.is_kind("ai-title") {
            self.generated_title = title.or(self.generated_title.take());
        } else if line.is_kind("cost-state") {
            self.cost = line.cost.or(self.cost);
        }
        if line.is_prompt() && self.first_prompt.is_none() {
            self.first_prompt = prompt_title(&line.text());
        }
        if self.directory.is_none() {
            self.directory = line.working_directory();
        }
        if let Some(branch) = line.branch.filter(|it| !it.is_empty()) {
            self.branch = Some(branch.decode().into_owned());
        }
        self.messages += u64::from(is_counted(line));
        if let Some((model, context)) = line.usage() {
            self.model = Some(model);
            self.context = Some(context);
        }
    }

    fn finish(self, whole: bool) -> TranscriptSummary {
        TranscriptSummary {
            title: self.custom_title.or(self.generated_title).or(self.first_prompt),
            directory: self.directory,
            branch: self.branch,
            model: self.model,
            messages: whole.then_some(self.messages),
            counted: None,
            cost: self.cost,
            context: self.context,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::MessageCount;
    use crate::directory::TranscriptFile;

    #[test]
    fn a_large_file_is_summarized_from_its_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0f0c5d2e-58d1-4d1c-9f6c-000000000001.jsonl");
        let user = |text: &str| {
            json!({"type": "user", "uuid": "u", "parentUuid": null, "cwd": "/p", "gitBranch": "main",
                "message": {"content": text}})
            .to_string()
        };
        let model = json!({"type": "assistant", "uuid": "a", "gitBranch": "fix",
            "message": {"id": "m", "model": "opus", "content": [],
                "usage": {"input_tokens": 3, "cache_read_input_tokens": 900, "output_tokens": 7}}});
        let cost = json!({"type": "cost-state", "totalCostUSD": 1.25});
        let long = user(&format!("Look at this log {}", "x".repeat(100_000)));
        let small = format!("{}\n{model}\n{cost}\n", user("Fix the tests"));
        let large = format!("{long}\n{}{small}", format!("{model}\n").repeat(1000));
        for (text, title, messages) in
            [(small.clone(), "Fix the tests", Some(2)), (large, "Look at this log…", None)]
        {
            std::fs::write(&path, text).unwrap();
            let summary = TranscriptFile::at(&path).unwrap().summarize().unwrap();
            assert_eq!(summary.title.as_deref(), Some(title));
            assert_eq!(summary.directory.as_deref(), Some("/p".as_ref()));
            assert_eq!((summary.branch.as_deref(), summary.cost), (Some("fix"), Some(1.25)));
            assert_eq!((summary.model.as_deref(), summary.context), (Some("opus"), Some(910)));
            assert_eq!(summary.messages, messages);
        }
        // Counting goes on where it ended, and leaves a half line for later.
        let all = std::fs::read_to_string(&path).unwrap();
        let (first, rest) = all.split_at(all.len() / 2);
        std::fs::write(&path, first).unwrap();
        let count = |before| TranscriptFile::at(&path).unwrap().count_messages(before).unwrap();
        let half = count(MessageCount::default());
        assert!(half.offset <= first.len() as u64 && half.messages > 100, "{half:?}");
        std::fs::write(&path, format!("{first}{rest}")).unwrap();
        assert_eq!(count(half), MessageCount { messages: 1003, offset: all.len() as u64 });
        for text in ["", "\n", "{", &"x".repeat(100_000), "{\"type\":\"user\"}"] {
            std::fs::write(&path, text).unwrap();
            let summary = TranscriptFile::at(&path).unwrap().summarize().unwrap();
            assert_eq!(summary.title, None);
        }
        let titled = format!("{small}{}\n", json!({"type": "custom-title", "customTitle": "Mine"}));
        std::fs::write(&path, titled).unwrap();
        let summary = TranscriptFile::at(&path).unwrap().summarize().unwrap();
        assert_eq!(summary.title.as_deref(), Some("Mine"));
    }
}
