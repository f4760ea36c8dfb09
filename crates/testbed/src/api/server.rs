//! The API, listening.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::handler::Handler as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::answer::Answer;
use super::connection::{Door, Line};
use super::gate::Gates;
use super::ids::Ids;
use super::log::{Log, RecordedRequest};
use super::model::{Author, Model};
use super::stage::{Source, Stage, receive};
use super::upstream::Upstream;

/// A Messages API on loopback. It stops when it is dropped; whoever wants to wait for that calls
/// [`Server::stop`].
#[derive(Debug)]
pub struct Server {
    /// Where it listens, as a client wants it: `http://127.0.0.1:4010`.
    pub url: String,
    stage: Arc<Stage>,
    stop: watch::Sender<bool>,
    task: JoinHandle<io::Result<()>>,
}

/// How a server is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it listens; only loopback will do.
    pub listen: SocketAddr,
    /// Whether requests are kept in memory for [`Server::requests`].
    pub keep: bool,
    /// A file that gets every request as a line of JSON.
    pub requests: Option<PathBuf>,
}

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address can be reached from elsewhere.
    #[error("`{0}` is no loopback address")]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("could not listen on `{address}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("could not write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Default for Options {
    /// Any free port, requests kept in memory only.
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 0).into(), keep: true, requests: None }
    }
}

impl Server {
    /// Starts a server that answers by this model.
    pub async fn start(model: impl Into<Model>, options: Options) -> Result<Self, Error> {
        Self::run(Source::Model(Mutex::new(Author::new(model.into()))), options).await
    }

    /// Starts a server that passes requests on to the API at `url` and writes the conversation to
    /// `out`, as a scenario that replays it.
    pub async fn record(url: &str, out: PathBuf, options: Options) -> Result<Self, Error> {
        let upstream =
            Upstream::new(url, &out).map_err(|source| Error::Write { path: out, source })?;
        Self::run(Source::Upstream(upstream), options).await
    }

    async fn run(source: Source, options: Options) -> Result<Self, Error> {
        let address = options.listen;
        if !address.ip().is_loopback() {
            return Err(Error::NotLoopback(address));
        }
        let log = Log::new(options.keep, options.requests.as_deref()).map_err(|source| {
            Error::Write { path: options.requests.unwrap_or_default(), source }
        })?;
        let refused = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let url = format!("http://{}", listener.local_addr().map_err(refused)?);

        let (stop, stopping) = watch::channel(false);
        let ids = Ids::new();
        let aside = Arc::new(Answer::of_text("Understood.".to_owned(), &ids));
        let gates = Gates::new();
        let stage = Arc::new(Stage { source, log, gates, ids, aside, stop: stopping.clone() });
        let service =
            receive.with_state(Arc::clone(&stage)).into_make_service_with_connect_info::<Line>();
        let serve = axum::serve(Door(listener), service).with_graceful_shutdown(ended(stopping));
        let task = tokio::spawn(serve.into_future());
        Ok(Self { url, stage, stop, task })
    }

    /// Lets the replies held under this name go on, now and later.
    pub fn open(&self, name: &str) {
        self.stage.gates.open(name);
    }

    /// Every request so far, where they are kept.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.stage.log.requests()
    }

    /// The n-th request of a conversation, from 1 on, side requests aside; waits until it is made.
    /// None where requests are not kept.
    pub async fn main_request(&self, number: usize) -> Option<RecordedRequest> {
        self.stage.log.main_request(number).await
    }

    /// Stops: held and stalled replies break off, others are sent to their end.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        // It ends with an error only if it panicked, and then it has ended.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

async fn ended(mut stop: watch::Receiver<bool>) {
    // A server that is gone has stopped too.
    let _ = stop.wait_for(|stop| *stop).await;
}
