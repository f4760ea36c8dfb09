//! Updates that wait for the bot.
//!
//! An update waits until a poll with a higher offset confirms it, a webhook takes it, or a day has
//! passed; whoever polls without confirming gets it again.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};

const DAY: Duration = Duration::from_hours(24);

/// What a bot is not sent unless it asks for it.
const UNASKED: [&str; 3] = ["chat_member", "message_reaction", "message_reaction_count"];

/// The queue of one bot.
#[derive(Debug)]
pub(super) struct Updates {
    queue: VecDeque<Update>,
    next: i64,
    /// The kinds that the bot asked for; none asks for the usual ones.
    allowed: Vec<String>,
    /// Which poll is the current one: a later poll ends an earlier one.
    pub(super) poll: u64,
}

#[derive(Debug)]
struct Update {
    id: i64,
    at: Duration,
    body: Value,
}

impl Updates {
    pub(super) fn new() -> Self {
        Self { queue: VecDeque::new(), next: 500_000_001, allowed: Vec::new(), poll: 0 }
    }

    /// Adds an update, unless the bot does not want its kind.
    pub(super) fn add(&mut self, now: Duration, kind: &str, body: Value) {
        let wanted = match self.allowed.as_slice() {
            [] => !UNASKED.contains(&kind),
            some => some.iter().any(|it| it == kind),
        };
        if wanted {
            let id = self.next;
            self.next += 1;
            let mut update = json!({"update_id": id});
            update[kind] = body;
            self.queue.push_back(Update { id, at: now, body: update });
        }
    }

    /// What the bot wants from now on; updates that already wait stay.
    pub(super) fn allow(&mut self, kinds: &Value) {
        if let Some(kinds) = kinds.as_array() {
            let kinds = kinds.iter().filter_map(Value::as_str);
            self.allowed = kinds.map(ToOwned::to_owned).collect();
        }
    }

    /// Drops what an offset confirms. A negative one keeps that many of the newest.
    pub(super) fn confirm(&mut self, offset: i64) {
        if let Ok(kept) = usize::try_from(-offset)
            && kept > 0
        {
            let old = self.queue.len().saturating_sub(kept);
            self.queue.drain(..old);
        } else {
            self.queue.retain(|it| it.id >= offset);
        }
    }

    pub(super) fn first(&mut self, now: Duration, limit: usize) -> Vec<Value> {
        self.queue.retain(|it| now < it.at + DAY);
        self.queue.iter().take(limit).map(|it| it.body.clone()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }
}
