//! Running git: which environment it gets, how long it may take, how much it may print.
//!
//! A repository can name programs in its configuration: a file system monitor, hooks, filters, programs
//! that compare or convert files, a pager. A command that only reads runs with all of them off.
//! Filters of the user's own configuration stay, because without them large files of `git-lfs`
//! would look changed.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::GitError;

/// How long a command that reads may take.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a command that changes something may take. Hooks run tests.
const WRITE_TIMEOUT: Duration = Duration::from_mins(5);

/// How long git may take to remove its locks after it was asked to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the output may stay open after git has exited: a hook may leave a program running.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

const MAX_OUTPUT: usize = 4 << 20;
const MAX_ERROR_BYTES: usize = 64 << 10;

/// How much of git's words is shown.
const MAX_WORDS: usize = 8 << 10;

/// Secrets of Towpath that this process may have in its environment. No program inherits them: hooks and
/// filters of a repository may come from anyone.
pub const SECRET_VARIABLES: &[&str] = &["TOWPATH_TELEGRAM_TOKEN"];

/// Variables that would make git use another repository, or start a program.
const REMOVED: [&str; 11] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_EXTERNAL_DIFF",
    "GIT_LITERAL_PATHSPECS",
    "GIT_TRACE",
];

/// Settings of every command that reads.
const READ_SETTINGS: [&str; 9] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "log.showSignature=false",
    "diff.external=",
    "diff.ignoreSubmodules=dirty",
    "status.submoduleSummary=false",
    "submodule.recurse=false",
    "color.ui=false",
];

/// An environment variable that is always empty.
const EMPTY_VARIABLE: &str = "TOWPATH_EMPTY";

/// A git command for one directory.
#[derive(Debug)]
pub(super) struct GitCommand {
    command: Command,
    what: String,
    stdin: Vec<u8>,
    max_output: usize,
    limit: Duration,
}

/// What a git command printed.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Whether it printed more than was wanted, and was stopped.
    pub(super) cut: bool,
}

impl GitCommand {
    /// A command that changes something: hooks and all configuration apply.
    pub(super) fn write(directory: &Path, what: &str) -> Self {
        let mut it = Self::new(directory, what, WRITE_TIMEOUT);
        it.command.arg("--no-pager").arg(what);
        it
    }

    /// A command that only reads.
    pub(super) async fn read(directory: &Path, what: &str) -> Result<Self, GitError> {
        let filters = foreign_filters(directory).await?;
        let mut it = Self::reading(directory, what);
        for filter in filters {
            for (key, value) in [
                ("clean", EMPTY_VARIABLE),
                ("smudge", EMPTY_VARIABLE),
                ("process", EMPTY_VARIABLE),
                ("required", EMPTY_VARIABLE),
            ] {
                // Unlike `-c`, this is unambiguous if the name contains `=`.
                let mut setting = OsString::from("--config-env=filter.");
                setting.push(OsStr::from_bytes(&filter));
                setting.push(format!(".{key}={value}"));
                it.command.arg(setting);
            }
        }
        it.command.arg(what);
        Ok(it)
    }

    /// A command that reads, and for which filters do not matter.
    pub(super) fn query(directory: &Path, what: &str) -> Self {
        let mut it = Self::reading(directory, what);
        it.command.arg(what);
        it
    }

    fn reading(directory: &Path, what: &str) -> Self {
        let mut it = Self::new(directory, what, READ_TIMEOUT);
        it.command.args(["--no-pager", "--no-optional-locks", "--literal-pathspecs"]);
        for setting in READ_SETTINGS {
            it.command.args(["-c", setting]);
        }
        // Objects that a partial clone lacks would be fetched with programs that the repository names.
        it.command.envs([
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", "none"),
            (EMPTY_VARIABLE, ""),
            ("LC_ALL", "C"),
        ]);
        it
    }

    fn new(directory: &Path, what: &str, limit: Duration) -> Self {
        let mut command = Command::new("git");
        for name in REMOVED.iter().chain(SECRET_VARIABLES) {
            command.env_remove(name);
        }
        command.envs([
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_EDITOR", "false"),
            ("GIT_SEQUENCE_EDITOR", "false"),
            ("GIT_MERGE_AUTOEDIT", "no"),
            ("GIT_PAGER", "cat"),
        ]);
        command.current_dir(directory).process_group(0).kill_on_drop(true);
        let what = what.to_owned();
        Self { command, what, stdin: Vec::new(), max_output: MAX_OUTPUT, limit }
    }

    pub(super) fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Takes paths literally and not as patterns. Hooks would inherit that, so it is not for commits.
    pub(super) fn literal_paths(mut self) -> Self {
        self.command.env("GIT_LITERAL_PATHSPECS", "1");
        self
    }

    /// Sets a variable, also one that is removed otherwise.
    pub(super) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Lets it take as long as a command that changes something.
    pub(super) fn patient(mut self) -> Self {
        self.limit = WRITE_TIMEOUT;
        self
    }

