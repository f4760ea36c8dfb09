//! Searching all sessions.

use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use journal::{Entry, Origin, Seq, SessionId};
use session::Sessions;
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::warn;
use transcripts::TranscriptChanges;
use uuid::Uuid;

use crate::document::{LineContent, SearchRole};
use crate::error::Error;
use crate::index_file::IndexFile;
use crate::index_reader::{self, Candidate, CandidateWindow, IndexReader, WindowBounds};
use crate::index_writer::{MAX_LINE, time_of_row};
use crate::indexed_sources::{IndexedSources, SearchedSessions};
use crate::indexing::{IndexPass, IndexProgress};
use crate::low_priority::WriterThread;
use crate::message_chunks::{JoinedMessage, MAX_PIECES};
use crate::query::{IndexTerms, SearchQuery};
use crate::ranking::rank;
use crate::scope::{SearchScope, SearchedSession};
use crate::snippet::{SnippetPart, snippet};
use crate::time_limit::TimeLimit;

/// How many of the newest lines that match are ranked together.
const WINDOW: usize = 200;

/// How many lines are looked at for one window.
const SCANNED: usize = 50_000;

/// How many lines are read for one page, and how many of them at once.
const MAX_READS: usize = 600;
const READS_AT_ONCE: usize = 8;

/// How long it may take to find a window, and how long to find a page. A page that takes longer has fewer
/// results, but so many lines as results are wanted are always read.
const WINDOW_TIME: Duration = Duration::from_millis(15);
const PAGE_TIME: Duration = Duration::from_millis(30);

/// How long a search takes for a client that shows one page.
const ENOUGH_TIME: Duration = Duration::from_secs(3);

/// Behind all items that an entry begins. It is the largest rank that the API accepts.
const LAST_RANK: u32 = 999_999_999;

/// How long the index waits for more after a change.
const UPDATE_INTERVAL: Duration = Duration::from_secs(2);

/// How long the thread that watches session files waits before it looks whether it is still needed.
const WATCH_INTERVAL: Duration = Duration::from_mins(1);

/// How long it waits after a failure.
const RETRY_INTERVAL: Duration = Duration::from_mins(1);

/// Searches all sessions of a journal, and those of the CLI. Clones share it.
#[derive(Clone, Debug)]
pub struct Search {
    shared: Arc<SharedSearch>,
}

#[derive(Debug)]
struct SharedSearch {
    sessions: Sessions,
    reader: Arc<IndexReader>,
    /// The last ones, which are used as long as nothing changes.
    indexed: Arc<std::sync::Mutex<Arc<IndexedSources>>>,
    progress: watch::Sender<Option<IndexProgress>>,
    /// Held during a pass.
    pass: Mutex<()>,
    /// A search found that the index is damaged.
    is_damaged: AtomicBool,
    asked: Notify,
}

/// Why the index is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexTask {
    /// No user waits for it.
    Background,
    /// A user waits for it.
    Foreground,
    /// Only what is gone is removed.
    Forget,
}

/// What to look for, and where.
#[derive(Clone, Debug, Default)]
pub struct SearchRequest {
    pub text: String,
    pub scope: SearchScope,
    /// How many results are wanted.
    pub limit: usize,
    /// Where an earlier page ended.
    pub after: Option<SearchCursor>,
}

/// Where a page of results ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchCursor {
    /// The window begins before this row.
    before: i64,
    /// How many results of the window were looked at.
    seen: usize,
    /// Where the window ends, if that is known. It is found again as it was.
    end: Option<i64>,
}

/// A page of results.
#[derive(Clone, Debug, Default)]
pub struct SearchPage {
    pub results: Vec<SearchResult>,
    /// Where the next page begins; none if this is the last one. A page may have fewer results than
    /// wanted although there are more, because a search takes a bounded time.
    pub more: Option<SearchCursor>,
    /// How much is indexed, if not everything is.
    pub progress: Option<IndexProgress>,
}

/// A line that contains what was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchResult {
    pub session: FoundSession,
    pub title: Option<String>,
    /// The working directory of the session.
    pub directory: PathBuf,
    /// In milliseconds since 1970.
    pub at: u64,
    pub role: SearchRole,
    /// The last item that is not behind this position, `(entry, rank)`, is the one that was found.
    pub position: (u64, u32),
    pub snippet: Vec<SnippetPart>,
}

