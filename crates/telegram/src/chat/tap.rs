//! What taps and replies mean.
//!
//! A tap belongs to the request or turn that its button names, even if the chat has shown something
//! else since. A text is an answer only if it replies to a message that asked for it.

use journal::SessionId;
use session::{RequestAnswer, RuleChoice};
use uuid::Uuid;
use view::Request;
use wire::consent::{self, PLAN_APPROVAL_MODES};
use wire::note::RequestKind;

use super::card::{self, MessageContent};
use super::question_card;
use super::{Chat, UserIntent};
use crate::address::MessageId;
use crate::bot::BotButton;
use crate::checkpoint::{CardState, ReplyPurpose};

/// The namespace of button keys. It must never change: buttons exist as long as their message.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d1d_54c3_8a0e_4f7b_9c55_0b9e_7f1c_2ad8);

/// Hexadecimal digits of a key: 60 bits, so that keys of one chat do not collide.
const KEY_LENGTH: usize = 15;

const OUT_OF_DATE: &str = "This button is out of date.";
const NOT_SHOWN: &str = "Tap “Show all” first: you have not seen all of this request.";
const QUESTION_ANSWERED: &str = "This question was already answered.";

/// Names the request or turn that a button belongs to.
///
/// A button carries 64 bytes at most, and they must not reveal anything. So it carries a hash of the
/// session and the request or turn, and a verb. Keys are compared, never decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ButtonKey(String);

impl ButtonKey {
    pub(super) fn of_request(session: SessionId, request: &str) -> Self {
        Self::new(session, &format!("request {request}"))
    }

    pub(super) fn of_turn(session: SessionId, turn: u64) -> Self {
        Self::new(session, &format!("turn {turn}"))
    }

    fn new(session: SessionId, owner: &str) -> Self {
        let hash = Uuid::new_v5(&NAMESPACE, format!("{} {owner}", session.0).as_bytes());
        let mut key = hash.simple().to_string();
        key.truncate(KEY_LENGTH);
        Self(key)
    }

    pub(super) fn button(&self, label: &str, verb: &str) -> BotButton {
        BotButton { label: label.to_owned(), data: self.data(verb) }
    }

    /// What a button carries.
    pub(super) fn data(&self, verb: &str) -> String {
        format!("{}.{verb}", self.0)
    }

    /// The verb of a button, if the button has this key.
    pub(super) fn verb<'a>(&self, data: &'a str) -> Option<&'a str> {
        data.strip_prefix(self.0.as_str())?.strip_prefix('.')
    }
}

impl Chat {
    pub(super) fn intent_of_tap(&mut self, message: MessageId, data: &str) -> UserIntent {
        if let Some(intent) = self.tap_on_turn(data) {
            return intent;
        }
        let session = self.checkpoint.session;
        let found = self.document.requests.iter().find_map(|request| {
            let verb = ButtonKey::of_request(session, &request.id).verb(data)?;
            Some((request.clone(), verb))
        });
        if let Some((request, verb)) = found {
            // The tap proves that the card was sent, even if its response was lost.
            self.card_state(&request).message.get_or_insert(message);
            let intent = self.tap_on_card(&request, verb);
            if intent == UserIntent::ChangeCard {
                // After a restart it is not known what the card shows, so it is drawn again.
                self.shown.entry(request.id).or_insert_with(MessageContent::unknown);
            }
            return intent;
        }
        let mut cards = self.checkpoint.cards.keys();
        let known = cards.find(|id| ButtonKey::of_request(session, id).verb(data).is_some());
        UserIntent::Stale(match known {
            Some(request) => self.too_late(request),
            None => "This request is closed or belongs to another session.".to_owned(),
        })
    }

    fn tap_on_turn(&self, data: &str) -> Option<UserIntent> {
        let session = self.checkpoint.session;
        let (_, verb) = data.split_once('.')?;
        if let Some(turn) = verb.strip_prefix('d').and_then(|turn| turn.parse().ok()) {
            let own = ButtonKey::of_turn(session, turn).verb(data).is_some();
            return own.then_some(UserIntent::ShowDiff { turn });
        }
        let turn: u64 = verb.strip_prefix('x')?.parse().ok()?;
        ButtonKey::of_turn(session, turn).verb(data)?;
        let running = self.running_turn().is_some_and(|running| running.number == turn);
        Some(if running { UserIntent::Stop } else { stale("This turn has already ended.") })
    }