    pub(super) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = bytes;
        self
    }

    pub(super) fn max_output(mut self, bytes: usize) -> Self {
        self.max_output = bytes;
        self
    }

    pub(super) async fn run(mut self) -> Result<GitOutput, GitError> {
        let stdin = if self.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => GitError::Missing,
            _ => GitError::Run { what: self.what.clone(), source },
        })?;
        let result = timeout(self.limit, exchange(&mut child, &self.stdin, self.max_output)).await;
        match result {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(source)) => {
                stop(&mut child).await;
                Err(GitError::Run { what: self.what, source })
            }
            Err(_) => {
                stop(&mut child).await;
                Err(GitError::Timeout { what: self.what, limit: self.limit })
            }
        }
    }

    /// The output of a command that must succeed and be shown whole.
    pub(super) async fn output(self) -> Result<Vec<u8>, GitError> {
        let (what, limit) = (self.what.clone(), self.max_output);
        let output = self.run().await?;
        if output.cut {
            return Err(GitError::TooLong { what, limit });
        }
        output.checked()
    }
}

impl GitOutput {
    /// The output if git succeeded, otherwise its words.
    pub(super) fn checked(self) -> Result<Vec<u8>, GitError> {
        if self.status.success() || self.cut {
            return Ok(self.stdout);
        }
        Err(GitError::Refused(self.words()))
    }

    /// What git and its hooks said, the last part of it if it is long.
    pub(super) fn words(&self) -> String {
        let both = [&self.stderr, &self.stdout].map(|it| String::from_utf8_lossy(it));
        let words: Vec<&str> =
            both.iter().map(|it| it.trim()).filter(|it| !it.is_empty()).collect();
        let words = words.join("\n");
        if words.is_empty() {
            return format!("git failed ({}) and said nothing", self.status);
        }
        match words.len().checked_sub(MAX_WORDS) {
            Some(over) => format!("…{}", &words[words.ceil_char_boundary(over)..]),
            None => words,
        }
    }
}

/// Writes the input and reads the output until git exits, or prints more than is wanted.
async fn exchange(child: &mut Child, input: &[u8], max_output: usize) -> io::Result<GitOutput> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // It may exit without reading its input.
            let _ = stdin.write_all(input).await;
        }
    };
    let cut = {
        let reading = async {
            let (cut, _, ()) = tokio::join!(
                read_up_to(out, &mut stdout, max_output, false),
                read_up_to(err, &mut stderr, MAX_ERROR_BYTES, true),
                write
            );
            cut
        };
        tokio::pin!(reading);
        tokio::select! {
            cut = &mut reading => cut,
            status = child.wait() => {
                status?;
                timeout(DRAIN_TIMEOUT, &mut reading).await.unwrap_or(false)
            }
        }
    };
    if cut {
        stop(child).await;
    }
    let status = child.wait().await?;
    Ok(GitOutput { status, stdout, stderr, cut })
}

/// Reads at most `limit` bytes. Returns whether there are more, which are read too if `drain` is set.
async fn read_up_to(
    pipe: Option<impl AsyncRead + Unpin>,
    bytes: &mut Vec<u8>,
    limit: usize,
    drain: bool,
) -> bool {
    let Some(mut pipe) = pipe else { return false };
    let mut chunk = vec![0; 16 << 10];
    loop {
        let Ok(count @ 1..) = pipe.read(&mut chunk).await else { return false };
        let space = limit - bytes.len();
        bytes.extend_from_slice(&chunk[..count.min(space)]);
        if count > space && !drain {
            return true;
        }
    }
}

/// Stops git and everything it started.
async fn stop(child: &mut Child) {
    let group = child.id().and_then(|it| Pid::from_raw(i32::try_from(it).ok()?));
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::TERM);
        if timeout(STOP_TIMEOUT, child.wait()).await.is_err() {
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait().await;
        }
    }
}

/// The filters that are defined by the repository, and not in the same words by the user.
async fn foreign_filters(directory: &Path) -> Result<BTreeSet<Vec<u8>>, GitError> {
    let list = GitCommand::query(directory, "config").args(["--list", "--show-scope", "-z"]);
    let list = list.output().await?;
    let (mut users, mut foreign) = (HashSet::new(), Vec::new());
    let mut words = list.split(|byte| *byte == 0);
    while let (Some(scope), Some(setting)) = (words.next(), words.next()) {
        match scope {
            b"local" | b"worktree" => foreign.push(setting),
            b"global" | b"system" => drop(users.insert(setting)),
            _ => {}
        }
    }
    let names = foreign.into_iter().filter(|it| !users.contains(it)).filter_map(|setting| {
        let key = setting.split(|byte| *byte == b'\n').next()?;
        let name = key.strip_prefix(b"filter.")?;
        let dot = name.iter().rposition(|byte| *byte == b'.')?;
        Some(name[..dot].to_vec())
    });
    Ok(names.collect())
}

/// A path that git printed, with the newline at its end.
pub(super) fn printed_path(mut bytes: Vec<u8>) -> std::path::PathBuf {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    OsString::from_vec(bytes).into()
}
