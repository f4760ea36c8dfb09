//! Following a terminal over a WebSocket, and typing in it.
//!
//! A client is sent one frame at a time, made from the newest screen, so a slow one gets fewer frames
//! and delays no other viewer. What it types waits while the shell does not take it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{Message, WebSocket};
use axum::response::Response;
use terminal::{ScreenSize, Viewer, ViewerEvent};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::frame::{ScreenLineResponse, TerminalClientFrame, TerminalFrame};
use super::{ShellExitResponse, TerminalResponse, list_terminals, terminals};
use crate::access::AuthenticatedClient;
use crate::api::conversation::{Upgrade, while_authorized};
use crate::api::extract::PathParams;
use crate::api::frame_sender::FrameSender;
use crate::api::sessions::find_record;
use crate::api::tag;
use crate::gateway::{Gateway, now};
use crate::problem::{ApiResult, Problem};

/// How long nothing may be sent before the client gets a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long after the list of terminals the next one may be sent: a program may change its title all
/// the time.
const LIST_INTERVAL: Duration = Duration::from_millis(200);

/// The largest message of a client. What is pasted comes in pieces.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// How many lines of the scrollback are sent at a time.
const MAX_SCROLLBACK_LINES: u16 = 500;

#[utoipa::path(get, path = "/sessions/{id}/terminals/{terminal}/follow", tag = tag::TERMINALS,
    params(("id" = Uuid, Path), ("terminal" = u32, Path)),
    responses((status = 101, description = "the screen, as frames")))]
/// Follows a terminal over a WebSocket and types in it.
pub(in crate::api) async fn terminal(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams((id, number)): PathParams<(Uuid, u32)>,
    upgrade: Upgrade,
) -> ApiResult<Response> {
    let upgrade = upgrade.map_err(|it| Problem::invalid(it.body_text()))?;
    find_record(&gateway, id).await?;
    let terminal = terminals(&gateway)?.find(id, number);
    let terminal = terminal.ok_or_else(|| Problem::not_found("terminal"))?;
    let upgrade = upgrade
        .read_buffer_size(4 << 10)
        .write_buffer_size(0)
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES);
    let authorization = gateway.authorize_stream(&client);
    Ok(upgrade.on_upgrade(async move |socket| {
        let client = TerminalClient {
            sender: FrameSender { socket, memory: gateway.memory.clone() },
            viewer: terminal.view(),
            size: None,
            ended: false,
            listed: Vec::new(),
            waiting: None,
            last_sent: Instant::now(),
        };
        let follow = async {
            client.follow(&gateway, id).await;
        };
        while_authorized(authorization, follow).await;
    }))
}

/// A client that follows a terminal.
struct TerminalClient {
    sender: FrameSender<WebSocket>,
    viewer: Viewer,
    size: Option<ScreenSize>,
    /// It was told that the shell ended.
    ended: bool,
    /// The terminals of the session that it knows of.
    listed: Vec<TerminalResponse>,
    waiting: Option<WaitingInput>,
    last_sent: Instant,
}

/// What was typed and the shell has not taken yet.
type WaitingInput = (mpsc::Sender<Vec<u8>>, Vec<u8>);

impl TerminalClient {
    /// Returns when the client or the terminal is gone.
    async fn follow(mut self, gateway: &Gateway, session: Uuid) -> Option<()> {
        let mut list = terminals(gateway).ok()?.changes();
        self.send_list(gateway, session).await?;
        let mut last_list = Instant::now();
        let mut list_changed = false;
        loop {
            let sent = tokio::select! {
                message = self.sender.socket.recv(), if self.waiting.is_none() => {
                    let text = match message?.ok()? {
                        Message::Text(text) => text,
                        Message::Close(_) => return None,
                        Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => continue,
                    };
                    let Ok(frame) = serde_json::from_str(&text) else { continue };
                    self.received(frame).await
                }
                () = deliver(self.waiting.as_ref()), if self.waiting.is_some() => {
                    self.waiting = None;
                    continue;
                }
                event = self.viewer.next(), if !self.ended => match event {
                    ViewerEvent::Updated(update) => self.send(&update.into()).await,
                    ViewerEvent::Ended(exit) => {
                        self.ended = true;
                        let exit = Some(ShellExitResponse::from(exit));
                        self.send(&TerminalFrame::Closed { exit }).await
                    }
                },
                changed = list.changed(), if !list_changed => {
                    changed.ok()?;
                    list_changed = true;
                    continue;
                }
                () = sleep_until(last_list + LIST_INTERVAL), if list_changed => {
                    (list_changed, last_list) = (false, Instant::now());
                    self.send_list(gateway, session).await
                }
                () = sleep_until(self.last_sent + HEARTBEAT) => {
                    self.send(&TerminalFrame::Heartbeat { at: now() }).await
                }
            };
            sent?;
        }
    }

    /// Handles a frame; `None` if the client is gone.
    async fn received(&mut self, frame: TerminalClientFrame) -> Option<()> {
        match frame {
            TerminalClientFrame::Input { text } => {
                self.waiting = self.viewer.input().map(|shell| (shell, text.into_bytes()));
            }
            TerminalClientFrame::Resize { columns, rows } => {
                let size = ScreenSize::new(columns, rows);
                self.size = Some(size);
                self.viewer.resize(size);
            }
            TerminalClientFrame::Scrollback { from, count } => {
                let count = count.min(MAX_SCROLLBACK_LINES).into();
                let (head, (first, rows)) = self
                    .viewer
                    .terminal()
                    .with_screen(|it| (it.head(), it.scrollback(from, count)));
                let lines = ScreenLineResponse::from_first(first, &rows);
                let (oldest, top) = (head.oldest, head.top);
                self.send(&TerminalFrame::Scrollback { oldest, top, lines }).await?;
            }
        }
        Some(())
    }

    /// Tells the client about other terminals. If its own was started again it sees the new one; if
    /// it was closed, this is the end.
    async fn send_list(&mut self, gateway: &Gateway, session: Uuid) -> Option<()> {
        let all = terminals(gateway).ok()?;
        let current = all.find(session, self.viewer.terminal().number());
        let Some(current) = current else {
            self.send(&TerminalFrame::Closed { exit: None }).await?;
            return None;
        };
        let listed = list_terminals(all, session);
        if listed != self.listed {
            self.listed.clone_from(&listed);
            self.send(&TerminalFrame::Terminals { terminals: listed }).await?;
        }
        if !Arc::ptr_eq(&current, self.viewer.terminal()) {
            self.viewer = current.view();
            self.ended = false;
            if let Some(size) = self.size {
                self.viewer.resize(size);
            }
        }
        Some(())
    }

    async fn send(&mut self, frame: &TerminalFrame) -> Option<()> {
        let text = serde_json::to_string(frame).ok()?;
        self.sender.send(text.into()).await?;
        self.last_sent = Instant::now();
        Some(())
    }
}

/// Waits until the shell takes the input, or has ended.
async fn deliver(waiting: Option<&WaitingInput>) {
    if let Some((shell, bytes)) = waiting
        && let Ok(permit) = shell.reserve().await
    {
        permit.send(bytes.clone());
    }
}
