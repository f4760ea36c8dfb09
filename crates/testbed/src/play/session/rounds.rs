//! From one reply to the next: calls answered, prompts folded in, reasons to go on or to stop.

use serde_json::{Value, json};

use super::Session;
use super::lines::into_object;
use super::talk::Speaker;
use crate::play::history::Entry;
use crate::play::queue::Prompt;
use crate::play::wording;

impl Session {
    /// Goes on where a reply is complete and all its calls are.
    pub(super) fn settle(&mut self, speaker: &Speaker) {
        let Some(talk) = self.talk(speaker) else { return };
        let Some(message) = &talk.message else { return };
        if talk.asked.is_some() || !message.complete || !talk.is_settled() {
            return;
        }
        if talk.calls.is_empty() {
            let (stop, visible) = (message.stop_reason.clone(), message.is_visible());
            self.ended(speaker, stop.as_deref(), visible);
            return;
        }
        let calls = std::mem::take(&mut talk.calls);
        talk.message = None;
        self.keep_results(speaker, &calls);
        self.next_round(speaker);
    }

    /// A reply without calls: the end, or a reason to go on.
    fn ended(&mut self, speaker: &Speaker, stop: Option<&str>, visible: bool) {
        let Some(talk) = self.talk(speaker) else { return };
        let refused = talk.message.as_ref().map(|message| message.id.clone());
        let stumbles = &mut talk.stumbles;
        match stop {
            Some("max_tokens") if stumbles.cut < 3 => {
                stumbles.cut += 1;
                self.urge(speaker, wording::CUT_BY_LIMIT, json!({}));
            }
            Some("max_tokens") => self.too_long(speaker),
            Some("refusal") if stumbles.refused < 1 => {
                stumbles.refused += 1;
                if let Some(turn) = &mut self.turn {
                    turn.safety_stops += 1;
                }
                let content = "Opus 5.5's safeguards stopped the response above · continuing once \
                               with that noted";
                self.system("informational", json!({ "content": content, "level": "notice" }));
                self.urge(speaker, wording::REFUSED, json!({ "refused_message_id": refused }));
            }
            _ if !visible && stumbles.empty < 1 => {
                stumbles.empty += 1;
                self.urge(speaker, wording::EMPTY, json!({}));
            }
            _ => match speaker {
                Speaker::Main => self.stop_turn(),
                Speaker::Helper(id) => self.helper_done(&id.clone()),
            },
        }
    }

    /// Says something to the model in the user's place, and asks it to go on.
    pub(super) fn urge(&mut self, speaker: &Speaker, text: &str, fields: Value) {
        self.urge_with(speaker, text, fields, |_| {});
    }

    /// The same, with something told in between.
    pub(super) fn urge_with(
        &mut self,
        speaker: &Speaker,
        text: &str,
        fields: Value,
        tell: impl FnOnce(&mut Self),
    ) {
        let content = json!([{ "type": "text", "text": text }]);
        let mut fields = into_object(fields);
        fields.insert("isSynthetic".to_owned(), true.into());
        let uuid = self.user(speaker, &content, Value::Object(fields));
        self.count_line(speaker);
        self.keep_of(speaker, Entry { uuid, role: "user".into(), content, prompt: false });
        tell(self);
        self.request(speaker);
    }

    /// Counts a line of the user's side.
    pub(super) fn count_line(&mut self, speaker: &Speaker) {
        if *speaker == Speaker::Main
            && let Some(turn) = &mut self.turn
        {
            turn.user_lines += 1;
        }
    }

    /// Asks the model again after its calls, unless the turn is to end here.
    fn next_round(&mut self, speaker: &Speaker) {
        if *speaker == Speaker::Main {
            let Some(turn) = &mut self.turn else { return };
            turn.rounds += 1;
            let rounds = turn.rounds;
            if self.queue.is_urgent() {
                self.finish_for_urgent();
                return;
            }
            if self.arguments.max_turns.is_some_and(|most| rounds >= most) {
                self.finish_after_turns(rounds);
                return;
            }
            self.fold();
        }
        self.request(speaker);
    }

    /// Prompts that came meanwhile join the turn.
    fn fold(&mut self) {
        let folded: Vec<Prompt> = self.queue.folded();
        for prompt in &folded {
            self.replay(&prompt.uuid, &prompt.content);
            if prompt.stamped {
                self.lifecycle(&prompt.uuid, "started");
            }
            let text = wording::folded(&prompt.words());
            let content = json!([{ "type": "text", "text": text }]);
            let uuid = prompt.uuid.clone();
            self.keep(Entry { uuid, role: "system".to_owned(), content, prompt: true });
        }
        if let Some(turn) = &mut self.turn {
            turn.folded.extend(folded);
        }
    }
}
