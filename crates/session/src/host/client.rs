//! A client's connection to the session host.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::time::Duration;

use journal::SessionId;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::host_socket_path;
use super::protocol::{
    AgentLaunch, HostFailure, HostGreeting, HostKind, HostOutput, HostStatus, NumberedHostResult,
    OutgoingHostRequest, SessionHostRequest, VERSION,
};
use crate::remote::{read_line, to_line};

/// How long a host may take to greet a client, or to answer a question about itself.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a host may take to open a session. It waits itself for a process that has the session.
const OPEN_TIMEOUT: Duration = Duration::from_secs(25);

/// A connection to the session host of a data directory.
#[derive(Debug)]
pub struct HostClient {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    greeting: HostGreeting,
    last_number: u64,
}

/// Why a session host did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("there is no session `{0}`")]
    NoSuchSession(SessionId),
    #[error("the process that runs the session's agent does not answer")]
    NotResponding,
    /// The host is exiting, or was killed.
    #[error("the session host is exiting")]
    Leaving,
    #[error("the session host (process {pid}) is another version of Towpath")]
    OtherVersion { pid: u32 },
    #[error("the session host failed: {0}")]
    Failed(String),
    #[error("could not start a session host: {0}")]
    NotStarted(String),
    #[error("could not talk to the session host")]
    Io(#[from] io::Error),
}

impl HostClient {
    /// Connects to the session host. None if no process listens. Fails if it belongs to another user
    /// or does not answer.
    pub async fn connect(data: &Path, runtime: &Path) -> io::Result<Option<Self>> {
        let socket = match UnixStream::connect(host_socket_path(data, runtime)).await {
            Ok(socket) => socket,
            Err(error) => {
                use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound};
                return match error.kind() {
                    NotFound | ConnectionRefused | ConnectionReset => Ok(None),
                    _ => Err(error),
                };
            }
        };
        if socket.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("the session host's socket belongs to another user"));
        }
        let (read, writer) = socket.into_split();
        let mut reader = BufReader::new(read);
        let mut line = Vec::new();
        let read = timeout(ANSWER_TIMEOUT, read_line(&mut reader, &mut line)).await?;
        if read.is_err() {
            // It exited before it accepted the connection.
            return Ok(None);
        }
        let greeting = serde_json::from_slice(&line)?;
        Ok(Some(Self { reader, writer, greeting, last_number: 0 }))
    }

    pub fn kind(&self) -> HostKind {
        self.greeting.kind
    }

    pub fn pid(&self) -> u32 {
        self.greeting.pid
    }

    /// Whether the host is of this version and can open sessions for this program.
    pub fn is_compatible(&self) -> bool {
        self.greeting.version == VERSION
    }

    /// Has the host open a session. A background host starts its agents like the client would.
    pub async fn open(&mut self, session: SessionId, agent: &AgentLaunch) -> Result<(), HostError> {
        if !self.is_compatible() {
            return Err(HostError::OtherVersion { pid: self.pid() });
        }
        let request = SessionHostRequest::Open { session: session.0, agent: Cow::Borrowed(agent) };
        self.ask(request, OPEN_TIMEOUT).await.map(drop)
    }

    /// What the host is doing.
    pub async fn ping(&mut self) -> Result<HostStatus, HostError> {
        match self.ask(SessionHostRequest::Ping, ANSWER_TIMEOUT).await? {
            HostOutput::Status(status) => Ok(status),
            HostOutput::Opened | HostOutput::Leaving => {
                Err(HostError::Failed("it answered another question".to_owned()))
            }
        }
    }

    /// Asks a background host to release its sessions and to exit. Returns when it begins to.
    pub async fn leave(&mut self) -> Result<(), HostError> {
        self.ask(SessionHostRequest::Leave, ANSWER_TIMEOUT).await.map(drop)
    }

    async fn ask(
        &mut self,
        request: SessionHostRequest<'_>,
        limit: Duration,
    ) -> Result<HostOutput, HostError> {
        self.last_number += 1;
        let number = self.last_number;
        let line = to_line(&OutgoingHostRequest { number, request });
        let answer = async {
            self.writer.write_all(&line).await?;
            let mut line = Vec::new();
            read_line(&mut self.reader, &mut line).await?;
            io::Result::Ok(line)
        };
        let answer = match timeout(limit, answer).await {
            Ok(Ok(answer)) => answer,
            // The connection was closed.
            Ok(Err(_)) => return Err(HostError::Leaving),
            Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        };
        let answer: NumberedHostResult =
            serde_json::from_slice(&answer).map_err(io::Error::from)?;
        answer.result.map_err(|failure| match failure {
            HostFailure::NoSuchSession(id) => HostError::NoSuchSession(SessionId(id)),
            HostFailure::NotResponding => HostError::NotResponding,
            HostFailure::Leaving => HostError::Leaving,
            HostFailure::Failed(reason) => HostError::Failed(reason),
        })
    }
}
