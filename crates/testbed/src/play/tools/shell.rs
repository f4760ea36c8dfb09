//! Shell commands: the one place where the player starts processes.
//!
//! A command gets a process group of its own, and its output goes to a file: a child that it leaves
//! behind holds no pipe of ours open.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::Workshop;
use super::process_tree::kill_tree;
use crate::play::effect::Work;
use crate::play::input::{HookReport, Marked, Outcome};

/// Output longer than this is kept in a file, and only its beginning shown.
const LONGEST: usize = 30_000;
/// Runs a command, and notes where it went.
const SCRIPT: &str = r#"exec 2>&1; trap 'pwd -P >"$2"' EXIT; eval "$1""#;

/// Commands that run, by call or task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shells {
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    /// The process of each command, which leads a group.
    leaders: BTreeMap<String, u32>,
    /// Whether the player ends, and nothing more may start.
    closed: bool,
}

impl Shells {
    fn with<T>(&self, act: impl FnOnce(&mut Running) -> T) -> T {
        act(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts a command. It is known before anybody can ask to end it: what it does first may be
    /// what somebody waits for.
    fn start(&self, name: &str, command: &mut Command) -> std::io::Result<tokio::process::Child> {
        self.with(|running| {
            if running.closed {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            let child = command.spawn()?;
            if let Some(id) = child.id() {
                running.leaders.insert(name.to_owned(), id);
            }
            Ok(child)
        })
    }

    /// A command ended by itself.
    fn ended(&self, name: &str) {
        self.with(|running| running.leaders.remove(name));
    }

    /// Ends a command and everything it started.
    pub(crate) fn kill(&self, name: &str) {
        if let Some(leader) = self.with(|running| running.leaders.remove(name)) {
            kill_tree(leader);
        }
    }

    /// Ends all of them, for good.
    pub(crate) fn kill_all(&self) {
        let leaders = self.with(|running| {
            running.closed = true;
            std::mem::take(&mut running.leaders)
        });
        leaders.into_values().for_each(kill_tree);
    }
}

impl Workshop {
    /// Runs a command and waits for it.
    pub(super) async fn bash(&self, work: &Work) -> Outcome {
        let command = work.input["command"].as_str().unwrap_or_default();
        let limit = work.input["timeout"].as_u64().unwrap_or(120_000);
        let Ok(folder) = self.scratch() else { return Outcome::failure("no temporary folder") };
        let name = uuid::Uuid::new_v4().simple().to_string();
        let output = folder.join(format!("{name}.out"));
        let run = self.start(&work.call, command, &output);
        let code = match run {
            Err(error) => return Outcome::failure(&error.to_string()),
            Ok(mut child) => {
                let limit = Duration::from_millis(limit);
                let ended = tokio::time::timeout(limit, child.wait()).await;
                let Ok(status) = ended else {
                    self.shells.kill(&work.call);
                    drop(child.wait().await);
                    let seconds = limit.as_secs().max(1);
                    return Outcome::failure(&format!("Command timed out after {seconds}s"));
                };
                self.shells.ended(&work.call);
                status.ok().and_then(|status| status.code())
            }
        };
        let text = std::fs::read(&output).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        drop(std::fs::remove_file(&output));
        self.follow(&output.with_extension("cwd"));
        finished(command, code, &text, work, &self.around.home, &self.around.cwd)
    }

    /// Starts a command that nobody waits for; its exit code.
    pub(crate) async fn background(&self, work: &Work, task: &str) -> Option<i32> {
        let command = work.input["command"].as_str().unwrap_or_default();
        let output = Path::new(work.input["output"].as_str().unwrap_or_default()).to_owned();
        if let Some(folder) = output.parent() {
            drop(std::fs::create_dir_all(folder));
        }
        let mut child = self.start(task, command, &output).ok()?;
        let status = child.wait().await;
        self.shells.ended(task);
        drop(std::fs::remove_file(output.with_extension("cwd")));
        status.ok().and_then(|status| status.code())
    }

    /// Runs a command that the host typed.
    pub(crate) async fn typed(&self, command: &str) -> Value {
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

    fn command(&self, program: &str) -> Command {
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
        self.shells.start(name, &mut bash)
    }

    fn scratch(&self) -> std::io::Result<std::path::PathBuf> {
        let folder = self.around.temporary.join("shell");
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The next command starts where the last one went.
    fn follow(&self, note: &Path) {
        if let Ok(cwd) = std::fs::read_to_string(note) {
            let cwd = Path::new(cwd.trim_end()).to_owned();
            if cwd.is_dir() {
                self.state().cwd = cwd;
            }
            drop(std::fs::remove_file(note));
        }
    }
}

/// Runs a hook, which reads its input as JSON.
pub(crate) async fn run_hook(
    command: &str,
    input: &Value,
    cwd: &Path,
    limit: Duration,
) -> HookReport {
    let mut bash = Command::new("bash");
    bash.args(["-c", command]).current_dir(cwd).kill_on_drop(true);
    bash.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = bash.spawn() else { return HookReport::default() };
    let line = input.to_string();
    if let Some(mut stdin) = child.stdin.take() {
        tokio::spawn(async move { drop(stdin.write_all(line.as_bytes()).await) });
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match tokio::time::timeout(limit, child.wait_with_output()).await {
        Ok(Ok(output)) => HookReport {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        },
        _ => HookReport::default(),
    }
}

/// What came of a command.
fn finished(
    command: &str,
    code: Option<i32>,
    text: &str,
    work: &Work,
    home: &Path,
    cwd: &Path,
) -> Outcome {
    let last = command.rsplit(['|', ';', '&']).next().unwrap_or_default();
    let mut words = last.split_whitespace();
    // A search that finds nothing has not failed.
    let searched = matches!(words.next(), Some("grep" | "rg" | "diff" | "test" | "["));
    let failed = match code {
        Some(0) => false,
        Some(1) => !searched,
        _ => true,
    };
    if failed {
        let code = code.unwrap_or(1);
        let more = if text.is_empty() { String::new() } else { format!("\n{text}") };
        return Outcome::failure(&format!("Exit code {code}{more}"));
    }
    let first = command.split_whitespace().next().unwrap_or_default();
    let silent = matches!(first, "touch" | "mkdir" | "rm" | "rmdir" | "mv" | "cp" | "chmod" | "ln")
        && !command.contains([';', '&', '|', '>']);
    let shown: String = text.chars().take(LONGEST).collect();
    let report = json!({
        "stdout": shown, "stderr": "", "interrupted": false, "isImage": false,
        "noOutputExpected": silent,
    });
    let content = if text.is_empty() {
        "(Bash completed with no output)".to_owned()
    } else if text.len() > LONGEST {
        persisted(text, work, home, cwd)
    } else {
        text.to_owned()
    };
    Outcome { content: content.into(), marked: Marked::Success, report }
}

/// Keeps a long output in a file, and shows its beginning.
#[expect(clippy::cast_precision_loss, reason = "a size for people")]
fn persisted(text: &str, work: &Work, home: &Path, cwd: &Path) -> String {
    let folder = crate::play::store::folder(home, cwd).join(&work.session).join("tool-results");
    let path = folder.join(format!("{}.txt", work.call));
    drop(std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text)));
    let preview: String = text.chars().take(2000).collect();
    format!(
        "<persisted-output>\nOutput too large ({:.1}KB). Full output saved to: {}\n\nPreview (first \
         2KB):\n{preview}\n...\n</persisted-output>",
        text.len() as f64 / 1024.0,
        path.display()
    )
}
