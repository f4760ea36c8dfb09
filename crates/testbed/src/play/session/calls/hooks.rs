//! Hooks: callbacks in the host, and commands of the settings files.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::play::event::{HookCommandOutput, PlayerEffect, PlayerTimer, ToolOutcome};
use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::session::calls::{HookDecision, PlayerCallPhase};
use crate::play::session::conversation::{PlayerAgent, PlayerHistoryEntry};
use crate::play::session::host_requests::{HookSubject, HostRequest, PlayerCompactionStep};
use crate::play::session::queue::PlayerPrompt;
use crate::play::{stamps, texts};

/// Hooks of the host, and the hook commands that are running.
#[derive(Debug, Default)]
pub(crate) struct HostHooks {
    hooks: Vec<HostHook>,
    /// Running hook commands by id, each with its subject and its command line.
    running: BTreeMap<String, (HookSubject, String)>,
}

#[derive(Clone, Debug)]
struct HostHook {
    event: String,
    matcher: Option<String>,
    callback: String,
    timeout: Option<Duration>,
}

impl HostHooks {
    /// Registers the `hooks` of an `initialize` request.
    pub(crate) fn register(&mut self, hooks: &Value) {
        let events = hooks.as_object().into_iter().flatten();
        self.hooks.clear();
        for (event, matchers) in events {
            for matcher in matchers.as_array().into_iter().flatten() {
                let ids = matcher["hookCallbackIds"].as_array().into_iter().flatten();
                let timeout = matcher["timeout"].as_f64().map(Duration::from_secs_f64);
                self.hooks.extend(ids.filter_map(Value::as_str).map(|callback| HostHook {
                    event: event.clone(),
                    matcher: matcher["matcher"].as_str().map(str::to_owned),
                    callback: callback.to_owned(),
                    timeout,
                }));
            }
        }
    }
}

impl PlayerSession {
    /// Starts all hooks for an event. Returns whether there are any.
    fn start_hooks(
        &mut self,
        event: &str,
        tool: &str,
        subject: &HookSubject,
        input: Value,
    ) -> bool {
        let mut full_input = json!({
            "session_id": self.id, "transcript_path": self.transcript_path(),
            "cwd": self.environment.cwd.display().to_string(),
            "prompt_id": self.turn.as_ref().map(|turn| turn.prompt_id.clone()),
            "hook_event_name": event,
        });
        let has_mode = !matches!(subject, HookSubject::Compaction(_) | HookSubject::SubagentStart);
        if has_mode {
            full_input["permission_mode"] = self.mode.name().into();
        }
        if has_mode && event != "UserPromptSubmit" {
            full_input["effort"] = json!({ "level": self.effort });
        }
        if let (Some(full_input), Value::Object(input)) = (full_input.as_object_mut(), input) {
            full_input.extend(input);
        }
        let commands = self.start_command_hooks(event, tool, subject, &full_input);
        let callbacks = self.start_host_hooks(event, tool, subject, &full_input);
        commands || callbacks
    }

    fn start_host_hooks(
        &mut self,
        event: &str,
        tool: &str,
        subject: &HookSubject,
        input: &Value,
    ) -> bool {
        if !self.stdin_open {
            return false;
        }
        let hooks = self.host_hooks.hooks.iter();
        let hooks: Vec<HostHook> = hooks
            .filter(|hook| hook.event == event && applies_to(hook.matcher.as_deref(), tool))
            .cloned()
            .collect();
        for hook in &hooks {
            let call = match subject {
                HookSubject::PreToolUse(call) | HookSubject::PostToolUse(call) => call.clone(),
                HookSubject::SessionStart
                | HookSubject::Prompt
                | HookSubject::Stop
                | HookSubject::Compaction(_)
                | HookSubject::SubagentStart
                | HookSubject::SubagentStop(_) => self.ids.uuid(),
            };
            let request = json!({
                "subtype": "hook_callback", "callback_id": hook.callback, "input": input,
                "tool_use_id": call,
            });
            let kind =
                HostRequest::Hook { subject: subject.clone(), callback: hook.callback.clone() };
            let id = self.send_host_request(kind, &request);
            if let Some(after) = hook.timeout {
                self.effects.push(PlayerEffect::StartTimer { timer: PlayerTimer::Hook(id), after });
            }
        }
        !hooks.is_empty()
    }

