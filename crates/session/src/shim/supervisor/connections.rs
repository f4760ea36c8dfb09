//! Connections to the shim: the listener with its pending connections, and the owner's connection.
//!
//! A connection is pending until its handshake completes. There are few pending connections and
//! they have little time, so that a client that connects and sends nothing keeps no other client
//! out.

use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::agent_process::{PipeRead, read_now};
use crate::shim::live_directory::remove_file;
use crate::shim::protocol::{
    AttachRefusal, Deframer, OwnerFrame, OwnerHello, ShimCommand, ShimEvent, encode_output,
};
use crate::shim::spool::Spool;

/// How many connections may be pending. Others wait in the listener's queue.
const MAX_PENDING: usize = 8;

/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Output is read from the spool in pieces of this length, and only when the piece before is sent.
const PIECE: usize = 64 << 10;

/// While more than this waits to be sent, stderr is left out.
const STDERR_THRESHOLD: usize = 256 << 10;

/// An owner that lets more than this wait does not read the replies to its commands. It is
/// disconnected.
const MAX_UNSENT: usize = 4 << 20;

/// How much is read or written in a row, so that the owner cannot keep the shim from everything
/// else.
const MAX_BURST: usize = 1 << 20;

/// The socket and its pending connections.
#[derive(Debug)]
pub(super) struct ShimListener {
    path: PathBuf,
    listener: UnixListener,
    pending: Vec<PendingConnection>,
}

#[derive(Debug)]
struct PendingConnection {
    socket: UnixStream,
    deframer: Deframer,
    until: Instant,
}

/// A client that has sent its hello.
#[derive(Debug)]
pub(super) struct ShimClient {
    socket: UnixStream,
    /// May already hold commands that came with the hello.
    deframer: Deframer,
    pub(super) hello: OwnerHello,
}

impl ShimListener {
    /// Listens at `path`, in a private directory. The caller holds the shim's lock, so that an
    /// existing socket is a dead shim's.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        remove_file(path)?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { path: path.to_owned(), listener, pending: Vec::new() })
    }

    /// Removes the socket.
    pub(super) fn remove(&self) {
        // If it stays, connections to it are refused, which has the same meaning.
        let _ = remove_file(&self.path);
    }

    /// The listener, while another connection can be accepted.
    pub(super) fn to_poll(&self) -> Option<&UnixListener> {
        (self.pending.len() < MAX_PENDING).then_some(&self.listener)
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = &UnixStream> {
        self.pending.iter().map(|connection| &connection.socket)
    }

    /// When the first handshake times out.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.iter().map(|connection| connection.until).min()
    }

    pub(super) fn accept(&mut self, now: Instant) {
        while self.pending.len() < MAX_PENDING {
            let Ok((socket, _)) = self.listener.accept() else { return };
            if is_same_user(&socket) && socket.set_nonblocking(true).is_ok() {
                let until = now + HANDSHAKE_TIMEOUT;
                self.pending.push(PendingConnection {
                    socket,
                    deframer: Deframer::default(),
                    until,
                });
            }
        }
    }

    /// Reads from the pending connections. Returns the clients that have sent a hello, and drops
    /// those that disconnected, sent something else or took too long.
    pub(super) fn clients(&mut self, now: Instant) -> Vec<ShimClient> {
        let mut clients = Vec::new();
        for mut connection in std::mem::take(&mut self.pending) {
            let mut chunk = [0; 4096];
            match read_now(&mut connection.socket, &mut chunk) {
                PipeRead::Bytes(read) => connection.deframer.feed(&chunk[..read]),
                PipeRead::Empty => {}
                PipeRead::End => continue,
            }
            match connection.deframer.next() {
                Ok(None) if now < connection.until => self.pending.push(connection),
                Ok(Some(frame)) => {
                    if let Some(OwnerFrame::Hello(hello)) = OwnerFrame::decode(frame) {
                        let PendingConnection { socket, deframer, .. } = connection;
                        clients.push(ShimClient { socket, deframer, hello });
                    }
                }
                Ok(None) | Err(_) => {}
            }
        }
        clients
    }
}

impl ShimClient {
    /// Refuses the client and disconnects it.
    pub(super) fn refuse(mut self, refusal: AttachRefusal) {
        let mut frame = Vec::new();
        refusal.encode(&mut frame);
        // A few bytes always fit into an empty socket; if not, the closed socket is the answer.
        let _ = self.socket.write(&frame);
    }
}

/// Whether the client belongs to this user. Where the system does not report it, the mode of the
/// directory protects the socket.
fn is_same_user(socket: &UnixStream) -> bool {
    #[cfg(target_os = "linux")]
    {
        let peer = rustix::net::sockopt::socket_peercred(socket);
        peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        true
    }
}

