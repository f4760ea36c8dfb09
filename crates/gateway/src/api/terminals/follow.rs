//! Following a terminal, and typing in it.
//!
//! A client is sent one frame at a time, made from the newest screen, so a slow one gets fewer frames
//! and delays no other viewer. What it types waits while the shell does not take it.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use terminal::{ScreenSize, Terminal, Viewer, ViewerEvent};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::frame::{ScreenLineResponse, TerminalClientFrame, TerminalFrame};
use super::frame_lines::FrameLines;
use super::transport::{BodyTransport, SocketTransport, TerminalTransport};
use super::{ShellExitResponse, TerminalResponse, list_terminals, terminals};
use crate::access::AuthenticatedClient;
use crate::api::conversation::{Upgrade, while_authorized};
use crate::api::extract::PathParams;
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
    let upgrade = with_terminal_limits(upgrade)?;
    let terminal = find(&gateway, id, number).await?;
    let authorization = gateway.authorize_stream(&client);
    Ok(upgrade.on_upgrade(async move |socket| {
        let transport = SocketTransport::new(socket, gateway.memory.clone());
        let client = TerminalClient::new(transport, &terminal);
        let follow = async {
            client.follow(&gateway, id).await;
        };
        while_authorized(authorization, follow).await;
    }))
}

/// Follows a terminal for a client of another machine. Frames are lines: those of the client are the request, those
/// of the terminal the answer.
pub(super) async fn relayed_terminal(
    State(gateway): State<Gateway>,
    PathParams((id, number)): PathParams<(Uuid, u32)>,
    request: Request,
) -> ApiResult<Response> {
    let terminal = find(&gateway, id, number).await?;
    // While the other machine does not take a frame, no other one is made.
    let (frames, sent) = mpsc::channel(1);
    let lines = FrameLines::new(request.into_body().into_data_stream(), 2 * MAX_MESSAGE_BYTES);
    let client = TerminalClient::new(BodyTransport::new(lines, frames), &terminal);
    // Ends with the request and with the answer.
    tokio::spawn(async move {
        client.follow(&gateway, id).await;
    });
    let answer = stream::unfold(sent, async |mut sent| Some((sent.recv().await?, sent)));
    Ok(Body::from_stream(answer).into_response())
}

async fn find(gateway: &Gateway, id: Uuid, number: u32) -> ApiResult<Arc<Terminal>> {
    find_record(gateway, id).await?;
    terminals(gateway)?.find(id, number).ok_or_else(|| Problem::not_found("terminal"))
}

/// A WebSocket for a terminal.
pub(crate) fn with_terminal_limits(upgrade: Upgrade) -> ApiResult<WebSocketUpgrade> {
    let upgrade = upgrade.map_err(|it| Problem::invalid(it.body_text()))?;
    Ok(upgrade
        .read_buffer_size(4 << 10)
        .write_buffer_size(0)
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES))
}

/// A client that follows a terminal.
struct TerminalClient<T> {
    transport: T,
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

impl<T: TerminalTransport> TerminalClient<T> {
    fn new(transport: T, terminal: &Arc<Terminal>) -> Self {
        Self {
            transport,
            viewer: terminal.view(),
            size: None,
            ended: false,
            listed: Vec::new(),
            waiting: None,
            last_sent: Instant::now(),
        }
    }

    /// Returns when the client or the terminal is gone.
    async fn follow(mut self, gateway: &Gateway, session: Uuid) -> Option<()> {
        let mut list = terminals(gateway).ok()?.changes();
        self.send_list(gateway, session).await?;
        let mut last_list = Instant::now();
        let mut list_changed = false;
        loop {
            let sent = tokio::select! {
                frame = self.transport.receive(), if self.waiting.is_none() => {
                    let frame = frame?;
                    // The list may be on its way, and an ended shell would take what is typed now.
                    self.view_restarted(gateway, session);
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

    /// Handles a frame of the client; `None` if that is gone.
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

    /// Tells the client about other terminals. If its own was closed, this is the end.
    async fn send_list(&mut self, gateway: &Gateway, session: Uuid) -> Option<()> {
        let all = terminals(gateway).ok()?;
        if all.find(session, self.viewer.terminal().number()).is_none() {
            self.send(&TerminalFrame::Closed { exit: None }).await?;
            return None;
        }
        let listed = list_terminals(all, session);
        if listed != self.listed {
            self.listed.clone_from(&listed);
            self.send(&TerminalFrame::Terminals { terminals: listed }).await?;
        }
        self.view_restarted(gateway, session);
        Some(())
    }

    /// Looks at the terminal that was started in the place of an ended one.
    fn view_restarted(&mut self, gateway: &Gateway, session: Uuid) {
        let number = self.viewer.terminal().number();
        let current = terminals(gateway).ok().and_then(|it| it.find(session, number));
        let Some(current) = current else { return };
        if Arc::ptr_eq(&current, self.viewer.terminal()) {
            return;
        }
        self.viewer = current.view();
        self.ended = false;
        if let Some(size) = self.size {
            self.viewer.resize(size);
        }
    }

    async fn send(&mut self, frame: &TerminalFrame) -> Option<()> {
        self.transport.send(frame).await?;
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
