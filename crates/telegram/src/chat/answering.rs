//! What taps and replies mean.
//!
//! A tap belongs to the thing its button names, whatever the chat has shown since. Words are an
//! answer only where they reply to a message that asked for them.

use session::machine::{Answer, GrantScope};
use view::Request;
use wire::note::Wants;
use wire::say::PermissionMode;

use super::card::title;
use super::nonce::Nonce;
use super::question::{current, questions, ticked};
use super::{Chat, Meaning, remember};
use crate::memory::{Asking, CardMemory};
use crate::place::MessageId;

impl Chat {
    pub(super) fn read_tap(&mut self, message: MessageId, data: &str) -> Meaning {
        if let Some(meaning) = self.tap_of_turn(data) {
            return meaning;
        }
        let session = self.memory.session;
        let asked = self.document.requests.iter().find_map(|request| {
            let verb = Nonce::of_request(session, &request.id).verb(data)?;
            Some((request.clone(), verb))
        });
        if let Some((request, verb)) = asked {
            // Whoever taps has seen the card, whether or not Telegram told us so.
            self.card_memory(&request).message.get_or_insert(message);
            return self.tap_of_card(&request, verb);
        }
        let mut cards = self.memory.cards.keys();
        let known = cards.find(|id| Nonce::of_request(session, id).verb(data).is_some());
        Meaning::Stale(match known {
            Some(request) => self.too_late(request),
            None => "That is over, or of another session.".to_owned(),
        })
    }

    fn tap_of_turn(&self, data: &str) -> Option<Meaning> {
        let session = self.memory.session;
        let (_, verb) = data.split_once('.')?;
        if let Some(turn) = verb.strip_prefix('d').and_then(|turn| turn.parse().ok()) {
            let ours = Nonce::of_turn(session, turn).verb(data).is_some();
            return ours.then_some(Meaning::Diff { turn });
        }
        let turn: u64 = verb.strip_prefix('x')?.parse().ok()?;
        Nonce::of_turn(session, turn).verb(data)?;
        let running = self.running().is_some_and(|running| running.number == turn);
        Some(if running { Meaning::Stop } else { Meaning::Stale("That turn is over.".to_owned()) })
    }

    /// Why a tap or a reply comes too late.
    fn too_late(&self, request: &str) -> String {
        let card = self.memory.cards.get(request);
        let kept = card.map(|card| card.outcome.clone()).filter(|outcome| !outcome.is_empty());
        let outcome = kept.or_else(|| self.outcome(request)).unwrap_or_default();
        let line = outcome.lines().next().unwrap_or_default();
        let line = line.trim_start_matches(|c: char| !c.is_alphanumeric());
        if line.is_empty() {
            "That is settled already.".to_owned()
        } else {
            format!("Too late: {line}.")
        }
    }

    fn tap_of_card(&mut self, request: &Request, verb: &str) -> Meaning {
        let allow = |remember, mode| answer(request, Answer::Allow { input: None, remember, mode });
        match (request.wants, verb) {
            (Wants::Permission, "y") => allow(None, None),
            (Wants::Permission, "a" | "b") => {
                self.card_memory(request).choosing = verb == "a";
                Meaning::Card
            }
            (Wants::Permission, "as") => allow(remember::rule(request, GrantScope::Session), None),
            (Wants::Permission, "ad") => {
                allow(remember::rule(request, GrantScope::Directory), None)
            }
            (Wants::PlanApproval, "pe") => allow(None, Some(PermissionMode::AcceptEdits)),
            (Wants::PlanApproval, "pa") => allow(None, Some(PermissionMode::Default)),
            (_, "n") => deny(request, ""),
            (Wants::Permission | Wants::PlanApproval, "w") => self.ask(request, Asking::Reason),
            (Wants::Answers, verb) => self.tap_of_question(request, verb),
            _ => Meaning::Stale("That button is of an older version.".to_owned()),
        }
    }