/// The connection of the owner: its commands, and what is still to be sent to it.
#[derive(Debug)]
pub(super) struct OwnerConnection {
    pub(super) socket: UnixStream,
    pub(super) pid: Option<i32>,
    deframer: Deframer,
    out: Vec<u8>,
    sent: usize,
    /// The offset up to which it was sent the output.
    cursor: u64,
    /// The last write it was told of.
    written: u64,
    knows_exit: bool,
    /// When it last received something.
    pub(super) last_progress: Instant,
}

/// Whether an owner is still connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Connected,
    Gone,
}

impl OwnerConnection {
    pub(super) fn new(client: ShimClient, spool: &Spool, now: Instant) -> Self {
        let ShimClient { socket, deframer, hello } = client;
        Self {
            socket,
            pid: hello.pid,
            deframer,
            out: Vec::new(),
            sent: 0,
            cursor: hello.from.clamp(spool.start(), spool.end()),
            written: 0,
            knows_exit: false,
            last_progress: now,
        }
    }

    /// The bytes that wait to be sent.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Reads its commands. `buffer` is scratch space.
    pub(super) fn read(&mut self, buffer: &mut [u8], commands: &mut Vec<ShimCommand>) -> Presence {
        let mut read = 0;
        loop {
            loop {
                match self.deframer.next() {
                    Ok(Some(frame)) => match OwnerFrame::decode(frame) {
                        Some(OwnerFrame::Command(command)) => commands.push(command),
                        // A second hello, or a frame of a later minor version.
                        Some(OwnerFrame::Hello(_)) | None => {}
                    },
                    Ok(None) => break,
                    Err(_) => return Presence::Gone,
                }
            }
            if read >= MAX_BURST {
                return Presence::Connected;
            }
            match read_now(&mut self.socket, buffer) {
                PipeRead::Bytes(more) => {
                    read += more;
                    self.deframer.feed(&buffer[..more]);
                }
                PipeRead::Empty => return Presence::Connected,
                PipeRead::End => return Presence::Gone,
            }
        }
    }

    /// Queues an event.
    pub(super) fn push(&mut self, event: &ShimEvent) {
        let crowded = self.out.len() - self.sent > STDERR_THRESHOLD;
        if !(crowded && matches!(event, ShimEvent::Stderr(_))) {
            event.encode(&mut self.out);
        }
    }

    /// Whether there is anything to send.
    pub(super) fn has_unsent(&self, spool: &Spool) -> bool {
        self.sent < self.out.len() || self.cursor < spool.end()
    }

    /// Whether it has received everything, including the exit.
    pub(super) fn is_complete(&self) -> bool {
        self.knows_exit && self.sent == self.out.len()
    }

    /// Sends as much as the socket takes. `exit` is the agent's, once the spool is complete.
    pub(super) fn send(
        &mut self,
        spool: &mut Spool,
        buffer: &mut [u8],
        written: u64,
        exit: Option<&ShimEvent>,
        now: Instant,
    ) -> Presence {
        if self.out.len() - self.sent > MAX_UNSENT {
            return Presence::Gone;
        }
        let mut burst = 0;
        loop {
            if self.sent == self.out.len() {
                self.out.clear();
                self.out.shrink_to(2 * PIECE);
                self.sent = 0;
                if burst >= MAX_BURST {
                    return Presence::Connected;
                }
                if written > self.written {
                    self.written = written;
                    self.push(&ShimEvent::Written(written));
                }
                let length = buffer.len().min(PIECE);
                match spool.read(self.cursor, &mut buffer[..length]) {
                    Ok(read) if read > 0 => {
                        encode_output(&mut self.out, self.cursor, &buffer[..read]);
                        self.cursor += read as u64;
                    }
                    Ok(_) if self.cursor < spool.end() => return Presence::Gone,
                    Ok(_) => {
                        if let Some(exit) = exit
                            && !self.knows_exit
                        {
                            self.knows_exit = true;
                            exit.encode(&mut self.out);
                        }
                    }
                    // Without the spool nothing can be sent. The owner may attach again later.
                    Err(_) => return Presence::Gone,
                }
                if self.out.is_empty() {
                    return Presence::Connected;
                }
            }
            match self.socket.write(&self.out[self.sent..]) {
                Ok(more) => {
                    self.sent += more;
                    burst += more;
                    self.last_progress = now;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Presence::Connected;
                }
                Err(_) => return Presence::Gone,
            }
        }
    }
}
