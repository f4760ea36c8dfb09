//! The bus on NATS JetStream.
//!
//! Logs are a stream with a subject for each session, keys are key-value buckets, objects an object store,
//! questions requests. What needs the newest state asks the leader of a stream; reading a log asks any
//! server. `towpath fleet init` creates all of it: see [`setup`](crate::setup).

mod connection;
mod keys;
mod logs;
pub(crate) mod objects;
mod questions;
mod stored;
pub(crate) mod subjects;

use std::time::Duration;

use bytes::Bytes;
use journal::SessionId;
use tokio::sync::{mpsc, watch};

use super::{
    Bus, BusError, BusFuture, BusQuestion, Expected, KeyChange, KeyGuard, KeyRevision, KeyTable,
    LogMessage, LogPosition, Reconnected,
};
pub use connection::{ClientCertificate, ConnectionStatus, NatsConfig};
pub(crate) use connection::{FirstConnection, JetStreamError, NatsConnection, RequestFailure};
use subjects::LOG_STREAM;

/// The connection of one machine to the servers of its fleet.
#[derive(Clone, Debug)]
pub struct NatsBus {
    connection: NatsConnection,
}

impl NatsBus {
    /// Connects, and checks the version of the server and that `towpath fleet init` was run. A connection that is
    /// lost later is restored without end; until then operations fail as [unavailable](BusError::Unavailable).
    pub async fn connect(config: &NatsConfig) -> Result<Self, BusError> {
        let bus = Self::new(NatsConnection::connect(config, FirstConnection::Now).await?);
        bus.check_servers().await?;
        Ok(bus)
    }

    /// The same for servers that may be away: the connection is established as soon as that is possible, and
    /// nothing is [checked](Self::check_servers).
    pub async fn connect_later(config: &NatsConfig) -> Result<Self, BusError> {
        Ok(Self::new(NatsConnection::connect(config, FirstConnection::Later).await?))
    }

    /// Checks the version of the server and that `towpath fleet init` was run.
    pub async fn check_servers(&self) -> Result<(), BusError> {
        self.connection.check_version()?;
        let found = self.connection.api(&format!("STREAM.INFO.{LOG_STREAM}"), None).await;
        match found.map_err(RequestFailure::into_error)? {
            Ok(_) => Ok(()),
            Err(error) => Err(stored::missing_stream(LOG_STREAM, error)),
        }
    }

    pub(crate) fn new(connection: NatsConnection) -> Self {
        Self { connection }
    }

    /// The state of the connection, as it changes.
    pub fn status(&self) -> watch::Receiver<ConnectionStatus> {
        self.connection.watch_status()
    }
}

impl Bus for NatsBus {
    fn reconnected(&self) -> Reconnected {
        Box::pin(self.connection.reconnected())
    }

    fn append(
        &self,
        session: SessionId,
        expected: LogPosition,
        payload: Bytes,
    ) -> BusFuture<'_, LogPosition> {
        Box::pin(logs::append(&self.connection, session, expected, payload))
    }

    fn last(&self, session: SessionId) -> BusFuture<'_, Option<LogMessage>> {
        Box::pin(logs::last(&self.connection, session))
    }

    fn read(&self, session: SessionId, after: LogPosition) -> BusFuture<'_, Vec<LogMessage>> {
        Box::pin(logs::read(&self.connection, session, after))
    }

    fn logs(&self) -> BusFuture<'_, Vec<(SessionId, LogPosition)>> {
        Box::pin(logs::logs(&self.connection))
    }

    fn follow(&self) -> BusFuture<'_, mpsc::Receiver<LogMessage>> {
        Box::pin(logs::follow(&self.connection))
    }

    fn put(
        &self,
        table: KeyTable,
        key: &str,
        value: Bytes,
        expected: Expected,
        lifetime: Option<Duration>,
    ) -> BusFuture<'_, KeyRevision> {
        let key = key.to_owned();
        Box::pin(async move {
            keys::put(&self.connection, table, &key, value, expected, lifetime).await
        })
    }

    fn put_guarded(
        &self,
        table: KeyTable,
        key: &str,
        value: Option<Bytes>,
        guard: &KeyGuard,
    ) -> BusFuture<'_, ()> {
        let (key, guard) = (key.to_owned(), guard.clone());
        Box::pin(
            async move { keys::put_guarded(&self.connection, table, &key, value, &guard).await },
        )
    }

    fn get(&self, table: KeyTable, key: &str) -> BusFuture<'_, Option<(KeyRevision, Bytes)>> {
        let key = key.to_owned();
        Box::pin(async move { keys::get(&self.connection, table, &key).await })
    }

    fn remove(&self, table: KeyTable, key: &str, expected: Expected) -> BusFuture<'_, ()> {
        let key = key.to_owned();
        Box::pin(async move { keys::remove(&self.connection, table, &key, expected).await })
    }

    fn watch(&self, table: KeyTable) -> BusFuture<'_, mpsc::Receiver<Option<KeyChange>>> {
        Box::pin(keys::watch(&self.connection, table))
    }

    fn ask(&self, worker: &str, payload: Bytes, timeout: Duration) -> BusFuture<'_, Bytes> {
        let worker = worker.to_owned();
        Box::pin(async move { questions::ask(&self.connection, &worker, payload, timeout).await })
    }

    fn questions(&self, worker: &str) -> BusFuture<'_, mpsc::Receiver<BusQuestion>> {
        let worker = worker.to_owned();
        Box::pin(async move { questions::questions(&self.connection, &worker).await })
    }

    fn put_object(&self, name: &str, content: Bytes) -> BusFuture<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move { objects::put_object(&self.connection, &name, content).await })
    }

    fn get_object(&self, name: &str) -> BusFuture<'_, Option<Bytes>> {
        let name = name.to_owned();
        Box::pin(async move { objects::get_object(&self.connection, &name).await })
    }
}
