//! The append-only record of all sessions in one SQLite file.
//!
//! A [`Journal`] is a handle to one writer thread and a pool of read-only connections. A write is
//! acknowledged only after it is committed. Prompts, answers and notes are synced to disk first; a
//! token delta may be lost if the machine goes down, but not if the process does. Writes that arrive
//! while a commit runs are committed together.
//!
//! Every entry of a session has a [`Seq`], starting at 1. Numbers are assigned without gaps and never
//! reused. [`Journal::compact`] later removes deltas that a complete message repeats and compresses
//! the rest; the bytes and numbers of the remaining entries do not change.
//!
//! A [`Follower`] is woken by the writer and reads from a short tail in memory, or from the file if
//! it lags. The writer never waits for a follower.
//!
//! A file may have an [outbox](Journal::keep_outbox): the changes of its sessions, for journals on other
//! machines, which [replay](Journal::apply) them.
//!
//! The journal does not interpret prompts, requests and options. Only compaction looks into entries,
//! through `wire`.

mod batch;
mod change;
mod columns;
mod compaction;
mod connection;
mod delta_filter;
mod directory;
mod entries;
mod error;
mod external;
mod follower;
mod id;
mod import;
mod journal;
mod large;
mod maintenance;
mod outbox;
mod query;
mod records;
mod repair;
mod rows;
mod schema;
mod segment;
mod snapshot;
mod summary_cache;
mod transaction;
mod writer;

#[cfg(test)]
mod tests;

pub use batch::{Batch, OutboundLine, SessionChange};
pub use change::{ChangeFormatError, JournalChange};
pub use compaction::CompactionStats;
pub use directory::{DirectoryWarning, secure_directory};
pub use error::Error;
pub use follower::Follower;
pub use id::{Seq, SessionId};
pub use import::SessionImport;
pub use journal::{Journal, OpenedJournal};
pub use outbox::{OutboxPage, OutboxRow};
pub use query::JournalHealth;
pub use records::{
    Entry, Grant, NewEntry, NewSession, PromptRecord, RequestRecord, Resolution, SessionRecord,
    SessionStatus, SpoolPosition, StateChange,
};
pub use repair::Repair;
pub use snapshot::SnapshotRecords;
pub use summary_cache::{CachedSummary, SummaryCache};
pub use wire::Origin;
