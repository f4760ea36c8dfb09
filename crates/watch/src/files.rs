//! Files of the project on disk: reading one, and finding all that changed.
//!
//! A file is opened without following a symbolic link at the end of its path and without blocking, so
//! that a link or a FIFO that has replaced it is detected. An agent may write the file while it is being
//! read, so the reader checks afterwards whether it is [unchanged](FileVersion::is_current).
//!
//! What shell commands changed is found by comparing an index of the project before and after. It holds
//! the size, times, mode and inode of each file. Files that `.gitignore` excludes are not in it. A change
//! by another process at the same time is attributed to the shell.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use ignore::WalkBuilder;
use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use crate::delivery::UploadProgress;
use crate::project::{Project, ProjectFile};

/// How many bytes are read at a time.
const CHUNK: usize = 64 << 10;

/// What is at a path.
pub(crate) enum FileLookup {
    File(Box<SourceFile>),
    /// The file was deleted.
    Missing,
    /// Something without content to deliver, and what it is.
    NotRegular(&'static str),
}

/// A file that is being read.
pub(crate) struct SourceFile {
    file: File,
    version: FileVersion,
    progress: Option<UploadProgress>,
}

/// The metadata that changes when a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileVersion {
    pub(crate) length: u64,
    pub(crate) mode: u32,
    modified: (i64, i64),
    inode: u64,
}

impl FileVersion {
    pub(crate) fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            length: metadata.len(),
            mode: metadata.mode() & 0o7777,
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            inode: metadata.ino(),
        }
    }

    pub(crate) fn inode(self) -> u64 {
        self.inode
    }
}

impl FileLookup {
    /// Opens the file at a path. Reading it updates `progress`.
    pub(crate) async fn at(path: &Path, progress: Option<UploadProgress>) -> io::Result<Self> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = match tokio::fs::OpenOptions::from(options).open(path).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            // A directory of the path has become a file.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Self::Missing),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Ok(Self::NotRegular("is a symbolic link"));
            }
            Err(error) => return Err(error),
        };
        let metadata = file.metadata().await?;
        if metadata.is_dir() {
            return Ok(Self::NotRegular("is a directory"));
        }
        if !metadata.is_file() {
            return Ok(Self::NotRegular("is not a regular file"));
        }
        let version = FileVersion::of(&metadata);
        Ok(Self::File(Box::new(SourceFile {
            file,
            version,
            progress: progress.map(|it| it.with_total(version.length)),
        })))
    }
}

impl SourceFile {
    pub(crate) fn version(&self) -> FileVersion {
        self.version
    }

    /// The next chunk; `None` at the end.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Bytes>> {
        let mut chunk = BytesMut::with_capacity(CHUNK);
        if self.file.read_buf(&mut chunk).await? == 0 {
            return Ok(None);
        }
        if let Some(progress) = &mut self.progress {
            progress.advance(chunk.len());
        }
        Ok(Some(chunk.freeze()))
    }
}

impl FileVersion {
    /// Whether the file at `path` is unchanged since it was opened.
    pub(crate) async fn is_current(self, path: &Path) -> bool {
        let now = tokio::fs::symlink_metadata(path).await;
        now.is_ok_and(|metadata| Self::of(&metadata) == self)
    }
}

/// The files of a project at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileIndex {
    files: HashMap<ProjectFile, FileVersion>,
}

/// A difference between two indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ScanChange {
    Written(ProjectFile),
    Deleted(ProjectFile),
    Renamed { from: ProjectFile, to: ProjectFile },
}

impl FileIndex {
    /// Indexes every file that is not below one of the excluded directories.
    pub(crate) fn of(project: &Project, excluded: &[PathBuf]) -> Self {
        let excluded = excluded.to_vec();
        let walk = WalkBuilder::new(project.root())
            .hidden(false)
            .require_git(false)
            .filter_entry(move |entry| {
                entry.file_name() != ".git" && !excluded.iter().any(|it| it == entry.path())
            })
            .build();
        let files = walk
            .flatten()
            .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
            .filter_map(|entry| {
                let relative = entry.path().strip_prefix(project.root()).ok()?.to_owned();
                // A file that is deleted meanwhile is left out.
                Some((ProjectFile { relative }, FileVersion::of(&entry.metadata().ok()?)))
            });
        Self { files: files.collect() }
    }

