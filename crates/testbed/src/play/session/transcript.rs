//! What is kept of a conversation: history for the model, records for a later process.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::talk::Speaker;
use super::{Session, VERSION};
use crate::play::clock;
use crate::play::effect::Effect;
use crate::play::history::{Entry, History};

/// What a session goes on from.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(crate) history: History,
    /// Ids of prompts that were answered.
    pub(crate) prompts: BTreeSet<String>,
    pub(crate) cost: f64,
}

/// Reads a transcript, up to the message `until` where one is named.
pub(crate) fn restore(lines: &[Value], until: Option<&str>) -> Past {
    let mut past = Past::default();
    for line in lines.iter().filter(|line| line["isSidechain"] != true) {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        match line["type"].as_str().unwrap_or_default() {
            "user" | "assistant" => {
                let (role, content) = (text("type"), line["message"]["content"].clone());
                let prompt = line["promptSource"].is_string();
                if prompt {
                    past.prompts.insert(text("uuid"));
                }
                past.history.push(Entry { uuid: text("uuid"), role, content, prompt });
            }
            "attachment" => {
                let attachment = &line["attachment"];
                if attachment["type"] == "queued_command" {
                    let uuid = attachment["source_uuid"].as_str().unwrap_or_default().to_owned();
                    past.prompts.insert(uuid.clone());
                    let content = line["rendered"].clone();
                    past.history.push(Entry { uuid, role: "system".into(), content, prompt: true });
                }
            }
            "play-boundary" => past.history.clear(),
            "play-rewind" => drop(past.history.rewind(&text("uuid"))),
            "cost-state" => past.cost = line["totalCostUSD"].as_f64().unwrap_or_default(),
            _ => {}
        }
        for uuid in line["mergedUuids"].as_array().into_iter().flatten() {
            past.prompts.insert(uuid.as_str().unwrap_or_default().to_owned());
        }
    }
    if let Some(until) = until {
        past.history.truncate_after(until);
    }
    past.history.close_open_calls("restored");
    past
}

impl Session {
    /// Keeps a message of the main talk.
    pub(super) fn keep(&mut self, entry: Entry) {
        self.keep_of(&Speaker::Main, entry);
    }

    /// Keeps a prompt that stands for several.
    pub(super) fn keep_also(&mut self, entry: Entry, merged: &[String]) {
        let mut record = self.record_of(&entry);
        record["promptSource"] = "sdk".into();
        record["permissionMode"] = self.mode.name().into();
        if merged.len() > 1 {
            record["mergedUuids"] = merged.to_vec().into();
        }
        self.record(record);
        self.talk.history.push(entry);
    }

    /// Keeps a message.
    pub(super) fn keep_of(&mut self, speaker: &Speaker, entry: Entry) {
        if *speaker == Speaker::Main {
            let record = match entry.role.as_str() {
                "system" => self.queued_record(&entry),
                _ => self.record_of(&entry),
            };
            self.record(record);
        }
        if let Some(talk) = self.talk(speaker) {
            talk.history.push(entry);
        }
    }

    /// Keeps a block of a reply.
    pub(super) fn keep_reply(
        &mut self,
        speaker: &Speaker,
        entry: Entry,
        message: Value,
        request: Option<String>,
    ) {
        if *speaker == Speaker::Main {
            let mut record = self.record_of(&entry);
            record["message"] = message;
            record["requestId"] = request.into();
            self.record(record);
        }
        if let Some(talk) = self.talk(speaker) {
            talk.history.push(entry);
        }
    }

    fn record_of(&self, entry: &Entry) -> Value {
        json!({
            "parentUuid": self.talk.history.newest(), "isSidechain": false, "type": entry.role,
            "message": { "role": entry.role, "content": entry.content },
            "uuid": entry.uuid, "timestamp": clock::timestamp(self.now),
            "userType": "external", "entrypoint": "sdk-cli",
            "cwd": self.around.cwd.display().to_string(), "sessionId": self.id,
            "version": VERSION, "gitBranch": "HEAD",
        })
    }

    fn queued_record(&self, entry: &Entry) -> Value {
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

    /// Records that the queue changed.
    pub(super) fn record_queue(&mut self, operation: &str, content: Option<&str>) {
        let mut record = json!({
            "type": "queue-operation", "operation": operation,
            "timestamp": clock::timestamp(self.now), "sessionId": self.id,
        });
        if let Some(content) = content {
            record["content"] = content.into();
        }
        self.record(record);
    }

    /// Records what the session cost so far.
    pub(super) fn record_cost(&mut self) {
        let record = json!({
            "type": "cost-state", "sessionId": self.id, "totalCostUSD": self.tally.cost(),
            "modelUsage": self.tally.by_model(),
        });
        self.record(record);
    }

    /// Adds a line to the transcript, unless nothing is to be kept.
    pub(super) fn record(&mut self, entry: Value) {
        if !self.arguments.forget {
            self.effects.push(Effect::Record { session: self.id.clone(), entry });
        }
    }
}
