//! What is being written, shown as a draft: in private chats, where the server knows drafts.
//!
//! A draft is gone with the next message, so it is shown again after one. A server that does not
//! know drafts is not asked twice; what is being written is part of the progress message then.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use view::telegram::LIMIT;
use view::{Body, Item};

use super::order::{Step, Task};
use super::{Chat, Moment, Urgency, words};
use crate::call::Call;
use crate::place::Kind;

/// How long a draft stays as it is at least.
const PACE: Duration = Duration::from_millis(700);

/// What is shown as a draft.
#[derive(Debug, Default)]
pub(super) struct Draft {
    refused: bool,
    shown: Option<(i64, String)>,
    spoke: Option<Moment>,
}

impl Draft {
    pub(super) fn shows(&mut self, draft: i64, text: String) {
        self.shown = Some((draft, text));
    }

    pub(super) fn is_refused(&mut self) {
        self.refused = true;
    }

    pub(super) fn is_gone(&mut self) {
        self.shown = None;
    }

    pub(super) fn resume(&mut self, now: Moment) {
        self.spoke.get_or_insert(now);
    }

    pub(super) fn speaks(&mut self, now: Moment) {
        self.spoke = Some(now);
    }
}

impl Chat {
    /// Whether what is being written is shown as drafts.
    pub(super) fn drafts(&self) -> bool {
        self.memory.kind == Kind::Private && !self.live.draft.refused
    }

    /// The words that the agent is writing.
    pub(super) fn writing(&self) -> Option<(&Item, &str)> {
        let running = self.running()?.number;
        self.document.items.iter().rev().find_map(|item| match &item.body {
            Body::Text { text } if item.open && item.parent.is_none() && item.turn == running => {
                (!text.trim().is_empty()).then_some((item, text.as_str()))
            }
            _ => None,
        })
    }

    /// The next state of the draft, and when it may be shown; nothing where it is shown already.
    pub(super) fn drafting(&self) -> Option<(Moment, Step)> {
        let (item, text) = self.writing().filter(|_| self.drafts())?;
        let text = words::end_of(text.trim_end(), LIMIT).to_owned();
        let mut number = DefaultHasher::new();
        item.id.hash(&mut number);
        // Positive, and exact wherever numbers are floating.
        let draft = i64::try_from(number.finish() >> 12).unwrap_or(1).max(1);
        let known = self.live.draft.shown.as_ref();
        if known.is_some_and(|(shown, words)| *shown == draft && *words == text) {
            return None;
        }
        let at = self.live.draft.spoke.map_or(Moment::ZERO, |spoke| spoke + PACE);
        let call = Call::Draft { place: self.memory.place, draft, text };
        Some((at, Step { task: Task::Draft, call, urgency: Urgency::Passing }))
    }
}
