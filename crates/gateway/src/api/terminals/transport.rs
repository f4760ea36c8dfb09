//! How frames of a terminal reach its client, and those of the client the terminal.

use std::convert::Infallible;

use axum::body::BodyDataStream;
use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::frame::{TerminalClientFrame, TerminalFrame};
use super::frame_lines::{FrameLines, frame_line};
use crate::api::frame_sender::FrameSender;
use crate::memory_pool::MemoryPool;

/// The connection of a client of a terminal. Frames that cannot be read are ignored.
pub(super) trait TerminalTransport: Send {
    /// The next frame of the client; `None` if it is gone. A call that is dropped loses nothing.
    fn receive(&mut self) -> impl Future<Output = Option<TerminalClientFrame>> + Send;

    /// Sends a frame to the client; `None` if it is gone.
    fn send(&mut self, frame: &TerminalFrame) -> impl Future<Output = Option<()>> + Send;
}

/// A client with a WebSocket.
pub(super) struct SocketTransport(FrameSender<WebSocket>);

/// A client of another machine, with the bodies of a request and its answer.
pub(super) struct BodyTransport {
    lines: FrameLines<BodyDataStream>,
    frames: mpsc::Sender<Result<Bytes, Infallible>>,
}

impl SocketTransport {
    pub(super) fn new(socket: WebSocket, memory: MemoryPool) -> Self {
        Self(FrameSender { socket, memory })
    }
}

impl TerminalTransport for SocketTransport {
    async fn receive(&mut self) -> Option<TerminalClientFrame> {
        loop {
            let text = match self.0.socket.recv().await?.ok()? {
                Message::Text(text) => text,
                Message::Close(_) => return None,
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => continue,
            };
            if let Ok(frame) = serde_json::from_str(&text) {
                return Some(frame);
            }
        }
    }

    async fn send(&mut self, frame: &TerminalFrame) -> Option<()> {
        self.0.send(serde_json::to_string(frame).ok()?.into()).await
    }
}

impl BodyTransport {
    pub(super) fn new(
        lines: FrameLines<BodyDataStream>,
        frames: mpsc::Sender<Result<Bytes, Infallible>>,
    ) -> Self {
        Self { lines, frames }
    }
}

impl TerminalTransport for BodyTransport {
    async fn receive(&mut self) -> Option<TerminalClientFrame> {
        self.lines.next().await
    }

    async fn send(&mut self, frame: &TerminalFrame) -> Option<()> {
        self.frames.send(Ok(frame_line(frame)?)).await.ok()
    }
}
