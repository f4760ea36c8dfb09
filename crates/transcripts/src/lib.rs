//! The CLI's own session files: `$CLAUDE_CONFIG_DIR/projects/DIRECTORY/ID.jsonl`.
//!
//! Every session that the CLI runs, in a terminal or under Towpath, has such a file. This crate finds
//! them, says what they are about, and selects the lines of one that the CLI would resume with. It only
//! reads, it copies nothing, and its memory does not grow with the length of a file's lines.

mod branch;
mod catalog;
mod directory;
mod folder_watch;
mod line;
mod running;
mod summary;

pub use branch::{ActiveBranch, BranchLine, BranchReader};
pub use catalog::{CatalogChanges, CatalogEntry, TranscriptCatalog};
pub use directory::{TranscriptDirectory, TranscriptFile};
pub use folder_watch::TranscriptChanges;
pub use running::{RunningClis, TranscriptWriter};
pub use summary::{MessageCount, TranscriptSummary};
