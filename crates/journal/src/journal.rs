//! The handle to a journal.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use crate::batch::{Batch, OutboundLine};
use crate::compaction::{self, CompactionStats};
use crate::connection::{PageLimit, ReadPool};
use crate::entries::{self, ReadLimit};
use crate::error::Error;
use crate::external;
use crate::follower::{Follower, JournalShared, SessionFeeds};
use crate::id::{Seq, SessionId};
use crate::large::LargeEntries;
use crate::query::{self, JournalHealth, PromptFilter};
use crate::records::{
    Entry, Grant, NewSession, PromptRecord, RequestRecord, SessionRecord, StateChange,
};
use crate::repair::{self, Repair};
use crate::writer::{Mutation, MutationReply, Writer, WriterCommand};

/// How many commands may wait for the writer. A sender beyond that waits, so an agent that is faster
/// than the disk is read more slowly.
const QUEUED_COMMANDS: usize = 1024;

/// How many bytes [`Journal::read`] reads at once.
const READ_BYTES: usize = 4 << 20;

/// The journal of all sessions. Clones share one writer.
#[derive(Clone, Debug)]
pub struct Journal {
    commands: mpsc::Sender<WriterCommand>,
    shared: Arc<JournalShared>,
}

/// The result of opening a journal.
#[derive(Debug)]
pub struct OpenedJournal {
    pub journal: Journal,
    /// What was recovered, if the file was damaged.
    pub repair: Option<Repair>,
}

impl Journal {
    /// Opens a file, or creates it. Blocks.
    pub fn open(path: &Path) -> Result<OpenedJournal, Error> {
        Self::open_with(path, PageLimit::default())
    }

    pub(crate) fn open_with(path: &Path, limit: PageLimit) -> Result<OpenedJournal, Error> {
        let opened = repair::open(path, limit)?;
        let (commands, received) = mpsc::channel(QUEUED_COMMANDS);
        let shared = Arc::new(JournalShared {
            feeds: SessionFeeds::default(),
            readers: Arc::new(ReadPool::new(path.to_owned())),
            large: LargeEntries::default(),
            changes: watch::Sender::new(0),
            outbox: watch::Sender::new(0),
            urgent_outbox: watch::Sender::new(0),
        });
        Writer::start(opened.connection, opened.lock, path, received, Arc::clone(&shared))?;
        external::watch(path, commands.downgrade())?;
        Ok(OpenedJournal { journal: Self { commands, shared }, repair: opened.repair })
    }

    /// Creates a session.
    pub async fn create(&self, new: NewSession) -> Result<(), Error> {
        self.change(Mutation::Create(new)).await.map(drop)
    }

    /// Writes a batch to a session, completely or not at all. Returns the number of the session's
    /// last entry after the commit.
    ///
    /// If the future is dropped, the batch may or may not be written.
    pub async fn write(&self, session: SessionId, batch: Batch) -> Result<Seq, Error> {
        self.change(Mutation::Write(session, batch)).await
    }

    /// At most `most` entries after `after`, in order, and not many more than 4 MiB of them. There
    /// are none only if there is no entry after `after`.
    ///
    /// Those who read the same large entry at the same time share its bytes.
    pub async fn read(
        &self,
        session: SessionId,
        after: Seq,
        most: usize,
    ) -> Result<Vec<Entry>, Error> {
        self.read_within(session, after, most, READ_BYTES, usize::MAX).await
    }

    /// At most `most` entries after `after`, in order, and at most `bytes` of them, but at least
    /// one. Of an entry that is longer than `longest`, only the beginning is given, see
    /// [`Entry::omitted`].
    pub async fn read_within(
        &self,
        session: SessionId,
        after: Seq,
        most: usize,
        bytes: usize,
        longest: usize,
    ) -> Result<Vec<Entry>, Error> {
        let limit = ReadLimit { entries: most, bytes, longest };
        let JournalShared { readers, large, .. } = &*self.shared;
        let page = readers.read(move |it| entries::page(it, session, after, limit)).await?;
        match page.large {
            Some(head) if head.size > limit.longest() as u64 => {
                // Even its beginning is more than `bytes`.
                let limit = ReadLimit { entries: 1, bytes: usize::MAX, longest };
                let one = readers.read(move |it| entries::page(it, session, after, limit)).await?;
                Ok(one.entries)
            }
            Some(head) => Ok(vec![large.read(readers, session, page.key, head).await?]),
            None => Ok(page.entries),
        }
    }

