//! Tests of the journal as a whole, through its handle.

mod compaction;
mod compaction_content;
mod damage;
mod directory;
mod disk_full;
mod follower;
mod import;
mod kill;
mod large;
mod maintenance;
mod migration;
mod outbox;
mod records;
mod repair;
mod writer;

use std::path::PathBuf;

use bytes::Bytes;
use tempfile::TempDir;
use uuid::Uuid;
use wire::note::Actor;

use crate::{Batch, Entry, Journal, NewEntry, NewSession, Origin, Seq, SessionId};

/// A temporary directory with a journal in it.
struct TestJournal {
    folder: TempDir,
}

impl TestJournal {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("journal.db")
    }

    fn open(&self) -> Journal {
        let opened = Journal::open(&self.path()).unwrap();
        assert_eq!(opened.repair, None);
        opened.journal
    }
}

fn id(number: u128) -> SessionId {
    SessionId(Uuid::from_u128(number))
}

fn new_session(number: u128) -> NewSession {
    NewSession {
        id: id(number),
        directory: "/home/dev/project".into(),
        title: Some(format!("session {number}")),
        options: r#"{"model":"opus"}"#.to_owned(),
        at: 1000,
    }
}

fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

/// A batch of lines of the agent.
fn lines<B: Into<Bytes>>(lines: impl IntoIterator<Item = B>) -> Batch {
    let entry =
        |bytes: B| NewEntry { origin: Origin::Agent, bytes: bytes.into(), transient: false };
    Batch { at: 2000, entries: lines.into_iter().map(entry).collect(), ..Batch::default() }
}

/// A batch that may be lost if the machine goes down.
fn deltas<B: Into<Bytes>>(from: impl IntoIterator<Item = B>) -> Batch {
    let mut batch = lines(from);
    batch.entries.iter_mut().for_each(|entry| entry.transient = true);
    batch
}

fn numbers(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq.0).collect()
}

fn text(entry: &Entry) -> &str {
    std::str::from_utf8(&entry.bytes).unwrap()
}

async fn all(journal: &Journal, session: SessionId) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map_or(Seq(0), |entry| entry.seq);
        let next = journal.read(session, after, usize::MAX).await.unwrap();
        if next.is_empty() {
            return all;
        }
        all.extend(next);
    }
}
