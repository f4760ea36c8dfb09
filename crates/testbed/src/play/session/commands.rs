//! Slash commands, and side questions, which the model answers outside the conversation.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::play::event::{ModelReply, ModelRequestNumber, PlayerEffect};
use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::session::conversation::{
    PlayerAgent, PlayerHistoryEntry, PlayerMessage, PlayerTokens, synthetic_message,
};
use crate::play::session::host_requests::PlayerCompactionStep;
use crate::play::session::output::into_object;
use crate::play::session::queue::PlayerPrompt;
use crate::play::{stamps, texts};

/// Side questions that the model has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct SideQuestions {
    open: BTreeMap<ModelRequestNumber, SideQuestion>,
}

#[derive(Debug)]
struct SideQuestion {
    /// The id of the control request.
    request: Value,
    message: Option<PlayerMessage>,
}

impl SideQuestions {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl SideQuestion {
    /// Adds part of the reply. Returns whether the reply has ended.
    fn add(&mut self, reply: &ModelReply) -> bool {
        match reply {
            ModelReply::Started(_) => false,
            ModelReply::Event(event) if event["type"] == "message_start" => {
                self.message = Some(PlayerMessage::start(event));
                false
            }
            ModelReply::Event(event) => {
                if let Some(message) = &mut self.message {
                    message.apply(event);
                }
                event["type"] == "error" || self.message.as_ref().is_some_and(|it| it.complete)
            }
            ModelReply::Message(message) => {
                self.message = Some(PlayerMessage::whole(message));
                true
            }
            ModelReply::Ended | ModelReply::Failed(_) => true,
        }
    }
}

impl PlayerSession {
    /// Sends a side question. Neither the question nor the answer becomes part of the history.
    pub(crate) fn ask_side_question(&mut self, id: &Value, request: &Value) {
        let mut body = self.request_body(&PlayerAgent::Main);
        let question = json!([
            { "type": "text", "text": texts::SIDE_QUESTION },
            { "type": "text", "text": request["question"] },
        ]);
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.push(json!({ "role": "user", "content": question }));
        }
        self.print_system(
            "control_request_progress",
            json!({ "request_id": id, "status": "started" }),
        );
        self.request_count += 1;
        let number = self.request_count;
        self.side_questions
            .open
            .insert(number, SideQuestion { request: id.clone(), message: None });
        self.effects.push(PlayerEffect::RequestModel { number, body });
    }

    /// Handles a reply to a side question. Replies to any other request are ignored.
    pub(crate) fn on_side_question_reply(
        &mut self,
        number: ModelRequestNumber,
        reply: &ModelReply,
    ) {
        let Some(question) = self.side_questions.open.get_mut(&number) else { return };
        if !question.add(reply) {
            return;
        }
        let Some(question) = self.side_questions.open.remove(&number) else { return };
        if let Some(message) = &question.message {
            self.usage.count(&message.model, PlayerTokens::parse(&message.usage));
        }
        match question.message.filter(|message| message.complete).and_then(|it| it.text()) {
            Some(text) => {
                self.respond(&question.request, json!({ "response": text, "synthetic": false }));
            }
            None => self.respond(&question.request, json!({ "response": null })),
        }
    }

    /// Runs a slash command. Returns whether there is one with this name.
    pub(crate) fn run_slash_command(
        &mut self,
        name: &str,
        arguments: &str,
        prompt: &PlayerPrompt,
    ) -> bool {
        match name {
            "clear" => self.clear(prompt),
            "compact" => self.compact(arguments),
            "cost" | "usage" => self.print_local_command(name, &self.cost_text()),
            _ if self.is_unknown_command(name) => self.refuse_command(name),
            _ => return false,
        }
        true
    }

