//! An owner's connection to a shim.
//!
//! Commands go out through a task of their own with a short queue, so that sending one never waits
//! for events to be read, and a cancelled send cannot cut a frame. The queue always drains: a shim
//! reads its owner's commands whatever else it does.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::leftovers::is_running;
use super::live_directory::LiveDirectory;
use super::protocol::{
    Deframer, MAX_WRITE, OwnerHello, ProtocolVersion, ShimCommand, ShimEvent, ShimFrame, ShimHello,
};

/// How long a shim may take to answer the handshake. It is busy for a moment when it kills what an
/// agent left.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many commands may wait to be sent. When the queue is full, the sender waits.
const QUEUE: usize = 32;

/// How much is read at once; the shim's output frames are about as long.
const CHUNK: usize = 64 << 10;

/// A connection to a shim as its owner. When it is dropped, commands that are queued still go out.
#[derive(Debug)]
pub struct ShimConnection {
    socket: OwnedReadHalf,
    deframer: Deframer,
    chunk: Vec<u8>,
    sender: ShimCommandSender,
    writer: JoinHandle<()>,
}

/// Sends commands over a [`ShimConnection`]. It can be cloned.
#[derive(Clone, Debug)]
pub struct ShimCommandSender {
    queue: mpsc::Sender<ShimCommand>,
}

/// Why an owner could not attach.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No shim runs there: [read its leftovers](super::read_leftovers) and [reap](super::reap()).
    #[error("no shim is running")]
    NotRunning,
    #[error("another owner is attached to the shim")]
    Owned { pid: Option<i32> },
    #[error(
        "the running agent was started by an incompatible version of Towpath (shim protocol \
         {shim}, this program has {}); stop the agent with that version first",
        ProtocolVersion::CURRENT
    )]
    Incompatible { shim: ProtocolVersion },
    #[error("what listens on the shim's socket is not a shim")]
    NotAShim,
    #[error("the shim's socket belongs to user {uid}")]
    OtherUser { uid: u32 },
    #[error("could not attach to the shim")]
    Io(#[from] io::Error),
}

impl ShimConnection {
    /// Attaches to the shim in a session's live directory, to receive its agent's output from
    /// `from` on.
    pub async fn attach(directory: &Path, from: u64) -> Result<(ShimHello, Self), AttachError> {
        let live = LiveDirectory::new(directory);
        let (path, damage) = match live.shim_record() {
            Ok(record) => (record.ok_or(AttachError::NotRunning)?.socket, None),
            // The shim is usually found without its record.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                (live.default_socket(), Some(error))
            }
            Err(error) => return Err(error.into()),
        };
        let mut socket = match UnixStream::connect(&path).await {
            Ok(socket) => socket,
            Err(error) => {
                // It may also exit before it accepts the connection, which resets it.
                let is_gone = matches!(
                    error.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::ConnectionRefused
                        | io::ErrorKind::ConnectionReset
                );
                return Err(match damage {
                    Some(damage) if is_gone && is_running(directory) => AttachError::Io(damage),
                    _ if is_gone => AttachError::NotRunning,
                    _ => AttachError::Io(error),
                });
            }
        };
        let uid = socket.peer_cred()?.uid();
        if uid != rustix::process::geteuid().as_raw() {
            return Err(AttachError::OtherUser { uid });
        }
        let pid = i32::try_from(std::process::id()).ok();
        let mut hello = Vec::new();
        OwnerHello { version: ProtocolVersion::CURRENT, from, pid }.encode(&mut hello);
        let mut deframer = Deframer::default();
        let handshake = async {
            // A shim that is just exiting closes the socket instead of answering.
            if socket.write_all(&hello).await.is_err() {
                return Err(AttachError::NotRunning);
            }
            read_hello(&mut socket, &mut deframer).await
        };
        let hello = timeout(HANDSHAKE_TIMEOUT, handshake)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let (read, write) = socket.into_split();
        let (queue, commands) = mpsc::channel(QUEUE);
        let connection = Self {
            socket: read,
            deframer,
            chunk: vec![0; CHUNK],
            sender: ShimCommandSender { queue },
            writer: tokio::spawn(write_commands(commands, write)),
        };
        Ok((hello, connection))
    }

    /// The next event; none once the shim is gone. Can be cancelled without a loss.
    pub async fn next(&mut self) -> Option<ShimEvent> {
        loop {
            match self.deframer.next() {
                Ok(Some(frame)) => match ShimFrame::decode(frame) {
                    Some(ShimFrame::Event(event)) => return Some(event),
                    // A later minor version may send frames that this one does not know.
                    Some(ShimFrame::Hello(_) | ShimFrame::Refused(_)) | None => continue,
                },
                Ok(None) => {}
                Err(_) => return None,
            }
            match self.socket.read(&mut self.chunk).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.deframer.feed(&self.chunk[..read]),
            }
        }
    }

    /// Sends a command. If it is cancelled, the command was not sent.
    pub async fn send(&self, command: ShimCommand) -> io::Result<()> {
        self.sender.send(command).await
    }

    /// A sender for code that does not receive events.
    pub fn sender(&self) -> ShimCommandSender {
        self.sender.clone()
    }

    /// Disconnects once all queued commands have gone out. Waits for other senders of this
    /// connection to be dropped.
    pub async fn close(self) {
        let Self { sender, writer, socket: _socket, .. } = self;
        drop(sender);
        // It fails only if it panicked, and then nothing more goes out.
        let _ = writer.await;
    }
}

