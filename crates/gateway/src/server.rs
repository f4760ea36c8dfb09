//! Connections: how many, how long they may take, and TLS.
//!
//! The number of connections is bounded, and whoever takes too long with a request's head or a
//! handshake is let go, so that a few slow ones do not keep others out.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;
use tracing::{debug, warn};

use crate::visitor::Peer;

/// How long the head of a request, or a handshake, may take. Also how long a connection may idle
/// between requests.
const HEAD: Duration = Duration::from_secs(15);

/// What does not fit in here is no head of a request for us.
const BUFFER: usize = 64 << 10;

/// What is said when there are too many connections.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Serves connections until `shutdown`; those that are open end with it.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    most: usize,
    shutdown: impl Future<Output = ()>,
) {
    let places = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (mut stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: some connection has to end first.
                warn!(%error, "could not accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            debug!(%peer, "too many connections");
            connections.spawn(async move {
                let _ = timeout(Duration::from_secs(1), stream.write_all(FULL)).await;
            });
            continue;
        };
        let (tls, router) = (tls.clone(), router.clone());
        connections.spawn(async move {
            if let Err(error) = connection(stream, peer, tls, router).await {
                debug!(%peer, %error, "a connection ended");
            }
            drop(place);
        });
    }
    connections.shutdown().await;
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        None => requests(stream, peer, router).await,
        Some(tls) => {
            let stream = timeout(HEAD, tls.accept(stream)).await??;
            requests(stream, peer, router).await
        }
    }
}

async fn requests<S>(stream: S, peer: SocketAddr, router: Router) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|it| match it {}))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER);
    let served = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    served.map_err(io::Error::other)
}