    /// Whether the release answers a command without the model because it does not exist.
    fn is_unknown_command(&self, name: &str) -> bool {
        let is_name = |it: char| it.is_ascii_alphanumeric() || "-_:".contains(it);
        self.has(PlayerBehavior::UnknownCommandsAnswered)
            && !name.is_empty()
            && name.chars().all(is_name)
            && self.settings.definitions.find(name).is_none()
    }

    fn refuse_command(&mut self, name: &str) {
        self.print_init();
        let named = self.has(PlayerBehavior::UnknownCommandsNamed);
        let text = if named { format!("Unknown skill: {name}") } else { String::new() };
        self.finish_without_model(&text, None);
    }

    /// Replaces a prompt that calls a command or skill of a file. Returns whether it does.
    pub(crate) fn expand_defined_prompt(&mut self, prompt: &PlayerPrompt) -> bool {
        let Some((name, arguments)) = prompt.slash_command() else { return false };
        let Some(definition) = self.settings.definitions.find(&name) else { return false };
        let content = definition.content(&arguments);
        if let Some(last) = self.turn.as_mut().and_then(|turn| turn.prompts.last_mut()) {
            last.content = content;
        }
        true
    }

    /// Prints the output of a command.
    fn print_local_command(&mut self, name: &str, text: &str) {
        self.print_init();
        if !self.has(PlayerBehavior::LocalCommandOutput) {
            self.finish_without_model("", Some(name));
            return;
        }
        let message = synthetic_message(&self.ids.uuid(), text, "end_turn");
        let source = format!("<local-command-stdout>{text}</local-command-stdout>");
        let mut line = into_object(json!({
            "type": "assistant", "message": message, "local_command_source": source,
            "uuid": self.ids.uuid(), "timestamp": stamps::timestamp(self.now),
        }));
        self.add_origin_fields(&mut line, &PlayerAgent::Main);
        self.print(Value::Object(line));
        self.finish_without_model(text, Some(name));
    }

    /// Clears the history and continues with a new session id.
    fn clear(&mut self, prompt: &PlayerPrompt) {
        let line = json!({
            "type": "conversation_reset", "new_conversation_id": self.ids.uuid(),
            "uuid": self.ids.uuid(), "trigger": "clear", "user_message_uuid": prompt.uuid,
            "timestamp": stamps::timestamp(self.now), "session_id": self.id,
        });
        self.print(line);
        if self.has(PlayerBehavior::ClearStartsSession) {
            self.id = self.ids.uuid();
        }
        self.conversation.history.clear();
        self.print_tasks();
        self.print_init();
        self.finish_without_model("", Some("clear"));
    }

    /// Asks the model for a summary that replaces the history.
    fn compact(&mut self, instructions: &str) {
        if self.conversation.history.entries().is_empty() {
            self.print_local_command("compact", "Error: No messages to compact");
            return;
        }
        if self.has(PlayerBehavior::CompactionStatus) {
            self.print_system("status", json!({ "status": "compacting" }));
        }
        self.start_compaction_hooks(&PlayerCompactionStep::Before(instructions.to_owned()));
    }

    /// Takes the next step of a compaction, after the hooks of one.
    pub(crate) fn continue_compaction(&mut self, step: &PlayerCompactionStep) {
        match step {
            PlayerCompactionStep::Before(instructions) => self.request_summary(instructions),
            PlayerCompactionStep::Started(text) => {
                self.start_compaction_hooks(&PlayerCompactionStep::After(text.clone()));
            }
            PlayerCompactionStep::After(text) => self.finish_compaction(text),
        }
    }

