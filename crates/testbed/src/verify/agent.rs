//! The agents that scenarios run against, including releases of the CLI fetched with npm.
//!
//! The CLI is proprietary: it stays in the user's cache and is never part of Towpath.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use super::calibration::VerifyCalibration;
use super::sandbox::VerifySandbox;
use crate::scenario::{
    AgentVersion, CLAUDE, Scenario, ScenarioCondition, ScenarioProtocol, ScenarioSetup,
};

/// A program that speaks one of the protocols, or both.
#[derive(Clone, Debug)]
pub struct VerifyAgent {
    /// The name in reports, such as `2.1.325`, `play` or `codex@2.6.0`.
    pub label: String,
    /// The name in conditions.
    pub name: String,
    /// The agent's version, or the version it imitates.
    pub version: AgentVersion,
    /// The program and its first arguments, if it speaks stream-json.
    pub command: Option<Vec<OsString>>,
    /// The same for the Agent Client Protocol.
    pub acp_command: Option<Vec<OsString>>,
    /// What the agent needs in every scenario.
    pub setup: ScenarioSetup,
    /// A directory of programs that the agent finds before all others.
    pub programs: Option<PathBuf>,
    /// Whether it is a published release. Only such a program is the same whenever it has the same
    /// version, so that results can be kept.
    pub is_release: bool,
    /// How fast the agent is, if this was measured.
    pub calibration: Option<VerifyCalibration>,
}

/// An agent is not available.
#[derive(Debug, thiserror::Error)]
pub enum VerifyAgentError {
    #[error("could not start the agent `{program}`")]
    Start { program: String, source: io::Error },
    #[error("`{program} --version` printed no version but `{output}`")]
    NoVersion { program: String, output: String },
    #[error("could not fetch Claude Code {version} with npm: {problem}")]
    Fetch { version: AgentVersion, problem: String },
    #[error("could not fetch `{package}` with npm: {problem}")]
    FetchPackage { package: String, problem: String },
    #[error("requested Claude Code {requested}, but `{program}` is {actual}")]
    WrongVersion { requested: AgentVersion, actual: AgentVersion, program: String },
}

/// How long an agent may take to print its version. Node starts slowly on a busy machine.
const VERSION_TIMEOUT: Duration = Duration::from_mins(1);