    /// At most `length` bytes of an entry from `offset` on; none at its end. `None` if there is no
    /// such entry.
    ///
    /// Takes no more memory than the part and a buffer of 8 MiB, however large the entry is.
    pub async fn read_part(
        &self,
        session: SessionId,
        seq: Seq,
        offset: usize,
        length: usize,
    ) -> Result<Option<Bytes>, Error> {
        let readers = &self.shared.readers;
        let part = readers.read(move |it| entries::part(it, session, seq, offset as u64, length));
        Ok(part.await?.map(Bytes::from))
    }

    /// Follows a session: all entries after `after`, then new ones as they are committed.
    pub fn follow(&self, session: SessionId, after: Seq) -> Follower {
        Follower::new(session, after, Arc::clone(&self.shared))
    }

    /// The sessions that have a follower in this process.
    pub fn followed_sessions(&self) -> Vec<SessionId> {
        self.shared.feeds.followed()
    }

    /// A counter that increases when a session gets its first follower or loses its last one.
    pub fn followed_changes(&self) -> watch::Receiver<u64> {
        self.shared.feeds.changes()
    }

    /// A counter that increases with every commit, also of other processes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// All sessions, the most recently active first. One that is damaged says so in its record. If
    /// a part of the file cannot be read, the sessions in it are missing until the next open
    /// repairs the file.
    pub async fn sessions(&self) -> Result<Vec<SessionRecord>, Error> {
        match self.shared.readers.read(query::sessions).await {
            Err(Error::Damaged { .. }) => self.shared.readers.read(query::readable_sessions).await,
            sessions => sessions,
        }
    }

    pub async fn session(&self, id: SessionId) -> Result<Option<SessionRecord>, Error> {
        self.shared.readers.read(move |connection| query::session(connection, id)).await
    }

    /// The sessions whose id, or whose agent's id, starts with `prefix`; the most recently active
    /// first.
    pub async fn find(&self, prefix: &str) -> Result<Vec<SessionId>, Error> {
        let prefix = prefix.to_owned();
        self.shared.readers.read(move |connection| query::find(connection, &prefix)).await
    }

    /// All prompts of a session, by queue position and age.
    pub async fn prompts(&self, session: SessionId) -> Result<Vec<PromptRecord>, Error> {
        self.filtered_prompts(session, PromptFilter::All).await
    }

    pub async fn prompt(
        &self,
        session: SessionId,
        id: Uuid,
    ) -> Result<Option<PromptRecord>, Error> {
        Ok(self.filtered_prompts(session, PromptFilter::One(id)).await?.pop())
    }

    /// The beginning of the text of a session's oldest prompt, at most `bytes` long.
    pub async fn first_prompt_text(
        &self,
        session: SessionId,
        bytes: usize,
    ) -> Result<Option<String>, Error> {
        self.shared.readers.read(move |it| query::first_prompt_text(it, session, bytes)).await
    }

    /// The prompts of a session that are not in a final state, in queue order.
    pub async fn open_prompts(&self, session: SessionId) -> Result<Vec<PromptRecord>, Error> {
        self.filtered_prompts(session, PromptFilter::Open).await
    }

    async fn filtered_prompts(
        &self,
        session: SessionId,
        filter: PromptFilter,
    ) -> Result<Vec<PromptRecord>, Error> {
        self.shared
            .readers
            .read(move |connection| query::prompts(connection, session, filter))
            .await
    }

    /// The lines that may not have reached the agent of a session, in order.
    pub async fn outbound(&self, session: SessionId) -> Result<Vec<OutboundLine>, Error> {
        self.shared.readers.read(move |connection| query::outbound(connection, session)).await
    }

    /// The calls of hooks that a session has not answered, oldest first.
    pub async fn open_hook_requests(
        &self,
        session: SessionId,
    ) -> Result<Vec<RequestRecord>, Error> {
        self.shared
            .readers
            .read(move |connection| query::open_hook_requests(connection, session))
            .await
    }

