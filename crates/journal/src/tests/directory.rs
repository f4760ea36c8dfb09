//! The permissions of the data directory.

#![cfg(unix)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use tempfile::TempDir;

use crate::{DirectoryWarning, Error, Journal, secure_directory};

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_new_directory_and_the_journal_in_it_are_private() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("a/b/towpath");
    assert_eq!(secure_directory(&data).unwrap(), []);
    assert_eq!(mode(&data), 0o700);
    let opened = Journal::open(&data.join("journal.db")).unwrap();
    for file in fs::read_dir(&data).unwrap() {
        let file = file.unwrap();
        assert_eq!(mode(&file.path()), 0o600, "{}", file.path().display());
    }
    drop(opened);
    assert_eq!(secure_directory(&data).unwrap(), [], "nothing is left to close");
}

#[test]
fn what_other_users_could_access_is_closed_and_reported() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("towpath");
    fs::create_dir_all(data.join("live/session/uploads")).unwrap();
    let outside = folder.path().join("outside");
    fs::write(&outside, "").unwrap();
    set_mode(&outside, 0o644);
    symlink(&outside, data.join("link")).unwrap();
    let _socket = UnixListener::bind(data.join("live/session/socket")).unwrap();
    let files = ["journal.db", "journal.db-wal", "towpath.log", "live/session/uploads/a.png"];
    for file in files {
        fs::write(data.join(file), "").unwrap();
        set_mode(&data.join(file), 0o664);
    }
    set_mode(&data.join("live/session/socket"), 0o777);
    fs::write(data.join("private"), "").unwrap();
    set_mode(&data.join("private"), 0o400);
    for directory in ["live", "live/session", "live/session/uploads"] {
        set_mode(&data.join(directory), 0o700);
    }
    set_mode(&data, 0o777);
    set_mode(folder.path(), 0o777);

    let warnings = secure_directory(&data).unwrap();
    for file in files {
        assert_eq!(mode(&data.join(file)), 0o600, "{file}");
    }
    assert_eq!(mode(&data.join("live/session/socket")), 0o700);
    assert_eq!((mode(&data), mode(folder.path())), (0o700, 0o775), "others may not replace it");
    assert_eq!((mode(&outside), mode(&data.join("private"))), (0o644, 0o400));
    assert_eq!(warnings.len(), files.len() + 3, "{warnings:?}");
    let database = data.canonicalize().unwrap().join("journal.db");
    let closed = DirectoryWarning::Closed { path: database, before: 0o664, now: 0o600 };
    assert!(warnings.contains(&closed), "{warnings:?}");
    assert_eq!(secure_directory(&data).unwrap(), []);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("towpath");
    fs::create_dir(&data).unwrap();
    let other_user = 65534;
    if std::os::unix::fs::chown(&data, Some(other_user), None).is_err() {
        eprintln!("skipped: only root may give a directory away");
        return;
    }
    let refused = secure_directory(&data);
    assert!(matches!(refused, Err(Error::UnsafeDirectory { .. })), "{refused:?}");

    std::os::unix::fs::chown(&data, Some(0), None).unwrap();
    fs::write(data.join("planted"), "").unwrap();
    std::os::unix::fs::chown(data.join("planted"), Some(other_user), None).unwrap();
    let planted = data.canonicalize().unwrap().join("planted");
    assert!(
        secure_directory(&data).unwrap().contains(&DirectoryWarning::Foreign { path: planted })
    );

    // The owner of the parent could give the directory to other users.
    std::os::unix::fs::chown(folder.path(), Some(other_user), None).unwrap();
    set_mode(folder.path(), 0o777);
    let refused = secure_directory(&data);
    assert!(matches!(refused, Err(Error::UnsafeDirectory { .. })), "{refused:?}");
}
