//! A bus in memory, for tests and the simulation: the same meaning as real servers, and failures on
//! request.
//!
//! [`MemoryServers`] is what survives a client. Each [`MemoryBus`] is the connection of one machine to
//! it, which can be cut by itself.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use journal::SessionId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::{
    Bus, BusError, BusFuture, BusQuestion, Expected, KeyChange, KeyGuard, KeyRevision, KeyTable,
    LogMessage, LogPosition, MAX_MESSAGE, ObjectKind, Reconnected,
};

/// How many messages may wait for a follower.
const FOLLOWER_QUEUE: usize = 1024;

/// The largest answer to a question: what real servers take of a message, without its headers.
const MAX_ANSWER: usize = (1 << 20) - 1024;

/// How many messages one reading returns.
const READ_MESSAGES: usize = 64;

/// Servers in memory. Clones are the same servers.
#[derive(Clone, Debug, Default)]
pub struct MemoryServers {
    state: Arc<Mutex<ServerState>>,
}

/// The connection of one machine to [`MemoryServers`].
#[derive(Debug)]
pub struct MemoryBus {
    servers: MemoryServers,
    cut: ConnectionCut,
    /// Whether the answers to appends are lost. The messages are stored.
    losing_answers: AtomicBool,
    /// Counts how many times the connection was restored.
    restored: watch::Sender<u64>,
    /// Counts the objects that were not stored because the connection was cut.
    refused_objects: watch::Sender<u64>,
}

/// Whether a connection is cut. Clones are of the same connection.
#[derive(Clone, Debug, Default)]
struct ConnectionCut(Arc<AtomicBool>);

#[derive(Debug, Default)]
struct ServerState {
    last_position: u64,
    last_revision: u64,
    logs: BTreeMap<SessionId, Vec<LogMessage>>,
    followers: Vec<(ConnectionCut, mpsc::Sender<LogMessage>)>,
    keys: BTreeMap<(KeyTable, String), StoredKey>,
    watchers: Vec<(ConnectionCut, KeyTable, mpsc::Sender<Option<KeyChange>>)>,
    listeners: HashMap<String, (ConnectionCut, mpsc::Sender<BusQuestion>)>,
    objects: HashMap<String, Bytes>,
    damaged: HashSet<String>,
}

#[derive(Debug)]
struct StoredKey {
    revision: KeyRevision,
    value: Bytes,
    expires: Option<Instant>,
}

impl MemoryServers {
    /// Connects a machine.
    pub fn connect(&self) -> MemoryBus {
        MemoryBus {
            servers: self.clone(),
            cut: ConnectionCut::default(),
            losing_answers: AtomicBool::new(false),
            restored: watch::Sender::new(0),
            refused_objects: watch::Sender::new(0),
        }
    }

    /// Damages an object, or repairs it.
    pub fn set_damaged(&self, name: &str, damaged: bool) {
        let mut state = self.state();
        if damaged {
            state.damaged.insert(name.to_owned());
        } else {
            state.damaged.remove(name);
        }
    }

    fn state(&self) -> MutexGuard<'_, ServerState> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.expire();
        state
    }
}

impl MemoryBus {
    /// Cuts the connection, or restores it. Followers and watchers end with the connection. Questions come
    /// again when it is restored.
    pub fn set_cut(&self, cut: bool) {
        let mut state = self.servers.state();
        self.cut.0.store(cut, Ordering::SeqCst);
        state.followers.retain(|(connection, _)| !connection.is_cut());
        state.watchers.retain(|(connection, ..)| !connection.is_cut());
        drop(state);
        if !cut {
            self.restored.send_modify(|count| *count += 1);
        }
    }

    /// Counts the objects that were not stored because the connection was cut.
    pub fn refused_objects(&self) -> watch::Receiver<u64> {
        self.refused_objects.subscribe()
    }

    /// Loses the answers to appends from now on, or no longer.
    pub fn set_losing_answers(&self, losing: bool) {
        self.losing_answers.store(losing, Ordering::SeqCst);
    }

