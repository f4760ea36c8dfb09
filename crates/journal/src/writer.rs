//! The writer thread.
//!
//! It applies all waiting mutations in one transaction, commits, and only then replies. If the
//! transaction fails, the mutations are applied one by one, so that a bad one fails alone. While no
//! command waits, it does maintenance in small steps; under constant load it still does a step now
//! and then.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::oneshot;
use tracing::warn;
use uuid::Uuid;

use crate::batch::Batch;
use crate::change::JournalChange;
use crate::connection::Durability;
use crate::error::Error;
use crate::follower::JournalShared;
use crate::id::{Seq, SessionId};
use crate::import;
use crate::maintenance::Maintenance;
use crate::outbox::{self, ReplayedChanges};
use crate::records::{Grant, NewSession, StateChange};
use crate::repair;
use crate::segment::Segment;
use crate::transaction::{CommitEvents, WriteTransaction};

/// The limits of a transaction. The delay of a commit of this size is not noticeable.
const TRANSACTION_MUTATIONS: usize = 1024;
const TRANSACTION_BYTES: usize = 4 << 20;

/// After this many transactions without a pause, a maintenance step is done nevertheless.
const TRANSACTIONS_PER_MAINTENANCE: u32 = 32;

/// The state of the writer thread.
pub(crate) struct Writer {
    connection: Connection,
    /// Locked, shared with other processes, as long as the file is open.
    lock: File,
    path: PathBuf,
    commands: Receiver<WriterCommand>,
    shared: Arc<JournalShared>,
    /// A command that was received while mutations were collected.
    next_command: Option<WriterCommand>,
    durability: Option<Durability>,
    maintenance: Maintenance,
    transactions_since_maintenance: u32,
    /// SQLite's `data_version`, which changes with commits of other connections.
    data_version: i64,
    /// Whether the file has an outbox, as far as is known. What is in it may have been sent, so nothing of
    /// it may be lost with the machine.
    keeps_outbox: bool,
    waiting_for_maintenance: Vec<MutationReply>,
    waiting_for_close: Vec<MutationReply>,
}