    /// Why a tap or a reply comes too late.
    fn too_late(&self, request: &str) -> String {
        let card = self.checkpoint.cards.get(request);
        let stored = card.map(|card| card.outcome.clone()).filter(|outcome| !outcome.is_empty());
        let outcome = stored.or_else(|| self.outcome(request)).unwrap_or_default();
        let line = outcome.lines().next().unwrap_or_default();
        let line = line.trim_start_matches(|c: char| !c.is_alphanumeric());
        if line.is_empty() {
            "This request was already answered.".to_owned()
        } else {
            format!("Too late: {line}.")
        }
    }

    fn tap_on_card(&mut self, request: &Request, verb: &str) -> UserIntent {
        if request.kind != RequestKind::Unknown
            && let Some(choice) = card::parse_choice_verb(request, verb)
        {
            let card = self.card_state(request).clone();
            if choice.kind.allows() && !self.was_shown_in_full(request, &card) {
                return stale(NOT_SHOWN);
            }
            return answer(request, RequestAnswer::Choose { choice: choice.id.clone() });
        }
        match (request.kind, verb) {
            (_, "n") => deny(request, ""),
            (RequestKind::Permission | RequestKind::Plan | RequestKind::Unknown, "w") => {
                self.ask_for_text(request, ReplyPurpose::Reason)
            }
            (_, "s") => {
                if self.disclosures.iter().all(|(known, ..)| *known != request.id) {
                    self.disclosures.push((request.id.clone(), Uuid::nil(), 0));
                }
                UserIntent::ChangeCard
            }
            (RequestKind::Permission, "b") => {
                self.card_state(request).choosing_rule = false;
                UserIntent::ChangeCard
            }
            (RequestKind::Permission | RequestKind::Plan, verb) => {
                self.tap_on_approval(request, verb)
            }
            (RequestKind::Question, verb) => self.tap_on_question(request, verb),
            // It can only be denied.
            (RequestKind::Unknown, _) => stale(OUT_OF_DATE),
        }
    }

    /// A tap that leads to an approval, which requires that the user was shown everything.
    fn tap_on_approval(&mut self, request: &Request, verb: &str) -> UserIntent {
        let card = self.card_state(request).clone();
        if !self.was_shown_in_full(request, &card) {
            return stale(NOT_SHOWN);
        }
        let allow =
            |remember, mode| answer(request, RequestAnswer::Allow { input: None, remember, mode });
        if !request.choices.is_empty() {
            return stale(OUT_OF_DATE);
        }
        match (request.kind, verb) {
            (RequestKind::Permission, "y") => allow(None, None),
            (RequestKind::Permission, "a") => {
                self.card_state(request).choosing_rule = true;
                UserIntent::ChangeCard
            }
            (RequestKind::Permission, verb) => match self.chosen_rule(request, verb) {
                Some(choice) => allow(Some(choice), None),
                None => stale(OUT_OF_DATE),
            },
            (RequestKind::Plan, verb) => {
                let mode = PLAN_APPROVAL_MODES.into_iter().find(|it| card::plan_verb(*it) == verb);
                mode.map_or_else(|| stale(OUT_OF_DATE), |mode| allow(None, Some(mode)))
            }
            (RequestKind::Question | RequestKind::Unknown, _) => stale(OUT_OF_DATE),
        }
    }

    /// The rule and scope that a button names, if the card offers the rule.
    fn chosen_rule(&self, request: &Request, verb: &str) -> Option<RuleChoice> {
        let (number, scope) = card::parse_rule_verb(verb)?;
        let offered = self.offered_rules(request).into_iter().find(|(it, _)| *it == number);
        offered.map(|(_, rule)| RuleChoice { rule: rule.id, until: None, scope })
    }

    fn tap_on_question(&mut self, request: &Request, verb: &str) -> UserIntent {
        let card = self.card_state(request).clone();
        let (Some((index, question)), Some((tapped, choice))) = (
            question_card::current_question(request, &card),
            verb.strip_prefix('q').and_then(|rest| rest.split_once('.')),
        ) else {
            return stale(OUT_OF_DATE);
        };
        if tapped.parse() != Ok(index) {
            return stale(QUESTION_ANSWERED);
        }
        // A text of the user's own agrees to nothing that the question says.
        if choice != "o" && !self.was_shown_in_full(request, &card) {
            return stale(NOT_SHOWN);
        }
        match choice {
            "o" => self.ask_for_text(request, ReplyPurpose::Answer),
            "f" => {
                let selected = question_card::selected_options(&question, &card);
                if selected.is_empty() {
                    return stale("Select at least one option first.");
                }
                self.answer_question(request, selected)
            }
            number => {
                let number: usize = number.parse().unwrap_or(usize::MAX);
                let Some(choice) = question.options.get(number) else {
                    return stale("This option does not exist.");
                };
                if !question.multiple {
                    return self.answer_question(request, choice.label.clone());
                }
                let selected = &mut self.card_state(request).selected;
                match selected.iter().position(|&it| it == number) {
                    Some(at) => drop(selected.remove(at)),
                    None => selected.push(number),
                }
                UserIntent::ChangeCard
            }
        }
    }

