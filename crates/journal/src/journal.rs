//! The handle through which everybody uses the journal.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use crate::batch::{Batch, Outbound};
use crate::command::{Answer, Change, Command};
use crate::connection::Room;
use crate::entry::Entry;
use crate::error::Error;
use crate::feed::Feeds;
use crate::follower::{Follower, Shared};
use crate::grant::Grant;
use crate::health::Health;
use crate::id::{Seq, SessionId};
use crate::memory::Memory;
use crate::mend::{self, Mended};
use crate::prompt::PromptRecord;
use crate::query::{self, Portion, Prompts};
use crate::readers::Readers;
use crate::request::RequestRecord;
use crate::session::{NewSession, SessionRecord};
use crate::settle::{self, Settled};
use crate::writer::Writer;

/// How many commands may wait for the writer. Who comes later waits to be let in, so an agent that
/// is faster than the disk is read more slowly.
const WAITING: usize = 1024;

/// The record of all sessions. Clones are the same journal.
#[derive(Clone, Debug)]
pub struct Journal {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

/// A journal that was opened.
#[derive(Debug)]
pub struct Opening {
    /// The journal.
    pub journal: Journal,
    /// What was done to the file, where it was damaged.
    pub mended: Option<Mended>,
}

impl Journal {
    /// Opens a file, creating it where there is none. Blocks.
    pub fn open(path: &Path) -> Result<Opening, Error> {
        Self::open_with(path, Room::default())
    }