impl Writer {
    /// Starts the thread. It ends when the last handle is dropped or one of them closes it.
    pub(crate) fn start(
        connection: Connection,
        lock: File,
        path: &Path,
        commands: Receiver<WriterCommand>,
        shared: Arc<JournalShared>,
    ) -> Result<(), Error> {
        if let Err(error) = import::remove_abandoned(&connection) {
            // The next process tries again.
            warn!(%error, "could not remove the rest of an import that did not finish");
        }
        let maintenance = Maintenance::in_file(&connection).unwrap_or_else(|error| {
            // The journal can be used without it.
            warn!(%error, "could not find the maintenance that is left");
            if matches!(error, Error::Damaged { .. }) {
                repair::mark_suspect(path, &error);
            }
            Maintenance::default()
        });
        let data_version = data_version(&connection)?;
        let keeps_outbox = outbox::is_kept(&connection)?;
        let writer = Self {
            connection,
            lock,
            path: path.to_owned(),
            commands,
            shared,
            next_command: None,
            durability: None,
            maintenance,
            transactions_since_maintenance: 0,
            data_version,
            keeps_outbox,
            waiting_for_maintenance: Vec::new(),
            waiting_for_close: Vec::new(),
        };
        thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| Error::io(path, error))?;
        Ok(())
    }

    fn run(mut self) {
        while let Some(command) = self.next() {
            match command {
                WriterCommand::Mutate(mutation, reply) => {
                    let mutations = self.collect(*mutation, reply);
                    self.write(mutations);
                    self.transactions_since_maintenance += 1;
                }
                WriterCommand::PollExternal => self.poll_external(),
                WriterCommand::FinishMaintenance(reply) => {
                    self.maintenance.retry();
                    self.waiting_for_maintenance.push(reply);
                }
                WriterCommand::Close(reply) => {
                    // Commands that were sent before are still received.
                    self.commands.close();
                    self.waiting_for_close.push(reply);
                }
            }
        }
        let Self { connection, lock, shared, waiting_for_close, waiting_for_maintenance, .. } =
            self;
        shared.feeds.close();
        shared.readers.close();
        let closed = connection.close().map_err(|(_, error)| Error::from(error));
        drop((lock, waiting_for_maintenance));
        for reply in waiting_for_close {
            let _ = reply.send(closed.clone().map(|()| Seq(0)));
        }
    }

    /// The next command; does maintenance while there is none.
    fn next(&mut self) -> Option<WriterCommand> {
        loop {
            if let Some(command) = self.next_command.take() {
                return Some(command);
            }
            if self.maintenance.is_done() {
                for reply in self.waiting_for_maintenance.drain(..) {
                    let _ = reply.send(Ok(Seq(0)));
                }
                return self.commands.blocking_recv();
            }
            if self.transactions_since_maintenance >= TRANSACTIONS_PER_MAINTENANCE {
                self.maintain();
            }
            match self.commands.try_recv() {
                Ok(command) => return Some(command),
                Err(TryRecvError::Empty) => self.maintain(),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
    }

    fn maintain(&mut self) {
        self.transactions_since_maintenance = 0;
        let done = self
            .set_durability(Durability::Relaxed)
            .and_then(|()| self.maintenance.step(&self.connection));
        if let Err(error) = done {
            self.mark_if_damaged(&error);
            warn!(%error, "maintenance failed; it is tried again later");
            for reply in self.waiting_for_maintenance.drain(..) {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }

    /// A mutation and those that wait behind it.
    fn collect(
        &mut self,
        mutation: Mutation,
        reply: MutationReply,
    ) -> Vec<(Mutation, MutationReply)> {
        let mut bytes = mutation.size();
        let mut collected = vec![(mutation, reply)];
        while collected.len() < TRANSACTION_MUTATIONS && bytes < TRANSACTION_BYTES {
            match self.commands.try_recv() {
                Ok(WriterCommand::Mutate(mutation, reply)) => {
                    bytes += mutation.size();
                    collected.push((*mutation, reply));
                }
                Ok(other) => {
                    self.next_command = Some(other);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        collected
    }

    fn write(&mut self, collected: Vec<(Mutation, MutationReply)>) {
        let (mutations, replies): (Vec<Mutation>, Vec<MutationReply>) =
            collected.into_iter().unzip();
        let results = match self.apply(&mutations) {
            Ok(results) => results,
            // Another process holds the lock: each further attempt would wait as long.
            Err(error @ Error::Busy) => mutations.iter().map(|_| Err(error.clone())).collect(),
            Err(error) if mutations.len() == 1 && !matches!(error, Error::Full) => {
                vec![Err(error)]
            }
            Err(error) => {
                if matches!(error, Error::Full) {
                    self.checkpoint();
                }
                mutations.chunks(1).map(|mutation| self.apply_one(mutation)).collect()
            }
        };
        for (reply, result) in replies.into_iter().zip(results) {
            if let Err(error) = &result {
                self.mark_if_damaged(error);
            }
            // The sender may have stopped waiting.
            let _ = reply.send(result);
        }
    }

    fn apply_one(&mut self, mutation: &[Mutation]) -> Result<Seq, Error> {
        self.apply(mutation)?.pop().unwrap_or(Err(Error::Closed))
    }

    /// Applies mutations in one transaction. Rejections are results; any other error rolls back.
    fn apply(&mut self, mutations: &[Mutation]) -> Result<Vec<Result<Seq, Error>>, Error> {
        // What was sent already is removed from the outbox again if the removal is lost.
        let is_removal = |it: &Mutation| matches!(it, Mutation::RemoveOutbox(..));
        let durable = self.keeps_outbox && !mutations.iter().all(is_removal)
            || mutations.iter().any(|it| it.durability() == Durability::Durable);
        self.set_durability(if durable { Durability::Durable } else { Durability::Relaxed })?;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let applied = in_transaction(&self.connection, mutations);
        let committed = applied.and_then(|applied| {
            self.connection.execute_batch("COMMIT")?;
            Ok(applied)
        });
        match committed {
            Ok((results, events)) => {
                self.publish(events);
                Ok(results)
            }
            Err(error) => {
                // SQLite has rolled back already after some failures.
                if !self.connection.is_autocommit() {
                    self.connection.execute_batch("ROLLBACK")?;
                }
                Err(error)
            }
        }
    }

    /// Copies the log into the file: on a full disk, that may be all the space there is.
    fn checkpoint(&self) {
        if let Err(error) = Maintenance::checkpoint(&self.connection) {
            warn!(%error, "could not checkpoint the log");
        }
    }

    fn publish(&mut self, events: CommitEvents) {
        for (session, entries) in events.entries {
            self.shared.feeds.publish(session, entries);
        }
        for (session, key) in events.deleted {
            self.shared.feeds.delete(session);
            self.maintenance.deleted(key);
        }
        for key in events.compacted {
            self.maintenance.compacted(key);
        }
        if let Some(kept) = events.outbox_kept {
            self.keeps_outbox = kept;
        }
        if events.outbox_filled {
            self.shared.outbox.send_modify(|changes| *changes += 1);
        }
        if events.outbox_urgent {
            self.shared.urgent_outbox.send_modify(|changes| *changes += 1);
        }
        self.count_change();
    }

    fn set_durability(&mut self, durability: Durability) -> Result<(), Error> {
        if self.durability != Some(durability) {
            durability.set(&self.connection)?;
            self.durability = Some(durability);
        }
        Ok(())
    }

    fn count_change(&self) {
        self.shared.changes.send_modify(|changes| *changes += 1);
    }

    /// This process writes through this connection alone, so a new version is another process's.
    fn poll_external(&mut self) {
        match data_version(&self.connection) {
            Ok(version) if version != self.data_version => {
                match self.maintenance.find_deleted(&self.connection) {
                    Ok(()) => self.data_version = version,
                    // The next poll tries again.
                    Err(error) => self.mark_if_damaged(&error),
                }
                self.keeps_outbox = outbox::is_kept(&self.connection).unwrap_or(self.keeps_outbox);
                self.shared.feeds.external_commit();
                self.shared.outbox.send_modify(|changes| *changes += 1);
                self.shared.urgent_outbox.send_modify(|changes| *changes += 1);
                self.count_change();
            }
            Ok(_) => {}
            Err(error) => self.mark_if_damaged(&error.into()),
        }
    }

    fn mark_if_damaged(&self, error: &Error) {
        if matches!(error, Error::Damaged { .. }) {
            repair::mark_suspect(&self.path, error);
        }
    }
}

fn in_transaction(
    connection: &Connection,
    mutations: &[Mutation],
) -> Result<(Vec<Result<Seq, Error>>, CommitEvents), Error> {
    let mut transaction = WriteTransaction::new(connection);
    let mut results = Vec::with_capacity(mutations.len());
    for mutation in mutations {
        match transaction.apply(mutation) {
            Err(error) if !error.is_rejection() => return Err(error),
            result => results.push(result),
        }
    }
    Ok((results, transaction.finish()?))
}

fn data_version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}

/// Where the result of a mutation goes: the number of the session's last entry, or 0 if the mutation
/// is not about entries.
pub(crate) type MutationReply = oneshot::Sender<Result<Seq, Error>>;

/// A message to the writer.
#[derive(Debug)]
pub(crate) enum WriterCommand {
    /// Waiting mutations are applied in one transaction.
    Mutate(Box<Mutation>, MutationReply),
    /// Check whether another process has changed the file.
    PollExternal,
    /// Reply when no maintenance is left.
    FinishMaintenance(MutationReply),
    /// Finish and accept no further commands.
    Close(MutationReply),
}

/// A change of the file, applied completely or not at all.
#[derive(Debug)]
pub(crate) enum Mutation {
    Create(NewSession),
    Write(SessionId, Batch),
    /// Move entries into a segment. Their own rows are obsolete from then on.
    Compact(NewSegment),
    AddGrant(Grant),
    RevokeGrant(Uuid, u64),
    WriteState(String, Vec<StateChange>),
    Delete(SessionId),
    /// Create a session that is not shown until the import with this id has finished.
    BeginImport(NewSession, Uuid),
    Import(ImportStep),
    /// Keep an outbox, or remove it.
    KeepOutbox(bool),
    /// Put a session into the outbox as a whole.
    PutSnapshot(SessionId),
    /// Remove the changes of a session up to a number from the outbox.
    RemoveOutbox(SessionId, u64),
    /// Replay changes of another journal.
    Apply(ReplayedChanges),
    /// Remove what was replayed of a session, and change the state of a follower.
    DiscardReplayed(SessionId, String, Vec<StateChange>),
}

/// A part of an import.
#[derive(Debug)]
pub(crate) struct ImportStep {
    pub(crate) session: SessionId,
    pub(crate) import: Uuid,
    pub(crate) batch: Batch,
    /// The import is finished, and this many numbers of turns belong to it.
    pub(crate) finished_with: Option<u64>,
}

/// A segment that replaces the rows of entries.
#[derive(Debug)]
pub(crate) struct NewSegment {
    pub(crate) session: SessionId,
    /// How far the session was compacted when the segment was made. If that has changed, another
    /// process has compacted the session, and the segment is discarded.
    pub(crate) from: Seq,
    /// How far it is compacted with this segment.
    pub(crate) to: Seq,
    /// The last entry of the segment whose entries are included and which this one replaces.
    pub(crate) replaces: Option<Seq>,
    /// The segment with the number of its last entry; none if all entries were removed.
    pub(crate) segment: Option<(Seq, Segment)>,
}

impl Mutation {
    pub(crate) fn durability(&self) -> Durability {
        match self {
            Self::Write(_, batch) if !batch.must_be_durable() => Durability::Relaxed,
            // What is lost with the machine is an import that did not finish. The rows that a segment
            // replaces stay in the file until the segment is on disk. What was replayed is replayed again.
            Self::BeginImport(..)
            | Self::Import(ImportStep { finished_with: None, .. })
            | Self::Compact(_)
            | Self::RemoveOutbox(..)
            | Self::Apply(_)
            | Self::DiscardReplayed(..) => Durability::Relaxed,
            Self::Create(_)
            | Self::Write(..)
            | Self::AddGrant(_)
            | Self::RevokeGrant(..)
            | Self::WriteState(..)
            | Self::Delete(_)
            | Self::KeepOutbox(_)
            | Self::PutSnapshot(_)
            | Self::Import(_) => Durability::Durable,
        }
    }

    /// Roughly how much memory it holds.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Write(_, batch) | Self::Import(ImportStep { batch, .. }) => batch.size(),
            Self::Compact(new) => {
                new.segment.as_ref().map_or(0, |(_, segment)| segment.bytes.len()) + 256
            }
            Self::WriteState(_, changes) => {
                let value = |change: &StateChange| change.value.as_ref().map_or(0, Vec::len) + 256;
                changes.iter().map(value).sum()
            }
            Self::Apply(replay) => replay.changes.iter().map(JournalChange::size).sum(),
            Self::Create(_)
            | Self::AddGrant(_)
            | Self::RevokeGrant(..)
            | Self::Delete(_)
            | Self::KeepOutbox(_)
            | Self::PutSnapshot(_)
            | Self::RemoveOutbox(..)
            | Self::DiscardReplayed(..)
            | Self::BeginImport(..) => 256,
        }
    }
}
