//! Outboxes of sessions that other machines drive: their files are copied to this machine, sent from there, and
//! then moved out of the outbox where they are.
//!
//! The path of a copy contains when the file was written, so a file that the agent writes again is another one.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use journal::SessionId;
use session::Sessions;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::outbox::{MAX_CHECKS, MAX_FILES, MAX_SIZE, OUTBOX, OutboxFile, SETTLE_TIME, is_picture};
use super::worker_files::{ListedFile, WorkerFileError, WorkerFiles};

/// Where copies are, below the data directory.
const COPIES: &str = "telegram-outbox";

/// For whom files are read and moved.
const USER: &str = "Telegram";

/// How many names are tried for a file that was sent.
const MAX_NAMES: usize = 100;

/// A file in the outbox of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerFile {
    session: SessionId,
    name: String,
}

/// What is known of copies. Files that are not copies are not in it.
#[derive(Debug, Default)]
pub(super) struct OutboxCopies(HashMap<PathBuf, (WorkerFile, CopyState)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyState {
    /// Chats will get it.
    Queued,
    /// It is being moved out of the outbox.
    Archiving,
    /// The next check does not find it any more.
    Archived,
    /// It was sent, and is still in the outbox: its machine could not be reached. It is not sent again.
    Stuck,
}

impl OutboxCopies {
    /// The copies of a session that need not be made again by the check that begins now.
    pub(super) fn begin_check(&mut self, session: SessionId) -> HashSet<PathBuf> {
        self.0.retain(|_, (file, state)| file.session != session || *state != CopyState::Archived);
        let of_session = self.0.iter().filter(|(_, (file, _))| file.session == session);
        of_session.map(|(path, _)| path.clone()).collect()
    }

    /// Whether a file is to be sent; not if it was.
    pub(super) fn add(&mut self, file: &OutboxFile) -> bool {
        let Some(origin) = &file.origin else { return true };
        let entry = self.0.entry(file.path.clone());
        entry.or_insert_with(|| (origin.clone(), CopyState::Queued)).1 == CopyState::Queued
    }

    /// The file that a copy was made of. None if the file is not a copy.
    pub(super) fn start_archiving(&mut self, path: &Path) -> Option<WorkerFile> {
        let (file, state) = self.0.get_mut(path)?;
        *state = CopyState::Archiving;
        Some(file.clone())
    }

    pub(super) fn archived(&mut self, path: &Path, is_done: bool) {
        if let Some((_, state)) = self.0.get_mut(path) {
            *state = if is_done { CopyState::Archived } else { CopyState::Stuck };
        }
    }

    pub(super) fn is_archiving(&self) -> bool {
        self.0.values().any(|(_, state)| *state == CopyState::Archiving)
    }
}

/// Removes what an earlier process has left.
pub(super) async fn remove_copies(data: &Path) {
    match tokio::fs::remove_dir_all(data.join(COPIES)).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            warn!(%error, "copies of files that were sent could not be removed");
        }
        _ => {}
    }
}