/// Whose session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundSession {
    /// A session of Towpath.
    Own(SessionId),
    /// A session that the CLI ran, by the CLI's id.
    OfCli(Uuid),
}

impl Search {
    /// The index is in the data directory of the sessions.
    pub fn new(sessions: Sessions) -> Self {
        let file = IndexFile::new(sessions.config().data.join("search.db"));
        let shared = SharedSearch {
            sessions,
            reader: Arc::new(IndexReader::new(file)),
            indexed: Arc::default(),
            progress: watch::Sender::new(None),
            pass: Mutex::default(),
            is_damaged: AtomicBool::new(false),
            asked: Notify::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Keeps the index up to date, in the background. Ends with the journal.
    pub async fn run(self) {
        self.watch_transcripts();
        let SharedSearch { sessions, asked, .. } = &*self.shared;
        let mut commits = sessions.journal().changes();
        loop {
            commits.mark_unchanged();
            let wait = match self.update_in(IndexTask::Background).await {
                Ok(false) => continue,
                Err(Error::Journal(journal::Error::Closed)) => return,
                // In a conflict, the other process is as far as this one.
                Ok(true) | Err(Error::Conflict) => UPDATE_INTERVAL,
                Err(error) => {
                    warn!(%error, "the search index could not be brought up to date");
                    RETRY_INTERVAL
                }
            };
            sleep(wait).await;
            tokio::select! {
                commit = commits.changed() => if commit.is_err() { return },
                () = asked.notified() => {}
            }
        }
    }

    /// Has a thread ask for a pass when session files have changed.
    fn watch_transcripts(&self) {
        let Some(directory) = self.shared.sessions.transcripts() else { return };
        let shared = Arc::downgrade(&self.shared);
        let watch = move || {
            let mut changes = TranscriptChanges::start(&directory);
            loop {
                let has_changed = changes.wait(WATCH_INTERVAL);
                let Some(shared) = shared.upgrade() else { return };
                if has_changed {
                    thread::sleep(UPDATE_INTERVAL);
                    // Before the pass looks at the files, and with the folders that are new.
                    changes = TranscriptChanges::start(&directory);
                    shared.asked.notify_one();
                }
            }
        };
        let started = thread::Builder::new().name("search-changes".to_owned()).spawn(watch);
        if let Err(error) = started {
            warn!(%error, "changes of the CLI's session files are noticed late");
        }
    }

    /// Brings the index up to date. If the future is dropped, what was indexed so far stays.
    pub async fn update(&self) -> Result<(), Error> {
        loop {
            match self.update_in(IndexTask::Foreground).await {
                Ok(false) => {}
                Err(Error::Conflict) => sleep(Duration::from_millis(50)).await,
                result => return result.map(drop),
            }
        }
    }

    /// Removes what is indexed of sessions that are gone, and their words from the file.
    pub async fn forget_deleted(&self) -> Result<(), Error> {
        if self.shared.reader.file().inode().is_none() {
            return Ok(());
        }
        self.update_in(IndexTask::Forget).await.map(drop)
    }

    /// Runs one pass. False if there is more to do.
    async fn update_in(&self, task: IndexTask) -> Result<bool, Error> {
        let SharedSearch { sessions, reader, progress, pass, is_damaged, .. } = &*self.shared;
        let _pass = pass.lock().await;
        let in_background = task == IndexTask::Background;
        let thread = WriterThread::start(reader.file().clone(), in_background).await?;
        let is_damaged = is_damaged.swap(false, Ordering::Relaxed);
        thread.run(move |writer| writer.reopen(is_damaged)).await?;
        let adds = task != IndexTask::Forget;
        let pass = IndexPass { sessions, thread: &thread, progress, adds };
        let mut result = pass.run().await;
        if matches!(result, Ok(true)) && in_background {
            result = pass.count_messages().await.map(|()| true);
        }
        if result.is_err() {
            progress.send_replace(None);
        }
        thread.finish().await;
        result
    }

    #[cfg(test)]
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.shared.sessions
    }

    /// How much is indexed; none if everything is.
    pub fn progress(&self) -> watch::Receiver<Option<IndexProgress>> {
        self.shared.progress.subscribe()
    }

    /// Searches what is indexed.
    pub async fn find(&self, request: SearchRequest) -> Result<SearchPage, Error> {
        let SharedSearch { asked, is_damaged, .. } = &*self.shared;
        let result = self.find_indexed(request).await;
        match result {
            Err(error) if error.is_damage() => {
                is_damaged.store(true, Ordering::Relaxed);
                asked.notify_one();
                let progress = Some(IndexProgress { done: 0, total: 1 });
                Ok(SearchPage { progress, ..SearchPage::default() })
            }
            result => result,
        }
    }

    /// Searches until there are as many results as wanted, or no more, or three seconds are over. For a
    /// client that shows one page and cannot ask for the next.
    pub async fn find_enough(&self, request: SearchRequest) -> Result<SearchPage, Error> {
        let start = Instant::now();
        let limit = request.limit;
        let mut page = self.find(request.clone()).await?;
        while page.results.len() < limit && page.more.is_some() && start.elapsed() < ENOUGH_TIME {
            let limit = limit - page.results.len();
            let next = SearchRequest { limit, after: page.more, ..request.clone() };
            let next = self.find(next).await?;
            page.results.extend(next.results);
            (page.more, page.progress) = (next.more, next.progress);
        }
        Ok(page)
    }

    async fn find_indexed(&self, request: SearchRequest) -> Result<SearchPage, Error> {
        let SearchRequest { text, scope, limit, after } = request;
        let mut page = SearchPage::default();
        let query = Arc::new(SearchQuery::parse(&text));
        let Some(terms) = query.index_terms() else { return Ok(page) };
        let terms = Arc::new(terms);
        let mut searched = self.searched(scope).await?;
        page.progress = searched.progress();
        if page.progress.is_some() {
            self.shared.asked.notify_one();
        }
        let mut cursor = after.unwrap_or(SearchCursor { before: i64::MAX, seen: 0, end: None });
        let (mut reads, mut left) = (0, PAGE_TIME);
        loop {
            let (window, used);
            (searched, window, used) =
                self.window(Arc::clone(&terms), cursor, searched, left.min(WINDOW_TIME)).await?;
            left = left.saturating_sub(used);
            cursor.end = Some(window.more.unwrap_or(i64::MIN));
            while let Some(unread) = window.candidates.get(cursor.seen..)
                && !unread.is_empty()
            {
                let wanted = limit.saturating_sub(page.results.len());
                let is_late = left.is_zero() && reads >= limit;
                if wanted == 0 || reads >= MAX_READS || is_late {
                    page.more = Some(cursor);
                    return Ok(page);
                }
                let unread = &unread[..unread.len().min(wanted).min(READS_AT_ONCE)];
                let lines = self.lines(unread, &mut searched).await?;
                let (results, used) = read_lines(lines, Arc::clone(&query)).await?;
                left = left.saturating_sub(used);
                cursor.seen += unread.len();
                reads += unread.len();
                page.results.extend(results);
            }
            let Some(before) = window.more else { return Ok(page) };
            cursor = SearchCursor { before, seen: 0, end: None };
            if window.candidates.is_empty() || left.is_zero() {
                page.more = Some(cursor);
                return Ok(page);
            }
        }
    }

    /// The next window in the order of results, and how long it took to find it.
    async fn window(
        &self,
        terms: Arc<IndexTerms>,
        cursor: SearchCursor,
        mut searched: SearchedSessions,
        time: Duration,
    ) -> Result<(SearchedSessions, CandidateWindow, Duration), Error> {
        let reader = Arc::clone(&self.shared.reader);
        run_blocking(move || {
            let limit = TimeLimit::start(time);
            let SearchCursor { before, end, .. } = cursor;
            let bounds = WindowBounds { before, end, wanted: WINDOW, scanned: SCANNED, limit };
            let mut window = reader.read(|connection| {
                let accepts = |source| searched.get(source).is_some();
                index_reader::candidates(connection, &terms, bounds, accepts)
            })?;
            rank(&mut window.candidates);
            Ok((searched, window, limit.used()))
        })
        .await
    }

    /// The sessions that are indexed and may be searched.
    async fn searched(&self, scope: SearchScope) -> Result<SearchedSessions, Error> {
        let SharedSearch { sessions, reader, indexed, .. } = &*self.shared;
        let records = sessions.journal().sessions().await?;
        let transcripts = sessions.list_transcripts().await;
        let (reader, indexed) = (Arc::clone(reader), Arc::clone(indexed));
        run_blocking(move || {
            let sources = reader.sources()?;
            let mut known = indexed.lock().unwrap_or_else(PoisonError::into_inner);
            if !known.is_of(&sources, &transcripts) {
                *known = Arc::new(IndexedSources::new(sources, transcripts));
            }
            let indexed = Arc::clone(&known);
            drop(known);
            Ok(SearchedSessions::new(indexed, records, scope))
        })
        .await
    }

    /// The lines of candidates. One that is gone is left out.
    async fn lines(
        &self,
        candidates: &[Candidate],
        searched: &mut SearchedSessions,
    ) -> Result<Vec<CandidateLine>, Error> {
        let journal = self.shared.sessions.journal();
        let mut lines = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let Some(session) = searched.get(candidate.source).cloned() else { continue };
            let mut entries = Vec::new();
            if let FoundSession::Own(id) = session.session {
                let after = Seq(candidate.place.saturating_sub(1));
                for count in [1, MAX_PIECES] {
                    entries = match journal.read_within(id, after, count, MAX_LINE, MAX_LINE).await
                    {
                        Ok(entries) => entries,
                        Err(journal::Error::NoSuchSession(_)) => Vec::new(),
                        Err(error) => return Err(error.into()),
                    };
                    // Only a message in pieces needs the entries behind it.
                    if JoinedMessage::read(&entries).is_none() {
                        break;
                    }
                }
                if entries.first().is_none_or(|it| it.seq.0 != candidate.place) {
                    continue;
                }
            }
            lines.push(CandidateLine { candidate: *candidate, session, entries });
        }
        Ok(lines)
    }
}

