//! Which session a source of the index is, and how much of everything is indexed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use journal::{SessionId, SessionRecord};
use transcripts::CatalogEntry;
use uuid::Uuid;

use crate::indexing::{IndexProgress, WantedSource};
use crate::scope::{ScopeFilter, SearchScope, SearchedSession};
use crate::source::{SourceId, SourceKey, SourceRecord};

/// The sources of the index, by session. It is made again when the index or the list of session files
/// has changed, and not for each search: there may be thousands of files.
#[derive(Debug, Default)]
pub(crate) struct IndexedSources {
    sources: Arc<Vec<SourceRecord>>,
    transcripts: Arc<Vec<CatalogEntry>>,
    /// The place of each source's session file in `transcripts`.
    files: HashMap<SourceKey, usize>,
    sessions: HashMap<SessionId, SourceRecord>,
    session_keys: HashMap<SourceKey, SessionId>,
    /// For each session file, whether it is indexed.
    is_indexed: Vec<bool>,
}

impl IndexedSources {
    pub(crate) fn new(
        sources: Arc<Vec<SourceRecord>>,
        transcripts: Arc<Vec<CatalogEntry>>,
    ) -> Self {
        let places = transcripts.iter().enumerate();
        let places: HashMap<_, _> =
            places.map(|(place, entry)| (entry.file.path.as_path(), place)).collect();
        let mut this = Self { is_indexed: vec![false; transcripts.len()], ..Self::default() };
        for source in &*sources {
            match &source.id {
                SourceId::Session(id) => {
                    this.sessions.insert(*id, source.clone());
                    this.session_keys.insert(source.key, *id);
                }
                SourceId::File(path) => {
                    let Some(place) = places.get(path.as_path()) else { continue };
                    this.files.insert(source.key, *place);
                    let wanted = WantedSource::of_file(&transcripts[*place]);
                    this.is_indexed[*place] = wanted.is_indexed(source);
                }
            }
        }
        drop(places);
        Self { sources, transcripts, ..this }
    }

    /// Whether it was made of these.
    pub(crate) fn is_of(
        &self,
        sources: &Arc<Vec<SourceRecord>>,
        transcripts: &Arc<Vec<CatalogEntry>>,
    ) -> bool {
        Arc::ptr_eq(&self.sources, sources) && Arc::ptr_eq(&self.transcripts, transcripts)
    }
}

/// The sessions that one search may find.
#[derive(Debug)]
pub(crate) struct SearchedSessions {
    indexed: Arc<IndexedSources>,
    records: HashMap<SessionId, SessionRecord>,
    /// The CLI's ids of Towpath's sessions.
    conversations: HashSet<Uuid>,
    filter: ScopeFilter,
    known: HashMap<SourceKey, Option<SearchedSession>>,
}

impl SearchedSessions {
    pub(crate) fn new(
        indexed: Arc<IndexedSources>,
        records: Vec<SessionRecord>,
        scope: SearchScope,
    ) -> Self {
        let conversations = records.iter().flat_map(|record| {
            let ids = record.agent_ids.iter().filter_map(|id| id.parse().ok());
            ids.chain([record.id.0])
        });
        let conversations = conversations.collect();
        let records = records.into_iter().map(|record| (record.id, record)).collect();
        let filter = ScopeFilter::new(scope);
        Self { indexed, records, conversations, filter, known: HashMap::new() }
    }

    /// How much is indexed; none if everything is.
    pub(crate) fn progress(&self) -> Option<IndexProgress> {
        let files = self.indexed.transcripts.iter().zip(&self.indexed.is_indexed);
        // One that was imported is not indexed: the session has its text.
        let files = files.filter(|(entry, _)| !self.conversations.contains(&entry.file.id));
        let files = files.map(|(_, is_indexed)| *is_indexed);
        let sessions = self.records.values().filter(|record| record.damage.is_none());
        let sessions = sessions.map(|record| {
            let source = self.indexed.sessions.get(&record.id);
            source.is_some_and(|source| WantedSource::of_session(record).is_indexed(source))
        });
        let (mut done, mut total) = (0, 0);
        for is_indexed in files.chain(sessions) {
            total += 1;
            done += usize::from(is_indexed);
        }
        (done < total).then_some(IndexProgress { done, total })
    }

    /// The session of a source, if it may be found.
    pub(crate) fn get(&mut self, source: SourceKey) -> Option<&SearchedSession> {
        if !self.known.contains_key(&source) {
            let session = self.look_up(source);
            self.known.insert(source, session);
        }
        self.known.get(&source)?.as_ref()
    }

    fn look_up(&mut self, source: SourceKey) -> Option<SearchedSession> {
        if let Some(id) = self.indexed.session_keys.get(&source) {
            return self.filter.own_session(self.records.get(id)?);
        }
        let entry = self.indexed.transcripts.get(*self.indexed.files.get(&source)?)?;
        if self.conversations.contains(&entry.file.id) {
            return None;
        }
        self.filter.session_file(entry)
    }
}
