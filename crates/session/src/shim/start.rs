//! Starting a shim.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::plan::{Answer, Plan, Refusal};

/// The one argument by which this program becomes a shim.
pub const MODE: &str = "__shim";

/// How long a shim may take to start its agent: a loaded machine, not a slow agent, for it answers as
/// soon as the agent's process is there.
const DEADLINE: Duration = Duration::from_secs(20);

/// A shim that runs, and its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The shim's process.
    pub shim: i32,
    /// The agent's process.
    pub agent: i32,
}

/// Why no agent runs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The shim says why.
    #[error(transparent)]
    Refused(Refusal),
    /// The shim itself could not be started, or ended without a word.
    #[error("could not start the shim `{program}`")]
    Shim {
        /// The program it should have been.
        program: String,
        /// What went wrong.
        source: io::Error,
    },
    /// The shim did not answer in time, and was killed.
    #[error("the shim did not answer within {} s", DEADLINE.as_secs())]
    Silent,
}

/// Starts a shim, and with it an agent. `program` is Towpath itself.
///
/// The shim outlives this process, and also a caller that gives up waiting: nobody attached, it ends as
/// the plan says. An agent that ends at once takes its shim with it, so that attaching finds
/// [nobody](super::AttachError::Nobody); what it said is in its [remains](super::remains()).
pub async fn start(program: &Path, plan: &Plan) -> Result<Started, StartError> {
    let shim = |source| StartError::Shim { program: program.display().to_string(), source };
    let plan = serde_json::to_vec(plan).map_err(|error| shim(error.into()))?;
    let mut child = Command::new(program)
        .arg(MODE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(shim)?;
    let Ok(answer) = timeout(DEADLINE, exchange(&mut child, &plan)).await else {
        // Terminated, not killed: one that has come as far as an agent ends it first.
        if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, Signal::TERM);
        }
        return Err(StartError::Silent);
    };
    match answer.map_err(shim)? {
        Answer::Ready { shim, agent } => Ok(Started { shim, agent }),
        Answer::Refused(refusal) => Err(StartError::Refused(refusal)),
    }
}

async fn exchange(child: &mut Child, plan: &[u8]) -> io::Result<Answer> {
    if let Some(mut stdin) = child.stdin.take() {
        // A program that is no shim may close it early; its silence says more than the error.
        let _ = stdin.write_all(plan).await;
    }
    let mut answer = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut answer).await?;
    }
    if answer.is_empty() {
        return Err(io::Error::other("it ended without an answer"));
    }
    Ok(serde_json::from_slice(&answer)?)
}
