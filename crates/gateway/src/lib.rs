//! HTTP, WebSocket, server-sent events and sign-in, with the web UI embedded.
//!
//! ```text
//!  browser ── frames, JSON ──  access check ──  api ──┬── Session (handle) ── commands
//!                                                     └── live sessions ◄── journal
//! ```
//!
//! [`run`] serves clients until it is told to stop. Every request passes the access check (host,
//! origin, client, role) first. `api` is the only place that decides what clients see. A live session
//! folds one session for all clients that have it open, and knows nothing of `api`.
//!
//! Nothing here polls: the session list and the checkpoints wait for the journal's change counter.
//!
//! Deliberately absent: the environment, printing, and any state that a restart would lose.

pub mod access;
mod agent_files;
mod api;
mod config;
mod gateway;
mod limits;
mod live;
mod memory_pool;
mod notifications;
mod pages;
mod problem;
mod project_relay;
mod project_routes;
mod relayed_headers;
mod request_memory;
mod server;
pub mod watch_state;
mod write_timeout;

use std::io;
use std::sync::Arc;

use axum::middleware;
use session::Sessions;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use access::Hosts;
pub use config::{EndpointPolicy, GatewayConfig, ProxyConfig, PushConfig};
pub use project_routes::ProjectRoutes;
pub use server::{Certificate, TlsError};
pub use session::Roots;
pub use terminal::ShellConfig;

use access::TokenStore;
use gateway::Gateway;

/// Why a gateway could not start.
#[derive(Debug, Error)]
pub enum Error {
    #[error("could not listen")]
    Listen(#[from] io::Error),
}

/// Serves clients until `shutdown`. Sessions are left running.
pub async fn run(
    listener: TcpListener,
    tls: Option<Certificate>,
    sessions: Sessions,
    tokens: Arc<TokenStore>,
    config: GatewayConfig,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let port = listener.local_addr()?.port();
    let max_connections = config.max_connections;
    let gateway = Gateway::new(sessions, config, tokens, port);
    // Dropped, and with it its tasks, when the server has stopped.
    let mut tasks = JoinSet::new();
    tasks.spawn(gateway.session_list.clone().run());
    tasks.spawn(gateway.search.clone().run());
    tasks.spawn(gateway.live_sessions.clone().run_checkpoints());
    if let Some(notifier) = gateway.notifier.clone() {
        let journal = gateway.sessions.journal().clone();
        tasks.spawn(notifier.run(gateway.session_list.clone(), journal));
    }
    let router = api::router()
        .fallback(pages::page)
        .method_not_allowed_fallback(pages::method_not_allowed)
        .layer(middleware::from_fn_with_state(gateway.clone(), project_relay::relay))
        .layer(middleware::from_fn_with_state(gateway.clone(), request_memory::hold))
        .layer(middleware::from_fn_with_state(gateway.clone(), access::check))
        .with_state(gateway.clone());
    server::serve(listener, tls, router, max_connections, shutdown).await;
    if let Some(terminals) = &gateway.terminals {
        terminals.close_all().await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use journal::{Journal, NewSession, SessionId};
    use session::{AgentProgram, Roots, SessionLimits, Sessions, SessionsConfig, UnattendedLimits};
    use tokio::net::TcpListener;
    use tokio::runtime::Handle;
    use tokio::time::sleep;
    use uuid::Uuid;

    use super::{GatewayConfig, Hosts, PushConfig, run};
    use crate::access::TokenStore;

    fn sessions(data: &Path, journal: Journal) -> Sessions {
        let home = SessionsConfig {
            data: data.to_owned(),
            allow_bypass: false,
            config_file: None,
            runtime: data.to_owned(),
            towpath: "towpath".into(),
            agent: AgentProgram { program: "claude".into(), arguments: Vec::new() },
            agents: session::AgentCatalog::default(),
            environment: Vec::new(),
            limits: SessionLimits::default(),
            unattended: UnattendedLimits::LONG,
            takeover_delay: Duration::ZERO,
            prompt_gate: session::PromptGate::default(),
            watch: session::WatchPolicy::default(),
        };
        Sessions::new(home, journal)
    }

    #[tokio::test]
    async fn an_idle_gateway_with_100_idle_sessions_does_not_wake_up() {
        let data = tempfile::tempdir().unwrap();
        let journal = Journal::open(&data.path().join("journal.db")).unwrap().journal;
        for number in 0..100 {
            let (id, directory) = (SessionId(Uuid::from_u128(number)), data.path().to_owned());
            let new = NewSession { id, directory, title: None, options: "{}".to_owned(), at: 1 };
            journal.create(new).await.unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = GatewayConfig {
            data: data.path().to_owned(),
            hosts: Hosts::new(listener.local_addr().unwrap(), &[]),
            roots: Roots::new(&[data.path().to_owned()]).unwrap(),
            proxy: None,
            pages: None,
            shell: None,
            demo: false,
            log: None,
            secure: false,
            max_connections: 8,
            push: PushConfig::default(),
        };
        let tokens = Arc::new(TokenStore::open(data.path()).unwrap());
        let sessions = sessions(data.path(), journal);
        let server = run(listener, None, sessions, tokens, config, std::future::pending());
        let server = tokio::spawn(server);
        // Loading the grammars and the first round of checkpoints take a moment, and longer if the
        // machine has other work. A gateway that polls never becomes idle.
        sleep(Duration::from_secs(3)).await;
        let metrics = Handle::current().metrics();
        let mut parks = Vec::new();
        // This test's own timer wakes the runtime too.
        while parks.last().is_none_or(|&parks| parks > 4) && parks.len() < 15 {
            let before = metrics.worker_park_count(0);
            sleep(Duration::from_secs(2)).await;
            parks.push(metrics.worker_park_count(0) - before);
        }
        server.abort();
        let last = parks.last().is_some_and(|&parks| parks <= 4);
        assert!(last, "how often the runtime went back to sleep in 2 s each: {parks:?}");
    }
}
