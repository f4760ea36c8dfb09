//! The lines of a session file that the CLI would resume with.
//!
//! A file holds a tree: a rewind, or a second process with the same session, begins another branch, and
//! sub-agents have branches of their own. Only the branch of the last message is resumed. It is followed
//! from there to the beginning, also across compactions, whose earlier part a person still wants to
//! read. Calls that the model made at once are a fork in the tree without being another branch.
//!
//! The file is read once, in parts. What is kept of a line is about a hundred bytes.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use wire::{Piece, PieceEnd, Splitter};

use crate::line::{CallMention, ParentLink, TranscriptLine, line_id};

/// How much is read at once.
const CHUNK: usize = 1 << 20;

/// A longer title is cut at a word.
const TITLE_CHARS: usize = 60;

/// Where a line is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BranchLine {
    pub offset: u64,
    /// Without the newline.
    pub length: usize,
}

/// The lines of a session file that the CLI would resume with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveBranch {
    /// In the order of the file.
    pub lines: Vec<BranchLine>,
    /// No more turns than that begin in them.
    pub turns: u64,
    /// The title that the user or the CLI gave the session, or the beginning of the first prompt.
    pub title: Option<String>,
    /// The directory in which the session began.
    pub directory: Option<PathBuf>,
    /// How many lines the whole file has.
    pub lines_in_file: u64,
}

impl ActiveBranch {
    /// Reads a whole file.
    pub fn scan(file: &mut File) -> io::Result<Self> {
        let mut scan = BranchScan::default();
        file.seek(SeekFrom::Start(0))?;
        let mut splitter = Splitter::new();
        read_pieces(file, &mut splitter, |piece| scan.take(piece))?;
        if let Some(piece) = splitter.finish() {
            scan.take(piece);
        }
        Ok(scan.branch())
    }

    /// Whether another branch is this one with more lines behind it.
    pub fn is_continued_by(&self, other: &Self) -> bool {
        other.lines.starts_with(&self.lines)
    }

    /// How many bytes the lines have.
    pub fn bytes(&self) -> u64 {
        self.lines.iter().map(|line| line.length as u64).sum()
    }
}

/// Reads a file that grows, and continues where it ended.
#[derive(Clone, Debug, Default)]
pub struct BranchReader {
    scan: BranchScan,
}

impl BranchReader {
    /// Reads what is new. A last line without its newline is left for the next time.
    pub fn read(&mut self, file: &mut File) -> io::Result<ActiveBranch> {
        file.seek(SeekFrom::Start(self.scan.offset))?;
        let mut splitter = Splitter::new();
        // A line that is too long to be read has pieces before its end is known.
        let mut complete = self.scan.offset;
        read_pieces(file, &mut splitter, |piece| {
            let is_end = piece.end == PieceEnd::Newline;
            self.scan.take(piece);
            if is_end {
                complete = self.scan.offset;
            }
        })?;
        self.scan.offset = complete;
        Ok(self.scan.branch())
    }
}

/// Reads a file to its end. A last line without its newline stays in the splitter.
fn read_pieces(
    file: &mut File,
    splitter: &mut Splitter,
    mut take: impl FnMut(Piece<'_>),
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let read = match file.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut pieces = splitter.feed(&chunk[..read]);
        while let Some(piece) = pieces.next() {
            take(piece);
        }
    }
}

/// What is kept of a line.
#[derive(Clone, Copy, Debug)]
struct ScannedLine {
    place: BranchLine,
    parent: LineParent,
    logical_parent: Option<u128>,
    message: Option<u64>,
    is_message: bool,
    is_prompt: bool,
    /// How many unreadable lines are before it.
    unreadable_before: u64,
}

#[derive(Clone, Copy, Debug)]
enum LineParent {
    /// The line before it in the file.
    Previous,
    None,
    Line(u128),
}

