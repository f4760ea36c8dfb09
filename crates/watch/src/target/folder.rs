//! A directory below the root of a target, opened without following symbolic links.
//!
//! Every component is opened relative to the one before it. So a link that another process puts into the
//! path, at whatever moment, is refused and nothing is written outside the target.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The mode of new directories, before the process's mask.
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

/// The mode of a file while it is written.
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);

/// How often a name for a temporary file is chosen.
const NAME_ATTEMPTS: u32 = 100;

/// An open directory, and the way to it.
#[derive(Debug)]
pub(super) struct TargetFolder {
    /// The root and the directories between it and this one, with the name of the next one.
    parents: Vec<(OwnedFd, OsString)>,
    directory: OwnedFd,
}

/// A file that has no name to keep yet. Dropping it removes it.
#[derive(Debug)]
pub(super) struct TemporaryFile<'a> {
    folder: &'a TargetFolder,
    name: String,
}

impl TargetFolder {
    /// Opens the root of a target, and creates it if `create` is set. `confined` refuses symbolic links
    /// in its path.
    pub(super) fn root(path: &Path, confined: bool, create: bool) -> io::Result<Self> {
        if !confined {
            if create {
                std::fs::create_dir_all(path)?;
            }
            let flags = flags().difference(OFlags::NOFOLLOW);
            let directory = rustix::fs::open(path, flags, Mode::empty())?;
            return Ok(Self { parents: Vec::new(), directory });
        }
        let directory = rustix::fs::openat(CWD, "/", flags(), Mode::empty())?;
        let mut root = Self { parents: Vec::new(), directory };
        root.enter_path(path, create)?;
        root.parents.clear();
        Ok(root)
    }