    fn state(&self) -> Result<MutexGuard<'_, ServerState>, BusError> {
        if self.cut.is_cut() {
            return Err(BusError::Unavailable("the connection is cut".to_owned()));
        }
        Ok(self.servers.state())
    }
}

impl ConnectionCut {
    fn is_cut(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl ServerState {
    /// Removes the keys whose time is up.
    fn expire(&mut self) {
        let now = Instant::now();
        let is_over = |it: &StoredKey| it.expires.is_some_and(|at| at <= now);
        let over: Vec<_> =
            self.keys.iter().filter(|(_, it)| is_over(it)).map(|(key, _)| key.clone()).collect();
        for (table, key) in over {
            self.remove(table, key);
        }
    }

    fn remove(&mut self, table: KeyTable, key: String) {
        if self.keys.remove(&(table, key.clone())).is_some() {
            let revision = self.next_revision();
            self.publish_key(table, &KeyChange { key, revision, value: None });
        }
    }

    fn next_revision(&mut self) -> KeyRevision {
        self.last_revision += 1;
        KeyRevision(self.last_revision)
    }

    fn publish_key(&mut self, table: KeyTable, change: &KeyChange) {
        self.watchers.retain(|(_, watched, sender)| {
            *watched != table || sender.try_send(Some(change.clone())).is_ok()
        });
    }

    fn check(&self, table: KeyTable, key: &str, expected: Expected) -> Result<(), BusError> {
        let found = self.keys.get(&(table, key.to_owned())).map(|it| it.revision);
        let fits = match expected {
            Expected::Missing => found.is_none(),
            Expected::Revision(revision) => found == Some(revision),
            Expected::Anything => true,
        };
        if fits { Ok(()) } else { Err(BusError::Conflict) }
    }
}

/// A future that is ready.
fn ready<'a, T: Send + 'a>(result: Result<T, BusError>) -> BusFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Bus for MemoryBus {
    fn reconnected(&self) -> Reconnected {
        let mut restored = self.restored.subscribe();
        Box::pin(async move {
            if restored.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn append(
        &self,
        session: SessionId,
        expected: LogPosition,
        payload: Bytes,
    ) -> BusFuture<'_, LogPosition> {
        let append = || {
            if payload.len() > MAX_MESSAGE {
                return Err(BusError::TooLarge { size: payload.len(), limit: MAX_MESSAGE });
            }
            let mut state = self.state()?;
            let last = state.logs.get(&session).and_then(|log| log.last());
            if last.map_or(LogPosition(0), |it| it.position) != expected {
                return Err(BusError::Conflict);
            }
            state.last_position += 1;
            let position = LogPosition(state.last_position);
            let message = LogMessage { session, position, payload };
            state.logs.entry(session).or_default().push(message.clone());
            state.followers.retain(|(_, follower)| {
                !matches!(
                    follower.try_send(message.clone()),
                    Err(mpsc::error::TrySendError::Closed(_))
                )
            });
            if self.losing_answers.load(Ordering::SeqCst) {
                return Err(BusError::Unsure("the answer is lost".to_owned()));
            }
            Ok(position)
        };
        ready(append())
    }

    fn last(&self, session: SessionId) -> BusFuture<'_, Option<LogMessage>> {
        let last = |state: &ServerState| state.logs.get(&session)?.last().cloned();
        ready(self.state().map(|state| last(&state)))
    }

    fn read(&self, session: SessionId, after: LogPosition) -> BusFuture<'_, Vec<LogMessage>> {
        let read = |state: &ServerState| {
            let log = state.logs.get(&session).map_or(&[][..], Vec::as_slice);
            let from = log.partition_point(|it| it.position <= after);
            log.iter().skip(from).take(READ_MESSAGES).cloned().collect()
        };
        ready(self.state().map(|state| read(&state)))
    }

    fn logs(&self) -> BusFuture<'_, Vec<(SessionId, LogPosition)>> {
        let logs = |state: &ServerState| {
            let last = |log: &Vec<LogMessage>| log.last().map(|it| (it.session, it.position));
            state.logs.values().filter_map(last).collect()
        };
        ready(self.state().map(|state| logs(&state)))
    }

    fn follow(&self) -> BusFuture<'_, mpsc::Receiver<LogMessage>> {
        ready(self.state().map(|mut state| {
            let (sender, receiver) = mpsc::channel(FOLLOWER_QUEUE);
            state.followers.push((self.cut.clone(), sender));
            receiver
        }))
    }

