//! The HTTP server of the scripted API and its connections.
//!
//! A closed socket ends a connection properly. To simulate a server that dies, a connection can be
//! marked with [`ApiConnectionHandle::reset_on_close`]; the client then sees a reset.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::handler::Handler as _;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::backend::{ApiBackend, ApiState, handle};
use super::batches::ApiBatches;
use super::log::{ApiRequestLog, ApiRequestRecord};
use super::mcp_server::ApiMcpServer;
use super::recording::ApiUpstream;
use super::reply::{ApiIds, ApiReply};
use super::script::{ApiModel, ApiResponder};
use super::stream::ApiGates;

/// A Messages API on loopback. It stops when it is dropped; [`ApiServer::stop`] also waits for it.
#[derive(Debug)]
pub struct ApiServer {
    /// The base URL for clients, such as `http://127.0.0.1:4010`.
    pub url: String,
    state: Arc<ApiState>,
    stop: watch::Sender<bool>,
    task: JoinHandle<io::Result<()>>,
}

#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// The address to listen on. It must be a loopback address.
    pub listen: SocketAddr,
    /// Whether requests are kept in memory for [`ApiServer::requests`].
    pub keep_requests: bool,
    /// A file to write every request to, one JSON object per line.
    pub request_log: Option<PathBuf>,
    /// Whether models that do not exist are refused, as the API does. A gateway accepts any name.
    pub refuse_unknown_models: bool,
}

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ApiServerError {
    #[error("`{0}` is not a loopback address")]
    NotLoopback(SocketAddr),
    #[error("could not listen on `{address}`")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("could not write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Default for ApiOptions {
    /// A free port, requests in memory only, and any model.
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            keep_requests: true,
            request_log: None,
            refuse_unknown_models: false,
        }
    }
}

impl ApiServer {
    /// Starts a server that sends the replies of this model.
    pub async fn start(
        model: impl Into<ApiModel>,
        options: ApiOptions,
    ) -> Result<Self, ApiServerError> {
        let responder = ApiResponder::new(model.into());
        Self::run(ApiBackend::Model(Mutex::new(responder)), options).await
    }

    /// Starts a server that forwards requests to the API at `url` and writes the conversation to
    /// `out`, as a scenario that replays it.
    pub async fn record(
        url: &str,
        out: PathBuf,
        options: ApiOptions,
    ) -> Result<Self, ApiServerError> {
        let upstream = ApiUpstream::new(url, &out)
            .map_err(|source| ApiServerError::Write { path: out, source })?;
        Self::run(ApiBackend::Upstream(upstream), options).await
    }

    async fn run(backend: ApiBackend, options: ApiOptions) -> Result<Self, ApiServerError> {
        let address = options.listen;
        if !address.ip().is_loopback() {
            return Err(ApiServerError::NotLoopback(address));
        }
        let log = ApiRequestLog::new(options.keep_requests, options.request_log.as_deref())
            .map_err(|source| ApiServerError::Write {
                path: options.request_log.unwrap_or_default(),
                source,
            })?;
        let failed = |source| ApiServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let url = format!("http://{}", listener.local_addr().map_err(failed)?);

        let (stop, stopping) = watch::channel(false);
        let ids = ApiIds::new();
        let side_reply = Arc::new(ApiReply::from_text("Understood.".to_owned(), &ids));
        let gates = ApiGates::new();
        let state = Arc::new(ApiState {
            backend,
            log,
            gates,
            ids,
            side_reply,
            stop: stopping.clone(),
            mcp_server: ApiMcpServer::default(),
            batches: ApiBatches::default(),
            refuse_unknown_models: options.refuse_unknown_models,
        });
        let service = handle
            .with_state(Arc::clone(&state))
            .into_make_service_with_connect_info::<ApiConnectionHandle>();
        let serve =
            axum::serve(ApiListener(listener), service).with_graceful_shutdown(stopped(stopping));
        let task = tokio::spawn(serve.into_future());
        Ok(Self { url, state, stop, task })
    }

    /// Opens a gate for all replies that wait for it, now and later.
    pub fn open(&self, name: &str) {
        self.state.gates.open(name);
    }

    /// All requests so far. Empty if requests are not kept.
    pub fn requests(&self) -> Vec<ApiRequestRecord> {
        self.state.log.requests()
    }

    /// The n-th request of a conversation, counted from 1 and without side requests. Waits until it
    /// is made. `None` if requests are not kept.
    pub async fn main_request(&self, number: usize) -> Option<ApiRequestRecord> {
        self.state.log.main_request(number).await
    }

    /// Stops the server. Held and stalled replies are aborted, others are sent completely.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        // An error means that the task has panicked, so it has ended too.
        let _ = (&mut self.task).await;
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the server was dropped, so it has stopped too.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A listener whose connections can be reset.
struct ApiListener(TcpListener);

struct ApiConnection {
    stream: TcpStream,
    handle: ApiConnectionHandle,
}

/// The handle with which a request handler resets its connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiConnectionHandle(Arc<AtomicBool>);

impl ApiConnectionHandle {
    /// Makes the connection end with a reset instead of a proper close.
    pub(super) fn reset_on_close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_reset(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Listener for ApiListener {
    type Io = ApiConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (ApiConnection, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok((stream, address)) => {
                    // Otherwise a small event waits for the acknowledgement of the previous one.
                    let _ = stream.set_nodelay(true);
                    let handle = ApiConnectionHandle::default();
                    return (ApiConnection { stream, handle }, address);
                }
                // Most likely there are no file descriptors left until some clients disconnect.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, ApiListener>> for ApiConnectionHandle {
    fn connect_info(stream: IncomingStream<'_, ApiListener>) -> Self {
        stream.io().handle.clone()
    }
}

impl Drop for ApiConnection {
    fn drop(&mut self) {
        if self.handle.is_reset() {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for ApiConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ApiConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.handle.is_reset() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
