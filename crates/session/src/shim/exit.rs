//! How an agent ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It is gone, and the system did not say how.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown way"),
        }
    }
}

/// What `exit.RUN.json` holds, and an `Exited` frame: the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    /// How.
    pub(super) exit: Exit,
    /// How many bytes the agent printed in all.
    pub(super) end: u64,
}