/// The titles that were found, the best ones first.
#[derive(Clone, Debug, Default)]
struct FoundTitles {
    custom: Option<String>,
    generated: Option<String>,
    /// Summaries with the message that each was made from. Old versions wrote those of other sessions
    /// into new files.
    summaries: Vec<(Option<u128>, String)>,
    prompt: Option<String>,
}

#[derive(Clone, Debug, Default)]
struct BranchScan {
    /// Lines of the tree that do not belong to sub-agents.
    lines: Vec<ScannedLine>,
    by_id: HashMap<u128, usize>,
    /// The calls and results in each line, in order.
    calls: Vec<(usize, CallMention)>,
    /// Lines outside the tree that belong to the conversation.
    beside: Vec<BranchLine>,
    titles: FoundTitles,
    directory: Option<PathBuf>,
    offset: u64,
    count: u64,
    unreadable: u64,
}

impl BranchScan {
    fn take(&mut self, piece: Piece<'_>) {
        let place = BranchLine { offset: self.offset, length: piece.bytes.len() };
        self.offset += piece.bytes.len() as u64 + u64::from(piece.end == PieceEnd::Newline);
        if !piece.continued {
            self.count += 1;
        }
        if !piece.is_whole() {
            // A line that is too long to be read.
            self.unreadable += u64::from(!piece.continued);
            return;
        }
        match TranscriptLine::read(piece.bytes) {
            Some(line) => self.line(place, &line),
            None => self.unreadable += u64::from(!piece.bytes.is_empty()),
        }
    }

    fn line(&mut self, place: BranchLine, line: &TranscriptLine<'_>) {
        if line.sidechain {
            return;
        }
        if self.directory.is_none() {
            self.directory = line.working_directory();
        }
        let Some(uuid) = line.uuid else { return self.line_beside(place, line) };
        let is_prompt = line.is_prompt();
        if is_prompt && self.titles.prompt.is_none() {
            self.titles.prompt = prompt_title(&line.text());
        }
        let index = self.lines.len();
        self.calls.extend(line.calls().map(|call| (index, call)));
        self.by_id.insert(line_id(uuid), index);
        self.lines.push(ScannedLine {
            place,
            parent: match line.parent {
                ParentLink::Unknown => LineParent::Previous,
                ParentLink::None => LineParent::None,
                ParentLink::Line(parent) => LineParent::Line(line_id(parent)),
            },
            logical_parent: line.logical_parent.map(line_id),
            message: line.message_id(),
            is_message: line.is_message(),
            is_prompt,
            unreadable_before: self.unreadable,
        });
    }

    /// A line that is not part of the tree. Of these, titles and costs matter to a person.
    fn line_beside(&mut self, place: BranchLine, line: &TranscriptLine<'_>) {
        let title = || line.title.map(|title| title.decode().trim().to_owned());
        let title = || title().filter(|title| !title.is_empty());
        if line.is_kind("cost-state") {
            self.beside.push(place);
        } else if line.is_kind("custom-title") {
            self.titles.custom = title().or(self.titles.custom.take());
            self.beside.push(place);
        } else if line.is_kind("ai-title") {
            self.titles.generated = title().or(self.titles.generated.take());
            self.beside.push(place);
        } else if line.is_kind("summary")
            && let Some(title) = title()
        {
            self.titles.summaries.push((line.leaf.map(line_id), title));
        }
    }

