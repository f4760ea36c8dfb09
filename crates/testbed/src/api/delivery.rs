//! Acts carried out: an answer on its way to the client.

use std::vec;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::act::Act;
use super::connection::Line;
use super::gate::Gates;

/// The connection was broken on purpose, or the server stopped.
#[derive(Debug, thiserror::Error)]
#[error("the answer ends here")]
pub(super) struct Broken;

/// What a delivery depends on beside its acts.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) gates: Gates,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) line: Line,
}

impl Way {
    /// Waits for a gate; not beyond the end of the server.
    pub(super) async fn gate(&mut self, name: &str) -> Result<(), Broken> {
        tokio::select! {
            () = self.gates.passed(name) => Ok(()),
            broken = stopped(&mut self.stop) => Err(broken),
        }
    }

    /// Waits until the server stops.
    pub(super) async fn stopped(&mut self) -> Broken {
        stopped(&mut self.stop).await
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) -> Broken {
    // A server that is gone has stopped too.
    let _ = stop.wait_for(|stop| *stop).await;
    Broken
}

/// The body of a response that is sent act by act.
pub(super) fn body(acts: Vec<Act>, way: Way) -> Body {
    let delivery = Delivery { acts: acts.into_iter(), way, due: Instant::now() };
    Body::from_stream(stream::unfold(Some(delivery), async |delivery| {
        let mut delivery = delivery?;
        match delivery.next().await? {
            Ok(bytes) => Some((Ok(bytes), Some(delivery))),
            Err(broken) => Some((Err(broken), None)),
        }
    }))
}

struct Delivery {
    acts: vec::IntoIter<Act>,
    way: Way,
    /// When the newest act was to happen. Pauses count from here, not from now: a timer wakes up to
    /// a millisecond late, and a thousand pauses would make a second of it.
    due: Instant,
}

impl Delivery {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            match self.acts.next()? {
                Act::Send(bytes) => return Some(Ok(bytes)),
                Act::Pause(time) => {
                    self.due += time;
                    tokio::select! {
                        () = tokio::time::sleep_until(self.due) => {}
                        broken = stopped(&mut self.way.stop) => return Some(Err(broken)),
                    }
                }
                Act::Hold(name) => {
                    if let Err(broken) = self.way.gate(&name).await {
                        return Some(Err(broken));
                    }
                    self.due = Instant::now();
                }
                Act::Break => {
                    // What was said so far leaves before the connection breaks.
                    tokio::task::yield_now().await;
                    self.way.line.cut();
                    return Some(Err(Broken));
                }
                Act::Stall => return Some(Err(self.way.stopped().await)),
            }
        }
    }
}
