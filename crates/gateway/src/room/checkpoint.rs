//! Folds that were saved, so that a long session is on the screen at once.
//!
//! A checkpoint is only ever a shortcut: whatever is wrong with one, the journal is folded anew. What
//! could be wrong: it was cut short by a crash, another version made it, or the journal is not the one
//! it was made of any more, having lost its end with the machine. So a file has a sum over it, and
//! names the last entry that is in the fold by number and content.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use journal::{Entry, SessionId, SpoolMark};
use tokio::task::spawn_blocking;
use tracing::debug;
use view::Fold;

use super::stage::Shown;

/// A file that is complete, and one that is being written.
const COMPLETE: &str = "view";
const UNFINISHED: &str = "new";

/// A first line that is longer is none.
const LONGEST_HEAD: u64 = 256;

/// A fold that can be saved, and what it was made of.
#[derive(Debug)]
pub(super) struct View {
    pub(super) fold: Fold,
    pub(super) shown: Shown,
    pub(super) upto: Upto,
}

/// Where in its session a fold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upto {
    /// The last entry that is in it.
    pub(super) anchor: Anchor,
    /// How much of the agent's output was in the journal by then, or a little less.
    pub(super) spool: SpoolMark,
}

/// An entry, by number and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub(super) seq: u64,
    sum: u64,
}

impl Anchor {
    pub(super) fn of(entry: &Entry) -> Self {
        let mut sum = DefaultHasher::new();
        (entry.at, &entry.bytes).hash(&mut sum);
        Self { seq: entry.seq.0, sum: sum.finish() }
    }
}

/// Where folds are saved.
#[derive(Debug)]
pub(super) struct Checkpoints {
    directory: PathBuf,
    known: Mutex<HashMap<SessionId, Upto>>,
}

impl Checkpoints {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory, known: Mutex::default() }
    }

    /// Looks which there are, and removes what a crash left unfinished. To be done before anything
    /// is saved.
    pub(super) async fn look(&self) {
        let directory = self.directory.clone();
        let found = spawn_blocking(move || heads(&directory)).await.unwrap_or_default();
        self.known().extend(found);
    }

    /// Whose folds are saved.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.known().keys().copied().collect()
    }

    /// Where a session's saved fold ends.
    pub(super) fn of(&self, session: SessionId) -> Option<Upto> {
        self.known().get(&session).copied()
    }

    pub(super) async fn load(&self, session: SessionId) -> Option<View> {
        let path = self.path(session, COMPLETE);
        spawn_blocking(move || read(&path)).await.ok().flatten()
    }

    /// Saves a fold. Only one at a time may.
    pub(super) async fn save(&self, session: SessionId, view: View) -> Option<View> {
        let (new, path) = (self.path(session, UNFINISHED), self.path(session, COMPLETE));
        let upto = view.upto;
        let written = spawn_blocking(move || {
            let written = write(&view, &new).and_then(|()| std::fs::rename(new, path));
            (view, written)
        });
        let (view, written) = written.await.ok()?;
        match written {
            Ok(()) => drop(self.known().insert(session, upto)),
            Err(error) => debug!(%session, %error, "a view could not be saved"),
        }
        Some(view)
    }

    pub(super) async fn forget(&self, session: SessionId) {
        // Where there is none there is nothing to forget.
        let _ = tokio::fs::remove_file(self.path(session, COMPLETE)).await;
        self.known().remove(&session);
    }

    fn path(&self, session: SessionId, extension: &str) -> PathBuf {
        self.directory.join(format!("{session}.{extension}"))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<SessionId, Upto>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first line of a file, less its sum.
fn head(upto: &Upto) -> String {
    let Upto { anchor: Anchor { seq, sum }, spool: SpoolMark { run, offset } } = upto;
    format!("{} {seq} {sum} {run} {offset}", version())
}

/// Another version's fold is not this one's, however alike they look.
fn version() -> &'static str {
    concat!("towpath-", env!("CARGO_PKG_VERSION"), "-", env!("TOWPATH_VIEW_EDITION"))
}

/// What a first line says: where the fold ends, and the sum of what follows.
fn parsed(head: &str) -> Option<(Upto, u64)> {
    let mut words = head.strip_suffix('\n')?.split(' ');
    if words.next()? != version() {
        return None;
    }
    let mut number = || words.next()?.parse().ok();
    let anchor = Anchor { seq: number()?, sum: number()? };
    let spool = SpoolMark { run: number()?, offset: number()? };
    Some((Upto { anchor, spool }, number()?))
}

fn write(view: &View, path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    // What is shown is one line: JSON has its newlines escaped.
    let mut body = serde_json::to_vec(&view.shown)?;
    body.push(b'\n');
    body.extend(view.fold.save());
    let mut bytes = format!("{} {}\n", head(&view.upto), sum(&body)).into_bytes();
    bytes.extend(body);
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    // It holds what the journal holds, which is nobody else's business.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(&bytes)
}

fn read(path: &Path) -> Option<View> {
    let mut file = BufReader::new(File::open(path).ok()?);
    let (upto, expected) = read_head(&mut file)?;
    let mut body = Vec::new();
    file.read_to_end(&mut body).ok()?;
    if sum(&body) != expected {
        return None;
    }
    let end = body.iter().position(|byte| *byte == b'\n')?;
    let shown = serde_json::from_slice(&body[..end]).ok()?;
    let fold = Fold::restore(&body[end + 1..]).ok()?;
    (fold.revision().0 <= upto.anchor.seq).then_some(View { fold, shown, upto })
}

fn read_head(file: &mut BufReader<File>) -> Option<(Upto, u64)> {
    let mut head = String::new();
    file.take(LONGEST_HEAD).read_line(&mut head).ok()?;
    parsed(&head)
}

/// What the files of a directory say in their first lines. What is of no use is removed.
fn heads(directory: &Path) -> Vec<(SessionId, Upto)> {
    let Ok(files) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        let name = path.file_stem().and_then(|it| it.to_str()).and_then(|it| it.parse().ok());
        let is = |extension: &str| path.extension().is_some_and(|it| it == extension);
        // Somebody else's file is left alone.
        let Some(session) = name.filter(|_| is(COMPLETE) || is(UNFINISHED)) else { continue };
        let file = File::open(&path).ok().filter(|_| is(COMPLETE));
        match file.and_then(|file| read_head(&mut BufReader::new(file))) {
            Some((upto, _)) => found.push((session, upto)),
            None => drop(std::fs::remove_file(&path)),
        }
    }
    found
}

fn sum(bytes: &[u8]) -> u64 {
    let mut sum = DefaultHasher::new();
    sum.write(bytes);
    sum.finish()
}
