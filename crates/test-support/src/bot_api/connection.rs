//! Connections, which can be broken on purpose.
//!
//! Closing a socket says goodbye; a broken connection does not. A line that was cut is reset, which
//! is what a client sees when the far end dies.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::network::Network;
use super::stage::Stage;

/// What a call holds of its connection.
#[derive(Clone, Debug)]
pub(super) struct Line(watch::Sender<bool>);

impl Line {
    /// Breaks the connection off. Nothing that is still written arrives.
    pub(super) async fn cut(&self) -> ! {
        self.0.send_replace(true);
        // The call is dropped together with its connection.
        std::future::pending().await
    }

    async fn is_cut(&self) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.0.subscribe().wait_for(|cut| *cut).await;
    }
}

/// Serves one connection to its end.
pub(super) async fn serve(stream: TcpStream, stage: Arc<Stage>) {
    // Without it a small answer waits for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let line = Line(watch::Sender::new(false));
    let mut network = stage.network.subscribe();
    let service = service_fn(|request: axum::http::Request<Incoming>| {
        let (stage, line) = (Arc::clone(&stage), line.clone());
        async move { Ok::<_, Infallible>(stage.receive(&line, request.map(Body::new)).await) }
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        _ = network.wait_for(|it| *it == Network::Refusing) => {}
        () = line.is_cut() => {}
        _ = &mut connection => return,
    }
    let _ = connection.into_parts().io.into_inner().set_zero_linger();
}
