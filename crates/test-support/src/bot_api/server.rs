//! The Bot API, listening.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::connection;
use super::fault::{Fault, Span};
use super::network::Network;
use super::options::BotApiOptions;
use super::stage::Stage;
use super::webhook;
use super::world::World;

/// A Bot API on loopback. It stops when it is dropped, and its connections with it.
#[derive(Debug)]
pub struct BotApi {
    /// Where it listens, as a client wants it: `http://127.0.0.1:4010`.
    pub url: String,
    /// The token that is let in.
    pub token: String,
    pub(super) stage: Arc<Stage>,
    tasks: [JoinHandle<()>; 2],
}

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No port can be listened on.
    #[error("could not listen on loopback")]
    Listen(#[from] io::Error),
}

impl BotApi {
    /// Starts a server on any free port, in the runtime of the caller.
    pub async fn start(options: BotApiOptions) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let token = options.token.clone();
        let stage = Arc::new(Stage::new(World::new(options)));
        let tasks = [
            tokio::spawn(accept(listener, Arc::clone(&stage))),
            tokio::spawn(webhook::bring(Arc::clone(&stage))),
        ];
        Ok(Self { url, token, stage, tasks })
    }

    /// The address of a method.
    pub fn method(&self, name: &str) -> String {
        format!("{}/bot{}/{name}", self.url, self.token)
    }

    /// Has the next calls of a method go wrong. Downloads are called `file`.
    pub fn fail(&self, method: &str, fault: Fault, span: Span) {
        let now = self.stage.world().now();
        self.stage.faults().add(now, Some(method), fault, span);
    }

    /// Has the next calls of any method go wrong.
    pub fn fail_all(&self, fault: Fault, span: Span) {
        let now = self.stage.world().now();
        self.stage.faults().add(now, None, fault, span);
    }

    /// Lets nothing go wrong any more.
    pub fn mend(&self) {
        self.stage.faults().clear();
    }

    /// Breaks the network, or brings it back.
    pub fn set_network(&self, network: Network) {
        self.stage.network.send_replace(network);
    }
}

impl Drop for BotApi {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, stage: Arc<Stage>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection::serve(stream, Arc::clone(&stage)));
                }
                // Out of descriptors, most likely: they come back when clients go.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