/// The line of a candidate.
#[derive(Debug)]
struct CandidateLine {
    candidate: Candidate,
    session: SearchedSession,
    /// The entries of a session of Towpath, of which the first is the line, or it begins there. A line of
    /// a session file is still to be read.
    entries: Vec<Entry>,
}

/// Reads lines. Those that do not contain what is looked for are left out. Also returns how long it took.
async fn read_lines(
    lines: Vec<CandidateLine>,
    query: Arc<SearchQuery>,
) -> Result<(Vec<SearchResult>, Duration), Error> {
    run_blocking(move || {
        let limit = TimeLimit::start(Duration::MAX);
        let results = lines.into_iter().filter_map(|line| line.read(&query)).collect();
        Ok((results, limit.used()))
    })
    .await
}

impl CandidateLine {
    /// None if the line does not contain what is looked for after all. Blocks.
    fn read(self, query: &SearchQuery) -> Option<SearchResult> {
        let Self { candidate, session, entries } = self;
        let Candidate { row, place, length, role, .. } = candidate;
        let (content, at, position) = if let Some(entry) = entries.first() {
            let content = match JoinedMessage::read(&entries) {
                Some(message) => LineContent { at: None, texts: vec![(role, message.text)] },
                None => LineContent::read(entry.origin, &entry.bytes),
            };
            let at = content.at.unwrap_or(entry.at);
            (content, at, (place, LAST_RANK))
        } else {
            let line = read_line(session.file.as_deref()?, place, length)?;
            let content = LineContent::read(Origin::Transcript, &line);
            let at = content.at.unwrap_or_else(|| time_of_row(row));
            // The number of a line of a file is its offset, counted from 1.
            (content, at, (place + 1, LAST_RANK))
        };
        let (_, text) = content.texts.into_iter().find(|(of, _)| *of == role)?;
        let matches = query.matches(&text)?;
        let snippet = snippet(&text, &matches);
        let SearchedSession { session, title, directory, .. } = session;
        Some(SearchResult { session, title, directory, at, role, position, snippet })
    }
}

fn read_line(path: &Path, offset: u64, length: u64) -> Option<Vec<u8>> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(offset)).ok()?;
    let mut line = vec![0; usize::try_from(length).ok()?.min(MAX_LINE)];
    file.read_exact(&mut line).ok()?;
    Some(line)
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    spawn_blocking(work).await.map_err(|_| Error::Stopped)?
}

impl fmt::Display for SearchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.before, self.seen)?;
        self.end.map_or(Ok(()), |end| write!(f, ".{end}"))
    }
}

/// A cursor that no page had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not the end of a page")]
pub struct InvalidCursor;

impl FromStr for SearchCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let mut parts = text.splitn(3, '.');
        let mut next = || parts.next().ok_or(InvalidCursor);
        let before = next()?.parse().map_err(|_| InvalidCursor)?;
        let seen = next()?.parse().map_err(|_| InvalidCursor)?;
        let end = parts.next().map(str::parse).transpose().map_err(|_| InvalidCursor)?;
        Ok(Self { before, seen, end })
    }
}
