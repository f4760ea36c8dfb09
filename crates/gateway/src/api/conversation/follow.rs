//! Following a session, or the list of sessions, over a WebSocket.
//!
//! A client is sent one frame at a time. Whatever happens while that is on its way goes into the
//! next one, so a slow client gets fewer and larger frames and delays no other client.

use std::collections::HashMap;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use view::Revision;

use super::broadcast::{Broadcast, BroadcastClient, ClientProgress};
use super::frame::{ConversationFrame, Heartbeat, SessionListFrame};
use super::{ConversationSubscription, UNREADABLE, load};
use crate::access::{AuthenticatedClient, StreamAuthorization};
use crate::api::extract::{PathParams, QueryParams};
use crate::api::frame_sender::FrameSender;
use crate::api::sessions::SessionResponse;
use crate::api::tag;
use crate::gateway::{Gateway, now};
use crate::live::LiveState;
use crate::notifications::PresenceGuard;
use crate::problem::{ApiResult, Problem};

/// How long nothing may be sent before the client gets a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The heartbeat timer is never set for less.
const MIN_TIMER: Duration = Duration::from_secs(1);

/// The largest message of a client.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

pub(in crate::api) type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct FollowQuery {
    /// The revision of the document that the client still has.
    #[serde(default)]
    since: Option<u64>,
}

/// What a client may send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(in crate::api) enum ClientFrame {
    /// Asks for a snapshot.
    Snapshot,
    /// Whether the page is visible. Sent to the list of sessions when it changes, and every 30
    /// seconds while the page is visible. Push messages are sent only if no page is visible.
    Visibility { visible: bool },
}

#[utoipa::path(get, path = "/sessions/{id}/follow", tag = tag::CONVERSATION, params(("id" = Uuid, Path), FollowQuery),
    responses((status = 101, description = "the conversation, as frames")))]
/// Follows a conversation over a WebSocket: a snapshot, then updates.
pub(in crate::api) async fn session(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    QueryParams(FollowQuery { since }): QueryParams<FollowQuery>,
    upgrade: Upgrade,
) -> ApiResult<Response> {
    let upgrade = with_limits(upgrade)?;
    let (subscription, state) = load(&gateway, id).await?;
    if state == LiveState::Deleted {
        return Err(Problem::not_found("session"));
    }
    let authorization = gateway.authorize_stream(&client);
    Ok(upgrade.on_upgrade(async move |socket| {
        let client = BroadcastClient::new(socket, since.map(Revision), gateway.memory.clone());
        let stream = follow_session(client, subscription);
        while_authorized(authorization, stream).await;
    }))
}

#[utoipa::path(get, path = "/follow", tag = tag::SESSIONS,
    responses((status = 101, description = "all sessions, as frames")))]
/// Follows the list of sessions over a WebSocket.
pub(in crate::api) async fn session_list(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    upgrade: Upgrade,
) -> ApiResult<Response> {
    let upgrade = with_limits(upgrade)?;
    let authorization = gateway.authorize_stream(&client);
    Ok(upgrade.on_upgrade(async move |socket| {
        let presence = gateway.presence.enter(&client.name);
        let client = FrameSender { socket, memory: gateway.memory.clone() };
        while_authorized(authorization, follow_list(client, gateway, presence)).await;
    }))
}

pub(crate) async fn while_authorized(
    authorization: StreamAuthorization,
    stream: impl Future<Output = ()>,
) {
    tokio::select! {
        () = stream => {}
        () = authorization.revoked() => {}
    }
}

fn with_limits(upgrade: Upgrade) -> ApiResult<WebSocketUpgrade> {
    let upgrade = upgrade.map_err(|it| Problem::invalid(it.body_text()))?;
    // A thousand clients that mostly wait should not hold a thousand large buffers.
    Ok(upgrade
        .read_buffer_size(1 << 10)
        .write_buffer_size(0)
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES))
}

enum FollowEvent {
    Received(Option<Message>),
    /// The client lacks something that the broadcast does not send.
    SendDue,
    HandedOver,
    HeartbeatDue,
}

