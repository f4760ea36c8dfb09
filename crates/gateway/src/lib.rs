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
mod api;
mod config;
mod gateway;
mod limits;
mod live;
mod memory_pool;
mod pages;
mod problem;
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
pub use config::{GatewayConfig, ProxyConfig};
pub use server::{Certificate, TlsError};
pub use session::Roots;

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
    tasks.spawn(gateway.live_sessions.clone().run_checkpoints());
    let router = api::router()
        .fallback(pages::page)
        .method_not_allowed_fallback(pages::method_not_allowed)
        .layer(middleware::from_fn_with_state(gateway.clone(), access::check))
        .with_state(gateway);
    server::serve(listener, tls, router, max_connections, shutdown).await;
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

    use super::{GatewayConfig, Hosts, run};
    use crate::access::TokenStore;

    fn sessions(data: &Path, journal: Journal) -> Sessions {
        let home = SessionsConfig {
            data: data.to_owned(),
            runtime: data.to_owned(),
            towpath: "towpath".into(),
            agent: AgentProgram { program: "claude".into(), arguments: Vec::new() },
            environment: Vec::new(),
            limits: SessionLimits::default(),
            unattended: UnattendedLimits::LONG,
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
            demo: false,
            log: None,
            secure: false,
            max_connections: 8,
        };
        let tokens = Arc::new(TokenStore::open(data.path()).unwrap());
        let sessions = sessions(data.path(), journal);
        let server = run(listener, None, sessions, tokens, config, std::future::pending());
        let server = tokio::spawn(server);
        // Loading the grammars and the first round of checkpoints take a moment.
        sleep(Duration::from_secs(3)).await;
        let metrics = Handle::current().metrics();
        let before = metrics.worker_park_count(0);
        sleep(Duration::from_secs(2)).await;
        let parks = metrics.worker_park_count(0) - before;
        server.abort();
        // This test's own timer wakes the runtime too.
        assert!(parks <= 4, "the runtime went back to sleep {parks} times in 2 s");
    }
}
