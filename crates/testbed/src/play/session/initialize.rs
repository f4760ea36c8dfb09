//! The answer to `initialize`: what a host can know before the first turn.

use serde_json::{Value, json};

use super::lines::SLASH_COMMANDS;
use super::{Session, State, VERSION};

impl Session {
    /// A host introduces itself.
    pub(super) fn initialize(&mut self, id: &Value, request: &Value) {
        if request["hooks"].is_object() {
            self.host_hooks.register(&request["hooks"]);
        }
        if request["forwardSubagentText"] == true {
            self.forward_helpers = true;
        }
        self.spare_helpers = request["perTaskStopAffordance"] == true;
        if let Some(prompt) = request["systemPrompt"].as_str() {
            self.arguments.system_prompt = Some(prompt.to_owned());
        }
        if let Some(prompt) = request["appendSystemPrompt"].as_str() {
            self.arguments.append_system_prompt = Some(prompt.to_owned());
        }
        for (name, agent) in request["agents"].as_object().into_iter().flatten() {
            self.agents.insert(name.clone(), agent.clone());
        }
        self.connect_servers(&request["sdkMcpServers"]);
        let payload = self.introduction(request);
        let response = json!({
            "subtype": "success", "request_id": id, "response": payload,
            "pending_permission_requests": self.asks.pending(),
            "pending_user_dialog_requests": [],
        });
        self.print(json!({ "type": "control_response", "response": response }));
        if std::mem::replace(&mut self.introduced, true) {
            self.print_tasks();
        }
    }

    fn introduction(&self, request: &Value) -> Value {
        let command = |name: &&str| {
            let description = format!("The {name} command");
            json!({ "name": name, "description": description, "argumentHint": "", "builtin": true })
        };
        let agent = |name: &&str| {
            let given = self.agents.get(*name).and_then(|agent| agent["description"].as_str());
            let description = given.map_or_else(|| format!("The {name} agent"), str::to_owned);
            json!({ "name": name, "description": description })
        };
        let commands: Vec<Value> = SLASH_COMMANDS.iter().map(command).collect();
        let agents: Vec<Value> = self.agent_names().iter().map(agent).collect();
        let state = match self.state {
            State::Idle => "idle",
            State::Running => "running",
            State::RequiresAction => "requires_action",
        };
        let mut payload = json!({
            "commands": commands,
            "agents": agents,
            "output_style": "default",
            "available_output_styles": ["default", "Proactive", "Concise", "Explanatory", "Learning"],
            "user_output_styles_dir": self.around.home.join(".claude/output-styles"),
            "models": models(),
            "account": {
                "tokenSource": "none", "apiKeySource": self.key_source(),
                "apiProvider": "firstParty",
            },
            "pid": self.around.pid,
            "claude_code_version": VERSION,
            "current_permission_mode": self.mode.name(),
            "hook_on_failure_supported": true,
            "other_hook_ask_outranks_host": true,
            "feedback_mode": { "kind": "disabled" },
            "analytics_disabled": true,
            "remote_control_auto_enable": false,
            "remote_control_auto_connect_default": false,
            "remote_control_available": false,
            "remote_control_auto_on_by_default": false,
            "ide_rc_auto_enable_gate": false,
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "session_state": state,
            "capabilities": [
                "ui_surface_v1", "mcp_call_result_not_for_model_v1", "mcp_call_check_permissions_v1",
                "voice_call_talk_line_v1", "ui_pane_widget_v1", "reload_plugins_refuse_if_busy_v1",
            ],
        });
        if request["hooks"].is_object() {
            payload["hooks_applied"] = true.into();
        }
        payload
    }
}

/// Models a host may choose from.
pub(super) fn models() -> Value {
    let model = |value: &str, resolved: &str, name: &str, description: &str| {
        json!({
            "value": value, "resolvedModel": resolved, "displayName": name,
            "description": description, "supportsEffort": true,
            "supportedEffortLevels": ["low", "medium", "high", "xhigh", "max"],
            "supportsAdaptiveThinking": true, "supportsFastMode": true, "supportsAutoMode": true,
            "supportsThinkingOff": false,
        })
    };
    json!([
        model(
            "default",
            "claude-opus-5-5",
            "Default (recommended)",
            "Use the default model (currently Opus 5.5) · $4/$20 per Mtok",
        ),
        model(
            "opus",
            "claude-opus-5-5",
            "Opus",
            "Opus 5.5 · Best for everyday, complex tasks · $4/$20 per Mtok",
        ),
        model(
            "fable",
            "claude-fable-5-2",
            "Fable",
            "Fable 5.2 · Most capable for your hardest and longest-running tasks",
        ),
        model("sonnet", "claude-sonnet-5-2", "Sonnet", "Sonnet 5.2 · Efficient for routine tasks"),
        model(
            "haiku",
            "claude-haiku-4-5-20251001",
            "Haiku",
            "Haiku 4.5 · Fastest for quick answers"
        ),
    ])
}
