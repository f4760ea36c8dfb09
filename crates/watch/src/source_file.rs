//! The file as it is when it is pushed.
//!
//! It is opened without following a link in its last place and without waiting, so that a link or a
//! FIFO that was put there in the meantime is noticed instead of followed or waited for. Whoever has
//! read it asks afterwards whether it is [still the same](FileVersion::is_still_at): an agent may write it
//! again while it is read.

use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use bytes::{Bytes, BytesMut};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use crate::delivery::UploadProgress;

/// How much is read at a time.
const PIECE: usize = 64 << 10;

/// What is at a path.
pub(crate) enum FileLookup {
    File(Box<SourceFile>),
    /// Nothing: it was deleted again.
    Gone,
    /// Something that has no content to push, in a word.
    Odd(&'static str),
}

/// A file that is being read.
pub(crate) struct SourceFile {
    file: File,
    version: FileVersion,
    progress: Option<UploadProgress>,
}

/// What changes when a file is written.
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
    /// Opens what is there; `progress` hears how far its reading is.
    pub(crate) async fn at(path: &Path, progress: Option<UploadProgress>) -> io::Result<Self> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let file = match tokio::fs::OpenOptions::from(options).open(path).await {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Gone),
            // A file became a directory's name, or the other way round.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(Self::Gone),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                return Ok(Self::Odd("is a link"));
            }
            Err(error) => return Err(error),
        };
        let metadata = file.metadata().await?;
        if metadata.is_dir() {
            return Ok(Self::Odd("is a directory"));
        }
        if !metadata.is_file() {
            return Ok(Self::Odd("is no regular file"));
        }
        let version = FileVersion::of(&metadata);
        Ok(Self::File(Box::new(SourceFile {
            file,
            version,
            progress: progress.map(|it| it.over(version.length)),
        })))
    }
}

impl SourceFile {
    pub(crate) fn version(&self) -> FileVersion {
        self.version
    }

    /// The next piece; nothing at the end.
    pub(crate) async fn piece(&mut self) -> io::Result<Option<Bytes>> {
        let mut piece = BytesMut::with_capacity(PIECE);
        if self.file.read_buf(&mut piece).await? == 0 {
            return Ok(None);
        }
        if let Some(progress) = &mut self.progress {
            progress.advance(piece.len());
        }
        Ok(Some(piece.freeze()))
    }
}

impl FileVersion {
    /// Whether the file at `path` is still what it was when it was opened.
    pub(crate) async fn is_still_at(self, path: &Path) -> bool {
        let now = tokio::fs::symlink_metadata(path).await;
        now.is_ok_and(|metadata| Self::of(&metadata) == self)
    }
}
