//! A directory that mirrors the project.
//!
//! A file is written to a temporary name in the same directory, synced to the disk and then renamed, so
//! readers see the old content or the new one, never a part of it, even after a power failure. Symbolic
//! links in the directory are not followed.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tokio::fs;
use tokio::io::AsyncWriteExt as _;

use super::folder::TargetFolder;
use super::{PushError, changed_while_read};
use crate::files::SourceFile;
use crate::project::ProjectFile;

/// A directory that mirrors the project.
#[derive(Debug)]
pub struct DirectoryTarget {
    root: PathBuf,
    name: String,
    /// Whether to refuse symbolic links in the path of the directory itself.
    confined: bool,
}

impl DirectoryTarget {
    /// The directory at `root`. It is created with the first file.
    pub fn new(root: &Path) -> io::Result<Self> {
        let name = root.display().to_string();
        Ok(Self { root: std::path::absolute(root)?, name, confined: false })
    }

    /// The directory at a path without symbolic links. Nothing is written outside it, even if another
    /// process puts a link into it.
    pub fn confined(root: PathBuf) -> Self {
        let name = root.display().to_string();
        Self { root, name, confined: true }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) async fn write<Unchanged: Future<Output = bool>>(
        &self,
        file: &ProjectFile,
        mut source: SourceFile,
        unchanged: impl FnOnce() -> Unchanged,
    ) -> Result<(), PushError> {
        let folder = self.open_folder(file, true).await?;
        let (temporary, temporary_file) = folder.create_temporary()?;
        let mut temporary_file = fs::File::from_std(temporary_file);
        while let Some(chunk) = source.chunk().await? {
            temporary_file.write_all(&chunk).await?;
        }
        temporary_file.flush().await?;
        // The set-uid and set-gid bits are not copied.
        let mode = source.version().mode & 0o777;
        temporary_file.set_permissions(std::fs::Permissions::from_mode(mode)).await?;
        temporary_file.sync_all().await?;
        if !unchanged().await {
            return Err(changed_while_read());
        }
        drop(temporary_file);
        Ok(temporary.persist(name(file)?)?)
    }

