//! A log file of bounded size: when it is full, it is renamed and a new one is started.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The size at which a new file is started.
const MAX_BYTES: u64 = 5 << 20;

/// How many files there are at most, including the current one.
const MAX_FILES: usize = 5;

/// A file that only this user can read, and its predecessors `NAME.1`, `NAME.2`, ….
#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
}

impl RotatingFile {
    /// Opens the file to append to it, and creates its directory.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with_size(path, MAX_BYTES)
    }

    fn with_size(path: &Path, max_bytes: u64) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, max_bytes })
    }

    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..MAX_FILES).rev() {
            let from = if number == 1 { self.path.clone() } else { self.numbered(number - 1) };
            match fs::rename(from, self.numbered(number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        Ok(())
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

impl Write for RotatingFile {
    /// Writes a whole line, so that none is divided between two files.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.max_bytes {
            // If it cannot be renamed, the log goes on in the same file.
            let _ = self.rotate();
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    // It may have been created by another program.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::RotatingFile;

    #[test]
    fn the_newest_lines_are_kept_in_a_bounded_number_of_private_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/serve.log");
        for number in 0..100 {
            // Opening it again continues the file.
            let mut file = RotatingFile::with_size(&path, 100).unwrap();
            file.write_all(format!("line {number:04}\n").as_bytes()).unwrap();
            file.write_all(format!("and  {number:04}\n").as_bytes()).unwrap();
        }
        let mut names: Vec<_> =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|it| it.unwrap().path()).collect();
        names.sort();
        assert_eq!(names.len(), 5, "{names:?}");
        for name in &names {
            let metadata = fs::metadata(name).unwrap();
            assert!(metadata.len() <= 100);
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        }
        let newest = fs::read_to_string(&path).unwrap();
        assert!(newest.ends_with("line 0099\nand  0099\n"), "{newest}");
        let before = fs::read_to_string(&names[1]).unwrap();
        assert!(before.lines().count() == 10 && before.lines().all(|it| it.len() == 9), "{before}");
        fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    }
}
