//! What the session offers: tools, sub-agents, slash commands, models and capabilities, and the two
//! lines that list them.

use serde_json::{Value, json};

use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::session::structured_output::STRUCTURED_OUTPUT;
use crate::play::session::turn::PlayerTurn;
use crate::play::transcript::project_folder;

const CAPABILITIES: &[&str] = &[
    "interrupt_receipt_v1",
    "interrupt_cancel_queued_v1",
    "interrupt_send_now_v1",
    "interrupt_requeue_taken_v1",
    "msg_lifecycle_v1",
    "request_marker_lists_v1",
    "ask_user_question_unanswered_v1",
    "lifecycle_wakeup_source_v1",
    "sdk_mcp_tools_list_changed",
    "sdk_mcp_manifests",
    "mcp_read_resource_v1",
    "mcp_tool_ui_meta_v1",
    "ui_surface_v1",
    "mcp_call_result_not_for_model_v1",
    "mcp_call_check_permissions_v1",
    "voice_call_talk_line_v1",
    "withdrawn_files_note_v2",
    "ui_pane_widget_v1",
    "reload_plugins_refuse_if_busy_v1",
];

impl PlayerSession {
    /// The tools that the model may call, including those of MCP servers.
    pub(crate) fn tools(&self) -> Vec<String> {
        let selected = |tool: &str| {
            self.args.tools.as_ref().is_none_or(|tools| tools.iter().any(|it| it == tool))
        };
        let mut offered = self.args.release.offers().tools.to_vec();
        offered.retain(|tool| match *tool {
            _ if self.args.permission_prompts_on_stdio => true,
            "AskUserQuestion" => self.has(PlayerBehavior::AsksWithoutPrompts),
            "EnterPlanMode" | "ExitPlanMode" => self.has(PlayerBehavior::PlansWithoutPrompts),
            _ => true,
        });
        let mut more: Vec<&str> = Vec::new();
        if self.settings.todo_list {
            more.push("TodoWrite");
        }
        if self.environment.teams && self.has(PlayerBehavior::Teams) {
            more.extend(["TeamCreate", "TeamDelete", "SendMessage"]);
        }
        for tool in more {
            if !offered.contains(&tool) {
                offered.push(tool);
            }
        }
        offered.retain(|tool| selected(tool) && !self.rules.hides(tool));
        let mut tools: Vec<String> = offered.into_iter().map(str::to_owned).collect();
        if self.args.json_schema.is_some() {
            // The names are in the order of the alphabet, except for `Task`.
            let after = tools.iter().skip(1).position(|tool| tool.as_str() > STRUCTURED_OUTPUT);
            let place = after.map_or(tools.len(), |position| position + 1);
            tools.insert(place, STRUCTURED_OUTPUT.to_owned());
        }
        tools.extend(self.servers.tools().into_iter().filter(|tool| !self.rules.hides(tool)));
        tools
    }

    /// The names of the sub-agents that the model may start, including those of the host.
    pub(crate) fn agent_names(&self) -> Vec<&str> {
        let builtin = self.args.release.offers().agents.iter().copied();
        let builtin = builtin.filter(|name| !self.agents.contains_key(*name));
        let mut names: Vec<&str> = builtin.chain(self.agents.keys().map(String::as_str)).collect();
        names.sort_by_key(|name| name.to_lowercase());
        names
    }

    /// Prints the `init` line, which opens each turn.
    pub(crate) fn print_init(&mut self) {
        let definitions = &self.settings.definitions;
        let own: Vec<&str> = definitions.skills.iter().map(|it| it.name.as_str()).collect();
        let offers = self.args.release.offers();
        let skills: Vec<&str> =
            own.into_iter().chain(offers.slash_commands[..offers.skills].iter().copied()).collect();
        let commands: Vec<&str> =
            definitions.names().chain(offers.slash_commands.iter().copied()).collect();
        let folder = project_folder(&self.environment.home, &self.environment.cwd);
        let mut line = json!({
            "type": "system", "subtype": "init",
            "cwd": self.environment.cwd.display().to_string(),
            "session_id": self.id,
            "tools": self.tools(),
            "mcp_servers": self.servers.listing(),
            "model": self.model(),
            "permissionMode": self.mode.name(),
            "slash_commands": commands,
            "terminal_slash_commands": ["doctor", "color", "focus", "reload-plugins"],
            "apiKeySource": self.key_source(),
            "claude_code_version": self.args.release.to_string(),
            "output_style": "default",
            "agents": self.agent_names(),
            "skills": skills,
            "plugins": Self::plugins(),
            "capabilities": CAPABILITIES,
            "analytics_disabled": true,
            "product_feedback_disabled": true,
            "uuid": self.ids.uuid(),
            "memory_paths": { "auto": format!("{}/memory/", folder.display()) },
            "original_cwd": self.environment.cwd.display().to_string(),
            "additional_directories": self.directories,
            "messaging_socket_path": format!("/tmp/cc-socks/{}.sock", self.environment.pid),
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "per_turn_effort_active": !self.model().contains("haiku"),
            "ultrathink_available": false,
            "ultrathink_typed_raises": false,
            "view_mode": "default",
        });
        let uuids = self.turn.as_ref().map(PlayerTurn::uuids).unwrap_or_default();
        if !uuids.is_empty() {
            line["user_message_uuids"] = uuids.into();
        }
        self.print(line);
    }

