//! Work that outlives a turn: background shell commands and sub-agents.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::play::event::{PlayerEffect, ToolErrorFlag, ToolInvocation, ToolOutcome};
use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::session::calls::PlayerCall;
use crate::play::session::conversation::{
    PlayerAgent, PlayerConversation, PlayerHistory, PlayerHistoryEntry, PlayerTokens,
};
use crate::play::session::queue::PlayerPrompt;
use crate::play::transcript::project_folder_name;
use crate::play::{stamps, texts};

/// The background shell commands that are running, and statistics of the sub-agents.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTasks {
    shells: BTreeMap<String, BackgroundShell>,
    spawned: u32,
    in_background: u32,
    completed: u32,
    killed: u32,
}

#[derive(Clone, Debug)]
struct BackgroundShell {
    run_id: String,
    call: String,
    description: String,
    output: String,
}

impl BackgroundTasks {
    /// Whether no background shell command is running.
    pub(crate) fn is_empty(&self) -> bool {
        self.shells.is_empty()
    }

    pub(crate) fn sub_agent_started(&mut self, background: bool) {
        self.spawned += 1;
        self.in_background += u32::from(background);
    }

    pub(crate) fn sub_agent_ended(&mut self, killed: bool) {
        if killed {
            self.killed += 1;
        } else {
            self.completed += 1;
        }
    }

    pub(crate) fn stats(&self) -> Value {
        let depth = u32::from(self.spawned > 0);
        let foreground = self.spawned - self.in_background;
        json!({
            "spawned": self.spawned,
            "requested": { "background": 0, "foreground": foreground, "unset": self.in_background },
            "started_in_background": self.in_background, "max_depth": depth,
            "spawned_by_subagents": 0, "completed": self.completed, "failed": 0,
            "killed": { "parent": 0, "user": self.killed, "system": 0 },
            "refused": { "depth_limit": 0, "concurrency_limit": 0, "budget": 0 }, "by_type": {},
        })
    }
}

#[derive(Debug)]
pub(crate) struct PlayerSubAgent {
    pub(crate) id: String,
    pub(crate) run_id: String,
    /// The id of the call that started it.
    pub(crate) call: String,
    pub(crate) kind: String,
    pub(crate) description: String,
    pub(crate) prompt: String,
    /// Whether the call that started it has already ended.
    pub(crate) background: bool,
    pub(crate) conversation: PlayerConversation,
    started_at: SystemTime,
    tools: u32,
    tokens: PlayerTokens,
    pub(crate) last_text: String,
    /// Whether a hook has kept it from ending.
    pub(crate) stop_blocked: bool,
    /// The reason of a hook that keeps it from ending now.
    pub(crate) stop_feedback: Option<String>,
    /// The team that it is part of. Such a sub-agent reports to its team and starts no turn.
    team: Option<String>,
}

impl PlayerSession {
    /// The file for the output of a task.
    pub(crate) fn output_path(&self, task: &str) -> String {
        let folder = project_folder_name(&self.environment.cwd);
        let path = self.environment.temporary.join(folder).join(&self.id).join("tasks");
        path.join(format!("{task}.output")).display().to_string()
    }

    /// A new run id.
    pub(crate) fn run_id(&mut self) -> String {
        let (word, hex) = (self.ids.word(8), self.ids.hex(8));
        format!("0{word}-{hex}")
    }

    /// Prints the list of running tasks.
    pub(crate) fn print_tasks(&mut self) {
        let shells = self.tasks.shells.iter().map(|(id, shell)| {
            json!({
                "task_id": id, "run_id": shell.run_id, "task_type": "local_bash",
                "description": shell.description,
            })
        });
        let sub_agents =
            self.sub_agents.values().filter(|sub_agent| sub_agent.background).map(|sub_agent| {
                json!({
                    "task_id": sub_agent.id, "run_id": sub_agent.run_id, "task_type": "local_agent",
                    "subagent_type": sub_agent.kind, "description": sub_agent.description,
                })
            });
        let tasks: Vec<Value> = shells.chain(sub_agents).collect();
        self.print_system("background_tasks_changed", json!({ "tasks": tasks }));
    }

