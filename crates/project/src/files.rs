//! Files below a directory: listing, reading, saving, receiving.
//!
//! Everything starts at an open directory, [`ProjectFiles`]. A path that is absolute, contains `..`
//! or leads out through a link is refused when it is used and not before, so nothing can be exchanged
//! between a check and the use. Pipes, devices and sockets are never waited for.

mod content;
mod directory;
mod error;
mod ignore_rules;
mod listing;
mod path;
mod protection;
#[cfg(test)]
mod tests;
mod upload;
mod write;

pub use content::{ContentKind, LineEnding, MAX_EDIT_BYTES, RegularFile, TextChunk};
pub use directory::ProjectFiles;
pub use error::FileError;
pub use listing::{DirectoryItem, DirectoryPage, ItemType};
pub use path::{ProjectPath, name_text};
pub use protection::{Protection, WriteAccess, protection};
pub use upload::FileUpload;
pub use write::SaveCondition;
