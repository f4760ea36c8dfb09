//! Whether a call may run: decided, asked, answered.

use serde_json::{Value, json};

use super::call::{HookVerdict, Stage};
use super::talk::Speaker;
use super::{Session, State};
use crate::play::effect::Effect;
use crate::play::input::Outcome;
use crate::play::permission::{
    Answer, Asking, Behavior, Circumstances, Decision, Destination, Mode, Rule, Source, Update,
    decide,
};
use crate::play::wording;

impl Session {
    /// Decides about a call that hooks have seen.
    pub(super) fn decide(&mut self, id: &str) {
        let plan = self.plan_path();
        let Some(call) = self.call(id) else { return };
        let (tool, input, verdict) = (call.tool.clone(), call.input.clone(), call.verdict.clone());
        match verdict {
            Some(HookVerdict::Deny(reason)) => {
                let text = format!("PreToolUse:{tool} hook error: {reason}");
                let meta = rejection("permission-rule", "hook", Some("hook"));
                self.refuse(id, &text, meta);
                return;
            }
            Some(HookVerdict::Allow) if tool != "AskUserQuestion" && tool != "ExitPlanMode" => {
                self.accept(id, "hook", Some("hook"));
                return;
            }
            _ => {}
        }
        let given = Circumstances {
            mode: self.mode,
            rules: &self.rules,
            cwd: &self.around.cwd,
            directories: &self.directories,
            plan: &plan,
        };
        match decide(&tool, &input, &given) {
            Decision::Allow(_, _) if verdict == Some(HookVerdict::Ask) => {
                let denial = format!(
                    "Claude requested permissions to use {tool}, but you haven't granted it yet."
                );
                self.ask(id, &Asking { denial, ..Asking::default() });
            }
            Decision::Allow(source, reason) => self.accept(id, source, reason),
            Decision::Deny { message, kind, reason } => {
                self.print_denied(id, kind, Some(reason), None, &message);
                self.refuse(id, &message, rejection(kind, "config", Some(reason)));
            }
            Decision::Ask(asking) => self.ask(id, &asking),
        }
    }

    /// Asks the host, or denies where no host answers.
    fn ask(&mut self, id: &str, asking: &Asking) {
        if !self.arguments.stdio_prompts || !self.input_open {
            let denial = asking.denial.clone();
            self.print_denied(id, "", asking.reason_type, asking.reason.as_deref(), &denial);
            self.refuse(id, &denial, rejection("user-rejected", "config", None));
            return;
        }
        let agent = match self.call(id).map(|call| call.speaker.clone()) {
            Some(Speaker::Helper(agent)) => Some(agent),
            _ => None,
        };
        let Some(call) = self.call(id) else { return };
        call.stage = Stage::Asked;
        let mut request = json!({
            "subtype": "can_use_tool", "tool_name": call.tool, "display_name": call.tool,
            "input": call.input, "tool_use_id": id,
        });
        let mut add = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                request[key] = value;
            }
        };
        add("description", asking.description.clone().map(Value::from));
        add("permission_suggestions", asking.suggestions.clone().map(Value::from));
        add("blocked_path", asking.blocked.clone().map(Value::from));
        add("decision_reason", asking.reason.clone().map(Value::from));
        add("decision_reason_type", asking.reason_type.map(Value::from));
        add("server_policy_ask_only", asking.policy.then_some(Value::Bool(true)));
        add("requires_user_interaction", asking.interaction.then_some(Value::Bool(true)));
        add("agent_id", agent.map(Value::from));
        self.enter(State::RequiresAction);
        self.ask_permission(id, &request);
    }

    /// The host answered.
    pub(super) fn permitted(&mut self, id: &str, answer: Answer) {
        match answer {
            Answer::Allow { input, updates } => {
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
                    self.update(update);
                }
                self.accept(id, "user_temporary", None);
            }
            Answer::Deny { message, meant, interrupt } => {
                self.deny(id);
                if interrupt {
                    self.interrupt_turn();
                    return;
                }
                let meta = if meant {
                    rejection("permission-rule", "user_reject", None)
                } else {
                    rejection("permission-rule", "config", Some("other"))
                };
                self.refuse(id, &message, meta);
            }
        }
    }

    /// Changes what is asked from now on.
    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Add(behavior, rules, destination) => {
                if destination == Destination::LocalSettings && behavior == Behavior::Allow {
                    let texts: Vec<String> = rules.iter().map(Rule::text).collect();
                    self.effects.push(Effect::SaveRules(json!(texts)));
                }
                for rule in rules {
                    self.rules.add(behavior, rule, Source::Session);
                }
            }
            Update::Remove(behavior, rules) => {
                for rule in rules {
                    self.rules.remove(behavior, &rule);
                }
            }
            // Approving a plan chooses the mode behind it; plan mode itself ends with the call.
            Update::Mode(mode) if self.mode == Mode::Plan => self.mode_before_plan = mode,
            Update::Mode(mode) => self.change_mode(mode),
            Update::Directories(directories) => self.directories.extend(directories),
        }
    }

    /// A call may run.
    fn accept(&mut self, id: &str, source: &str, reason: Option<&str>) {
        let now = self.now;
        let Some(call) = self.call(id) else { return };
        call.began = Some(now);
        let mut decision = json!({ "decision": "accept", "source": source });
        if let Some(reason) = reason {
            decision["reason_type"] = reason.into();
        }
        call.meta = Some(json!({ "permission_decision": decision }));
        call.stage = Stage::Running;
        self.run(id);
    }

    /// A call is not run, and the model is told why.
    pub(super) fn refuse(&mut self, id: &str, text: &str, meta: Value) {
        self.deny(id);
        let Some(call) = self.call(id) else { return };
        call.meta = Some(meta);
        self.complete(id, Outcome::failure(text));
    }

    /// Puts a call on the list of what was denied.
    pub(super) fn deny(&mut self, id: &str) {
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
            let gateway = self.around.base_url.clone().unwrap_or_default();
            let gateway = gateway.split('/').nth(2).unwrap_or_default();
            let content = wording::no_server_check(gateway);
            self.system(
                "informational",
                json!({
                    "content": content, "isMeta": false, "level": "warning",
                    "tag": "auto_mode_no_server_check",
                }),
            );
            fields["decision_reason_code"] = "auto_mode_no_check_in_session".into();
            fields["decision_reason"] = "Classifier unavailable".into();
        }
        self.system("permission_denied", fields);
    }

    /// Another permission mode.
    pub(super) fn change_mode(&mut self, mode: Mode) {
        if mode == Mode::Plan && self.mode != Mode::Plan {
            self.mode_before_plan = self.mode;
        } else if mode != Mode::Plan {
            self.mode_before_plan = mode;
        }
        self.mode = mode;
        self.system("status", json!({ "status": null, "permissionMode": mode.name() }));
    }
}

/// How a denial is reported beside its result.
fn rejection(kind: &str, source: &str, reason: Option<&str>) -> Value {
    let mut decision = json!({ "decision": "reject", "source": source });
    if let Some(reason) = reason {
        decision["reason_type"] = reason.into();
    }
    json!({ "non_execution_kind": kind, "permission_decision": decision })
}
