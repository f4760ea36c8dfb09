//! Noticing which session files have changed, so that not all of them must be looked at.
//!
//! On Linux, inotify collects the changes until someone asks; nothing runs in between. Elsewhere there
//! is no such list, and all files are looked at.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::directory::TranscriptDirectory;

/// More folders are not watched: the system has a limit for all programs of a user together.
const MAX_FOLDERS: usize = 4096;

/// Changes of the files in some folders.
#[derive(Debug)]
pub(crate) struct FolderWatch(platform::Watch);

impl FolderWatch {
    /// Watches the folders in a directory. None if that is not possible.
    pub(crate) fn start(root: &Path, folders: &[PathBuf]) -> Option<Self> {
        if folders.len() > MAX_FOLDERS {
            return None;
        }
        platform::Watch::start(root, folders).map(Self)
    }

    /// The files that have changed since the last call. None if that is not known, or if there are other
    /// folders now: then everything must be looked at and watched again.
    pub(crate) fn changed_files(&mut self) -> Option<HashSet<PathBuf>> {
        self.0.changed_files()
    }
}

/// Waits for changes of session files.
#[derive(Debug)]
pub struct TranscriptChanges(Option<FolderWatch>);

impl TranscriptChanges {
    /// Changes from now on.
    pub fn start(directory: &TranscriptDirectory) -> Self {
        let folders: Vec<PathBuf> = directory.folders().collect();
        Self(FolderWatch::start(directory.root(), &folders))
    }

    /// Waits for a change. False if there was none in that time. If the system does not report changes,
    /// there may always be one. Blocks.
    pub fn wait(&self, most: Duration) -> bool {
        let changed = self.0.as_ref().and_then(|watch| watch.0.wait(most));
        changed.unwrap_or_else(|| {
            thread::sleep(most);
            true
        })
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::collections::{HashMap, HashSet};
    use std::ffi::OsStr;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use rustix::io::Errno;

    #[derive(Debug)]
    pub(super) struct Watch {
        changes: OwnedFd,
        root: i32,
        folders: HashMap<i32, PathBuf>,
    }

    impl Watch {
        pub(super) fn start(root: &Path, folders: &[PathBuf]) -> Option<Self> {
            let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let renamed = WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
            let added = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::DELETE_SELF | renamed;
            let written = added | WatchFlags::MODIFY | WatchFlags::ATTRIB;
            let root = inotify::add_watch(&changes, root, added).ok()?;
            let mut watched = HashMap::new();
            for folder in folders {
                watched.insert(inotify::add_watch(&changes, folder, written).ok()?, folder.clone());
            }
            Some(Self { changes, root, folders: watched })
        }

        /// Whether there is a change in that time; none if that cannot be said.
        pub(super) fn wait(&self, most: Duration) -> Option<bool> {
            let mut ready = [PollFd::new(&self.changes, PollFlags::IN)];
            let seconds = i64::try_from(most.as_secs()).unwrap_or(i64::MAX);
            let timeout = Timespec { tv_sec: seconds, tv_nsec: most.subsec_nanos().into() };
            match poll(&mut ready, Some(&timeout)) {
                Ok(count) => Some(count > 0),
                Err(Errno::INTR) => Some(false),
                Err(_) => None,
            }
        }

        pub(super) fn changed_files(&mut self) -> Option<HashSet<PathBuf>> {
            let mut changed = HashSet::new();
            let mut buffer = [MaybeUninit::uninit(); 16 << 10];
            let mut events = inotify::Reader::new(&self.changes, &mut buffer);
            loop {
                let event = match events.next() {
                    Ok(event) => event,
                    Err(Errno::AGAIN) => return Some(changed),
                    Err(Errno::INTR) => continue,
                    Err(_) => return None,
                };
                let gone = ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED | ReadFlags::DELETE_SELF;
                if event.events().intersects(gone) || event.wd() == self.root {
                    return None;
                }
                if let (Some(folder), Some(name)) =
                    (self.folders.get(&event.wd()), event.file_name())
                {
                    changed.insert(folder.join(OsStr::from_bytes(name.to_bytes())));
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::collections::HashSet;
    use std::path::{Path, PathBuf};

    #[derive(Debug)]
    pub(super) struct Watch;

    impl Watch {
        pub(super) fn start(_: &Path, _: &[PathBuf]) -> Option<Self> {
            None
        }

        #[expect(clippy::unused_self, reason = "other systems have a list")]
        pub(super) fn wait(&self, _: std::time::Duration) -> Option<bool> {
            None
        }

        #[expect(clippy::unused_self, reason = "other systems have a list")]
        pub(super) fn changed_files(&mut self) -> Option<HashSet<PathBuf>> {
            None
        }
    }
}
