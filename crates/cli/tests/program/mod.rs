//! Runs the built binary and captures its output.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

use std::fmt;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A `towpath` command to run.
pub(crate) struct Program {
    command: Command,
    stdin: String,
    pretty: bool,
    close_stdout_early: bool,
}

/// The result of a run.
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    pub(crate) fn new(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::piped());
        Self { command, stdin: String::new(), pretty: false, close_stdout_early: false }
    }

    pub(crate) fn inspect(arguments: &[&str]) -> Self {
        Self::new(&[&["inspect"], arguments].concat())
    }

    pub(crate) fn current_dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(self, text: &str) -> Self {
        Self { stdin: text.to_owned(), ..self }
    }

    /// Formats the JSON on stdout over several lines, for readable snapshots.
    pub(crate) fn pretty(self) -> Self {
        Self { pretty: true, ..self }
    }

    /// Reads a little of stdout and closes it, as `head` does.
    pub(crate) fn close_stdout_early(self) -> Self {
        Self { close_stdout_early: true, ..self }
    }

    pub(crate) fn run(mut self) -> Output {
        let mut child = self.command.spawn().expect("the binary starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let text = self.stdin;
        // The program may exit before it has read everything.
        let writer = std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
        let mut stderr = child.stderr.take().expect("a pipe");
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).expect("UTF-8 on stderr");
            text
        });
        let mut stdout = child.stdout.take().expect("a pipe");
        let mut out = Vec::new();
        if self.close_stdout_early {
            stdout.read_exact(&mut [0; 10]).expect("some output");
            drop(stdout);
        } else {
            stdout.read_to_end(&mut out).expect("readable output");
        }
        let status = child.wait().expect("an exit status");
        writer.join().expect("the writer ends");
        let mut stdout = String::from_utf8(out).expect("UTF-8 on stdout");
        if self.pretty {
            let json: serde_json::Value = serde_json::from_str(&stdout).expect("JSON on stdout");
            stdout = serde_json::to_string_pretty(&json).expect("JSON");
        }
        let stderr = errors.join().expect("the reader ends");
        Output { code: status.code().expect("no signal"), stdout, stderr }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "exit code: {}\n----- stdout -----\n{}", self.code, self.stdout)?;
        write!(f, "----- stderr -----\n{}", self.stderr)
    }
}

/// The path of one of the project's captures.
pub(crate) fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures").join(name)
}
