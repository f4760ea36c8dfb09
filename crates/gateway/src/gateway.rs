//! What all requests share.

use std::ops::Deref;
use std::sync::Arc;

use axum::http::StatusCode;
use session::Sessions;
use tokio::sync::Semaphore;

use crate::access::{Attempts, Keyring, Pass};
use crate::api::Problem;
use crate::config::Config;
use crate::lobby::Lobby;
use crate::room::Rooms;
use crate::usage::Usages;
use crate::visitor::{Peer, Visitor};

/// How many of what costs a thread or much reading may run at a time; others wait.
const HEAVY: usize = 4;

/// What all requests share. Clones are the same gateway.
#[derive(Clone, Debug)]
pub(crate) struct Gateway(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) sessions: Sessions,
    pub(crate) config: Config,
    pub(crate) keyring: Arc<Keyring>,
    pub(crate) attempts: Attempts,
    pub(crate) rooms: Rooms,
    pub(crate) lobby: Lobby,
    pub(crate) usages: Usages,
    pub(crate) heavy: Semaphore,
    pub(crate) port: u16,
}

impl Gateway {
    pub(crate) fn new(sessions: Sessions, config: Config, keyring: Keyring, port: u16) -> Self {
        let journal = sessions.journal().clone();
        Self(Arc::new(Shared {
            rooms: Rooms::new(journal.clone(), config.data.join("views")),
            lobby: Lobby::new(journal),
            usages: Usages::default(),
            attempts: Attempts::default(),
            heavy: Semaphore::new(HEAVY),
            sessions,
            config,
            keyring: Arc::new(keyring),
            port,
        }))
    }

    /// Browsers send a cookie to every port of a host, so its name tells gateways apart.
    pub(crate) fn cookie_name(&self) -> String {
        if self.config.secure {
            return "__Host-towpath".to_owned();
        }
        format!("towpath-{}", self.port)
    }

    /// What a stream of somebody's is open by.
    pub(crate) fn pass(&self, visitor: &Visitor) -> Pass {
        Pass::new(visitor.via.key().cloned(), Arc::clone(&self.keyring))
    }

    /// Somebody presented a key that opens nothing.
    pub(crate) fn wrong_key(&self, from: Option<Peer>) -> Problem {
        let Some(Peer(from)) = from else { return Problem::not_signed_in() };
        if self.attempts.are_too_many(from.ip()) {
            return Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too-many",
                "too many attempts",
                "wait a minute",
            );
        }
        self.attempts.wrong(from.ip());
        Problem::not_signed_in()
    }
}

impl Deref for Gateway {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
