//! A client's connection to the owner of a session in another process.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::owner_socket_path;
use super::protocol::{
    MAX_LINE, NumberedResult, OutgoingOwnerRequest, OwnerGreeting, OwnerRequest, VERSION, to_line,
};

/// How long an owner may take to greet a client.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the owner of a session.
#[derive(Debug)]
pub(crate) struct RemoteConnection {
    reader: BufReader<OwnedReadHalf>,
    /// The line that is being read. It outlives a read that is cancelled.
    line: Vec<u8>,
    /// Lines go out through a task of their own, so that a cancelled send cannot cut a line.
    lines: mpsc::UnboundedSender<Vec<u8>>,
}

impl RemoteConnection {
    /// Connects to the owner of the session with this live directory. Fails if no process listens
    /// there, or one of another version or another user.
    pub(crate) async fn open(live: &Path, runtime: &Path) -> io::Result<Self> {
        let socket = UnixStream::connect(owner_socket_path(live, runtime)).await?;
        if socket.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("the owner's socket belongs to another user"));
        }
        let (read, mut write) = socket.into_split();
        let (lines, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
        let mut this = Self { reader: BufReader::new(read), line: Vec::new(), lines };
        let greeting = timeout(GREETING_TIMEOUT, this.next_line()).await??;
        let greeting: OwnerGreeting = serde_json::from_slice(&greeting)?;
        if greeting.version != VERSION {
            let text = format!(
                "process {} drives this session and is another version of Towpath",
                greeting.pid
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        tokio::spawn(async move {
            while let Some(line) = queue.recv().await {
                if write.write_all(&line).await.is_err() {
                    // The reader notices that the connection is closed.
                    return;
                }
            }
        });
        Ok(this)
    }

    pub(super) fn send(&self, line: Vec<u8>) {
        let _ = self.lines.send(line);
    }

    /// Has the owner delete the session. Returns when it has done so, or has gone.
    pub(crate) async fn delete_session(mut self) {
        let request = OutgoingOwnerRequest { number: 1, request: OwnerRequest::Delete };
        self.send(to_line(&request));
        let _ = self.next_result().await;
    }

    /// The next result. An error means that the connection is lost. Can be cancelled.
    pub(super) async fn next_result(&mut self) -> io::Result<NumberedResult> {
        let line = self.next_line().await?;
        Ok(serde_json::from_slice(&line)?)
    }

    async fn next_line(&mut self) -> io::Result<Vec<u8>> {
        read_line(&mut self.reader, &mut self.line).await?;
        Ok(std::mem::take(&mut self.line))
    }
}

/// Reads up to the end of a line into `line`. The end of the stream is an error. Can be cancelled:
/// what was read so far stays in `line`.
pub(crate) async fn read_line(
    reader: &mut BufReader<OwnedReadHalf>,
    line: &mut Vec<u8>,
) -> io::Result<()> {
    let rest = MAX_LINE.saturating_sub(line.len());
    let mut limited = reader.take(u64::try_from(rest).unwrap_or(u64::MAX));
    limited.read_until(b'\n', line).await?;
    if line.last() == Some(&b'\n') {
        return Ok(());
    }
    let kind = if line.len() >= MAX_LINE {
        io::ErrorKind::InvalidData
    } else {
        io::ErrorKind::UnexpectedEof
    };
    Err(kind.into())
}
