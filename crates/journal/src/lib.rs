//! The append-only record of sessions: sequence numbers, prompts, requests, one SQLite file.
//!
//! A [`Journal`] is a handle to one writer thread and a few read-only connections. What is written
//! is answered only once it is committed, as durably as its content demands: what somebody said or
//! decided is on the disk, a token delta may be lost with the machine (not with the process). What
//! waits while a commit runs is committed together by the next.
//!
//! Every entry of a session has a [`Seq`], from 1 on, without holes when written and never used
//! again. [`Journal::settle`] later drops what only served streaming and packs the rest; the bytes
//! and numbers of what is left do not change.
//!
//! Followers are woken by the writer and fed from a small tail in memory, or from the file when
//! they lag; the writer never waits for one.
//!
//! Deliberately absent: any knowledge of what prompts, requests and options mean. Only the settling
//! looks into entries, through `wire`.

mod batch;
mod chores;
mod command;
mod connection;
mod draft;
mod entry;
mod error;
mod feed;
mod follower;
mod grant;
mod group;
mod health;
mod id;
mod journal;
mod memory;
mod mend;
mod page;
mod prompt;
mod query;
mod readers;
mod request;
mod salvage;
mod schema;
mod session;
mod settle;
mod stored;
mod writer;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Outbound, SessionChange};
pub use entry::{Entry, NewEntry};
pub use error::Error;
pub use follower::Follower;
pub use grant::Grant;
pub use health::Health;
pub use id::{Seq, SessionId};
pub use journal::{Journal, Opening};
pub use memory::Memory;
pub use mend::Mended;
pub use prompt::PromptRecord;
pub use request::{RequestRecord, Resolution};
pub use session::{NewSession, SessionRecord, SpoolMark, Status};
pub use settle::Settled;
pub use wire::Origin;
