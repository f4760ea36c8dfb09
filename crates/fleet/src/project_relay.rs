//! Requests about projects, on the side of the gateway: a body goes to the owner of the session piece by
//! piece, and the answer comes back the same way, as fast as the client takes it.

use std::io;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream;
use journal::SessionId;
use session::{ExchangeMode, ProjectAnswer, ProjectBody, ProjectRequest};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;
use uuid::Uuid;

use crate::exchange::{BodyPiece, BodyPieces, ProjectStep, RECEIVE_WAIT, StepAction, StepReply};
use crate::gateway::Fleet;
use crate::question::{WorkerFailure, WorkerQuestion, decode_reply};

/// How long a step may take. A commit runs the hooks of the project, which may take five minutes.
const STEP_TIMEOUT: Duration = Duration::from_secs(330);

/// How long a step of an exchange that goes both ways may take. The worker answers after [`RECEIVE_WAIT`]; without
/// an answer it is gone.
const BOTH_WAYS_TIMEOUT: Duration = RECEIVE_WAIT.saturating_mul(2);

/// How long the rest of an answer may take to come when the request cannot be sent any more.
const LAST_PIECE_WAIT: Duration = Duration::from_secs(1);

/// Asks a worker for the steps of an exchange.
#[derive(Clone)]
struct StepAsker {
    fleet: Fleet,
    owner: String,
    exchange: Uuid,
    timeout: Duration,
}

/// An exchange with a worker. Dropped before it is over, it has the worker drop it too.
struct OpenExchange {
    asker: StepAsker,
    is_over: bool,
}

/// What comes next of an answer.
enum AnswerRest {
    Piece(BodyPiece),
    /// The worker has to be asked.
    Unknown,
    Nothing,
}

/// An answer that is being received, while the rest of the request is being sent.
struct ReceivedAnswer {
    exchange: OpenExchange,
    rest: AnswerRest,
    /// Ends when the whole request is sent. Dropped, it stops.
    sending: JoinSet<Result<(), WorkerFailure>>,
}

impl Fleet {
    /// Has the owner of a session answer a request about its project.
    pub(crate) async fn exchange(
        &self,
        session: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> Result<(ProjectAnswer, ProjectBody), WorkerFailure> {
        let owner = self.owner(session).ok_or(WorkerFailure::NoSuchSession(session))?;
        let mode = request.mode;
        let mut pieces = BodyPieces::new(body, mode);
        let piece = match mode {
            ExchangeMode::InTurn => pieces.next().await.map_err(|it| unreadable(&it))?,
            // The client may wait for the answer before it sends anything.
            ExchangeMode::BothWays => BodyPiece::default(),
        };
        let mut is_last = piece.is_last;
        let begin = StepAction::Begin { session, request: Box::new(request), piece };
        let mut exchange = OpenExchange::new(StepAsker::new(self.clone(), owner, mode));
        let mut reply = exchange.step(begin.clone()).await;
        if let Err(WorkerFailure::NotOwner { owner }) = reply {
            // This gateway does not know yet that the session was moved.
            exchange.is_over = true;
            exchange = OpenExchange::new(StepAsker::new(self.clone(), owner, mode));
            reply = exchange.step(begin).await;
        }
        let (response, first) = loop {
            match reply? {
                // It may come before the end of a body that is refused.
                StepReply::Answer { response, piece } => break (response, piece),
                StepReply::GoOn if !is_last && mode == ExchangeMode::InTurn => {}
                StepReply::GoOn | StepReply::Full | StepReply::Piece(_) => return Err(confused()),
            }
            let piece = pieces.next().await.map_err(|it| unreadable(&it))?;
            is_last = piece.is_last;
            reply = exchange.step(StepAction::Send { piece }).await;
        };
        let mut sending = JoinSet::new();
        if mode == ExchangeMode::BothWays && !first.is_last {
            sending.spawn(exchange.asker.clone().send_rest(pieces));
        }
        let rest = AnswerRest::Piece(first);
        Ok((response, ReceivedAnswer { exchange, rest, sending }.into_body()))
    }
}

impl StepAsker {
    fn new(fleet: Fleet, owner: String, mode: ExchangeMode) -> Self {
        let timeout = match mode {
            ExchangeMode::InTurn => STEP_TIMEOUT,
            ExchangeMode::BothWays => BOTH_WAYS_TIMEOUT,
        };
        Self { fleet, owner, exchange: Uuid::new_v4(), timeout }
    }

