//! Files that the agent wants to send to the user: those in `.towpath/outbox`.
//!
//! Only regular files count, no links and nothing hidden, so that a project from an untrusted source
//! cannot have a file from elsewhere sent. A file is sent when it no longer changes, and is then moved
//! to `sent`, so that it is sent once.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::{Grant, SessionRecord};
use tokio::time::sleep;
use uuid::Uuid;
use wire::consent::{ALL_EDIT_TOOLS, RuleKind};
use wire::note::Actor;

use super::worker_outbox::WorkerFile;

/// The outbox, below the working directory.
pub(super) const OUTBOX: [&str; 2] = [".towpath", "outbox"];

/// The namespace of the ids of grants.
const GRANTS: Uuid = Uuid::from_u128(0x746f_7770_6174_684f_8000_6f75_7462_6f78);

/// The largest file that a bot can send, in bytes.
pub(super) const MAX_SIZE: u64 = 50 << 20;

/// The largest file that a bot can send as a picture.
const MAX_PICTURE_SIZE: u64 = 10 << 20;

/// A file that has not changed for this long is complete.
pub(super) const SETTLE_TIME: Duration = Duration::from_millis(300);

/// How often files are checked for changes before they are sent anyway.
pub(super) const MAX_CHECKS: usize = 20;

/// How many files are sent at once. The others are sent after the next turn.
pub(super) const MAX_FILES: usize = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutboxFile {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    /// Whether it can be sent as a picture.
    pub(super) picture: bool,
    /// The file on another machine that this is a copy of.
    pub(super) origin: Option<WorkerFile>,
}

impl OutboxFile {
    pub(super) fn is_too_large(&self) -> bool {
        self.size > MAX_SIZE
    }

    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The files in the outbox of a working directory, once they no longer change.
pub(super) async fn find_files(directory: PathBuf) -> Vec<OutboxFile> {
    let find = async |directory: PathBuf| {
        let listed = tokio::task::spawn_blocking(move || list(&directory)).await;
        listed.ok().and_then(Result::ok).unwrap_or_default()
    };
    let mut before = find(directory.clone()).await;
    for _ in 0..MAX_CHECKS {
        if before.is_empty() {
            break;
        }
        sleep(SETTLE_TIME).await;
        let now = find(directory.clone()).await;
        if now == before {
            break;
        }
        before = now;
    }
    before.into_iter().map(|(file, _)| file).collect()
}

/// What lets the agent of a session write to its outbox without asking. There is one for each session,
/// so that one that a user has revoked is not given again. A directory whose name is not text gets
/// none.
pub(super) fn grant(session: &SessionRecord, by: Actor, now: u64) -> Option<Grant> {
    let [folder, outbox] = OUTBOX;
    Some(Grant {
        id: Uuid::new_v5(&GRANTS, session.id.0.as_bytes()),
        session: Some(session.id),
        directory: None,
        tool: ALL_EDIT_TOOLS.to_owned(),
        kind: RuleKind::Directory,
        pattern: Some(format!("{}/{folder}/{outbox}", session.directory.to_str()?)),
        until: None,
        by,
        created: now,
    })
}

/// Moves a file out of the outbox: to `sent`, or to `unsent` if Telegram rejected it.
pub(super) fn archive(path: &Path, sent: bool) -> io::Result<()> {
    let (Some(outbox), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let folder = outbox.join(if sent { "sent" } else { "unsent" });
    if let Err(error) = fs::create_dir(&folder)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    if !fs::symlink_metadata(&folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let name = name.to_string_lossy();
    let mut to = folder.join(&*name);
    let mut number = 2;
    while to.symlink_metadata().is_ok() {
        to = folder.join(format!("{number}-{name}"));
        number += 1;
    }
    fs::rename(path, to)
}

/// The files, and when each was last changed.
fn list(directory: &Path) -> io::Result<Vec<(OutboxFile, (i64, i64))>> {
    let mut outbox = directory.to_owned();
    for part in OUTBOX {
        outbox.push(part);
        if !fs::symlink_metadata(&outbox)?.is_dir() {
            return Ok(Vec::new());
        }
    }
    hide_from_git(&directory.join(OUTBOX[0]));
    let mut found = Vec::new();
    for entry in fs::read_dir(outbox)? {
        let entry = entry?;
        let path = entry.path();
        let metadata = fs::symlink_metadata(&path)?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !metadata.is_file() || hidden || metadata.len() == 0 {
            continue;
        }
        let (size, picture) = (metadata.len(), is_picture(&path, metadata.len()));
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        found.push((OutboxFile { path, size, picture, origin: None }, changed));
    }
    found.sort_by(|(a, at), (b, bt)| (at, &a.path).cmp(&(bt, &b.path)));
    found.truncate(MAX_FILES);
    Ok(found)
}

/// Has git ignore the files, which are not part of the project.
fn hide_from_git(folder: &Path) {
    let ignore = folder.join(".gitignore");
    if ignore.symlink_metadata().is_err() {
        // If this fails, git shows the files, and nothing else happens.
        let _ = fs::write(ignore, "*\n");
    }
}

pub(super) fn is_picture(path: &Path, size: u64) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    matches!(extension.as_str(), "png" | "jpg" | "jpeg" | "webp") && size <= MAX_PICTURE_SIZE
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{archive, find_files};

    #[tokio::test]
    async fn only_regular_files_are_found() {
        let project = tempfile::tempdir().unwrap();
        let outbox = project.path().join(".towpath/outbox");
        assert!(find_files(project.path().to_owned()).await.is_empty());
        fs::create_dir_all(outbox.join("folder")).unwrap();
        fs::write(outbox.join("chart.PNG"), "x").unwrap();
        fs::write(outbox.join("empty.txt"), "").unwrap();
        fs::write(outbox.join(".hidden"), "x").unwrap();
        fs::write(project.path().join("secret"), "x").unwrap();
        symlink(project.path().join("secret"), outbox.join("link")).unwrap();
        let files = find_files(project.path().to_owned()).await;
        assert_eq!(files.len(), 1, "{files:?}");
        assert!(files[0].picture && files[0].name() == "chart.PNG");
        archive(&files[0].path, true).unwrap();
        assert!(find_files(project.path().to_owned()).await.is_empty());
        assert!(outbox.join("sent/chart.PNG").is_file());
        fs::write(outbox.join("chart.PNG"), "y").unwrap();
        archive(&files[0].path, true).unwrap();
        assert!(outbox.join("sent/2-chart.PNG").is_file());
    }

    #[tokio::test]
    async fn an_outbox_behind_a_symbolic_link_is_ignored() {
        let (project, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(elsewhere.path().join("outbox")).unwrap();
        fs::write(elsewhere.path().join("outbox/key"), "x").unwrap();
        symlink(elsewhere.path(), project.path().join(".towpath")).unwrap();
        assert!(find_files(project.path().to_owned()).await.is_empty());
        fs::remove_file(project.path().join(".towpath")).unwrap();
        fs::create_dir(project.path().join(".towpath")).unwrap();
        symlink(elsewhere.path().join("outbox"), project.path().join(".towpath/outbox")).unwrap();
        assert!(find_files(project.path().to_owned()).await.is_empty());
    }
}
