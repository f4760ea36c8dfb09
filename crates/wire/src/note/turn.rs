//! How turns and agent processes end.

use serde::{Deserialize, Serialize};

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum TurnEnding {
    Completed,
    /// With an error, in the agent's words.
    Failed {
        message: String,
    },
    /// By an interrupt.
    Interrupted,
    /// Because the agent died.
    #[serde(alias = "cut")]
    Aborted {
        cause: ExitCause,
    },
}

/// Why an agent process is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum ExitCause {
    /// It could not be started.
    NotStarted {
        /// The error of the operating system.
        message: String,
    },
    /// It did not answer `initialize` in time.
    NotReady,
    /// It exited by itself.
    Exited {
        code: i32,
        /// The end of its stderr.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stderr: String,
    },
    Killed {
        signal: i32,
    },
    /// Towpath stopped it because it did not react to an interrupt.
    #[serde(alias = "disobeyed")]
    Unresponsive,
    /// Towpath stopped it because it was idle; the next prompt starts another process.
    Parked,
    /// A user stopped it.
    Closed,
    /// Towpath stopped it to start another one with changed options.
    Restarted,
    /// It is gone with its supervisor: the shim was killed or the machine went down.
    Lost,
}