    fn start_command_hooks(
        &mut self,
        event: &str,
        tool: &str,
        subject: &HookSubject,
        input: &Value,
    ) -> bool {
        let hooks = self.command_hooks.iter();
        let hooks: Vec<_> = hooks
            .filter(|hook| hook.event == event && applies_to(hook.matcher.as_deref(), tool))
            .cloned()
            .collect();
        for hook in &hooks {
            let id = self.ids.uuid();
            let name = match event {
                "SessionStart" if tool.is_empty() => "SessionStart:startup".to_owned(),
                _ if tool.is_empty() => event.to_owned(),
                _ => format!("{event}:{tool}"),
            };
            if self.args.hook_events || *subject == HookSubject::SessionStart {
                self.print_system(
                    "hook_started",
                    json!({ "hook_id": id, "hook_name": name, "hook_event": event }),
                );
            }
            self.host_hooks.running.insert(id.clone(), (subject.clone(), hook.command.clone()));
            let (command, input, timeout) = (hook.command.clone(), input.clone(), hook.timeout);
            self.effects.push(PlayerEffect::RunHook { id, command, input, timeout });
        }
        !hooks.is_empty()
    }

    /// Starts the `SessionStart` hooks. Returns whether there are any. 2.1.325 runs only commands for
    /// this event.
    pub(crate) fn start_session_hooks(&mut self) -> bool {
        self.started = true;
        let source =
            if self.conversation.history.entries().is_empty() { "startup" } else { "resume" };
        let input = json!({
            "session_id": self.id, "transcript_path": self.transcript_path(),
            "cwd": self.environment.cwd.display().to_string(), "hook_event_name": "SessionStart",
            "source": source,
        });
        self.start_command_hooks("SessionStart", "", &HookSubject::SessionStart, &input)
    }

    pub(crate) fn has_hooks(&self) -> bool {
        !self.host_hooks.hooks.is_empty() || !self.command_hooks.is_empty()
    }

    pub(crate) fn session_hooks_running(&self) -> bool {
        self.host_hooks.running.values().any(|(subject, _)| *subject == HookSubject::SessionStart)
    }

    /// Starts the hooks for a prompt. Returns whether there are any.
    pub(crate) fn start_prompt_hooks(&mut self, prompt: &str) -> bool {
        self.start_hooks("UserPromptSubmit", "", &HookSubject::Prompt, json!({ "prompt": prompt }))
    }

    /// Starts the hooks for a call. Without any, the permission is decided at once.
    pub(crate) fn start_pre_tool_hooks(&mut self, id: &str) {
        let Some(call) = self.call(id) else { return };
        call.phase = PlayerCallPhase::PreToolHooks;
        let tool = call.tool.clone();
        let input = json!({ "tool_name": tool, "tool_input": call.input, "tool_use_id": id });
        if !self.start_hooks("PreToolUse", &tool, &HookSubject::PreToolUse(id.to_owned()), input) {
            self.decide_call(id);
        }
    }

    /// Starts the hooks for the outcome of a call. Returns whether there are any.
    pub(crate) fn start_post_tool_hooks(&mut self, id: &str) -> bool {
        let now = self.now;
        let Some(call) = self.call(id) else { return false };
        call.phase = PlayerCallPhase::PostToolHooks;
        let tool = call.tool.clone();
        let response = call.outcome.as_ref().map(|outcome| outcome.report.clone());
        let input = json!({
            "tool_name": tool, "tool_input": call.input, "tool_response": response,
            "tool_use_id": id, "duration_ms": stamps::millis_between(call.started_at.unwrap_or(now), now),
        });
        self.start_hooks("PostToolUse", &tool, &HookSubject::PostToolUse(id.to_owned()), input)
    }

