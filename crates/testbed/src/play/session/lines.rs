//! Lines of stdout, in the shapes of 2.1.325.

use serde_json::{Map, Value, json};

use super::talk::Speaker;
use super::{Session, State, VERSION};
use crate::play::clock;

const TOOLS: &[&str] = &[
    "Task",
    "AskUserQuestion",
    "Bash",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "Glob",
    "Grep",
    "ListAgents",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "TaskStop",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];
/// Tools that exist only where a host answers questions.
const ASKING: &[&str] = &["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];
/// Tools of older versions.
const RETIRED: &[&str] = &["Glob", "Grep", "MultiEdit", "TodoWrite"];

pub(super) const SLASH_COMMANDS: &[&str] = &[
    "deep-research",
    "dataviz",
    "update-config",
    "verify",
    "debug",
    "code-review",
    "simplify",
    "batch",
    "fewer-permission-prompts",
    "doctor",
    "loop",
    "claude-api",
    "workflow-authoring",
    "run",
    "run-skill-generator",
    "plugin-authoring",
    "agents",
    "auto-mode-setup",
    "autocompact",
    "clear",
    "color",
    "compact",
    "config",
    "output-style",
    "context",
    "effort",
    "fast",
    "focus",
    "heapdump",
    "init",
    "mcp",
    "model",
    "__remote-workflow",
    "workflow-launch-exec",
    "reload-plugins",
    "reload-skills",
    "rename",
    "security-review",
    "usage",
    "insights",
    "recap",
    "goal",
    "list-agents",
    "team-onboarding",
];
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
const AGENTS: &[&str] = &["claude", "Explore", "general-purpose", "Plan", "statusline-setup"];

impl Session {
    /// Tools the model may call, those of servers included.
    pub(super) fn tools(&self) -> Vec<String> {
        let named = |tool: &str| {
            self.arguments.tools.as_ref().is_none_or(|tools| tools.iter().any(|it| it == tool))
        };
        let all = self.around.all_tools;
        let offered = TOOLS.iter().filter(|tool| {
            (self.arguments.stdio_prompts || !ASKING.contains(tool))
                && (all || !RETIRED.contains(tool))
                && named(tool)
                && !self.rules.hides(tool)
        });
        let mut tools: Vec<String> = offered.map(|tool| (*tool).to_owned()).collect();
        tools.extend(self.servers.tools().into_iter().filter(|tool| !self.rules.hides(tool)));
        tools
    }

    /// Sub-agents the model may start, those of the host included, by their names.
    pub(super) fn agent_names(&self) -> Vec<&str> {
        let own = AGENTS.iter().copied().filter(|name| !self.agents.contains_key(*name));
        let mut names: Vec<&str> = own.chain(self.agents.keys().map(String::as_str)).collect();
        names.sort_by_key(|name| name.to_lowercase());
        names
    }

    /// Opens a turn.
    pub(super) fn print_init(&mut self) {
        let skills = &SLASH_COMMANDS[..16];
        let plugin = |name: &str| json!({ "name": name, "path": "builtin", "source": format!("{name}@builtin") });
        let folder = crate::play::store::folder(&self.around.home, &self.around.cwd);
        let mut line = json!({
            "type": "system", "subtype": "init",
            "cwd": self.around.cwd.display().to_string(),
            "session_id": self.id,
            "tools": self.tools(),
            "mcp_servers": self.servers.listing(),
            "model": self.model(),
            "permissionMode": self.mode.name(),
            "slash_commands": SLASH_COMMANDS,
            "terminal_slash_commands": ["doctor", "color", "focus", "reload-plugins"],
            "apiKeySource": self.key_source(),
            "claude_code_version": VERSION,
            "output_style": "default",
            "agents": self.agent_names(),
            "skills": skills,
            "plugins": [
                plugin("cc-plugin-agents-md"), plugin("cc-plugin-privacy"),
                plugin("cc-plugin-plugin-authoring"),
            ],
            "capabilities": CAPABILITIES,
            "analytics_disabled": true,
            "product_feedback_disabled": true,
            "uuid": self.ids.uuid(),
            "memory_paths": { "auto": format!("{}/memory/", folder.display()) },
            "original_cwd": self.around.cwd.display().to_string(),
            "additional_directories": self.directories,
            "messaging_socket_path": format!("/tmp/cc-socks/{}.sock", self.around.pid),
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "per_turn_effort_active": !self.model().contains("haiku"),
            "ultrathink_available": false,
            "ultrathink_typed_raises": false,
            "view_mode": "default",
        });
        let uuids = self.turn.as_ref().map(super::Turn::uuids).unwrap_or_default();
        if !uuids.is_empty() {
            line["user_message_uuids"] = uuids.into();
        }
        self.print(line);
    }

    /// Where the key of the API comes from.
    pub(super) fn key_source(&self) -> &'static str {
        if self.around.api_key.is_some() { "ANTHROPIC_API_KEY" } else { "none" }
    }

    /// A `system` line.
    pub(super) fn system(&mut self, subtype: &str, fields: Value) {
        let mut line = into_object(fields);
        line.insert("type".to_owned(), "system".into());
        line.insert("subtype".to_owned(), subtype.into());
        line.insert("uuid".to_owned(), self.ids.uuid().into());
        line.insert("session_id".to_owned(), self.id.clone().into());
        self.print(Value::Object(line));
    }

    /// A `command_lifecycle` line, for prompts whose id the host gave.
    pub(super) fn lifecycle(&mut self, prompt: &str, state: &str) {
        let line = json!({
            "type": "command_lifecycle", "command_uuid": prompt, "state": state,
            "uuid": self.ids.uuid(), "session_id": self.id,
        });
        self.print(line);
    }

    /// A `user` line of our own making; it returns its id.
    pub(super) fn user(&mut self, speaker: &Speaker, content: &Value, fields: Value) -> String {
        let uuid = self.ids.uuid();
        let mut line = into_object(fields);
        line.insert("type".to_owned(), "user".into());
        line.insert("message".to_owned(), json!({ "role": "user", "content": content }));
        line.insert("uuid".to_owned(), uuid.clone().into());
        line.insert("timestamp".to_owned(), clock::timestamp(self.now).into());
        self.address(&mut line, speaker);
        self.print(Value::Object(line));
        uuid
    }

    /// Says whose line it is.
    pub(super) fn address(&self, line: &mut Map<String, Value>, speaker: &Speaker) {
        line.insert("session_id".to_owned(), self.id.clone().into());
        let helper = match speaker {
            Speaker::Main => None,
            Speaker::Helper(id) => self.helpers.get(id),
        };
        let parent = helper.map_or(Value::Null, |helper| helper.call.clone().into());
        line.insert("parent_tool_use_id".to_owned(), parent);
        if let Some(helper) = helper {
            line.insert("agent_id".to_owned(), helper.id.clone().into());
            line.insert("subagent_type".to_owned(), helper.kind.clone().into());
            line.insert("task_description".to_owned(), helper.description.clone().into());
        }
    }

    /// The echo of a prompt.
    pub(super) fn replay(&mut self, uuid: &str, content: &Value) {
        if !self.arguments.replay {
            return;
        }
        let line = json!({
            "type": "user", "message": { "role": "user", "content": content },
            "session_id": self.id, "parent_tool_use_id": null, "uuid": uuid,
            "timestamp": clock::timestamp(self.now), "isReplay": true,
        });
        self.print(line);
    }

    /// The echo of a prompt that came before; it has no time.
    pub(super) fn replay_again(&mut self, uuid: &str, content: &Value) {
        if self.arguments.replay {
            let line = json!({
                "type": "user", "message": { "role": "user", "content": content },
                "session_id": self.id, "parent_tool_use_id": null, "uuid": uuid, "isReplay": true,
            });
            self.print(line);
        }
    }

    /// Tells a host that follows states.
    pub(super) fn enter(&mut self, state: State) {
        if self.state == state {
            return;
        }
        self.state = state;
        if self.around.state_events {
            let name = match state {
                State::Idle => "idle",
                State::Running => "running",
                State::RequiresAction => "requires_action",
            };
            self.system("session_state_changed", json!({ "state": name }));
        }
    }
}

/// The fields of an object; none of anything else.
pub(super) fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
