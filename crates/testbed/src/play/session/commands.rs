//! Slash commands that need no model, or only to sum up.

use serde_json::{Value, json};

use super::Session;
use super::failure::synthetic;
use super::lines::into_object;
use super::talk::Speaker;
use crate::play::clock;
use crate::play::history::Entry;
use crate::play::input::Reply;
use crate::play::queue::Prompt;
use crate::play::wording;

impl Session {
    /// Carries a command out; whether there is such a command.
    pub(super) fn command(&mut self, name: &str, rest: &str, prompt: &Prompt) -> bool {
        match name {
            "clear" | "reset" | "new" => self.clear(prompt),
            "compact" => self.compact(rest),
            "cost" | "usage" => self.local(name, &self.cost_text()),
            "context" => {
                let model = self.model();
                let text = format!(
                    "## Context Usage\n\n**Model:** {model}  \n**Tokens:** 2.2k / 1m (0%)\n"
                );
                self.local(name, &text);
            }
            "model" => {
                if !rest.is_empty() {
                    self.model = Some(rest.to_owned());
                }
                let text = format!("Set model to {}", self.model());
                self.local(name, &text);
            }
            _ => return false,
        }
        true
    }

    /// A command that only says something.
    fn local(&mut self, name: &str, text: &str) {
        self.print_init();
        let message = synthetic(&self.ids.uuid(), text, "end_turn");
        let source = format!("<local-command-stdout>{text}</local-command-stdout>");
        let mut line = into_object(json!({
            "type": "assistant", "message": message, "local_command_source": source,
            "uuid": self.ids.uuid(), "timestamp": clock::timestamp(self.now),
        }));
        self.address(&mut line, &Speaker::Main);
        self.print(Value::Object(line));
        self.finish_quietly(text, Some(name));
    }

    /// Forgets the conversation and goes on under another id.
    fn clear(&mut self, prompt: &Prompt) {
        let line = json!({
            "type": "conversation_reset", "new_conversation_id": self.ids.uuid(),
            "uuid": self.ids.uuid(), "trigger": "clear", "user_message_uuid": prompt.uuid,
            "timestamp": clock::timestamp(self.now), "session_id": self.id,
        });
        self.print(line);
        self.id = self.ids.uuid();
        self.talk.history.clear();
        self.print_tasks();
        self.print_init();
        self.finish_quietly("", Some("clear"));
    }

    /// Has the model sum the conversation up.
    fn compact(&mut self, rest: &str) {
        if self.talk.history.entries().is_empty() {
            self.local("compact", "Error: No messages to compact");
            return;
        }
        self.system("status", json!({ "status": "compacting" }));
        let mut body = self.request_body(&Speaker::Main);
        let words = format!("Please write a summary of this conversation so far. {rest}");
        let question = json!({ "role": "user", "content": [{ "type": "text", "text": words }] });
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.push(question);
        }
        let partial = std::mem::replace(&mut self.arguments.partial, false);
        self.send(&Speaker::Main, body, true);
        self.arguments.partial = partial;
        if let Some(asked) = &mut self.talk.asked {
            asked.summary = true;
        }
    }

    /// Whether a talk waits for a summary.
    pub(super) fn is_summary(&self, speaker: &Speaker) -> bool {
        *speaker == Speaker::Main && self.talk.asked.as_ref().is_some_and(|asked| asked.summary)
    }

    /// Something came of the request for a summary.
    pub(super) fn summary_replied(&mut self, reply: Reply) {
        use crate::play::message::Message;
        match reply {
            Reply::Event(event) if event["type"] == "message_start" => {
                self.talk.message = Some(Message::start(&event));
            }
            Reply::Event(event) => {
                if let Some(message) = &mut self.talk.message {
                    message.take(&event);
                }
                let complete = self.talk.message.as_ref().is_some_and(|it| it.complete);
                if complete {
                    let text = self.talk.message.as_ref().and_then(Message::text);
                    self.compacted(&text.unwrap_or_default());
                }
            }
            Reply::Opened(_) | Reply::Message(_) => {}
            Reply::Ended | Reply::Failed(_) => self.compacted("No summary could be made."),
        }
    }

    fn compacted(&mut self, text: &str) {
        let summary = text
            .split_once("<summary>")
            .and_then(|(_, rest)| rest.split_once("</summary>"))
            .map_or(text, |(summary, _)| summary)
            .trim()
            .to_owned();
        let tail = self.talk.history.newest().unwrap_or_default().to_owned();
        let kept = self.talk.history.entries().last().filter(|it| it.role == "assistant").cloned();
        self.system("status", json!({ "status": null, "compact_result": "success" }));
        self.print_init();
        self.record(json!({ "type": "play-boundary", "sessionId": self.id }));
        self.talk.history.clear();
        let transcript = self.transcript_path();
        let content: Value = wording::continued(&summary, &transcript).into();
        let anchor = self.ids.uuid();
        let metadata = json!({
            "trigger": "manual", "pre_tokens": 12, "post_tokens": 2594,
            "cumulative_dropped_tokens": 0, "duration_ms": 34,
            "preserved_segment": { "head_uuid": tail, "anchor_uuid": anchor, "tail_uuid": tail },
        });
        let fields = json!({ "compact_metadata": metadata, "logical_parent_uuid": tail });
        self.system("compact_boundary", fields);
        let line = json!({
            "type": "user", "message": { "role": "user", "content": content },
            "session_id": self.id, "parent_tool_use_id": null, "uuid": anchor,
            "timestamp": clock::timestamp(self.now), "isReplay": false, "isSynthetic": true,
        });
        self.print(line);
        self.keep(Entry { uuid: anchor, role: "user".to_owned(), content, prompt: false });
        if let Some(kept) = kept {
            self.keep(kept);
        }
        let said = json!("<local-command-stdout>Compacted </local-command-stdout>");
        let line = json!({
            "type": "user", "message": { "role": "user", "content": said },
            "session_id": self.id, "parent_tool_use_id": null, "uuid": self.ids.uuid(),
            "timestamp": clock::timestamp(self.now), "isReplay": true,
        });
        self.print(line);
        self.finish_quietly("", Some("compact"));
    }
}
