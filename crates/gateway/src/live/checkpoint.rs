//! Checkpoints: folded documents on disk, so that a long session opens at once.
//!
//! A checkpoint is only a shortcut. If anything is wrong with one, the journal is folded from the
//! start. It may have been cut short by a crash, come from another build, or belong to a journal
//! that lost its end with the machine. So the file has a checksum, and names the last folded entry
//! by number and content.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use journal::{Entry, Error, Follower, Journal, Seq, SessionId, SpoolPosition};
use tokio::task::spawn_blocking;
use tracing::debug;
use view::Fold;

use crate::limits::MAX_LINE_BYTES;

/// The extensions of a complete file and of one that is being written.
const COMPLETE: &str = "view";
const UNFINISHED: &str = "new";

/// The longest valid first line.
const MAX_HEADER_BYTES: u64 = 256;

/// How much of a document is kept in memory; older parts are folded again on demand.
const DOCUMENT_BYTES: usize = 2 << 20;

/// Where checkpoints are stored.
#[derive(Debug)]
pub(super) struct CheckpointStore {
    directory: PathBuf,
    known: Mutex<HashMap<SessionId, CheckpointPosition>>,
}

/// A folded document, the items rendered from it, and where in its session it ends.
#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) fold: Fold,
    pub(super) rendered: Vec<u8>,
    pub(super) position: CheckpointPosition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CheckpointPosition {
    pub(super) last_entry: EntryFingerprint,
    /// How much of the agent's output was in the journal by then, or a little less.
    pub(super) spool: SpoolPosition,
}

/// An entry, by number and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryFingerprint {
    pub(super) seq: u64,
    hash: u64,
}

impl EntryFingerprint {
    pub(super) fn of(entry: &Entry) -> Self {
        let mut hasher = DefaultHasher::new();
        (entry.at, &entry.bytes).hash(&mut hasher);
        Self { seq: entry.seq.0, hash: hasher.finish() }
    }
}

impl CheckpointStore {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, known: Mutex::default() }
    }

    /// Lists the stored checkpoints and removes what a crash left unfinished. Must be done before
    /// the first [`save`](Self::save).
    pub(super) async fn scan(&self) {
        let directory = self.directory.clone();
        let found = spawn_blocking(move || read_headers(&directory)).await.unwrap_or_default();
        self.known().extend(found);
    }

    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.known().keys().copied().collect()
    }

    pub(super) fn position(&self, session: SessionId) -> Option<CheckpointPosition> {
        self.known().get(&session).copied()
    }

    pub(super) async fn load(&self, session: SessionId) -> Option<Checkpoint> {
        let path = self.path(session, COMPLETE);
        spawn_blocking(move || read(&path)).await.ok().flatten()
    }

    /// Saves a checkpoint and returns it. Calls must not overlap.
    pub(super) async fn save(
        &self,
        session: SessionId,
        checkpoint: Checkpoint,
    ) -> Option<Checkpoint> {
        let (new, path) = (self.path(session, UNFINISHED), self.path(session, COMPLETE));
        let position = checkpoint.position;
        let written = spawn_blocking(move || {
            let written = write(&checkpoint, &new).and_then(|()| std::fs::rename(new, path));
            (checkpoint, written)
        });
        let (checkpoint, written) = written.await.ok()?;
        match written {
            Ok(()) => drop(self.known().insert(session, position)),
            Err(error) => debug!(%session, %error, "a checkpoint could not be saved"),
        }
        Some(checkpoint)
    }

    pub(super) async fn remove(&self, session: SessionId) {
        // The file may be missing already.
        let _ = tokio::fs::remove_file(self.path(session, COMPLETE)).await;
        self.known().remove(&session);
    }

    fn path(&self, session: SessionId, extension: &str) -> PathBuf {
        self.directory.join(format!("{session}.{extension}"))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, CheckpointPosition>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that is about to be folded, from its checkpoint or from the start.
#[derive(Debug)]
pub(super) struct Replay {
    pub(super) fold: Fold,
    pub(super) rendered: Option<Vec<u8>>,
    /// Where `fold` ends; `None` if it is empty.
    pub(super) position: Option<CheckpointPosition>,
    /// The entries to fold next, before those of `follower`.
    pub(super) entries: Vec<Entry>,
    pub(super) follower: Follower,
}

impl Replay {
    pub(super) async fn start(
        journal: &Journal,
        checkpoints: &CheckpointStore,
        session: SessionId,
    ) -> Result<Self, Error> {
        if let Some(Checkpoint { fold, rendered, position }) = checkpoints.load(session).await {
            // The last folded entry is read again. If it changed or is missing, the checkpoint
            // belongs to another journal.
            let last = position.last_entry;
            let mut follower = follow(journal, session, Seq(last.seq.saturating_sub(1)));
            let mut entries = follower.ready().await?;
            if entries.first().is_some_and(|it| EntryFingerprint::of(it) == last) {
                entries.remove(0);
                let (rendered, position) = (Some(rendered), Some(position));
                return Ok(Self { fold, rendered, position, entries, follower });
            }
            checkpoints.remove(session).await;
        }
        Ok(Self {
            fold: Fold::with_budget(DOCUMENT_BYTES),
            rendered: None,
            position: None,
            entries: Vec::new(),
            follower: follow(journal, session, Seq(0)),
        })
    }
}

/// Lines that are too long are folded by their beginning, and so shown raw.
fn follow(journal: &Journal, session: SessionId, after: Seq) -> Follower {
    journal.follow(session, after).omit_longer_than(MAX_LINE_BYTES)
}

/// The first line of a file, without the checksum at its end.
fn header(position: &CheckpointPosition) -> String {
    let EntryFingerprint { seq, hash } = position.last_entry;
    let SpoolPosition { run, offset } = position.spool;
    format!("{} {seq} {hash} {run} {offset}", build())
}

/// Checkpoints of another build are not used, even if they look the same.
fn build() -> &'static str {
    concat!("towpath-", env!("CARGO_PKG_VERSION"), "-", env!("TOWPATH_VIEW_EDITION"))
}