    pub(crate) fn open_with(path: &Path, room: Room) -> Result<Opening, Error> {
        let opened = mend::open(path, room)?;
        let (commands, received) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            feeds: Feeds::default(),
            readers: Arc::new(Readers::new(path.to_owned())),
            commands: commands.downgrade(),
            looked: Mutex::default(),
            changes: watch::Sender::new(0),
        });
        Writer::start(opened.connection, opened.lock, path, received, Arc::clone(&shared))?;
        Ok(Opening { journal: Self { commands, shared }, mended: opened.mended })
    }

    /// Adds a session.
    pub async fn create(&self, new: NewSession) -> Result<(), Error> {
        self.change(Change::Create(new)).await.map(drop)
    }

    /// Writes to a session: all of the batch or nothing. Returns the number of the session's last
    /// entry, once all is committed as durably as it must be.
    ///
    /// If the future is dropped, the batch may be written or not.
    pub async fn write(&self, session: SessionId, batch: Batch) -> Result<Seq, Error> {
        self.change(Change::Write(session, batch)).await
    }

    /// At most so many entries after one, in order.
    pub async fn read(
        &self,
        session: SessionId,
        after: Seq,
        most: usize,
    ) -> Result<Vec<Entry>, Error> {
        let portion = Portion { entries: most, bytes: usize::MAX };
        let stretch = self
            .shared
            .readers
            .read(move |connection| query::entries(connection, session, after, portion));
        Ok(stretch.await?.entries)
    }

    /// Follows a session from after an entry on.
    pub fn follow(&self, session: SessionId, after: Seq) -> Follower {
        Follower::new(session, after, Arc::clone(&self.shared))
    }

    /// A counter that increases with every commit of this process, and with every commit of another
    /// process that this one notices. Closed with the journal.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// All sessions, the last active first.
    pub async fn sessions(&self) -> Result<Vec<SessionRecord>, Error> {
        self.shared.readers.read(query::sessions).await
    }

    /// A session.
    pub async fn session(&self, id: SessionId) -> Result<Option<SessionRecord>, Error> {
        self.shared.readers.read(move |connection| query::session(connection, id)).await
    }

    /// The sessions whose id, or an id of whose agent, begins so; the last active first.
    pub async fn find(&self, prefix: &str) -> Result<Vec<SessionId>, Error> {
        let prefix = prefix.to_owned();
        self.shared.readers.read(move |connection| query::find(connection, &prefix)).await
    }

    /// All prompts of a session, in the order of the queue and then of age.
    pub async fn prompts(&self, session: SessionId) -> Result<Vec<PromptRecord>, Error> {
        self.prompts_that_are(session, Prompts::All).await
    }

    /// A prompt of a session.
    pub async fn prompt(
        &self,
        session: SessionId,
        id: Uuid,
    ) -> Result<Option<PromptRecord>, Error> {
        Ok(self.prompts_that_are(session, Prompts::One(id)).await?.pop())
    }

    /// The prompts of a session that are not in a final state, in the order of the queue.
    pub async fn open_prompts(&self, session: SessionId) -> Result<Vec<PromptRecord>, Error> {
        self.prompts_that_are(session, Prompts::Open).await
    }

    async fn prompts_that_are(
        &self,
        session: SessionId,
        which: Prompts,
    ) -> Result<Vec<PromptRecord>, Error> {
        self.shared.readers.read(move |connection| query::prompts(connection, session, which)).await
    }

    /// The lines for a session's agent that may not have reached it, in order.
    pub async fn outbound(&self, session: SessionId) -> Result<Vec<Outbound>, Error> {
        self.shared.readers.read(move |connection| query::outbound(connection, session)).await
    }

    /// The requests nobody has answered, of one session or all, oldest first.
    pub async fn open_requests(
        &self,
        session: Option<SessionId>,
    ) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
        self.shared.readers.read(move |connection| query::open_requests(connection, session)).await
    }

    /// A request of a session.
    pub async fn request(
        &self,
        session: SessionId,
        id: &str,
    ) -> Result<Option<RequestRecord>, Error> {
        let id = id.to_owned();
        self.shared.readers.read(move |connection| query::request(connection, session, &id)).await
    }

    /// The last requests that were resolved, of one session or all, newest first.
    pub async fn ledger(
        &self,
        session: Option<SessionId>,
        most: usize,
    ) -> Result<Vec<(SessionId, RequestRecord)>, Error> {
        self.shared.readers.read(move |connection| query::ledger(connection, session, most)).await
    }

    /// The grants in force: not revoked, and not over.
    pub async fn grants(&self, now: u64) -> Result<Vec<Grant>, Error> {
        self.shared.readers.read(move |connection| query::grants(connection, now)).await
    }

    /// Adds a grant, or replaces the one with its id.
    pub async fn add_grant(&self, grant: Grant) -> Result<(), Error> {
        self.change(Change::AddGrant(grant)).await.map(drop)
    }

    /// Ends a grant. Nothing happens where there is none or it is revoked already.
    pub async fn revoke_grant(&self, id: Uuid, at: u64) -> Result<(), Error> {
        self.change(Change::RevokeGrant(id, at)).await.map(drop)
    }

    /// Puts things into a drawer, all or nothing; on the disk when it is answered.
    pub async fn keep(&self, drawer: &str, memories: Vec<Memory>) -> Result<(), Error> {
        self.change(Change::Keep(drawer.to_owned(), memories)).await.map(drop)
    }

    /// All that is in a drawer, by name.
    pub async fn kept(&self, drawer: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let drawer = drawer.to_owned();
        self.shared.readers.read(move |connection| query::kept(connection, &drawer)).await
    }

    /// Drops what only served streaming, up to an entry, and packs the rest. For after a turn.
    ///
    /// A message that is still being written at that entry is left for the next time, with all that
    /// follows it. Room on the disk is given back later, see [`tidy`](Self::tidy).
    pub async fn settle(&self, session: SessionId, upto: Seq) -> Result<Settled, Error> {
        settle::settle(self, session, upto).await
    }

    /// Waits until what was settled or deleted has given back its room.
    pub async fn tidy(&self) -> Result<(), Error> {
        self.ask(Command::Tidy).await.map(drop)
    }

    /// Removes a session and all that belongs to it.
    pub async fn delete(&self, session: SessionId) -> Result<(), Error> {
        self.change(Change::Delete(session)).await.map(drop)
    }

    /// Looks through the whole file. Takes its time.
    pub async fn check(&self) -> Result<Health, Error> {
        self.shared.readers.read(Health::of).await
    }

    /// Lets the writer finish what it took, and closes the file, for all clones.
    ///
    /// Dropping the last clone does the same without waiting.
    pub async fn close(self) -> Result<(), Error> {
        match self.ask(Command::Close).await {
            Ok(_) | Err(Error::Closed) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn readers(&self) -> &Arc<Readers> {
        &self.shared.readers
    }

    pub(crate) async fn change(&self, change: Change) -> Result<Seq, Error> {
        self.ask(|answer| Command::Change(Box::new(change), answer)).await
    }

    async fn ask(&self, command: impl FnOnce(Answer) -> Command) -> Result<Seq, Error> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    #[cfg(test)]
    pub(crate) fn followed_sessions(&self) -> usize {
        self.shared.feeds.sessions()
    }
}
