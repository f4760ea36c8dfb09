//! The prompts of a session.

use std::collections::HashMap;

use journal::PromptRecord;
use uuid::Uuid;
use wire::note::{Delivery, PromptState};
use wire::outgoing::Image;

/// All prompts of a session without a final state, and the final states of the others.
#[derive(Debug, Default)]
pub(super) struct PromptQueue {
    /// In the order of the queue, including those in flight.
    open: Vec<PromptRecord>,
    finished: HashMap<Uuid, PromptState>,
    /// Places only grow, so that all prompts of a session have an order.
    last_position: i64,
}

impl PromptQueue {
    pub(super) fn restore(records: Vec<PromptRecord>) -> Self {
        let last_position = records.iter().map(|record| record.position).max().unwrap_or(0);
        let (finished, mut open): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.state.is_final());
        open.sort_by_key(|record| (record.position, record.created));
        let finished = finished.into_iter().map(|it| (it.id, it.state)).collect();
        Self { open, finished, last_position }
    }

    /// The state of a prompt, if there ever was one with that id.
    pub(super) fn state(&self, id: Uuid) -> Option<PromptState> {
        self.get(id).map(|it| it.state).or_else(|| self.finished.get(&id).copied())
    }

    pub(super) fn get(&self, id: Uuid) -> Option<&PromptRecord> {
        self.open.iter().find(|record| record.id == id)
    }

    /// A prompt that waits and can be changed, or the state of one that does not.
    pub(super) fn waiting(&mut self, id: Uuid) -> Result<&mut PromptRecord, Option<PromptState>> {
        let finished = self.finished.get(&id).copied();
        match self.open.iter_mut().find(|record| record.id == id) {
            Some(record) if record.state == PromptState::Queued => Ok(record),
            Some(record) => Err(Some(record.state)),
            None => Err(finished),
        }
    }

    /// Adds a prompt at the end of the queue.
    pub(super) fn push(&mut self, mut record: PromptRecord) -> PromptRecord {
        self.last_position += 1;
        record.position = self.last_position;
        self.open.push(record.clone());
        record
    }

    /// Moves a prompt in front of another or to the end. Returns every record whose place changed.
    pub(super) fn put_before(&mut self, id: Uuid, before: Option<Uuid>) -> Vec<PromptRecord> {
        let Some(from) = self.open.iter().position(|it| it.id == id) else { return Vec::new() };
        let positions: Vec<i64> = self.open.iter().map(|record| record.position).collect();
        let record = self.open.remove(from);
        let to = before.and_then(|before| self.open.iter().position(|it| it.id == before));
        self.open.insert(to.unwrap_or(self.open.len()), record);
        let mut changed = Vec::new();
        for (place, record) in positions.into_iter().zip(&mut self.open) {
            if record.position != place {
                record.position = place;
                changed.push(record.clone());
            }
        }
        changed
    }

    /// The first prompt that waits.
    pub(super) fn next_queued(&self) -> Option<Uuid> {
        self.queued().next().map(|record| record.id)
    }

    /// Prompts that wait, in their order.
    pub(super) fn queued(&self) -> impl Iterator<Item = &PromptRecord> {
        self.open.iter().filter(|record| record.state == PromptState::Queued)
    }

    /// Prompts that were written to the agent and have no final state.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &PromptRecord> {
        self.open.iter().filter(|record| record.state != PromptState::Queued)
    }

    /// Sets the turn of a prompt in flight. Returns the record if that changed it.
    pub(super) fn assign(&mut self, id: Uuid, turn: Option<u64>) -> Option<PromptRecord> {
        let record = self.open.iter_mut().find(|it| it.id == id && it.turn != turn)?;
        record.turn = turn;
        Some(record.clone())
    }

    /// Puts a prompt that was written back into the queue. Returns the record if it was written.
    pub(super) fn return_to_queue(&mut self, id: Uuid, now: u64) -> Option<PromptRecord> {
        let written = |it: &&mut PromptRecord| it.id == id && it.state == PromptState::Written;
        let record = self.open.iter_mut().find(written)?;
        record.state = PromptState::Queued;
        record.delivery = Delivery::Queue;
        record.turn = None;
        record.changed = now;
        Some(record.clone())
    }

    /// Sets the state of an open prompt. Returns the record if that changed it.
    pub(super) fn set_state(
        &mut self,
        id: Uuid,
        state: PromptState,
        turn: Option<u64>,
        now: u64,
    ) -> Option<PromptRecord> {
        let at = self.open.iter().position(|record| record.id == id)?;
        let record = &mut self.open[at];
        if record.state == state {
            return None;
        }
        record.state = state;
        record.turn = turn.or(record.turn);
        record.changed = now;
        if !state.is_final() {
            return Some(record.clone());
        }
        self.finished.insert(id, state);
        Some(self.open.remove(at))
    }
}

/// The images of a prompt as the journal stores them.
pub(super) fn images_to_content(images: &[Image]) -> Option<String> {
    let json = || serde_json::to_string(images).expect("images serialise");
    (!images.is_empty()).then(json)
}

/// The images of a stored prompt. Unreadable ones are left out: a prompt without its image is
/// better than a session that does not start.
pub(super) fn images_of(record: &PromptRecord) -> Vec<Image> {
    let content = record.content.as_deref();
    content.and_then(|content| serde_json::from_str(content).ok()).unwrap_or_default()
}