    fn request_summary(&mut self, instructions: &str) {
        let mut body = self.request_body(&PlayerAgent::Main);
        let text = format!("Please write a summary of this conversation so far. {instructions}");
        let question = json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.push(question);
        }
        let partial = std::mem::replace(&mut self.args.partial, false);
        self.send_request(&PlayerAgent::Main, body, true);
        self.args.partial = partial;
        if let Some(pending) = &mut self.conversation.pending {
            pending.summary = true;
        }
    }

    /// Whether an agent waits for the summary of a compaction.
    pub(crate) fn is_summary(&self, agent: &PlayerAgent) -> bool {
        *agent == PlayerAgent::Main
            && self.conversation.pending.as_ref().is_some_and(|pending| pending.summary)
    }

    pub(crate) fn on_summary_reply(&mut self, reply: ModelReply) {
        match reply {
            ModelReply::Event(event) if event["type"] == "message_start" => {
                self.conversation.message = Some(PlayerMessage::start(&event));
            }
            ModelReply::Event(event) => {
                if let Some(message) = &mut self.conversation.message {
                    message.apply(&event);
                }
                let complete = self.conversation.message.as_ref().is_some_and(|it| it.complete);
                if complete {
                    let text = self.conversation.message.as_ref().and_then(PlayerMessage::text);
                    self.restart_with_summary(&text.unwrap_or_default());
                }
            }
            ModelReply::Started(_) | ModelReply::Message(_) => {}
            ModelReply::Ended | ModelReply::Failed(_) => {
                self.restart_with_summary("No summary could be made.");
            }
        }
    }

    /// The request for the summary is over; hooks hear of it before the history is replaced.
    fn restart_with_summary(&mut self, text: &str) {
        self.conversation.pending = None;
        self.conversation.message = None;
        self.start_compaction_hooks(&PlayerCompactionStep::Started(text.to_owned()));
    }

    fn finish_compaction(&mut self, text: &str) {
        let summary = text
            .split_once("<summary>")
            .and_then(|(_, rest)| rest.split_once("</summary>"))
            .map_or(text, |(summary, _)| summary)
            .trim()
            .to_owned();
        let tail = self.conversation.history.newest().unwrap_or_default().to_owned();
        let kept =
            self.conversation.history.entries().last().filter(|it| it.role == "assistant").cloned();
        if self.has(PlayerBehavior::CompactionStatus) {
            self.print_system("status", json!({ "status": null, "compact_result": "success" }));
        }
        self.print_init();
        let boundary = json!({
            "parentUuid": null, "logicalParentUuid": tail, "isSidechain": false, "type": "system",
            "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": false,
            "timestamp": stamps::timestamp(self.now), "uuid": self.ids.uuid(), "level": "info",
            "compactMetadata": { "trigger": "manual", "preTokens": 12 }, "sessionId": self.id,
        });
        self.record(boundary);
        self.conversation.history.clear();
        let transcript = self.transcript_path();
        let content: Value = texts::compacted(&summary, &transcript).into();
        let anchor = self.ids.uuid();
        let metadata = json!({
            "trigger": "manual", "pre_tokens": 12, "post_tokens": 2594,
            "cumulative_dropped_tokens": 0, "duration_ms": 34,
            "preserved_segment": { "head_uuid": tail, "anchor_uuid": anchor, "tail_uuid": tail },
        });
        let fields = json!({ "compact_metadata": metadata, "logical_parent_uuid": tail });
        self.print_system("compact_boundary", fields);
        let line = json!({
            "type": "user", "message": { "role": "user", "content": content },
            "session_id": self.id, "parent_tool_use_id": null, "uuid": anchor,
            "timestamp": stamps::timestamp(self.now), "isReplay": false, "isSynthetic": true,
        });
        self.print(line);
        self.add_history(PlayerHistoryEntry {
            uuid: anchor,
            role: "user".to_owned(),
            content,
            prompt: false,
        });
        if let Some(kept) = kept {
            self.add_history(kept);
        }
        let output = json!("<local-command-stdout>Compacted </local-command-stdout>");
        let line = json!({
            "type": "user", "message": { "role": "user", "content": output },
            "session_id": self.id, "parent_tool_use_id": null, "uuid": self.ids.uuid(),
            "timestamp": stamps::timestamp(self.now), "isReplay": true,
        });
        self.print(line);
        self.finish_without_model("", Some("compact"));
    }
}
