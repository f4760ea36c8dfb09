//! The state that all requests share.

use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use axum::http::StatusCode;
use search::Search;
use session::Sessions;
use terminal::Terminals;
use tokio::sync::Semaphore;

use crate::access::{AuthenticatedClient, FailedSignIns, StreamAuthorization, TokenStore, Visitor};
use crate::api::{
    AgentVersions, CACHE_MEMORY, FoldedTranscripts, FrameCache, ProjectCache, SessionList,
    UsageCache, prerender,
};
use crate::config::GatewayConfig;
use crate::limits::{
    LIVE_BYTES, MAX_ACP_CLIENTS, MAX_EXPORTS, MAX_FILE_OPERATIONS, MAX_FOLDS, MAX_GIT_CHANGES,
    MAX_GIT_READS, MAX_RELAYED_REQUESTS, MAX_RELAYED_TERMINALS, MAX_UPLOADS, POOL_BYTES,
};
use crate::live::LiveSessions;
use crate::memory_pool::MemoryPool;
use crate::notifications::{Notifier, VisiblePages};
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
    /// `None` if they are turned off, or on other machines.
    pub(crate) terminals: Option<Terminals>,
    pub(crate) live_sessions: LiveSessions<FrameCache>,
    pub(crate) session_list: SessionList,
    pub(crate) search: Search,
    pub(crate) usage: UsageCache,
    pub(crate) projects: ProjectCache,
    pub(crate) agent_versions: AgentVersions,
    pub(crate) folded_transcripts: FoldedTranscripts,
    /// Who looks at a page.
    pub(crate) presence: VisiblePages,
    /// None if push messages cannot be sent.
    pub(crate) notifier: Option<Notifier>,
    /// For operations that need threads or fold a part of a session again.
    pub(crate) expensive: Semaphore,
    /// For exporting sessions.
    pub(crate) exports: Semaphore,
    /// For git commands that read.
    pub(crate) git_reads: Semaphore,
    /// For git commands that change something, which can take long: hooks run.
    pub(crate) git_changes: Semaphore,
    /// For operations on the files of a session.
    pub(crate) file_operations: Semaphore,
    /// For files that are being received.
    pub(crate) uploads: Semaphore,
    /// For what is large.
    pub(crate) memory: MemoryPool,
    /// For handling large requests one after the other.
    pub(crate) large_requests: Arc<Semaphore>,
    /// For requests about projects that other machines answer.
    pub(crate) relayed_requests: Arc<Semaphore>,
    /// For clients that look at terminals of other machines.
    pub(crate) relayed_terminals: Arc<Semaphore>,
    /// For clients of the Agent Client Protocol.
    pub(crate) acp_clients: Arc<Semaphore>,
    port: u16,
}

impl Gateway {
    pub(crate) fn new(
        sessions: Sessions,
        config: GatewayConfig,
        tokens: Arc<TokenStore>,
        port: u16,
    ) -> Self {
        let presence = VisiblePages::default();
        let notifier = Notifier::open(
            &config.data,
            config.push.clone(),
            Arc::clone(&tokens),
            config.proxy.as_ref(),
            presence.clone(),
        );
        Self::build(sessions, config, tokens, port, presence, notifier)
    }

    /// The state for requests that other machines pass on. It has no clients of its own, and sends no notifications.
    pub(crate) fn without_clients(sessions: Sessions, config: GatewayConfig) -> Self {
        let tokens = Arc::new(TokenStore::none());
        Self::build(sessions, config, tokens, 0, VisiblePages::default(), None)
    }

    fn build(
        sessions: Sessions,
        config: GatewayConfig,
        tokens: Arc<TokenStore>,
        port: u16,
        presence: VisiblePages,
        notifier: Option<Notifier>,
    ) -> Self {
        let journal = sessions.journal().clone();
        let checkpoints = config.data.join("views");
        let terminals = config.shell.clone().filter(|_| !sessions.is_relayed());
        Self(Arc::new(GatewayState {
            live_sessions: LiveSessions::new(
                journal,
                checkpoints,
                prerender,
                CACHE_MEMORY,
                LIVE_BYTES,
            ),
            session_list: SessionList::new(sessions.clone()),
            search: Search::new(sessions.clone()),
            usage: UsageCache::default(),
            projects: ProjectCache::default(),
            agent_versions: AgentVersions::default(),
            folded_transcripts: FoldedTranscripts::default(),
            terminals: terminals.map(Terminals::new),
            failed_sign_ins: FailedSignIns::default(),
            presence,
            notifier,
            expensive: Semaphore::new(MAX_FOLDS),
            exports: Semaphore::new(MAX_EXPORTS),
            git_reads: Semaphore::new(MAX_GIT_READS),
            git_changes: Semaphore::new(MAX_GIT_CHANGES),
            file_operations: Semaphore::new(MAX_FILE_OPERATIONS),
            uploads: Semaphore::new(MAX_UPLOADS),
            memory: MemoryPool::new(POOL_BYTES),
            large_requests: Arc::new(Semaphore::new(1)),
            relayed_requests: Arc::new(Semaphore::new(MAX_RELAYED_REQUESTS)),
            relayed_terminals: Arc::new(Semaphore::new(MAX_RELAYED_TERMINALS)),
            acp_clients: Arc::new(Semaphore::new(MAX_ACP_CLIENTS)),
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
