//! Hooks: the host's, over the wire, and those of settings files, as commands.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::Session;
use super::asks::{Ask, HookAbout};
use super::call::{HookVerdict, Stage};
use super::turn::TurnStage;
use crate::play::clock;
use crate::play::effect::{Effect, Timer};
use crate::play::input::{HookReport, Outcome};
use crate::play::queue::Prompt;
use crate::play::wording;

/// Hooks that the host registered.
#[derive(Debug, Default)]
pub(crate) struct HostHooks {
    hooks: Vec<HostHook>,
    /// Commands that run, and what they look at.
    running: BTreeMap<String, (HookAbout, String)>,
}

#[derive(Clone, Debug)]
struct HostHook {
    event: String,
    matcher: Option<String>,
    callback: String,
    limit: Option<Duration>,
}

impl HostHooks {
    /// Reads `hooks` of an `initialize` request.
    pub(super) fn register(&mut self, hooks: &Value) {
        let events = hooks.as_object().into_iter().flatten();
        self.hooks.clear();
        for (event, matchers) in events {
            for matcher in matchers.as_array().into_iter().flatten() {
                let ids = matcher["hookCallbackIds"].as_array().into_iter().flatten();
                let limit = matcher["timeout"].as_f64().map(Duration::from_secs_f64);
                self.hooks.extend(ids.filter_map(Value::as_str).map(|callback| HostHook {
                    event: event.clone(),
                    matcher: matcher["matcher"].as_str().map(str::to_owned),
                    callback: callback.to_owned(),
                    limit,
                }));
            }
        }
    }
}

/// Whether a matcher is about a tool: all of them, or one of several names.
fn is_about(matcher: Option<&str>, tool: &str) -> bool {
    match matcher {
        None | Some("" | "*") => true,
        Some(matcher) => matcher.split('|').any(|name| {
            name == tool || name.strip_suffix(".*").is_some_and(|start| tool.starts_with(start))
        }),
    }
}

impl Session {
    /// Starts every hook about an event; whether there is any.
    fn hook(&mut self, event: &str, tool: &str, about: &HookAbout, input: Value) -> bool {
        let mut whole = json!({
            "session_id": self.id, "transcript_path": self.transcript_path(),
            "cwd": self.around.cwd.display().to_string(),
            "prompt_id": self.turn.as_ref().map(|turn| turn.prompt_id.clone()),
            "permission_mode": self.mode.name(), "hook_event_name": event,
        });
        if event != "UserPromptSubmit" {
            whole["effort"] = json!({ "level": self.effort });
        }
        if let (Some(whole), Value::Object(input)) = (whole.as_object_mut(), input) {
            whole.extend(input);
        }
        let commands = self.hook_commands(event, tool, about, &whole);
        let asked = self.hook_callbacks(event, tool, about, &whole);
        commands || asked
    }

    fn hook_callbacks(
        &mut self,
        event: &str,
        tool: &str,
        about: &HookAbout,
        input: &Value,
    ) -> bool {
        if !self.input_open {
            return false;
        }
        let hooks = self.host_hooks.hooks.iter();
        let hooks: Vec<HostHook> = hooks
            .filter(|hook| hook.event == event && is_about(hook.matcher.as_deref(), tool))
            .cloned()
            .collect();
        for hook in &hooks {
            let call = match about {
                HookAbout::Before(call) | HookAbout::After(call) => call.clone(),
                HookAbout::Start | HookAbout::Prompt | HookAbout::Stop => self.ids.uuid(),
            };
            let request = json!({
                "subtype": "hook_callback", "callback_id": hook.callback, "input": input,
                "tool_use_id": call,
            });
            let ask = Ask::Hook { about: about.clone(), callback: hook.callback.clone() };
            let id = self.ask_host(ask, &request);
            if let Some(after) = hook.limit {
                self.effects.push(Effect::Wake { timer: Timer::Hook(id), after });
            }
        }
        !hooks.is_empty()
    }

    fn hook_commands(&mut self, event: &str, tool: &str, about: &HookAbout, input: &Value) -> bool {
        let hooks = self.command_hooks.iter();
        let hooks: Vec<_> = hooks
            .filter(|hook| hook.event == event && is_about(hook.matcher.as_deref(), tool))
            .cloned()
            .collect();
        for hook in &hooks {
            let id = self.ids.uuid();
            let name = match event {
                "SessionStart" => "SessionStart:startup".to_owned(),
                _ if tool.is_empty() => event.to_owned(),
                _ => format!("{event}:{tool}"),
            };
            if self.arguments.hook_events || *about == HookAbout::Start {
                self.system(
                    "hook_started",
                    json!({ "hook_id": id, "hook_name": name, "hook_event": event }),
                );
            }
            self.host_hooks.running.insert(id.clone(), (about.clone(), hook.command.clone()));
            let (command, input, limit) = (hook.command.clone(), input.clone(), hook.limit);
            self.effects.push(Effect::Hook { id, command, input, limit });
        }
        !hooks.is_empty()
    }

