//! Prompts on their way: waiting, taken up by a turn, done.

use wire::note::{Actor, Delivery, PromptState};

use super::{Fold, Heard};
use crate::item::{Body, ItemId};
use crate::prompt::{Prompt, Speaker, WaitingPrompt};

impl Fold {
    /// A prompt goes on to its next state; it never goes back.
    pub(super) fn prompt_became(&mut self, id: &ItemId, state: PromptState) -> Heard {
        let Some(Body::Prompt(prompt)) = self.shelf.get(id).map(|item| &item.body) else {
            return Heard::Housekeeping;
        };
        if prompt.state.is_final() || rank(state) <= rank(prompt.state) {
            return Heard::Housekeeping;
        }
        self.change(id, |item| {
            if let Body::Prompt(prompt) = &mut item.body {
                prompt.state = state;
            }
        });
        Heard::Shown
    }

    pub(super) fn is_waiting(&self, uuid: &str) -> bool {
        self.queue.value.iter().any(|waiting| waiting.id == uuid)
    }

    pub(super) fn queued(
        &mut self,
        id: String,
        text: &str,
        images: usize,
        delivery: Delivery,
        by: &Actor,
    ) {
        if self.is_waiting(&id) || self.shelf.has(&ItemId::prompt(&id)) {
            return;
        }
        self.people.told.insert(id.clone(), self.now.seq);
        let waiting = WaitingPrompt {
            id,
            text: text.to_owned(),
            images,
            delivery,
            state: PromptState::Queued,
            by: Some(by.clone()),
            at: self.now.at,
        };
        let rev = self.rev();
        self.queue.change(rev, |queue| queue.push(waiting));
    }

    pub(super) fn edited(&mut self, id: &str, text: &str) {
        let rev = self.rev();
        self.queue.change(rev, |queue| {
            if let Some(waiting) = queue.iter_mut().find(|waiting| waiting.id == id) {
                text.clone_into(&mut waiting.text);
            }
        });
    }

    pub(super) fn moved(&mut self, id: &str, before: Option<&str>) {
        let rev = self.rev();
        self.queue.change(rev, |queue| {
            let Some(from) = queue.iter().position(|waiting| waiting.id == id) else { return };
            let waiting = queue.remove(from);
            let to = before.and_then(|before| queue.iter().position(|it| it.id == before));
            queue.insert(to.unwrap_or(queue.len()), waiting);
        });
    }

    /// A prompt went on to its next state, as a note says.
    pub(super) fn became(&mut self, id: &str, state: PromptState) {
        if !self.is_waiting(id) {
            self.prompt_became(&ItemId::prompt(id), state);
            return;
        }
        let steers = || {
            self.turns.is_open()
                && self.queue.value.iter().any(|it| it.id == id && it.delivery == Delivery::Steer)
        };
        match state {
            PromptState::Queued => {}
            PromptState::Written if !steers() => {
                let rev = self.rev();
                self.queue.change(rev, |queue| {
                    if let Some(waiting) = queue.iter_mut().find(|waiting| waiting.id == id) {
                        waiting.state = state;
                    }
                });
            }
            PromptState::Cancelled => {
                let rev = self.rev();
                self.queue.change(rev, |queue| queue.retain(|waiting| waiting.id != id));
                self.people.told.remove(id);
            }
            PromptState::Written
            | PromptState::Accepted
            | PromptState::Done
            | PromptState::Indeterminate => self.take_up(id, state),
        }
    }

    /// A prompt leaves the queue and becomes part of the running turn.
    pub(super) fn take_up(&mut self, uuid: &str, state: PromptState) {
        let rev = self.rev();
        let Some(at) = self.queue.value.iter().position(|waiting| waiting.id == uuid) else {
            return;
        };
        let waiting = self.queue.change(rev, |queue| queue.remove(at));
        let told = self.people.told.remove(uuid).unwrap_or(self.now.seq);
        let turn = self.working_turn();
        let place = self.place_for_prompt(turn);
        let id = ItemId::prompt(uuid);
        let prompt = Prompt {
            text: waiting.text,
            images: waiting.images,
            state: if rank(state) > rank(waiting.state) { state } else { waiting.state },
            speaker: Speaker::Person,
            by: waiting.by,
        };
        self.put_at(id.clone(), turn, None, place, Body::Prompt(prompt));
        self.prompt_of(turn, &id, told);
    }

    /// The turn that answers a prompt begins.
    pub(super) fn opens_turn(&mut self, uuid: &str) {
        let id = ItemId::prompt(uuid);
        if self.is_waiting(uuid) {
            self.take_up(uuid, PromptState::Written);
        } else if let Some(item) = self.shelf.get(&id) {
            // It was handed to the agent during the turn before, which did not answer it.
            let (before, first) = (item.turn, item.first);
            let turn = self.working_turn();
            if before == turn {
                return;
            }
            let place = self.place_for_prompt(turn);
            self.change(&id, |item| {
                item.turn = turn;
                item.place = place;
            });
            self.change_turn(before, |record| record.turn.prompts.retain(|prompt| *prompt != id));
            self.prompt_of(turn, &id, first);
        }
    }
}

/// How far a prompt is on its way.
fn rank(state: PromptState) -> u8 {
    match state {
        PromptState::Queued => 0,
        PromptState::Written => 1,
        PromptState::Accepted => 2,
        PromptState::Done | PromptState::Cancelled | PromptState::Indeterminate => 3,
    }
}