    /// Opens a directory below this one. Missing ones are created if `create` is set. Then also a file that
    /// has the name of one of them is replaced.
    pub(super) fn enter_path(&mut self, path: &Path, create: bool) -> io::Result<()> {
        for part in path.components() {
            match part {
                Component::Normal(name) => self.enter(name, create)?,
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(io::ErrorKind::InvalidFilename.into());
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, name: &OsStr, create: bool) -> io::Result<()> {
        let open = || rustix::fs::openat(&self.directory, name, flags(), Mode::empty());
        let mut opened = open();
        if create && let Err(error) = opened {
            match error {
                Errno::NOENT => {}
                Errno::NOTDIR if self.file_type(name) == Some(FileType::RegularFile) => {
                    rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?;
                }
                error => return Err(self.explain(name, error)),
            }
            match rustix::fs::mkdirat(&self.directory, name, FOLDER_MODE) {
                Ok(()) => self.sync()?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            opened = open();
        }
        let opened = opened.map_err(|error| self.explain(name, error))?;
        let parent = std::mem::replace(&mut self.directory, opened);
        self.parents.push((parent, name.to_owned()));
        Ok(())
    }

    fn file_type(&self, name: &OsStr) -> Option<FileType> {
        let status = rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(status.st_mode))
    }

    /// A symbolic link gets an error of its own, because another attempt would fail, too.
    fn explain(&self, name: &OsStr, error: Errno) -> io::Error {
        if self.file_type(name) != Some(FileType::Symlink) {
            return error.into();
        }
        let text = format!("`{}` in the target is a symbolic link", name.display());
        io::Error::new(io::ErrorKind::PermissionDenied, text)
    }

    pub(super) fn create_temporary(&self) -> io::Result<(TemporaryFile<'_>, std::fs::File)> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (process, mut number) = (std::process::id(), 0);
        loop {
            let name = format!(".towpath-{process}-{number}");
            match rustix::fs::openat(&self.directory, &*name, flags, FILE_MODE) {
                Ok(file) => return Ok((TemporaryFile { folder: self, name }, file.into())),
                Err(Errno::EXIST) if number < NAME_ATTEMPTS => number += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes a file. Returns whether there was one.
    pub(super) fn remove_file(&self, name: &OsStr) -> io::Result<bool> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes this directory and its parents up to the root, as far as they are empty.
    pub(super) fn remove_empty(mut self) {
        while let Some((parent, name)) = self.parents.pop() {
            // This fails at the first directory that is not empty.
            if rustix::fs::unlinkat(&parent, &*name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
            self.directory = parent;
        }
    }

    /// Writes the names in the directory to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // A directory without permission to read cannot be synced, and some file systems do not sync any.
        let opened = rustix::fs::openat(&self.directory, ".", flags, Mode::empty());
        match opened.and_then(rustix::fs::fsync) {
            Ok(()) | Err(Errno::ACCESS | Errno::INVAL | Errno::NOTSUP | Errno::BADF) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl TemporaryFile<'_> {
    /// Gives the file its name. A file, a link or an empty directory of that name is replaced.
    pub(super) fn persist(self, name: &OsStr) -> io::Result<()> {
        let folder = self.folder.fd();
        let rename = || rustix::fs::renameat(folder, &*self.name, folder, name);
        match rename() {
            Err(Errno::ISDIR) => {
                rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?;
                rename()?;
            }
            renamed => renamed?,
        }
        self.folder.sync()
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        // This fails after it got its name.
        let _ = rustix::fs::unlinkat(self.folder.fd(), &*self.name, AtFlags::empty());
    }
}

/// On Linux a directory can be passed through without permission to list it.
fn flags() -> OFlags {
    #[cfg(target_os = "linux")]
    let access = OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let access = OFlags::RDONLY;
    access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::TargetFolder;

    fn write(root: &Path, folder: &str, name: &str, confined: bool) -> std::io::Result<()> {
        let mut target = TargetFolder::root(root, confined, true)?;
        target.enter_path(Path::new(folder), true)?;
        let (temporary, mut file) = target.create_temporary()?;
        file.write_all(b"x")?;
        temporary.persist(OsStr::new(name))
    }

    #[test]
    fn nothing_is_written_through_a_link_that_is_swapped_in_at_any_moment() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let path = |name: &str| base.join(name);
        fs::create_dir_all(path("copy/dir")).unwrap();
        fs::create_dir_all(path("outside/deep")).unwrap();
        symlink(path("outside"), path("link")).unwrap();
        let done = AtomicBool::new(false);
        let (mut written, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for (from, to) in [
                        ("copy/dir", "real"),
                        ("link", "copy/dir"),
                        ("copy/dir", "link"),
                        ("real", "copy/dir"),
                    ] {
                        // The writer may have created the directory anew.
                        if fs::rename(path(from), path(to)).is_err() {
                            let _ = fs::remove_dir_all(path("copy/dir"));
                        }
                    }
                }
            });
            for number in 0..2000 {
                for confined in [true, false] {
                    match write(&path("copy"), "dir/deep", &format!("{number}"), confined) {
                        Ok(()) => written += 1,
                        Err(_) => refused += 1,
                    }
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(written > 0 && refused > 0, "{written} written, {refused} refused");
        assert_eq!(fs::read_dir(path("outside")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(path("outside/deep")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_the_target_is_refused_and_named() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("copy")).unwrap();
        fs::create_dir_all(base.path().join("outside")).unwrap();
        symlink("../outside", base.path().join("copy/out")).unwrap();
        for folder in ["out", "out/deep"] {
            let error = write(&base.path().join("copy"), folder, "a", false).unwrap_err();
            assert_eq!(error.to_string(), "`out` in the target is a symbolic link");
        }
        // The target itself may be a link, because the user has chosen it.
        symlink("copy", base.path().join("linked")).unwrap();
        write(&base.path().join("linked"), "in", "a", false).unwrap();
        assert!(base.path().join("copy/in/a").is_file());
        assert!(write(&base.path().join("linked"), "in", "b", true).is_err());
    }
}