    fn tap_of_question(&mut self, request: &Request, verb: &str) -> Meaning {
        let card = self.card_memory(request).clone();
        let (Some((at, question)), Some((tapped, choice))) =
            (current(request, &card), verb.strip_prefix('q').and_then(|rest| rest.split_once('.')))
        else {
            return Meaning::Stale("That button is of an older version.".to_owned());
        };
        if tapped.parse() != Ok(at) {
            return Meaning::Stale("That question is answered already.".to_owned());
        }
        match choice {
            "o" => self.ask(request, Asking::Answer),
            "f" => {
                let chosen = ticked(&question, &card);
                if chosen.is_empty() {
                    return Meaning::Stale("Nothing is ticked yet.".to_owned());
                }
                self.answered(request, chosen)
            }
            number => {
                let number: usize = number.parse().unwrap_or(usize::MAX);
                let Some(choice) = question.choices.get(number) else {
                    return Meaning::Stale("There is no such choice.".to_owned());
                };
                if !question.several {
                    return self.answered(request, choice.label.clone());
                }
                let ticks = &mut self.card_memory(request).ticked;
                match ticks.iter().position(|&it| it == number) {
                    Some(at) => drop(ticks.remove(at)),
                    None => ticks.push(number),
                }
                Meaning::Card
            }
        }
    }

    /// The question that is shown is answered; with the last one, so is the request.
    fn answered(&mut self, request: &Request, words: String) -> Meaning {
        let card = self.card_memory(request).clone();
        let Some((at, question)) = current(request, &card) else {
            return Meaning::Stale("That question is answered already.".to_owned());
        };
        let mut answers = card.answers;
        answers.push((question.text, words));
        if at + 1 == questions(request).len() {
            // Not noted on the card: should the session refuse it, the question is still there.
            return answer(request, Answer::Answers(answers));
        }
        let card = self.card_memory(request);
        card.answers = answers;
        card.ticked.clear();
        // A reply to the message that asked for this answer must not become the next one.
        let asked = card.asking.take();
        self.litter.extend(asked.map(|(message, _)| message));
        Meaning::Card
    }

    /// Words are asked for.
    fn ask(&mut self, request: &Request, asking: Asking) -> Meaning {
        self.asking.retain(|(known, _)| *known != request.id);
        self.asking.push((request.id.clone(), asking));
        Meaning::Card
    }

    fn card_memory(&mut self, request: &Request) -> &mut CardMemory {
        let card = self.memory.cards.entry(request.id.clone()).or_default();
        if card.settled {
            *card = CardMemory::default();
        }
        if card.title.is_empty() {
            card.title = title(request, self.document.head.cwd.as_deref());
            card.since = self.document.revision.0;
        }
        card
    }

    pub(super) fn read_reply(&mut self, to: MessageId, words: &str) -> Option<Meaning> {
        let (id, asked) = self.memory.cards.iter().find_map(|(id, card)| {
            let (message, asked) = card.asking?;
            (message == to).then(|| (id.clone(), asked))
        })?;
        let Some(request) = self.document.requests.iter().find(|it| it.id == id).cloned() else {
            return Some(Meaning::Stale(self.too_late(&id)));
        };
        let words = words.trim();
        if words.is_empty() {
            return None;
        }
        Some(match asked {
            Asking::Reason => deny(&request, words),
            Asking::Answer => self.answered(&request, words.to_owned()),
        })
    }
}

fn answer(request: &Request, answer: Answer) -> Meaning {
    Meaning::Answer { request: request.id.clone(), answer }
}

fn deny(request: &Request, words: &str) -> Meaning {
    let message = match (words, request.wants) {
        ("", Wants::Permission) => "The user said no.",
        ("", Wants::PlanApproval) => "Keep planning.",
        ("", Wants::Answers) => "The user skipped the questions.",
        (words, _) => words,
    };
    answer(request, Answer::Deny { message: message.to_owned(), interrupt: false })
}
