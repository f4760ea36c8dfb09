//! The open directory of a project, and the places in it that can be written to.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{Mode, OFlags};

use super::error::FileError;
use super::path::{MAX_NAME_BYTES, ProjectPath, name_text};
use super::protection::{Protection, WriteAccess, protection};

/// The files of a project. All functions block.
#[derive(Debug)]
pub struct ProjectFiles {
    pub(super) root: Dir,
    /// Where it is, with all links resolved.
    pub(super) path: PathBuf,
}

/// A name in an open directory, in which it may be written.
#[derive(Debug)]
pub(super) struct WritePlace {
    pub(super) directory: Dir,
    pub(super) name: OsString,
    /// Relative to the project, with the links of its directory resolved.
    pub(super) path: ProjectPath,
}

impl ProjectFiles {
    /// Opens a directory, whose path must be absolute and without links.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let root = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Self { root, path: path.to_owned() })
    }

    /// Whether a file may not be written like others, as its path looks.
    pub fn protection(&self, path: &ProjectPath) -> Option<Protection> {
        protection(&self.path.join(path.as_path()))
    }

    /// The place of a file or directory itself: a link is not followed.
    pub(super) fn place(
        &self,
        path: &ProjectPath,
        access: WriteAccess,
    ) -> Result<WritePlace, FileError> {
        let Some(name) = path.name() else {
            return Err(FileError::InvalidPath(String::new()));
        };
        let parent = self.root.canonicalize(path.parent().or_dot())?;
        // The project's own directory is `.`.
        let is_name = |it: &Component<'_>| matches!(it, Component::Normal(_));
        let parent: PathBuf = parent.components().filter(is_name).collect();
        let real = parent.join(name);
        match (protection(&self.path.join(&real)), access) {
            (Some(Protection::Git), _) => return Err(FileError::Git),
            (Some(Protection::Agent), WriteAccess::Ordinary) => return Err(FileError::NeedsAdmin),
            _ => {}
        }
        // What was resolved has no links. One that appears meanwhile could lead to a protected file.
        let mut directory = self.root.try_clone()?;
        for part in &parent {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&directory, part, flags, Mode::empty());
            let opened = opened.map_err(std::io::Error::from)?;
            directory = Dir::from_std_file(opened.into());
        }
        let path = parent.iter().fold(ProjectPath::default(), |it, name| it.join(name));
        Ok(WritePlace { directory, name: name.to_owned(), path: path.join(name) })
    }

    /// The place of what a path leads to: of a link, the file that it leads to.
    pub(super) fn target_place(
        &self,
        path: &ProjectPath,
        access: WriteAccess,
    ) -> Result<WritePlace, FileError> {
        let place = self.place(path, access)?;
        let is_link = place.directory.symlink_metadata(&place.name).is_ok_and(|it| it.is_symlink());
        if !is_link {
            return Ok(place);
        }
        let target = self.root.canonicalize(path.as_path())?;
        let target = target.iter().fold(ProjectPath::default(), |it, name| it.join(name));
        self.place(&target, access)
    }
}

/// How files are opened: a pipe would block without this.
pub(super) fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// Refuses names that a new file should not have.
pub(super) fn check_new_name(name: &OsStr) -> Result<(), FileError> {
    let text = name.to_str().filter(|it| !it.chars().any(char::is_control));
    if text.is_none() || name.len() > MAX_NAME_BYTES {
        return Err(FileError::InvalidName(name_text(name).chars().take(100).collect()));
    }
    Ok(())
}
