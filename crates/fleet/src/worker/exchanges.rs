//! Requests about the projects of this worker's sessions: the exchanges that are open.
//!
//! An exchange has a piece of a body in memory in each direction, and there is a limited number of them, so
//! gateways cannot make a worker use more memory than that. Those that go both ways last as long as someone
//! looks at a terminal, and have a limit of their own. An exchange whose gateway is gone is dropped, and with it
//! a file that was not complete.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use journal::SessionId;
use session::{ExchangeMode, ProjectAnswer, ProjectBody, ProjectRequest, ProjectService};
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use crate::exchange::{BodyPiece, BodyPieces, ProjectStep, RECEIVE_WAIT, StepAction, StepReply};
use crate::question::WorkerFailure;

/// How many exchanges of each mode may be open. Others are refused.
const MAX_EXCHANGES: usize = 32;

/// An exchange without a step for this long is dropped.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// A piece of a request in an exchange: its bytes, and the end.
const PIECE_PARTS: usize = 2;

/// The open exchanges of a worker. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges(Arc<Mutex<HashMap<Uuid, Arc<Exchange>>>>);

/// An exchange. Its halves have locks of their own, so that a wait for the answer does not hold up the request.
#[derive(Debug)]
struct Exchange {
    mode: ExchangeMode,
    /// Where the pieces of the request go; none after the last one.
    request: AsyncMutex<Option<mpsc::Sender<BodyPart>>>,
    answer: AsyncMutex<AnswerState>,
    activity: Mutex<StepActivity>,
    /// Becomes true when the gateway has left.
    left: watch::Sender<bool>,
}

#[derive(Debug)]
struct StepActivity {
    /// How many steps are being taken.
    running: usize,
    last: Instant,
}

