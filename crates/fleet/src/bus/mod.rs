//! What connects the machines of a fleet: logs, keys, questions and objects.
//!
//! The operations are few and small, so that a double in memory has the same meaning as the real
//! servers, and another engine stays possible.
//!
//! | Operation | Promise |
//! |---|---|
//! | [`append`](Bus::append) | stored on a majority of the servers when it returns, only if the log's last message is the expected one |
//! | [`read`](Bus::read), [`last`](Bus::last) | messages in order, without gaps. A reading may end early: only an append knows the end |
//! | [`follow`](Bus::follow) | messages that are *stored*, as they come. After a gap in the connection some are missing: read them |
//! | [`put`](Bus::put) | a key changes only if it is what the writer expected, and may expire |
//! | [`put_guarded`](Bus::put_guarded) | a key changes only while another one is what the writer knows |
//! | [`ask`](Bus::ask) | reaches a worker that listens, or fails at once |
//!
//! An append whose answer is lost is [unsure](BusError::Unsure): the caller reads the last message
//! back to know.

pub mod memory;
pub mod metered;
pub mod nats;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use journal::SessionId;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// What an operation of a bus returns.
pub type BusFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BusError>> + Send + 'a>>;

/// The largest message of a log. Larger content goes into an object.
pub const MAX_MESSAGE: usize = 512 << 10;

/// The number of a stored message. Numbers grow within a log, with gaps; 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition(pub u64);

/// A message in the log of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogMessage {
    pub session: SessionId,
    pub position: LogPosition,
    pub payload: Bytes,
}

/// The number of a value of a key. It changes with every value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRevision(pub u64);

/// A table of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyTable {
    /// The workers, by name. A key expires if it is not renewed.
    Workers,
    /// What gateways elect each other for, such as the Telegram bridge. Keys expire.
    Roles,
    /// The state of what they elect each other for. Keys stay.
    Bridges,
    /// The access tokens that every gateway accepts, by the hash of their secrets. Keys stay.
    Access,
}

/// What an object is for, as its name says. Each kind is in a bucket with rules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Changes of a session that are too large for a message of its log: `SESSION/…`. Written once, and never
    /// replaced.
    Pack,
    /// A question that is too large for a message: `question/…`. Removed after some minutes.
    Question,
    /// Anything else, such as the files of a session. A later object with the same name replaces it.
    Files,
}

impl ObjectKind {
    /// The kind of the object with a name.
    pub fn of(name: &str) -> Self {
        match name.split_once('/') {
            Some(("question", _)) => Self::Question,
            Some((session, _)) if session.parse::<SessionId>().is_ok() => Self::Pack,
            _ => Self::Files,
        }
    }
}

/// A key that must still have a value, for writing others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyGuard {
    pub key: String,
    pub revision: KeyRevision,
}

/// What a writer expects of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It does not exist.
    Missing,
    /// Its value is the one with this number.
    Revision(KeyRevision),
    /// Whatever it is, it is replaced.
    Anything,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    pub key: String,
    pub revision: KeyRevision,
    /// The new value; none if the key was removed or has expired.
    pub value: Option<Bytes>,
}

/// A question to a worker.
#[derive(Debug)]
pub struct BusQuestion {
    pub payload: Bytes,
    /// Where the answer goes. Dropped without one, or with one that is too large, the asker is told so.
    pub reply: oneshot::Sender<Bytes>,
}