    /// The source of the API key.
    pub(crate) fn key_source(&self) -> &'static str {
        if self.environment.api_key.is_some() { "ANTHROPIC_API_KEY" } else { "none" }
    }

    /// Answers `initialize`.
    pub(crate) fn initialize(&mut self, id: &Value, request: &Value) {
        if self.initialized && !self.has(PlayerBehavior::AcceptsReinitialization) {
            self.respond_error(id, "Already initialized", None);
            return;
        }
        if request["hooks"].is_object() {
            self.host_hooks.register(&request["hooks"]);
        }
        if request["forwardSubagentText"] == true && self.has(PlayerBehavior::ForwardsSubagentText)
        {
            self.forward_sub_agent_text = true;
        }
        self.keep_sub_agents = request["perTaskStopAffordance"] == true;
        if let Some(prompt) = request["systemPrompt"].as_str() {
            self.args.system_prompt = Some(prompt.to_owned());
        }
        if let Some(prompt) = request["appendSystemPrompt"].as_str() {
            self.args.append_system_prompt = Some(prompt.to_owned());
        }
        for (name, agent) in request["agents"].as_object().into_iter().flatten() {
            self.agents.insert(name.clone(), agent.clone());
        }
        if request["title"].is_string() {
            self.set_title(&request["title"]);
        }
        self.connect_mcp_servers(&request["sdkMcpServers"]);
        let payload = self.initialize_response(request);
        let response = json!({
            "subtype": "success", "request_id": id, "response": payload,
            "pending_permission_requests": self.host_requests.pending(),
            "pending_user_dialog_requests": [],
        });
        self.print(json!({ "type": "control_response", "response": response }));
        // A host that comes later has missed what was printed of them.
        let has_started = !self.conversation.history.entries().is_empty();
        if std::mem::replace(&mut self.initialized, true) || has_started {
            self.print_tasks();
        }
    }

    /// The plugins, which are all built in.
    pub(crate) fn plugins() -> Value {
        let plugin = |name: &str| json!({ "name": name, "path": "builtin", "source": format!("{name}@builtin") });
        json!([
            plugin("cc-plugin-agents-md"),
            plugin("cc-plugin-privacy"),
            plugin("cc-plugin-plugin-authoring"),
        ])
    }

    /// The skills, those of the user and the project first.
    pub(crate) fn skills_listing(&self) -> Value {
        let own = self.settings.definitions.skills.iter().map(
            |it| json!({ "name": it.name, "description": it.description, "argumentHint": "" }),
        );
        let offers = self.args.release.offers();
        let builtin = offers.slash_commands[..offers.skills].iter().map(|name| {
            let description = format!("The {name} skill");
            json!({ "name": name, "description": description, "argumentHint": "", "builtin": true })
        });
        own.chain(builtin).collect()
    }

    pub(crate) fn initialize_response(&self, request: &Value) -> Value {
        let command = |name: &&str| {
            let description = format!("The {name} command");
            json!({ "name": name, "description": description, "argumentHint": "", "builtin": true })
        };
        let agent = |name: &&str| {
            let given = self.agents.get(*name).and_then(|agent| agent["description"].as_str());
            let description = given.map_or_else(|| format!("The {name} agent"), str::to_owned);
            json!({ "name": name, "description": description })
        };
        let definitions = &self.settings.definitions;
        let own = definitions.skills.iter().chain(&definitions.commands).map(
            |it| json!({ "name": it.name, "description": it.description, "argumentHint": "" }),
        );
        let offered = self.args.release.offers().slash_commands.iter();
        let commands: Vec<Value> = own.chain(offered.map(command)).collect();
        let agents: Vec<Value> = self.agent_names().iter().map(agent).collect();
        let mut payload = json!({
            "commands": commands,
            "agents": agents,
            "output_style": "default",
            "available_output_styles": ["default", "Proactive", "Concise", "Explanatory", "Learning"],
            "user_output_styles_dir": self.environment.home.join(".claude/output-styles"),
            "models": models(),
            "account": {
                "tokenSource": "none", "apiKeySource": self.key_source(),
                "apiProvider": "firstParty",
            },
            "pid": self.environment.pid,
            "claude_code_version": self.args.release.to_string(),
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
            "session_state": self.state.name(),
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

/// The models that a host may choose from.
pub(crate) fn models() -> Value {
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
