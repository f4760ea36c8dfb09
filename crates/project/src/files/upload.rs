//! Receiving a file piece by piece.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _, File, OpenOptions};

use super::directory::{ProjectFiles, WritePlace, check_new_name};
use super::error::FileError;
use super::path::{MAX_NAME_BYTES, ProjectPath};
use super::protection::WriteAccess;
use super::write::create_temporary;

/// How much space an upload leaves on the disk, for the journal and the agent.
const RESERVED_BYTES: u64 = 64 << 20;

/// How often the space is looked at again.
const CHECK_BYTES: u64 = 8 << 20;

/// Where files go that are not meant for a certain directory.
const UPLOADS: [&str; 2] = [".towpath", "files"];

/// A file that is being received. Nothing is left of one that is not finished.
#[derive(Debug)]
pub struct FileUpload {
    place: WritePlace,
    file: File,
    temporary: Option<OsString>,
    written: u64,
    max_bytes: u64,
    checked: u64,
}

impl ProjectFiles {
    /// The directory for files that are not meant for a certain one. It ignores itself in git.
    pub fn create_upload_directory(&self) -> Result<ProjectPath, FileError> {
        let mut path = ProjectPath::default();
        for name in UPLOADS {
            path = path.join(OsStr::new(name));
            let mut private = DirBuilder::new();
            private.mode(0o700);
            match self.root.create_dir_with(path.as_path(), &private) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(error.into());
                }
                _ => {}
            }
            if !self.root.symlink_metadata(path.as_path())?.is_dir() {
                return Err(FileError::NotADirectory);
            }
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        match self.root.open_with(Path::new(UPLOADS[0]).join(".gitignore"), &options) {
            Ok(mut file) => file.write_all(b"*\n")?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
        Ok(path)
    }

    /// Starts to receive a file of `announced` bytes, if that is known.
    pub fn begin_upload(
        &self,
        path: &ProjectPath,
        announced: Option<u64>,
        max_bytes: u64,
        access: WriteAccess,
    ) -> Result<FileUpload, FileError> {
        let place = self.place(path, access)?;
        check_new_name(&place.name)?;
        if announced.is_some_and(|it| it > max_bytes) {
            return Err(FileError::TooLarge(max_bytes));
        }
        check_space(&place.directory, announced.unwrap_or(0))?;
        let (temporary, file) = create_temporary(&place.directory)?;
        let temporary = Some(temporary);
        Ok(FileUpload { place, file, temporary, written: 0, max_bytes, checked: 0 })
    }
}

impl FileUpload {
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.written += bytes.len() as u64;
        if self.written > self.max_bytes {
            return Err(FileError::TooLarge(self.max_bytes));
        }
        if self.written - self.checked > CHECK_BYTES {
            self.checked = self.written;
            check_space(&self.place.directory, 0)?;
        }
        Ok(self.file.write_all(bytes)?)
    }

    /// Gives the file its name, or one with a number if there is such a file already. Returns its path.
    pub fn finish(mut self) -> Result<ProjectPath, FileError> {
        self.file.sync_all()?;
        let directory = &self.place.directory;
        for number in 1_u32.. {
            let name = numbered(&self.place.name, number);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            // The name is taken first, so that no file of another one is replaced.
            match directory.open_with(&name, &options) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error.into()),
            }
            if let Some(temporary) = &self.temporary
                && let Err(error) = directory.rename(temporary, directory, &name)
            {
                let _ = directory.remove_file(&name);
                return Err(error.into());
            }
            self.temporary = None;
            return Ok(self.place.path.parent().join(&name));
        }
        Err(FileError::Exists)
    }
}

impl Drop for FileUpload {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = self.place.directory.remove_file(temporary);
        }
    }
}

fn check_space(directory: &Dir, needed: u64) -> Result<(), FileError> {
    let Ok(about) = rustix::fs::fstatvfs(directory) else { return Ok(()) };
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    // Some virtual file systems have no blocks at all.
    let is_known = about.f_blocks > 0;
    if is_known && free < needed.saturating_add(RESERVED_BYTES) {
        return Err(FileError::NoSpace);
    }
    Ok(())
}

/// `name.ext`, `name (2).ext`, `name (3).ext`.
fn numbered(name: &OsStr, number: u32) -> OsString {
    if number == 1 {
        return name.to_owned();
    }
    let bytes = name.as_bytes();
    let dot = bytes.iter().rposition(|it| *it == b'.').filter(|it| *it > 0);
    let (stem, ending) = bytes.split_at(dot.unwrap_or(bytes.len()));
    let suffix = [format!(" ({number})").as_bytes(), ending].concat();
    let room = MAX_NAME_BYTES.saturating_sub(suffix.len());
    // Names of new files are UTF-8.
    let stem = String::from_utf8_lossy(stem);
    let stem = &stem[..stem.floor_char_boundary(room)];
    OsString::from_vec([stem.as_bytes(), &suffix].concat())
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn a_number_goes_before_the_ending() {
        let check = |name: &str, number, expected: &str| {
            assert_eq!(numbered(name.as_ref(), number), expected, "{name}");
        };
        check("a.txt", 1, "a.txt");
        check("a.txt", 2, "a (2).txt");
        check("a.tar.gz", 12, "a.tar (12).gz");
        check(".env", 2, ".env (2)");
        check("Makefile", 2, "Makefile (2)");
        let long = numbered(format!("{}.txt", "ä".repeat(125)).as_ref(), 2);
        assert!(long.len() <= 255 && long.to_str().unwrap().ends_with("ä (2).txt"));
    }
}
