//! The agents scenarios run against.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::sandbox::Sandbox;
use crate::scenario::Version;

/// A program that speaks the protocol.
#[derive(Clone, Debug)]
pub struct Agent {
    /// What people call it: `2.1.325`, `play`.
    pub label: String,
    /// The version it is, or plays.
    pub version: Version,
    /// What starts it: the program and what stands before its arguments.
    pub command: Vec<OsString>,
}

/// An agent could not be had.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It does not start.
    #[error("could not start the agent `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It does not tell its version.
    #[error("`{program} --version` tells no version but `{said}`")]
    NoVersion {
        /// The program.
        program: String,
        /// What it printed.
        said: String,
    },
    /// It could not be fetched.
    #[error("could not fetch Claude Code {version} with npm: {problem}")]
    Fetch {
        /// What was asked for.
        version: Version,
        /// What npm said.
        problem: String,
    },
    /// What was fetched is something else.
    #[error("asked for Claude Code {asked}, but `{program}` is {is}")]
    OtherVersion {
        /// What was asked for.
        asked: Version,
        /// What it says it is.
        is: Version,
        /// The program.
        program: String,
    },
}

/// The longest an agent may take to tell its version. Node starts slowly on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);

impl Agent {
    /// Asks a program what version it is.
    pub async fn ask(
        label: Option<&str>,
        command: Vec<OsString>,
        search_path: &OsStr,
    ) -> Result<Self, AgentError> {
        let program = shown(&command);
        let failed = |source| AgentError::Start { program: program.clone(), source };
        let sandbox = Sandbox::new(search_path).map_err(failed)?;
        let mut asked = start(&command);
        asked.arg("--version").env_clear().envs(sandbox.environment());
        asked.current_dir(sandbox.project()).stdin(Stdio::null()).kill_on_drop(true);
        let output = match timeout(PATIENCE, asked.output()).await {
            Ok(output) => output.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        sandbox.clear().await;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let version = said.split_whitespace().find_map(|word| word.parse::<Version>().ok());
        let Some(version) = version else {
            let errors = String::from_utf8_lossy(&output.stderr);
            let said = if said.is_empty() { errors.trim() } else { &said };
            let said = said.lines().next().unwrap_or_default().to_owned();
            return Err(AgentError::NoVersion { program, said });
        };
        let label = label.map_or_else(|| version.to_string(), str::to_owned);
        Ok(Self { label, version, command })
    }
}

/// The command that starts an agent, on Node where it is a script for it.
pub fn command_for(program: PathBuf, node: &OsStr) -> Vec<OsString> {
    let script = program.extension().is_some_and(|it| it == "js" || it == "mjs" || it == "cjs");
    if script { vec![node.to_owned(), program.into()] } else { vec![program.into()] }
}

/// The one place that starts agents.
#[expect(clippy::disallowed_methods, reason = "agents are started here and nowhere else")]
pub(super) fn start(command: &[OsString]) -> Command {
    let mut parts = command.iter();
    let mut start = std::process::Command::new(parts.next().map_or(OsStr::new(""), |it| it));
    start.args(parts);
    start.into()
}

fn shown(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
