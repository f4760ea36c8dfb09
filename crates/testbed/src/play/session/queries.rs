//! Control requests about the project and the session: files, settings, titles, hooks, usage.
//!
//! The shapes of the answers are those of 2.1.325. What has not been seen from it is not answered.

use serde_json::{Map, Value, json};

use crate::play::event::{HostFileQuery, PlayerEffect};
use crate::play::permission::{PlayerRule, RuleBehavior, RuleSource};
use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::settings::CommandHook;
use crate::play::stamps;

/// The events that hooks can be registered for, what they are, and whether a matcher selects some.
const HOOK_EVENTS: &[(&str, &str, bool)] = &[
    ("PreToolUse", "Before tool execution", true),
    ("PostToolUse", "After tool execution", true),
    ("PostToolUseFailure", "After tool execution fails", true),
    ("PostToolBatch", "After a batch of tool calls resolves", false),
    ("PermissionDenied", "After auto mode denies a tool call", true),
    ("Notification", "When notifications are sent", true),
    ("UserPromptSubmit", "When the user submits a prompt", false),
    ("SessionStart", "When a new session is started", true),
    ("Stop", "Right before Claude concludes its response", false),
    ("SubagentStart", "When a subagent (Agent tool call) is started", true),
    ("SubagentStop", "Right before a subagent (Agent tool call) concludes its response", true),
    ("PreCompact", "Before conversation compaction", true),
    ("PostCompact", "After conversation compaction", true),
    ("SessionEnd", "When a session is ending", true),
];

impl PlayerSession {
    /// Answers a request about the project or the session. Returns whether there is an answer.
    pub(crate) fn answer_project_request(
        &mut self,
        id: &Value,
        subtype: &str,
        request: &Value,
    ) -> bool {
        let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
        match subtype {
            "file_suggestions" => self.ask_files(id, HostFileQuery::Suggestions(text("query"))),
            "read_file" => {
                let max = request["max_bytes"].as_u64().and_then(|it| usize::try_from(it).ok());
                self.ask_files(id, HostFileQuery::Contents { path: text("path"), max });
            }
            "seed_read_state" => self.respond(id, Value::Null),
            "background_tasks" => self.respond(id, json!({})),
            // Titles are not made: the scripted model has none to give.
            "generate_session_title" => {
                let persists = request["persist"] == true;
                let title = self.title.clone().filter(|_| persists);
                self.respond(id, json!({ "title": title }));
            }
            "get_plan" if !self.plan_path().exists() => {
                self.respond(id, json!({ "exists": false }));
            }
            "get_workspace_diff" if !self.environment.cwd.join(".git").exists() => {
                self.respond(id, json!({ "diff": null, "noDiffReason": "no-repository" }));
            }
            "get_usage" => {
                let usage = self.usage_report();
                self.respond(id, usage);
            }
            "get_hooks_listing" => {
                let listing = self.hooks_listing();
                self.respond(id, listing);
            }
            "reload_plugins" => {
                let offers = self.initialize_response(&json!({}));
                self.respond(
                    id,
                    json!({
                        "commands": offers["commands"], "agents": offers["agents"],
                        "plugins": Self::plugins(), "mcpServers": self.servers.status(),
                        "error_count": 0,
                    }),
                );
            }
            "reload_skills" => {
                let skills = self.skills_listing();
                self.respond(id, json!({ "skills": skills }));
            }
            "mcp_set_servers" => return self.set_mcp_servers(id, request),
            "mcp_toggle" | "mcp_reconnect" => {
                let name = text("serverName");
                if !self.servers.has(&name) {
                    self.respond_error(id, &format!("Server not found: {name}"), None);
                    return true;
                }
                if subtype == "mcp_toggle" {
                    self.servers.set_disabled(&name, request["enabled"] == false);
                }
                self.respond(id, Value::Null);
            }
            "mcp_call" => match request["tool"].as_str() {
                None => self.respond_error(id, "mcp_call: tool must be a string", None),
                Some(tool) if !tool.starts_with("mcp__") => {
                    let error = format!("Not a fully-qualified MCP tool name: {tool}");
                    self.respond_error(id, &error, None);
                }
                Some(_) => return false,
            },
            _ => return false,
        }
        true
    }

    fn ask_files(&mut self, id: &Value, query: HostFileQuery) {
        self.effects.push(PlayerEffect::QueryFiles { request: id.clone(), query });
    }

    /// Only the list of no servers is known: it removes those that were set, of which there are none.
    fn set_mcp_servers(&mut self, id: &Value, request: &Value) -> bool {
        match &request["servers"] {
            Value::Object(servers) if servers.is_empty() => {
                self.respond(id, json!({ "added": [], "removed": [], "errors": {} }));
                true
            }
            Value::Object(_) => false,
            _ => {
                let error = "mcp_set_servers: servers must be an object of config objects";
                self.respond_error(id, error, None);
                true
            }
        }
    }