    fn branch(&self) -> ActiveBranch {
        let is_active = self.active_lines();
        let active = || self.lines.iter().zip(&is_active).filter(|(_, is)| **is).map(|(it, _)| it);
        let turns = active().filter(|line| line.is_prompt).count() as u64;
        // What is in front of the first prompt is a turn too.
        let begins_otherwise = active().next().is_some_and(|line| !line.is_prompt);
        let mut lines: Vec<BranchLine> = active().map(|line| line.place).collect();
        if !lines.is_empty() {
            lines.extend(&self.beside);
            lines.sort_unstable_by_key(|line| line.offset);
        }
        let Self { titles, by_id, directory, count, .. } = self;
        let is_own = |leaf: &Option<u128>| leaf.is_none_or(|leaf| by_id.contains_key(&leaf));
        let mut summaries = titles.summaries.iter();
        let summary = summaries.rfind(|(leaf, _)| is_own(leaf)).map(|(_, title)| title);
        let given = titles.custom.as_ref().or(titles.generated.as_ref());
        let title = given.or(summary).or(titles.prompt.as_ref()).cloned();
        ActiveBranch {
            lines,
            turns: turns + u64::from(begins_otherwise),
            title,
            directory: directory.clone(),
            lines_in_file: *count,
        }
    }

    /// For each line, whether it is on the branch of the last message.
    fn active_lines(&self) -> Vec<bool> {
        let mut is_active = vec![false; self.lines.len()];
        let mut next = self.lines.iter().rposition(|line| line.is_message);
        while let Some(index) = next {
            if std::mem::replace(&mut is_active[index], true) {
                // The file is damaged: a line follows itself.
                break;
            }
            next = self.parent_of(index);
        }
        self.add_parallel_calls(&mut is_active);
        is_active
    }

    fn parent_of(&self, index: usize) -> Option<usize> {
        let line = &self.lines[index];
        match line.parent {
            LineParent::Previous => index.checked_sub(1),
            LineParent::None => self.by_id.get(&line.logical_parent?).copied(),
            LineParent::Line(parent) => self.by_id.get(&parent).copied().or_else(|| {
                // The parent is a line that cannot be read. What is before that belongs to the
                // conversation all the same.
                let before = index.checked_sub(1)?;
                let is_lost = self.lines[before].unreadable_before < line.unreadable_before;
                is_lost.then_some(before)
            }),
        }
    }

    /// Adds what hangs beside the branch: the other calls of a message, and their results.
    fn add_parallel_calls(&self, is_active: &mut [bool]) {
        let of_active = |is_active: &[bool], index: usize| is_active[index];
        let messages: HashSet<u64> = (0..self.lines.len())
            .filter(|index| of_active(is_active, *index))
            .filter_map(|index| self.lines[index].message)
            .collect();
        for (index, line) in self.lines.iter().enumerate() {
            is_active[index] |= line.message.is_some_and(|id| messages.contains(&id));
        }
        let mentioned = |is_active: &[bool], is_result: bool| -> HashSet<u64> {
            let calls = self.calls.iter().filter(|(_, call)| call.is_result == is_result);
            calls.filter(|(index, _)| is_active[*index]).map(|(_, call)| call.call).collect()
        };
        let made = mentioned(is_active, false);
        let answered = mentioned(is_active, true);
        for (index, call) in self.calls.iter().filter(|(_, call)| call.is_result) {
            if made.contains(&call.call) && !answered.contains(&call.call) {
                is_active[*index] = true;
            }
        }
    }
}

