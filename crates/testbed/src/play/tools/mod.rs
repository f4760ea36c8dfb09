//! The tools, which really read, write and run in the working directory.

mod checkpoints;
mod edits;
mod files;
mod notebook;
mod patch;
mod process_tree;
mod search;
mod shell;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::effect::Work;
use super::input::{Finding, Outcome};
use super::surroundings::Surroundings;

pub(crate) use checkpoints::Checkpoints;
pub(crate) use shell::{Shells, run_hook};

/// Where calls are carried out; clones share what was read and where the shell stands.
#[derive(Clone, Debug)]
pub(crate) struct Workshop {
    around: Arc<Surroundings>,
    state: Arc<Mutex<State>>,
    shells: Shells,
}

#[derive(Debug)]
struct State {
    /// Files the model has seen, and so may overwrite.
    read: BTreeSet<PathBuf>,
    /// Where the next shell command starts.
    cwd: PathBuf,
    checkpoints: Checkpoints,
}

impl Workshop {
    /// A workshop in the working directory.
    pub(crate) fn new(around: &Surroundings) -> Self {
        let (read, cwd) = (BTreeSet::new(), around.cwd.clone());
        let state = State { read, cwd, checkpoints: Checkpoints::default() };
        Self {
            around: Arc::new(around.clone()),
            state: Arc::new(Mutex::new(state)),
            shells: Shells::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes that it started.
    pub(crate) fn shells(&self) -> &Shells {
        &self.shells
    }

    /// A path of a call, made absolute.
    fn path(&self, named: &Value) -> PathBuf {
        self.around.cwd.join(named.as_str().unwrap_or_default())
    }

    fn knows(&self, path: &Path) -> bool {
        self.state().read.contains(path)
    }

    fn remember(&self, path: &Path) {
        self.state().read.insert(path.to_owned());
    }

    /// Writes a file, remembering what it was for those who want it back.
    fn write(&self, path: &Path, content: &str) -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        self.state().checkpoints.before_change(path);
        std::fs::write(path, content)?;
        self.remember(path);
        Ok(())
    }

    /// Files change under another prompt from here on.
    pub(crate) fn checkpoint(&self, prompt: &str) {
        self.state().checkpoints.begin(prompt);
    }

    /// Puts files back to what they were before a prompt.
    pub(crate) fn rewind(&self, prompt: &str, dry: bool) -> Value {
        self.state().checkpoints.rewind(prompt, dry)
    }

    /// Looks at what a call would touch.
    pub(crate) fn inspect(&self, work: &Work) -> Finding {
        let found = match work.tool.as_str() {
            "Write" => self.inspect_write(&work.input),
            "Edit" => self.inspect_edit(&work.input),
            "MultiEdit" => self.inspect_edits(&work.input),
            "NotebookEdit" => self.inspect_notebook(&work.input),
            "ExitPlanMode" => {
                let path = work.input["path"].as_str().unwrap_or_default().to_owned();
                let text = std::fs::read_to_string(&path).ok();
                return Finding::Plan { text, path };
            }
            _ => Ok(()),
        };
        found.map_or_else(Finding::Wrong, |()| Finding::Fine)
    }

    /// Carries a call out.
    pub(crate) async fn run(&self, work: &Work) -> Outcome {
        let input = &work.input;
        match work.tool.as_str() {
            "Bash" => self.bash(work).await,
            "Read" => self.read(input),
            "Write" => self.write_file(input),
            "Edit" => self.edit(input),
            "MultiEdit" => self.multi_edit(input),
            "NotebookEdit" => self.edit_notebook(input),
            "Glob" => self.glob(input),
            "Grep" => self.grep(input),
            "TodoWrite" => Outcome::plain(
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
                Outcome::plain(json!([{ "type": "text", "text": text }]), report)
            }
            "WebFetch" | "WebSearch" => {
                let host = input["url"].as_str().and_then(|url| url.split('/').nth(2));
                let host = host.unwrap_or("api.anthropic.com");
                Outcome::failure(&format!(
                    "Unable to verify if domain {host} is safe to fetch. This may be due to network \
                     restrictions or enterprise security policies blocking claude.ai."
                ))
            }
            tool => Outcome::failure(&format!("{tool} is not played")),
        }
    }
}
