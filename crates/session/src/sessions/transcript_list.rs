//! The list of the CLI's session files.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use journal::{CachedSummary, SummaryCache};
use tokio::task::spawn_blocking;
use tracing::warn;
use transcripts::{
    CatalogChanges, CatalogEntry, MessageCount, TranscriptCatalog, TranscriptDirectory,
    TranscriptFile,
};
use uuid::Uuid;

use super::Sessions;

/// The list is not brought up to date more often, however many clients ask.
const REFRESH_INTERVAL: Duration = Duration::from_millis(500);

/// The list, from when someone first asks for it.
#[derive(Debug, Default)]
pub(super) struct TranscriptList(Mutex<Option<LoadedList>>);

#[derive(Debug)]
struct LoadedList {
    catalog: TranscriptCatalog,
    cache: Option<SummaryCache>,
    refreshed: Option<Instant>,
    entries: Arc<Vec<CatalogEntry>>,
}

impl Sessions {
    /// All session files of the CLI, the newest first, as they are now. Those of Towpath's own sessions
    /// are among them.
    pub async fn list_transcripts(&self) -> Arc<Vec<CatalogEntry>> {
        let this = self.clone();
        spawn_blocking(move || this.load_transcripts()).await.unwrap_or_default()
    }

    /// A session file by the CLI's id of the session.
    pub async fn transcript(&self, id: Uuid) -> Option<CatalogEntry> {
        let entries = self.list_transcripts().await;
        entries.iter().find(|entry| entry.file.id == id).cloned()
    }

    /// Some of the newest session files whose messages are not counted. Counting takes a moment for each.
    pub fn uncounted_transcripts(&self, most: usize) -> Vec<CatalogEntry> {
        let list = self.shared.transcripts.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.as_ref().map(|list| list.catalog.uncounted(most)).unwrap_or_default()
    }

    /// Records how many messages session files have, also for the next process.
    pub fn set_message_counts(&self, counts: &[(TranscriptFile, MessageCount)]) {
        let mut list = self.shared.transcripts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = list.as_mut() {
            let counted = counts.iter();
            let counted = counted.filter_map(|(file, count)| list.catalog.set_count(file, *count));
            let changed: Vec<CatalogEntry> = counted.collect();
            list.changed(&CatalogChanges { changed, removed: Vec::new() });
        }
    }

    fn load_transcripts(&self) -> Arc<Vec<CatalogEntry>> {
        let mut list = self.shared.transcripts.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.is_none() {
            let Some(store) = self.transcripts() else { return Arc::default() };
            *list = Some(LoadedList::new(store, &self.config().data.join("transcripts.db")));
        }
        list.as_mut().map(LoadedList::refresh).unwrap_or_default()
    }
}

impl LoadedList {
    fn new(store: TranscriptDirectory, cache: &std::path::Path) -> Self {
        let cache = SummaryCache::open(cache).inspect_err(|error| {
            warn!(%error, "the list of the CLI's sessions is made without its cache");
        });
        let cache = cache.ok();
        let known = cache.as_ref().and_then(|cache| cache.load().ok()).unwrap_or_default();
        // The cache may have been filled for a CLI with another directory.
        let known = known.into_iter().filter(|it| it.path.starts_with(store.root()));
        let known: Vec<CatalogEntry> = known.filter_map(from_cache).collect();
        let catalog = TranscriptCatalog::new(store, known);
        Self { catalog, cache, refreshed: None, entries: Arc::default() }
    }

    fn refresh(&mut self) -> Arc<Vec<CatalogEntry>> {
        if self.refreshed.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL) {
            return Arc::clone(&self.entries);
        }
        let changes = self.catalog.refresh();
        if self.refreshed.is_none() {
            self.entries = Arc::new(self.catalog.entries());
        }
        self.changed(&changes);
        self.refreshed = Some(Instant::now());
        Arc::clone(&self.entries)
    }

    /// Takes over what has changed in the catalog.
    fn changed(&mut self, changes: &CatalogChanges) {
        if !changes.changed.is_empty() || !changes.removed.is_empty() {
            self.entries = Arc::new(self.catalog.entries());
        }
        let updates: Vec<CachedSummary> = changes.changed.iter().filter_map(to_cache).collect();
        if let Some(cache) = &self.cache
            && (!updates.is_empty() || !changes.removed.is_empty())
            && let Err(error) = cache.update(&updates, &changes.removed)
        {
            warn!(%error, "could not cache what the CLI's sessions are about");
        }
    }
}

fn from_cache(cached: CachedSummary) -> Option<CatalogEntry> {
    let CachedSummary { path, size, modified, inode, summary } = cached;
    let id = path.file_stem()?.to_str()?.parse().ok()?;
    let summary = Arc::new(serde_json::from_str(&summary).ok()?);
    Some(CatalogEntry { file: TranscriptFile { path, id, size, modified, inode }, summary })
}

fn to_cache(entry: &CatalogEntry) -> Option<CachedSummary> {
    let TranscriptFile { path, size, modified, inode, .. } = entry.file.clone();
    let summary = serde_json::to_string(&*entry.summary).ok()?;
    Some(CachedSummary { path, size, modified, inode, summary })
}
