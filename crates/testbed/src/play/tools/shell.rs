//! Shell commands: the only place where the player starts processes.
//!
//! A command gets its own process group, and its output goes to a file, so that a process it leaves
//! behind does not keep a pipe of the player open.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::play::event::{HookCommandOutput, ToolErrorFlag, ToolInvocation, ToolOutcome};
use crate::play::release::{PlayerBehavior, PlayerRelease};
use crate::play::tools::ToolRunner;

/// The longest output that the model and the host get, in characters.
const MAX_OUTPUT: usize = 30_000;

/// Runs a command and writes its final working directory to a file.
const SCRIPT: &str = r#"exec 2>&1; trap 'pwd -P >"$2"' EXIT; eval "$1""#;

/// How often at most the process table is scanned. Each scan finds only processes that the previous
/// one missed.
const MAX_SCANS: usize = 20;

/// The running commands, by the id of their call or task.
#[derive(Clone, Debug, Default)]
pub(crate) struct ShellProcesses {
    table: Arc<Mutex<ShellProcessTable>>,
}

#[derive(Debug, Default)]
struct ShellProcessTable {
    /// The process of each command, which is the leader of a group.
    leaders: BTreeMap<String, u32>,
    /// Whether the player is exiting, so that no command may start.
    closed: bool,
}

