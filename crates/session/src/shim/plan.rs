//! What a shim is told to do, and how it answers.
//!
//! Plan and answer pass between two processes of the same binary, over the shim's stdin and stdout
//! and never over its command line: the environment may hold secrets, and anybody can read a command
//! line.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The variable in the agent's environment that holds its [`Marker`].
pub(super) const MARKER_VARIABLE: &str = "TOWPATH_AGENT";

/// The longest path a socket can have everywhere: macOS has 104 bytes with the closing zero.
const LONGEST_SOCKET_PATH: usize = 103;

/// Which process of a session: 1, 2, ….
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Run(pub u64);

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A random word in the environment of an agent, inherited by all it starts, by which these are found
/// again when nothing else shows whose they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Marker(String);

impl Marker {
    /// A marker no other agent has.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// How it stands in an environment.
    pub(super) fn assignment(&self) -> String {
        format!("{MARKER_VARIABLE}={}", self.0)
    }
}

/// What a shim is told to do.
#[derive(Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The agent's program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment, but for the marker.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory.
    #[serde(with = "path")]
    pub working_directory: PathBuf,
    /// The session's live directory, absolute; made if need be, for the owner alone.
    #[serde(with = "path")]
    pub directory: PathBuf,
    /// Which process of the session it is.
    pub run: Run,
    /// Where to listen; see [`socket_path`]. Its directory is made if need be, for the owner alone.
    #[serde(with = "path")]
    pub socket: PathBuf,
    /// By which the agent's descendants are found again.
    pub marker: Marker,
    /// How long an agent without an owner lives when no turn runs.
    pub grace: Duration,
    /// How long an agent without an owner lives when it waits for a person.
    pub ask_grace: Duration,
    /// How long an agent without an owner lives at all.
    pub unowned_limit: Duration,
}

/// Arguments and environment may hold secrets, so only the rest is shown.
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("program", &self.program)
            .field("working_directory", &self.working_directory)
            .field("directory", &self.directory)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

/// Where a shim should listen: in the session's live directory where the path is short enough for a
/// socket, otherwise under `name` in `runtime`, a directory of the owner's alone with a short path.
pub fn socket_path(directory: &Path, runtime: &Path, name: &str) -> PathBuf {
    let inside = directory.join("shim.sock");
    if inside.as_os_str().len() <= LONGEST_SOCKET_PATH {
        inside
    } else {
        runtime.join(format!("{name}.sock"))
    }
}

/// What a shim says on its stdout, once, before it closes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The agent runs and the socket listens.
    Ready {
        /// The shim.
        shim: i32,
        /// The agent.
        agent: i32,
    },
    /// Nothing was started.
    Refused(Refusal),
}

/// Why a shim did not start its agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The agent's program could not be started.
    #[error("could not start the agent `{program}`: {reason}")]
    Agent {
        /// The program.
        program: String,
        /// What the system said.
        reason: String,
        /// Its number of the error, where it has one.
        os_error: Option<i32>,
    },
    /// The agent's working directory cannot be entered.
    #[error("could not enter the working directory `{directory}`: {reason}")]
    WorkingDirectory {
        /// The directory.
        directory: String,
        /// What the system said.
        reason: String,
    },
    /// Another shim lives in the live directory, or this run has been there before.
    #[error("`{directory}` already has a shim, or had this run")]
    Occupied {
        /// The directory.
        directory: String,
    },
    /// The files or the socket could not be made.
    #[error("could not make `{path}`: {reason}")]
    Place {
        /// What was to be made.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// The plan could not be read.
    #[error("could not read the plan: {0}")]
    Plan(String),
}

/// Paths as the system has them: `serde` would refuse those that are not UTF-8.
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
    fn a_socket_lies_in_the_live_directory_unless_its_path_would_be_too_long() {
        let short = Path::new("/home/a/live/s1");
        assert_eq!(socket_path(short, Path::new("/run/x"), "s1"), short.join("shim.sock"));
        let long = PathBuf::from(format!("/home/{}", "d".repeat(100)));
        assert_eq!(socket_path(&long, Path::new("/run/x"), "s1"), Path::new("/run/x/s1.sock"));
    }
}
