//! Tool calls: inspected, permitted, run and answered.

mod builtin;
mod hooks;

pub(crate) use hooks::HostHooks;

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::play::event::{
    CallInspection, PlayerEffect, ToolErrorFlag, ToolInvocation, ToolOutcome,
};
use crate::play::permission::{
    PermissionContext, PlayerMode, PlayerPermissionAnswer, PlayerPermissionDecision,
    PlayerPermissionQuestion, PlayerPermissionUpdate, PlayerRule, RuleBehavior, RuleDestination,
    RuleSource, decide,
};
use crate::play::release::PlayerBehavior;
use crate::play::session::calls::builtin::{invalid_input, unavailable};
use crate::play::session::conversation::{PlayerAgent, PlayerHistoryEntry};
use crate::play::session::{PlayerSession, PlayerState};
use crate::play::texts;

#[derive(Clone, Debug)]
pub(crate) struct PlayerCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) input: Value,
    pub(crate) agent: PlayerAgent,
    pub(crate) phase: PlayerCallPhase,
    /// The `tool_result_meta`: how the permission was decided.
    pub(crate) meta: Option<Value>,
    /// The decision of a hook.
    pub(crate) hook_decision: Option<HookDecision>,
    /// The `tool_result` block for the model.
    pub(crate) result: Option<Value>,
    /// The outcome, while hooks run.
    pub(crate) outcome: Option<ToolOutcome>,
    pub(crate) started_at: Option<SystemTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlayerCallPhase {
    /// Waiting for an earlier call to end.
    Waiting,
    /// Checking its preconditions.
    Inspecting,
    /// Waiting for `PreToolUse` hooks.
    PreToolHooks,
    /// Waiting for the host's permission.
    Permission,
    Running,
    /// Waiting for `PostToolUse` hooks.
    PostToolHooks,
    Done,
}

/// The decision of a `PreToolUse` hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookDecision {
    Allow,
    Deny(String),
    Ask,
    /// The turn ends, and the call is left to the host.
    Defer,
}

impl PlayerCall {
    /// Parses a `tool_use` block.
    pub(crate) fn parse(block: &Value, agent: PlayerAgent) -> Self {
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let tool = match text("name").as_str() {
            "Agent" => "Task".to_owned(),
            name => name.to_owned(),
        };
        Self {
            id: text("id"),
            tool,
            input: block["input"].clone(),
            agent,
            phase: PlayerCallPhase::Waiting,
            meta: None,
            hook_decision: None,
            result: None,
            outcome: None,
            started_at: None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.phase == PlayerCallPhase::Done
    }

    /// Whether it may run in parallel with others like it.
    pub(crate) fn runs_in_parallel(&self) -> bool {
        matches!(self.tool.as_str(), "Read" | "Task" | "WebFetch")
    }

    /// The `tool_result` block of an outcome, with the fields in the order of 2.1.325.
    pub(crate) fn result_block(&self, outcome: &ToolOutcome) -> Value {
        let (id, content) = (&self.id, &outcome.content);
        match outcome.error_flag {
            ToolErrorFlag::Absent => {
                json!({ "tool_use_id": id, "type": "tool_result", "content": content })
            }
            ToolErrorFlag::Success => {
                json!({ "tool_use_id": id, "type": "tool_result", "content": content, "is_error": false })
            }
            ToolErrorFlag::Error => {
                json!({ "type": "tool_result", "content": content, "is_error": true, "tool_use_id": id })
            }
        }
    }
}

impl PlayerSession {
    /// The unfinished call with an id, of any agent.
    pub(crate) fn call(&mut self, id: &str) -> Option<&mut PlayerCall> {
        let sub_agents = self.sub_agents.values_mut().map(|sub_agent| &mut sub_agent.conversation);
        let mut conversations = std::iter::once(&mut self.conversation).chain(sub_agents);
        conversations.find_map(|conversation| {
            conversation.calls.iter_mut().find(|call| call.id == id && !call.is_done())
        })
    }

