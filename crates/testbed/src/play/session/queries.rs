//! Questions of a host that change nothing.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::initialize::models;
use super::{Session, VERSION};
use crate::play::permission::Behavior;

impl Session {
    /// Answers a question; nothing where 2.1.325 does not know it.
    pub(super) fn query(
        &mut self,
        subtype: &str,
        request: &Value,
    ) -> Option<Result<Value, String>> {
        Some(Ok(match subtype {
            "get_context_usage" => self.context_usage(),
            "get_session_cost" => json!({ "text": self.cost_text() }),
            "get_usage" => {
                json!({ "total_cost_usd": self.tally.cost(), "modelUsage": self.tally.by_model() })
            }
            "get_binary_version" => json!({ "version": VERSION }),
            "get_settings" => json!({
                "effective": self.settings.effective, "sources": [],
                "applied": { "model": self.model(), "effort": self.effort, "advisor": null },
            }),
            "get_status" => json!({ "sections": [{ "title": "Session", "rows": [
                { "label": "Version", "value": VERSION },
                { "label": "Session ID", "value": self.id },
                { "label": "cwd", "value": self.around.cwd.display().to_string() },
                { "label": "Model", "value": self.model() },
            ] }] }),
            "get_plan" => json!({ "exists": false }),
            "get_workspace_diff" => json!({ "diff": null, "noDiffReason": "no-repository" }),
            "get_hooks_listing" => json!({ "hooks": [] }),
            "list_models" => json!({ "models": models() }),
            "list_permission_rules" => json!({
                "allow": self.rules.texts(Behavior::Allow),
                "deny": self.rules.texts(Behavior::Deny),
                "ask": self.rules.texts(Behavior::Ask),
            }),
            "export_conversation" => self.export(),
            "file_suggestions" => json!({ "suggestions": [] }),
            "reload_plugins" | "reload_skills" => json!({}),
            "rename_session" => {
                let title = request["title"].clone();
                self.record(json!({
                    "type": "custom-title", "customTitle": title, "sessionId": self.id,
                }));
                Value::Null
            }
            "seed_read_state"
            | "register_repo_root"
            | "set_has_subscribers"
            | "submit_feedback" => Value::Null,
            "generate_session_title" => json!({ "title": null }),
            "background_tasks" => json!({ "backgrounded": false }),
            "fork_conversation" => {
                json!({ "forked": false, "error": "unsupported", "reason": "unsupported" })
            }
            "mcp_set_servers" => {
                let named = request["servers"].as_object().into_iter().flatten();
                let added: Vec<&String> = named.map(|(name, _)| name).collect();
                json!({ "added": added, "removed": [], "errors": {} })
            }
            "read_file" => {
                let path = request["path"].as_str().unwrap_or_default();
                return Some(Err(format!("read denied: {path}")));
            }
            "mcp_reconnect" | "mcp_toggle" | "mcp_call" => {
                let server = request["serverName"].as_str().unwrap_or_default();
                return Some(Err(format!("Server not found: {server}")));
            }
            "get_task_output" => {
                let task = request["task_id"].as_str().unwrap_or_default();
                return Some(Err(format!("No task found with ID: {task}")));
            }
            "set_cwd" => {
                return Some(Err(
                    "set_cwd: invalid request — path must be a non-empty string".to_owned()
                ));
            }
            _ => return None,
        }))
    }

    fn context_usage(&self) -> Value {
        let letters: usize =
            self.talk.history.entries().iter().map(|entry| entry.content.to_string().len()).sum();
        let messages = letters / 4;
        let used = 2154 + messages;
        let category = |id: &str, name: &str, tokens: usize, color: &str, kind: &str| json!({ "id": id, "name": name, "tokens": tokens, "color": color, "kind": kind });
        let free = 967_000_usize.saturating_sub(used);
        json!({
            "categories": [
                category("system_prompt", "System prompt", 90, "promptBorder", "used"),
                category("skills", "Skills", 2064, "warning", "used"),
                category("messages", "Messages", messages, "purple_FOR_SUBAGENTS_ONLY", "used"),
                category("autocompact_buffer", "Autocompact buffer", 33_000, "inactive", "buffer"),
                category("free_space", "Free space", free, "promptBorder", "free"),
            ],
            "totalTokens": used, "maxTokens": 1_000_000, "rawMaxTokens": 1_000_000,
            "autocompactSource": "model-default", "percentage": used / 10_000, "gridRows": [],
            "model": self.model(),
        })
    }

    /// What `/cost` says.
    pub(super) fn cost_text(&self) -> String {
        let usage = self.tally.by_model();
        let count = |key: &str| {
            let models = usage.as_object().into_iter().flatten();
            models.filter_map(|(_, model)| model[key].as_u64()).sum::<u64>()
        };
        format!(
            "Total cost:            ${:.4}\nTotal duration (API):  0s\nTotal duration (wall): \
             0s\nTotal code changes:    0 lines added, 0 lines removed\nUsage:                 {} \
             input, {} output, {} cache read, {} cache write",
            self.tally.cost(),
            count("inputTokens"),
            count("outputTokens"),
            count("cacheReadInputTokens"),
            count("cacheCreationInputTokens")
        )
    }

    fn export(&self) -> Value {
        let mut text = String::new();
        for entry in self.talk.history.entries() {
            let words = match &entry.content {
                Value::String(words) => words.clone(),
                blocks => {
                    let blocks = blocks.as_array().into_iter().flatten();
                    blocks.filter_map(|it| it["text"].as_str()).collect::<Vec<_>>().join("\n")
                }
            };
            let mark = if entry.role == "assistant" { "●" } else { "❯" };
            let _ = write!(text, "\n{mark} {words}\n");
        }
        json!({ "text": text, "default_filename": "conversation.txt" })
    }
}
