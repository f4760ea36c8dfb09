//! The server of the double: options, connections, and the handle that a test holds.
//!
//! Closing a socket properly looks different to a client than a failure. Injected failures
//! therefore reset the connection, as happens when the far end dies.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::fault::{BotApiFault, BotApiFaultSpan, BotApiNetwork};
use super::limiter::BotApiRates;
use super::service::BotApiService;
use super::state::BotApiState;
use super::updates;

/// A Bot API on loopback. Dropping it stops the server and closes its connections.
#[derive(Debug)]
pub struct BotApi {
    /// The base URL for a client, such as `http://127.0.0.1:4010`.
    pub url: String,
    /// The only token that the server accepts.
    pub token: String,
    pub(crate) service: Arc<BotApiService>,
    tasks: [JoinHandle<()>; 2],
}

/// How strict the server is and how fast its clock runs. The defaults are the strict reading of
/// Telegram's limits.
#[derive(Clone, Debug)]
pub struct BotApiOptions {
    /// The only token that the server accepts. Its number is the bot's id.
    pub token: String,
    /// The bot's name, without the `@`.
    pub username: String,
    /// How fast the API's clock runs: at 10.0 one of its minutes takes six seconds. Dates, rates,
    /// `retry_after`, lifetimes and the timeouts of long polls are all on that clock.
    pub speed: f64,
    pub rates: BotApiRates,
    /// How long the bot can answer a tap.
    pub callback_lifetime: Duration,
    /// How long a chat shows a draft after its last change.
    pub draft_lifetime: Duration,
    /// Whether a draft may be empty and mean “Thinking…”, as is allowed since Bot API 10.0.
    pub allow_empty_drafts: bool,
    /// Whether private chats have topics.
    pub private_topics: bool,
}

impl Default for BotApiOptions {
    fn default() -> Self {
        Self {
            token: "700001:test_token-of-the-double".to_owned(),
            username: "towpath_bot".to_owned(),
            speed: 1.0,
            rates: BotApiRates::default(),
            callback_lifetime: Duration::from_secs(15),
            draft_lifetime: Duration::from_secs(30),
            allow_empty_drafts: false,
            private_topics: false,
        }
    }
}

impl BotApi {
    /// Starts a server on a free port, in the caller's runtime.
    pub async fn start(options: BotApiOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let token = options.token.clone();
        let service = Arc::new(BotApiService::new(BotApiState::new(options)));
        let tasks = [
            tokio::spawn(accept(listener, Arc::clone(&service))),
            tokio::spawn(updates::deliver_to_webhook(Arc::clone(&service))),
        ];
        Ok(Self { url, token, service, tasks })
    }

    /// The URL of a method.
    pub fn method_url(&self, name: &str) -> String {
        format!("{}/bot{}/{name}", self.url, self.token)
    }

    /// Makes the next calls of a method fail. Downloads count as the method `file`.
    pub fn fail(&self, method: &str, fault: BotApiFault, span: BotApiFaultSpan) {
        let now = self.service.state().now();
        self.service.faults().add(now, (Some(method), ""), fault, span);
    }

    /// Makes the next calls of a method fail whose text has these words.
    pub fn fail_text(&self, method: &str, words: &str, fault: BotApiFault, span: BotApiFaultSpan) {
        let now = self.service.state().now();
        self.service.faults().add(now, (Some(method), words), fault, span);
    }

    /// Makes the next calls of any method fail.
    pub fn fail_all(&self, fault: BotApiFault, span: BotApiFaultSpan) {
        let now = self.service.state().now();
        self.service.faults().add(now, (None, ""), fault, span);
    }

    /// Removes the faults of [`Self::fail`] and [`Self::fail_all`], and sends the responses that were
    /// held back.
    pub fn clear_faults(&self) {
        self.service.faults().clear();
        self.service.clearings.send_modify(|count| *count += 1);
    }

    /// Breaks or restores the network.
    pub fn set_network(&self, network: BotApiNetwork) {
        self.service.network.send_replace(network);
    }
}

impl Drop for BotApi {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, service: Arc<BotApiService>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&service)));
                }
                // The process is probably out of descriptors, which closing connections frees.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// What a call knows of its connection: how to reset it.
#[derive(Clone, Debug)]
pub(crate) struct BotApiConnection {
    reset: watch::Sender<bool>,
}

impl BotApiConnection {
    /// Resets the connection. The client receives nothing that is still being written.
    pub(crate) async fn reset(&self) -> ! {
        self.reset.send_replace(true);
        // The call is dropped together with its connection.
        std::future::pending().await
    }

    async fn wait_for_reset(&self) {
        // The sender is in `self`, so the wait cannot fail.
        let _ = self.reset.subscribe().wait_for(|reset| *reset).await;
    }
}

/// Serves one connection until it ends.
async fn serve(stream: TcpStream, service: Arc<BotApiService>) {
    // Otherwise a small response waits for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let handle = BotApiConnection { reset: watch::Sender::new(false) };
    let mut network = service.network.subscribe();
    let handler = service_fn(|request: Request<Incoming>| {
        let (service, handle) = (Arc::clone(&service), handle.clone());
        async move { Ok::<_, Infallible>(service.handle(&handle, request.map(Body::new)).await) }
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), handler);
    tokio::select! {
        biased;
        _ = network.wait_for(|it| *it == BotApiNetwork::Reset) => {}
        () = handle.wait_for_reset() => {}
        _ = &mut connection => return,
    }
    let _ = connection.into_parts().io.into_inner().set_zero_linger();
}