/// The files in the outbox of a session, once they no longer change, as copies. Those of `known` are left out.
pub(super) async fn find_files(
    sessions: &Sessions,
    session: SessionId,
    known: &HashSet<PathBuf>,
) -> Vec<OutboxFile> {
    let files = WorkerFiles::new(sessions.clone(), session, USER.to_owned());
    let listed = match list(&files).await {
        Ok(listed) => listed,
        Err(error) => {
            debug!(%session, %error, "the outbox cannot be read");
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for file in listed {
        let directory = sessions.config().data.join(COPIES).join(session.to_string());
        let directory = directory.join(file.modified.to_string());
        let path = directory.join(&file.name);
        if known.contains(&path) {
            continue;
        }
        if file.size <= MAX_SIZE {
            let copied = async {
                let created = tokio::fs::create_dir_all(&directory).await;
                created.map_err(|error| WorkerFileError::Failed(error.to_string()))?;
                files.copy(&in_outbox(&file.name), &path, MAX_SIZE).await
            };
            if let Err(error) = copied.await {
                warn!(%session, %error, "a file of the outbox could not be copied");
                continue;
            }
        }
        let picture = is_picture(&path, file.size);
        let origin = Some(WorkerFile { session, name: file.name });
        found.push(OutboxFile { path, size: file.size, picture, origin });
    }
    found
}

/// Moves a file out of the outbox: to `sent`, or to `unsent` if Telegram rejected it. The copy is removed.
pub(super) async fn archive(
    sessions: &Sessions,
    file: &WorkerFile,
    copy: &Path,
    sent: bool,
) -> Result<(), WorkerFileError> {
    let _ = tokio::fs::remove_file(copy).await;
    if let Some(directory) = copy.parent() {
        // Other copies may be in it.
        let _ = tokio::fs::remove_dir(directory).await;
    }
    let files = WorkerFiles::new(sessions.clone(), file.session, USER.to_owned());
    let folder = in_outbox(if sent { "sent" } else { "unsent" });
    match files.create_directory(&folder).await {
        // It exists.
        Ok(()) | Err(WorkerFileError::Status(409)) => {}
        Err(error) => return Err(error),
    }
    for number in 1..=MAX_NAMES {
        let prefix = if number == 1 { String::new() } else { format!("{number}-") };
        let to = format!("{folder}/{prefix}{}", file.name);
        match files.rename(&in_outbox(&file.name), &to).await {
            Err(WorkerFileError::Status(409)) => {}
            outcome => return outcome,
        }
    }
    Err(WorkerFileError::Failed(format!("there are {MAX_NAMES} files with this name")))
}

/// The files that can be sent, when two looks find the same.
async fn list(files: &WorkerFiles) -> Result<Vec<ListedFile>, WorkerFileError> {
    let look = async || -> Result<_, WorkerFileError> {
        let mut listed = files.list(&OUTBOX.join("/")).await?;
        listed.retain(is_sendable);
        listed.sort_by(|a, b| (a.modified, &a.name).cmp(&(b.modified, &b.name)));
        listed.truncate(MAX_FILES);
        Ok(listed)
    };
    let mut before = look().await?;
    if before.is_empty() {
        return Ok(before);
    }
    // Git does not show the files. If this fails, it does, and nothing else happens.
    let _ = files.create(&format!("{}/.gitignore", OUTBOX[0]), "*\n").await;
    for _ in 0..MAX_CHECKS {
        sleep(SETTLE_TIME).await;
        let now = look().await?;
        if now == before {
            break;
        }
        before = now;
    }
    Ok(before)
}

/// Whether a file can be sent. Its name becomes part of a path here.
fn is_sendable(file: &ListedFile) -> bool {
    let is_name = Path::new(&file.name).file_name().is_some_and(|it| it == file.name.as_str());
    file.is_regular_file() && file.size > 0 && is_name && !file.name.starts_with('.')
}

/// The path of a file in the outbox, relative to the session's directory.
fn in_outbox(name: &str) -> String {
    format!("{}/{name}", OUTBOX.join("/"))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use journal::SessionId;
    use serde_json::json;
    use uuid::Uuid;

    use super::{OutboxCopies, OutboxFile, WorkerFile, is_sendable};

    #[test]
    fn a_file_is_sent_once_also_if_it_cannot_be_moved_out_of_the_outbox() {
        let session = SessionId(Uuid::from_u128(1));
        let copy = |name: &str| {
            let origin = Some(WorkerFile { session, name: name.to_owned() });
            OutboxFile { path: PathBuf::from(name), size: 1, picture: false, origin }
        };
        let mut copies = OutboxCopies::default();
        assert!(copies.begin_check(session).is_empty());
        // Two checks may find it before it is sent; each chat knows what it has queued.
        assert!(copies.add(&copy("a")) && copies.add(&copy("a")) && copies.add(&copy("b")));
        assert!(copies.start_archiving(Path::new("a")).is_some() && copies.is_archiving());
        assert!(!copies.add(&copy("a")), "a check that began before finds it still");
        copies.archived(Path::new("a"), true);
        assert!(!copies.add(&copy("a")) && !copies.is_archiving());
        copies.start_archiving(Path::new("b"));
        copies.archived(Path::new("b"), false);
        let known = copies.begin_check(session);
        assert_eq!(known, [PathBuf::from("b")].into());
        assert!(!copies.add(&copy("b")));
        assert!(copies.add(&copy("a")), "the agent has written it again");
        // Files of this machine are not its business.
        let local = OutboxFile { origin: None, ..copy("c") };
        assert!(copies.add(&local) && copies.start_archiving(Path::new("c")).is_none());
    }

    #[test]
    fn a_worker_cannot_choose_where_its_files_are_copied_to() {
        let sendable = |name: &str, kind: &str, link: bool| {
            let file =
                json!({ "name": name, "kind": kind, "link": link, "size": 1, "modified": 1 });
            is_sendable(&serde_json::from_value(file).unwrap())
        };
        assert!(sendable("chart.png", "file", false));
        for name in ["../chart.png", "/etc/passwd", "a/b", "..", ".", "", ".hidden"] {
            assert!(!sendable(name, "file", false), "{name}");
        }
        assert!(!sendable("chart.png", "file", true) && !sendable("chart.png", "directory", false));
    }
}