    /// Starts the calls of an agent that need not wait for an earlier one.
    pub(crate) fn start_ready_calls(&mut self, agent: &PlayerAgent) {
        loop {
            let Some(conversation) = self.conversation(agent) else { return };
            let mut parallel = true;
            let ready = conversation.calls.iter().filter(|call| !call.is_done()).find(|call| {
                let free = parallel && call.runs_in_parallel();
                let first = std::mem::replace(&mut parallel, free);
                call.phase == PlayerCallPhase::Waiting
                    && first
                    && (free || is_first(&conversation.calls, call))
            });
            let Some(id) = ready.map(|call| call.id.clone()) else { return };
            self.start_call(&id);
        }
    }

    fn start_call(&mut self, id: &str) {
        let (tools, mode) = (self.tools(), self.mode);
        let Some(call) = self.call(id) else { return };
        call.phase = PlayerCallPhase::Inspecting;
        let available = tools.contains(&call.tool);
        let error = if available {
            invalid_input(&call.tool, &call.input)
        } else {
            Some(unavailable(&call.tool))
        };
        if let Some(outcome) = error {
            self.complete_call(id, outcome);
            return;
        }
        if call.tool == "ExitPlanMode" && mode != PlayerMode::Plan {
            self.complete_call(id, ToolOutcome::invalid_call(texts::NOT_IN_PLAN_MODE));
            return;
        }
        let needs_inspection = matches!(
            call.tool.as_str(),
            "Write" | "Edit" | "MultiEdit" | "NotebookEdit" | "ExitPlanMode"
        );
        let is_question = call.tool == "AskUserQuestion";
        // 2.1.325 delays the decision even for tools without preconditions, unless there are hooks.
        if needs_inspection || !(is_question || self.has_hooks()) {
            let mut invocation = self.invocation(id);
            if invocation.tool == "ExitPlanMode" {
                invocation.input = json!({ "path": self.plan_path() });
            }
            self.effects.push(PlayerEffect::Inspect(invocation));
        } else {
            self.start_pre_tool_hooks(id);
        }
    }

    /// The invocation of a call.
    pub(crate) fn invocation(&mut self, id: &str) -> ToolInvocation {
        let call = self.call(id);
        let (tool, input) =
            call.map(|call| (call.tool.clone(), call.input.clone())).unwrap_or_default();
        ToolInvocation { call: id.to_owned(), tool, input }
    }

    pub(crate) fn on_inspected(&mut self, id: &str, inspection: CallInspection) {
        match inspection {
            CallInspection::Valid => {}
            // In this mode 2.1.325 overwrites files that the model has not read.
            CallInspection::Invalid(text)
                if self.mode == PlayerMode::Bypass
                    && self.has(PlayerBehavior::OverwritesUnread)
                    && text.starts_with("File has not been read yet")
                    && self.call(id).is_some_and(|call| call.tool == "Write") => {}
            CallInspection::Invalid(text) => {
                self.complete_call(id, ToolOutcome::invalid_call(&text));
                return;
            }
            CallInspection::Plan { text, path } => {
                let Some(call) = self.call(id) else { return };
                call.input = match text {
                    Some(plan) => json!({ "plan": plan, "planFilePath": path }),
                    None => json!({}),
                };
            }
        }
        self.start_pre_tool_hooks(id);
    }

    /// Ends a call with an outcome, after its hooks.
    pub(crate) fn finish_call(&mut self, id: &str, outcome: ToolOutcome) {
        let Some(call) = self.call(id) else { return };
        call.outcome = Some(outcome);
        if !self.start_post_tool_hooks(id) {
            self.complete_after_hooks(id);
        }
    }

    /// Ends a call after the next event of the reply that it is in, as 2.1.325 does with calls that only
    /// start something.
    pub(crate) fn finish_call_later(&mut self, id: &str, outcome: ToolOutcome) {
        if self.is_streaming() {
            self.late_outcomes.push((id.to_owned(), outcome));
        } else {
            self.finish_call(id, outcome);
        }
    }

    /// Whether a reply to the main agent is being streamed.
    pub(crate) fn is_streaming(&self) -> bool {
        self.conversation.pending.as_ref().is_some_and(|it| it.streaming)
            && self.conversation.message.as_ref().is_some_and(|it| !it.complete)
    }

