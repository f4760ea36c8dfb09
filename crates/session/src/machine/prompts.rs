//! Prompts that wait or are with the agent.

use std::collections::HashMap;

use journal::PromptRecord;
use uuid::Uuid;
use wire::note::PromptState;
use wire::say::Image;

/// Every prompt of a session that is not settled, and how the others ended.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    /// In the order of the queue; those with the agent among them.
    open: Vec<PromptRecord>,
    settled: HashMap<Uuid, PromptState>,
    /// The last place given away: places grow with time, so that all prompts of a session have an
    /// order.
    last_place: i64,
}

impl Prompts {
    pub(super) fn restored(records: Vec<PromptRecord>) -> Self {
        let last_place = records.iter().map(|record| record.place).max().unwrap_or(0);
        let (settled, mut open): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.state.is_final());
        open.sort_by_key(|record| (record.place, record.created));
        let settled = settled.into_iter().map(|it| (it.id, it.state)).collect();
        Self { open, settled, last_place }
    }

    /// Where a prompt stands, if there ever was one of that id.
    pub(super) fn state(&self, id: Uuid) -> Option<PromptState> {
        self.get(id).map(|it| it.state).or_else(|| self.settled.get(&id).copied())
    }

    pub(super) fn get(&self, id: Uuid) -> Option<&PromptRecord> {
        self.open.iter().find(|record| record.id == id)
    }

    /// A prompt to be changed while it waits.
    pub(super) fn waiting(&mut self, id: Uuid) -> Result<&mut PromptRecord, Option<PromptState>> {
        let settled = self.settled.get(&id).copied();
        match self.open.iter_mut().find(|record| record.id == id) {
            Some(record) if record.state == PromptState::Queued => Ok(record),
            Some(record) => Err(Some(record.state)),
            None => Err(settled),
        }
    }

    /// Puts a prompt at the end of the queue.
    pub(super) fn push(&mut self, mut record: PromptRecord) -> PromptRecord {
        self.last_place += 1;
        record.place = self.last_place;
        self.open.push(record.clone());
        record
    }

    /// Puts a prompt in front of another or at the end; gives back every record whose place changed.
    pub(super) fn put_before(&mut self, id: Uuid, before: Option<Uuid>) -> Vec<PromptRecord> {
        let Some(from) = self.open.iter().position(|it| it.id == id) else { return Vec::new() };
        let places: Vec<i64> = self.open.iter().map(|record| record.place).collect();
        let record = self.open.remove(from);
        let to = before.and_then(|before| self.open.iter().position(|it| it.id == before));
        self.open.insert(to.unwrap_or(self.open.len()), record);
        let mut changed = Vec::new();
        for (place, record) in places.into_iter().zip(&mut self.open) {
            if record.place != place {
                record.place = place;
                changed.push(record.clone());
            }
        }
        changed
    }

    /// The first prompt that waits.
    pub(super) fn next_queued(&self) -> Option<Uuid> {
        self.queued().next().map(|record| record.id)
    }

    /// Those that wait, in their order.
    pub(super) fn queued(&self) -> impl Iterator<Item = &PromptRecord> {
        self.open.iter().filter(|record| record.state == PromptState::Queued)
    }

    /// Those that are with the agent.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = &PromptRecord> {
        self.open.iter().filter(|record| record.state != PromptState::Queued)
    }

    /// Says which turn a prompt that is with the agent belongs to, if that is news.
    pub(super) fn assign(&mut self, id: Uuid, turn: Option<u64>) -> Option<PromptRecord> {
        let record = self.open.iter_mut().find(|it| it.id == id && it.turn != turn)?;
        record.turn = turn;
        Some(record.clone())
    }

    /// Moves a prompt on to a state, if it is open and that is news.
    pub(super) fn become_state(
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
        self.settled.insert(id, state);
        Some(self.open.remove(at))
    }
}

/// The pictures of a prompt, as the journal keeps them.
pub(super) fn images_to_content(images: &[Image]) -> Option<String> {
    let json = || serde_json::to_string(images).expect("pictures serialise");
    (!images.is_empty()).then(json)
}

/// The pictures of a prompt from the journal. What cannot be read is left out: a prompt without a
/// picture is better than a session that does not start.
pub(super) fn images_of(record: &PromptRecord) -> Vec<Image> {
    let content = record.content.as_deref();
    content.and_then(|content| serde_json::from_str(content).ok()).unwrap_or_default()
}
