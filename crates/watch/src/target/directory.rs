//! A directory that is kept like the project.
//!
//! A file is written beside its place and moved there, so whoever reads it sees the old content or
//! the new one, never half of it.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tokio::fs;
use tokio::io::AsyncWriteExt as _;

use super::{PushError, written_meanwhile};
use crate::project::{ProjectFile, resolved};
use crate::source_file::SourceFile;

/// The directory.
#[derive(Debug)]
pub struct DirectoryTarget {
    root: PathBuf,
    name: String,
    /// Whether files are not brought through links that lead out of it.
    confined: bool,
}

impl DirectoryTarget {
    /// The directory at `root`, which is made when the first file comes.
    pub fn new(root: &Path) -> io::Result<Self> {
        let name = root.display().to_string();
        Ok(Self { root: std::path::absolute(root)?, name, confined: false })
    }

    /// The directory at a path without links, of which nothing leads out: what is brought there stays
    /// there, whoever puts a link in it.
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

    pub(crate) async fn write<Still: Future<Output = bool>>(
        &self,
        file: &ProjectFile,
        mut source: SourceFile,
        still: impl FnOnce() -> Still,
    ) -> Result<(), PushError> {
        let place = self.root.join(&file.relative);
        let folder = place.parent().unwrap_or(&self.root);
        self.check_stays(folder)?;
        self.make_folder(folder).await?;
        let partial = tempfile::Builder::new().prefix(".towpath-").tempfile_in(folder)?;
        let (partial, path) = partial.into_parts();
        let mut partial = fs::File::from_std(partial);
        while let Some(piece) = source.piece().await? {
            partial.write_all(&piece).await?;
        }
        partial.flush().await?;
        // What lets a file act for its owner is not for a copy.
        let mode = source.version().mode & 0o777;
        partial.set_permissions(std::fs::Permissions::from_mode(mode)).await?;
        if !still().await {
            return Err(written_meanwhile());
        }
        drop(partial);
        match path.persist(&place) {
            Ok(()) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::IsADirectory => {
                // Where a file is now, there was a directory; if it has emptied, it goes.
                fs::remove_dir(&place).await?;
                error.path.persist(&place).map_err(|error| error.error.into())
            }
            Err(error) => Err(error.error.into()),
        }
    }

    pub(crate) async fn delete(&self, file: &ProjectFile) -> Result<(), PushError> {
        let place = self.root.join(&file.relative);
        self.check_stays(place.parent().unwrap_or(&self.root))?;
        match fs::remove_file(&place).await {
            Ok(()) => {}
            Err(error) if is_absence(&error) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut folder = place.parent();
        while let Some(path) = folder.filter(|path| *path != self.root) {
            // Goes as far as folders are empty.
            if fs::remove_dir(path).await.is_err() {
                break;
            }
            folder = path.parent();
        }
        Ok(())
    }

    fn check_stays(&self, folder: &Path) -> Result<(), PushError> {
        if self.confined && !resolved(folder).starts_with(&self.root) {
            return Err(PushError::Permanent("a link leads out of the target".to_owned()));
        }
        Ok(())
    }

    /// Makes the folder, in place of a file that may stand in its way.
    async fn make_folder(&self, folder: &Path) -> io::Result<()> {
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

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::DirectoryTarget;
    use crate::project::ProjectFile;
    use crate::source_file::FileLookup;
    use crate::target::PushError;

    async fn write(project: &tempfile::TempDir, path: &str, still: bool) -> Result<(), PushError> {
        let target = DirectoryTarget::new(&project.path().join("copy")).unwrap();
        let FileLookup::File(source) =
            FileLookup::at(&project.path().join("file"), None).await.unwrap()
        else {
            panic!("no file")
        };
        target.write(&ProjectFile { relative: path.into() }, *source, || async move { still }).await
    }

    #[tokio::test]
    async fn what_was_written_while_it_was_read_does_not_replace_what_is_there() {
        let project = tempfile::tempdir().unwrap();
        fs::write(project.path().join("file"), "one").unwrap();
        write(&project, "a", true).await.unwrap();
        fs::write(project.path().join("file"), "half of tw").unwrap();
        assert!(matches!(write(&project, "a", false).await, Err(PushError::Temporary(_))));
        assert_eq!(fs::read_to_string(project.path().join("copy/a")).unwrap(), "one");
        let left: Vec<_> = fs::read_dir(project.path().join("copy")).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing half-written is left behind");
    }

    #[tokio::test]
    async fn a_file_takes_the_place_of_an_empty_directory_and_a_directory_that_of_a_file() {
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
    async fn nothing_leaves_a_confined_directory_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        fs::create_dir_all(place.join("copy")).unwrap();
        fs::create_dir_all(place.join("outside")).unwrap();
        fs::write(place.join("outside/kept"), "x").unwrap();
        fs::write(place.join("file"), "new").unwrap();
        symlink(place.join("outside"), place.join("copy/out")).unwrap();
        symlink(place.join("outside/not-yet"), place.join("copy/dangling")).unwrap();
        symlink(place.join("outside/kept"), place.join("copy/kept")).unwrap();
        let target = DirectoryTarget::confined(place.join("copy"));
        let write = async |path: &str| {
            let found = FileLookup::at(&place.join("file"), None).await.unwrap();
            let FileLookup::File(source) = found else { panic!("no file") };
            target.write(&ProjectFile { relative: path.into() }, *source, async || true).await
        };
        for path in ["out/new", "out/deep/new", "dangling/new"] {
            assert!(write(path).await.is_err(), "{path}");
        }
        let gone = ProjectFile { relative: "out/kept".into() };
        assert!(target.delete(&gone).await.is_err());
        // A link in a file's place is replaced, not followed.
        write("kept").await.unwrap();
        assert_eq!(fs::read_to_string(place.join("outside/kept")).unwrap(), "x");
        assert_eq!(fs::read_dir(place.join("outside")).unwrap().count(), 1);
        // Neither through the target itself, if it is swapped for a link.
        fs::rename(place.join("copy"), place.join("moved")).unwrap();
        symlink(place.join("outside"), place.join("copy")).unwrap();
        assert!(write("new").await.is_err());
        assert_eq!(fs::read_dir(place.join("outside")).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn links_and_directories_are_noticed_not_followed() {
        let project = tempfile::tempdir().unwrap();
        let path = |name: &str| project.path().join(name);
        fs::write(path("file"), "x").unwrap();
        symlink(path("file"), path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        for (name, why) in [("link", "is a link"), ("folder", "is a directory")] {
            let found = FileLookup::at(&path(name), None).await.unwrap();
            assert!(matches!(found, FileLookup::Odd(said) if said == why), "{name}");
        }
        assert!(matches!(FileLookup::at(&path("none"), None).await.unwrap(), FileLookup::Gone));
        assert!(matches!(
            FileLookup::at(&path("file/below"), None).await.unwrap(),
            FileLookup::Gone
        ));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_fifo_is_noticed_and_not_waited_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let project = tempfile::tempdir().unwrap();
        let fifo = project.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let found = FileLookup::at(&fifo, None).await.unwrap();
        assert!(matches!(found, FileLookup::Odd("is no regular file")));
    }
}