    /// Gives the session a title.
    pub(crate) fn set_title(&mut self, title: &Value) {
        self.title = title.as_str().map(str::to_owned);
        self.print_system("session_title_changed", json!({ "title": title }));
        let entry = json!({ "type": "custom-title", "customTitle": title, "sessionId": self.id });
        self.record(entry);
    }

    /// Uses another model from the next request on.
    pub(crate) fn set_model(&mut self, model: Option<&str>) {
        self.model = model.filter(|model| *model != "default").map(str::to_owned);
        let model = self.model();
        // Before the first turn there is no conversation that it would be a part of. Captures
        // of 2.1.120, the first that reports changes of the mode too, have this line.
        if !self.conversation.history.entries().is_empty()
            && self.has(PlayerBehavior::SetModeStatus)
        {
            let uuid = self.ids.uuid();
            let text =
                format!("<local-command-stdout>Set model to `{model}`</local-command-stdout>");
            self.print_echo(&uuid, &text.into());
        }
    }

    /// Applies settings of the host, which win over those of files.
    pub(crate) fn apply_flag_settings(&mut self, settings: &Map<String, Value>) {
        if let Some(effort) = settings.get("effortLevel").and_then(Value::as_str) {
            effort.clone_into(&mut self.effort);
        }
        for (key, behavior) in [
            ("allow", RuleBehavior::Allow),
            ("deny", RuleBehavior::Deny),
            ("ask", RuleBehavior::Ask),
        ] {
            let rules = settings.get("permissions").and_then(|it| it[key].as_array());
            for rule in rules.into_iter().flatten().filter_map(Value::as_str) {
                self.rules.add(behavior, PlayerRule::parse(rule), RuleSource::FlagSettings);
            }
        }
        self.flag_settings.extend(settings.clone());
        if let Some(model) = settings.get("model").and_then(Value::as_str) {
            self.set_model(Some(model));
        }
    }

    /// The answer to `get_settings`.
    pub(crate) fn settings_report(&self) -> Value {
        let mut effective = self.settings.effective.clone();
        let mut sources: Vec<Value> = self.settings.sources.clone();
        if !self.flag_settings.is_empty() {
            if let Some(all) = effective.as_object_mut() {
                all.extend(self.flag_settings.clone());
            }
            sources.push(json!({ "source": "flagSettings", "settings": self.flag_settings }));
        }
        json!({
            "effective": effective, "sources": sources,
            "applied": { "model": self.model(), "effort": self.effort, "advisor": null },
        })
    }

    fn usage_report(&self) -> Value {
        let api_millis = self.turn.as_ref().map_or(0, |turn| turn.api_millis);
        let started = self.started_at.unwrap_or(self.now);
        json!({
            "session": {
                "total_cost_usd": self.usage.cost(), "total_api_duration_ms": api_millis,
                "total_duration_ms": stamps::millis_between(started, self.now),
                "total_lines_added": 0, "total_lines_removed": 0,
                "model_usage": self.usage.by_model(),
            },
            "subscription_type": null, "rate_limits_available": false, "rate_limits": null,
            "behaviors": null,
        })
    }

    fn hooks_listing(&self) -> Value {
        let hooks = &self.settings.hooks;
        let count = |event: &str| hooks.iter().filter(|hook| hook.event == event).count();
        let of_event = |(name, summary, has_matcher): &(&str, &str, bool)| json!({ "name": name, "summary": summary, "supportsMatcher": has_matcher });
        let used = HOOK_EVENTS.iter().filter(|(name, ..)| count(name) > 0).map(|event| {
            let mut entry = of_event(event);
            entry["hookCount"] = count(event.0).into();
            entry
        });
        let listed = |hook: &CommandHook| {
            json!({
                "event": hook.event, "matcher": hook.matcher, "source": "projectSettings",
                "sourceLabel": "Project settings (.claude/settings.json)", "type": "command",
                "displayText": hook.command, "commandText": hook.command,
                "contentLabel": "Command",
                "editable": {
                    "matcher": hook.matcher,
                    "config": { "type": "command", "command": hook.command },
                },
            })
        };
        json!({
            "events": used.collect::<Vec<_>>(),
            "hooks": hooks.iter().map(listed).collect::<Vec<_>>(),
            "eventCatalog": HOOK_EVENTS.iter().map(of_event).collect::<Vec<_>>(),
        })
    }

    /// The answer to `list_permission_rules`.
    pub(crate) fn permission_rules(&self) -> Value {
        let rules = self.rules.all().map(|(behavior, rule, source)| {
            let mut entry = json!({
                "behavior": behavior.name(), "source": source.name(), "rule": rule.text(),
                "editability": "readonly",
            });
            if rule.text() == "Bash" {
                entry["description"] = json!({ "prefix": "Any Bash command" });
            }
            entry
        });
        json!({
            "state": {
                "rules": rules.collect::<Vec<_>>(), "workspaceDirectories": self.directories,
                "originalCwd": self.environment.cwd.display().to_string(), "managedOnly": false,
            },
        })
    }
}