    /// Hooks of the settings see the session start; whether there is any. 2.1.325 asks no host.
    pub(super) fn hook_start(&mut self) -> bool {
        self.started = true;
        let source = if self.talk.history.entries().is_empty() { "startup" } else { "resume" };
        let input = json!({
            "session_id": self.id, "transcript_path": self.transcript_path(),
            "cwd": self.around.cwd.display().to_string(), "hook_event_name": "SessionStart",
            "source": source,
        });
        self.hook_commands("SessionStart", "", &HookAbout::Start, &input)
    }

    /// Whether anybody looks at anything.
    pub(super) fn has_hooks(&self) -> bool {
        !self.host_hooks.hooks.is_empty() || !self.command_hooks.is_empty()
    }

    /// Whether hooks of the start have yet to end.
    pub(super) fn is_starting(&self) -> bool {
        self.host_hooks.running.values().any(|(about, _)| *about == HookAbout::Start)
    }

    /// Hooks look at a prompt; whether there is any.
    pub(super) fn hook_prompt(&mut self, prompt: &str) -> bool {
        self.hook("UserPromptSubmit", "", &HookAbout::Prompt, json!({ "prompt": prompt }))
    }

    /// Hooks look at a call; without any it is decided at once.
    pub(super) fn hook_call(&mut self, id: &str) {
        let Some(call) = self.call(id) else { return };
        call.stage = Stage::Hooked;
        let tool = call.tool.clone();
        let input = json!({ "tool_name": tool, "tool_input": call.input, "tool_use_id": id });
        if !self.hook("PreToolUse", &tool, &HookAbout::Before(id.to_owned()), input) {
            self.decide(id);
        }
    }

    /// Hooks look at what came of a call; whether there is any.
    pub(super) fn hook_done(&mut self, id: &str) -> bool {
        let now = self.now;
        let Some(call) = self.call(id) else { return false };
        call.stage = Stage::Told;
        let tool = call.tool.clone();
        let response = call.outcome.as_ref().map(|outcome| outcome.report.clone());
        let input = json!({
            "tool_name": tool, "tool_input": call.input, "tool_response": response,
            "tool_use_id": id, "duration_ms": clock::between(call.began.unwrap_or(now), now),
        });
        self.hook("PostToolUse", &tool, &HookAbout::After(id.to_owned()), input)
    }

    /// Hooks look at the end of a turn; whether there is any.
    pub(super) fn hook_stop(&mut self) -> bool {
        let Some(turn) = &mut self.turn else { return false };
        turn.stage = TurnStage::Stopping;
        let input = json!({
            "stop_hook_active": turn.held, "last_assistant_message": turn.text,
            "background_tasks": [], "session_crons": [],
        });
        self.hook("Stop", "", &HookAbout::Stop, input)
    }

    /// A hook of the host answered.
    pub(super) fn hook_answered(&mut self, about: &HookAbout, callback: &str, response: &Value) {
        let event = match about {
            HookAbout::Start => "SessionStart",
            HookAbout::Prompt => "UserPromptSubmit",
            HookAbout::Before(_) => "PreToolUse",
            HookAbout::After(_) => "PostToolUse",
            HookAbout::Stop => "Stop",
        };
        if response["subtype"] == "error" {
            let content = format!(
                "{event}: Hook callback {callback} failed: the SDK host replied with an error or an \
                 invalid answer. Its answer was treated as empty."
            );
            let tag = "hook_callback_failed";
            self.system(
                "informational",
                json!({ "content": content, "level": "warning", "tag": tag }),
            );
        }
        let answer = response["response"].clone();
        self.obey(about, event, &answer);
        self.hooked(about);
    }

    /// Does what a hook says.
    fn obey(&mut self, about: &HookAbout, event: &str, answer: &Value) {
        let specific = &answer["hookSpecificOutput"];
        let reason = specific["permissionDecisionReason"].as_str().or(answer["reason"].as_str());
        let reason = reason.unwrap_or("Blocked by hook").to_owned();
        let blocks = answer["decision"] == "block";
        match about {
            HookAbout::Prompt => {
                let Some(turn) = &mut self.turn else { return };
                if blocks {
                    turn.blocked.get_or_insert(reason);
                }
                if let Some(context) = specific["additionalContext"].as_str() {
                    turn.context.push(format!("{event} hook additional context: {context}"));
                }
            }
            HookAbout::Before(id) => {
                let Some(call) = self.call(id) else { return };
                if specific["updatedInput"].is_object() {
                    call.input = specific["updatedInput"].clone();
                }
                match specific["permissionDecision"].as_str() {
                    Some("deny") => call.verdict = Some(HookVerdict::Deny(reason)),
                    _ if blocks => call.verdict = Some(HookVerdict::Deny(reason)),
                    Some("allow") => drop(call.verdict.get_or_insert(HookVerdict::Allow)),
                    Some("ask") => call.verdict = Some(HookVerdict::Ask),
                    _ => {}
                }
            }
            HookAbout::After(id) => {
                let message = answer["systemMessage"].as_str();
                let Some(call) = self.call(id) else { return };
                if let Some(message) = message {
                    let remark = format!("{event}:{} says: {message}", call.tool);
                    call.remarks.push(remark);
                }
            }
            HookAbout::Stop if blocks => self.hold(&reason),
            HookAbout::Start | HookAbout::Stop => {}
        }
    }

