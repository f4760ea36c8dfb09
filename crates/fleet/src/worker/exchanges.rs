//! Requests about the projects of this worker's sessions: the exchanges that are open.
//!
//! An exchange has a piece of a body in memory in each direction, and there is a limited number of them, so
//! gateways cannot make a worker use more memory than that. One whose gateway is gone is dropped, and with it
//! a file that was not complete.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use journal::SessionId;
use session::{ProjectAnswer, ProjectBody, ProjectRequest, ProjectService};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::exchange::{BodyPiece, BodyPieces, ProjectStep, StepAction, StepReply};
use crate::question::WorkerFailure;

/// How many exchanges may be open. Others are refused.
const MAX_EXCHANGES: usize = 32;

/// An exchange without a step for this long is dropped.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// The open exchanges of a worker. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges(Arc<Mutex<HashMap<Uuid, Arc<tokio::sync::Mutex<Exchange>>>>>);

#[derive(Debug)]
struct Exchange {
    /// Where the pieces of the request go; none after the last one.
    body: Option<mpsc::Sender<BodyPart>>,
    state: AnswerState,
    touched: Instant,
}

#[derive(Debug)]
enum AnswerState {
    Pending(JoinHandle<(ProjectAnswer, AnswerBody)>),
    Rest(AnswerBody),
    Over,
}

/// An answer, as far as it is not sent.
struct AnswerBody(BodyPieces);

impl std::fmt::Debug for AnswerBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnswerBody")
    }
}

/// A part of the body of a request.
#[derive(Debug)]
enum BodyPart {
    Bytes(Bytes),
    End,
}

impl Exchanges {
    /// Takes a step. `service` answers a request that begins, if its session is this worker's.
    pub(super) async fn take(
        &self,
        step: ProjectStep,
        service: impl FnOnce(SessionId) -> Result<Arc<dyn ProjectService>, WorkerFailure>,
    ) -> Result<StepReply, WorkerFailure> {
        let ProjectStep { exchange: id, action } = step;
        let (exchange, piece) = match action {
            StepAction::Begin { session, request, piece } => {
                let service = service(session)?;
                (self.begin(id, service, session, *request)?, Some(piece))
            }
            StepAction::Send { piece } => (self.find(id)?, Some(piece)),
            StepAction::Receive => (self.find(id)?, None),
        };
        let mut exchange = exchange.lock().await;
        let reply = match piece {
            Some(piece) => exchange.receive(piece).await,
            None => exchange.send().await,
        };
        exchange.touched = Instant::now();
        if reply.is_err() || matches!(exchange.state, AnswerState::Over) {
            self.open().remove(&id);
        }
        reply
    }

    fn begin(
        &self,
        id: Uuid,
        service: Arc<dyn ProjectService>,
        session: SessionId,
        request: ProjectRequest,
    ) -> Result<Arc<tokio::sync::Mutex<Exchange>>, WorkerFailure> {
        let mut open = self.open();
        if open.len() >= MAX_EXCHANGES || open.contains_key(&id) {
            let text =
                "too many requests about files are open on the worker; try again in a moment";
            return Err(WorkerFailure::Failed(text.to_owned()));
        }
        let (sender, receiver) = mpsc::channel(1);
        let body = request_body(receiver);
        let answering = tokio::spawn(async move {
            let (response, body) = service.answer(session, request, body).await;
            (response, AnswerBody(BodyPieces::new(body)))
        });
        let exchange = Exchange {
            body: Some(sender),
            state: AnswerState::Pending(answering),
            touched: Instant::now(),
        };
        let exchange = Arc::new(tokio::sync::Mutex::new(exchange));
        open.insert(id, Arc::clone(&exchange));
        tokio::spawn(self.clone().drop_if_idle(id, Arc::downgrade(&exchange)));
        Ok(exchange)
    }

    fn find(&self, id: Uuid) -> Result<Arc<tokio::sync::Mutex<Exchange>>, WorkerFailure> {
        let gone = || WorkerFailure::Failed("the worker has given the request up".to_owned());
        self.open().get(&id).cloned().ok_or_else(gone)
    }

    /// Drops an exchange whose gateway is gone. Ends with the exchange.
    async fn drop_if_idle(self, id: Uuid, exchange: Weak<tokio::sync::Mutex<Exchange>>) {
        loop {
            sleep(IDLE_TIMEOUT).await;
            let Some(exchange) = exchange.upgrade() else { return };
            // A step is being taken while it is locked.
            let is_idle = exchange.try_lock().is_ok_and(|it| it.touched.elapsed() >= IDLE_TIMEOUT);
            if is_idle {
                self.open().remove(&id);
                return;
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<tokio::sync::Mutex<Exchange>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    /// Passes a piece of the request on.
    async fn receive(&mut self, piece: BodyPiece) -> Result<StepReply, WorkerFailure> {
        let AnswerState::Pending(answering) = &mut self.state else { return Err(out_of_order()) };
        let Some(body) = &self.body else { return Err(out_of_order()) };
        let is_last = piece.is_last;
        let pass_on = async {
            // The worker may refuse the rest.
            if !piece.bytes.is_empty() {
                let _ = body.send(BodyPart::Bytes(piece.bytes)).await;
            }
            if is_last {
                let _ = body.send(BodyPart::End).await;
                std::future::pending::<()>().await;
            }
        };
        let answered = tokio::select! {
            biased;
            answered = answering => answered,
            () = pass_on => return Ok(StepReply::GoOn),
        };
        self.body = None;
        let failed = |_| WorkerFailure::Failed("the worker could not answer".to_owned());
        let (response, mut rest) = answered.map_err(failed)?;
        let piece = rest.next().await?;
        self.state = if piece.is_last { AnswerState::Over } else { AnswerState::Rest(rest) };
        Ok(StepReply::Answer { response, piece })
    }

    /// The next piece of the answer.
    async fn send(&mut self) -> Result<StepReply, WorkerFailure> {
        let AnswerState::Rest(rest) = &mut self.state else { return Err(out_of_order()) };
        let piece = rest.next().await?;
        if piece.is_last {
            self.state = AnswerState::Over;
        }
        Ok(StepReply::Piece(piece))
    }
}

impl AnswerBody {
    async fn next(&mut self) -> Result<BodyPiece, WorkerFailure> {
        self.0.next().await.map_err(|error| WorkerFailure::Failed(error.to_string()))
    }
}

/// The body of a request. If the exchange is dropped before the last piece came, it ends with an error, so that
/// what is incomplete is not taken for a whole.
fn request_body(parts: mpsc::Receiver<BodyPart>) -> ProjectBody {
    Box::pin(stream::unfold(Some(parts), |parts| async {
        let mut parts = parts?;
        match parts.recv().await {
            Some(BodyPart::Bytes(bytes)) => Some((Ok(bytes), Some(parts))),
            Some(BodyPart::End) => None,
            None => Some((Err(io::ErrorKind::UnexpectedEof.into()), None)),
        }
    }))
}

fn out_of_order() -> WorkerFailure {
    WorkerFailure::Failed("the request is not at this step".to_owned())
}

#[cfg(test)]
mod tests;
