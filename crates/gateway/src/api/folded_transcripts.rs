//! Conversations of the CLI, folded from its session files.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use transcripts::{ActiveBranch, BranchReader, TranscriptFile};
use view::{Fold, Item, OlderItems, Position, Turn};
use wire::{Origin, RecordedLine};

/// How much of each conversation is kept in memory.
const FOLD_BYTES: usize = 8 << 20;

/// How many conversations are kept between requests.
const MAX_FOLDED: usize = 4;

/// A conversation of the CLI.
#[derive(Debug)]
pub(crate) struct FoldedTranscript {
    file: TranscriptFile,
    reader: BranchReader,
    branch: ActiveBranch,
    fold: Fold,
}

/// The conversations that were asked for last.
#[derive(Debug, Default)]
pub(crate) struct FoldedTranscripts(Mutex<VecDeque<Arc<FoldedTranscript>>>);

impl FoldedTranscripts {
    /// The conversation of a file, if it was folded and the file has not changed since.
    pub(super) fn get(&self, file: &TranscriptFile) -> Option<Arc<FoldedTranscript>> {
        self.folded().iter().find(|folded| folded.file == *file).cloned()
    }

    /// The conversation of an earlier version of a file.
    pub(super) fn earlier(&self, file: &TranscriptFile) -> Option<Arc<FoldedTranscript>> {
        let is_earlier = |of: &TranscriptFile| {
            of.path == file.path && of.inode == file.inode && of.size <= file.size
        };
        self.folded().iter().find(|folded| is_earlier(&folded.file)).cloned()
    }

    pub(super) fn put(&self, new: Arc<FoldedTranscript>) {
        let mut all = self.folded();
        all.retain(|folded| folded.file.path != new.file.path);
        all.push_front(new);
        all.truncate(MAX_FOLDED);
    }

    fn folded(&self) -> MutexGuard<'_, VecDeque<Arc<FoldedTranscript>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FoldedTranscript {
    /// Reads a file. What an earlier version of it had is not read again, unless it belongs to another
    /// branch now. Blocks.
    pub(super) fn read(file: &TranscriptFile, earlier: Option<&Self>) -> io::Result<Self> {
        let mut source = file.open()?;
        let mut reader = earlier.map(|it| it.reader.clone()).unwrap_or_default();
        let branch = reader.read(&mut source)?;
        let continued = earlier.filter(|it| it.branch.is_continued_by(&branch));
        let mut fold =
            continued.map_or_else(|| Fold::with_budget(FOLD_BYTES), |it| it.fold.clone());
        let last = continued.and_then(|it| it.branch.lines.last());
        let first = last.map_or(1, |line| line.offset + 2);
        push_lines(&mut fold, &mut source, &branch, first, u64::MAX)?;
        Ok(Self { file: file.clone(), reader, branch, fold })
    }

    /// The items before a position, with their turns, and whether there are more before them. Blocks.
    pub(super) fn items(
        &self,
        before: Position,
        limit: usize,
    ) -> io::Result<(Vec<Item>, Vec<Turn>, bool)> {
        let mut position = before;
        loop {
            let (older, first) = match self.fold.older(position, limit) {
                OlderItems::Page(page) => {
                    let mut fold = Fold::for_page(&page);
                    let mut source = self.file.open()?;
                    push_lines(&mut fold, &mut source, &self.branch, page.first, page.last)?;
                    (fold.page_items(&page), page.first)
                }
                here @ OlderItems::Available { .. } => (here, 0),
            };
            let OlderItems::Available { items, turns, more } = older else {
                return Ok((Vec::new(), Vec::new(), false));
            };
            if items.is_empty() && more && first > 0 {
                // The turn has nothing to show, so the one before it is tried.
                position = Position(first, 0);
                continue;
            }
            return Ok((items, turns, more));
        }
    }
}

/// Folds the lines of a branch, from one number to another. A line's number is its offset in the file,
/// counted from 1: a search result knows it without reading the file.
fn push_lines(
    fold: &mut Fold,
    source: &mut File,
    branch: &ActiveBranch,
    first: u64,
    last: u64,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    let start = branch.lines.partition_point(|line| line.offset + 1 < first);
    let lines = branch.lines[start..].iter().take_while(|line| line.offset < last);
    for line in lines {
        let seq = line.offset + 1;
        bytes.resize(line.length, 0);
        source.seek(SeekFrom::Start(line.offset))?;
        source.read_exact(&mut bytes)?;
        fold.push_recorded(RecordedLine { seq, at: 0, origin: Origin::Transcript, bytes: &bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use serde_json::json;
    use transcripts::TranscriptFile;
    use view::Position;

    use super::{FoldedTranscript, FoldedTranscripts};

    #[test]
    fn a_session_that_grows_is_shown_as_if_it_was_read_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0f0c5d2e-58d1-4d1c-9f6c-000000000001.jsonl");
        let line = |number: usize, parent: Option<usize>| {
            let id = |number: usize| format!("0f0c5d2e-58d1-4d1c-9f6c-{number:012}");
            let kind = if number.is_multiple_of(2) { "user" } else { "assistant" };
            json!({"type": kind, "uuid": id(number), "parentUuid": parent.map(id),
                "isSidechain": false, "sessionId": "s", "cwd": "/p",
                "message": {"id": format!("m{number}"), "role": kind,
                    "content": [{"type": "text", "text": format!("text {number}")}]}})
            .to_string()
                + "\n"
        };
        let folded = FoldedTranscripts::default();
        let mut text = String::new();
        for number in 0..60_usize {
            // Line 40 is a rewind: it follows line 29.
            let parent = if number == 40 { Some(29) } else { number.checked_sub(1) };
            text += &line(number, parent);
            if number % 7 != 0 && number != 59 {
                continue;
            }
            // The last line is only half written.
            fs::write(&path, format!("{text}{{\"type\":\"us")).unwrap();
            let file = TranscriptFile::at(&path).unwrap();
            let earlier = folded.earlier(&file);
            assert_eq!(earlier.is_some(), number > 0);
            let grown = FoldedTranscript::read(&file, earlier.as_deref()).unwrap();
            let at_once = FoldedTranscript::read(&file, None).unwrap();
            let all = |it: &FoldedTranscript| it.items(Position(u64::MAX, 0), 200).unwrap();
            assert_eq!(all(&grown), all(&at_once), "{number}");
            let active = if number < 40 { number + 1 } else { number - 9 };
            assert_eq!(all(&grown).0.len(), active);
            folded.put(Arc::new(grown));
        }
    }
}
