//! Sending a session's frames to the clients that keep up with it.
//!
//! One task for each session sends a frame to one client after the other. Waking a task for each of
//! a thousand clients would take about as long as sending. A client that cannot take a frame at once
//! is left to its own task, which hands it back when the client has caught up.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::sync::{Notify, oneshot};
use tokio::task::{unconstrained, yield_now};
use tokio::time::{Instant, sleep, timeout};
use view::Revision;

use super::ConversationSubscription;
use crate::api::frame_sender::{FrameLease, SEND_TIMEOUT};
use crate::limits::SMALL_BYTES;
use crate::live::LiveState;
use crate::memory_pool::MemoryPool;

/// How many clients are sent a frame before other tasks get a turn.
const CLIENTS_PER_TURN: usize = 256;

/// A shorter pause between two frames is not worth a timer.
const MIN_PAUSE: Duration = Duration::from_micros(500);

/// The longest pause between two frames.
const MAX_PAUSE: Duration = Duration::from_millis(20);

/// The clients of one session. The task that sends to them ends when this is dropped.
#[derive(Debug)]
pub(super) struct Broadcast {
    /// Clients that the task does not know yet.
    new_clients: Mutex<Vec<Weak<BroadcastClient>>>,
    _open: oneshot::Sender<()>,
}

/// A client, shared by the broadcast and the client's own task.
#[derive(Debug)]
pub(super) struct BroadcastClient {
    state: Mutex<ClientState>,
    /// Wakes the client's own task, because it has to send now.
    handed_over: Notify,
    memory: MemoryPool,
}

#[derive(Debug)]
struct ClientState {
    socket: WebSocket,
    /// The revision that the client has when it has received everything that was sent.
    known: Option<Revision>,
    sender: FrameSource,
    last_sent: Instant,
}

/// Who sends a client its next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameSource {
    /// The task of the session. Nothing waits in the socket's buffer.
    Broadcast,
    /// The client's own task.
    Client,
}

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientProgress {
    /// It has everything, and the broadcast sends it the next frame.
    CaughtUp,
    /// Its own task has to send.
    Behind,
    SessionDeleted,
    /// The session cannot be shown.
    SessionFailed,
}

impl Broadcast {
    /// Starts a broadcast of a session.
    pub(super) fn start(subscription: ConversationSubscription) -> Arc<Self> {
        let (open, closed) = oneshot::channel();
        let broadcast = Arc::new(Self { new_clients: Mutex::default(), _open: open });
        let task = run(Arc::downgrade(&broadcast), subscription);
        tokio::spawn(async move {
            tokio::select! {
                () = task => {}
                _ = closed => {}
            }
        });
        broadcast
    }

    /// Adds a client. Its own task sends until it is [handed back](BroadcastClient::try_hand_back).
    pub(super) fn add(&self, client: &Arc<BroadcastClient>) {
        self.new_clients().push(Arc::downgrade(client));
    }

    fn new_clients(&self) -> MutexGuard<'_, Vec<Weak<BroadcastClient>>> {
        self.new_clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(broadcast: Weak<Broadcast>, mut subscription: ConversationSubscription) {
    let mut clients = Vec::new();
    let mut sent = Revision::default();
    loop {
        let state = subscription.newer_than(sent).await;
        let Some(broadcast) = broadcast.upgrade() else { return };
        clients.append(&mut broadcast.new_clients());
        drop(broadcast);
        let start = Instant::now();
        match state {
            LiveState::Ready(now) => {
                // Sockets count against the budget of a task, and would all seem full beyond it.
                let sending = unconstrained(send_to_all(&mut clients, &subscription));
                if AssertUnwindSafe(sending).catch_unwind().await.is_err() {
                    hand_over_all(&clients);
                }
                sent = now;
            }
            LiveState::Deleted | LiveState::Failed => return hand_over_all(&clients),
            LiveState::Loading => {}
        }
        // At most half of the time goes into sending; what changes meanwhile is in the next frame.
        // Short of a flood the next change comes later than that.
        let pause = start.elapsed().min(MAX_PAUSE);
        if pause >= MIN_PAUSE {
            sleep(pause).await;
        }
    }
}

/// Has each client's own task go on.
fn hand_over_all(clients: &[Weak<BroadcastClient>]) {
    for client in clients.iter().filter_map(Weak::upgrade) {
        client.hand_over(&mut client.state());
    }
}

/// Sends each client that is not left to its own task what it lacks.
async fn send_to_all(
    clients: &mut Vec<Weak<BroadcastClient>>,
    subscription: &ConversationSubscription,
) {
    let mut last: Option<(Option<Revision>, Utf8Bytes, Revision)> = None;
    let mut at = 0;
    while at < clients.len() {
        let Some(client) = clients[at].upgrade() else {
            clients.swap_remove(at);
            continue;
        };
        at += 1;
        {
            let mut state = client.state();
            if state.sender == FrameSource::Broadcast {
                let known = state.known;
                if last.as_ref().is_none_or(|(since, ..)| *since != known) {
                    let (frame, now) = subscription.with_document(|it| it.frame(known));
                    last = Some((known, frame, now));
                }
                if let Some((_, frame, now)) = &last
                    && known.is_none_or(|known| known < *now)
                {
                    client.broadcast(&mut state, frame, *now);
                }
            }
        }
        if at % CLIENTS_PER_TURN == 0 {
            yield_now().await;
        }
    }
}

impl BroadcastClient {
    pub(super) fn new(socket: WebSocket, known: Option<Revision>, memory: MemoryPool) -> Self {
        let (sender, last_sent) = (FrameSource::Client, Instant::now());
        let state = Mutex::new(ClientState { socket, known, sender, last_sent });
        Self { state, handed_over: Notify::new(), memory }
    }

    fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_over(&self, state: &mut ClientState) {
        state.sender = FrameSource::Client;
        self.handed_over.notify_one();
    }

    /// Sends a frame if the socket takes it.
    fn broadcast(&self, state: &mut ClientState, frame: &Utf8Bytes, now: Revision) {
        if frame.len() > SMALL_BYTES {
            return self.hand_over(state);
        }
        state.known = Some(now);
        state.last_sent = Instant::now();
        // The client's own task registers itself if there is anything to wait for.
        let mut context = Context::from_waker(Waker::noop());
        let sent = state.socket.start_send_unpin(Message::Text(frame.clone())).is_ok()
            && matches!(state.socket.poll_flush_unpin(&mut context), Poll::Ready(Ok(())));
        if !sent {
            self.hand_over(state);
        }
    }

    /// Waits until the client's own task has to send.
    pub(super) async fn handed_over(&self) {
        self.handed_over.notified().await;
    }

    /// When the client was last sent something.
    pub(super) fn last_sent(&self) -> Instant {
        self.state().last_sent
    }

    /// Receives a message; `None` if the client is gone.
    pub(super) async fn receive(&self) -> Option<Message> {
        poll_fn(|context| self.state().socket.poll_next_unpin(context)).await.and_then(Result::ok)
    }

    /// Makes the next frame a snapshot, which [`send_frame`](Self::send_frame) sends.
    pub(super) fn forget_revision(&self) {
        let mut state = self.state();
        (state.known, state.sender) = (None, FrameSource::Client);
    }

    /// Leaves the client to the broadcast if it has everything. Otherwise its own task has to
    /// [send](Self::send_next) what it lacks.
    pub(super) fn try_hand_back(&self, subscription: &ConversationSubscription) -> ClientProgress {
        let mut state = self.state();
        state.sender = FrameSource::Client;
        // The broadcast skips a client that is not its own, and it looks at all of them after the
        // revision has changed. So, as the state is locked, one of both sees every change.
        let now = match subscription.state() {
            LiveState::Deleted => return ClientProgress::SessionDeleted,
            LiveState::Failed => return ClientProgress::SessionFailed,
            LiveState::Loading => return ClientProgress::Behind,
            LiveState::Ready(now) => now,
        };
        let mut context = Context::from_waker(Waker::noop());
        if state.known.is_some_and(|known| known >= now)
            && matches!(state.socket.poll_flush_unpin(&mut context), Poll::Ready(Ok(())))
        {
            state.sender = FrameSource::Broadcast;
            return ClientProgress::CaughtUp;
        }
        ClientProgress::Behind
    }

    /// Sends what the client lacks; `None` if it is gone.
    pub(super) async fn send_next(&self, subscription: &ConversationSubscription) -> Option<()> {
        self.flush().await?;
        let known = self.state().known;
        match subscription.state() {
            LiveState::Ready(now) if known.is_none_or(|known| known < now) => {
                self.send_frame(subscription).await
            }
            _ => Some(()),
        }
    }

    /// Sends the frame after the revision that the client has, even if that has no change.
    pub(super) async fn send_frame(&self, subscription: &ConversationSubscription) -> Option<()> {
        let known = self.state().known;
        let (frame, now) = subscription.with_document(|it| it.frame(known));
        self.send(frame).await?;
        self.state().known = Some(now);
        Some(())
    }

    /// Sends a message of the client's own task; `None` if the client is gone or takes too long. A
    /// long frame is copied for each client, so it needs memory of the pool, which a client that
    /// stalls may lose.
    pub(super) async fn send(&self, frame: Utf8Bytes) -> Option<()> {
        let lease = FrameLease::new(&self.memory, &frame).await;
        self.start_send(Message::Text(frame))?;
        tokio::select! {
            flushed = self.flush() => flushed,
            () = lease.revoked() => None,
        }
    }

    /// Tells the client that nothing follows.
    pub(super) async fn close(&self) -> Option<()> {
        self.start_send(Message::Close(None))?;
        self.flush().await
    }

    fn start_send(&self, message: Message) -> Option<()> {
        let mut state = self.state();
        state.sender = FrameSource::Client;
        state.last_sent = Instant::now();
        state.socket.start_send_unpin(message).ok()
    }

    async fn flush(&self) -> Option<()> {
        let flushed = poll_fn(|context| self.state().socket.poll_flush_unpin(context));
        timeout(SEND_TIMEOUT, flushed).await.ok()?.ok()
    }
}
