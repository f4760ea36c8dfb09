//! What must always hold, checked against everything that becomes durable or leaves the process.

use std::collections::{BTreeMap, BTreeSet};

use journal::SessionStatus;
use serde_json::Value;
use towpath_session::machine::CommandId;
use uuid::Uuid;
use wire::note::{Delivery, Note, PromptState};

#[derive(Default)]
pub(super) struct Invariants {
    pub(super) turn: Option<u64>,
    turns: u64,
    pub(super) prompts: BTreeMap<Uuid, (PromptState, Delivery)>,
    /// Waiting prompts, in order.
    queue: Vec<Uuid>,
    /// All requests, and whether each is resolved.
    pub(super) requests: BTreeMap<String, bool>,
    answers: BTreeSet<String>,
    controls: BTreeSet<String>,
    written: BTreeSet<Uuid>,
    commands: BTreeSet<CommandId>,
}

impl Invariants {
    /// Checks a note that is in the journal.
    pub(super) fn note(&mut self, note: &Note) {
        match note {
            Note::PromptQueued { prompt, delivery, .. } => {
                let before = self.prompts.insert(*prompt, (PromptState::Queued, *delivery));
                assert!(before.is_none(), "{prompt} was queued twice");
                self.queue.push(*prompt);
            }
            Note::PromptMoved { prompt, before } => {
                self.queue.retain(|it| it != prompt);
                let at = before.and_then(|it| self.queue.iter().position(|other| *other == it));
                self.queue.insert(at.unwrap_or(self.queue.len()), *prompt);
            }
            Note::PromptStateChanged { prompt, state } => self.prompt_became(*prompt, *state),
            Note::TurnStarted { turn, prompts } => {
                assert_eq!(self.turn, None, "turn {turn} started inside another");
                assert_eq!(*turn, self.turns + 1, "turns are numbered in order");
                for prompt in prompts {
                    let state = self.prompts[prompt].0;
                    assert!(!state.is_final(), "turn {turn} is for {prompt}, which is {state:?}");
                }
                (self.turn, self.turns) = (Some(*turn), *turn);
            }
            Note::TurnEnded { turn, .. } => {
                assert_eq!(self.turn.take(), Some(*turn), "a turn ended that did not run");
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

    /// Checks a line that reached the agent.
    pub(super) fn line_written(&mut self, line: &str) {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        match line["type"].as_str() {
            Some("user") => {
                let prompt = line["uuid"].as_str().and_then(|it| it.parse().ok()).expect("a uuid");
                assert!(self.written.insert(prompt), "{prompt} was written twice");
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

    pub(super) fn was_written(&self, prompt: Uuid) -> bool {
        self.written.contains(&prompt)
    }

    pub(super) fn command_sent(&mut self, id: CommandId) {
        self.commands.insert(id);
    }

    pub(super) fn command_replied(&mut self, id: CommandId) {
        assert!(self.commands.remove(&id), "{id:?} was replied to twice");
    }

    /// Towpath died: no client waits for a reply any more.
    pub(super) fn clear_commands(&mut self) {
        self.commands.clear();
    }

    pub(super) fn open_requests(&self) -> Vec<String> {
        let open = self.requests.iter().filter(|(_, resolved)| !**resolved);
        open.map(|(request, _)| request.clone()).collect()
    }

    /// Whether an agent has a prompt without a final state.
    fn is_with_agent(&self) -> bool {
        let mut states = self.prompts.values().map(|(state, _)| *state);
        states.any(|state| !state.is_final() && state != PromptState::Queued)
    }

    /// Checks that the status fits the notes.
    pub(super) fn check_status(&self, status: SessionStatus) {
        let fits = match status {
            SessionStatus::Waiting => !self.open_requests().is_empty(),
            _ if !self.open_requests().is_empty() => false,
            SessionStatus::Running => true,
            SessionStatus::Idle | SessionStatus::Dead => {
                self.turn.is_none() && self.queue.is_empty() && !self.is_with_agent()
            }
            SessionStatus::Failed => self.turn.is_none() && !self.is_with_agent(),
        };
        let (turn, queue) = (self.turn, &self.queue);
        assert!(fits, "{status:?} with turn {turn:?}, requests {:?}, {queue:?}", self.requests);
    }

    /// Checks that nothing is left to be done.
    pub(super) fn check_finished(&self) {
        assert_eq!(self.turn, None, "a turn never ended");
        assert_eq!(self.open_requests(), Vec::<String>::new(), "requests were never resolved");
        assert!(self.commands.is_empty(), "no reply to {:?}", self.commands);
        for (prompt, (state, _)) in &self.prompts {
            assert!(state.is_final(), "{prompt} stays {state:?}");
        }
    }
}
