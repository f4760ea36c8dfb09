//! The replica kept small: what is told is let go.

use view::{Body, Call, Item, Place, Turn};

use super::Chat;
use super::Moment;
use super::piece::{Fate, Piece};

/// Cards that are remembered after they are settled, for those who tap late.
const SETTLED: usize = 32;

/// Messages whose prompts are remembered.
const PROMPTS: usize = 256;

/// Finished calls of the running turn that are kept for the progress message.
const CALLS: usize = 8;

impl Chat {
    /// Brings everything up to date after a change.
    pub(super) fn tidy(&mut self, now: Moment) {
        if let Some(first) = self.document.turns.first() {
            let known = if first.number <= 1 { 0 } else { first.number + 1 };
            self.costs_from = self.costs_from.min(known);
        }
        self.pass();
        self.close_unshown();
        self.rest();
        self.live.observe(&self.document, self.running().map(|turn| turn.number), now);
        self.trim();
        self.forget();
    }

    /// The turn that runs.
    pub(super) fn running(&self) -> Option<&Turn> {
        self.document.turns.last().filter(|turn| turn.number > 0 && !self.is_over(turn))
    }

    /// Goes past what is not for telling, and past what has no words.
    fn pass(&mut self) {
        loop {
            if let Some(post) = self.post(None)
                && post.parts.len() <= post.sending.sent
            {
                self.told(&post.sending);
                continue;
            }
            break;
        }
        if self.memory.sending.is_some() {
            return;
        }
        let mut told = self.memory.told;
        for piece in self.pieces(self.memory.verbosity) {
            let Piece::Item(item, Fate::Passed) = piece else { break };
            told = item.place;
        }
        self.memory.told = told;
    }

    /// A request that was settled while it had no card needs none.
    fn close_unshown(&mut self) {
        let unshown = self.memory.cards.iter().filter(|(_, card)| card.message.is_none());
        let settled = unshown.filter(|(id, card)| !card.settled && self.outcome(id).is_some());
        let settled: Vec<String> = settled.map(|(id, _)| id.clone()).collect();
        for id in settled {
            self.memory.cards.remove(&id);
            self.shown.remove(&id);
        }
    }

    /// Where nothing is left to tell and nobody waits, nothing so far is needed again.
    fn rest(&mut self) {
        let document = &self.document;
        let untold = |item: &Item| item.open || item.place > self.memory.told;
        let unsettled = self.memory.cards.values().any(|card| !card.settled);
        let quiet = self.running().is_none()
            && self.memory.sending.is_none()
            && document.queue.is_empty()
            && document.requests.is_empty()
            && !unsettled
            && !document.items.iter().any(untold)
            && document.turns.last().is_none_or(|turn| turn.number <= self.memory.turn);
        if quiet {
            self.memory.from = self.memory.from.max(document.revision.0);
            self.memory.told = self.memory.told.max(Place(document.revision.0, u32::MAX));
        }
    }

    fn trim(&mut self) {
        let (memory, shown) = (&self.memory, &self.document.items);
        let running = self.running().map(|turn| turn.number);
        let finished = |item: &Item| {
            item.parent.is_none()
                && Some(item.turn) == running
                && called(item).is_some_and(|call| !call.state.is_open())
        };
        let mut spare = shown.iter().filter(|item| finished(item)).count().saturating_sub(CALLS);
        let asked = |item: &Item| {
            let permission = called(item).and_then(|call| call.permission.as_ref());
            let request = permission.and_then(|permission| permission.request.as_deref());
            request.is_some_and(|request| {
                self.document.requests.iter().any(|known| known.id == request)
                    || memory.cards.get(request).is_some_and(|card| !card.settled)
            })
        };
        let keep: Vec<bool> = shown
            .iter()
            .map(|item| {
                let recent = finished(item) && {
                    let old = spare > 0;
                    spare = spare.saturating_sub(1);
                    !old
                };
                let open = item.open || called(item).is_some_and(|call| call.state.is_open());
                let own = item.parent.is_none();
                (own && (item.place > memory.told || open)) || recent || asked(item)
            })
            .collect();
        if keep.iter().any(|keep| !keep) {
            let mut keep = keep.into_iter();
            self.document.items.retain(|_| keep.next().unwrap_or(true));
        }
        let last = self.document.turns.last().map_or(0, |turn| turn.number);
        let told = self.memory.turn;
        self.document.turns.retain(|turn| turn.number > told || turn.number == last);
    }

    /// Forgets what nobody will ask for.
    fn forget(&mut self) {
        while self.memory.prompts.len() > PROMPTS {
            self.memory.prompts.pop_first();
        }
        let settled = self.memory.cards.values().filter(|card| card.settled);
        let mut settled: Vec<_> = settled.map(|card| card.message).collect();
        if settled.len() > SETTLED {
            settled.sort_unstable();
            let oldest = settled[settled.len() - SETTLED];
            self.memory.cards.retain(|_, card| !card.settled || card.message >= oldest);
        }
        let requests = &self.document.requests;
        self.asking.retain(|(id, _)| requests.iter().any(|request| request.id == *id));
        self.given_up.retain(|id| requests.iter().any(|request| request.id == *id));
    }
}

fn called(item: &Item) -> Option<&Call> {
    match &item.body {
        Body::Call(call) => Some(call),
        _ => None,
    }
}