impl ShellProcesses {
    fn with<T>(&self, update: impl FnOnce(&mut ShellProcessTable) -> T) -> T {
        update(&mut self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a command. It is in the table before it can be killed, because a test may wait for the
    /// first thing the command does and then stop it.
    fn start(&self, name: &str, command: &mut Command) -> std::io::Result<tokio::process::Child> {
        self.with(|table| {
            if table.closed {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let child = command.spawn()?;
            if let Some(id) = child.id() {
                table.leaders.insert(name.to_owned(), id);
            }
            Ok(child)
        })
    }

    fn remove(&self, name: &str) {
        self.with(|table| table.leaders.remove(name));
    }

    /// Kills a command and everything it started.
    pub(crate) fn kill(&self, name: &str) {
        if let Some(leader) = self.with(|table| table.leaders.remove(name)) {
            kill_tree(leader);
        }
    }

    /// Forgets the running commands, so that they outlive the player.
    pub(crate) fn forget_all(&self) {
        self.with(|table| table.leaders.clear());
    }

    /// Kills all commands. No other can start afterwards.
    pub(crate) fn kill_all(&self) {
        let leaders = self.with(|table| {
            table.closed = true;
            std::mem::take(&mut table.leaders)
        });
        leaders.into_values().for_each(kill_tree);
    }
}

impl ToolRunner {
    pub(crate) async fn bash(&self, invocation: &ToolInvocation) -> ToolOutcome {
        let command = invocation.input["command"].as_str().unwrap_or_default();
        let limit = invocation.input["timeout"].as_u64().unwrap_or(120_000);
        let Ok(folder) = self.scratch() else { return ToolOutcome::failure("no temporary folder") };
        let name = uuid::Uuid::new_v4().simple().to_string();
        let output = folder.join(format!("{name}.out"));
        let run = self.start(&invocation.call, command, &output);
        let code = match run {
            Err(error) => return ToolOutcome::failure(&error.to_string()),
            Ok(mut child) => {
                let limit = Duration::from_millis(limit);
                let ended = tokio::time::timeout(limit, child.wait()).await;
                let Ok(status) = ended else {
                    self.processes.kill(&invocation.call);
                    drop(child.wait().await);
                    let seconds = limit.as_secs().max(1);
                    return ToolOutcome::failure(&format!("Command timed out after {seconds}s"));
                };
                self.processes.remove(&invocation.call);
                status.ok().and_then(|status| status.code())
            }
        };
        let text = std::fs::read(&output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        drop(std::fs::remove_file(&output));
        self.update_cwd(&output.with_extension("cwd"));
        command_outcome(command, code, &text, self.release)
    }

    /// Runs a background command and returns its exit code.
    pub(crate) async fn run_in_background(
        &self,
        invocation: &ToolInvocation,
        task: &str,
    ) -> Option<i32> {
        let command = invocation.input["command"].as_str().unwrap_or_default();
        let output = Path::new(invocation.input["output"].as_str().unwrap_or_default()).to_owned();
        if let Some(folder) = output.parent() {
            drop(std::fs::create_dir_all(folder));
        }
        let mut child = self.start(task, command, &output).ok()?;
        let status = child.wait().await;
        self.processes.remove(task);
        drop(std::fs::remove_file(output.with_extension("cwd")));
        status.ok().and_then(|status| status.code())
    }

    /// Runs a shell command of the host.
    pub(crate) async fn run_host_command(&self, command: &str) -> Value {
        let mut bash = self.command("bash");
        let output = bash.args(["-c", command]).stdin(Stdio::null()).output().await;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        match output {
            Ok(output) => json!({
                "stdout": text(&output.stdout), "stderr": text(&output.stderr),
                "code": output.status.code(),
            }),
            Err(error) => json!({ "stdout": "", "stderr": error.to_string(), "code": 127 }),
        }
    }

    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.state().cwd.clone()).process_group(0);
        command
    }

    fn start(
        &self,
        name: &str,
        command: &str,
        output: &Path,
    ) -> std::io::Result<tokio::process::Child> {
        let file = File::create(output)?;
        let mut bash = self.command("bash");
        bash.args(["-c", SCRIPT, "bash", command]).arg(output.with_extension("cwd"));
        bash.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        self.processes.start(name, &mut bash)
    }

    fn scratch(&self) -> std::io::Result<std::path::PathBuf> {
        let folder = self.environment.temporary.join("shell");
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Starts the next command in the directory in which the last one ended.
    fn update_cwd(&self, note: &Path) {
        if let Ok(cwd) = std::fs::read_to_string(note) {
            let cwd = Path::new(cwd.trim_end()).to_owned();
            if cwd.is_dir() {
                self.state().cwd = cwd;
            }
            drop(std::fs::remove_file(note));
        }
    }
}

/// A running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunningProcess {
    id: i32,
    parent: i32,
    group: i32,
}

/// Runs a hook command, which reads its input as JSON from stdin.
pub(crate) async fn run_hook(
    command: &str,
    input: &Value,
    cwd: &Path,
    timeout: Duration,
) -> HookCommandOutput {
    let mut bash = Command::new("bash");
    bash.args(["-c", command]).current_dir(cwd).kill_on_drop(true);
    bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = bash.spawn() else { return HookCommandOutput::default() };
    let line = input.to_string();
    if let Some(mut stdin) = child.stdin.take() {
        tokio::spawn(async move { drop(stdin.write_all(line.as_bytes()).await) });
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match tokio::time::timeout(timeout, child.wait_with_output()).await {
        Ok(Ok(output)) => HookCommandOutput {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        },
        _ => HookCommandOutput::default(),
    }
}

/// The outcome of a command that ended.
fn command_outcome(
    command: &str,
    code: Option<i32>,
    text: &str,
    release: PlayerRelease,
) -> ToolOutcome {
    let last = command.rsplit(['|', ';', '&']).next().unwrap_or_default();
    let mut words = last.split_whitespace();
    // A search that finds nothing is not an error.
    let searched = matches!(words.next(), Some("grep" | "rg" | "diff" | "test" | "["));
    let failed = match code {
        Some(0) => false,
        Some(1) => !searched,
        _ => true,
    };
    if failed {
        let code = code.unwrap_or(1);
        let more = if text.is_empty() { String::new() } else { format!("\n{text}") };
        if !release.has(PlayerBehavior::ExitCodeInResult) && !text.is_empty() {
            return ToolOutcome::failure(text);
        }
        return ToolOutcome::failure(&format!("Exit code {code}{more}"));
    }
    let first = command.split_whitespace().next().unwrap_or_default();
    let silent = matches!(first, "touch" | "mkdir" | "rm" | "rmdir" | "mv" | "cp" | "chmod" | "ln")
        && !command.contains([';', '&', '|', '>']);
    let shown: String = text.chars().take(MAX_OUTPUT).collect();
    let report = json!({
        "stdout": shown, "stderr": "", "interrupted": false, "isImage": false,
        "noOutputExpected": silent,
    });
    let empty = "(Bash completed with no output)".to_owned();
    let content = if shown.is_empty() { empty } else { shown };
    ToolOutcome { content: content.into(), error_flag: ToolErrorFlag::Success, report }
}

/// Kills a process and everything it started.
///
/// A process group is not enough, because `timeout` and `setsid` create their own. So the tree is
/// made of the descendants and of the groups that they lead. All of it is stopped before any of it
/// is killed: if a parent died first, a child that was not scanned yet would become an orphan and
/// could start a group that can no longer be attributed.
fn kill_tree(root: u32) {
    let Ok(root) = i32::try_from(root) else { return };
    let mut known = BTreeSet::from([root]);
    let mut stopped = BTreeSet::new();
    for _ in 0..MAX_SCANS {
        add_related(&mut known, &running_processes());
        let new: Vec<i32> = known.difference(&stopped).copied().collect();
        if new.is_empty() {
            break;
        }
        for id in &new {
            signal(*id, Signal::STOP);
        }
        stopped.extend(new);
    }
    for id in known {
        signal(id, Signal::KILL);
    }
}

fn signal(id: i32, signal: Signal) {
    if let Some(id) = Pid::from_raw(id) {
        // The process may have ended already.
        let _ = kill_process(id, signal);
    }
}

/// Adds the children of known processes and the members of their groups, recursively.
fn add_related(known: &mut BTreeSet<i32>, running: &[RunningProcess]) {
    loop {
        let before = known.len();
        for process in running {
            if known.contains(&process.parent) || known.contains(&process.group) {
                known.insert(process.id);
            }
        }
        if known.len() == before {
            return;
        }
    }
}

/// All processes other than zombies.
#[cfg(target_os = "linux")]
fn running_processes() -> Vec<RunningProcess> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        parse_stat(id, &String::from_utf8_lossy(&stat))
    });
    processes.collect()
}