async fn follow_session(client: BroadcastClient, subscription: ConversationSubscription) {
    if subscription.state() == LiveState::Failed {
        // A browser sees nothing of a request that is refused, so it is told in a frame.
        return end(&client, &failed()).await;
    }
    let client = Arc::new(client);
    let broadcast = join_broadcast(&subscription);
    broadcast.add(&client);
    // A new client, and one that asks for a snapshot, gets a frame without waiting for a change.
    if client.send_frame(&subscription).await.is_none() {
        return;
    }
    // Reset when it fires and not with each frame: there may be a thousand clients.
    let mut timer = pin!(sleep_until(client.last_sent() + HEARTBEAT));
    loop {
        let behind = match client.try_hand_back(&subscription) {
            ClientProgress::CaughtUp => false,
            ClientProgress::Behind => true,
            ClientProgress::SessionDeleted => {
                return end(&client, &ConversationFrame::Deleted).await;
            }
            ClientProgress::SessionFailed => return end(&client, &failed()).await,
        };
        let event = tokio::select! {
            biased;
            message = client.receive() => FollowEvent::Received(message),
            () = ready(()), if behind => FollowEvent::SendDue,
            () = client.handed_over() => FollowEvent::HandedOver,
            () = &mut timer => FollowEvent::HeartbeatDue,
        };
        let sent = match event {
            FollowEvent::SendDue => client.send_next(&subscription).await,
            FollowEvent::HandedOver => Some(()),
            FollowEvent::HeartbeatDue => {
                let last_sent = client.last_sent();
                timer.as_mut().reset((last_sent + HEARTBEAT).max(Instant::now() + MIN_TIMER));
                if last_sent.elapsed() < HEARTBEAT {
                    continue;
                }
                let heartbeat = Heartbeat { at: now() };
                client.send(serialise(&ConversationFrame::Heartbeat(heartbeat))).await
            }
            FollowEvent::Received(None | Some(Message::Close(_))) => return,
            FollowEvent::Received(Some(Message::Text(text))) => {
                let Ok(ClientFrame::Snapshot) = serde_json::from_str(&text) else { continue };
                client.forget_revision();
                client.send_frame(&subscription).await
            }
            FollowEvent::Received(Some(
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_),
            )) => continue,
        };
        if sent.is_none() {
            return;
        }
    }
}

fn failed() -> ConversationFrame {
    ConversationFrame::Failed { detail: UNREADABLE.to_owned() }
}

/// Sends the last frame of a connection.
async fn end(client: &BroadcastClient, frame: &ConversationFrame) {
    if client.send(serialise(frame)).await.is_some() {
        client.close().await;
    }
}

/// The broadcast of a session, which is started for its first client.
fn join_broadcast(subscription: &ConversationSubscription) -> Arc<Broadcast> {
    subscription.with_document(|it| {
        it.cache.broadcast.upgrade().unwrap_or_else(|| {
            let broadcast = Broadcast::start(subscription.clone());
            it.cache.broadcast = Arc::downgrade(&broadcast);
            broadcast
        })
    })
}

async fn follow_list(
    mut client: FrameSender<WebSocket>,
    gateway: Gateway,
    presence: PresenceGuard,
) {
    let mut lists = gateway.session_list.watch();
    let Ok(first) = gateway.session_list.load().await else { return };
    let mut known = Arc::new(first);
    let first = serialise(&SessionListFrame::Sessions { sessions: known.to_vec() });
    if client.send(first).await.is_none() {
        return;
    }
    let mut last_sent = Instant::now();
    loop {
        let frames = tokio::select! {
            changed = lists.changed() => match changed {
                Ok(()) => {
                    let list = lists.borrow_and_update().clone();
                    let frames = list_changes(&known, &list);
                    known = list;
                    frames
                }
                Err(_) => return,
            },
            message = client.socket.recv() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(Message::Text(text))) => {
                    if let Ok(ClientFrame::Visibility { visible }) = serde_json::from_str(&text) {
                        presence.report(visible);
                    }
                    continue;
                }
                Some(Ok(_)) => continue,
            },
            () = sleep_until(last_sent + HEARTBEAT) => {
                vec![SessionListFrame::Heartbeat { at: now() }]
            }
        };
        for frame in &frames {
            if client.send(serialise(frame)).await.is_none() {
                return;
            }
            last_sent = Instant::now();
        }
    }
}

/// The frames that turn one list into the other. New entries and the time of the last one do not
/// count as a change.
fn list_changes(before: &[SessionResponse], after: &[SessionResponse]) -> Vec<SessionListFrame> {
    let known: HashMap<Uuid, &SessionResponse> = before.iter().map(|it| (it.id, it)).collect();
    let mut frames = Vec::new();
    for session in after {
        let same = known.get(&session.id).is_some_and(|known| {
            let mut after = session.clone();
            (after.active, after.last) = (known.active, known.last);
            **known == after
        });
        if !same {
            frames.push(SessionListFrame::Session { session: Box::new(session.clone()) });
        }
    }
    let deleted = before.iter().filter(|it| !after.iter().any(|other| other.id == it.id));
    frames.extend(deleted.map(|it| SessionListFrame::SessionDeleted { id: it.id }));
    frames
}

fn serialise(frame: &impl Serialize) -> Utf8Bytes {
    serde_json::to_string(frame).unwrap_or_default().into()
}
