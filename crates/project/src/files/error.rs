//! Why something could not be done with a file.

use std::io;

use thiserror::Error;

/// Why something could not be done with a file.
#[derive(Debug, Error)]
pub enum FileError {
    #[error(
        "`{0}` is not a path below the project's directory; use names with `/` between them, without `..`"
    )]
    InvalidPath(String),
    #[error("`{0}` cannot be the name of a new file; choose one without control characters")]
    InvalidName(String),
    #[error("there is no such file or directory")]
    NotFound,
    #[error("the path leads out of the project's directory through a link, which is not followed")]
    Outside,
    #[error("it is no regular file")]
    NotAFile,
    #[error("it is no directory")]
    NotADirectory,
    #[error("the directory is not empty")]
    NotEmpty,
    #[error("there is a file with that name already")]
    Exists,
    #[error("it is larger than {0} bytes, the most that is possible here")]
    TooLarge(u64),
    #[error("the file has changed since it was read; read it again")]
    Changed,
    #[error("what is below `.git` is only changed by git")]
    Git,
    #[error("the agent runs commands that this file names, so only an admin may change it")]
    NeedsAdmin,
    #[error("there is too little space left on the disk")]
    NoSpace,
    #[error("the server may not do this: the permissions of the file or its directory forbid it")]
    Denied,
    #[error("the file could not be accessed")]
    Io(#[source] io::Error),
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::AlreadyExists => Self::Exists,
            // Only a path that leads out fails without having been refused by the system.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => Self::Outside,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied,
            io::ErrorKind::NotADirectory => Self::NotADirectory,
            io::ErrorKind::IsADirectory => Self::NotAFile,
            io::ErrorKind::DirectoryNotEmpty => Self::NotEmpty,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            io::ErrorKind::FileTooLarge => Self::TooLarge(0),
            io::ErrorKind::InvalidFilename => Self::InvalidName("…".to_owned()),
            _ => Self::from_code(error),
        }
    }
}

impl FileError {
    fn from_code(error: io::Error) -> Self {
        let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        match code {
            // Links that lead to each other, or one where there was none a moment ago.
            Some(rustix::io::Errno::LOOP) => Self::Outside,
            // A pipe without a reader, or a socket.
            Some(rustix::io::Errno::NXIO) => Self::NotAFile,
            _ => Self::Io(error),
        }
    }
}
