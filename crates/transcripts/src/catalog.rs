//! All session files with what they are about.
//!
//! A catalog is brought up to date when someone asks, and reads only what has changed. The system says
//! which files have changed, if it can; otherwise that takes a look at every file's size and time.
//! Nothing runs in between, so an idle server does nothing.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::directory::{TranscriptDirectory, TranscriptFile};
use crate::folder_watch::FolderWatch;
use crate::summary::{MessageCount, TranscriptSummary};

/// The newest so many files are listed. That bounds the memory, at less than a KiB for each.
const MAX_FILES: usize = 50_000;

/// Files are read by so many threads, because most of the time goes to waiting for the disk.
const MAX_THREADS: usize = 8;

/// All files are looked at once in a while: a file system of another machine does not say what changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// So much of a file that has grown is counted at once; more takes too long for a list.
const COUNTED_AT_ONCE: u64 = 1 << 20;

/// A session file with what it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogEntry {
    pub file: TranscriptFile,
    pub summary: Arc<TranscriptSummary>,
}

/// All session files of a directory.
#[derive(Debug)]
pub struct TranscriptCatalog {
    store: TranscriptDirectory,
    known: HashMap<PathBuf, CatalogEntry>,
    watch: Option<FolderWatch>,
    /// When all files were last looked at.
    looked: Option<Instant>,
}

/// What has changed since a catalog was last brought up to date.
#[derive(Debug, Default, PartialEq)]
pub struct CatalogChanges {
    /// New and changed files.
    pub changed: Vec<CatalogEntry>,
    pub removed: Vec<PathBuf>,
}

impl TranscriptCatalog {
    /// A catalog with what was known earlier, which is used as far as the files have not changed.
    pub fn new(store: TranscriptDirectory, known: impl IntoIterator<Item = CatalogEntry>) -> Self {
        let known = known.into_iter().map(|entry| (entry.file.path.clone(), entry)).collect();
        Self { store, known, watch: None, looked: None }
    }

    /// All files, the newest first.
    pub fn entries(&self) -> Vec<CatalogEntry> {
        let mut entries: Vec<_> = self.known.values().cloned().collect();
        entries.sort_by(|one, other| {
            (other.file.modified, &other.file.path).cmp(&(one.file.modified, &one.file.path))
        });
        entries
    }

    /// Reads the files that are new or have changed.
    pub fn refresh(&mut self) -> CatalogChanges {
        let is_recent = self.looked.is_some_and(|at| at.elapsed() < LOOK_INTERVAL);
        let changed = self.watch.as_mut().and_then(FolderWatch::changed_files);
        match changed {
            Some(changed) if is_recent => self.look_at(changed),
            _ => self.look_at_all(),
        }
    }

    /// Looks at some files.
    fn look_at(&mut self, paths: HashSet<PathBuf>) -> CatalogChanges {
        let mut changes = CatalogChanges::default();
        let mut unread = Vec::new();
        for path in paths {
            match TranscriptFile::at(&path) {
                Some(file) if self.known.get(&path).is_some_and(|it| it.file == file) => {}
                Some(file) => unread.push(file),
                None if self.known.remove(&path).is_some() => changes.removed.push(path),
                None => {}
            }
        }
        changes.changed = self.read(&unread);
        changes
    }

    /// Reads what files are about.
    fn read(&mut self, files: &[TranscriptFile]) -> Vec<CatalogEntry> {
        let mut read = summarize_all(files);
        for entry in &mut read {
            let before = self.known.get(&entry.file.path);
            let before = before.filter(|it| it.file.inode == entry.file.inode);
            if let Some(counted) = before.and_then(|it| it.summary.counted) {
                count_further(entry, counted);
            }
        }
        self.known.extend(read.iter().map(|it| (it.file.path.clone(), it.clone())));
        read
    }

    /// Some of the newest files whose messages are not counted.
    pub fn uncounted(&self, most: usize) -> Vec<CatalogEntry> {
        let missing = self.known.values().filter(|entry| entry.summary.messages.is_none());
        let mut missing: Vec<&CatalogEntry> = missing.collect();
        missing.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.file.modified));
        missing.into_iter().take(most).cloned().collect()
    }

    /// Records how many messages a file has. None if it is not known any more.
    pub fn set_count(
        &mut self,
        file: &TranscriptFile,
        count: MessageCount,
    ) -> Option<CatalogEntry> {
        let entry = self.known.get_mut(&file.path).filter(|it| it.file.inode == file.inode)?;
        let mut summary = TranscriptSummary::clone(&entry.summary);
        (summary.messages, summary.counted) = (Some(count.messages), Some(count));
        entry.summary = Arc::new(summary);
        Some(entry.clone())
    }

    /// Looks at all files.
    fn look_at_all(&mut self) -> CatalogChanges {
        let folders: Vec<PathBuf> = self.store.folders().collect();
        // First, so that no change is missed in between.
        self.watch = FolderWatch::start(self.store.root(), &folders);
        self.looked = Some(Instant::now());
        let mut files = TranscriptDirectory::files_in(&folders);
        if files.len() > MAX_FILES {
            files.sort_unstable_by_key(|file| std::cmp::Reverse(file.modified));
            files.truncate(MAX_FILES);
        }
        let mut gone: HashSet<PathBuf> = self.known.keys().cloned().collect();
        let mut unread = Vec::new();
        for file in files {
            gone.remove(&file.path);
            if self.known.get(&file.path).is_none_or(|entry| entry.file != file) {
                unread.push(file);
            }
        }
        let changed = self.read(&unread);
        self.known.retain(|path, _| !gone.contains(path));
        CatalogChanges { changed, removed: gone.into_iter().collect() }
    }
}

