//! Starting a shim: its configuration, its report, and Towpath's side of the exchange.
//!
//! Configuration and report go over the shim's stdin and stdout, never over its command line: the
//! environment may hold secrets, and every user of the machine can read command lines.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::config::UnattendedLimits;

/// The only argument with which this program runs as a shim.
pub const MODE: &str = "__shim";

/// The variable in the agent's environment that holds its [`ProcessMarker`].
pub(crate) const MARKER_VARIABLE: &str = "TOWPATH_AGENT";

/// The longest path that a socket can have everywhere: macOS has 104 bytes, including the final
/// zero.
const MAX_SOCKET_PATH: usize = 103;

/// Variables without which a program may not start: where its libraries are.
pub(crate) const LOADER_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// How long a shim may take to start its agent. It reports as soon as the process exists, so this
/// allows for a loaded machine and not for a slow agent.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// What a shim is told to run.
#[derive(Clone, Serialize, Deserialize)]
pub struct ShimConfig {
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// The whole environment of the agent, except for the marker.
    pub environment: Vec<(OsString, OsString)>,
    #[serde(with = "path")]
    pub working_directory: PathBuf,
    /// The session's live directory: absolute, created with mode 0700 if it does not exist.
    #[serde(with = "path")]
    pub directory: PathBuf,
    pub run: RunId,
    /// Where the shim listens, see [`socket_path`]. The directory is created like the live
    /// directory.
    #[serde(with = "path")]
    pub socket: PathBuf,
    pub marker: ProcessMarker,
    /// How long the agent runs without an owner.
    #[serde(flatten)]
    pub unattended: UnattendedLimits,
}

/// Leaves out the arguments and the environment, which may hold secrets.
impl fmt::Debug for ShimConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShimConfig")
            .field("program", &self.program)
            .field("working_directory", &self.working_directory)
            .field("directory", &self.directory)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

/// The number of an agent process in its session: 1, 2, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A random word in the environment of an agent. Everything the agent starts inherits it, so that
/// these processes can be found when nothing else shows whose they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessMarker(String);

impl ProcessMarker {
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// A number that follows from the marker and is as random.
    pub(super) fn number(&self) -> u64 {
        let uuid = uuid::Uuid::try_parse(&self.0).unwrap_or_default();
        // The two highest bits are the same in all of them.
        uuid.as_u64_pair().1 & (u64::MAX >> 2)
    }

    /// The marker as an environment has it: `NAME=value`.
    pub(super) fn assignment(&self) -> String {
        format!("{MARKER_VARIABLE}={}", self.0)
    }
}

/// The path on which a shim should listen: in the session's live directory if that is short enough
/// for a socket, else under `name` in `runtime`, a private directory with a short path.
pub fn socket_path(directory: &Path, runtime: &Path, name: &str) -> PathBuf {
    let inside = directory.join("shim.sock");
    if fits_socket(&inside) { inside } else { runtime.join(format!("{name}.sock")) }
}

/// Whether a path is short enough for a socket.
pub(crate) fn fits_socket(path: &Path) -> bool {
    path.as_os_str().len() <= MAX_SOCKET_PATH
}

/// What a shim writes to its stdout, once, before it closes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LaunchReport {
    /// The agent runs and the socket listens.
    Ready(ShimPids),
    /// Nothing was started.
    Refused(LaunchError),
}

/// The process ids of a shim and its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimPids {
    pub shim: i32,
    pub agent: i32,
}

/// Why a shim did not start its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum LaunchError {
    #[error("could not start the agent `{program}`: {reason}")]
    Agent { program: String, reason: String, os_error: Option<i32> },
    #[error("could not enter the working directory `{directory}`: {reason}")]
    WorkingDirectory { directory: String, reason: String },
    /// Another shim runs in the live directory, or this run was there before.
    #[error("`{directory}` already has a shim, or had this run")]
    Occupied { directory: String },
    #[serde(rename = "place")]
    #[error("could not create `{path}`: {reason}")]
    Files { path: String, reason: String },
    #[serde(rename = "plan")]
    #[error("could not read the configuration of the shim: {0}")]
    Config(String),
}

/// How an agent process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
    /// The system did not report it.
    Unknown,
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown status"),
        }
    }
}

/// The end of a run: the content of `exit.RUN.json` and of an `Exited` frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunEnd {
    pub(super) exit: ExitStatus,
    /// How many bytes the agent printed in all.
    pub(super) end: u64,
}

/// Why no agent was started.
#[derive(Debug, thiserror::Error)]
pub enum ShimStartError {
    /// The shim reported why.
    #[error(transparent)]
    Refused(LaunchError),
    /// The shim itself could not be started, or exited without a report.
    #[error("could not start the shim `{program}`")]
    Shim { program: String, source: io::Error },
    /// The shim did not report in time and was terminated.
    #[error("the shim did not answer within {} s", START_TIMEOUT.as_secs())]
    Timeout,
}

/// Starts a shim, and with it an agent. `program` is Towpath itself.
///
/// The shim outlives this process, and also a caller that gives up waiting: without an owner it
/// stops as its configuration says. An agent that exits at once takes its shim with it, so that
/// attaching fails with [`NotRunning`](super::AttachError::NotRunning); its output is in the
/// [leftovers](super::read_leftovers).
pub async fn start_shim(program: &Path, config: &ShimConfig) -> Result<ShimPids, ShimStartError> {
    let failed = |source| ShimStartError::Shim { program: program.display().to_string(), source };
    // The shim itself needs no variables. It would show Towpath's own secrets to the agent, which can
    // read the environment of all processes of its user.
    let needed =
        config.environment.iter().filter(|(name, _)| LOADER_VARIABLES.iter().any(|it| name == it));
    let needed: Vec<_> = needed.cloned().collect();
    let config = serde_json::to_vec(config).map_err(|error| failed(error.into()))?;
    let mut child = Command::new(program)
        .arg(MODE)
        .env_clear()
        .envs(needed)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let Ok(report) = timeout(START_TIMEOUT, exchange(&mut child, &config)).await else {
        // Terminated and not killed: a shim that already has an agent stops it first.
        if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, Signal::TERM);
        }
        return Err(ShimStartError::Timeout);
    };
    match report.map_err(failed)? {
        LaunchReport::Ready(pids) => Ok(pids),
        LaunchReport::Refused(error) => Err(ShimStartError::Refused(error)),
    }
}

async fn exchange(child: &mut Child, config: &[u8]) -> io::Result<LaunchReport> {
    if let Some(mut stdin) = child.stdin.take() {
        // A program that is not a shim may close it early; the missing report shows that.
        let _ = stdin.write_all(config).await;
    }
    let mut report = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut report).await?;
    }
    if report.is_empty() {
        return Err(io::Error::other("it exited without a report"));
    }
    Ok(serde_json::from_slice(&report)?)
}

/// Paths as the system has them: `serde` refuses those that are not UTF-8.
pub(super) mod path {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(in crate::shim) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(to)
    }

    pub(in crate::shim) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::socket_path;

    #[test]
    fn a_socket_is_in_the_live_directory_unless_its_path_would_be_too_long() {
        let short = Path::new("/home/a/live/s1");
        assert_eq!(socket_path(short, Path::new("/run/x"), "s1"), short.join("shim.sock"));
        let long = PathBuf::from(format!("/home/{}", "d".repeat(100)));
        assert_eq!(socket_path(&long, Path::new("/run/x"), "s1"), Path::new("/run/x/s1.sock"));
    }
}
