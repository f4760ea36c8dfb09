//! Files that the agent wants sent: those it puts into `.towpath/outbox`.
//!
//! Only plain files count, no links and nothing hidden: a project that comes from somebody else must
//! not be able to have something from elsewhere sent. A file is sent once nobody writes to it any
//! more, and then lies in `sent`, so that it is sent once.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

/// Where files lie that are to be sent.
const PLACE: [&str; 2] = [".towpath", "outbox"];

/// What a bot can send.
pub(super) const MOST: u64 = 50 << 20;

/// What a bot can send as a picture.
const MOST_PICTURE: u64 = 10 << 20;

/// A file that does not change for so long is complete.
const STILL: Duration = Duration::from_millis(300);

/// How often to look whether it is.
const LOOKS: usize = 20;

/// How many are sent at a time; the others after the next turn.
const FILES: usize = 20;

/// A file that the agent wants sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) path: PathBuf,
    pub(super) size: u64,
    /// Whether it can be shown as a picture.
    pub(super) picture: bool,
}

impl Offer {
    /// Whether it is too large to be sent.
    pub(super) fn is_too_large(&self) -> bool {
        self.size > MOST
    }

    /// What it is called.
    pub(super) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// What lies in the outbox of a directory, once it lies still.
pub(super) async fn look(directory: PathBuf) -> Vec<Offer> {
    let found = async |directory: PathBuf| {
        let listed = tokio::task::spawn_blocking(move || list(&directory)).await;
        listed.ok().and_then(Result::ok).unwrap_or_default()
    };
    let mut before = found(directory.clone()).await;
    for _ in 0..LOOKS {
        if before.is_empty() {
            break;
        }
        sleep(STILL).await;
        let now = found(directory.clone()).await;
        if now == before {
            break;
        }
        before = now;
    }
    before.into_iter().map(|(offer, _)| offer).collect()
}

/// A file is sent, or will never be: it is put aside.
pub(super) fn put_aside(path: &Path, sent: bool) -> io::Result<()> {
    let (Some(outbox), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let aside = outbox.join(if sent { "sent" } else { "unsent" });
    if let Err(error) = fs::create_dir(&aside)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error);
    }
    if !fs::symlink_metadata(&aside)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let name = name.to_string_lossy();
    let mut to = aside.join(&*name);
    let mut number = 2;
    while to.symlink_metadata().is_ok() {
        to = aside.join(format!("{number}-{name}"));
        number += 1;
    }
    fs::rename(path, to)
}

/// The files, and when each was last changed.
fn list(directory: &Path) -> io::Result<Vec<(Offer, (i64, i64))>> {
    let mut outbox = directory.to_owned();
    for part in PLACE {
        outbox.push(part);
        if !fs::symlink_metadata(&outbox)?.is_dir() {
            return Ok(Vec::new());
        }
    }
    hide_from_git(&directory.join(PLACE[0]));
    let mut found = Vec::new();
    for entry in fs::read_dir(outbox)? {
        let entry = entry?;
        let path = entry.path();
        let about = fs::symlink_metadata(&path)?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !about.is_file() || hidden || about.len() == 0 {
            continue;
        }
        let (size, picture) = (about.len(), is_picture(&path, &about));
        found.push((Offer { path, size, picture }, (about.mtime(), about.mtime_nsec())));
    }
    found.sort_by(|(a, at), (b, bt)| (at, &a.path).cmp(&(bt, &b.path)));
    found.truncate(FILES);
    Ok(found)
}

/// What the agent has for people is no part of the project.
fn hide_from_git(place: &Path) {
    let ignore = place.join(".gitignore");
    if ignore.symlink_metadata().is_err() {
        // Where that fails, git shows the files; nothing worse.
        let _ = fs::write(ignore, "*\n");
    }
}

fn is_picture(path: &Path, about: &Metadata) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    matches!(ending.as_str(), "png" | "jpg" | "jpeg" | "webp") && about.len() <= MOST_PICTURE
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::{look, put_aside};

    #[tokio::test]
    async fn plain_files_are_offered_and_nothing_else() {
        let project = tempfile::tempdir().unwrap();
        let outbox = project.path().join(".towpath/outbox");
        assert!(look(project.path().to_owned()).await.is_empty());
        fs::create_dir_all(outbox.join("folder")).unwrap();
        fs::write(outbox.join("chart.PNG"), "x").unwrap();
        fs::write(outbox.join("empty.txt"), "").unwrap();
        fs::write(outbox.join(".hidden"), "x").unwrap();
        fs::write(project.path().join("secret"), "x").unwrap();
        symlink(project.path().join("secret"), outbox.join("link")).unwrap();
        let offers = look(project.path().to_owned()).await;
        assert_eq!(offers.len(), 1, "{offers:?}");
        assert!(offers[0].picture && offers[0].name() == "chart.PNG");
        put_aside(&offers[0].path, true).unwrap();
        assert!(look(project.path().to_owned()).await.is_empty());
        assert!(outbox.join("sent/chart.PNG").is_file());
        fs::write(outbox.join("chart.PNG"), "y").unwrap();
        put_aside(&offers[0].path, true).unwrap();
        assert!(outbox.join("sent/2-chart.PNG").is_file());
    }

    #[tokio::test]
    async fn an_outbox_that_is_elsewhere_is_none() {
        let (project, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(elsewhere.path().join("outbox")).unwrap();
        fs::write(elsewhere.path().join("outbox/key"), "x").unwrap();
        symlink(elsewhere.path(), project.path().join(".towpath")).unwrap();
        assert!(look(project.path().to_owned()).await.is_empty());
        fs::remove_file(project.path().join(".towpath")).unwrap();
        fs::create_dir(project.path().join(".towpath")).unwrap();
        symlink(elsewhere.path().join("outbox"), project.path().join(".towpath/outbox")).unwrap();
        assert!(look(project.path().to_owned()).await.is_empty());
    }
}
