//! The stop button.

use serde_json::{Value, json};

use super::Session;
use super::call::Stage;
use super::talk::Speaker;
use crate::play::effect::Effect;
use crate::play::history::Entry;
use crate::play::input::Outcome;
use crate::play::wording;

impl Session {
    /// The host wants the turn to end.
    pub(super) fn interrupt(&mut self, id: &Value, request: &Value) {
        let cancelled = if self.turn.is_some() { self.cancel_asks() } else { Vec::new() };
        if self.turn.is_some() && !self.spare_helpers {
            self.kill_helpers();
        }
        let gone =
            if request["cancel_queued"] == true { self.queue.cancel_all() } else { Vec::new() };
        let mut answer = json!({});
        let stamped: Vec<String> =
            gone.iter().filter(|prompt| prompt.stamped).map(|it| it.uuid.clone()).collect();
        for uuid in &stamped {
            self.lifecycle(uuid, "cancelled");
        }
        answer["still_queued"] = self.queue.known().into();
        if request["cancel_queued"] == true {
            answer["cancelled"] = stamped.into();
        }
        self.succeed(id, answer);
        if self.turn.is_some() {
            for call in cancelled {
                self.deny(&call);
            }
            self.interrupt_turn();
        }
    }

    /// Ends the turn where it is.
    pub(super) fn interrupt_turn(&mut self) {
        self.cancel_asks();
        let streaming = self.talk.asked.is_some();
        let asked = self.talk.asked.take();
        if let Some(asked) = &asked {
            self.effects.push(Effect::Hush(asked.number));
        }
        let busy = !self.talk.calls.is_empty();
        if streaming && !busy {
            self.talk.asked = asked;
            self.break_off();
            self.talk.asked = None;
            self.finish_interrupted("aborted_streaming");
            return;
        }
        if let Some(message) = &mut self.talk.message {
            message.abandon();
        }
        let calls = self.stop_calls(&Speaker::Main);
        if !calls.is_empty() {
            self.keep_results(&Speaker::Main, &calls);
        }
        self.say_interrupted("[Request interrupted by user for tool use]");
        self.finish_interrupted("aborted_tools");
    }

    /// Shows what was said so far, and closes its events.
    fn break_off(&mut self) {
        let parts = self.talk.message.as_mut().map(|message| {
            let (partial, open) = message.abandon();
            (partial, open, message.id.clone(), message.blocks.len())
        });
        if let Some((Some(block), ..)) = &parts {
            self.said_block(&Speaker::Main, block, json!({ "aborted": true }));
        }
        self.say_interrupted("[Request interrupted by user]");
        if let Some((_, open, id, blocks)) = parts {
            if let Some(index) = open {
                let stop = json!({ "type": "content_block_stop", "index": index });
                self.stream_event(&Speaker::Main, &stop, json!({}));
            }
            let delta = json!({
                "container": null, "stop_details": null, "stop_reason": null, "stop_sequence": null,
            });
            let usage = json!({ "output_tokens": 0 });
            let event = json!({
                "type": "message_delta", "delta": delta, "usage": usage,
                "context_management": null,
            });
            self.stream_event(&Speaker::Main, &event, json!({}));
            let abandoned = json!({ "api_message_id": id, "from_block_index": blocks });
            let fields = json!({ "abandoned_blocks": abandoned });
            self.stream_event(&Speaker::Main, &json!({ "type": "message_stop" }), fields);
        }
    }

    fn say_interrupted(&mut self, text: &str) {
        self.replay_held(&Speaker::Main);
        let content = json!([{ "type": "text", "text": text }]);
        let uuid = self.user(&Speaker::Main, &content, json!({}));
        self.count_line(&Speaker::Main);
        self.keep(Entry { uuid, role: "user".to_owned(), content, prompt: false });
    }

    /// Ends every call of the main talk, without a word.
    pub(super) fn drop_calls(&mut self) {
        for call in std::mem::take(&mut self.talk.calls) {
            if call.stage == Stage::Running {
                self.effects.push(Effect::Stop(call.id));
            }
        }
    }

    /// Ends every call of a talk, and answers those without a result.
    pub(super) fn stop_calls(&mut self, speaker: &Speaker) -> Vec<super::call::Call> {
        let Some(talk) = self.talk(speaker) else { return Vec::new() };
        talk.message = None;
        let mut calls = std::mem::take(&mut talk.calls);
        for call in &mut calls {
            if call.is_done() {
                continue;
            }
            let running = call.stage == Stage::Running;
            if running {
                self.effects.push(Effect::Stop(call.id.clone()));
            }
            let more = if running { wording::STOPPED } else { "" };
            let mut outcome = Outcome::failure(&format!("{}{more}", wording::REJECTED));
            outcome.report = "User rejected tool use".into();
            let block = call.block(&outcome);
            call.result = Some(block.clone());
            let meta = json!([{ "id": call.id, "non_execution_kind": "user-rejected" }]);
            let fields = json!({ "tool_use_result": outcome.report, "tool_result_meta": meta });
            self.user(speaker, &json!([block]), fields);
            self.count_line(speaker);
        }
        calls
    }
}