    /// A hook keeps the turn from stopping.
    fn hold(&mut self, reason: &str) {
        if let Some(turn) = &mut self.turn {
            turn.context.push(format!("{}{reason}", wording::STOP_FEEDBACK));
        }
    }

    /// Goes on where every hook about something has answered.
    fn hooked(&mut self, about: &HookAbout) {
        let running = self.host_hooks.running.values().any(|(it, _)| it == about);
        if running || self.asks.waits_for(about) {
            return;
        }
        match about {
            HookAbout::Start => {}
            HookAbout::Prompt => self.prompt_hooked(),
            HookAbout::Before(id) => self.decide(id),
            HookAbout::After(id) => self.conclude(id),
            HookAbout::Stop => self.stopped(),
        }
    }

    /// Every hook has seen the prompt, and one may have kept it from the model.
    fn prompt_hooked(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let Some(reason) = turn.blocked.take() else {
            self.open_turn();
            return;
        };
        let prompt = turn.prompts.last().map(Prompt::words).unwrap_or_default();
        self.print_init();
        let content = wording::blocked(&reason, &prompt);
        let outcome = json!({ "kind": "blocked_by_hook", "prompt_kept": false, "reason": reason });
        self.system(
            "informational",
            json!({
                "content": content, "level": "warning", "prevent_continuation": true,
                "prompt_submit_outcome": outcome,
            }),
        );
        self.finish_quietly(&content, None);
    }

    /// A hook of the host took too long.
    pub(super) fn hook_timed_out(&mut self, id: &str) {
        let Some(Ask::Hook { about, callback }) = self.asks.take(id) else { return };
        self.print(json!({ "type": "control_cancel_request", "request_id": id }));
        match &about {
            HookAbout::Before(call) => {
                self.complete(call, Outcome::failure(wording::HOOK_TIMEOUT));
            }
            _ => self.hook_answered(&about, &callback, &json!({ "subtype": "success" })),
        }
    }

    /// A hook of the settings is done.
    pub(super) fn command_hook_done(&mut self, id: &str, report: &HookReport) {
        let Some((about, command)) = self.host_hooks.running.remove(id) else { return };
        let (event, name) = self.hook_name(&about);
        if self.arguments.hook_events || about == HookAbout::Start {
            let outcome = if report.code == Some(0) { "success" } else { "error" };
            self.system(
                "hook_response",
                json!({
                    "hook_id": id, "hook_name": name, "hook_event": event,
                    "output": format!("{}{}", report.stdout, report.stderr),
                    "stdout": report.stdout, "stderr": report.stderr,
                    "exit_code": report.code, "outcome": outcome,
                }),
            );
        }
        let answer = match report.code {
            Some(2) => {
                json!({ "decision": "block", "reason": format!("[{command}]: {}", report.stderr) })
            }
            Some(0) => serde_json::from_str(&report.stdout).unwrap_or_else(|_| match about {
                HookAbout::Prompt if !report.stdout.is_empty() => {
                    json!({ "hookSpecificOutput": { "additionalContext": report.stdout } })
                }
                _ => Value::Null,
            }),
            _ => Value::Null,
        };
        self.obey(&about, event, &answer);
        self.hooked(&about);
    }

    fn hook_name(&mut self, about: &HookAbout) -> (&'static str, String) {
        let mut of_call = |event: &'static str, id: &str| {
            let tool = self.call(id).map(|call| call.tool.clone()).unwrap_or_default();
            (event, format!("{event}:{tool}"))
        };
        match about {
            HookAbout::Start => ("SessionStart", "SessionStart:startup".to_owned()),
            HookAbout::Prompt => ("UserPromptSubmit", "UserPromptSubmit".to_owned()),
            HookAbout::Before(id) => of_call("PreToolUse", id),
            HookAbout::After(id) => of_call("PostToolUse", id),
            HookAbout::Stop => ("Stop", "Stop".to_owned()),
        }
    }
}
