//! Where changed files go.

mod command;
mod directory;
mod http;
#[cfg_attr(not(feature = "object-store"), path = "no_store.rs")]
mod store;

use std::io;

use crate::outbox::Parcel;
use crate::place::Project;
use crate::progress::Progress;
use crate::source::{Found, Version};

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
    /// An object store, in a build that has none.
    #[error(
        "`{0}`: this build has no support for object stores; \
         build Towpath with `--features object-store`"
    )]
    NoStores(String),
    /// A store of which something is missing or wrong.
    #[error("`{address}` cannot be used")]
    Store {
        /// Its address.
        address: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No client could be made.
    #[error("no HTTP client could be set up")]
    Client(#[source] reqwest::Error),
}

/// What came of bringing a file.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// It is there.
    Written,
    /// It is gone here, and there as well.
    Deleted,
    /// There was nothing to bring.
    Nothing(String),
}

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It may work another time.
    Passing(String),
    /// It never will.
    Lasting(String),
}

impl From<io::Error> for Trouble {
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
        parcel: &Parcel,
        progress: Progress,
    ) -> Result<Arrival, Trouble> {
        let path = project.absolute(&parcel.file);
        let found = Found::at(&path, Some(progress)).await?;
        let source = match found {
            Found::Odd(why) => return Ok(Arrival::Nothing(why.to_owned())),
            Found::Gone => {
                match self {
                    Self::Directory(target) => target.delete(&parcel.file).await?,
                    Self::Store(target) => target.delete(&parcel.file).await?,
                    Self::Http(target) => target.delete(&parcel.file).await?,
                    Self::Command(target) => target.run(project, parcel, "deleted").await?,
                }
                return Ok(Arrival::Deleted);
            }
            Found::File(source) => *source,
        };
        let version = source.version();
        match self {
            Self::Directory(target) => {
                target.write(&parcel.file, source, || version.is_still_at(&path)).await?;
                return Ok(Arrival::Written);
            }
            Self::Store(target) => target.write(&parcel.file, source).await?,
            Self::Http(target) => target.write(&parcel.file, source).await?,
            Self::Command(target) => target.run(project, parcel, "written").await?,
        }
        unless_written_meanwhile(version, &path).await
    }
}

async fn unless_written_meanwhile(
    version: Version,
    path: &std::path::Path,
) -> Result<Arrival, Trouble> {
    if version.is_still_at(path).await { Ok(Arrival::Written) } else { Err(written_meanwhile()) }
}

fn written_meanwhile() -> Trouble {
    Trouble::Passing("it was written while it was read".to_owned())
}
