//! Following a session, or all of them, over a WebSocket.
//!
//! A follower is sent one frame at a time. While that is on its way, whatever happens goes into the
//! next one; so a slow follower gets fewer and larger ones, and nobody waits for it.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout};
use utoipa::IntoParams;
use uuid::Uuid;
use view::Revision;

use super::frame::{Frame, LobbyFrame};
use super::items::seat;
use super::problem::Answer;
use super::sent::{Asked, Named};
use super::{Problem, ShownSession, tag};
use crate::access::Pass;
use crate::clock::now;
use crate::gateway::Gateway;
use crate::lobby::List;
use crate::room::{News, Seat};
use crate::visitor::Visitor;

/// How long nothing may be sent before the follower is told that the connection lives.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The alarm that rings for a heartbeat is never set for less.
const MOMENT: Duration = Duration::from_secs(1);

/// A follower that has not taken a frame for so long is let go; it may come back.
const PATIENCE: Duration = Duration::from_mins(1);

/// Followers say next to nothing.
const LARGEST: usize = 4 << 10;

/// A request that should be one for a WebSocket.
type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// What a follower has.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Since {
    /// The revision of the document the follower still has.
    #[serde(default)]
    since: Option<u64>,
}

/// What a follower may say.
#[derive(Debug, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
enum Wish {
    /// Send a snapshot.
    Snapshot,
}

#[utoipa::path(get, path = "/sessions/{id}/follow", tag = tag::CONVERSATION, params(("id" = Uuid, Path), Since),
    responses((status = 101, description = "the conversation, as frames")))]
/// The conversation over a WebSocket: a snapshot, then updates.
pub(super) async fn session(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    Named(id): Named<Uuid>,
    Asked(Since { since }): Asked<Since>,
    upgrade: Upgrade,
) -> Answer<Response> {
    let upgrade = frugal(upgrade)?;
    let seat = seat(&gateway, id).await?;
    let pass = gateway.pass(&visitor);
    Ok(upgrade.on_upgrade(async move |socket| {
        let following = follow(socket, seat, since.map(Revision));
        until(pass, following).await;
    }))
}

#[utoipa::path(get, path = "/follow", tag = tag::SESSIONS,
    responses((status = 101, description = "all sessions, as frames")))]
/// The list of sessions over a WebSocket.
pub(super) async fn all(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    upgrade: Upgrade,
) -> Answer<Response> {
    let upgrade = frugal(upgrade)?;
    let pass = gateway.pass(&visitor);
    Ok(upgrade.on_upgrade(async move |socket| until(pass, follow_all(socket, gateway)).await))
}

/// Lets a follower follow for as long as it may.
async fn until(pass: Pass, following: impl Future<Output = ()>) {
    tokio::select! {
        () = following => {}
        () = pass.lapsed() => {}
    }
}

fn frugal(upgrade: Upgrade) -> Answer<WebSocketUpgrade> {
    let upgrade = upgrade.map_err(|it| Problem::invalid(it.body_text()))?;
    // A thousand followers that mostly wait should not hold a thousand large buffers.
    Ok(upgrade
        .read_buffer_size(1 << 10)
        .write_buffer_size(0)
        .max_message_size(LARGEST)
        .max_frame_size(LARGEST))
}

/// What makes a follower's task go on.
enum Cause {
    News(News),
    Said(Option<Message>),
    Silence,
}

async fn follow(mut socket: WebSocket, mut seat: Seat, mut have: Option<Revision>) {
    // Whoever has just come, or asks for a snapshot, does not wait for news.
    let mut at_once = true;
    let mut quiet_since = Instant::now();
    // Set anew when it rings and not with each frame: a thousand followers have one each.
    let mut alarm = pin!(sleep_until(quiet_since + HEARTBEAT));
    loop {
        let cause = if at_once {
            Cause::News(News::Loading)
        } else {
            tokio::select! {
                biased;
                said = socket.recv() => Cause::Said(said.and_then(Result::ok)),
                news = seat.beyond(have.unwrap_or_default()) => Cause::News(news),
                () = &mut alarm => {
                    alarm.as_mut().reset((quiet_since + HEARTBEAT).max(Instant::now() + MOMENT));
                    if quiet_since.elapsed() < HEARTBEAT {
                        continue;
                    }
                    Cause::Silence
                }
            }
        };
        let frame = match cause {
            Cause::News(News::Gone) => {
                let _ = send(&mut socket, text(&Frame::Gone)).await;
                let _ = timeout(PATIENCE, socket.send(Message::Close(None))).await;
                return;
            }
            Cause::News(News::At(_) | News::Loading) => {
                let (frame, now) = seat.frame(have);
                have = Some(now);
                at_once = false;
                frame
            }
            Cause::Silence => text(&Frame::Heartbeat { at: now() }),
            Cause::Said(None | Some(Message::Close(_))) => return,
            Cause::Said(Some(Message::Text(said))) => {
                if let Ok(Wish::Snapshot) = serde_json::from_str(&said) {
                    (have, at_once) = (None, true);
                }
                continue;
            }
            Cause::Said(Some(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => continue,
        };
        if send(&mut socket, frame).await.is_none() {
            return;
        }
        quiet_since = Instant::now();
    }
}

async fn follow_all(mut socket: WebSocket, gateway: Gateway) {
    let mut lists = gateway.lobby.watch();
    let Ok(mut known) = gateway.lobby.look().await else { return };
    let first = LobbyFrame::Sessions { sessions: known.clone() };
    if send(&mut socket, text(&first)).await.is_none() {
        return;
    }
    let mut quiet_since = Instant::now();
    loop {
        let frames = tokio::select! {
            changed = lists.changed() => match changed {
                Ok(()) => {
                    let list = List::clone(&lists.borrow_and_update());
                    let frames = differences(&known, &list);
                    known.clone_from(&list);
                    frames
                }
                Err(_) => return,
            },
            said = socket.recv() => match said {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
            () = sleep_until(quiet_since + HEARTBEAT) => vec![LobbyFrame::Heartbeat { at: now() }],
        };
        for frame in &frames {
            if send(&mut socket, text(frame)).await.is_none() {
                return;
            }
            quiet_since = Instant::now();
        }
    }
}

/// What brings one list to the other. That time passed and lines came is no difference.
fn differences(before: &[ShownSession], after: &[ShownSession]) -> Vec<LobbyFrame> {
    let known: HashMap<Uuid, &ShownSession> = before.iter().map(|it| (it.id, it)).collect();
    let mut frames = Vec::new();
    for session in after {
        let same = known.get(&session.id).is_some_and(|known| {
            let quiet = ShownSession { active: known.active, last: known.last, ..session.clone() };
            **known == quiet
        });
        if !same {
            frames.push(LobbyFrame::Session { session: Box::new(session.clone()) });
        }
    }
    let gone = before.iter().filter(|it| !after.iter().any(|other| other.id == it.id));
    frames.extend(gone.map(|it| LobbyFrame::SessionGone { id: it.id }));
    frames
}

/// Sends a frame; nothing where the follower is gone or takes too long.
async fn send(socket: &mut WebSocket, frame: Utf8Bytes) -> Option<()> {
    timeout(PATIENCE, socket.send(Message::Text(frame))).await.ok()?.ok()
}

fn text(frame: &impl Serialize) -> Utf8Bytes {
    serde_json::to_string(frame).unwrap_or_default().into()
}