/// Why an operation of a bus failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BusError {
    /// The log's last message or the value of the key is not the expected one.
    #[error("another writer was faster")]
    Conflict,
    /// It is not known whether the message was stored.
    #[error("the servers did not confirm in time: {0}")]
    Unsure(String),
    /// There is no listener for the question.
    #[error("the worker is not connected")]
    NoListener,
    /// The question arrived, and there is no answer to it for this reason.
    #[error("the worker could not answer: {0}")]
    NotAnswered(String),
    /// No answer in time, or no connection.
    #[error("the servers cannot be reached: {0}")]
    Unavailable(String),
    /// The credentials do not allow it.
    #[error("the credentials do not allow `{0}`")]
    Denied(String),
    #[error("a message of {size} bytes is too large, the limit is {limit}")]
    TooLarge { size: usize, limit: usize },
    /// What the servers have of an object is not what was stored, or not all of it.
    #[error("the object `{0}` is damaged on the servers")]
    Damaged(String),
    /// The servers are not set up for Towpath, in words with what to do.
    #[error("{0}")]
    Setup(String),
}

/// A future that ends with a later connection.
pub type Reconnected = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The connection of a machine to its fleet.
pub trait Bus: fmt::Debug + Send + Sync {
    /// Ends when the connection is established again, counted from this call. What failed for the lack of a
    /// connection can be tried at once then.
    fn reconnected(&self) -> Reconnected;

    /// Appends to the log of a session if its last message is `expected`.
    fn append(
        &self,
        session: SessionId,
        expected: LogPosition,
        payload: Bytes,
    ) -> BusFuture<'_, LogPosition>;

    /// The last message in the log of a session.
    fn last(&self, session: SessionId) -> BusFuture<'_, Option<LogMessage>>;

    /// Some messages of a log after a position, in order; none if there are no more now.
    fn read(&self, session: SessionId, after: LogPosition) -> BusFuture<'_, Vec<LogMessage>>;

    /// All sessions that have a log, with the position of the last message.
    fn logs(&self) -> BusFuture<'_, Vec<(SessionId, LogPosition)>>;

    /// The messages of all logs that are stored from now on. The channel ends with the connection, also if that
    /// is restored: read what is missing, and follow again. If the receiver is slow, messages are dropped. So are
    /// some in the first moments, until all servers know of the follower.
    fn follow(&self) -> BusFuture<'_, mpsc::Receiver<LogMessage>>;

    /// Writes a key. It expires after `lifetime`, if there is one.
    fn put(
        &self,
        table: KeyTable,
        key: &str,
        value: Bytes,
        expected: Expected,
        lifetime: Option<Duration>,
    ) -> BusFuture<'_, KeyRevision>;

    /// Writes a key whatever it is, or removes it if there is no value, while `guard` is a key of the same
    /// table with that value. One at a time: of two on their way, the servers may refuse one.
    fn put_guarded(
        &self,
        table: KeyTable,
        key: &str,
        value: Option<Bytes>,
        guard: &KeyGuard,
    ) -> BusFuture<'_, ()>;

    /// The value of a key.
    fn get(&self, table: KeyTable, key: &str) -> BusFuture<'_, Option<(KeyRevision, Bytes)>>;

    /// Removes a key if its value is the expected one.
    fn remove(&self, table: KeyTable, key: &str, expected: Expected) -> BusFuture<'_, ()>;

    /// All keys of a table as changes, then `None`, then each change as it happens. The channel ends with
    /// the connection, also if that is restored: watch again, and forget the keys that are not listed.
    fn watch(&self, table: KeyTable) -> BusFuture<'_, mpsc::Receiver<Option<KeyChange>>>;

    /// Asks a worker and waits for its answer. One that has too many questions refuses more at once.
    fn ask(&self, worker: &str, payload: Bytes, timeout: Duration) -> BusFuture<'_, Bytes>;

    /// The questions to a worker from now on, also after the connection was lost and restored.
    fn questions(&self, worker: &str) -> BusFuture<'_, mpsc::Receiver<BusQuestion>>;

    /// Stores an object. Whether it replaces an earlier one with the same name is said by its
    /// [kind](ObjectKind): one that is written once is only compared with what is there.
    fn put_object(&self, name: &str, content: Bytes) -> BusFuture<'_, ()>;

    /// An object.
    fn get_object(&self, name: &str) -> BusFuture<'_, Option<Bytes>>;
}