    /// Starts a shell command as a background task.
    pub(crate) fn start_background(&mut self, call: &str, invocation: ToolInvocation) {
        let task = format!("b{}", self.ids.word(8));
        let run = self.run_id();
        let output = self.output_path(&task);
        let command = invocation.input["command"].as_str().unwrap_or_default();
        let description = invocation.input["description"].as_str().unwrap_or(command).to_owned();
        let shell = BackgroundShell {
            run_id: run.clone(),
            call: call.to_owned(),
            description: description.clone(),
            output: output.clone(),
        };
        self.tasks.shells.insert(task.clone(), shell);
        self.print_tasks();
        self.print_system(
            "task_started",
            json!({
                "task_id": task, "run_id": run, "tool_use_id": call, "description": description,
                "is_backgrounded": true, "task_type": "local_bash",
            }),
        );
        let mut invocation = invocation;
        invocation.input["output"] = output.clone().into();
        self.effects.push(PlayerEffect::RunInBackground { invocation, task: task.clone() });
        let content = format!(
            "Command running in background with ID: {task}. Output is being written to: {output}. \
             You will be notified when it completes. To check interim output, use Read on that file \
             path."
        );
        let report = json!({
            "stdout": "", "stderr": "", "interrupted": false, "isImage": false,
            "noOutputExpected": false, "backgroundTaskId": task,
        });
        self.finish_call(
            call,
            ToolOutcome { content: content.into(), error_flag: ToolErrorFlag::Success, report },
        );
    }

    pub(crate) fn on_task_ended(&mut self, task: &str, code: Option<i32>) {
        let Some(shell) = self.tasks.shells.remove(task) else { return };
        if !self.has(PlayerBehavior::BackgroundCommandsReport) {
            return;
        }
        let code = code.unwrap_or(137);
        let (status, result) = if code == 0 {
            ("completed", "completed (exit code 0)".to_owned())
        } else {
            ("failed", format!("failed with exit code {code}"))
        };
        let summary = format!("Background command \"{}\" {result}", shell.description);
        self.print_task_ended(task, &shell.run_id, status);
        self.print_system(
            "task_notification",
            json!({
                "task_id": task, "run_id": shell.run_id, "tool_use_id": shell.call, "status": status,
                "output_file": shell.output, "summary": summary,
            }),
        );
        self.print_tasks();
        self.queue_task_notification(
            task,
            &shell.call,
            &shell.run_id,
            &shell.output,
            status,
            &summary,
        );
    }

    /// Prints that a task ended.
    pub(crate) fn print_task_ended(&mut self, task: &str, run: &str, status: &str) {
        let patch = json!({ "status": status, "end_time": stamps::millis(self.now) });
        self.print_system(
            "task_updated",
            json!({ "task_id": task, "run_id": run, "patch": patch }),
        );
    }

    /// Queues a notification for the model, which starts a turn.
    pub(crate) fn queue_task_notification(
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
        let mut prompt = PlayerPrompt::from_text(&text, self.ids.uuid());
        prompt.origin =
            Some(json!({ "kind": "task-notification", "producer": "session-task", "runId": run }));
        self.queue.push(prompt);
    }

    /// Stops a task. Returns whether it was running.
    pub(crate) fn stop_task(&mut self, task: &str) -> bool {
        if self.sub_agents.contains_key(task) {
            self.kill_sub_agent(task);
            return true;
        }
        let Some(shell) = self.tasks.shells.remove(task) else { return false };
        self.effects.push(PlayerEffect::KillTask(task.to_owned()));
        self.print_task_ended(task, &shell.run_id, "killed");
        self.print_system(
            "task_notification",
            json!({
                "task_id": task, "run_id": shell.run_id, "tool_use_id": shell.call,
                "status": "stopped", "output_file": shell.output, "summary": shell.description,
            }),
        );
        self.print_tasks();
        true
    }

