//! Where changed files go.

mod command;
mod directory;
mod http;
mod store;

use std::io;

use crate::delivery::PendingFile;
use crate::delivery::UploadProgress;
use crate::project::Project;
use crate::source_file::{FileLookup, FileVersion};

pub use command::CommandTarget;
pub use directory::DirectoryTarget;
pub use http::HttpTarget;
pub use store::StoreTarget;

/// A place that changed files are brought to.
#[derive(Debug)]
pub enum Target {
    /// Another directory.
    Directory(DirectoryTarget),
    /// An object store: S3 and its like.
    Store(StoreTarget),
    /// A web server that takes `PUT` and `DELETE`.
    Http(HttpTarget),
    /// A command that is run for each file.
    Command(CommandTarget),
}

/// A target that cannot be.
#[derive(Debug, thiserror::Error)]
pub enum BadTarget {
    /// An address that is none.
    #[error("`{0}` is no address")]
    Address(String),
    /// A store of which something is missing or wrong.
    #[error("`{address}` cannot be used")]
    Store {
        /// Its address.
        address: String,
        /// Why not.
        source: object_store::Error,
    },
    /// No client could be made.
    #[error("no HTTP client could be set up")]
    Client(#[source] reqwest::Error),
}

/// What came of bringing a file.
#[derive(Debug)]
pub(crate) enum PushOutcome {
    /// It is there.
    Written,
    /// It is gone here, and there as well.
    Deleted,
    /// There was nothing to bring.
    Nothing(String),
}

/// What went wrong.
#[derive(Debug)]
pub(crate) enum PushError {
    /// It may work another time.
    Temporary(String),
    /// It never will.
    Permanent(String),
}

impl From<io::Error> for PushError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::InvalidFilename => Self::Lasting(error.to_string()),
            _ => Self::Passing(error.to_string()),
        }
    }
}

impl Target {
    /// What it is called in reports; never with a secret.
    pub fn name(&self) -> &str {
        match self {
            Self::Directory(target) => target.name(),
            Self::Store(target) => target.name(),
            Self::Http(target) => target.name(),
            Self::Command(target) => target.name(),
        }
    }

    /// The directory it writes to, which must not be taken for part of the project.
    pub(crate) fn directory(&self) -> Option<&std::path::Path> {
        match self {
            Self::Directory(target) => Some(target.root()),
            Self::Store(_) | Self::Http(_) | Self::Command(_) => None,
        }
    }

    /// Brings the file as it is now.
    pub(crate) async fn push(
        &mut self,
        project: &Project,
        pending: &PendingFile,
        progress: UploadProgress,
    ) -> Result<PushOutcome, PushError> {
        let path = project.absolute(&pending.file);
        let found = FileLookup::at(&path, Some(progress)).await?;
        let source = match found {
            FileLookup::Odd(why) => return Ok(PushOutcome::Nothing(why.to_owned())),
            FileLookup::Gone => {
                match self {
                    Self::Directory(target) => target.delete(&pending.file).await?,
                    Self::Store(target) => target.delete(&pending.file).await?,
                    Self::Http(target) => target.delete(&pending.file).await?,
                    Self::Command(target) => target.run(project, pending, "deleted").await?,
                }
                return Ok(PushOutcome::Deleted);
            }
            FileLookup::File(source) => *source,
        };
        let version = source.version();
        match self {
            Self::Directory(target) => {
                target.write(&pending.file, source, || version.is_still_at(&path)).await?;
                return Ok(PushOutcome::Written);
            }
            Self::Store(target) => target.write(&pending.file, source).await?,
            Self::Http(target) => target.write(&pending.file, source).await?,
            Self::Command(target) => target.run(project, pending, "written").await?,
        }
        unless_written_meanwhile(version, &path).await
    }
}

async fn unless_written_meanwhile(
    version: FileVersion,
    path: &std::path::Path,
) -> Result<PushOutcome, PushError> {
    if version.is_still_at(path).await {
        Ok(PushOutcome::Written)
    } else {
        Err(written_meanwhile())
    }
}

fn written_meanwhile() -> PushError {
    PushError::Temporary("it was written while it was read".to_owned())
}