    /// Answers the question on the card. The answer to the last one answers the request.
    fn answer_question(&mut self, request: &Request, text: String) -> UserIntent {
        let card = self.card_state(request).clone();
        let Some((index, question)) = question_card::current_question(request, &card) else {
            return stale(QUESTION_ANSWERED);
        };
        let mut answers = card.answers;
        answers.push((question.text, text));
        if index + 1 == question_card::questions(request).len() {
            // Not stored on the card: if the session refuses the answer, the question stays open.
            return answer(request, RequestAnswer::Answers(answers));
        }
        let card = self.card_state(request);
        card.answers = answers;
        card.selected.clear();
        // A reply to the message that asked for this answer must not answer the next question.
        let asked = card.awaited_reply.take();
        self.obsolete.extend(asked.map(|(message, _)| message));
        UserIntent::ChangeCard
    }

    fn ask_for_text(&mut self, request: &Request, purpose: ReplyPurpose) -> UserIntent {
        self.questions.retain(|(known, _)| *known != request.id);
        self.questions.push((request.id.clone(), purpose));
        UserIntent::ChangeCard
    }

    fn card_state(&mut self, request: &Request) -> &mut CardState {
        let card = self.checkpoint.cards.entry(request.id.clone()).or_default();
        if card.closed {
            *card = CardState::default();
        }
        if card.title.is_empty() {
            card.title = card::title(request, self.document.head.cwd.as_deref());
            card.since = self.document.revision.0;
        }
        card
    }

    pub(super) fn intent_of_reply(&mut self, to: MessageId, text: &str) -> Option<UserIntent> {
        let (id, purpose) = self.checkpoint.cards.iter().find_map(|(id, card)| {
            let (message, purpose) = card.awaited_reply?;
            (message == to).then(|| (id.clone(), purpose))
        })?;
        let Some(request) = self.document.requests.iter().find(|it| it.id == id).cloned() else {
            return Some(UserIntent::Stale(self.too_late(&id)));
        };
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        Some(match purpose {
            ReplyPurpose::Reason => deny(&request, text),
            ReplyPurpose::Answer => self.answer_question(&request, text.to_owned()),
        })
    }
}

fn stale(why: &str) -> UserIntent {
    UserIntent::Stale(why.to_owned())
}

fn answer(request: &Request, answer: RequestAnswer) -> UserIntent {
    UserIntent::Answer { request: request.id.clone(), answer }
}

fn deny(request: &Request, reason: &str) -> UserIntent {
    let message = match (reason, request.kind) {
        ("", RequestKind::Plan) => "Keep planning.",
        ("", RequestKind::Question) => "The user skipped the questions.",
        (reason, _) => consent::denial(reason),
    };
    answer(request, RequestAnswer::Deny { message: message.to_owned(), interrupt: false })
}

#[cfg(test)]
mod tests {
    use super::{ButtonKey, SessionId, Uuid};

    #[test]
    fn a_button_belongs_to_one_request_or_turn_of_one_session() {
        let session = SessionId(Uuid::from_u128(1));
        let key = ButtonKey::of_request(session, "r1");
        let data = key.data("q3.11");
        assert!(data.len() <= 64 && !data.contains("r1"), "{data}");
        assert_eq!(key.verb(&data), Some("q3.11"));
        assert_eq!(ButtonKey::of_request(session, "r2").verb(&data), None);
        assert_eq!(ButtonKey::of_request(SessionId(Uuid::from_u128(2)), "r1").verb(&data), None);
        assert_eq!(ButtonKey::of_turn(session, 1), ButtonKey::of_turn(session, 1));
        assert_ne!(ButtonKey::of_turn(session, 1), ButtonKey::of_turn(session, 2));
    }
}
