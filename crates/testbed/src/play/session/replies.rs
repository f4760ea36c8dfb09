//! What the model says, event by event.

use serde_json::{Value, json};

use super::Session;
use super::call::Call;
use super::lines::into_object;
use super::mcp::Servers;
use super::talk::Speaker;
use crate::play::clock;
use crate::play::effect::RequestNumber;
use crate::play::history::Entry;
use crate::play::input::{Reply, Trouble};
use crate::play::message::{Message, Piece};
use crate::play::tally::Tokens;

impl Session {
    /// Something came of a request.
    pub(super) fn replied(&mut self, number: RequestNumber, reply: Reply) {
        let Some(speaker) = self.asking(number) else {
            self.aside_replied(number, &reply);
            return;
        };
        if self.is_summary(&speaker) {
            self.summary_replied(reply);
            return;
        }
        match reply {
            Reply::Opened(id) => {
                if let Some(asked) = self.talk(&speaker).and_then(|talk| talk.asked.as_mut()) {
                    asked.id = id;
                }
            }
            Reply::Event(event) => self.event(&speaker, &event),
            Reply::Message(message) => self.whole(&speaker, &message),
            Reply::Ended => {
                let complete = self
                    .talk(&speaker)
                    .is_none_or(|talk| talk.message.as_ref().is_some_and(|it| it.complete));
                if !complete {
                    let trouble = Trouble { message: "terminated".into(), ..Trouble::default() };
                    self.stream_failed(&speaker, &trouble);
                }
            }
            Reply::Failed(trouble) => {
                let began = self.talk(&speaker).is_some_and(|talk| talk.message.is_some());
                if began {
                    self.stream_failed(&speaker, &trouble);
                } else {
                    self.request_failed(&speaker, &trouble);
                }
            }
        }
    }

    /// Whose request it is, if anybody still waits for it.
    fn asking(&self, number: RequestNumber) -> Option<Speaker> {
        let talks = std::iter::once(&self.talk).chain(self.helpers.values().map(|it| &it.talk));
        let mut waiting = talks.filter(|talk| {
            talk.asked.as_ref().is_some_and(|asked| asked.number == number && !asked.paused)
        });
        waiting.next().map(|talk| talk.speaker.clone())
    }