impl VerifyAgent {
    /// Finds out the version of an agent with `--version`.
    pub async fn detect(
        label: Option<&str>,
        command: Vec<OsString>,
        search_path: &OsStr,
    ) -> Result<Self, VerifyAgentError> {
        let program = display_command(&command);
        let failed = |source| VerifyAgentError::Start { program: program.clone(), source };
        let sandbox = VerifySandbox::new(search_path).map_err(failed)?;
        let mut process = new_command(&command);
        process.arg("--version").env_clear().envs(sandbox.environment());
        process.current_dir(sandbox.project()).stdin(Stdio::null()).kill_on_drop(true);
        let output = match timeout(VERSION_TIMEOUT, process.output()).await {
            Ok(output) => output.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        sandbox.kill_processes().await;
        let stdout = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let version: Option<AgentVersion> =
            stdout.split_whitespace().find_map(|word| word.parse().ok());
        let Some(version) = version else {
            let stderr = String::from_utf8_lossy(&output.stderr);
            let output = if stdout.is_empty() { stderr.trim() } else { &stdout };
            let output = output.lines().next().unwrap_or_default().to_owned();
            return Err(VerifyAgentError::NoVersion { program, output });
        };
        let label = label.map_or_else(|| version.to_string(), str::to_owned);
        Ok(Self {
            label,
            name: CLAUDE.to_owned(),
            version,
            command: Some(command),
            acp_command: None,
            setup: ScenarioSetup::default(),
            programs: None,
            is_release: false,
            calibration: None,
        })
    }

    /// A release of Claude Code whose results are all known, so that its program is not needed.
    pub fn known_release(version: AgentVersion) -> Self {
        Self {
            label: version.to_string(),
            name: CLAUDE.to_owned(),
            version,
            command: Some(Vec::new()),
            acp_command: None,
            setup: ScenarioSetup::default(),
            programs: None,
            is_release: true,
            calibration: None,
        }
    }

    /// Whether a scenario is for this agent.
    pub fn runs(&self, scenario: &Scenario) -> bool {
        self.command_for(scenario.protocol).is_some() && self.meets(&scenario.condition)
    }

    /// Whether a condition applies to this agent.
    pub fn meets(&self, condition: &ScenarioCondition) -> bool {
        condition.applies_to(&self.name, self.version)
    }

    /// The command with which the agent speaks a protocol. `None` if it cannot.
    pub fn command_for(&self, protocol: ScenarioProtocol) -> Option<&[OsString]> {
        match protocol {
            ScenarioProtocol::StreamJson => self.command.as_deref(),
            ScenarioProtocol::Acp => self.acp_command.as_deref(),
        }
    }

    /// The `PATH` of the agent: its own programs, and then those of all agents.
    pub(super) fn search_path(&self, general: &OsStr) -> OsString {
        let all = self.programs.iter().cloned().chain(std::env::split_paths(general));
        std::env::join_paths(all).unwrap_or_else(|_| general.to_owned())
    }
}

/// The command for an agent. A script for Node is run with Node.
pub fn agent_command(program: PathBuf, node: &OsStr) -> Vec<OsString> {
    let is_script = program.extension().is_some_and(|it| it == "js" || it == "mjs" || it == "cjs");
    if is_script { vec![node.to_owned(), program.into()] } else { vec![program.into()] }
}

/// Creates every command of this crate's runner: agents, npm and tar.
#[expect(clippy::disallowed_methods, reason = "the runner starts processes only through this")]
pub(super) fn new_command(command: &[OsString]) -> Command {
    let mut parts = command.iter();
    let mut new = std::process::Command::new(parts.next().map_or(OsStr::new(""), |it| it));
    new.args(parts);
    new.into()
}

fn display_command(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// The command for a release that is already in the cache.
pub fn cached_release(cache: &Path, version: AgentVersion, node: &OsStr) -> Option<Vec<OsString>> {
    let package = cache.join(version.to_string()).join("package");
    let programs = ["claude", "cli.js"].map(|name| package.join(name));
    programs.into_iter().find(|program| program.exists()).map(|it| agent_command(it, node))
}

/// Fetches a release of the CLI with npm: the program for this platform, or the script for Node if
/// there is none.
pub async fn fetch_release(
    cache: &Path,
    version: AgentVersion,
    node: &OsStr,
) -> Result<Vec<OsString>, VerifyAgentError> {
    let failed = |problem: String| VerifyAgentError::Fetch { version, problem };
    std::fs::create_dir_all(cache)
        .map_err(|error| failed(format!("could not create `{}`: {error}", cache.display())))?;
    // The package is unpacked in a temporary directory and then renamed, so that the cache never
    // contains an incomplete version.
    let temporary = tempfile::Builder::new().prefix(".fetching-").tempdir_in(cache);
    let temporary = temporary.map_err(|error| failed(error.to_string()))?;
    let packages = [platform_package(), "@anthropic-ai/claude-code".to_owned()];
    let mut problem = String::new();
    for package in packages {
        match unpack(&package, version, temporary.path()).await {
            Ok(()) => {
                // The rename fails if another process has fetched the same version meanwhile.
                let _ = std::fs::rename(temporary.path(), cache.join(version.to_string()));
                if let Some(command) = cached_release(cache, version, node) {
                    return Ok(command);
                }
                problem = format!("`{package}` contains neither `claude` nor `cli.js`");
            }
            Err(error) => problem = error,
        }
    }
    Err(failed(problem))
}

async fn unpack(package: &str, version: AgentVersion, directory: &Path) -> Result<(), String> {
    let name = format!("{package}@{version}");
    let target = directory.as_os_str();
    let pack = ["npm", "pack", "--silent", "--pack-destination"].map(OsStr::new);
    run_tool(&[&pack[..], &[target, OsStr::new(&name)]].concat()).await?;
    let archive =
        find_archive(directory).ok_or_else(|| format!("npm packed nothing for `{name}`"))?;
    let tar = ["tar", "xzf"].map(OsStr::new);
    run_tool(&[&tar[..], &[archive.as_os_str(), OsStr::new("-C"), target]].concat()).await?;
    std::fs::remove_file(archive).map_err(|error| error.to_string())
}

fn find_archive(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|it| it == "tgz"))
}

/// Runs a command. The error contains the first line of its stderr.
async fn run_tool(command: &[&OsStr]) -> Result<(), String> {
    run_command(command, |_| {}).await
}

/// Likewise, with another `PATH`.
pub(super) async fn run_tool_with_path(command: &[&OsStr], path: &OsStr) -> Result<(), String> {
    run_command(command, |it| {
        it.env("PATH", path);
    })
    .await
}

async fn run_command(command: &[&OsStr], change: impl FnOnce(&mut Command)) -> Result<(), String> {
    let words: Vec<OsString> = command.iter().map(|&word| word.to_owned()).collect();
    let program = words[0].to_string_lossy().into_owned();
    let mut command = new_command(&words);
    change(&mut command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("could not start `{program}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let message = stderr.lines().find(|line| !line.trim().is_empty());
    Err(format!("`{program}` failed: {}", message.unwrap_or("it printed no error message")))
}

fn platform_package() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let musl = if cfg!(target_os = "linux") && is_musl_system() { "-musl" } else { "" };
    format!("@anthropic-ai/claude-code-{system}-{machine}{musl}")
}

/// Whether the system's own programs use musl.
fn is_musl_system() -> bool {
    let files = std::fs::read_dir("/lib").into_iter().flatten().flatten();
    let mut names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.any(|name| name.starts_with("ld-musl-")) && !Path::new("/lib64").exists()
}