    /// Starts a sub-agent, in the background unless the call says otherwise.
    pub(crate) fn start_sub_agent(&mut self, call: &str, input: &Value) {
        let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
        let kind = input["subagent_type"].as_str().unwrap_or("general-purpose").to_owned();
        let agents = self.agent_names();
        if !agents.contains(&kind.as_str()) {
            let text =
                format!("Agent type '{kind}' not found. Available agents: {}", agents.join(", "));
            self.finish_call(call, ToolOutcome::failure(&text));
            return;
        }
        let team = self.team_of(input);
        let background = team.is_some()
            || match &input["run_in_background"] {
                Value::Bool(chosen) => *chosen,
                _ => self.has(PlayerBehavior::SubagentsInBackground),
            };
        let id = format!("a{}", self.ids.hex(16));
        let run = self.run_id();
        let mut conversation =
            PlayerConversation::new(PlayerAgent::SubAgent(id.clone()), PlayerHistory::default());
        let uuid = self.ids.uuid();
        let content = json!([{ "type": "text", "text": text("prompt") }]);
        conversation.history.push(PlayerHistoryEntry {
            uuid,
            role: "user".into(),
            content: content.clone(),
            prompt: true,
        });
        let sub_agent = PlayerSubAgent {
            id: id.clone(),
            run_id: run.clone(),
            call: call.to_owned(),
            kind: kind.clone(),
            description: text("description"),
            prompt: text("prompt"),
            background,
            conversation,
            started_at: self.now,
            tools: 0,
            tokens: PlayerTokens::default(),
            last_text: String::new(),
            stop_blocked: false,
            stop_feedback: None,
            team: team.clone(),
        };
        self.tasks.sub_agent_started(background);
        self.sub_agents.insert(id.clone(), sub_agent);
        if background {
            self.print_tasks();
        }
        self.print_system(
            "task_started",
            json!({
                "task_id": id, "run_id": run, "tool_use_id": call,
                "description": text("description"), "subagent_type": kind.clone(),
                "is_backgrounded": background, "spawn_depth": 1, "task_type": "local_agent",
                "prompt": text("prompt"),
            }),
        );
        self.start_sub_agent_hooks(&id, &kind);
        if background {
            let output = self.output_path(&id);
            let report = json!({
                "isAsync": true, "status": "async_launched", "agentId": id,
                "description": text("description"), "resolvedModel": self.model(),
                "prompt": text("prompt"), "outputFile": output, "canReadOutputFile": true,
                "canContinueAgent": true,
            });
            let text = match &team {
                Some(team) => texts::teammate_started(&text("name"), team),
                None => texts::sub_agent_started(&id, &output),
            };
            let content = json!([{ "type": "text", "text": text }]);
            self.finish_call_later(call, ToolOutcome::plain(content, report));
        } else {
            self.print_user(&PlayerAgent::SubAgent(id.clone()), &content, json!({}));
        }
        self.request_model(&PlayerAgent::SubAgent(id));
    }

    /// The team that a new sub-agent becomes part of.
    fn team_of(&self, input: &Value) -> Option<String> {
        let team = input["team_name"].as_str().filter(|_| input["name"].is_string())?;
        (self.environment.teams && self.has(PlayerBehavior::Teams)).then(|| team.to_owned())
    }

    /// Prints what a sub-agent is about to do, if a block of its reply is a call.
    pub(crate) fn print_sub_agent_progress(&mut self, agent: &PlayerAgent, block: &Value) {
        let PlayerAgent::SubAgent(id) = agent else { return };
        if block["type"] != "tool_use" {
            return;
        }
        let call = PlayerCall::parse(block, agent.clone());
        let now = self.now;
        let Some(sub_agent) = self.sub_agents.get_mut(id) else { return };
        sub_agent.tools += 1;
        let name = call.input["file_path"].as_str().and_then(|path| path.rsplit('/').next());
        let what = match call.tool.as_str() {
            "Bash" => {
                let what = call.input["description"].as_str().or(call.input["command"].as_str());
                format!("Running {}", what.unwrap_or_default())
            }
            "Write" => format!("Writing {}", name.unwrap_or_default()),
            "Edit" => format!("Editing {}", name.unwrap_or_default()),
            "Read" => format!("Reading {}", name.unwrap_or_default()),
            tool => format!("Using {tool}"),
        };
        let fields = json!({
            "task_id": sub_agent.id, "run_id": sub_agent.run_id, "tool_use_id": sub_agent.call,
            "description": what, "subagent_type": sub_agent.kind,
            "usage": {
                "total_tokens": sub_agent.tokens.total(), "tool_uses": sub_agent.tools,
                "duration_ms": stamps::millis_between(sub_agent.started_at, now),
            },
            "last_tool_name": call.tool,
        });
        self.print_system("task_progress", fields);
    }

    /// Counts the usage of a reply to a sub-agent and keeps its text for the report.
    pub(crate) fn count_sub_agent_usage(
        &mut self,
        agent: &PlayerAgent,
        tokens: PlayerTokens,
        text: Option<String>,
    ) {
        let PlayerAgent::SubAgent(id) = agent else { return };
        if let Some(sub_agent) = self.sub_agents.get_mut(id) {
            sub_agent.tokens.add(tokens);
            sub_agent.last_text = text.unwrap_or_default();
        }
    }

    /// Reports the result of a sub-agent.
    pub(crate) fn finish_sub_agent(&mut self, id: &str) {
        if !self.start_sub_agent_stop_hooks(id) {
            self.on_sub_agent_stop_hooks_done(id);
        }
    }

    /// All hooks for the end of a sub-agent have answered.
    pub(crate) fn on_sub_agent_stop_hooks_done(&mut self, id: &str) {
        let sub_agent = self.sub_agents.get_mut(id);
        let Some(feedback) = sub_agent.and_then(|agent| {
            let feedback = agent.stop_feedback.take();
            agent.stop_blocked |= feedback.is_some();
            feedback
        }) else {
            self.end_sub_agent(id);
            return;
        };
        let agent = PlayerAgent::SubAgent(id.to_owned());
        let content = json!([{ "type": "text", "text": feedback }]);
        let uuid = self.ids.uuid();
        self.add_history_of(
            &agent,
            PlayerHistoryEntry { uuid, role: "user".into(), content, prompt: false },
        );
        self.request_model(&agent);
    }

