//! What must hold: the notes a follower would read, kept like accounts.
//!
//! It sees only what is durable and what left the process, as everybody else does.

use std::collections::{BTreeMap, BTreeSet};

use journal::Status;
use serde_json::Value;
use towpath_session::machine::Ticket;
use uuid::Uuid;
use wire::note::{Delivery, Note, PromptState};

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) turn: Option<u64>,
    turns: u64,
    pub(crate) prompts: BTreeMap<Uuid, (PromptState, Delivery)>,
    /// Prompts that wait, in their order.
    queue: Vec<Uuid>,
    /// Every request there was; whether it is resolved.
    pub(crate) requests: BTreeMap<String, bool>,
    answers: BTreeSet<String>,
    controls: BTreeSet<String>,
    said: BTreeSet<Uuid>,
    tickets: BTreeSet<Ticket>,
}

impl Ledger {
    /// Takes in a note that is written down.
    pub(crate) fn note(&mut self, note: &Note) {
        match note {
            Note::PromptQueued { prompt, delivery, .. } => {
                let before = self.prompts.insert(*prompt, (PromptState::Queued, *delivery));
                assert!(before.is_none(), "{prompt} was taken twice");
                self.queue.push(*prompt);
            }
            Note::PromptMoved { prompt, before } => {
                self.queue.retain(|it| it != prompt);
                let at = before.and_then(|it| self.queue.iter().position(|other| *other == it));
                self.queue.insert(at.unwrap_or(self.queue.len()), *prompt);
            }
            Note::PromptBecame { prompt, state } => self.prompt_became(*prompt, *state),
            Note::TurnBegan { turn, prompts } => {
                assert_eq!(self.turn, None, "turn {turn} began inside another");
                assert_eq!(*turn, self.turns + 1, "turns are numbered in order");
                for prompt in prompts {
                    let state = self.prompts[prompt].0;
                    assert!(!state.is_final(), "turn {turn} is for {prompt}, which is {state:?}");
                }
                (self.turn, self.turns) = (Some(*turn), *turn);
            }
            Note::TurnOver { turn, .. } => {
                assert_eq!(self.turn.take(), Some(*turn), "a turn is over that did not run");
            }
            Note::RequestOpened { request, .. } => {
                let before = self.requests.insert(request.clone(), false);
                assert_eq!(before, None, "`{request}` was opened twice");
            }
            Note::RequestResolved { request, .. } => {
                let before = self.requests.insert(request.clone(), true);
                assert_eq!(before, Some(false), "`{request}` was resolved while it was not open");
            }
            _ => {}
        }
    }

    fn prompt_became(&mut self, prompt: Uuid, state: PromptState) {
        let (before, delivery) = self.prompts[&prompt];
        assert!(!before.is_final(), "{prompt} became {state:?} after {before:?}");
        assert!(state != PromptState::Queued, "{prompt} went back into the queue");
        if state == PromptState::Written {
            assert_eq!(before, PromptState::Queued, "{prompt} was written twice");
            if delivery == Delivery::Queue {
                let overtaken = self.queue.iter().take_while(|it| **it != prompt);
                let overtaken =
                    overtaken.filter(|it| self.prompts[*it].1 == Delivery::Queue).count();
                assert_eq!(overtaken, 0, "{prompt} overtook others in the queue");
            }
        }
        self.queue.retain(|it| *it != prompt);
        self.prompts.insert(prompt, (state, delivery));
    }

    /// Takes in a line that reached the agent.
    pub(crate) fn said(&mut self, line: &str) {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        match line["type"].as_str() {
            Some("user") => {
                let prompt = line["uuid"].as_str().and_then(|it| it.parse().ok()).expect("a uuid");
                assert!(self.said.insert(prompt), "{prompt} was said twice");
            }
            Some("control_request") => {
                let id = line["request_id"].as_str().expect("an id").to_owned();
                assert!(self.controls.insert(id), "an id was used twice: {line}");
            }
            Some("control_response") => {
                let id = line["response"]["request_id"].as_str().expect("an id").to_owned();
                assert!(self.answers.insert(id), "answered twice: {line}");
            }
            _ => panic!("no such line: {line}"),
        }
    }

    pub(crate) fn was_said(&self, prompt: Uuid) -> bool {
        self.said.contains(&prompt)
    }

    pub(crate) fn asked(&mut self, ticket: Ticket) {
        self.tickets.insert(ticket);
    }

    pub(crate) fn replied(&mut self, ticket: Ticket) {
        assert!(self.tickets.remove(&ticket), "{ticket:?} was replied to twice");
    }

    /// Towpath died: nobody waits for a reply any more.
    pub(crate) fn forget_tickets(&mut self) {
        self.tickets.clear();
    }

    pub(crate) fn open_requests(&self) -> Vec<String> {
        let open = self.requests.iter().filter(|(_, resolved)| !**resolved);
        open.map(|(request, _)| request.clone()).collect()
    }

    /// Whether an agent has a prompt that nobody has told the end of.
    fn is_with_agent(&self) -> bool {
        let mut states = self.prompts.values().map(|(state, _)| *state);
        states.any(|state| !state.is_final() && state != PromptState::Queued)
    }

    /// Whether what the session says of itself is what its notes say.
    pub(crate) fn agrees_with(&self, status: Status) {
        let fits = match status {
            Status::Waiting => !self.open_requests().is_empty(),
            _ if !self.open_requests().is_empty() => false,
            Status::Running => true,
            Status::Idle | Status::Dead => {
                self.turn.is_none() && self.queue.is_empty() && !self.is_with_agent()
            }
            Status::Failed => self.turn.is_none() && !self.is_with_agent(),
        };
        let (turn, queue) = (self.turn, &self.queue);
        assert!(fits, "{status:?} with turn {turn:?}, requests {:?}, {queue:?}", self.requests);
    }

    /// Nothing is left to be done.
    pub(crate) fn is_settled(&self) {
        assert_eq!(self.turn, None, "a turn is never over");
        assert_eq!(self.open_requests(), Vec::<String>::new(), "requests are never resolved");
        assert!(self.tickets.is_empty(), "nobody replied to {:?}", self.tickets);
        for (prompt, (state, _)) in &self.prompts {
            assert!(state.is_final(), "{prompt} stays {state:?}");
        }
    }
}
