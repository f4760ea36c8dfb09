//! A directory that mirrors the project.
//!
//! A file is written to a temporary name in the same directory and then renamed, so readers see the old
//! content or the new one, never a part of it.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tokio::fs;
use tokio::io::AsyncWriteExt as _;

use super::{PushError, changed_while_read};
use crate::files::SourceFile;
use crate::project::{ProjectFile, resolve_links};

/// A directory that mirrors the project.
#[derive(Debug)]
pub struct DirectoryTarget {
    root: PathBuf,
    name: String,
    /// Whether to refuse symbolic links that lead out of the directory.
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
        let path = self.root.join(&file.relative);
        let folder = path.parent().unwrap_or(&self.root);
        self.check_confinement(folder)?;
        self.create_folder(folder).await?;
        let temporary = tempfile::Builder::new().prefix(".towpath-").tempfile_in(folder)?;
        let (temporary, temporary_path) = temporary.into_parts();
        let mut temporary = fs::File::from_std(temporary);
        while let Some(chunk) = source.chunk().await? {
            temporary.write_all(&chunk).await?;
        }
        temporary.flush().await?;
        // The set-uid and set-gid bits are not copied.
        let mode = source.version().mode & 0o777;
        temporary.set_permissions(std::fs::Permissions::from_mode(mode)).await?;
        if !unchanged().await {
            return Err(changed_while_read());
        }
        drop(temporary);
        match temporary_path.persist(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::IsADirectory => {
                // The file replaces a directory. It is removed only if it is empty.
                fs::remove_dir(&path).await?;
                error.path.persist(&path).map_err(|error| error.error.into())
            }
            Err(error) => Err(error.error.into()),
        }
    }

    pub(crate) async fn delete(&self, file: &ProjectFile) -> Result<(), PushError> {
        let path = self.root.join(&file.relative);
        self.check_confinement(path.parent().unwrap_or(&self.root))?;
        match fs::remove_file(&path).await {
            Ok(()) => {}
            Err(error) if is_missing(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut folder = path.parent();
        while let Some(parent) = folder.filter(|path| *path != self.root) {
            // This fails at the first folder that is not empty.
            if fs::remove_dir(parent).await.is_err() {
                break;
            }
            folder = parent.parent();
        }
        Ok(())
    }

    fn check_confinement(&self, folder: &Path) -> Result<(), PushError> {
        if self.confined && !resolve_links(folder).starts_with(&self.root) {
            return Err(PushError::Permanent("a symbolic link leads out of the target".to_owned()));
        }
        Ok(())
    }

    /// Creates the folder. A file that has the name of one of its parents is replaced.
    async fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let Err(error) = fs::create_dir_all(folder).await else { return Ok(()) };
        let below = folder.strip_prefix(&self.root).unwrap_or(Path::new(""));
        let mut path = self.root.clone();
        for part in below.components() {
            path.push(part);
            if fs::symlink_metadata(&path).await.is_ok_and(|it| it.is_file()) {
                fs::remove_file(&path).await?;
                return fs::create_dir_all(folder).await;
            }
        }
        Err(error)
    }
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