    /// Ends a sub-agent after its hooks.
    fn end_sub_agent(&mut self, id: &str) {
        let Some(sub_agent) = self.sub_agents.remove(id) else { return };
        self.tasks.sub_agent_ended(false);
        let millis = stamps::millis_between(sub_agent.started_at, self.now);
        let output = self.output_path(id);
        let total = sub_agent.tokens.total();
        self.print_task_ended(id, &sub_agent.run_id, "completed");
        self.print_system(
            "task_notification",
            json!({
                "task_id": id, "run_id": sub_agent.run_id, "tool_use_id": sub_agent.call,
                "status": "completed", "output_file": output, "summary": sub_agent.last_text,
                "usage": {
                    "total_tokens": total, "tool_uses": sub_agent.tools, "duration_ms": millis,
                },
            }),
        );
        if sub_agent.team.is_some() {
            self.print_tasks();
            return;
        }
        if sub_agent.background {
            self.print_tasks();
            self.queue_task_notification(
                id,
                &sub_agent.call,
                &sub_agent.run_id,
                &output,
                "completed",
                &sub_agent.last_text,
            );
            return;
        }
        let text = if self.has(PlayerBehavior::PlainSubagentReports) {
            sub_agent.last_text.clone()
        } else {
            texts::sub_agent_report(id, &sub_agent.last_text, sub_agent.tools, millis)
        };
        let report = json!({
            "status": "completed", "prompt": sub_agent.prompt, "agentId": id,
            "agentType": sub_agent.kind, "harnessNoteCount": 0, "harnessTailCount": 0,
            "content": [{ "type": "text", "text": sub_agent.last_text }],
            "resolvedModel": self.model(), "totalDurationMs": millis, "totalTokens": total,
            "totalToolUseCount": sub_agent.tools, "usage": sub_agent.tokens.usage(),
            "canContinueAgent": true,
        });
        let content = json!([{ "type": "text", "text": text }]);
        self.finish_call(&sub_agent.call, ToolOutcome::plain(content, report));
    }

    /// Kills a sub-agent.
    pub(crate) fn kill_sub_agent(&mut self, id: &str) {
        let Some(sub_agent) = self.sub_agents.get(id) else { return };
        let pending = sub_agent.conversation.pending.as_ref().map(|pending| pending.number);
        let (run, call, description) =
            (sub_agent.run_id.clone(), sub_agent.call.clone(), sub_agent.description.clone());
        if let Some(number) = pending {
            self.effects.push(PlayerEffect::CancelRequest(number));
        }
        self.stop_calls(&PlayerAgent::SubAgent(id.to_owned()));
        self.sub_agents.remove(id);
        self.tasks.sub_agent_ended(true);
        let output = self.output_path(id);
        self.print_task_ended(id, &run, "killed");
        self.print_system(
            "task_notification",
            json!({
                "task_id": id, "run_id": run, "tool_use_id": call, "status": "stopped",
                "output_file": output, "summary": description,
            }),
        );
        self.print_tasks();
    }

    /// The fields that name the sub-agents that wait for the model or are being answered.
    pub(crate) fn replying_sub_agents(&self) -> Vec<Map<String, Value>> {
        let replying = self.sub_agents.values().filter(|it| it.conversation.pending.is_some());
        let fields = replying.map(|sub_agent| {
            let mut fields = Map::new();
            self.add_origin_fields(&mut fields, &sub_agent.conversation.agent);
            fields
        });
        fields.collect()
    }

    /// Prints that sub-agents were interrupted, which are gone already.
    pub(crate) fn print_interrupted_sub_agents(&mut self) {
        for mut line in std::mem::take(&mut self.interrupted_sub_agents) {
            let content = json!([{ "type": "text", "text": "[Request interrupted by user]" }]);
            line.insert("type".to_owned(), "user".into());
            line.insert("message".to_owned(), json!({ "role": "user", "content": content }));
            line.insert("uuid".to_owned(), self.ids.uuid().into());
            line.insert("timestamp".to_owned(), stamps::timestamp(self.now).into());
            self.print(Value::Object(line));
        }
    }

    /// Kills all sub-agents.
    pub(crate) fn kill_sub_agents(&mut self) {
        let sub_agents: Vec<String> = self.sub_agents.keys().cloned().collect();
        for sub_agent in sub_agents {
            self.kill_sub_agent(&sub_agent);
        }
    }
}