/// A step that is being taken.
struct RunningStep<'a>(&'a Exchange);

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
        let exchange = match &action {
            StepAction::Begin { session, request, .. } => {
                self.begin(id, service(*session)?, *session, request)?
            }
            StepAction::Send { .. } | StepAction::Receive | StepAction::Leave => self.find(id)?,
        };
        let running = RunningStep::new(&exchange);
        let mut left = exchange.left.subscribe();
        let reply = tokio::select! {
            reply = exchange.take(action) => reply,
            _ = left.wait_for(|left| *left) => Err(gone()),
        };
        drop(running);
        if reply.is_err() || exchange.is_over() {
            self.open().remove(&id);
        }
        reply
    }

    fn begin(
        &self,
        id: Uuid,
        service: Arc<dyn ProjectService>,
        session: SessionId,
        request: &ProjectRequest,
    ) -> Result<Arc<Exchange>, WorkerFailure> {
        let mode = request.mode;
        let mut open = self.open();
        let same = open.values().filter(|it| it.mode == mode).count();
        if same >= MAX_EXCHANGES || open.contains_key(&id) {
            let text = match mode {
                ExchangeMode::InTurn => {
                    "too many requests about files are open on the worker; try again in a moment"
                }
                ExchangeMode::BothWays => {
                    "too many clients look at terminals of the worker; close one first"
                }
            };
            return Err(WorkerFailure::Failed(text.to_owned()));
        }
        let (sender, receiver) = mpsc::channel(PIECE_PARTS);
        let body = request_body(receiver);
        let request = request.clone();
        let answering = tokio::spawn(async move {
            let (response, body) = service.answer(session, request, body).await;
            (response, AnswerBody(BodyPieces::new(body, mode)))
        });
        let activity = StepActivity { running: 0, last: Instant::now() };
        let exchange = Arc::new(Exchange {
            mode,
            request: AsyncMutex::new(Some(sender)),
            answer: AsyncMutex::new(AnswerState::Pending(answering)),
            activity: Mutex::new(activity),
            left: watch::Sender::new(false),
        });
        open.insert(id, Arc::clone(&exchange));
        tokio::spawn(self.clone().drop_if_idle(id, Arc::downgrade(&exchange)));
        Ok(exchange)
    }

    fn find(&self, id: Uuid) -> Result<Arc<Exchange>, WorkerFailure> {
        self.open().get(&id).cloned().ok_or_else(gone)
    }

    /// Drops an exchange whose gateway is gone. Ends with the exchange.
    async fn drop_if_idle(self, id: Uuid, exchange: Weak<Exchange>) {
        let mut end = Instant::now() + IDLE_TIMEOUT;
        loop {
            sleep_until(end).await;
            let Some(exchange) = exchange.upgrade() else { return };
            let StepActivity { running, last } = *exchange.activity();
            end = last + IDLE_TIMEOUT;
            if running > 0 {
                end = Instant::now() + IDLE_TIMEOUT;
            } else if end <= Instant::now() {
                self.open().remove(&id);
                return;
            }
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<Exchange>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exchange {
    async fn take(&self, action: StepAction) -> Result<StepReply, WorkerFailure> {
        match (action, self.mode) {
            (StepAction::Leave, _) => {
                self.left.send_replace(true);
                Err(gone())
            }
            (
                StepAction::Begin { piece, .. } | StepAction::Send { piece },
                ExchangeMode::InTurn,
            ) => self.pass_on_until_answered(piece).await,
            (StepAction::Begin { piece, .. }, ExchangeMode::BothWays) => self.begin(piece).await,
            (StepAction::Send { piece }, ExchangeMode::BothWays) => self.pass_on(piece).await,
            (StepAction::Receive, _) => self.receive().await,
        }
    }

    /// Passes a piece of the request on, and returns the answer if it was the last one.
    async fn pass_on_until_answered(&self, piece: BodyPiece) -> Result<StepReply, WorkerFailure> {
        let (mut request, mut answer) = (self.request.lock().await, self.answer.lock().await);
        let AnswerState::Pending(answering) = &mut *answer else { return Err(out_of_order()) };
        let Some(body) = &*request else { return Err(out_of_order()) };
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
        *request = None;
        answer.answered(answered, self.mode).await
    }

    /// The answer to a request whose content comes later.
    async fn begin(&self, piece: BodyPiece) -> Result<StepReply, WorkerFailure> {
        let mut answer = self.answer.lock().await;
        if !piece.bytes.is_empty() || piece.is_last {
            return Err(out_of_order());
        }
        let AnswerState::Pending(answering) = &mut *answer else { return Err(out_of_order()) };
        let answered = answering.await;
        answer.answered(answered, self.mode).await
    }

    /// Passes a piece of the request on if the ones before it are taken soon.
    async fn pass_on(&self, piece: BodyPiece) -> Result<StepReply, WorkerFailure> {
        let mut request = self.request.lock().await;
        let Some(body) = &*request else { return Err(out_of_order()) };
        let bytes = Some(piece.bytes).filter(|it| !it.is_empty()).map(BodyPart::Bytes);
        let parts: Vec<_> =
            bytes.into_iter().chain(piece.is_last.then_some(BodyPart::End)).collect();
        // All of a piece is taken, or nothing.
        match timeout(RECEIVE_WAIT, body.reserve_many(parts.len())).await {
            Ok(Ok(permits)) => permits.zip(parts).for_each(|(permit, part)| permit.send(part)),
            Ok(Err(_)) => return Err(gone()),
            Err(_) => return Ok(StepReply::Full),
        }
        if piece.is_last {
            *request = None;
        }
        Ok(StepReply::GoOn)
    }

    /// The next piece of the answer.
    async fn receive(&self) -> Result<StepReply, WorkerFailure> {
        let mut answer = self.answer.lock().await;
        let AnswerState::Rest(rest) = &mut *answer else { return Err(out_of_order()) };
        let piece = rest.next(self.mode, RECEIVE_WAIT).await?;
        if piece.is_last {
            *answer = AnswerState::Over;
        }
        Ok(StepReply::Piece(piece))
    }

    fn is_over(&self) -> bool {
        // While it is locked, a step waits for the answer.
        self.answer.try_lock().is_ok_and(|it| matches!(*it, AnswerState::Over))
    }

    fn activity(&self) -> MutexGuard<'_, StepActivity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> RunningStep<'a> {
    fn new(exchange: &'a Exchange) -> Self {
        exchange.activity().running += 1;
        Self(exchange)
    }
}

impl Drop for RunningStep<'_> {
    fn drop(&mut self) {
        let mut activity = self.0.activity();
        activity.running -= 1;
        activity.last = Instant::now();
    }
}

impl AnswerState {
    /// What a gateway is told when there is an answer.
    async fn answered(
        &mut self,
        answered: Result<(ProjectAnswer, AnswerBody), JoinError>,
        mode: ExchangeMode,
    ) -> Result<StepReply, WorkerFailure> {
        let failed = |_| WorkerFailure::Failed("the worker could not answer".to_owned());
        let (response, mut rest) = answered.map_err(failed)?;
        let piece = rest.next(mode, Duration::ZERO).await?;
        *self = if piece.is_last { Self::Over } else { Self::Rest(rest) };
        Ok(StepReply::Answer { response, piece })
    }
}

impl AnswerBody {
    /// The next piece. In an exchange that goes both ways it is waited for only for a time, and an empty piece says
    /// that the exchange goes on.
    async fn next(
        &mut self,
        mode: ExchangeMode,
        wait: Duration,
    ) -> Result<BodyPiece, WorkerFailure> {
        let piece = match mode {
            ExchangeMode::InTurn => self.0.next().await,
            ExchangeMode::BothWays => {
                timeout(wait, self.0.next()).await.unwrap_or_else(|_| Ok(BodyPiece::default()))
            }
        };
        piece.map_err(|error| WorkerFailure::Failed(error.to_string()))
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

fn gone() -> WorkerFailure {
    WorkerFailure::Failed("the worker has given the request up".to_owned())
}

fn out_of_order() -> WorkerFailure {
    WorkerFailure::Failed("the request is not at this step".to_owned())
}

#[cfg(test)]
mod tests;