/// Parses a first line into a position and the checksum of what follows.
fn parse_header(header: &str) -> Option<(CheckpointPosition, u64)> {
    let mut words = header.strip_suffix('\n')?.split(' ');
    if words.next()? != build() {
        return None;
    }
    let mut number = || words.next()?.parse().ok();
    let last_entry = EntryFingerprint { seq: number()?, hash: number()? };
    let spool = SpoolPosition { run: number()?, offset: number()? };
    Some((CheckpointPosition { last_entry, spool }, number()?))
}

fn write(checkpoint: &Checkpoint, path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut body = format!("{}\n", checkpoint.rendered.len()).into_bytes();
    body.extend_from_slice(&checkpoint.rendered);
    body.extend(checkpoint.fold.save());
    let header = format!("{} {}\n", header(&checkpoint.position), checksum(&body));
    let mut bytes = header.into_bytes();
    bytes.extend(body);
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    // It holds parts of the journal, which only this user may read.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(&bytes)
}

fn read(path: &Path) -> Option<Checkpoint> {
    let mut file = BufReader::new(File::open(path).ok()?);
    let (position, expected) = read_header(&mut file)?;
    let mut body = Vec::new();
    file.read_to_end(&mut body).ok()?;
    if checksum(&body) != expected {
        return None;
    }
    let end = body.iter().position(|byte| *byte == b'\n')?;
    let length: usize = std::str::from_utf8(&body[..end]).ok()?.parse().ok()?;
    let (rendered, fold) = body.get(end + 1..)?.split_at_checked(length)?;
    let fold = Fold::restore(fold).ok()?;
    let rendered = rendered.to_vec();
    (fold.revision().0 <= position.last_entry.seq).then_some(Checkpoint {
        fold,
        rendered,
        position,
    })
}

fn read_header(file: &mut BufReader<File>) -> Option<(CheckpointPosition, u64)> {
    let mut header = String::new();
    file.take(MAX_HEADER_BYTES).read_line(&mut header).ok()?;
    parse_header(&header)
}

/// Reads the headers of all files in a directory and removes files that are of no use.
fn read_headers(directory: &Path) -> Vec<(SessionId, CheckpointPosition)> {
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        let name = path.file_stem().and_then(|it| it.to_str()).and_then(|it| it.parse().ok());
        let is = |extension: &str| path.extension().is_some_and(|it| it == extension);
        // Other files are left alone.
        let Some(session) = name.filter(|_| is(COMPLETE) || is(UNFINISHED)) else { continue };
        let file = File::open(&path).ok().filter(|_| is(COMPLETE));
        match file.and_then(|file| read_header(&mut BufReader::new(file))) {
            Some((position, _)) => found.push((session, position)),
            None => drop(std::fs::remove_file(&path)),
        }
    }
    found
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
