//! Exchanges, with a service that repeats what it gets.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use journal::SessionId;
use session::{
    ExchangeMode, ProjectAnswer, ProjectBody, ProjectClient, ProjectRequest, ProjectRole,
    ProjectService, RelayFuture,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::{Exchanges, IDLE_TIMEOUT, MAX_EXCHANGES};
use crate::exchange::{BodyPiece, ProjectStep, RECEIVE_WAIT, StepAction, StepReply};
use crate::question::WorkerFailure;

/// Answers with the body of the request, in small parts. Tells what it received. In an exchange that goes both
/// ways, each part is answered when it comes.
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
            if request.mode == ExchangeMode::BothWays {
                return self.answer_parts(&request.path, body);
            }
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

    fn release(&self, _: SessionId) -> RelayFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Echo {
    fn answer_parts(&self, path: &str, body: ProjectBody) -> (ProjectAnswer, ProjectBody) {
        let dropped = DropSignal(self.received.clone());
        let body: ProjectBody = match path {
            "refused" => Box::pin(stream::iter([Ok(Bytes::from_static(b"no"))])),
            // Takes nothing, and answers nothing.
            "stuck" => {
                Box::pin(stream::unfold((body, dropped), async |_| std::future::pending().await))
            }
            _ => Box::pin(body.map(move |part| {
                let _held = &dropped;
                part
            })),
        };
        let status = if path == "refused" { 403 } else { 200 };
        (ProjectAnswer { status, headers: Vec::new() }, body)
    }
}

/// Tells when the answer of an exchange that goes both ways is dropped.
struct DropSignal(mpsc::UnboundedSender<Result<usize, String>>);

impl Drop for DropSignal {
    fn drop(&mut self) {
        let _ = self.0.send(Err("dropped".to_owned()));
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
    begin_with(path, piece(bytes, is_last), ExchangeMode::InTurn)
}

/// Begins an exchange that goes both ways.
fn begin_both_ways(path: &str) -> StepAction {
    begin_with(path, BodyPiece::default(), ExchangeMode::BothWays)
}

fn begin_with(path: &str, piece: BodyPiece, mode: ExchangeMode) -> StepAction {
    let client = ProjectClient { name: "ann".to_owned(), role: ProjectRole::Drive, shell: false };
    let request = ProjectRequest {
        method: "POST".to_owned(),
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
        client,
        mode,
    };
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

fn send(bytes: &'static [u8], is_last: bool) -> StepAction {
    StepAction::Send { piece: piece(bytes, is_last) }
}

#[tokio::test(start_paused = true)]
async fn in_both_directions_a_wait_for_the_answer_does_not_hold_up_the_request() {
    let setup = Setup::new();
    let response = ProjectAnswer { status: 200, headers: Vec::new() };
    let begun = setup.take(1, begin_both_ways("echo")).await;
    assert_eq!(begun, Ok(StepReply::Answer { response, piece: piece(b"", false) }));
    for key in [b"l", b"s"] {
        let begun = Instant::now();
        // The answer is waited for first, as a gateway does all the time.
        let (answer, ()) = tokio::join!(setup.take(1, StepAction::Receive), async {
            sleep(Duration::from_millis(10)).await;
            assert_eq!(setup.take(1, send(key, false)).await, Ok(StepReply::GoOn));
        });
        assert_eq!(answer, Ok(StepReply::Piece(piece(key, false))));
        assert!(begun.elapsed() < Duration::from_millis(20), "{:?}", begun.elapsed());
    }
    // While nothing comes, the gateway learns that the worker is there.
    let begun = Instant::now();
    let quiet = setup.take(1, StepAction::Receive).await;
    assert_eq!(quiet, Ok(StepReply::Piece(piece(b"", false))));
    assert_eq!(begun.elapsed(), RECEIVE_WAIT);
    assert_eq!(setup.take(1, send(b"", true)).await, Ok(StepReply::GoOn));
    assert_eq!(setup.take(1, StepAction::Receive).await, Ok(StepReply::Piece(piece(b"", true))));
    assert!(setup.exchanges.open().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_exchange_in_both_directions_can_be_refused() {
    let setup = Setup::new();
    let response = ProjectAnswer { status: 403, headers: Vec::new() };
    let begun = setup.take(1, begin_both_ways("refused")).await;
    assert_eq!(begun, Ok(StepReply::Answer { response, piece: piece(b"no", true) }));
    assert!(setup.exchanges.open().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_piece_that_is_not_taken_is_said_to_be_not_taken() {
    let setup = Setup::new();
    setup.take(1, begin_both_ways("stuck")).await.unwrap();
    let mut taken = 0;
    while setup.take(1, send(b"x", false)).await == Ok(StepReply::GoOn) {
        taken += 1;
    }
    assert!((1..10).contains(&taken), "{taken}");
    assert_eq!(setup.take(1, send(b"x", false)).await, Ok(StepReply::Full));
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_its_gateway_leaves_is_dropped_at_once_and_one_of_a_gone_gateway_later() {
    let mut setup = Setup::new();
    setup.take(1, begin_both_ways("stuck")).await.unwrap();
    let begun = Instant::now();
    let (waiting, _) = tokio::join!(setup.take(1, StepAction::Receive), async {
        sleep(Duration::from_millis(10)).await;
        setup.take(1, StepAction::Leave).await
    });
    waiting.unwrap_err();
    assert!(begun.elapsed() < Duration::from_millis(20), "{:?}", begun.elapsed());
    assert!(setup.exchanges.open().is_empty());
    setup.received.recv().await.unwrap().unwrap_err();

    setup.take(2, begin_both_ways("stuck")).await.unwrap();
    // As long as the gateway asks, it goes on.
    for _ in 0..30 {
        setup.take(2, StepAction::Receive).await.unwrap();
    }
    assert!(setup.received.try_recv().is_err());
    let dropped = timeout(2 * IDLE_TIMEOUT, setup.received.recv()).await;
    dropped.unwrap().unwrap().unwrap_err();
    setup.take(2, StepAction::Receive).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn terminals_and_files_have_limits_of_their_own() {
    let setup = Setup::new();
    for id in 0..MAX_EXCHANGES as u128 {
        setup.take(id, begin_both_ways("stuck")).await.unwrap();
    }
    setup.take(99, begin_both_ways("stuck")).await.unwrap_err();
    setup.take(100, begin("files", b"x", true)).await.unwrap();
    setup.take(3, StepAction::Leave).await.unwrap_err();
    setup.take(99, begin_both_ways("stuck")).await.unwrap();
}
