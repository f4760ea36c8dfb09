//! `towpath watch` with both ends in the test's hands, and the lines an agent would write.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything takes, even on a machine with better things to do.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const SESSION: &str = "0b0e9a7c-3c3c-4a5b-9c58-0123456789ab";

/// A project with an agent in it, and `towpath watch` behind the agent.
pub(crate) struct Project {
    directory: tempfile::TempDir,
}

/// A run that goes on.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: JoinHandle<Vec<u8>>,
    remarks: Receiver<String>,
    heard: Vec<String>,
    written: Vec<u8>,
    report: PathBuf,
}

/// What a run came to.
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) remarks: Vec<String>,
    pub(crate) report: serde_json::Value,
}

impl Project {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("project")).expect("a directory");
        Self { directory }
    }

    /// A path beside the project.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().expect("a directory").join(name)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.beside("project")
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

    /// A repository with a commit, of which `mine.txt` is changed and `staged.txt` staged.
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

    /// What the user has changed and staged, if nobody touched it.
    pub(crate) const USERS: &str = " M mine.txt\nA  staged.txt\n";

    pub(crate) fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    pub(crate) fn watch(&self, arguments: &[&str]) -> Running {
        self.watch_with(arguments, &[])
    }

    pub(crate) fn watch_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.arg("watch").args(arguments).envs(environment.iter().copied());
        self.start(command)
    }

    /// The same, started by a shell that has something to say first.
    pub(crate) fn watch_after(&self, words: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{words}; exec \"$0\" watch \"$@\""));
        command.arg(env!("CARGO_BIN_EXE_towpath")).args(arguments);
        self.start(command)
    }

    fn start(&self, mut command: Command) -> Running {
        let report = self.beside("report.json");
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
        let (sender, remarks) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines() {
                let line = line.expect("UTF-8 on stderr");
                if sender.send(line.trim_start_matches("watch: ").to_owned()).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut running = Running {
            child,
            stdin,
            stdout,
            remarks,
            heard: Vec::new(),
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

impl Running {
    /// Writes what an agent would.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
        self.stdin.as_mut().expect("an open stdin").write_all(bytes).expect("somebody reads");
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.bytes(format!("{line}\n").as_bytes());
    }

    /// Calls a tool that changes a file.
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

    /// A call and its success.
    pub(crate) fn change(&mut self, id: &str, tool: &str, path: &str) {
        self.call(id, tool, path);
        self.result(id, false);
    }

    pub(crate) fn says(&mut self, who: &str, text: &str) {
        let text = serde_json::json!(text);
        self.line(&format!(
            r#"{{"type":"{who}","message":{{"role":"{who}","content":[{{"type":"text","text":{text}}}]}}}}"#
        ));
    }

    pub(crate) fn end_turn(&mut self) {
        self.line(r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#);
    }

    /// Waits until something is said.
    #[track_caller]
    pub(crate) fn hear(&mut self, words: &str) {
        loop {
            let line = self.remarks.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|_| panic!("`{words}` not in {:#?}", self.heard));
            self.heard.push(line.clone());
            if line.contains(words) {
                return;
            }
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("it runs");
    }

    /// Writes lines, some megabytes a second, until nobody takes them any more.
    pub(crate) fn pump(&mut self) {
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

    /// Waits for it to end while the stream goes on, and sees to it that the stream came out as it
    /// went in, as far as it got.
    #[track_caller]
    pub(crate) fn end(mut self) -> Finished {
        let status = self.child.wait().expect("an exit status");
        let out = self.stdout.join().expect("the reader ends");
        let (written, came) = (self.written.len(), out.len());
        // Only of a stream that had to be cut may something be missing.
        let whole = written == came || self.stdin.is_none();
        assert!(whole && self.written.starts_with(&out), "{written} bytes in, {came} out");
        self.heard.extend(self.remarks.iter());
        let report = std::fs::read(&self.report).expect("a report");
        let report = serde_json::from_slice(&report).unwrap_or_default();
        Finished { code: status.code().expect("no signal"), remarks: self.heard, report }
    }

    /// Ends the stream, and sees to it that it came out as it went in.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Finished {
        drop(self.stdin.take());
        let out = self.stdout.join().expect("the reader ends");
        assert!(out == self.written, "{} bytes in, {} out", self.written.len(), out.len());
        let status = self.child.wait().expect("an exit status");
        self.heard.extend(self.remarks.iter());
        let report = std::fs::read(&self.report).expect("a report");
        let report = serde_json::from_slice(&report).expect("JSON in the report");
        Finished { code: status.code().expect("no signal"), remarks: self.heard, report }
    }
}

impl Finished {
    /// Path, tool, status, target and reason of each change, in a line.
    pub(crate) fn changes(&self) -> Vec<String> {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
        let changes = self.report["changes"].as_array().expect("changes");
        let line = |it: &serde_json::Value| {
            ["path", "tool", "status", "target", "reason"].map(|key| text(&it[key])).join(" | ")
        };
        changes.iter().map(line).collect()
    }
}

/// All files below a directory with their content, but those of git.
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
