//! Work that goes on behind a turn: shell commands in the background, and helpers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Session;
use crate::play::clock;
use crate::play::effect::{Effect, Work};
use crate::play::input::{Marked, Outcome};
use crate::play::queue::Prompt;

/// Tasks that run, and how many there were.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    shells: BTreeMap<String, Shell>,
    spawned: u32,
    in_background: u32,
    completed: u32,
    killed: u32,
}

#[derive(Clone, Debug)]
struct Shell {
    run: String,
    call: String,
    description: String,
    output: String,
}

impl Tasks {
    /// Whether no shell runs.
    pub(super) fn is_empty(&self) -> bool {
        self.shells.is_empty()
    }

    /// A helper started.
    pub(super) fn helper_started(&mut self, background: bool) {
        self.spawned += 1;
        self.in_background += u32::from(background);
    }

    /// A helper ended.
    pub(super) fn helper_ended(&mut self, killed: bool) {
        if killed {
            self.killed += 1;
        } else {
            self.completed += 1;
        }
    }

    /// The `subagent_stats` of a result.
    pub(super) fn stats(&self) -> Value {
        let depth = u32::from(self.spawned > 0);
        let waited = self.spawned - self.in_background;
        json!({
            "spawned": self.spawned,
            "requested": { "background": 0, "foreground": waited, "unset": self.in_background },
            "started_in_background": self.in_background, "max_depth": depth,
            "spawned_by_subagents": 0, "completed": self.completed, "failed": 0,
            "killed": { "parent": 0, "user": self.killed, "system": 0 },
            "refused": { "depth_limit": 0, "concurrency_limit": 0, "budget": 0 }, "by_type": {},
        })
    }
}

impl Session {
    /// Where the output of a task is written.
    pub(super) fn output_path(&self, task: &str) -> String {
        let folder = crate::play::store::folder_name(&self.around.cwd);
        let path = self.around.temporary.join(folder).join(&self.id).join("tasks");
        path.join(format!("{task}.output")).display().to_string()
    }

    /// The id of a run, as the protocol writes them.
    pub(super) fn run_id(&mut self) -> String {
        let (word, hex) = (self.ids.word(8), self.ids.hex(8));
        format!("0{word}-{hex}")
    }

    /// Tells which tasks run.
    pub(super) fn print_tasks(&mut self) {
        let shells = self.tasks.shells.iter().map(|(id, shell)| {
            json!({
                "task_id": id, "run_id": shell.run, "task_type": "local_bash",
                "description": shell.description,
            })
        });
        let helpers = self.helpers.values().filter(|helper| helper.background).map(|helper| {
            json!({
                "task_id": helper.id, "run_id": helper.run, "task_type": "local_agent",
                "subagent_type": helper.kind, "description": helper.description,
            })
        });
        let tasks: Vec<Value> = shells.chain(helpers).collect();
        self.system("background_tasks_changed", json!({ "tasks": tasks }));
    }

    /// Starts a command that nobody waits for.
    pub(super) fn start_background(&mut self, call: &str, work: Work) {
        let task = format!("b{}", self.ids.word(8));
        let run = self.run_id();
        let output = self.output_path(&task);
        let command = work.input["command"].as_str().unwrap_or_default();
        let description = work.input["description"].as_str().unwrap_or(command).to_owned();
        let shell = Shell {
            run: run.clone(),
            call: call.to_owned(),
            description: description.clone(),
            output: output.clone(),
        };
        self.tasks.shells.insert(task.clone(), shell);
        self.print_tasks();
        self.system(
            "task_started",
            json!({
                "task_id": task, "run_id": run, "tool_use_id": call, "description": description,
                "is_backgrounded": true, "task_type": "local_bash",
            }),
        );
        let mut work = work;
        work.input["output"] = output.clone().into();
        self.effects.push(Effect::Background { work, task: task.clone() });
        let content = format!(
            "Command running in background with ID: {task}. Output is being written to: {output}. \
             You will be notified when it completes. To check interim output, use Read on that file \
             path."
        );
        let report = json!({
            "stdout": "", "stderr": "", "interrupted": false, "isImage": false,
            "noOutputExpected": false, "backgroundTaskId": task,
        });
        self.done(call, Outcome { content: content.into(), marked: Marked::Success, report });
    }

    /// A command in the background ended.
    pub(super) fn task_ended(&mut self, task: &str, code: Option<i32>) {
        let Some(shell) = self.tasks.shells.remove(task) else { return };
        let code = code.unwrap_or(137);
        let (status, verb) =
            if code == 0 { ("completed", "completed") } else { ("failed", "failed with") };
        let summary = if code == 0 {
            format!("Background command \"{}\" {verb} (exit code 0)", shell.description)
        } else {
            format!("Background command \"{}\" failed with exit code {code}", shell.description)
        };
        self.print_ended(task, &shell.run, status);
        self.system(
            "task_notification",
            json!({
                "task_id": task, "run_id": shell.run, "tool_use_id": shell.call, "status": status,
                "output_file": shell.output, "summary": summary,
            }),
        );
        self.print_tasks();
        self.notify(task, &shell.call, &shell.run, &shell.output, status, &summary);
    }

    /// Says that a task ended.
    pub(super) fn print_ended(&mut self, task: &str, run: &str, status: &str) {
        let patch = json!({ "status": status, "end_time": clock::millis(self.now) });
        self.system("task_updated", json!({ "task_id": task, "run_id": run, "patch": patch }));
    }

    /// Tells the model in a turn of its own.
    pub(super) fn notify(
        &mut self,
        task: &str,
        call: &str,
        run: &str,
        output: &str,
        status: &str,
        summary: &str,
    ) {
        let text = format!(
            "<task-notification>\n<task-id>{task}</task-id>\n<tool-use-id>{call}</tool-use-id>\n\
             <output-file>{output}</output-file>\n<status>{status}</status>\n\
             <summary>{summary}</summary>\n</task-notification>"
        );
        let mut prompt = Prompt::text(&text, self.ids.uuid());
        prompt.origin =
            Some(json!({ "kind": "task-notification", "producer": "session-task", "runId": run }));
        prompt.command = false;
        self.queue.push(prompt);
    }

    /// Stops a task; whether there was one.
    pub(super) fn stop_task(&mut self, task: &str) -> bool {
        if self.helpers.contains_key(task) {
            self.kill_helper(task);
            return true;
        }
        let Some(shell) = self.tasks.shells.remove(task) else { return false };
        self.effects.push(Effect::Kill(task.to_owned()));
        self.print_ended(task, &shell.run, "killed");
        self.system(
            "task_notification",
            json!({
                "task_id": task, "run_id": shell.run, "tool_use_id": shell.call,
                "status": "stopped", "output_file": shell.output, "summary": shell.description,
            }),
        );
        self.print_tasks();
        true
    }
}