    pub(crate) async fn delete(&self, file: &ProjectFile) -> Result<(), PushError> {
        let folder = match self.open_folder(file, false).await {
            Ok(folder) => folder,
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if folder.remove_file(name(file)?)? {
            folder.sync()?;
            folder.remove_empty();
        }
        Ok(())
    }

    /// Opens the directory of a file, on a thread that may block.
    async fn open_folder(&self, file: &ProjectFile, create: bool) -> io::Result<TargetFolder> {
        let (root, confined) = (self.root.clone(), self.confined);
        let below = file.relative.parent().unwrap_or(Path::new("")).to_owned();
        let open = move || {
            let mut folder = TargetFolder::root(&root, confined, create)?;
            folder.enter_path(&below, create)?;
            Ok(folder)
        };
        tokio::task::spawn_blocking(open).await?
    }
}

fn name(file: &ProjectFile) -> io::Result<&OsStr> {
    file.relative.file_name().ok_or_else(|| io::ErrorKind::InvalidFilename.into())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::DirectoryTarget;
    use crate::files::FileLookup;
    use crate::project::ProjectFile;
    use crate::target::PushError;

    async fn write(
        project: &tempfile::TempDir,
        path: &str,
        unchanged: bool,
    ) -> Result<(), PushError> {
        let target = DirectoryTarget::new(&project.path().join("copy")).unwrap();
        let FileLookup::File(source) =
            FileLookup::at(&project.path().join("file"), None).await.unwrap()
        else {
            panic!("no file")
        };
        target
            .write(&ProjectFile { relative: path.into() }, *source, || async move { unchanged })
            .await
    }

    #[tokio::test]
    async fn a_file_that_changed_while_it_was_read_does_not_replace_the_copy() {
        let project = tempfile::tempdir().unwrap();
        fs::write(project.path().join("file"), "one").unwrap();
        write(&project, "a", true).await.unwrap();
        fs::write(project.path().join("file"), "half of tw").unwrap();
        assert!(matches!(write(&project, "a", false).await, Err(PushError::Temporary(_))));
        assert_eq!(fs::read_to_string(project.path().join("copy/a")).unwrap(), "one");
        let left: Vec<_> = fs::read_dir(project.path().join("copy")).unwrap().collect();
        assert_eq!(left.len(), 1, "no temporary file is left");
    }

    #[tokio::test]
    async fn a_file_replaces_an_empty_directory_and_a_directory_replaces_a_file() {
        let project = tempfile::tempdir().unwrap();
        fs::write(project.path().join("file"), "x").unwrap();
        fs::create_dir_all(project.path().join("copy/a")).unwrap();
        write(&project, "a", true).await.unwrap();
        write(&project, "a/b/c", true).await.unwrap();
        assert!(project.path().join("copy/a/b/c").is_file());
        assert!(write(&project, "a", true).await.is_err(), "it is not empty");
        assert!(project.path().join("copy/a/b/c").is_file());
    }

    #[tokio::test]
    async fn nothing_is_written_outside_a_confined_directory_through_a_link() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        fs::create_dir_all(base.join("copy")).unwrap();
        fs::create_dir_all(base.join("outside")).unwrap();
        fs::write(base.join("outside/kept"), "x").unwrap();
        fs::write(base.join("file"), "new").unwrap();
        symlink(base.join("outside"), base.join("copy/out")).unwrap();
        symlink(base.join("outside/not-yet"), base.join("copy/dangling")).unwrap();
        symlink(base.join("outside/kept"), base.join("copy/kept")).unwrap();
        let target = DirectoryTarget::confined(base.join("copy"));
        let write = async |path: &str| {
            let found = FileLookup::at(&base.join("file"), None).await.unwrap();
            let FileLookup::File(source) = found else { panic!("no file") };
            target.write(&ProjectFile { relative: path.into() }, *source, async || true).await
        };
        for path in ["out/new", "out/deep/new", "dangling/new"] {
            assert!(write(path).await.is_err(), "{path}");
        }
        let gone = ProjectFile { relative: "out/kept".into() };
        assert!(target.delete(&gone).await.is_err());
        // A link with the name of the file is replaced, not followed.
        write("kept").await.unwrap();
        assert_eq!(fs::read_to_string(base.join("outside/kept")).unwrap(), "x");
        assert_eq!(fs::read_dir(base.join("outside")).unwrap().count(), 1);
        // The same holds if the target itself is replaced by a link.
        fs::rename(base.join("copy"), base.join("moved")).unwrap();
        symlink(base.join("outside"), base.join("copy")).unwrap();
        assert!(write("new").await.is_err());
        assert_eq!(fs::read_dir(base.join("outside")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn links_and_directories_are_not_followed() {
        let project = tempfile::tempdir().unwrap();
        let path = |name: &str| project.path().join(name);
        fs::write(path("file"), "x").unwrap();
        symlink(path("file"), path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        for (name, expected) in [("link", "is a symbolic link"), ("folder", "is a directory")] {
            let found = FileLookup::at(&path(name), None).await.unwrap();
            assert!(
                matches!(found, FileLookup::NotRegular(reason) if reason == expected),
                "{name}"
            );
        }
        assert!(matches!(FileLookup::at(&path("none"), None).await.unwrap(), FileLookup::Missing));
        assert!(matches!(
            FileLookup::at(&path("file/below"), None).await.unwrap(),
            FileLookup::Missing
        ));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_fifo_is_not_read() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let project = tempfile::tempdir().unwrap();
        let fifo = project.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let found = FileLookup::at(&fifo, None).await.unwrap();
        assert!(matches!(found, FileLookup::NotRegular("is not a regular file")));
    }
}
