//! What must always hold, checked against everything that becomes durable or leaves the process.

use std::collections::{BTreeMap, BTreeSet};

use journal::SessionStatus;
use serde_json::Value;
use towpath_session::SessionLimits;
use towpath_session::machine::CommandId;
use uuid::Uuid;
use wire::note::{Delivery, Note, PromptState};

use super::storage::StoredSession;

#[derive(Default)]
pub(super) struct Invariants {
    pub(super) turn: Option<u64>,
    turns: u64,
    pub(super) prompts: BTreeMap<Uuid, (PromptState, Delivery)>,
    /// Waiting prompts, in order.
    queue: Vec<Uuid>,
    /// Prompts that are sent later: the next time, and the prompt that was queued last.
    pub(super) schedules: BTreeMap<Uuid, (u64, Option<Uuid>)>,
    /// Prompts that were announced and must be queued next.
    announced: Vec<Uuid>,
    /// Whether the queue is held.
    pub(super) held: bool,
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
                self.announced.retain(|it| it != prompt);
                self.queue.push(*prompt);
            }
            Note::PromptMoved { prompt, before } => {
                self.queue.retain(|it| it != prompt);
                let at = before.and_then(|it| self.queue.iter().position(|other| *other == it));
                self.queue.insert(at.unwrap_or(self.queue.len()), *prompt);
            }
            Note::PromptDeliveryChanged { prompt, delivery } => {
                let (state, before) = self.prompts[prompt];
                assert_eq!(state, PromptState::Queued, "{prompt} is delivered already");
                assert_ne!(before, *delivery, "the delivery of {prompt} did not change");
                self.prompts.insert(*prompt, (state, *delivery));
            }
            Note::PromptStateChanged { prompt, state } => self.prompt_became(*prompt, *state),
            Note::PromptScheduled { schedule, next, .. } => {
                let before = self.schedules.insert(*schedule, (*next, None));
                assert!(before.is_none(), "{schedule} was added twice");
            }
            Note::ScheduleDue { schedule, prompt, due, next, .. } => {
                let (expected, last) = self.schedules[schedule];
                assert_eq!(*due, expected, "{schedule} was due at another time");
                assert!(next.is_none_or(|next| next > *due), "{schedule} is due again at once");
                let waits = last.is_some_and(|it| self.prompts[&it].0 == PromptState::Queued);
                assert_eq!(prompt.is_none(), waits, "prompts of {schedule} pile up or are lost");
                self.announced.extend(*prompt);
                match next {
                    Some(next) => self.schedules.insert(*schedule, (*next, prompt.or(last))),
                    None => self.schedules.remove(schedule),
                };
            }
            Note::ScheduleRemoved { schedule, .. } => {
                let before = self.schedules.remove(schedule);
                assert!(before.is_some(), "{schedule} was removed and did not exist");
            }
            Note::QueueHeld { .. } => {
                assert!(!self.held, "the queue was held twice");
                assert!(!self.queue.is_empty(), "an empty queue was held");
                self.held = true;
            }
            Note::QueueResumed { .. } => {
                assert!(self.held, "the queue was resumed and was not held");
                self.held = false;
            }
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

    /// Checks that no prompt starts a turn while a budget is spent, given the session as it is with the
    /// batch of the note, and how much of its cost was reported after the note.
    pub(super) fn check_budget(
        &self,
        note: &Note,
        stored: &StoredSession,
        later: f64,
        limits: SessionLimits,
        loaded: Option<(u64, f64)>,
    ) {
        let Note::TurnStarted { prompts, .. } = note else { return };
        // Others were sent before, and the agent starts with them by itself.
        let starts = |prompt| self.prompts[prompt].0 == PromptState::Queued;
        if !prompts.iter().any(starts) {
            return;
        }
        let options: Value = serde_json::from_str(&stored.record.options).expect("JSON");
        let spending = &options["spending"];
        let spent = spending["total"].as_f64().unwrap_or(0.0) - later;
        let limit = spending["raised_limit"].as_f64().or(options["budget_usd"].as_f64());
        assert!(limit.is_none_or(|limit| spent < limit), "started with {spent} of {limit:?} spent");
        if let Some(budget) = limits.budget_per_day {
            let (day, spent) = loaded.expect("the cost of the day was loaded");
            let raised = &spending["raised_day"];
            let raised = raised["limit"].as_f64().filter(|_| raised["day"].as_u64() == Some(day));
            let limit = raised.unwrap_or(budget);
            assert!(spent < limit, "started with {spent} of {limit} spent today");
        }
    }

    fn prompt_became(&mut self, prompt: Uuid, state: PromptState) {
        let (before, delivery) = self.prompts[&prompt];
        assert!(!before.is_final(), "{prompt} became {state:?} after {before:?}");
        assert!(state != PromptState::Queued, "{prompt} went back into the queue");
        if state == PromptState::Written {
            assert_eq!(before, PromptState::Queued, "{prompt} was written twice");
            assert!(!self.held, "{prompt} was sent while the queue was held");
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

    /// Checks that every prompt that was announced came in the same batch.
    pub(super) fn check_batch(&self) {
        assert!(self.announced.is_empty(), "{:?} were due and never queued", self.announced);
    }

    /// Checks that the status fits the notes.
    pub(super) fn check_status(&self, status: SessionStatus) {
        let fits = match status {
            SessionStatus::Waiting => !self.open_requests().is_empty(),
            _ if !self.open_requests().is_empty() => false,
            SessionStatus::Running => true,
            SessionStatus::Idle | SessionStatus::Dead => {
                let waits = !self.held && !self.queue.is_empty();
                self.turn.is_none() && !waits && !self.is_with_agent()
            }
            SessionStatus::Failed => self.turn.is_none() && !self.is_with_agent(),
        };
        let (turn, queue) = (self.turn, &self.queue);
        assert!(fits, "{status:?} with turn {turn:?}, requests {:?}, {queue:?}", self.requests);
    }

    /// Checks that nothing is left to be done.
    pub(super) fn check_finished(&self) {
        assert!(!self.held, "the queue stays held without a prompt");
        assert_eq!(self.turn, None, "a turn never ended");
        assert_eq!(self.open_requests(), Vec::<String>::new(), "requests were never resolved");
        assert!(self.commands.is_empty(), "no reply to {:?}", self.commands);
        for (prompt, (state, _)) in &self.prompts {
            assert!(state.is_final(), "{prompt} stays {state:?}");
        }
    }
}