    /// Starts the hooks for the end of a turn. Returns whether there are any.
    pub(crate) fn start_stop_hooks(&mut self) -> bool {
        let Some(turn) = &self.turn else { return false };
        let input = json!({
            "stop_hook_active": turn.stop_blocked, "last_assistant_message": turn.text,
            "background_tasks": [], "session_crons": [],
        });
        self.start_hooks("Stop", "", &HookSubject::Stop, input)
    }

    /// Starts the hooks for a step of a compaction. Without any, it goes on at once.
    pub(crate) fn start_compaction_hooks(&mut self, step: &PlayerCompactionStep) {
        let (event, matched) = (step.event(), step.matched());
        let input = match step {
            PlayerCompactionStep::Before(instructions) => {
                json!({ "trigger": "manual", "custom_instructions": instructions })
            }
            PlayerCompactionStep::Started(_) => {
                json!({ "source": "compact", "model": self.model() })
            }
            PlayerCompactionStep::After(summary) => {
                json!({ "trigger": "manual", "compact_summary": summary })
            }
        };
        if !self.start_hooks(event, matched, &HookSubject::Compaction(step.clone()), input) {
            self.continue_compaction(step);
        }
    }

    /// Starts the hooks for a new sub-agent, which does not wait for them.
    pub(crate) fn start_sub_agent_hooks(&mut self, id: &str, kind: &str) {
        let input = json!({ "agent_id": id, "agent_type": kind });
        self.start_hooks("SubagentStart", kind, &HookSubject::SubagentStart, input);
    }

    /// Starts the hooks for the end of a sub-agent. Returns whether there are any.
    pub(crate) fn start_sub_agent_stop_hooks(&mut self, id: &str) -> bool {
        let Some(agent) = self.sub_agents.get(id) else { return false };
        let (kind, text) = (agent.kind.clone(), agent.last_text.clone());
        let transcript = self.transcript_path();
        let folder = transcript.strip_suffix(".jsonl").unwrap_or(&transcript);
        let task = json!({
            "id": id, "type": "subagent", "status": "running", "description": agent.description,
            "agent_type": kind,
        });
        let input = json!({
            "agent_id": id, "agent_type": kind, "stop_hook_active": agent.stop_blocked,
            "agent_transcript_path": format!("{folder}/subagents/agent-{id}.jsonl"),
            "last_assistant_message": text, "background_tasks": [task], "session_crons": [],
        });
        self.start_hooks("SubagentStop", &kind, &HookSubject::SubagentStop(id.to_owned()), input)
    }

    pub(crate) fn on_host_hook_answer(
        &mut self,
        subject: &HookSubject,
        callback: &str,
        response: &Value,
    ) {
        let event = match subject {
            HookSubject::SessionStart => "SessionStart",
            HookSubject::Prompt => "UserPromptSubmit",
            HookSubject::PreToolUse(_) => "PreToolUse",
            HookSubject::PostToolUse(_) => "PostToolUse",
            HookSubject::Stop => "Stop",
            HookSubject::Compaction(step) => step.event(),
            HookSubject::SubagentStart => "SubagentStart",
            HookSubject::SubagentStop(_) => "SubagentStop",
        };
        if response["subtype"] == "error" {
            let content = format!(
                "{event}: Hook callback {callback} failed: the SDK host replied with an error or an \
                 invalid answer. Its answer was treated as empty."
            );
            let tag = "hook_callback_failed";
            self.print_system(
                "informational",
                json!({ "content": content, "level": "warning", "tag": tag }),
            );
        }
        let answer = response["response"].clone();
        self.apply_hook_output(subject, event, &answer);
        self.on_hooks_done(subject);
    }

