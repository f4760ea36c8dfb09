//! The state that all requests share.

use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::StatusCode;
use session::Sessions;
use tokio::sync::Semaphore;

use crate::access::{AuthenticatedClient, FailedSignIns, StreamAuthorization, TokenStore, Visitor};
use crate::api::{FrameCache, SessionList, UsageCache, prerender};
use crate::config::GatewayConfig;
use crate::limits::{MAX_FOLDS, POOL_BYTES};
use crate::live::LiveSessions;
use crate::memory_pool::MemoryPool;
use crate::problem::Problem;

/// The state that all requests share. Clones share it too.
#[derive(Clone, Debug)]
pub(crate) struct Gateway(Arc<GatewayState>);

#[derive(Debug)]
pub(crate) struct GatewayState {
    pub(crate) sessions: Sessions,
    pub(crate) config: GatewayConfig,
    pub(crate) tokens: Arc<TokenStore>,
    pub(crate) failed_sign_ins: FailedSignIns,
    pub(crate) live_sessions: LiveSessions<FrameCache>,
    pub(crate) session_list: SessionList,
    pub(crate) usage: UsageCache,
    /// For operations that need threads or fold a part of a session again.
    pub(crate) expensive: Semaphore,
    /// For what is large.
    pub(crate) memory: MemoryPool,
    port: u16,
}

impl Gateway {
    pub(crate) fn new(
        sessions: Sessions,
        config: GatewayConfig,
        tokens: Arc<TokenStore>,
        port: u16,
    ) -> Self {
        let journal = sessions.journal().clone();
        let checkpoints = config.data.join("views");
        Self(Arc::new(GatewayState {
            live_sessions: LiveSessions::new(journal, checkpoints, prerender),
            session_list: SessionList::new(sessions.clone()),
            usage: UsageCache::default(),
            failed_sign_ins: FailedSignIns::default(),
            expensive: Semaphore::new(MAX_FOLDS),
            memory: MemoryPool::new(POOL_BYTES),
            sessions,
            config,
            tokens,
            port,
        }))
    }

    /// Browsers send a cookie to every port of a host, so its name contains the port.
    pub(crate) fn cookie_name(&self) -> String {
        if self.config.secure {
            return "__Host-towpath".to_owned();
        }
        format!("towpath-{}", self.port)
    }

    pub(crate) fn authorize_stream(&self, client: &AuthenticatedClient) -> StreamAuthorization {
        StreamAuthorization::new(client.method.digest().cloned(), Arc::clone(&self.tokens))
    }

    /// Counts a failed sign-in and returns the response to it.
    pub(crate) fn sign_in_failed(&self, from: Visitor) -> Problem {
        let Some(from) = from.address else { return Problem::not_signed_in() };
        if self.failed_sign_ins.limit_reached(from) {
            return Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too-many",
                "too many attempts",
                "wait a minute and try again",
            );
        }
        self.failed_sign_ins.add(from);
        Problem::not_signed_in()
    }
}

impl Deref for Gateway {
    type Target = GatewayState;

    fn deref(&self) -> &GatewayState {
        &self.0
    }
}

/// The time in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}
