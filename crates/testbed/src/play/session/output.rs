//! Lines of stdout, messages of the history and records of the transcript.

use serde_json::{Map, Value, json};

use crate::play::event::PlayerEffect;
use crate::play::session::conversation::{PlayerAgent, PlayerHistoryEntry};
use crate::play::session::{PlayerSession, PlayerState};
use crate::play::stamps;

impl PlayerSession {
    /// Prints a `system` line.
    pub(crate) fn print_system(&mut self, subtype: &str, fields: Value) {
        let mut line = into_object(fields);
        line.insert("type".to_owned(), "system".into());
        line.insert("subtype".to_owned(), subtype.into());
        line.insert("uuid".to_owned(), self.ids.uuid().into());
        line.insert("session_id".to_owned(), self.id.clone().into());
        self.print(Value::Object(line));
    }

    /// Prints a `command_lifecycle` line, for a prompt whose id is the host's.
    pub(crate) fn print_lifecycle(&mut self, prompt: &str, state: &str) {
        let line = json!({
            "type": "command_lifecycle", "command_uuid": prompt, "state": state,
            "uuid": self.ids.uuid(), "session_id": self.id,
        });
        self.print(line);
    }

    /// Prints a `user` line and returns its id.
    pub(crate) fn print_user(
        &mut self,
        agent: &PlayerAgent,
        content: &Value,
        fields: Value,
    ) -> String {
        let uuid = self.ids.uuid();
        let mut line = into_object(fields);
        line.insert("type".to_owned(), "user".into());
        line.insert("message".to_owned(), json!({ "role": "user", "content": content }));
        line.insert("uuid".to_owned(), uuid.clone().into());
        line.insert("timestamp".to_owned(), stamps::timestamp(self.now).into());
        self.add_origin_fields(&mut line, agent);
        self.print(Value::Object(line));
        uuid
    }

    /// Adds the fields that name the session and the agent of a line.
    pub(crate) fn add_origin_fields(&self, line: &mut Map<String, Value>, agent: &PlayerAgent) {
        line.insert("session_id".to_owned(), self.id.clone().into());
        let sub_agent = match agent {
            PlayerAgent::Main => None,
            PlayerAgent::SubAgent(id) => self.sub_agents.get(id),
        };
        let parent = sub_agent.map_or(Value::Null, |sub_agent| sub_agent.call.clone().into());
        line.insert("parent_tool_use_id".to_owned(), parent);
        if let Some(sub_agent) = sub_agent {
            line.insert("agent_id".to_owned(), sub_agent.id.clone().into());
            line.insert("subagent_type".to_owned(), sub_agent.kind.clone().into());
            line.insert("task_description".to_owned(), sub_agent.description.clone().into());
        }
    }

    /// Prints the echo of a prompt, if the host wants to see them.
    pub(crate) fn print_replay(&mut self, uuid: &str, content: &Value) {
        if self.args.replay {
            self.print_echo(uuid, content);
        }
    }

    /// Prints a message of the user that the host has caused.
    pub(crate) fn print_echo(&mut self, uuid: &str, content: &Value) {
        let line = json!({
            "type": "user", "message": { "role": "user", "content": content },
            "session_id": self.id, "parent_tool_use_id": null, "uuid": uuid,
            "timestamp": stamps::timestamp(self.now), "isReplay": true,
        });
        self.print(line);
    }

    /// Prints the echo of a duplicate prompt, which has no timestamp.
    pub(crate) fn print_duplicate_replay(&mut self, uuid: &str, content: &Value) {
        if self.args.replay {
            let line = json!({
                "type": "user", "message": { "role": "user", "content": content },
                "session_id": self.id, "parent_tool_use_id": null, "uuid": uuid, "isReplay": true,
            });
            self.print(line);
        }
    }

    /// Changes the state and reports the change if the host asked for that.
    pub(crate) fn set_state(&mut self, state: PlayerState) {
        if self.state == state {
            return;
        }
        self.state = state;
        if self.environment.state_events {
            self.print_system("session_state_changed", json!({ "state": state.name() }));
        }
    }

    /// Adds a message of the main agent.
    pub(crate) fn add_history(&mut self, entry: PlayerHistoryEntry) {
        self.add_history_of(&PlayerAgent::Main, entry);
    }

    /// Adds a prompt that several prompts were merged into.
    pub(crate) fn add_prompt_history(&mut self, entry: PlayerHistoryEntry, merged: &[String]) {
        let mut record = self.record_of(&entry);
        record["promptSource"] = "sdk".into();
        record["permissionMode"] = self.mode.name().into();
        if merged.len() > 1 {
            record["mergedUuids"] = merged.to_vec().into();
        }
        self.record(record);
        self.conversation.history.push(entry);
    }

    /// Adds a message of an agent. Only the main agent has a transcript.
    pub(crate) fn add_history_of(&mut self, agent: &PlayerAgent, entry: PlayerHistoryEntry) {
        if *agent == PlayerAgent::Main {
            let record = match entry.role.as_str() {
                "system" => self.queued_record(&entry),
                _ => self.record_of(&entry),
            };
            self.record(record);
        }
        if let Some(conversation) = self.conversation(agent) {
            conversation.history.push(entry);
        }
    }

    /// Adds a block of a reply.
    pub(crate) fn add_reply_history(
        &mut self,
        agent: &PlayerAgent,
        entry: PlayerHistoryEntry,
        message: Value,
        request: Option<String>,
    ) {
        if *agent == PlayerAgent::Main {
            let mut record = self.record_of(&entry);
            record["message"] = message;
            record["requestId"] = request.into();
            self.record(record);
        }
        if let Some(conversation) = self.conversation(agent) {
            conversation.history.push(entry);
        }
    }

    fn record_of(&self, entry: &PlayerHistoryEntry) -> Value {
        json!({
            "parentUuid": self.conversation.history.newest(), "isSidechain": false, "type": entry.role,
            "message": { "role": entry.role, "content": entry.content },
            "uuid": entry.uuid, "timestamp": stamps::timestamp(self.now),
            "userType": "external", "entrypoint": "sdk-cli",
            "cwd": self.environment.cwd.display().to_string(), "sessionId": self.id,
            "version": self.args.release.to_string(), "gitBranch": "HEAD",
        })
    }

    fn queued_record(&self, entry: &PlayerHistoryEntry) -> Value {
        let mut record = self.record_of(entry);
        record["type"] = "attachment".into();
        record["attachment"] =
            json!({ "type": "queued_command", "source_uuid": entry.uuid, "commandMode": "prompt" });
        record["rendered"] = entry.content.clone();
        if let Some(record) = record.as_object_mut() {
            record.remove("message");
        }
        record
    }

    /// Records a change of the queue.
    pub(crate) fn record_queue(&mut self, operation: &str, content: Option<&str>) {
        let mut record = json!({
            "type": "queue-operation", "operation": operation,
            "timestamp": stamps::timestamp(self.now), "sessionId": self.id,
        });
        if let Some(content) = content {
            record["content"] = content.into();
        }
        self.record(record);
    }

    /// Records the cost of the session.
    pub(crate) fn record_cost(&mut self) {
        let record = json!({
            "type": "cost-state", "sessionId": self.id, "totalCostUSD": self.usage.cost(),
            "modelUsage": self.usage.by_model(),
        });
        self.record(record);
    }

    /// Adds a line to the transcript, unless persistence is off.
    pub(crate) fn record(&mut self, entry: Value) {
        if !self.args.no_persistence {
            self.effects.push(PlayerEffect::Record { session: self.id.clone(), entry });
        }
    }
}

/// The fields of an object, or none of any other value.
pub(crate) fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}