    fn put(
        &self,
        table: KeyTable,
        key: &str,
        value: Bytes,
        expected: Expected,
        lifetime: Option<Duration>,
    ) -> BusFuture<'_, KeyRevision> {
        let put = || {
            let mut state = self.state()?;
            state.check(table, key, expected)?;
            let revision = state.next_revision();
            let expires = lifetime.map(|lifetime| Instant::now() + lifetime);
            let stored = StoredKey { revision, value: value.clone(), expires };
            state.keys.insert((table, key.to_owned()), stored);
            let change = KeyChange { key: key.to_owned(), revision, value: Some(value) };
            state.publish_key(table, &change);
            Ok(revision)
        };
        ready(put())
    }

    fn put_guarded(
        &self,
        table: KeyTable,
        key: &str,
        value: Option<Bytes>,
        guard: &KeyGuard,
    ) -> BusFuture<'_, ()> {
        let put = || {
            let mut state = self.state()?;
            state.check(table, &guard.key, Expected::Revision(guard.revision))?;
            let Some(value) = value else {
                state.remove(table, key.to_owned());
                return Ok(());
            };
            let revision = state.next_revision();
            let stored = StoredKey { revision, value: value.clone(), expires: None };
            state.keys.insert((table, key.to_owned()), stored);
            let change = KeyChange { key: key.to_owned(), revision, value: Some(value) };
            state.publish_key(table, &change);
            Ok(())
        };
        ready(put())
    }

    fn get(&self, table: KeyTable, key: &str) -> BusFuture<'_, Option<(KeyRevision, Bytes)>> {
        let get = |state: &ServerState| {
            let stored = state.keys.get(&(table, key.to_owned()))?;
            Some((stored.revision, stored.value.clone()))
        };
        ready(self.state().map(|state| get(&state)))
    }

    fn remove(&self, table: KeyTable, key: &str, expected: Expected) -> BusFuture<'_, ()> {
        let remove = || {
            let mut state = self.state()?;
            state.check(table, key, expected)?;
            state.remove(table, key.to_owned());
            Ok(())
        };
        ready(remove())
    }

    fn watch(&self, table: KeyTable) -> BusFuture<'_, mpsc::Receiver<Option<KeyChange>>> {
        ready(self.state().map(|mut state| {
            let changes: Vec<_> = state
                .keys
                .iter()
                .filter(|((stored_in, _), _)| *stored_in == table)
                .map(|((_, key), it)| {
                    let (revision, value) = (it.revision, Some(it.value.clone()));
                    Some(KeyChange { key: key.clone(), revision, value })
                })
                .chain([None])
                .collect();
            let (sender, receiver) = mpsc::channel(changes.len() + FOLLOWER_QUEUE);
            for change in changes {
                // There is room for all of them.
                let _ = sender.try_send(change);
            }
            state.watchers.push((self.cut.clone(), table, sender));
            receiver
        }))
    }

    fn ask(&self, worker: &str, payload: Bytes, timeout: Duration) -> BusFuture<'_, Bytes> {
        let listener = self.state().map(|state| state.listeners.get(worker).cloned());
        Box::pin(async move {
            let (connection, listener) = listener?.ok_or(BusError::NoListener)?;
            if connection.is_cut() {
                return Err(BusError::NoListener);
            }
            let (reply, answer) = oneshot::channel();
            let question = BusQuestion { payload, reply };
            listener.try_send(question).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => {
                    BusError::NotAnswered("too many questions wait".to_owned())
                }
                mpsc::error::TrySendError::Closed(_) => BusError::NoListener,
            })?;
            match tokio::time::timeout(timeout, answer).await {
                Ok(Ok(answer)) if answer.len() > MAX_ANSWER => {
                    let why = format!("its answer of {} bytes is too large", answer.len());
                    Err(BusError::NotAnswered(why))
                }
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(_)) => Err(BusError::NotAnswered("it has dropped the question".to_owned())),
                Err(_) => Err(BusError::Unavailable("no answer in time".to_owned())),
            }
        })
    }

    fn questions(&self, worker: &str) -> BusFuture<'_, mpsc::Receiver<BusQuestion>> {
        let worker = worker.to_owned();
        ready(self.state().map(|mut state| {
            let (sender, receiver) = mpsc::channel(FOLLOWER_QUEUE);
            state.listeners.insert(worker, (self.cut.clone(), sender));
            receiver
        }))
    }

    fn put_object(&self, name: &str, content: Bytes) -> BusFuture<'_, ()> {
        let put = || {
            let mut state = self.state()?;
            match (state.objects.get(name), ObjectKind::of(name)) {
                (Some(found), ObjectKind::Pack | ObjectKind::Question) if *found != content => {
                    return Err(BusError::Damaged(name.to_owned()));
                }
                _ => drop(state.objects.insert(name.to_owned(), content)),
            }
            Ok(())
        };
        let stored = put();
        if stored.is_err() {
            self.refused_objects.send_modify(|count| *count += 1);
        }
        ready(stored)
    }

    fn get_object(&self, name: &str) -> BusFuture<'_, Option<Bytes>> {
        let get = || {
            let state = self.state()?;
            if state.damaged.contains(name) {
                return Err(BusError::Damaged(name.to_owned()));
            }
            Ok(state.objects.get(name).cloned())
        };
        ready(get())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use journal::SessionId;
    use uuid::Uuid;

    use super::MemoryServers;
    use crate::bus::{Bus as _, BusError, Expected, KeyTable, LogPosition};

    #[tokio::test]
    async fn an_append_that_expects_another_message_is_refused() {
        let bus = MemoryServers::default().connect();
        let session = SessionId(Uuid::new_v4());
        let first = bus.append(session, LogPosition(0), "a".into()).await.unwrap();
        let stale = bus.append(session, LogPosition(0), "b".into()).await;
        assert_eq!(stale, Err(BusError::Conflict));
        bus.append(session, first, "b".into()).await.unwrap();
        let read = bus.read(session, LogPosition(0)).await.unwrap();
        let payloads: Vec<_> = read.iter().map(|it| &it.payload[..]).collect();
        assert_eq!(payloads, [b"a", b"b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_expires_and_its_watcher_is_told() {
        let bus = MemoryServers::default().connect();
        let mut changes = bus.watch(KeyTable::Workers).await.unwrap();
        assert_eq!(changes.recv().await, Some(None));
        let lifetime = Some(Duration::from_secs(3));
        let value = Bytes::from("{}");
        bus.put(KeyTable::Workers, "w", value, Expected::Missing, lifetime).await.unwrap();
        assert!(changes.recv().await.unwrap().unwrap().value.is_some());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(bus.get(KeyTable::Workers, "w").await.unwrap(), None);
        assert_eq!(changes.recv().await.unwrap().unwrap().value, None);
    }
    #[tokio::test]
    async fn followers_end_with_the_connection_and_questions_come_again() {
        let servers = MemoryServers::default();
        let (worker, gateway) = (servers.connect(), servers.connect());
        let session = SessionId(Uuid::new_v4());
        let mut messages = gateway.follow().await.unwrap();
        let mut questions = worker.questions("w").await.unwrap();
        gateway.set_cut(true);
        let first = worker.append(session, LogPosition(0), "a".into()).await.unwrap();
        assert_eq!(messages.recv().await, None);
        gateway.set_cut(false);
        let mut messages = gateway.follow().await.unwrap();
        let second = worker.append(session, first, "b".into()).await.unwrap();
        assert_eq!(messages.recv().await.unwrap().position, second);
        worker.set_cut(true);
        let minute = Duration::from_mins(1);
        assert_eq!(gateway.ask("w", "x".into(), minute).await, Err(BusError::NoListener));
        worker.set_cut(false);
        let asked = tokio::spawn(async move { gateway.ask("w", "x".into(), minute).await });
        questions.recv().await.unwrap().reply.send("y".into()).unwrap();
        assert_eq!(asked.await.unwrap(), Ok("y".into()));
    }
}