    /// Starts the background commands that waited for the end of the reply.
    pub(crate) fn start_late_commands(&mut self) {
        for invocation in std::mem::take(&mut self.late_commands) {
            let id = invocation.call.clone();
            // An interrupt may have ended the call meanwhile.
            if self.call(&id).is_some() {
                self.start_background(&id, invocation);
            }
        }
    }

    /// Ends the calls that waited for an event.
    pub(crate) fn finish_late_calls(&mut self, outcomes: Vec<(String, ToolOutcome)>) {
        for (id, outcome) in outcomes {
            self.finish_call(&id, outcome);
        }
    }

    /// Prints the results of the shell commands that the end of the process kills.
    pub(crate) fn print_killed_commands(&mut self) {
        let is_killed =
            |call: &&PlayerCall| call.tool == "Bash" && call.phase == PlayerCallPhase::Running;
        let killed: Vec<PlayerCall> =
            self.conversation.calls.iter().filter(is_killed).cloned().collect();
        for call in killed {
            let outcome = ToolOutcome::failure("Exit code 137");
            let mut fields = json!({ "tool_use_result": "Error: Exit code 137" });
            if let Some(mut meta) = call.meta.clone() {
                meta["id"] = call.id.clone().into();
                fields["tool_result_meta"] = json!([meta]);
            }
            self.print_user(&PlayerAgent::Main, &json!([call.result_block(&outcome)]), fields);
        }
    }

    pub(crate) fn complete_after_hooks(&mut self, id: &str) {
        let outcome = self.call(id).and_then(|call| call.outcome.take());
        if let Some(outcome) = outcome {
            self.complete_call(id, outcome);
        }
    }

    /// Prints the result of a call and starts the calls that waited for it.
    pub(crate) fn complete_call(&mut self, id: &str, outcome: ToolOutcome) {
        let Some(call) = self.call(id) else { return };
        let block = call.result_block(&outcome);
        call.result = Some(block.clone());
        call.phase = PlayerCallPhase::Done;
        let agent = call.agent.clone();
        let meta = call.meta.clone();
        let mut fields = json!({});
        if agent == PlayerAgent::Main {
            fields["tool_use_result"] = outcome.report;
        }
        if let Some(mut meta) = meta {
            meta["id"] = id.into();
            fields["tool_result_meta"] = json!([meta]);
        }
        self.print_user(&agent, &json!([block]), fields);
        self.count_line(&agent);
        self.start_ready_calls(&agent);
        self.finish_round(&agent);
    }

    /// Adds the results of all calls of a reply as one message.
    pub(crate) fn add_call_results(&mut self, agent: &PlayerAgent, calls: &[PlayerCall]) {
        let results: Vec<Value> = calls.iter().filter_map(|call| call.result.clone()).collect();
        let uuid = self.ids.uuid();
        let content = Value::Array(results);
        self.add_history_of(
            agent,
            PlayerHistoryEntry { uuid, role: "user".to_owned(), content, prompt: false },
        );
    }

    /// Decides whether a call may run, after its hooks.
    pub(crate) fn decide_call(&mut self, id: &str) {
        let plan = self.plan_path();
        let Some(call) = self.call(id) else { return };
        let (tool, input, hook_decision) =
            (call.tool.clone(), call.input.clone(), call.hook_decision.clone());
        match hook_decision {
            Some(HookDecision::Deny(reason)) => {
                let text = format!("PreToolUse:{tool} hook error: {reason}");
                let meta = rejection_meta("permission-rule", "hook", Some("hook"));
                self.reject_call(id, &text, meta);
                return;
            }
            Some(HookDecision::Defer) => {
                self.defer_call(id);
                return;
            }
            Some(HookDecision::Allow) if tool != "AskUserQuestion" && tool != "ExitPlanMode" => {
                self.run_allowed(id, "hook", Some("hook"));
                return;
            }
            _ => {}
        }
        let context = PermissionContext {
            mode: self.mode,
            rules: &self.rules,
            cwd: &self.environment.cwd,
            directories: &self.directories,
            plan: &plan,
            release: self.args.release,
        };
        match decide(&tool, &input, &context) {
            PlayerPermissionDecision::Allow(_, _) if hook_decision == Some(HookDecision::Ask) => {
                let denial = format!(
                    "Claude requested permissions to use {tool}, but you haven't granted it yet."
                );
                self.ask_permission(
                    id,
                    &PlayerPermissionQuestion { denial, ..PlayerPermissionQuestion::default() },
                );
            }
            PlayerPermissionDecision::Allow(source, reason) => self.run_allowed(id, source, reason),
            // 2.1.325 finds this before it decides, and prints no `permission_denied`.
            PlayerPermissionDecision::Deny { message, reason, .. }
                if tool == "Read" && reason == "rule" =>
            {
                self.record_denial(id);
                let Some(call) = self.call(id) else { return };
                let decision =
                    json!({ "decision": "reject", "source": "user_reject", "reason_type": reason });
                call.meta = Some(json!({ "permission_decision": decision }));
                self.complete_call(id, ToolOutcome::invalid_call(&message));
            }
            PlayerPermissionDecision::Deny { message, kind, reason } => {
                self.print_denied(id, kind, Some(reason), None, &message);
                self.reject_call(id, &message, rejection_meta(kind, "config", Some(reason)));
            }
            PlayerPermissionDecision::Ask(question) => self.ask_permission(id, &question),
        }
    }