/// Parses `/proc/PID/stat`. The name in parentheses may contain any character.
#[cfg(target_os = "linux")]
fn parse_stat(id: i32, stat: &str) -> Option<RunningProcess> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (!matches!(state, "Z" | "X")).then_some(RunningProcess { id, parent, group })
}

/// All processes other than zombies, as `ps` lists them.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "there is no /proc to read")]
fn running_processes() -> Vec<RunningProcess> {
    let output = std::process::Command::new("ps").args(["-axo", "pid=,ppid=,pgid=,stat="]).output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let text = text.unwrap_or_default();
    let processes = text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let mut number = || fields.next()?.parse().ok();
        let (id, parent, group) = (number()?, number()?, number()?);
        let state = fields.next()?;
        (!state.starts_with('Z')).then_some(RunningProcess { id, parent, group })
    });
    processes.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{RunningProcess, add_related};

    fn tree(root: i32, running: &[(i32, i32, i32)]) -> Vec<i32> {
        let processes =
            running.iter().map(|&(id, parent, group)| RunningProcess { id, parent, group });
        let mut known = BTreeSet::from([root]);
        add_related(&mut known, &processes.collect::<Vec<_>>());
        known.into_iter().collect()
    }

    #[test]
    fn descendants_belong_to_the_tree_whatever_their_group() {
        assert_eq!(tree(10, &[(12, 11, 11), (11, 10, 11), (10, 1, 10), (20, 1, 20)]), [10, 11, 12]);
    }

    #[test]
    fn orphans_belong_to_the_tree_by_their_group() {
        assert_eq!(tree(10, &[(12, 1, 10), (13, 12, 13), (20, 1, 20)]), [10, 12, 13]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_name_may_contain_parentheses() {
        let running = super::parse_stat(7, "7 (a) b (c)) S 3 7 7 0");
        assert_eq!(running, Some(RunningProcess { id: 7, parent: 3, group: 7 }));
        assert_eq!(super::parse_stat(7, "7 (a) Z 3 7 7 0"), None);
    }
}
