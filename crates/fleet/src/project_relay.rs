//! Requests about projects, on the side of the gateway: a body goes to the owner of the session piece by
//! piece, and the answer comes back the same way, as fast as the client takes it.

use std::io;
use std::time::Duration;

use futures_util::stream;
use journal::SessionId;
use session::{ProjectAnswer, ProjectBody, ProjectRequest};
use uuid::Uuid;

use crate::exchange::{BodyPiece, BodyPieces, ProjectStep, StepAction, StepReply};
use crate::gateway::Fleet;
use crate::question::{WorkerFailure, WorkerQuestion, decode_reply};

/// How long a step may take. A commit runs the hooks of the project, which may take five minutes.
const STEP_TIMEOUT: Duration = Duration::from_secs(330);

/// What comes next of an answer.
enum AnswerRest {
    Piece(BodyPiece),
    /// The worker has to be asked.
    Unknown,
    Nothing,
}

impl Fleet {
    /// Has the owner of a session answer a request about its project.
    pub(crate) async fn exchange(
        &self,
        session: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> Result<(ProjectAnswer, ProjectBody), WorkerFailure> {
        let mut owner = self.owner(session).ok_or(WorkerFailure::NoSuchSession(session))?;
        let exchange = Uuid::new_v4();
        let mut pieces = BodyPieces::new(body);
        let failed = |error: io::Error| WorkerFailure::Failed(error.to_string());
        let piece = pieces.next().await.map_err(failed)?;
        let mut is_last = piece.is_last;
        let begin = StepAction::Begin { session, request: Box::new(request), piece };
        let mut reply = self.step(&owner, exchange, begin.clone()).await;
        if let Err(WorkerFailure::NotOwner { owner: now }) = reply {
            // This gateway does not know yet that the session was moved.
            owner = now;
            reply = self.step(&owner, exchange, begin).await;
        }
        let (response, first) = loop {
            match reply? {
                // It may come before the end of a body that is refused.
                StepReply::Answer { response, piece } => break (response, piece),
                StepReply::GoOn if !is_last => {}
                StepReply::GoOn | StepReply::Piece(_) => return Err(confused()),
            }
            let piece = pieces.next().await.map_err(failed)?;
            is_last = piece.is_last;
            reply = self.step(&owner, exchange, StepAction::Send { piece }).await;
        };
        Ok((response, self.clone().answer_body(owner, exchange, first)))
    }

    /// An answer, the rest of which is asked for as it is read.
    fn answer_body(self, owner: String, exchange: Uuid, first: BodyPiece) -> ProjectBody {
        let state = (self, owner, AnswerRest::Piece(first));
        Box::pin(stream::try_unfold(state, move |(fleet, owner, rest)| async move {
            let piece = match rest {
                AnswerRest::Piece(piece) => piece,
                AnswerRest::Unknown => {
                    let failed = |error: WorkerFailure| io::Error::other(error.to_string());
                    match fleet.step(&owner, exchange, StepAction::Receive).await {
                        Ok(StepReply::Piece(piece)) => piece,
                        Ok(_) => return Err(failed(confused())),
                        Err(error) => return Err(failed(error)),
                    }
                }
                AnswerRest::Nothing => return Ok(None),
            };
            let rest = if piece.is_last { AnswerRest::Nothing } else { AnswerRest::Unknown };
            Ok(Some((piece.bytes, (fleet, owner, rest))))
        }))
    }

    async fn step(
        &self,
        owner: &str,
        exchange: Uuid,
        action: StepAction,
    ) -> Result<StepReply, WorkerFailure> {
        let question = WorkerQuestion::Project(ProjectStep { exchange, action });
        let answer = self.ask_bytes(owner, question.encode(), STEP_TIMEOUT).await?;
        decode_reply(&answer)
    }
}

fn confused() -> WorkerFailure {
    WorkerFailure::Failed("the worker has answered something else".to_owned())
}