/// A title from the first prompt: its first line, cut at a word. What the CLI wrote in the name of the
/// user begins with a tag, or is the mark of an interruption; the user's words may follow the mark.
pub(crate) fn prompt_title(text: &str) -> Option<String> {
    let mut text = text.trim_start();
    while text.starts_with("[Request interrupted") {
        text = text.split_once(']')?.1.trim_start();
    }
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.starts_with('<') || line.starts_with("Caveat:") {
        return None;
    }
    if line.chars().count() <= TITLE_CHARS {
        return Some(line.to_owned());
    }
    let cut: String = line.chars().take(TITLE_CHARS).collect();
    let words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    Some(format!("{words}…"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

    use serde_json::{Value, json};

    use super::{ActiveBranch, prompt_title};

    #[test]
    fn words_behind_an_interruption_are_a_title() {
        for (text, title) in [
            ("[Request interrupted by user]", None),
            ("[Request interrupted by user for tool use]\n", None),
            ("[Request interrupted by user]use tabs", Some("use tabs")),
            ("[Request interrupted by user] use tabs\nplease", Some("use tabs")),
            ("\n[Request interrupted by user]\n\nuse tabs", Some("use tabs")),
            ("[Request interrupted by user for tool use]<command-name>/x", None),
            ("[Request interrupted", None),
            ("[x] use tabs", Some("[x] use tabs")),
        ] {
            assert_eq!(prompt_title(text).as_deref(), title, "{text:?}");
        }
    }

    fn scan(lines: &[Value]) -> (ActiveBranch, Vec<Value>) {
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        scan_text(&(lines.join("\n") + "\n"))
    }

    /// The branch of a file, and its lines.
    fn scan_text(text: &str) -> (ActiveBranch, Vec<Value>) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let branch = ActiveBranch::scan(&mut file).unwrap();
        let lines = branch.lines.iter().map(|line| {
            let mut bytes = vec![0; line.length];
            file.seek(SeekFrom::Start(line.offset)).unwrap();
            file.read_exact(&mut bytes).unwrap();
            serde_json::from_slice(&bytes).unwrap()
        });
        let lines = lines.collect();
        (branch, lines)
    }

    /// The ids of lines, or their types.
    fn ids(lines: &[Value]) -> Vec<&str> {
        let names = lines.iter().map(|line| line["uuid"].as_str().or(line["type"].as_str()));
        names.map(Option::unwrap).collect()
    }

    fn user(id: &str, parent: Option<&str>, text: &str) -> Value {
        json!({"parentUuid": parent, "isSidechain": false, "type": "user", "uuid": id, "cwd": "/p",
            "message": {"role": "user", "content": text}})
    }

    fn model(id: &str, parent: &str, message: &str, blocks: &Value) -> Value {
        json!({"parentUuid": parent, "isSidechain": false, "type": "assistant", "uuid": id,
            "message": {"id": message, "role": "assistant", "content": blocks}})
    }

    fn text(text: &str) -> Value {
        json!([{"type": "text", "text": text}])
    }

    #[test]
    fn only_the_branch_of_the_last_message_is_resumed() {
        let (branch, lines) = scan(&[
            json!({"type": "summary", "summary": "Other", "leafUuid": "elsewhere"}),
            user("a", None, "one"),
            model("b", "a", "m1", &text("1")),
            user("c", Some("b"), "rewound"),
            model("d", "c", "m2", &text("rewound")),
            json!({"parentUuid": null, "isSidechain": true, "type": "user", "uuid": "s",
                "message": {"content": "of a sub-agent"}}),
            user("e", Some("b"), "two"),
            json!({"type": "queue-operation", "operation": "enqueue", "content": "x"}),
            model("f", "e", "m3", &text("2")),
            json!({"type": "cost-state", "totalCostUSD": 0.5}),
        ]);
        assert_eq!(ids(&lines), ["a", "b", "e", "f", "cost-state"]);
        assert_eq!((branch.turns, branch.lines_in_file), (2, 10));
        assert_eq!(branch.title.as_deref(), Some("one"));
        assert_eq!(branch.directory.as_deref(), Some("/p".as_ref()));
    }

    #[test]
    fn calls_that_were_made_at_once_are_all_resumed_with_their_results() {
        let call = |id: &str| json!([{"type": "tool_use", "id": id, "name": "Read", "input": {}}]);
        let result = |id: &str, parent: &str, call: &str| {
            json!({"parentUuid": parent, "type": "user", "uuid": id, "isSidechain": false,
                "message": {"content": [{"type": "tool_result", "tool_use_id": call}]}})
        };
        let (branch, lines) = scan(&[
            user("a", None, "read both"),
            model("b", "a", "m1", &call("t1")),
            model("c", "b", "m1", &call("t2")),
            result("d", "b", "t1"),
            result("e", "c", "t2"),
            model("f", "e", "m2", &text("done")),
        ]);
        assert_eq!(ids(&lines), ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(branch.turns, 1);
    }

    #[test]
    fn what_was_said_before_a_compaction_is_part_of_the_conversation() {
        let (branch, lines) = scan(&[
            user("a", None, "one"),
            model("b", "a", "m1", &text("1")),
            json!({"parentUuid": null, "logicalParentUuid": "b", "type": "system",
                "subtype": "compact_boundary", "uuid": "c", "isSidechain": false}),
            json!({"parentUuid": "c", "type": "user", "uuid": "d", "isCompactSummary": true,
                "message": {"content": "This session is being continued"}}),
            user("e", Some("d"), "two"),
            json!({"type": "ai-title", "aiTitle": "Counting"}),
        ]);
        assert_eq!(ids(&lines), ["a", "b", "c", "d", "e", "ai-title"]);
        assert_eq!((branch.turns, branch.title.as_deref()), (2, Some("Counting")));
    }

    #[test]
    fn a_file_that_grows_is_read_from_where_it_ended() {
        let lines = [
            user("a", None, "one").to_string(),
            model("b", "a", "m1", &text("1")).to_string(),
            user("c", Some("b"), "two").to_string(),
            // A rewind: the line before is not part of the branch any more.
            user("d", Some("b"), "three").to_string(),
        ];
        let all = lines.join("\n") + "\n";
        for step in [1, 7, 100, all.len()] {
            let mut file = tempfile::tempfile().unwrap();
            let mut reader = super::BranchReader::default();
            let mut branch = ActiveBranch::default();
            for part in all.as_bytes().chunks(step) {
                file.seek(SeekFrom::End(0)).unwrap();
                file.write_all(part).unwrap();
                branch = reader.read(&mut file).unwrap();
            }
            assert_eq!(branch, ActiveBranch::scan(&mut file).unwrap(), "{step}");
            assert_eq!((branch.turns, branch.lines.len()), (2, 3));
        }
    }

    #[test]
    fn a_half_written_line_and_lines_without_links_lose_nothing_else() {
        let first =
            json!({"type": "user", "uuid": "a", "sessionId": "s", "message": {"content": "hi"}});
        let second = json!({"type": "assistant", "uuid": "b", "message": {"content": []}});
        let lost = user("d", Some("gone"), "after a line that cannot be read");
        let text =
            format!("{first}\n{second}\n{{\"type\":\"user\",\"uu\n{lost}\n{{\"type\":\"assis");
        let (branch, lines) = scan_text(&text);
        assert_eq!(ids(&lines), ["a", "b", "d"]);
        assert_eq!(branch.turns, 2);
        let (branch, lines) = scan(&[user("d", Some("gone"), "x"), user("e", Some("d"), "y")]);
        assert_eq!((ids(&lines), branch.turns), (vec!["d", "e"], 2));
        for damaged in ["", "\n\n", "{}", "[1]\nnull\n", "{\"type\":5}"] {
            assert_eq!(scan_text(damaged).0.lines, [], "{damaged}");
        }
        let (_, lines) = scan(&[user("a", Some("b"), "x"), user("b", Some("a"), "y")]);
        assert_eq!(ids(&lines), ["a", "b"], "a circle ends");
    }

    #[test]
    fn every_captured_session_file_keeps_its_main_branch() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
        let mut seen = 0;
        for version in std::fs::read_dir(root).unwrap().flatten() {
            let Ok(files) = std::fs::read_dir(version.path().join("transcript")) else { continue };
            for file in files.flatten() {
                let branch = ActiveBranch::scan(&mut File::open(file.path()).unwrap()).unwrap();
                // One file has only the summary of another session.
                let expected = !file.path().ends_with("2.0.14/transcript/first-1.jsonl");
                let found = branch.turns > 0 && branch.lines.len() > 1;
                assert_eq!(found, expected, "{}", file.path().display());
                seen += 1;
            }
        }
        assert!(seen > 15, "{seen}");
    }
}