/// Counts the messages that a file has more than before, if they are not many.
fn count_further(entry: &mut CatalogEntry, counted: MessageCount) {
    let more = entry.file.size.checked_sub(counted.offset);
    if entry.summary.messages.is_some() || more.is_none() {
        return;
    }
    let mut summary = TranscriptSummary::clone(&entry.summary);
    summary.counted = Some(counted);
    if more.is_some_and(|more| more <= COUNTED_AT_ONCE)
        && let Ok(count) = entry.file.count_messages(counted)
    {
        (summary.messages, summary.counted) = (Some(count.messages), Some(count));
    }
    entry.summary = Arc::new(summary);
}

/// Reads what files are about, several at a time. A file that cannot be read is left out.
fn summarize_all(files: &[TranscriptFile]) -> Vec<CatalogEntry> {
    let threads = thread::available_parallelism().map_or(1, |it| 2 * it.get());
    let threads = threads.min(MAX_THREADS).min(files.len()).max(1);
    let share = files.len().div_ceil(threads).max(1);
    let summarize = |files: &[TranscriptFile]| -> Vec<CatalogEntry> {
        let entry = |file: &TranscriptFile| {
            let summary = Arc::new(file.summarize().ok()?);
            Some(CatalogEntry { file: file.clone(), summary })
        };
        files.iter().filter_map(entry).collect()
    };
    if threads == 1 {
        return summarize(files);
    }
    thread::scope(|scope| {
        let summarize = &summarize;
        let parts: Vec<_> =
            files.chunks(share).map(|part| scope.spawn(move || summarize(part))).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uuid::Uuid;

    use super::TranscriptCatalog;
    use crate::directory::TranscriptDirectory;

    #[test]
    fn only_files_that_changed_are_read_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("-p");
        fs::create_dir(&folder).unwrap();
        let path = |id: u128| folder.join(format!("{}.jsonl", Uuid::from_u128(id)));
        let line = |text: &str| {
            format!(
                "{{\"type\":\"user\",\"uuid\":\"u\",\"cwd\":\"/p\",\"message\":{{\"content\":\"{text}\"}}}}\n"
            )
        };
        for id in 0..300 {
            fs::write(path(id), line(&format!("prompt {id}"))).unwrap();
        }
        let store = TranscriptDirectory::new(root.path().to_owned());
        let mut catalog = TranscriptCatalog::new(store.clone(), Vec::new());
        assert_eq!(catalog.refresh().changed.len(), 300);
        assert_eq!(catalog.refresh(), super::CatalogChanges::default());
        fs::write(path(7), line("another and longer prompt")).unwrap();
        fs::remove_file(path(8)).unwrap();
        fs::write(path(400), line("new")).unwrap();
        let changes = catalog.refresh();
        let mut titles: Vec<_> =
            changes.changed.iter().map(|it| it.summary.title.clone().unwrap()).collect();
        titles.sort();
        assert_eq!(titles, ["another and longer prompt", "new"]);
        assert_eq!(changes.removed, [path(8)]);
        let entries = catalog.entries();
        assert_eq!(entries.len(), 300);
        // A file of another session, a new folder and a large file that grows are noticed too.
        fs::write(folder.join("agent-1.jsonl"), line("of a sub-agent")).unwrap();
        assert_eq!(catalog.refresh(), super::CatalogChanges::default());
        let other = root.path().join("-q");
        fs::create_dir(&other).unwrap();
        let moved = other.join(path(7).file_name().unwrap());
        fs::rename(path(7), &moved).unwrap();
        let changes = catalog.refresh();
        assert_eq!((changes.changed.len(), changes.removed), (1, vec![path(7)]));
        fs::rename(&moved, path(7)).unwrap();
        catalog.refresh();
        let large = line(&"x".repeat(1000)).repeat(100);
        fs::write(path(7), &large).unwrap();
        catalog.refresh();
        let uncounted = catalog.uncounted(10);
        assert_eq!(uncounted.len(), 1);
        let file = &uncounted[0].file;
        let count = file.count_messages(super::MessageCount::default()).unwrap();
        assert_eq!(catalog.set_count(file, count).unwrap().summary.messages, Some(100));
        fs::write(path(7), format!("{large}{}", line("last"))).unwrap();
        assert_eq!(catalog.refresh().changed[0].summary.messages, Some(101));
        assert!(catalog.uncounted(10).is_empty());
        let entries = catalog.entries();
        // A catalog that starts with what was known reads nothing.
        let mut later = TranscriptCatalog::new(store, entries);
        assert_eq!(later.refresh(), super::CatalogChanges::default());
    }
}