    fn event(&mut self, speaker: &Speaker, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "error" => {
                let error = &event["error"];
                let kind = error["type"].as_str().map(str::to_owned);
                let status = (kind.as_deref() == Some("overloaded_error")).then_some(529);
                let message = error["message"].as_str().unwrap_or_default().to_owned();
                let trouble = Trouble { status, kind, message, ..Trouble::default() };
                self.stream_failed(speaker, &trouble);
            }
            "ping" => {}
            "message_start" => {
                self.replay_held(speaker);
                let Some(talk) = self.talk(speaker) else { return };
                talk.message = Some(Message::start(event));
                self.stream_event(speaker, event, json!({}));
            }
            _ => self.part(speaker, event),
        }
    }

    fn part(&mut self, speaker: &Speaker, event: &Value) {
        let Some(message) = self.talk(speaker).and_then(|talk| talk.message.as_mut()) else {
            return;
        };
        match message.take(event) {
            Piece::Part => self.stream_event(speaker, event, json!({})),
            Piece::Thought(all, more) => {
                if *speaker == Speaker::Main && self.arguments.partial {
                    let fields = json!({ "estimated_tokens": all, "estimated_tokens_delta": more });
                    self.system("thinking_tokens", fields);
                }
                self.stream_event(speaker, event, json!({}));
            }
            Piece::Block(block) => {
                self.said_block(speaker, &block, json!({}));
                // Calls that need no look are answered before their block is closed.
                let early = self.is_early(&block);
                if early {
                    self.called(speaker, &block);
                }
                self.stream_event(speaker, event, json!({}));
                if !early {
                    self.called(speaker, &block);
                }
            }
            Piece::Complete => {
                self.stream_event(speaker, event, json!({}));
                self.completed(speaker);
            }
        }
    }

    /// A reply that came in one piece.
    fn whole(&mut self, speaker: &Speaker, message: &Value) {
        self.replay_held(speaker);
        let Some(talk) = self.talk(speaker) else { return };
        let whole = Message::whole(message);
        let blocks = whole.blocks.clone();
        talk.message = Some(whole);
        for block in &blocks {
            self.said_block(speaker, block, json!({}));
            self.called(speaker, block);
        }
        self.completed(speaker);
    }

    /// Passes an event on to a host that wants them.
    pub(super) fn stream_event(&mut self, speaker: &Speaker, event: &Value, fields: Value) {
        if *speaker != Speaker::Main {
            return;
        }
        if let Some(turn) = &mut self.turn {
            turn.first_event.get_or_insert(self.now);
        }
        if !self.arguments.partial {
            return;
        }
        let id = self.talk.message.as_ref().map(|message| message.id.clone());
        let mut line = into_object(fields);
        line.insert("type".to_owned(), "stream_event".into());
        line.insert("event".to_owned(), event.clone());
        line.insert("uuid".to_owned(), self.ids.uuid().into());
        line.insert("api_message_id".to_owned(), id.into());
        if event["type"] == "message_start" {
            let sent = self.talk.asked.as_ref().map_or(self.now, |asked| asked.sent);
            line.insert("ttft_ms".to_owned(), clock::between(sent, self.now).into());
            line.insert("thinking_display".to_owned(), "updates".into());
            let named = self.turn.as_ref().filter(|turn| !turn.named);
            if let Some((turn, uuid)) = named.and_then(|turn| Some((turn, turn.uuid()?))) {
                line.insert("user_message_uuid".to_owned(), uuid.into());
                line.insert("user_message_uuids".to_owned(), turn.uuids().into());
                line.insert("owed_rows".to_owned(), json!([]));
            }
        }
        if event["content_block"]["type"] == "thinking" {
            line.insert("thinking_display".to_owned(), "updates".into());
        }
        self.address(&mut line, speaker);
        self.print(Value::Object(line));
    }

    /// A block of a reply becomes a line, a record and history.
    pub(super) fn said_block(&mut self, speaker: &Speaker, block: &Value, fields: Value) {
        let uuid = self.ids.uuid();
        let Some(talk) = self.talk(speaker) else { return };
        let request = talk.asked.as_ref().and_then(|asked| asked.id.clone());
        let Some(message) = talk.message.as_ref().map(|message| message.line(block)) else {
            return;
        };
        let mut line = into_object(fields);
        line.insert("type".to_owned(), "assistant".into());
        line.insert("message".to_owned(), message.clone());
        line.insert("uuid".to_owned(), uuid.clone().into());
        line.insert("timestamp".to_owned(), clock::timestamp(self.now).into());
        if let Some(request) = &request {
            line.insert("request_id".to_owned(), request.clone().into());
        }
        if block["type"] == "thinking" {
            line.insert("thinking_duration_ms".to_owned(), 1.into());
            line.insert("thinking_display".to_owned(), "updates".into());
        }
        if let Some(meta) = Servers::meta(block) {
            line.insert("tool_use_meta".to_owned(), json!([meta]));
        }
        if *speaker == Speaker::Main {
            self.name_prompts(&mut line);
        }
        self.address(&mut line, speaker);
        if self.is_shown(speaker, block) {
            self.print(Value::Object(line));
        }
        let content = json!([block]);
        let entry = Entry { uuid, role: "assistant".to_owned(), content, prompt: false };
        self.keep_reply(speaker, entry, message, request);
    }

    /// The first line of an answer names what it answers.
    fn name_prompts(&mut self, line: &mut serde_json::Map<String, Value>) {
        let Some(turn) = &mut self.turn else { return };
        turn.first_answer.get_or_insert(self.now);
        if turn.named {
            return;
        }
        turn.named = true;
        if let Some(uuid) = turn.uuid() {
            line.insert("user_message_uuid".to_owned(), uuid.into());
            line.insert("user_message_uuids".to_owned(), turn.uuids().into());
        }
    }

    /// Whether a host sees a block: all but the words of a helper that is waited for.
    fn is_shown(&self, speaker: &Speaker, block: &Value) -> bool {
        let Speaker::Helper(id) = speaker else { return true };
        let waited = self.helpers.get(id).is_some_and(|helper| !helper.background);
        self.forward_helpers || !waited || block["type"] == "tool_use"
    }

    /// Whether a call is about nobody but the host, or about no tool at all.
    fn is_early(&self, block: &Value) -> bool {
        let name = block["name"].as_str().unwrap_or_default();
        let name = if name == "Agent" { "Task" } else { name };
        name == "AskUserQuestion" || !self.tools().iter().any(|tool| tool == name)
    }

    /// A call begins, if the block is one.
    fn called(&mut self, speaker: &Speaker, block: &Value) {
        if block["type"] != "tool_use" {
            return;
        }
        let call = Call::read(block, speaker.clone());
        self.helper_progress(speaker, &call);
        if let Some(talk) = self.talk(speaker) {
            talk.calls.push(call);
        }
        self.advance(speaker);
    }

    /// A reply is complete.
    fn completed(&mut self, speaker: &Speaker) {
        let now = self.now;
        let Some(talk) = self.talk(speaker) else { return };
        let Some(asked) = talk.asked.take() else { return };
        let Some(message) = &talk.message else { return };
        let (model, tokens) = (message.model.clone(), Tokens::read(&message.usage));
        let (stop, text) = (message.stop_reason.clone(), message.text());
        talk.stumbles.retries = 0;
        talk.stumbles.streams = 0;
        talk.stumbles.plainer = 0;
        self.tally.count(&model, tokens);
        if *speaker == Speaker::Main {
            if let Some(turn) = &mut self.turn {
                turn.tokens.add(tokens);
                turn.first_tokens.get_or_insert(tokens);
                turn.api_millis += clock::between(asked.sent, now);
                turn.stop_reason = stop;
                turn.text = text.unwrap_or_default();
            }
            if self.arguments.max_budget.is_some_and(|budget| self.tally.cost() > budget) {
                self.drop_calls();
                self.finish_over_budget();
                return;
            }
        } else {
            self.count_helper(speaker, tokens, text);
        }
        self.settle(speaker);
    }
}
