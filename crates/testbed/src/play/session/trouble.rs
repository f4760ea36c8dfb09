//! What is done when the model does not answer, or breaks off.

use std::time::Duration;

use serde_json::{Value, json};

use super::Session;
use super::failure::{describe, is_passing, retry_name, synthetic};
use super::lines::into_object;
use super::talk::Speaker;
use crate::play::clock;
use crate::play::effect::{Effect, Timer};
use crate::play::history::Entry;
use crate::play::input::Trouble;
use crate::play::wording;

/// Attempts beside the first, where nobody says otherwise.
const RETRIES: u32 = 10;
/// Features that 2.1.325 can do without.
const PLAINER: u32 = 5;
/// Attempts that a failing stream uses up before the request goes without one.
const STREAM_ATTEMPTS: u32 = 3;

impl Session {
    /// A request got no reply at all.
    pub(super) fn request_failed(&mut self, speaker: &Speaker, trouble: &Trouble) {
        let most = self.around.max_retries.unwrap_or(RETRIES);
        if self.try_plainer(speaker, trouble) {
            return;
        }
        let Some(talk) = self.talk(speaker) else { return };
        let used = if talk.stumbles.streams >= STREAM_ATTEMPTS { STREAM_ATTEMPTS } else { 0 };
        let most = most.saturating_sub(used);
        if !is_passing(trouble) || talk.stumbles.retries >= most {
            self.give_up(speaker, trouble);
            return;
        }
        talk.stumbles.retries += 1;
        let attempt = talk.stumbles.retries;
        let Some(asked) = &mut talk.asked else { return };
        asked.paused = true;
        let number = asked.number;
        let base = 500_u64.saturating_mul(1 << (attempt - 1).min(6)).min(32_000);
        let delay = trouble.retry_after.unwrap_or_else(|| base + self.ids.below(base / 4));
        self.system(
            "api_retry",
            json!({
                "attempt": attempt, "max_retries": most, "retry_delay_ms": delay,
                "error_status": trouble.status, "error": retry_name(trouble.status),
            }),
        );
        let (timer, after) = (Timer::Retry(number), Duration::from_millis(delay));
        self.effects.push(Effect::Wake { timer, after });
    }

    /// Asks at once again for less: 2.1.325 drops one beta feature after another when it is told that
    /// its request is wrong, and the stream when there is no such model.
    fn try_plainer(&mut self, speaker: &Speaker, trouble: &Trouble) -> bool {
        let Some(talk) = self.talk(speaker) else { return false };
        let Some(asked) = &talk.asked else { return false };
        let (mut body, mut streaming) = (asked.body.clone(), asked.streaming);
        match trouble.status {
            Some(400) if trouble.message.contains("prompt is too long") => return false,
            Some(400) if talk.stumbles.plainer < PLAINER => {}
            Some(404) if streaming => {
                body["stream"] = false.into();
                streaming = false;
            }
            _ => return false,
        }
        talk.stumbles.plainer += 1;
        self.send(speaker, body, streaming);
        true
    }

    /// A while passed.
    pub(super) fn woken(&mut self, timer: Timer) {
        match timer {
            Timer::Retry(number) => self.retry(number),
            Timer::Hook(ask) => self.hook_timed_out(&ask),
        }
    }

    fn retry(&mut self, number: u64) {
        let talks = std::iter::once(&self.talk).chain(self.helpers.values().map(|it| &it.talk));
        let mut paused = talks.filter_map(|talk| {
            let asked = talk.asked.as_ref().filter(|it| it.number == number && it.paused)?;
            Some((talk.speaker.clone(), asked.body.clone(), asked.streaming))
        });
        let found = paused.next();
        if let Some((speaker, body, streaming)) = found {
            self.send(&speaker, body, streaming);
        }
    }

    /// A reply broke off.
    pub(super) fn stream_failed(&mut self, speaker: &Speaker, trouble: &Trouble) {
        let most = self.around.max_retries.unwrap_or(RETRIES);
        let Some(talk) = self.talk(speaker) else { return };
        let said = talk.message.as_ref().is_some_and(|it| it.is_open() || !it.blocks.is_empty());
        if !talk.calls.is_empty() {
            self.cut_short(speaker);
            self.settle(speaker);
            return;
        }
        // A connection that breaks takes what it said with it; an error of the API leaves it.
        if trouble.status.is_none() && trouble.kind.is_none() {
            if said {
                self.drop_reply(speaker);
            }
            self.request_failed(speaker, trouble);
            return;
        }
        if trouble.kind.as_deref() == Some("garbage") {
            let text = format!("Could not parse message into JSON: {}", trouble.message);
            self.effects.push(Effect::Complain(text));
        }
        let Some(talk) = self.talk(speaker) else { return };
        if talk.message.as_ref().is_some_and(|message| !message.blocks.is_empty()) {
            self.cut_short(speaker);
            self.go_on(speaker);
            return;
        }
        if said {
            self.drop_reply(speaker);
            self.ask_whole(speaker);
            return;
        }
        let Some(talk) = self.talk(speaker) else { return };
        talk.message = None;
        talk.stumbles.streams += 1;
        let streams = talk.stumbles.streams;
        let Some(asked) = &mut talk.asked else { return };
        if streams <= most.min(STREAM_ATTEMPTS - 1) {
            asked.paused = true;
            let timer = Timer::Retry(asked.number);
            let after = Duration::from_millis(500 * u64::from(streams));
            self.effects.push(Effect::Wake { timer, after });
        } else {
            self.ask_whole(speaker);
        }
    }

