//! Connections: their number, their timeouts, and TLS.
//!
//! The number of connections is bounded. A client that takes too long with a request's head or a
//! handshake is disconnected, so that a few slow clients do not keep others out.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tower::ServiceExt as _;
use tracing::{debug, warn};

use crate::access::PeerAddress;
use crate::limits::WRITE_TIMEOUT;
use crate::write_timeout::WriteTimeout;

/// How long the head of a request, or a handshake, may take, and how long a connection may be idle
/// between requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// The largest head of a request.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The response when there are too many connections.
const SERVICE_UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Serves connections until `shutdown`, which also ends open ones.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Certificate>,
    router: Router,
    max_connections: usize,
    shutdown: impl Future<Output = ()>,
) {
    let tls = tls.map(|Certificate(acceptor)| acceptor);
    let permits = Arc::new(Semaphore::new(max_connections));
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
                // Most likely the process has no file descriptors left, and a connection has to end.
                warn!(%error, "could not accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            debug!(%peer, "too many connections");
            connections.spawn(async move {
                let _ =
                    timeout(Duration::from_secs(1), stream.write_all(SERVICE_UNAVAILABLE)).await;
            });
            continue;
        };
        let (tls, router) = (tls.clone(), router.clone());
        connections.spawn(async move {
            if let Err(error) = serve_connection(stream, peer, tls, router).await {
                debug!(%peer, %error, "a connection ended");
            }
            drop(permit);
        });
    }
    connections.shutdown().await;
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = WriteTimeout::new(stream, WRITE_TIMEOUT);
    match tls {
        None => serve_requests(stream, peer, router).await,
        Some(tls) => {
            let stream = timeout(HEAD_TIMEOUT, tls.accept(stream)).await??;
            serve_requests(stream, peer, router).await
        }
    }
}

async fn serve_requests<S>(stream: S, peer: SocketAddr, router: Router) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(PeerAddress(peer));
        let router = router.clone();
        async move {
            Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|it| match it {}))
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    let served = builder.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
    served.map_err(io::Error::other)
}

/// A certificate and its key, which fit together.
#[derive(Clone)]
pub struct Certificate(TlsAcceptor);

/// Why TLS cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("could not read `{path}`")]
    Unreadable { path: PathBuf, source: pem::Error },
    #[error("the certificate and its key cannot be used")]
    Unusable(#[from] tokio_rustls::rustls::Error),
}

impl Certificate {
    /// Reads a certificate chain and a key, both as PEM.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Unreadable { path, source }
        };
        let certificates = CertificateDer::pem_file_iter(chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(unreadable(chain))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
        let config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key)?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate")
    }
}
