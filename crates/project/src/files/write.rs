//! Changing files: saving, creating, renaming, deleting.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use cap_std::fs::{Dir, File, OpenOptions, Permissions, PermissionsExt as _};

use super::content::{MAX_EDIT_BYTES, RegularFile, content_tag};
use super::directory::{ProjectFiles, WritePlace, check_new_name, reading};
use super::error::FileError;
use super::path::ProjectPath;
use super::protection::WriteAccess;

/// What a file must be for it to be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveCondition {
    /// It has the content with this tag.
    Unchanged(String),
    /// There is none.
    New,
}

impl ProjectFiles {
    /// Replaces a file as a whole, or creates one. Returns the tag of the new content.
    pub fn save(
        &self,
        path: &ProjectPath,
        content: &[u8],
        condition: &SaveCondition,
        access: WriteAccess,
    ) -> Result<String, FileError> {
        if content.len() as u64 > MAX_EDIT_BYTES {
            return Err(FileError::TooLarge(MAX_EDIT_BYTES));
        }
        match condition {
            SaveCondition::New => {
                let place = self.place(path, access)?;
                check_new_name(&place.name)?;
                create(&place, content)?;
            }
            SaveCondition::Unchanged(tag) => {
                let place = self.target_place(path, access)?;
                replace(&place, content, tag)?;
            }
        }
        Ok(content_tag(content))
    }

    pub fn create_directory(
        &self,
        path: &ProjectPath,
        access: WriteAccess,
    ) -> Result<(), FileError> {
        let place = self.place(path, access)?;
        check_new_name(&place.name)?;
        Ok(place.directory.create_dir(&place.name)?)
    }

    /// Renames or moves a file, a directory or a link. Never replaces anything.
    pub fn rename(
        &self,
        from: &ProjectPath,
        to: &ProjectPath,
        access: WriteAccess,
    ) -> Result<(), FileError> {
        let (from, to) = (self.place(from, access)?, self.place(to, access)?);
        check_new_name(&to.name)?;
        from.directory.symlink_metadata(&from.name)?;
        if to.path.as_path().starts_with(from.path.as_path()) {
            return Err(FileError::Exists);
        }
        rename_new(&from, &to)
    }

    /// Deletes a file, a link, or a directory; one that is not empty only if `recursive`.
    pub fn delete(
        &self,
        path: &ProjectPath,
        recursive: bool,
        access: WriteAccess,
    ) -> Result<(), FileError> {
        let place = self.place(path, access)?;
        let about = place.directory.symlink_metadata(&place.name)?;
        match (about.is_dir(), recursive) {
            (false, _) => place.directory.remove_file(&place.name)?,
            (true, false) => place.directory.remove_dir(&place.name)?,
            (true, true) => place.directory.remove_dir_all(&place.name)?,
        }
        Ok(())
    }
}

fn create(place: &WritePlace, content: &[u8]) -> Result<(), FileError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let mut file = place.directory.open_with(&place.name, &options)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = place.directory.remove_file(&place.name);
        return Err(error.into());
    }
    Ok(())
}

fn replace(place: &WritePlace, content: &[u8], tag: &str) -> Result<(), FileError> {
    let open = || -> Result<RegularFile, FileError> {
        RegularFile::new(place.directory.open_with(&place.name, &reading())?.into_std())
    };
    let current = match open() {
        // A file that is gone has changed too.
        Err(FileError::NotFound) => return Err(FileError::Changed),
        current => current?,
    };
    if current.size() > MAX_EDIT_BYTES || current.tag()? != tag {
        return Err(FileError::Changed);
    }
    let version = current.version().to_owned();
    let about = current.into_file().metadata()?;
    if about.mode() & 0o222 == 0 {
        return Err(FileError::Denied);
    }
    let (temporary, mut file) = create_temporary(&place.directory)?;
    let prepared = (|| -> Result<(), FileError> {
        file.set_permissions(Permissions::from_mode(about.mode() & 0o777))?;
        let own = file.metadata()?;
        let (user, group) = (about.uid(), about.gid());
        if (cap_std::fs::MetadataExt::uid(&own), cap_std::fs::MetadataExt::gid(&own))
            != (user, group)
        {
            let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
            // Only root can give a file away; anyone else saves it as an own file.
            let _ = rustix::fs::fchown(&file, Some(user), Some(group));
        }
        file.write_all(content)?;
        file.sync_all()?;
        if open()?.version() != version {
            return Err(FileError::Changed);
        }
        Ok(place.directory.rename(&temporary, &place.directory, &place.name)?)
    })();
    if prepared.is_err() {
        let _ = place.directory.remove_file(&temporary);
    }
    prepared
}

/// A new file with a name that nothing else has, which the caller renames or removes.
pub(super) fn create_temporary(directory: &Dir) -> Result<(OsString, File), FileError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.subsec_nanos());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".towpath-{:x}-{now:x}-{number:x}.tmp", process::id());
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        match directory.open_with(&name, &options) {
            Ok(file) => return Ok((name.into(), file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(target_os = "linux")]
fn rename_new(from: &WritePlace, to: &WritePlace) -> Result<(), FileError> {
    use rustix::fs::RenameFlags;
    use rustix::io::Errno;
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(&from.directory, &from.name, &to.directory, &to.name, flags) {
        // Some file systems cannot do that.
        Err(Errno::INVAL | Errno::NOSYS) => rename_if_free(from, to),
        Err(error) => Err(io::Error::from(error).into()),
        Ok(()) => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_new(from: &WritePlace, to: &WritePlace) -> Result<(), FileError> {
    rename_if_free(from, to)
}

fn rename_if_free(from: &WritePlace, to: &WritePlace) -> Result<(), FileError> {
    if to.directory.symlink_metadata(&to.name).is_ok() {
        return Err(FileError::Exists);
    }
    Ok(from.directory.rename(&from.name, &to.directory, &to.name)?)
}