    async fn step(&self, action: StepAction) -> Result<StepReply, WorkerFailure> {
        let question = WorkerQuestion::Project(ProjectStep { exchange: self.exchange, action });
        let answer = self.fleet.ask_bytes(&self.owner, question.encode(), self.timeout).await?;
        decode_reply(&answer)
    }

    /// Sends the rest of a request while its answer is received. A piece is sent after the one before was taken, so
    /// they keep their order.
    async fn send_rest(self, mut pieces: BodyPieces) -> Result<(), WorkerFailure> {
        loop {
            let piece = pieces.next().await.map_err(|it| unreadable(&it))?;
            while self.step(StepAction::Send { piece: piece.clone() }).await? == StepReply::Full {}
            if piece.is_last {
                return Ok(());
            }
        }
    }
}

impl OpenExchange {
    fn new(asker: StepAsker) -> Self {
        Self { asker, is_over: false }
    }

    async fn step(&mut self, action: StepAction) -> Result<StepReply, WorkerFailure> {
        let reply = self.asker.step(action).await;
        if let Ok(StepReply::Answer { piece, .. } | StepReply::Piece(piece)) = &reply {
            self.is_over = piece.is_last;
        }
        reply
    }
}

impl Drop for OpenExchange {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Without a runtime the process ends, and the worker notices that by itself.
        if let Ok(runtime) = Handle::try_current() {
            let asker = self.asker.clone();
            runtime.spawn(async move {
                let _ = asker.step(StepAction::Leave).await;
            });
        }
    }
}

impl ReceivedAnswer {
    /// The answer, the rest of which is asked for as it is read.
    fn into_body(self) -> ProjectBody {
        Box::pin(stream::try_unfold(self, |mut this| async {
            let piece = this.next().await.map_err(|error| io::Error::other(error.to_string()))?;
            Ok(piece.map(|piece| (piece.bytes, this)))
        }))
    }

    async fn next(&mut self) -> Result<Option<BodyPiece>, WorkerFailure> {
        loop {
            let piece = match std::mem::replace(&mut self.rest, AnswerRest::Unknown) {
                AnswerRest::Piece(piece) => piece,
                AnswerRest::Unknown => match self.receive().await? {
                    StepReply::Piece(piece) => piece,
                    _ => return Err(confused()),
                },
                AnswerRest::Nothing => return Ok(None),
            };
            if piece.is_last {
                self.rest = AnswerRest::Nothing;
            }
            // In an exchange that goes both ways, an empty piece says that the worker is there.
            if !piece.bytes.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    /// Asks for the next piece, and gives up when the request cannot be sent any more.
    async fn receive(&mut self) -> Result<StepReply, WorkerFailure> {
        let mut receiving = pin!(self.exchange.step(StepAction::Receive));
        let failure = tokio::select! {
            reply = &mut receiving => return reply,
            failure = failure_of(&mut self.sending) => failure,
        };
        // A worker takes no more of a request when its answer is over, the end of which may be on its way.
        match timeout(LAST_PIECE_WAIT, receiving).await {
            Ok(Ok(reply)) => Ok(reply),
            _ => Err(failure),
        }
    }
}

/// Waits until a task fails. One that is done did not.
async fn failure_of(sending: &mut JoinSet<Result<(), WorkerFailure>>) -> WorkerFailure {
    match sending.join_next().await {
        Some(Ok(Err(failure))) => failure,
        Some(Err(_)) => WorkerFailure::Failed("the request could not be sent".to_owned()),
        Some(Ok(Ok(()))) | None => std::future::pending().await,
    }
}

fn unreadable(error: &io::Error) -> WorkerFailure {
    WorkerFailure::Failed(error.to_string())
}

fn confused() -> WorkerFailure {
    WorkerFailure::Failed("the worker has answered something else".to_owned())
}
