//! Exchanges, with a service that repeats what it gets.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use journal::SessionId;
use session::{
    ProjectAnswer, ProjectBody, ProjectClient, ProjectRequest, ProjectRole, ProjectService,
    RelayFuture,
};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::{Exchanges, IDLE_TIMEOUT, MAX_EXCHANGES};
use crate::exchange::{BodyPiece, ProjectStep, StepAction, StepReply};
use crate::question::WorkerFailure;

/// Answers with the body of the request, in small parts. Tells what it received.
#[derive(Debug)]
struct Echo {
    received: mpsc::UnboundedSender<Result<usize, String>>,
}

impl ProjectService for Echo {
    fn answer(
        &self,
        _: SessionId,
        request: ProjectRequest,
        mut body: ProjectBody,
    ) -> RelayFuture<'_, (ProjectAnswer, ProjectBody)> {
        Box::pin(async move {
            let mut parts = Vec::new();
            let mut status = 200;
            while request.path != "refused"
                && let Some(part) = body.next().await
            {
                match part {
                    Ok(part) => parts.push(part),
                    Err(error) => {
                        let _ = self.received.send(Err(error.to_string()));
                        status = 400;
                    }
                }
            }
            let _ = self.received.send(Ok(parts.iter().map(Bytes::len).sum()));
            let headers = Vec::new();
            let body: ProjectBody = Box::pin(stream::iter(parts.into_iter().map(Ok)));
            (ProjectAnswer { status, headers }, body)
        })
    }
}

struct Setup {
    exchanges: Exchanges,
    echo: Arc<Echo>,
    received: mpsc::UnboundedReceiver<Result<usize, String>>,
}

impl Setup {
    fn new() -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        let echo = Arc::new(Echo { received: sender });
        Self { exchanges: Exchanges::default(), echo, received }
    }

    async fn take(&self, id: u128, action: StepAction) -> Result<StepReply, WorkerFailure> {
        let step = ProjectStep { exchange: Uuid::from_u128(id), action };
        self.exchanges.take(step, |_| Ok(Arc::clone(&self.echo) as _)).await
    }
}

fn begin(path: &str, bytes: &'static [u8], is_last: bool) -> StepAction {
    let client = ProjectClient { name: "ann".to_owned(), role: ProjectRole::Drive };
    let request = ProjectRequest {
        method: "POST".to_owned(),
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
        client,
    };
    let piece = piece(bytes, is_last);
    let session = SessionId(Uuid::from_u128(1));
    StepAction::Begin { session, request: Box::new(request), piece }
}

fn piece(bytes: &'static [u8], is_last: bool) -> BodyPiece {
    BodyPiece { bytes: Bytes::from_static(bytes), is_last }
}

static LARGE: [u8; 200 << 10] = [7; 200 << 10];

#[tokio::test]
async fn bodies_go_and_come_in_pieces() {
    let setup = Setup::new();
    let reply = setup.take(1, begin("files", b"all of it", true)).await.unwrap();
    let response = ProjectAnswer { status: 200, headers: Vec::new() };
    let whole = StepReply::Answer { response, piece: piece(b"all of it", true) };
    assert_eq!(reply, whole);
    setup.take(1, StepAction::Receive).await.unwrap_err();

    assert_eq!(setup.take(2, begin("files", &LARGE, false)).await, Ok(StepReply::GoOn));
    let send = |is_last| StepAction::Send { piece: piece(&LARGE, is_last) };
    assert_eq!(setup.take(2, send(false)).await, Ok(StepReply::GoOn));
    let Ok(StepReply::Answer { piece, .. }) = setup.take(2, send(true)).await else { panic!() };
    let (mut bytes, mut is_last) = (piece.bytes.len(), piece.is_last);
    while !is_last {
        let reply = setup.take(2, StepAction::Receive).await;
        let Ok(StepReply::Piece(piece)) = reply else { panic!("{reply:?}") };
        (bytes, is_last) = (bytes + piece.bytes.len(), piece.is_last);
    }
    assert_eq!(bytes, 3 * LARGE.len());
    assert!(setup.exchanges.open().is_empty());
}

#[tokio::test]
async fn an_answer_may_come_before_the_end_of_the_request() {
    let setup = Setup::new();
    let mut reply = setup.take(1, begin("refused", &LARGE, false)).await.unwrap();
    while reply == StepReply::GoOn {
        reply = setup.take(1, StepAction::Send { piece: piece(&LARGE, false) }).await.unwrap();
    }
    assert!(matches!(reply, StepReply::Answer { .. }), "{reply:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_whose_gateway_is_gone_ends_with_an_error() {
    let mut setup = Setup::new();
    assert_eq!(setup.take(1, begin("files", b"half", false)).await, Ok(StepReply::GoOn));
    tokio::time::sleep(2 * IDLE_TIMEOUT).await;
    setup.take(1, StepAction::Send { piece: piece(b"rest", true) }).await.unwrap_err();
    setup.received.recv().await.unwrap().unwrap_err();
}

#[tokio::test]
async fn there_is_a_limit_to_open_exchanges() {
    let setup = Setup::new();
    for id in 0..MAX_EXCHANGES as u128 {
        setup.take(id, begin("files", b"x", false)).await.unwrap();
    }
    setup.take(99, begin("files", b"x", false)).await.unwrap_err();
    setup.take(3, begin("files", b"x", false)).await.unwrap_err();
    setup.take(3, StepAction::Send { piece: piece(b"", true) }).await.unwrap();
    setup.take(99, begin("files", b"x", true)).await.unwrap();
}
