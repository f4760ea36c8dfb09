//! The fold, tested on every capture and on journals, dialects and lengths that no capture has.

mod acp;
mod agent;
mod denials;
mod dialects;
mod documents;
mod history;
mod import;
mod journal;
mod properties;

use std::fs;
use std::path::{Path, PathBuf};

use towpath_view::{Conversation, Fold, Visibility};

/// A recorded session.
pub(crate) struct Record {
    /// Its path below `captures`.
    name: String,
    /// Its lines with their numbers.
    pub(crate) lines: Vec<(u64, Vec<u8>)>,
}

impl Record {
    /// The lines for which `keep` is true, with their numbers.
    fn filtered(&self, mut keep: impl FnMut(&[u8]) -> bool) -> Self {
        let lines = self.lines.iter().filter(|(_, line)| keep(line)).cloned().collect();
        Self { name: self.name.clone(), lines }
    }

    fn fold(&self) -> Fold {
        let mut fold = Fold::new();
        for (seq, line) in &self.lines {
            push(&mut fold, *seq, line);
        }
        fold
    }

    fn document(&self) -> Conversation {
        self.fold().conversation(usize::MAX)
    }
}

/// Folds a line, which may be a note, and returns the visibility of each object in it.
fn push(fold: &mut Fold, seq: u64, line: &[u8]) -> Vec<Visibility> {
    if let Some(note) = wire::note::Note::read(line) {
        return vec![fold.push_note(seq, Some(seq * 1000), &note)];
    }
    wire::read(line).map(|line| fold.push_event(seq, None, &line)).collect()
}

/// All captures.
pub(crate) fn captures() -> Vec<Record> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    assert!(files.len() > 100, "only {} captures under {}", files.len(), root.display());
    files
        .into_iter()
        .map(|path| {
            let bytes = fs::read(&path).expect("the capture can be read");
            let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
            Record {
                name: path.strip_prefix(&root).expect("it lies below").display().to_string(),
                lines: (1..).zip(lines.map(<[u8]>::to_vec)).collect(),
            }
        })
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
}