    /// Asks for the same without a stream.
    fn ask_whole(&mut self, speaker: &Speaker) {
        let Some(talk) = self.talk(speaker) else { return };
        talk.stumbles.streams = STREAM_ATTEMPTS;
        let Some(asked) = &talk.asked else { return };
        let mut body = asked.body.clone();
        body["stream"] = false.into();
        self.send(speaker, body, false);
    }

    /// Closes the events of a reply that will be asked for again.
    fn drop_reply(&mut self, speaker: &Speaker) {
        let Some(message) = self.talk(speaker).and_then(|talk| talk.message.as_mut()) else {
            return;
        };
        let (_, open) = message.abandon();
        let abandoned = json!({ "api_message_id": message.id, "from_block_index": 0 });
        if let Some(index) = open {
            let stop = json!({ "type": "content_block_stop", "index": index });
            self.stream_event(speaker, &stop, json!({}));
        }
        let fields = json!({ "abandoned_blocks": abandoned });
        self.stream_event(speaker, &json!({ "type": "message_stop" }), fields);
        if let Some(talk) = self.talk(speaker) {
            talk.message = None;
        }
    }

    /// Shows what came of a reply that broke off.
    fn cut_short(&mut self, speaker: &Speaker) {
        let Some(message) = self.talk(speaker).and_then(|talk| talk.message.as_mut()) else {
            return;
        };
        let (partial, open) = message.abandon();
        message.complete = true;
        let blocks = message.blocks.len();
        let id = message.id.clone();
        if let Some(block) = partial {
            self.said_block(speaker, &block, json!({}));
        }
        if let Some(index) = open {
            let stop = json!({ "type": "content_block_stop", "index": index });
            self.stream_event(speaker, &stop, json!({}));
        }
        let abandoned = json!({ "api_message_id": id, "from_block_index": blocks });
        let fields = json!({ "abandoned_blocks": abandoned });
        self.stream_event(speaker, &json!({ "type": "message_stop" }), fields);
        if let Some(talk) = self.talk(speaker) {
            talk.asked = None;
        }
    }

    /// Asks the model to go on where it broke off, three times at most.
    fn go_on(&mut self, speaker: &Speaker) {
        let Some(talk) = self.talk(speaker) else { return };
        if talk.stumbles.continued < 3 {
            talk.stumbles.continued += 1;
            self.urge(speaker, wording::CUT_BY_ERROR, json!({}));
        } else {
            let text =
                "API Error: Server error mid-response. The response above may be incomplete.";
            let fields = json!({ "error": "server_error" });
            self.fail_with(speaker, text, &fields, "api_error");
        }
    }

    /// The limit of tokens was hit too often.
    pub(super) fn too_long(&mut self, speaker: &Speaker) {
        let fields = json!({
            "error": "max_output_tokens", "api_error": "max_output_tokens",
            "api_error_params": { "cut": "output_limit" },
        });
        self.fail_with(speaker, wording::TOO_LONG, &fields, "api_error");
    }

    /// A request failed for good.
    fn give_up(&mut self, speaker: &Speaker, trouble: &Trouble) {
        let gateway = self.around.base_url.clone().unwrap_or_default();
        let gateway = gateway.split('/').nth(2).unwrap_or_default();
        let (text, error) = describe(trouble, &self.model(), gateway);
        let mut fields = json!({ "error": error });
        if let Some(request) = &trouble.request_id {
            fields["request_id"] = request.clone().into();
        }
        if let Some(status) = trouble.status {
            fields["api_error_status"] = status.into();
        }
        if let Some(kind) = trouble.kind.as_ref().filter(|_| trouble.status.is_some()) {
            fields["api_error_type"] = kind.clone().into();
        }
        if trouble.refused {
            fields["api_error"] = "connection_failed".into();
        }
        let reason = match trouble.status {
            Some(413) => "image_error",
            _ if text.starts_with("Prompt is too long") => "prompt_too_long",
            _ => "api_error",
        };
        self.fail_with(speaker, &text, &fields, reason);
    }

    /// Ends a talk with a message of our own in the model's place.
    pub(super) fn fail_with(
        &mut self,
        speaker: &Speaker,
        text: &str,
        fields: &Value,
        reason: &'static str,
    ) {
        self.replay_held(speaker);
        let message = synthetic(&self.ids.uuid(), text, "stop_sequence");
        let uuid = self.ids.uuid();
        let mut line = into_object(fields.clone());
        line.insert("type".to_owned(), "assistant".into());
        line.insert("message".to_owned(), message);
        line.insert("uuid".to_owned(), uuid.clone().into());
        line.insert("timestamp".to_owned(), clock::timestamp(self.now).into());
        line.insert("is_api_error_message".to_owned(), true.into());
        self.address(&mut line, speaker);
        self.print(Value::Object(line));
        let content = json!([{ "type": "text", "text": text }]);
        self.keep_of(speaker, Entry { uuid, role: "assistant".into(), content, prompt: false });
        if let Some(talk) = self.talk(speaker) {
            talk.asked = None;
            talk.message = None;
        }
        match speaker {
            Speaker::Main => self.finish_failed(text, fields, reason),
            Speaker::Helper(id) => self.helper_done(&id.clone()),
        }
    }
}