impl ShimCommandSender {
    /// A sender without a shim.
    #[cfg(test)]
    pub(crate) fn of(queue: mpsc::Sender<ShimCommand>) -> Self {
        Self { queue }
    }

    /// Sends a command. If it is cancelled, the command was not sent.
    pub async fn send(&self, command: ShimCommand) -> io::Result<()> {
        if let ShimCommand::Write { bytes, .. } = &command
            && bytes.len() > MAX_WRITE
        {
            let text = format!("a write of {} bytes is too long", bytes.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        self.queue.send(command).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Writes commands until all senders are dropped or the shim is gone.
async fn write_commands(mut commands: mpsc::Receiver<ShimCommand>, mut socket: OwnedWriteHalf) {
    let mut out = Vec::new();
    while let Some(command) = commands.recv().await {
        out.clear();
        command.encode(&mut out);
        if socket.write_all(&out).await.is_err() {
            return;
        }
        out.shrink_to(CHUNK);
    }
}

async fn read_hello(
    socket: &mut UnixStream,
    deframer: &mut Deframer,
) -> Result<ShimHello, AttachError> {
    let mut chunk = [0; 4096];
    loop {
        match deframer.next() {
            Ok(Some(frame)) => match ShimFrame::decode(frame) {
                Some(ShimFrame::Hello(hello)) if hello.version.is_compatible() => {
                    return Ok(hello);
                }
                Some(ShimFrame::Hello(ShimHello { version: shim, .. })) => {
                    return Err(AttachError::Incompatible { shim });
                }
                Some(ShimFrame::Refused(refusal)) => {
                    return Err(match refusal.version {
                        Some(shim) => AttachError::Incompatible { shim },
                        None => AttachError::Owned { pid: refusal.owner },
                    });
                }
                Some(ShimFrame::Event(_)) => return Err(AttachError::NotAShim),
                None => continue,
            },
            Ok(None) => {}
            Err(_) => return Err(AttachError::NotAShim),
        }
        match socket.read(&mut chunk).await {
            // It exited between our hello and its answer.
            Ok(0) => return Err(AttachError::NotRunning),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(AttachError::NotRunning);
            }
            Err(error) => return Err(error.into()),
            Ok(read) => deframer.feed(&chunk[..read]),
        }
    }
}
