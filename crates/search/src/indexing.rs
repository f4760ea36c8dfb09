//! Bringing the index up to date.
//!
//! A pass compares the index with the journal and the CLI's session files: what is gone is removed, what
//! has grown is read from where it ended, the newest first. A long pass is planned again every few
//! seconds. Several processes may do that at the same
//! time; a transaction that finds another's work already done is given up and planned again.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use journal::{Journal, Seq, SessionId, SessionRecord};
use session::Sessions;
use tokio::sync::watch;
use transcripts::{CatalogEntry, TranscriptFile};

use crate::error::Error;
use crate::index_writer::{IndexWriter, MAX_LINE};
use crate::low_priority::WriterThread;
use crate::source::{SourceId, SourceRecord};

/// How many entries are read from the journal at once, and how many bytes of them.
const READ_ENTRIES: usize = 2048;
const READ_BYTES: usize = 2 << 20;

/// How many files are counted before the list is changed.
const COUNTED_FILES: usize = 16;

/// A longer pass is planned again after this time: what was said meanwhile comes before old files.
const PASS_TIME: Duration = Duration::from_secs(3);

/// A source that is so many entries or bytes behind is not indexed yet. A session that is just being
/// written to is always a little behind.
const FEW_ENTRIES: u64 = 2_000;
const FEW_BYTES: u64 = 1 << 20;

/// How many sessions are indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexProgress {
    pub done: usize,
    pub total: usize,
}

/// A session that is to be indexed.
#[derive(Debug)]
pub(crate) struct WantedSource {
    id: SourceId,
    inode: u64,
    /// The number of its last entry, or its size.
    end: u64,
    /// When it was last written to.
    active: u64,
}

impl WantedSource {
    pub(crate) fn of_session(record: &SessionRecord) -> Self {
        let id = SourceId::Session(record.id);
        Self { id, inode: 0, end: record.last.0, active: record.active }
    }

    pub(crate) fn of_file(entry: &CatalogEntry) -> Self {
        let TranscriptFile { path, inode, size, modified, .. } = &entry.file;
        let id = SourceId::File(path.clone());
        Self { id, inode: *inode, end: *size, active: *modified }
    }

    /// Whether the index has it, but for its last lines.
    pub(crate) fn is_indexed(&self, record: &SourceRecord) -> bool {
        let few = match self.id {
            SourceId::Session(_) => FEW_ENTRIES,
            SourceId::File(_) => FEW_BYTES,
        };
        let is_begun = record.done > 0 || self.end == 0;
        is_begun && record.inode == self.inode && record.done.saturating_add(few) >= self.end
    }
}

/// What a pass has to do.
#[derive(Debug, Default)]
struct IndexPlan {
    removed: Vec<SourceRecord>,
    /// Towpath's own sessions first, and the newest first.
    grown: Vec<WantedSource>,
    total: usize,
}

/// Everything that is to be searched: all sessions of the journal, and the CLI's session files that do
/// not belong to one of them.
fn wanted_sources(records: &[SessionRecord], transcripts: &[CatalogEntry]) -> Vec<WantedSource> {
    let known = known_conversations(records);
    let sessions = records.iter().filter(|it| it.damage.is_none()).map(WantedSource::of_session);
    let others = transcripts.iter().filter(|it| !known.contains(&it.file.id.to_string()));
    let files = others.map(WantedSource::of_file);
    sessions.chain(files).collect()
}

/// The CLI's ids of Towpath's sessions. A session that was just created gives the CLI its own id.
fn known_conversations(records: &[SessionRecord]) -> HashSet<String> {
    let ids = |record: &SessionRecord| record.agent_ids.clone().into_iter();
    records.iter().flat_map(|it| ids(it).chain([it.id.to_string()])).collect()
}

/// One pass over everything.
pub(crate) struct IndexPass<'a> {
    pub(crate) sessions: &'a Sessions,
    pub(crate) thread: &'a WriterThread,
    pub(crate) progress: &'a watch::Sender<Option<IndexProgress>>,
    /// Whether new lines are added. What is gone is always removed.
    pub(crate) adds: bool,
}

