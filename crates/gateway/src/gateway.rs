//! The state that all requests share.

use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::StatusCode;
use session::Sessions;
use tokio::sync::Semaphore;

use crate::access::{
    AuthenticatedClient, FailedSignIns, PeerAddress, StreamAuthorization, TokenStore,
};
use crate::api::{FrameCache, SessionList, UsageCache, prerender};
use crate::config::GatewayConfig;
use crate::live::LiveSessions;
use crate::problem::Problem;

/// How many expensive operations (threads, long reads) run at the same time; others wait.
const MAX_EXPENSIVE: usize = 4;

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
    pub(crate) expensive: Semaphore,
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
            live_sessions: LiveSessions::new(journal.clone(), checkpoints, prerender),
            session_list: SessionList::new(journal),
            usage: UsageCache::default(),
            failed_sign_ins: FailedSignIns::default(),
            expensive: Semaphore::new(MAX_EXPENSIVE),
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
    pub(crate) fn sign_in_failed(&self, from: Option<PeerAddress>) -> Problem {
        let Some(PeerAddress(from)) = from else { return Problem::not_signed_in() };
        if self.failed_sign_ins.limit_reached(from.ip()) {
            return Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too-many",
                "too many attempts",
                "wait a minute and try again",
            );
        }
        self.failed_sign_ins.add(from.ip());
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
