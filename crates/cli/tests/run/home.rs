//! A separate home for each test: data directory, working directory, built-in agent, no CLI.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// A temporary home directory.
pub(crate) struct TestHome {
    directory: TempDir,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(directory.path().join("work")).expect("a directory");
        Self { directory }
    }

    /// The working directory of the agent.
    pub(crate) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Creates a file in the working directory.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.work().join(name);
        std::fs::write(&path, content).expect("a file");
        path
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = |path: &Path| path.display().to_string();
        vec![
            ("HOME", path(self.directory.path())),
            ("XDG_RUNTIME_DIR", path(&self.directory.path().join("run"))),
            ("TOWPATH_DATA", path(&self.data())),
            ("TOWPATH_CLAUDE", "no-such-agent".to_owned()),
            ("TOWPATH_PLAY_PACE", "1".to_owned()),
            ("IS_SANDBOX", "1".to_owned()),
            ("USER", "ann".to_owned()),
        ]
    }

    pub(crate) fn towpath(&self, arguments: &[&str]) -> Output {
        Output::of(&mut self.command(arguments), "")
    }

    /// Runs a command that must succeed, and parses its output as JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let output = self.towpath(arguments);
        assert_eq!(output.code, 0, "{output}");
        serde_json::from_str(&output.stdout).expect("JSON on stdout")
    }

    /// Polls until a condition holds.
    pub(crate) fn wait_until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !holds(self) {
            assert!(Instant::now() < deadline, "timed out: {what}");
            // Another process gets no notification when the journal changes.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills the processes of sessions that a test has left open, such as one that waits for an
    /// answer. Without its shim an agent exits.
    fn kill_shims(&self) {
        let Ok(sessions) = std::fs::read_dir(self.data().join("live")) else { return };
        for session in sessions.filter_map(Result::ok) {
            let register = std::fs::read_to_string(session.path().join("shim.json"));
            let register: Option<Value> =
                register.ok().and_then(|it| serde_json::from_str(&it).ok());
            let id = register.and_then(|it| i32::try_from(it["shim"].as_i64()?).ok());
            let Some(id) = id.and_then(Pid::from_raw) else { continue };
            // The register of a shim that has exited may name a process of someone else by now.
            let command = std::fs::read(format!("/proc/{}/cmdline", id.as_raw_nonzero()));
            if command.is_ok_and(|it| it.windows(6).any(|part| part == b"__shim")) {
                let _ = kill_process(id, Signal::KILL);
            }
        }
    }

    /// The command to run `towpath` with.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_towpath"));
        command.args(arguments);
        command
    }

    /// The command to run any program with, in this home.
    #[expect(clippy::disallowed_methods, reason = "tests start the program they test")]
    pub(crate) fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.work()).envs(self.environment());
        command
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        self.kill_shims();
    }
}

/// The result of a run.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    pub(crate) fn of(command: &mut Command, stdin: &str) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        // The program may exit before it has read everything.
        drop(child.stdin.take().expect("a pipe").write_all(stdin.as_bytes()));
        let output = child.wait_with_output().expect("an exit status");
        Self {
            code: output.status.code().expect("no signal"),
            stdout: String::from_utf8(output.stdout).expect("UTF-8 on stdout"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8 on stderr"),
        }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, stdout, stderr } = self;
        write!(f, "exit code: {code}\n----- stdout -----\n{stdout}\n----- stderr -----\n{stderr}")
    }
}