impl IndexPass<'_> {
    /// Runs the pass. False if there is more to do. If the future is dropped, what is written so far
    /// stays.
    pub(crate) async fn run(&self) -> Result<bool, Error> {
        let result = self.run_once().await;
        match result {
            Err(error) if error.is_damage() => {
                tracing::info!(%error, "the search index is made again");
                self.thread.run(|writer| writer.reopen(true)).await?;
                self.run_once().await
            }
            result => result,
        }
    }

    async fn run_once(&self) -> Result<bool, Error> {
        let start = Instant::now();
        let records = self.sessions.journal().sessions().await?;
        let transcripts = self.sessions.list_transcripts().await;
        let wanted = wanted_sources(&records, &transcripts);
        let known = self.thread.run(|writer| writer.sources()).await?;
        let mut plan = IndexPlan::new(wanted, known);
        if !self.adds {
            plan.grown.clear();
        }
        let removes = !plan.removed.is_empty();
        for source in plan.removed {
            self.thread.run(move |writer| writer.remove(source.key)).await?;
        }
        let (total, mut left) = (plan.total, plan.grown.len());
        for source in plan.grown {
            if start.elapsed() > PASS_TIME {
                break;
            }
            self.progress.send_replace(Some(IndexProgress { done: total - left, total }));
            self.add(source).await?;
            left -= 1;
        }
        self.thread.run(IndexWriter::commit).await?;
        if removes {
            self.thread.run(|writer| writer.purge()).await?;
        }
        if left == 0 {
            self.progress.send_replace(None);
        }
        Ok(left == 0)
    }

    /// Counts the messages of session files that are too large to be counted for a list.
    pub(crate) async fn count_messages(&self) -> Result<(), Error> {
        loop {
            let uncounted = self.sessions.uncounted_transcripts(COUNTED_FILES);
            if uncounted.is_empty() {
                return Ok(());
            }
            let count = move |_: &mut IndexWriter| {
                let counted = uncounted.into_iter().map(|entry| {
                    let before = entry.summary.counted.unwrap_or_default();
                    // A file that cannot be read has none, until it has changed.
                    let count = entry.file.count_messages(before).unwrap_or_default();
                    (entry.file, count)
                });
                Ok(counted.collect::<Vec<_>>())
            };
            let counts = self.thread.run(count).await?;
            self.sessions.set_message_counts(&counts);
        }
    }

    async fn add(&self, wanted: WantedSource) -> Result<(), Error> {
        let WantedSource { id, inode, active, .. } = wanted;
        let found = id.clone();
        let record = self.thread.run(move |writer| writer.source(&found, inode)).await?;
        match id {
            SourceId::Session(session) => self.add_session(session, record).await,
            SourceId::File(path) => self.add_file(path, record, active).await,
        }
    }

    async fn add_session(&self, session: SessionId, mut record: SourceRecord) -> Result<(), Error> {
        let journal: &Journal = self.sessions.journal();
        loop {
            let after = Seq(record.done);
            let read = journal.read_within(session, after, READ_ENTRIES, READ_BYTES, MAX_LINE);
            let entries = match read.await {
                Ok(entries) => entries,
                // It was deleted just now, or a part of it cannot be read. What can be is searched.
                Err(journal::Error::NoSuchSession(_) | journal::Error::DamagedSession { .. }) => {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            if entries.is_empty() {
                return Ok(());
            }
            let add = move |writer: &mut IndexWriter| {
                writer.add_entries(&mut record, &entries)?;
                Ok(record)
            };
            record = self.thread.run(add).await?;
            // The rest is a message that may go on.
            if record.done == after.0 {
                return Ok(());
            }
        }
    }

    async fn add_file(
        &self,
        path: PathBuf,
        mut record: SourceRecord,
        modified: u64,
    ) -> Result<(), Error> {
        loop {
            let file = path.clone();
            let add = move |writer: &mut IndexWriter| {
                let more = writer.add_lines(&mut record, &file, modified)?;
                Ok((record, more))
            };
            let more;
            (record, more) = self.thread.run(add).await?;
            if !more {
                return Ok(());
            }
        }
    }
}

impl IndexPlan {
    fn new(wanted: Vec<WantedSource>, known: Vec<SourceRecord>) -> Self {
        let total = wanted.len();
        let mut known: HashMap<SourceId, SourceRecord> =
            known.into_iter().map(|record| (record.id.clone(), record)).collect();
        let mut plan = Self { total, ..Self::default() };
        for source in wanted {
            match known.remove(&source.id) {
                // A file that was replaced or cut is read again.
                Some(record) if record.inode != source.inode || record.done > source.end => {
                    plan.removed.push(record);
                }
                Some(record) if record.done == source.end => continue,
                _ => {}
            }
            plan.grown.push(source);
        }
        plan.removed.extend(known.into_values());
        let is_file = |source: &WantedSource| matches!(source.id, SourceId::File(_));
        plan.grown.sort_by_key(|source| (is_file(source), std::cmp::Reverse(source.active)));
        plan
    }
}