    /// Asks the host for permission, or denies the call if the host does not answer such requests.
    fn ask_permission(&mut self, id: &str, question: &PlayerPermissionQuestion) {
        if !self.args.permission_prompts_on_stdio || !self.stdin_open {
            let denial = question.denial.clone();
            self.print_denied(id, "", question.reason_type, question.reason.as_deref(), &denial);
            self.reject_call(id, &denial, rejection_meta("user-rejected", "config", None));
            return;
        }
        let agent = match self.call(id).map(|call| call.agent.clone()) {
            Some(PlayerAgent::SubAgent(agent)) => Some(agent),
            _ => None,
        };
        let Some(call) = self.call(id) else { return };
        call.phase = PlayerCallPhase::Permission;
        let mut request = json!({
            "subtype": "can_use_tool", "tool_name": call.tool, "display_name": call.tool,
            "input": call.input, "tool_use_id": id,
        });
        let mut add = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                request[key] = value;
            }
        };
        add("description", question.description.clone().map(Value::from));
        add("permission_suggestions", question.suggestions.clone().map(Value::from));
        add("blocked_path", question.blocked.clone().map(Value::from));
        add("decision_reason", question.reason.clone().map(Value::from));
        add("decision_reason_type", question.reason_type.map(Value::from));
        add("server_policy_ask_only", question.policy.then_some(Value::Bool(true)));
        add("requires_user_interaction", question.interaction.then_some(Value::Bool(true)));
        add("agent_id", agent.map(Value::from));
        self.set_state(PlayerState::RequiresAction);
        self.send_permission_request(id, &request);
    }

    pub(crate) fn on_permission_answer(&mut self, id: &str, answer: PlayerPermissionAnswer) {
        match answer {
            PlayerPermissionAnswer::Allow { input, updates } => {
                if let Some(call) = self.call(id)
                    && let Some(input) = input
                {
                    if call.tool == "ExitPlanMode" && call.input["plan"] != input["plan"] {
                        call.input["edited"] = input["plan"].clone();
                    } else {
                        call.input = input;
                    }
                }
                for update in updates {
                    self.apply_permission_update(update);
                }
                self.run_allowed(id, "user_temporary", None);
            }
            PlayerPermissionAnswer::Deny { message, by_user, interrupt } => {
                self.record_denial(id);
                if interrupt {
                    self.interrupt_turn();
                    return;
                }
                let meta = if by_user {
                    rejection_meta("permission-rule", "user_reject", None)
                } else {
                    rejection_meta("permission-rule", "config", Some("other"))
                };
                self.reject_call(id, &message, meta);
            }
        }
    }

    fn apply_permission_update(&mut self, update: PlayerPermissionUpdate) {
        match update {
            PlayerPermissionUpdate::AddRules(behavior, rules, destination) => {
                if destination == RuleDestination::LocalSettings && behavior == RuleBehavior::Allow
                {
                    let texts: Vec<String> = rules.iter().map(PlayerRule::text).collect();
                    self.effects.push(PlayerEffect::SaveRules(json!(texts)));
                }
                for rule in rules {
                    self.rules.add(behavior, rule, RuleSource::Session);
                }
            }
            // The approval of a plan sets the mode for afterwards. The call itself ends plan mode.
            PlayerPermissionUpdate::SetMode(mode) if self.mode == PlayerMode::Plan => {
                self.mode_before_plan = mode;
            }
            PlayerPermissionUpdate::SetMode(mode) => self.change_mode(mode),
            PlayerPermissionUpdate::AddDirectories(directories) => {
                self.directories.extend(directories);
            }
        }
    }

    fn run_allowed(&mut self, id: &str, source: &str, reason: Option<&str>) {
        let now = self.now;
        let Some(call) = self.call(id) else { return };
        call.started_at = Some(now);
        let mut decision = json!({ "decision": "accept", "source": source });
        if let Some(reason) = reason {
            decision["reason_type"] = reason.into();
        }
        call.meta = Some(json!({ "permission_decision": decision }));
        call.phase = PlayerCallPhase::Running;
        self.run_call(id);
    }

    /// Ends a call without running it.
    fn reject_call(&mut self, id: &str, text: &str, meta: Value) {
        self.record_denial(id);
        let Some(call) = self.call(id) else { return };
        call.meta = Some(meta);
        self.complete_call(id, ToolOutcome::failure(text));
    }

    /// Adds a call to the `permission_denials` of the turn.
    pub(crate) fn record_denial(&mut self, id: &str) {
        let Some(call) = self.call(id) else { return };
        let denial =
            json!({ "tool_name": call.tool, "tool_use_id": call.id, "tool_input": call.input });
        if let Some(turn) = &mut self.turn
            && !turn.denials.contains(&denial)
        {
            turn.denials.push(denial);
        }
    }

    fn print_denied(
        &mut self,
        id: &str,
        kind: &str,
        reason_type: Option<&str>,
        reason: Option<&str>,
        message: &str,
    ) {
        let tool = self.call(id).map(|call| call.tool.clone()).unwrap_or_default();
        let mut fields = json!({ "tool_name": tool, "tool_use_id": id, "message": message });
        if let Some(reason_type) = reason_type {
            fields["decision_reason_type"] = reason_type.into();
        }
        if let Some(reason) = reason {
            fields["decision_reason"] = reason.into();
        }
        if kind == "automode-unavailable" {
            let gateway = self.environment.base_url.clone().unwrap_or_default();
            let gateway = gateway.split('/').nth(2).unwrap_or_default();
            let content = texts::no_server_check(gateway);
            self.print_system(
                "informational",
                json!({
                    "content": content, "isMeta": false, "level": "warning",
                    "tag": "auto_mode_no_server_check",
                }),
            );
            fields["decision_reason_code"] = "auto_mode_no_check_in_session".into();
            fields["decision_reason"] = "Classifier unavailable".into();
        }
        self.print_system("permission_denied", fields);
    }

    pub(crate) fn set_mode(&mut self, mode: PlayerMode) {
        if mode == PlayerMode::Plan && self.mode != PlayerMode::Plan {
            self.mode_before_plan = self.mode;
        } else if mode != PlayerMode::Plan {
            self.mode_before_plan = mode;
        }
        self.mode = mode;
    }

    /// Prints the mode after a change of it.
    pub(crate) fn print_mode(&mut self) {
        let mode = self.mode.name();
        self.print_system("status", json!({ "status": null, "permissionMode": mode }));
    }

    pub(crate) fn change_mode(&mut self, mode: PlayerMode) {
        self.set_mode(mode);
        self.print_mode();
    }
}

fn is_first(calls: &[PlayerCall], call: &PlayerCall) -> bool {
    calls.iter().find(|other| !other.is_done()).is_some_and(|first| first.id == call.id)
}

/// The `tool_result_meta` of a denied call.
fn rejection_meta(kind: &str, source: &str, reason: Option<&str>) -> Value {
    let mut decision = json!({ "decision": "reject", "source": source });
    if let Some(reason) = reason {
        decision["reason_type"] = reason.into();
    }
    json!({ "non_execution_kind": kind, "permission_decision": decision })
}
