//! All terminals of a server, by session.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tokio::sync::watch;
use uuid::Uuid;

use crate::screen::ScreenSize;
use crate::shell::{ShellConfig, ShellStartError};
use crate::terminal::Terminal;

/// How many terminals a session may have, running or ended.
pub const MAX_OF_SESSION: usize = 5;

/// How many terminals there may be. The scrollback of each takes up to 10 MB.
pub const MAX_TERMINALS: usize = 10;

/// All terminals. Their shells are killed when it is dropped.
#[derive(Debug)]
pub struct Terminals {
    config: ShellConfig,
    /// By session and number.
    all: Mutex<BTreeMap<(Uuid, u32), Arc<Terminal>>>,
    /// Counts changes of the list, of titles and of ends.
    changes: watch::Sender<u64>,
}

/// Why there is no new terminal.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("a session may have {MAX_OF_SESSION} terminals; close one first")]
    TooManyOfSession,
    #[error("there may be {MAX_TERMINALS} terminals; close one of another session first")]
    TooMany,
    #[error("the terminal still runs")]
    StillRunning,
    #[error(transparent)]
    Shell(#[from] ShellStartError),
}

impl Terminals {
    pub fn new(config: ShellConfig) -> Self {
        Self { config, all: Mutex::default(), changes: watch::Sender::default() }
    }

    /// Starts a terminal. With `again` it takes the place of one that has ended.
    pub fn start(
        &self,
        session: Uuid,
        directory: &Path,
        size: ScreenSize,
        again: Option<u32>,
    ) -> Result<Arc<Terminal>, StartError> {
        let mut all = self.lock();
        let ended = |it: &Arc<Terminal>| it.ended().is_some();
        let number = if let Some(number) = again {
            if all.get(&(session, number)).is_some_and(|it| !ended(it)) {
                return Err(StartError::StillRunning);
            }
            number
        } else {
            let numbers = 1..=u32::MAX;
            numbers.into_iter().find(|it| !all.contains_key(&(session, *it))).unwrap_or(1)
        };
        let is_new = !all.contains_key(&(session, number));
        let of_session = all.keys().filter(|it| it.0 == session).count();
        if is_new && of_session >= MAX_OF_SESSION {
            return Err(StartError::TooManyOfSession);
        }
        if is_new && all.len() >= MAX_TERMINALS {
            // One that has ended is only there to be read.
            let Some(key) = all.iter().find(|it| ended(it.1)).map(|it| *it.0) else {
                return Err(StartError::TooMany);
            };
            all.remove(&key);
        }
        let changes = self.changes.clone();
        let terminal = Terminal::start(number, &self.config, directory, size, changes)?;
        all.insert((session, number), Arc::clone(&terminal));
        drop(all);
        self.changes.send_modify(|it| *it += 1);
        Ok(terminal)
    }

    /// The terminals of a session, in the order of their numbers.
    pub fn of_session(&self, session: Uuid) -> Vec<Arc<Terminal>> {
        let range = (session, 0)..=(session, u32::MAX);
        self.lock().range(range).map(|it| Arc::clone(it.1)).collect()
    }

    pub fn find(&self, session: Uuid, number: u32) -> Option<Arc<Terminal>> {
        self.lock().get(&(session, number)).cloned()
    }

    /// Removes a terminal and ends its programs. Returns whether there was one.
    pub async fn close(&self, session: Uuid, number: u32) -> bool {
        let removed = self.lock().remove(&(session, number));
        let Some(terminal) = removed else { return false };
        self.changes.send_modify(|it| *it += 1);
        terminal.close().await;
        true
    }

    /// Closes the terminals of a session that is deleted.
    pub async fn close_session(&self, session: Uuid) {
        for terminal in self.of_session(session) {
            self.close(session, terminal.number()).await;
        }
    }

    /// Closes all terminals at the same time.
    pub async fn close_all(&self) {
        let all = std::mem::take(&mut *self.lock());
        let mut closing = tokio::task::JoinSet::new();
        for terminal in all.into_values() {
            closing.spawn(async move { terminal.close().await });
        }
        while closing.join_next().await.is_some() {}
    }

    /// Told when a terminal starts, ends, is closed, or has another title.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Uuid, u32), Arc<Terminal>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Terminals {
    fn drop(&mut self) {
        for terminal in self.lock().values() {
            terminal.kill();
        }
    }
}
