//! Targets: where changed files are delivered.

mod directory;
mod folder;
mod http;
#[cfg_attr(not(feature = "object-store"), path = "no_store.rs")]
mod store;

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::delivery::{PendingFile, UploadProgress};
use crate::files::FileLookup;
use crate::process::Program;
use crate::project::Project;

pub use directory::DirectoryTarget;
pub use http::HttpTarget;
pub use store::StoreTarget;

/// A destination of changed files.
#[derive(Debug)]
pub enum Target {
    Directory(DirectoryTarget),
    /// An object store: S3, Google Cloud Storage, Azure.
    Store(StoreTarget),
    /// A web server that accepts `PUT` and `DELETE`.
    Http(HttpTarget),
    Command(CommandTarget),
}

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("`{0}` is not a valid address")]
    Address(String),
    #[error(
        "`{0}`: this build does not support object stores; \
         build Towpath with `--features object-store`"
    )]
    NoObjectStores(String),
    #[error("cannot use `{address}` as a target")]
    Store { address: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("could not set up the HTTP client")]
    Client(#[source] reqwest::Error),
}

/// A command that runs for each file.
#[derive(Debug)]
pub struct CommandTarget {
    line: String,
    timeout: Duration,
}

/// The result of a successful delivery.
#[derive(Debug)]
pub(crate) enum PushOutcome {
    Written,
    /// The file was deleted from the project, and now also from the target.
    Deleted,
    /// There was nothing to deliver, and why.
    Skipped(String),
}

/// Why a delivery failed.
#[derive(Debug)]
pub(crate) enum PushError {
    /// Another attempt may succeed.
    Temporary(String),
    /// Another attempt would fail, too.
    Permanent(String),
}

impl From<io::Error> for PushError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::InvalidFilename => Self::Permanent(error.to_string()),
            _ => Self::Temporary(error.to_string()),
        }
    }
}

impl Target {
    /// The name for reports, without secrets.
    pub fn name(&self) -> &str {
        match self {
            Self::Directory(target) => target.name(),
            Self::Store(target) => target.name(),
            Self::Http(target) => target.name(),
            Self::Command(target) => &target.line,
        }
    }

    /// The directory it writes to. Scans leave it out, because it may be inside the project.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(target) => Some(target.root()),
            Self::Store(_) | Self::Http(_) | Self::Command(_) => None,
        }
    }

    /// Delivers the current state of the file.
    pub(crate) async fn push(
        &mut self,
        project: &Project,
        pending: &PendingFile,
        progress: UploadProgress,
    ) -> Result<PushOutcome, PushError> {
        let path = project.absolute(&pending.file);
        let source = match FileLookup::at(&path, Some(progress)).await? {
            FileLookup::NotRegular(reason) => return Ok(PushOutcome::Skipped(reason.to_owned())),
            FileLookup::Missing => {
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
                target.write(&pending.file, source, || version.is_current(&path)).await?;
                return Ok(PushOutcome::Written);
            }
            Self::Store(target) => target.write(&pending.file, source).await?,
            Self::Http(target) => target.write(&pending.file, source).await?,
            Self::Command(target) => target.run(project, pending, "written").await?,
        }
        if version.is_current(&path).await {
            Ok(PushOutcome::Written)
        } else {
            Err(changed_while_read())
        }
    }
}

impl CommandTarget {
    /// A command line for the shell. It gets the relative path as `$1`, and the variables
    /// `TOWPATH_FILE`, `TOWPATH_CHANGE`, `TOWPATH_TOOL` and `TOWPATH_SESSION`. None of these is part of
    /// the line, so a file name cannot inject a command.
    pub fn new(line: String, timeout: Duration) -> Self {
        Self { line, timeout }
    }

    async fn run(
        &self,
        project: &Project,
        pending: &PendingFile,
        change: &str,
    ) -> Result<(), PushError> {
        let session = pending.session.as_ref().map(ToString::to_string).unwrap_or_default();
        Program::shell(&self.line, &[pending.file.relative.as_os_str()])
            .directory(project.root())
            .env("TOWPATH_FILE", project.absolute(&pending.file))
            .env("TOWPATH_CHANGE", change)
            .env("TOWPATH_TOOL", &pending.tool)
            .env("TOWPATH_SESSION", session)
            .run_checked(self.timeout)
            .await
            .map(drop)
            .map_err(|error| PushError::Temporary(error.to_string()))
    }
}

fn changed_while_read() -> PushError {
    PushError::Temporary("the file changed while it was read".to_owned())
}