    /// The open requests to a person, of one session or of all, oldest first.
    pub async fn open_requests(
        &self,
        session: Option<SessionId>,
    ) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
        self.shared.readers.read(move |connection| query::open_requests(connection, session)).await
    }

    /// How many requests are open in each session that has any.
    pub async fn open_request_counts(&self) -> Result<HashMap<SessionId, usize>, Error> {
        self.shared.readers.read(query::open_request_counts).await
    }

    pub async fn request(
        &self,
        session: SessionId,
        id: &str,
    ) -> Result<Option<RequestRecord>, Error> {
        let id = id.to_owned();
        self.shared.readers.read(move |connection| query::request(connection, session, &id)).await
    }

    /// The last resolved requests of one session or of all, newest first. There are fewer than
    /// `most` if their inputs are large.
    pub async fn ledger(
        &self,
        session: Option<SessionId>,
        most: usize,
    ) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
        self.shared.readers.read(move |connection| query::ledger(connection, session, most)).await
    }

    /// The grants that are neither revoked nor expired.
    pub async fn grants(&self, now: u64) -> Result<Vec<Grant>, Error> {
        self.shared.readers.read(move |connection| query::grants(connection, now)).await
    }

    /// Inserts a grant, or replaces the one with the same id. One that is revoked stays revoked.
    pub async fn add_grant(&self, grant: Grant) -> Result<(), Error> {
        self.change(Mutation::AddGrant(grant)).await.map(drop)
    }

    /// Revokes a grant. Does nothing if it does not exist or is already revoked.
    pub async fn revoke_grant(&self, id: Uuid, at: u64) -> Result<(), Error> {
        self.change(Mutation::RevokeGrant(id, at)).await.map(drop)
    }

    /// What all sessions have cost on a day, in dollars, including deleted ones. The day is in days
    /// since 1970, in UTC.
    pub async fn cost_of_day(&self, day: u64) -> Result<f64, Error> {
        self.shared.readers.read(move |connection| query::cost_of_day(connection, day)).await
    }

    /// Changes the persistent state of a follower, completely or not at all. It is on disk when this
    /// returns.
    pub async fn write_state(
        &self,
        follower: &str,
        changes: Vec<StateChange>,
    ) -> Result<(), Error> {
        self.change(Mutation::WriteState(follower.to_owned(), changes)).await.map(drop)
    }

    /// The persistent state of a follower, by key.
    pub async fn read_state(&self, follower: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let follower = follower.to_owned();
        self.shared.readers.read(move |connection| query::state(connection, &follower)).await
    }

    /// Removes redundant deltas up to an entry and compresses the rest. Meant for the end of a turn.
    ///
    /// A message that is still streaming at that entry is left for the next compaction, with
    /// everything after it. Disk space is freed later, see
    /// [`finish_maintenance`](Self::finish_maintenance).
    pub async fn compact(&self, session: SessionId, upto: Seq) -> Result<CompactionStats, Error> {
        compaction::compact(self, session, upto).await
    }

    /// Waits until the space of compacted and deleted entries is freed.
    pub async fn finish_maintenance(&self) -> Result<(), Error> {
        self.ask(WriterCommand::FinishMaintenance).await.map(drop)
    }

    /// Deletes a session and everything that belongs to it.
    pub async fn delete(&self, session: SessionId) -> Result<(), Error> {
        self.change(Mutation::Delete(session)).await.map(drop)
    }

    /// Checks the whole file, which takes seconds for a large one.
    pub async fn check(&self) -> Result<JournalHealth, Error> {
        self.shared.readers.read(query::health).await
    }

    /// Finishes all accepted writes and closes the file for all clones.
    ///
    /// Dropping the last clone does the same without waiting.
    pub async fn close(self) -> Result<(), Error> {
        match self.ask(WriterCommand::Close).await {
            Ok(_) | Err(Error::Closed) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn shared(&self) -> &JournalShared {
        &self.shared
    }

    pub(crate) fn readers(&self) -> &Arc<ReadPool> {
        &self.shared.readers
    }

    pub(crate) async fn change(&self, mutation: Mutation) -> Result<Seq, Error> {
        self.ask(|reply| WriterCommand::Mutate(Box::new(mutation), reply)).await
    }

    async fn ask(
        &self,
        command: impl FnOnce(MutationReply) -> WriterCommand,
    ) -> Result<Seq, Error> {
        let (reply, replied) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| Error::Closed)?;
        replied.await.map_err(|_| Error::Closed)?
    }
}
