//! Runs `towpath watch` with the test at both ends of the stream, and writes the lines of an agent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything takes, even on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

pub(crate) const SESSION: &str = "0b0e9a7c-3c3c-4a5b-9c58-0123456789ab";

/// A project directory.
pub(crate) struct Project {
    directory: tempfile::TempDir,
    /// How many watchers were started.
    watchers: AtomicU32,
}

/// A running `towpath watch`.
pub(crate) struct WatchProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: JoinHandle<Vec<u8>>,
    stderr: Receiver<String>,
    log: Vec<String>,
    written: Vec<u8>,
    report: PathBuf,
}

/// The result of a run.
pub(crate) struct WatchResult {
    pub(crate) code: i32,
    pub(crate) log: Vec<String>,
    pub(crate) report: serde_json::Value,
}

impl Project {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("project")).expect("a directory");
        Self { directory, watchers: AtomicU32::new(0) }
    }

    /// A path next to the project directory.
    pub(crate) fn sibling(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().expect("a directory").join(name)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.sibling("project")
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, content).expect("a file");
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=User", "-c", "user.email=user@example.org"])
            .args(arguments)
            .current_dir(self.root())
            .output()
            .expect("git");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// A repository with a commit and two changes of the user: `mine.txt` and, staged, `staged.txt`.
    pub(crate) fn with_repository() -> Self {
        let project = Self::new();
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.git(&["config", "user.name", "User"]);
        project.git(&["config", "user.email", "user@example.org"]);
        project.write("a.txt", "one\n");
        project.write("mine.txt", "mine\n");
        project.git(&["add", "--all"]);
        project.git(&["commit", "--quiet", "--message", "first"]);
        project.write("mine.txt", "mine, not done yet\n");
        project.write("staged.txt", "staged\n");
        project.git(&["add", "staged.txt"]);
        project
    }

    /// The status of the repository with only the user's changes.
    pub(crate) const USER_STATUS: &str = " M mine.txt\nA  staged.txt\n";

    pub(crate) fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    pub(crate) fn watch(&self, arguments: &[&str]) -> WatchProcess {
        self.watch_with(arguments, &[])
    }

    pub(crate) fn watch_with(
        &self,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> WatchProcess {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.arg("watch").args(arguments).envs(environment.iter().copied());
        self.start(command)
    }

    /// The same, started by a shell that runs `commands` first.
    pub(crate) fn watch_after(&self, commands: &str, arguments: &[&str]) -> WatchProcess {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{commands}; exec \"$0\" watch \"$@\""));
        command.arg(env!("CARGO_BIN_EXE_towpath")).args(arguments);
        self.start(command)
    }

    fn start(&self, mut command: Command) -> WatchProcess {
        let number = self.watchers.fetch_add(1, Ordering::Relaxed);
        let report = self.sibling(&format!("report-{number}.json"));
        command.arg("--report").arg(&report).arg("--verbose").current_dir(self.root());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut stdout = child.stdout.take().expect("a pipe");
        let stdout = std::thread::spawn(move || {
            let mut out = Vec::new();
            stdout.read_to_end(&mut out).expect("readable output");
            out
        });
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let (sender, stderr_lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines() {
                let line = line.expect("UTF-8 on stderr");
                if sender.send(line.trim_start_matches("watch: ").to_owned()).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut running = WatchProcess {
            child,
            stdin,
            stdout,
            stderr: stderr_lines,
            log: Vec::new(),
            written: Vec::new(),
            report,
        };
        running.line(&format!(
            r#"{{"type":"system","subtype":"init","cwd":"{}","session_id":"{SESSION}","permissionMode":"acceptEdits"}}"#,
            self.root().display()
        ));
        running
    }
}

impl WatchProcess {
    /// Writes bytes to stdin.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
        self.stdin.as_mut().expect("an open stdin").write_all(bytes).expect("stdin is read");
    }

    /// Writes lines and ends the stream, for a process that may be killed meanwhile.
    pub(crate) fn try_lines(&mut self, lines: &[&str]) {
        let mut stdin = self.stdin.take().expect("an open stdin");
        for line in lines {
            let _ = stdin.write_all(format!("{line}\n").as_bytes());
        }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.bytes(format!("{line}\n").as_bytes());
    }

    /// Writes a call of a tool that changes a file.
    pub(crate) fn call(&mut self, id: &str, tool: &str, path: &str) {
        let input = serde_json::json!({ "file_path": path, "content": "…" });
        self.line(&format!(
            r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"{tool}","input":{input}}}]}}}}"#
        ));
    }

    pub(crate) fn result(&mut self, id: &str, is_error: bool) {
        self.line(&format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","content":"so","is_error":{is_error}}}]}}}}"#
        ));
    }

    /// Writes a call and its successful result.
    pub(crate) fn change(&mut self, id: &str, tool: &str, path: &str) {
        self.call(id, tool, path);
        self.result(id, false);
    }

    pub(crate) fn text(&mut self, role: &str, text: &str) {
        let text = serde_json::json!(text);
        self.line(&format!(
            r#"{{"type":"{role}","message":{{"role":"{role}","content":[{{"type":"text","text":{text}}}]}}}}"#
        ));
    }

    pub(crate) fn end_turn(&mut self) {
        self.line(r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#);
    }

    /// Waits until a log line contains this text.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |line| line.contains(text));
    }

    /// Waits for a log line with exactly this text.
    #[track_caller]
    pub(crate) fn wait_for_line(&mut self, text: &str) {
        self.wait_until(text, |line| line == text);
    }

    #[track_caller]
    fn wait_until(&mut self, what: &str, is_it: impl Fn(&str) -> bool) {
        loop {
            let line = self.stderr.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|_| panic!("`{what}` not in {:#?}", self.log));
            self.log.push(line.clone());
            if is_it(&line) {
                return;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("the process runs");
    }

    /// Writes some megabytes of lines per second until stdin is closed.
    pub(crate) fn write_until_closed(&mut self) {
        let mut stdin = self.stdin.take().expect("an open stdin");
        for n in 0.. {
            let line = format!("{{\"n\":{n},\"filler\":\"{}\"}}\n", "x".repeat(8000));
            self.written.extend_from_slice(line.as_bytes());
            if stdin.write_all(line.as_bytes()).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// Waits for the exit while the stream continues, and checks that the output is a prefix of the input.
    #[track_caller]
    pub(crate) fn wait_for_exit(mut self) -> WatchResult {
        let status = self.child.wait().expect("an exit status");
        let out = self.stdout.join().expect("the reader ends");
        let (written, received) = (self.written.len(), out.len());
        // Bytes may be missing only if the test wrote until stdin was closed.
        let complete = written == received || self.stdin.is_none();
        assert!(complete && self.written.starts_with(&out), "{written} bytes in, {received} out");
        self.log.extend(self.stderr.iter());
        let report = std::fs::read(&self.report).expect("a report");
        let report = serde_json::from_slice(&report).unwrap_or_default();
        WatchResult { code: status.code().expect("no signal"), log: self.log, report }
    }

    /// Waits for the end of a process that is killed.
    pub(crate) fn wait_for_kill(mut self) -> std::process::ExitStatus {
        let status = self.child.wait().expect("an exit status");
        let _ = self.stdout.join();
        status
    }

    /// Ends the stream and checks that the output equals the input.
    #[track_caller]
    pub(crate) fn finish(mut self) -> WatchResult {
        drop(self.stdin.take());
        let out = self.stdout.join().expect("the reader ends");
        assert!(out == self.written, "{} bytes in, {} out", self.written.len(), out.len());
        let status = self.child.wait().expect("an exit status");
        self.log.extend(self.stderr.iter());
        let report = std::fs::read(&self.report).expect("a report");
        let report = serde_json::from_slice(&report).expect("JSON in the report");
        WatchResult { code: status.code().expect("no signal"), log: self.log, report }
    }
}

impl WatchResult {
    /// A line with path, tool, status, target and reason for each change.
    pub(crate) fn changes(&self) -> Vec<String> {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
        let changes = self.report["changes"].as_array().expect("changes");
        let line = |it: &serde_json::Value| {
            ["path", "tool", "status", "target", "reason"].map(|key| text(&it[key])).join(" | ")
        };
        changes.iter().map(line).collect()
    }
}

/// All files below a directory with their content, except those of git.
pub(crate) fn tree(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if entry.file_name() == ".git" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below").display().to_string();
                let content = std::fs::read(&path).expect("a file");
                files.push((name, String::from_utf8_lossy(&content).into_owned()));
            }
        }
    }
    files.sort();
    files
}
