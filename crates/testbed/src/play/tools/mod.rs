//! The tools, which really read, write and run in the working directory.

mod changes;
mod files;
mod host_files;
mod multi_edit;
mod search;
mod shell;
mod teams;

pub(crate) use shell::run_hook;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::play::event::{CallInspection, ToolInvocation, ToolOutcome};
use crate::play::private_files;
use crate::play::release::{PlayerBehavior, PlayerRelease};
use crate::play::settings::PlayerEnvironment;
use crate::play::tools::changes::FileCheckpoints;
use crate::play::tools::shell::ShellProcesses;

/// Runs tool calls. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct ToolRunner {
    environment: Arc<PlayerEnvironment>,
    release: PlayerRelease,
    state: Arc<Mutex<ToolRunnerState>>,
    processes: ShellProcesses,
}

#[derive(Debug)]
struct ToolRunnerState {
    /// Files that the model has read, and so may overwrite.
    read: BTreeSet<PathBuf>,
    /// The directory in which the next shell command starts.
    cwd: PathBuf,
    checkpoints: FileCheckpoints,
    /// The team that the session leads.
    team: Option<String>,
}

impl ToolRunner {
    pub(crate) fn new(environment: &PlayerEnvironment, release: PlayerRelease) -> Self {
        let (read, cwd) = (BTreeSet::new(), environment.cwd.clone());
        let (checkpoints, team) = (FileCheckpoints::default(), None);
        let state = ToolRunnerState { read, cwd, checkpoints, team };
        Self {
            environment: Arc::new(environment.clone()),
            release,
            state: Arc::new(Mutex::new(state)),
            processes: ShellProcesses::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, ToolRunnerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn processes(&self) -> &ShellProcesses {
        &self.processes
    }

    /// The absolute path that a call names.
    fn path(&self, named: &Value) -> PathBuf {
        self.environment.cwd.join(named.as_str().unwrap_or_default())
    }

    fn has_read(&self, path: &Path) -> bool {
        self.state().read.contains(path)
    }

    fn mark_read(&self, path: &Path) {
        self.state().read.insert(path.to_owned());
    }

    /// Writes a file and keeps its previous content for a rewind.
    fn write(&self, path: &Path, content: &str) -> std::io::Result<()> {
        self.state().checkpoints.before_change(path);
        let parent = path.parent();
        if path.starts_with(self.environment.home.join(".claude")) {
            // A plan is the user's own, like a transcript.
            parent.map(private_files::create_directory).transpose()?;
            private_files::write(path, content)?;
        } else {
            parent.map(std::fs::create_dir_all).transpose()?;
            std::fs::write(path, content)?;
        }
        self.mark_read(path);
        Ok(())
    }

    /// Attributes the file changes that follow to a prompt.
    pub(crate) fn checkpoint(&self, prompt: &str) {
        self.state().checkpoints.begin(prompt);
    }

    /// Restores files to their state before a prompt.
    pub(crate) fn rewind(&self, prompt: &str, dry_run: bool) -> Value {
        self.state().checkpoints.rewind(prompt, dry_run)
    }

    /// Checks the preconditions of a call.
    pub(crate) fn inspect(&self, invocation: &ToolInvocation) -> CallInspection {
        let checked = match invocation.tool.as_str() {
            "Write" => self.inspect_write(&invocation.input),
            "Edit" => self.inspect_edit(&invocation.input),
            "MultiEdit" => self.inspect_multi_edit(&invocation.input),
            "NotebookEdit" => self.inspect_notebook(&invocation.input),
            "ExitPlanMode" => {
                let path = invocation.input["path"].as_str().unwrap_or_default().to_owned();
                let text = std::fs::read_to_string(&path).ok();
                return CallInspection::Plan { text, path };
            }
            _ => Ok(()),
        };
        checked.map_or_else(CallInspection::Invalid, |()| CallInspection::Valid)
    }

    pub(crate) async fn run(&self, invocation: &ToolInvocation) -> ToolOutcome {
        let input = &invocation.input;
        match invocation.tool.as_str() {
            "Bash" => self.bash(invocation).await,
            "Read" => self.read(input),
            "Write" => self.write_file(input),
            "Edit" => self.edit(input),
            "MultiEdit" => self.multi_edit(input),
            "Glob" => self.glob(input),
            "Grep" => self.grep(input).await,
            "TeamCreate" => self.create_team(input),
            "TeamDelete" => self.delete_team(),
            "SendMessage" if self.release.has(PlayerBehavior::Teams) => Self::send_to_inbox(input),
            "NotebookEdit" => self.edit_notebook(input),
            "TodoWrite" => ToolOutcome::plain(
                "Todos have been modified successfully. Ensure that you continue to use the todo \
                 list to track your progress. Please proceed with the current tasks if applicable",
                json!({ "oldTodos": [], "newTodos": input["todos"] }),
            ),
            "SendMessage" => {
                let to = input["to"].as_str().or(input["recipient"].as_str()).unwrap_or_default();
                let message = format!(
                    "No agent named '{to}' is reachable.\nUse ListAgents to see everyone you can \
                     message."
                );
                let report = json!({ "success": false, "message": message });
                let text = report.to_string();
                ToolOutcome::plain(json!([{ "type": "text", "text": text }]), report)
            }
            "WebFetch" => {
                let host = input["url"].as_str().and_then(|url| url.split('/').nth(2));
                let host = host.unwrap_or_default();
                ToolOutcome::failure(&format!(
                    "Unable to verify if domain {host} is safe to fetch. This may be due to network \
                     restrictions or enterprise security policies blocking claude.ai."
                ))
            }
            tool => ToolOutcome::failure(&format!("{tool} is not played")),
        }
    }
}