    /// Applies the output of a hook.
    fn apply_hook_output(&mut self, subject: &HookSubject, event: &str, answer: &Value) {
        let specific = &answer["hookSpecificOutput"];
        let reason = specific["permissionDecisionReason"].as_str().or(answer["reason"].as_str());
        let reason = reason.unwrap_or("Blocked by hook").to_owned();
        let blocks = answer["decision"] == "block";
        if answer["continue"] == false
            && let Some(turn) = &mut self.turn
        {
            let reason = answer["stopReason"].as_str().unwrap_or_default();
            turn.stopped.get_or_insert(reason.to_owned());
        }
        match subject {
            HookSubject::Prompt => {
                let Some(turn) = &mut self.turn else { return };
                if blocks {
                    turn.blocked.get_or_insert(reason);
                }
                if let Some(context) = specific["additionalContext"].as_str() {
                    turn.context.push(format!("{event} hook additional context: {context}"));
                }
            }
            HookSubject::PreToolUse(id) => {
                let Some(call) = self.call(id) else { return };
                if specific["updatedInput"].is_object() {
                    call.input = specific["updatedInput"].clone();
                }
                match specific["permissionDecision"].as_str() {
                    Some("deny") => call.hook_decision = Some(HookDecision::Deny(reason)),
                    _ if blocks => call.hook_decision = Some(HookDecision::Deny(reason)),
                    Some("allow") => drop(call.hook_decision.get_or_insert(HookDecision::Allow)),
                    Some("defer") => call.hook_decision = Some(HookDecision::Defer),
                    Some("ask") => call.hook_decision = Some(HookDecision::Ask),
                    _ => {}
                }
            }
            HookSubject::Stop if blocks => self.block_stop(&reason),
            HookSubject::SubagentStop(id) if blocks => {
                if let Some(agent) = self.sub_agents.get_mut(id) {
                    agent.stop_feedback = Some(format!("{}{reason}", texts::STOP_FEEDBACK));
                }
            }
            HookSubject::SessionStart
            | HookSubject::PostToolUse(_)
            | HookSubject::Stop
            | HookSubject::Compaction(_)
            | HookSubject::SubagentStart
            | HookSubject::SubagentStop(_) => {}
        }
    }

    /// Keeps the turn from ending.
    fn block_stop(&mut self, reason: &str) {
        if let Some(turn) = &mut self.turn {
            turn.context.push(format!("{}{reason}", texts::STOP_FEEDBACK));
        }
    }

    /// Continues once all hooks for a subject have answered.
    fn on_hooks_done(&mut self, subject: &HookSubject) {
        let running = self.host_hooks.running.values().any(|(it, _)| it == subject);
        if running || self.host_requests.waits_for(subject) {
            return;
        }
        match subject {
            HookSubject::SessionStart | HookSubject::SubagentStart => {}
            HookSubject::Compaction(step) => self.continue_compaction(step),
            HookSubject::SubagentStop(id) => self.on_sub_agent_stop_hooks_done(id),
            HookSubject::Prompt => self.on_prompt_hooks_done(),
            HookSubject::PreToolUse(id) => self.decide_call(id),
            HookSubject::PostToolUse(id) => self.complete_after_hooks(id),
            HookSubject::Stop => self.on_stop_hooks_done(),
        }
    }

    /// Sends the turn to the model, or ends it if a hook blocked the prompt.
    fn on_prompt_hooks_done(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if let Some(reason) = turn.stopped.take() {
            self.stop_prompt(&reason);
            return;
        }
        let Some(reason) = turn.blocked.take() else {
            self.send_turn();
            return;
        };
        let prompt = turn.prompts.last().map(PlayerPrompt::text).unwrap_or_default();
        self.print_init();
        let content = texts::prompt_blocked(&reason, &prompt);
        let outcome = json!({ "kind": "blocked_by_hook", "prompt_kept": false, "reason": reason });
        self.print_system(
            "informational",
            json!({
                "content": content, "level": "warning", "prevent_continuation": true,
                "prompt_submit_outcome": outcome,
            }),
        );
        self.finish_without_model(&content, None);
    }

    /// Ends a turn that a hook has stopped before the model saw it. 2.1.325 keeps the prompt.
    fn stop_prompt(&mut self, reason: &str) {
        self.print_init();
        self.add_turn_prompts();
        let content = format!("Operation stopped by hook: {reason}");
        let uuid = self.ids.uuid();
        self.add_history(PlayerHistoryEntry {
            uuid,
            role: "user".into(),
            content: content.clone().into(),
            prompt: false,
        });
        let outcome = json!({ "kind": "stopped_by_hook", "prompt_kept": true, "reason": reason });
        self.print_system(
            "informational",
            json!({
                "content": content, "level": "warning", "prevent_continuation": true,
                "prompt_submit_outcome": outcome,
            }),
        );
        self.finish_without_model(&content, None);
    }

