//! Sub-agents: helpers that talk with the model on their own.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::Session;
use super::call::Call;
use super::talk::{Speaker, Talk};
use crate::play::clock;
use crate::play::effect::Effect;
use crate::play::history::{Entry, History};
use crate::play::input::Outcome;
use crate::play::tally::Tokens;
use crate::play::wording;

/// A sub-agent.
#[derive(Debug)]
pub(crate) struct Helper {
    pub(crate) id: String,
    pub(crate) run: String,
    /// The call that started it.
    pub(crate) call: String,
    pub(crate) kind: String,
    pub(crate) description: String,
    pub(crate) prompt: String,
    /// Whether nobody waits for it.
    pub(crate) background: bool,
    pub(crate) talk: Talk,
    began: SystemTime,
    tools: u32,
    tokens: Tokens,
    said: String,
}

impl Session {
    /// Starts a helper: in the background, unless the call wants otherwise.
    pub(super) fn start_helper(&mut self, call: &str, input: &Value) {
        let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
        let kind = input["subagent_type"].as_str().unwrap_or("general-purpose").to_owned();
        let agents = self.agent_names();
        if !agents.contains(&kind.as_str()) {
            let text =
                format!("Agent type '{kind}' not found. Available agents: {}", agents.join(", "));
            self.done(call, Outcome::failure(&text));
            return;
        }
        let background = input["run_in_background"] != false;
        let id = format!("a{}", self.ids.hex(16));
        let run = self.run_id();
        let mut talk = Talk::resumed(Speaker::Helper(id.clone()), History::default());
        let uuid = self.ids.uuid();
        let content = json!([{ "type": "text", "text": text("prompt") }]);
        talk.history.push(Entry {
            uuid,
            role: "user".into(),
            content: content.clone(),
            prompt: true,
        });
        let helper = Helper {
            id: id.clone(),
            run: run.clone(),
            call: call.to_owned(),
            kind: kind.clone(),
            description: text("description"),
            prompt: text("prompt"),
            background,
            talk,
            began: self.now,
            tools: 0,
            tokens: Tokens::default(),
            said: String::new(),
        };
        self.tasks.helper_started(background);
        self.helpers.insert(id.clone(), helper);
        if background {
            self.print_tasks();
        }
        self.system(
            "task_started",
            json!({
                "task_id": id, "run_id": run, "tool_use_id": call,
                "description": text("description"), "subagent_type": kind,
                "is_backgrounded": background, "spawn_depth": 1, "task_type": "local_agent",
                "prompt": text("prompt"),
            }),
        );
        if background {
            let output = self.output_path(&id);
            let report = json!({
                "isAsync": true, "status": "async_launched", "agentId": id,
                "description": text("description"), "resolvedModel": self.model(),
                "prompt": text("prompt"), "outputFile": output, "canReadOutputFile": true,
                "canContinueAgent": true,
            });
            let content = json!([{ "type": "text", "text": wording::launched(&id, &output) }]);
            self.done(call, Outcome::plain(content, report));
        } else {
            self.user(&Speaker::Helper(id.clone()), &content, json!({}));
        }
        self.request(&Speaker::Helper(id));
    }

    /// Tells what a helper is about to do.
    pub(super) fn helper_progress(&mut self, speaker: &Speaker, call: &Call) {
        let Speaker::Helper(id) = speaker else { return };
        let now = self.now;
        let Some(helper) = self.helpers.get_mut(id) else { return };
        helper.tools += 1;
        if !helper.background {
            return;
        }
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
            "task_id": helper.id, "run_id": helper.run, "tool_use_id": helper.call,
            "description": what, "subagent_type": helper.kind,
            "usage": {
                "total_tokens": helper.tokens.total(), "tool_uses": helper.tools,
                "duration_ms": clock::between(helper.began, now),
            },
            "last_tool_name": call.tool,
        });
        self.system("task_progress", fields);
    }

    /// Counts what a helper used, and remembers what it said.
    pub(super) fn count_helper(&mut self, speaker: &Speaker, tokens: Tokens, text: Option<String>) {
        let Speaker::Helper(id) = speaker else { return };
        if let Some(helper) = self.helpers.get_mut(id) {
            helper.tokens.add(tokens);
            helper.said = text.unwrap_or_default();
        }
    }

    /// A helper has nothing more to say.
    pub(super) fn helper_done(&mut self, id: &str) {
        let Some(helper) = self.helpers.remove(id) else { return };
        self.tasks.helper_ended(false);
        let millis = clock::between(helper.began, self.now);
        let output = self.output_path(id);
        let total = helper.tokens.total();
        self.print_ended(id, &helper.run, "completed");
        self.system(
            "task_notification",
            json!({
                "task_id": id, "run_id": helper.run, "tool_use_id": helper.call,
                "status": "completed", "output_file": output, "summary": helper.said,
                "usage": {
                    "total_tokens": total, "tool_uses": helper.tools, "duration_ms": millis,
                },
            }),
        );
        if helper.background {
            self.print_tasks();
            self.notify(id, &helper.call, &helper.run, &output, "completed", &helper.said);
            return;
        }
        let text = wording::handed_back(id, &helper.said, helper.tools, millis);
        let report = json!({
            "status": "completed", "prompt": helper.prompt, "agentId": id,
            "agentType": helper.kind, "harnessNoteCount": 0, "harnessTailCount": 0,
            "content": [{ "type": "text", "text": helper.said }],
            "resolvedModel": self.model(), "totalDurationMs": millis, "totalTokens": total,
            "totalToolUseCount": helper.tools, "usage": helper.tokens.usage(),
            "canContinueAgent": true,
        });
        let content = json!([{ "type": "text", "text": text }]);
        self.done(&helper.call, Outcome::plain(content, report));
    }

    /// Ends a helper.
    pub(super) fn kill_helper(&mut self, id: &str) {
        let Some(helper) = self.helpers.get(id) else { return };
        let asked = helper.talk.asked.as_ref().map(|asked| asked.number);
        let (run, call, description) =
            (helper.run.clone(), helper.call.clone(), helper.description.clone());
        if let Some(number) = asked {
            self.effects.push(Effect::Hush(number));
        }
        self.stop_calls(&Speaker::Helper(id.to_owned()));
        self.helpers.remove(id);
        self.tasks.helper_ended(true);
        let output = self.output_path(id);
        self.print_ended(id, &run, "killed");
        self.system(
            "task_notification",
            json!({
                "task_id": id, "run_id": run, "tool_use_id": call, "status": "stopped",
                "output_file": output, "summary": description,
            }),
        );
        self.print_tasks();
    }

    /// Ends every helper.
    pub(super) fn kill_helpers(&mut self) {
        let helpers: Vec<String> = self.helpers.keys().cloned().collect();
        for helper in helpers {
            self.kill_helper(&helper);
        }
    }
}
