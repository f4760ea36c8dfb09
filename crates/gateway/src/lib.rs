//! HTTP, WebSocket, server-sent events and sign-in; the web UI embedded.
//!
//! ```text
//!  browser ── frames, JSON ──  guard ──  api ──┬── Session (handle) ── commands
//!                                              └── room, lobby ◄── journal
//! ```
//!
//! [`run`] answers whoever connects until it is told to stop. Every request passes the guard
//! (whose name, whose page, who, and may they) before anything else looks at it; `api` is the only
//! place that decides what is sent; a `room` folds one session for all who look at it.
//!
//! Deliberately absent: the environment, printing, and any state a restart would lose.

pub mod access;
pub mod api;
mod clock;
mod config;
mod gateway;
mod guard;
mod hosts;
mod lobby;
mod pages;
mod room;
mod server;
mod tls;
mod usage;
mod visitor;
pub mod watching;

use std::io;
use std::sync::Arc;

use axum::middleware;
use session::Sessions;
use thiserror::Error;
use tokio::net::TcpListener;

pub use config::{Config, Proxy};
pub use hosts::Hosts;
pub use session::Roots;
pub use tls::{Certificate, TlsError};

use access::{Keyring, KeyringError};
use gateway::Gateway;

/// Why a gateway could not begin.
#[derive(Debug, Error)]
pub enum Error {
    /// Its keys could not be had.
    #[error(transparent)]
    Keys(#[from] KeyringError),
    /// The listener is none.
    #[error("could not listen")]
    Listen(#[from] io::Error),
}

/// Answers whoever connects, until `shutdown`. Sessions are left as they are.
pub async fn run(
    listener: TcpListener,
    tls: Option<Certificate>,
    sessions: Sessions,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let keyring = Keyring::open(&config.data)?;
    let port = listener.local_addr()?.port();
    let connections = config.connections;
    let gateway = Gateway::new(sessions, config, keyring, port);
    let lobby = tokio::spawn(gateway.lobby.clone().keep());
    let keys = tokio::spawn(access::look_around(Arc::clone(&gateway.keyring)));
    let views = tokio::spawn(gateway.rooms.clone().keep_views());
    let router = api::router()
        .fallback(pages::page)
        .method_not_allowed_fallback(pages::not_this_method)
        .layer(middleware::from_fn_with_state(gateway.clone(), guard::guard))
        .with_state(gateway);
    let tls = tls.map(|Certificate(acceptor)| acceptor);
    server::serve(listener, tls, router, connections, shutdown).await;
    lobby.abort();
    keys.abort();
    views.abort();
    Ok(())
}
