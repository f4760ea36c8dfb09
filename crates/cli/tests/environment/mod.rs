//! What a server needs in a test: directories, a scripted model, an agent, and the built binary.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testbed::api::{ApiOptions, ApiScript, ApiServer};
use testbed::scenario::Scenario;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

/// Longer than anything takes on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// The directories of a server, and its model.
pub(crate) struct TestEnvironment {
    root: TempDir,
    /// The scripted Messages API.
    pub(crate) api: ApiServer,
}

/// A server that has said that it is ready.
pub(crate) struct ServerProcess {
    pub(crate) child: Child,
    /// What it printed.
    pub(crate) ready: Value,
    /// Kept open: a server ends when its output cannot be read.
    pub(crate) _stdout: BufReader<ChildStdout>,
}

impl TestEnvironment {
    /// An environment whose model gives these replies, in the grammar of scenarios, and whose agent is
    /// the player. `$cwd` is the project.
    pub(crate) async fn new(replies: &str) -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        for name in ["data", "project", "home", "tmp"] {
            std::fs::create_dir(root.path().join(name)).expect("a directory");
        }
        let project = root.path().join("project").display().to_string();
        let replies = replies.replace("$cwd", &project);
        let text = format!("# Replies\n\n{replies}\n> user \"a scenario needs a step\"\n");
        let scenario = Scenario::parse("replies", &text).unwrap_or_else(|error| panic!("{error}"));
        let script = ApiScript::from_scenario(&scenario).expect("no recording among the replies");
        let api = ApiServer::start(script, ApiOptions::default()).await.expect("a port");
        let environment = Self { root, api };
        let player = format!("#!/bin/sh\nexec '{}' play \"$@\"\n", env!("CARGO_BIN_EXE_towpath"));
        environment.set_agent(&player);
        environment
    }

    /// Replaces the agent by a script.
    pub(crate) fn set_agent(&self, script: &str) {
        let path = self.path("agent");
        std::fs::write(&path, script).expect("a script");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("an executable script");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn project(&self) -> String {
        self.path("project").display().to_string()
    }

    /// The built binary in this environment.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.args(arguments);
        command.env("TOWPATH_DATA", self.path("data")).env("HOME", self.path("home"));
        command.env("XDG_RUNTIME_DIR", self.path("tmp")).env("TMPDIR", self.path("tmp"));
        command.env("ANTHROPIC_BASE_URL", &self.api.url).env("ANTHROPIC_API_KEY", "sk-dummy");
        command.env_remove("XDG_CONFIG_HOME").current_dir(self.path("project"));
        command
    }

    /// Starts a server and waits until it is ready. Its stderr is added to the log.
    pub(crate) async fn spawn(&self, mut command: Command) -> ServerProcess {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log"));
        command.stdout(Stdio::piped()).stderr(log.expect("a log")).stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        let read = timeout(TIMEOUT, stdout.read_line(&mut line)).await;
        assert!(matches!(read, Ok(Ok(1..))), "no ready line: {}", self.log());
        let ready = serde_json::from_str(&line).expect("a line of JSON");
        ServerProcess { child, ready, _stdout: stdout }
    }

    /// The stderr of every server that was started here.
    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        if let Ok(mut file) = std::fs::File::open(self.path("log")) {
            file.read_to_string(&mut text).expect("a log");
        }
        text
    }
}

/// Agents outlive their server, but not the environment. The first command may only find a server that
/// is being killed; the second finds the agents it left.
impl Drop for TestEnvironment {
    fn drop(&mut self) {
        for _ in 0..2 {
            let _ = self.program(&["serve", "--stop"]).output();
        }
    }
}