    /// Ends the turn without running a call, which the host is told about. In the history the calls of
    /// the reply get the result that 2.1.325 gives to calls without one.
    pub(crate) fn defer_call(&mut self, id: &str) {
        let Some(call) = self.call(id) else { return };
        let deferred = json!({ "id": call.id, "name": call.tool, "input": call.input });
        let mut calls = std::mem::take(&mut self.conversation.calls);
        for call in calls.iter_mut().filter(|call| call.result.is_none()) {
            call.result = Some(call.result_block(&ToolOutcome::failure(texts::MISSING_RESULT)));
        }
        self.add_call_results(&PlayerAgent::Main, &calls);
        self.finish_deferred(&deferred);
    }

    pub(crate) fn on_hook_timeout(&mut self, id: &str) {
        let Some(HostRequest::Hook { subject, callback }) = self.host_requests.take(id) else {
            return;
        };
        self.print(json!({ "type": "control_cancel_request", "request_id": id }));
        match &subject {
            HookSubject::PreToolUse(call) if self.has(PlayerBehavior::HookTimeoutDenies) => {
                self.complete_call(call, ToolOutcome::failure(texts::HOOK_TIMEOUT));
            }
            _ => self.on_host_hook_answer(&subject, &callback, &json!({ "subtype": "success" })),
        }
    }

    pub(crate) fn on_command_hook_done(&mut self, id: &str, output: &HookCommandOutput) {
        let Some((subject, command)) = self.host_hooks.running.remove(id) else { return };
        let (event, name) = self.hook_name(&subject);
        if self.args.hook_events || subject == HookSubject::SessionStart {
            let outcome = if output.code == Some(0) { "success" } else { "error" };
            self.print_system(
                "hook_response",
                json!({
                    "hook_id": id, "hook_name": name, "hook_event": event,
                    "output": format!("{}{}", output.stdout, output.stderr),
                    "stdout": output.stdout, "stderr": output.stderr,
                    "exit_code": output.code, "outcome": outcome,
                }),
            );
        }
        let answer = match output.code {
            Some(2) => {
                json!({ "decision": "block", "reason": format!("[{command}]: {}", output.stderr) })
            }
            Some(0) => serde_json::from_str(&output.stdout).unwrap_or_else(|_| match subject {
                HookSubject::Prompt if !output.stdout.is_empty() => {
                    json!({ "hookSpecificOutput": { "additionalContext": output.stdout } })
                }
                _ => Value::Null,
            }),
            _ => Value::Null,
        };
        self.apply_hook_output(&subject, event, &answer);
        self.on_hooks_done(&subject);
    }

    fn hook_name(&mut self, subject: &HookSubject) -> (&'static str, String) {
        let mut of_call = |event: &'static str, id: &str| {
            let tool = self.call(id).map(|call| call.tool.clone()).unwrap_or_default();
            (event, format!("{event}:{tool}"))
        };
        match subject {
            HookSubject::SessionStart => ("SessionStart", "SessionStart:startup".to_owned()),
            HookSubject::Prompt => ("UserPromptSubmit", "UserPromptSubmit".to_owned()),
            HookSubject::PreToolUse(id) => of_call("PreToolUse", id),
            HookSubject::PostToolUse(id) => of_call("PostToolUse", id),
            HookSubject::Stop => ("Stop", "Stop".to_owned()),
            HookSubject::Compaction(step) => (step.event(), step.event().to_owned()),
            HookSubject::SubagentStart => ("SubagentStart", "SubagentStart".to_owned()),
            HookSubject::SubagentStop(_) => ("SubagentStop", "SubagentStop".to_owned()),
        }
    }
}

/// Whether a matcher applies to a tool. It is empty, `*`, or a list of names.
fn applies_to(matcher: Option<&str>, tool: &str) -> bool {
    match matcher {
        None | Some("" | "*") => true,
        Some(matcher) => matcher.split('|').any(|name| {
            name == tool || name.strip_suffix(".*").is_some_and(|start| tool.starts_with(start))
        }),
    }
}
