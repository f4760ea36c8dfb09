//! A terminal of another machine: the frames of a client go there, and those of the terminal come back.

use axum::extract::ws::WebSocket;
use bytes::Bytes;
use session::ProjectBody;
use tokio::sync::mpsc;

use super::frame::TerminalFrame;
use super::frame_lines::{FrameLines, frame_line};
use super::transport::{SocketTransport, TerminalTransport as _};
use crate::memory_pool::MemoryPool;

/// The longest frame: a page of the scrollback in which each cell has a style of its own.
const MAX_FRAME_BYTES: usize = 24 << 20;

/// Copies frames both ways until the client or the terminal is gone. Each is read before it is passed on, so another
/// machine decides what is on the screen of a terminal, and nothing else of the page.
pub(crate) async fn relay_terminal(
    socket: WebSocket,
    memory: MemoryPool,
    answer: ProjectBody,
    request: mpsc::Sender<Bytes>,
) {
    let mut frames = FrameLines::new(answer, MAX_FRAME_BYTES).with_memory(memory.clone());
    let mut client = SocketTransport::new(socket, memory);
    let mut is_taken = true;
    // What was typed and the other machine has not taken yet.
    let mut waiting = None;
    loop {
        tokio::select! {
            frame = client.receive(), if waiting.is_none() => {
                let Some(frame) = frame else { return };
                waiting = frame_line(&frame);
            }
            permit = request.reserve(), if waiting.is_some() && is_taken => match permit {
                Ok(permit) => {
                    if let Some(line) = waiting.take() {
                        permit.send(line);
                    }
                }
                // What the terminal shows at its end may still come.
                Err(_) => is_taken = false,
            },
            frame = frames.next::<TerminalFrame>() => {
                let Some(frame) = frame else { return };
                if client.send(&frame).await.is_none() {
                    return;
                }
            }
        }
    }
}