    /// Removes the files that changed at this time or later, so that the next comparison finds them.
    /// Files that were deleted since are not found.
    pub(crate) fn remove_changed_since(&mut self, project: &Project, since: SystemTime) {
        self.files.retain(|file, _| {
            let metadata = std::fs::symlink_metadata(project.absolute(file));
            let changed = metadata.ok().and_then(|it| {
                // Unlike the modification time, this is also set when a file is moved here or gets an
                // older modification time, as copying and unpacking do.
                let seconds = u64::try_from(it.ctime()).ok()?;
                UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
            });
            changed.is_some_and(|changed| changed + Duration::from_secs(1) <= since)
        });
    }

    /// Updates a file that is known to have changed, so that the next comparison does not find it.
    pub(crate) fn update(&mut self, project: &Project, file: &ProjectFile) {
        match std::fs::symlink_metadata(project.absolute(file)) {
            Ok(metadata) if metadata.is_file() => {
                self.files.insert(file.clone(), FileVersion::of(&metadata));
            }
            _ => {
                self.files.remove(file);
            }
        }
    }

    /// Restores an earlier version of a file, so that the next comparison finds it.
    pub(crate) fn restore(&mut self, before: &Self, file: &ProjectFile) {
        match before.files.get(file) {
            Some(version) => {
                self.files.insert(file.clone(), *version);
            }
            None => {
                self.files.remove(file);
            }
        }
    }

    /// The differences to a later index, ordered by path.
    pub(crate) fn changes_until(&self, later: &Self) -> Vec<ScanChange> {
        let mut deleted: HashMap<u64, &ProjectFile> = HashMap::new();
        let mut changes = Vec::new();
        for (file, version) in &self.files {
            if !later.files.contains_key(file) {
                deleted.insert(version.inode(), file);
            }
        }
        for (file, version) in &later.files {
            match self.files.get(file) {
                Some(before) if before == version => {}
                Some(_) => changes.push(ScanChange::Written(file.clone())),
                None => changes.push(match deleted.remove(&version.inode()) {
                    // A new file that reuses the inode looks the same and is treated the same.
                    Some(from) => ScanChange::Renamed { from: from.clone(), to: file.clone() },
                    None => ScanChange::Written(file.clone()),
                }),
            }
        }
        changes.extend(deleted.into_values().map(|file| ScanChange::Deleted(file.clone())));
        changes.sort_by(|a, b| a.path().cmp(b.path()));
        changes
    }
}

impl ScanChange {
    fn path(&self) -> &Path {
        match self {
            Self::Written(file) | Self::Deleted(file) | Self::Renamed { to: file, .. } => {
                &file.relative
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{FileIndex, ScanChange};
    use crate::project::{Project, ProjectFile};

    #[test]
    fn created_written_renamed_and_deleted_files_are_found_and_ignored_ones_are_not() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::create_dir_all(root.join("copy")).unwrap();
        write(".gitignore", "*.log\n");
        for file in ["same", "src/edited", "old name", "gone", "updated"] {
            write(file, "before");
        }
        let project = Project::at(root).unwrap();
        let excluded = [project.root().join("copy")];
        let mut before = FileIndex::of(&project, &excluded);
        write("src/edited", "after, longer");
        write("src/new", "");
        write(".hidden", "");
        write("x.log", "");
        write(".git/index", "");
        write("copy/same", "");
        write("updated", "by another tool");
        fs::rename(root.join("old name"), root.join("src/new name")).unwrap();
        fs::remove_file(root.join("gone")).unwrap();
        let file = |path: &str| ProjectFile { relative: path.into() };
        before.update(&project, &file("updated"));
        let after = FileIndex::of(&project, &excluded);
        assert_eq!(
            before.changes_until(&after),
            [
                ScanChange::Written(file(".hidden")),
                ScanChange::Deleted(file("gone")),
                ScanChange::Written(file("src/edited")),
                ScanChange::Written(file("src/new")),
                ScanChange::Renamed { from: file("old name"), to: file("src/new name") },
            ]
        );
        assert_eq!(after.changes_until(&after), []);
    }
}
