//! A prompt that is being put together.
//!
//! What belongs together comes as several messages: the pictures of an album, what is forwarded and
//! the comment on it (which comes first), a long text that the client cut. Telegram never says which
//! message is the last, so one waits a second for the next. Words alone wait too, but only as long
//! as it takes what was sent in the same breath to come: nobody types two messages in that time, and
//! nobody notices the wait.

use std::time::Duration;

use uuid::Uuid;
use wire::note::Actor;

use super::Taken;
use super::part::{Part, joined};
use crate::chat::Moment;
use crate::deed::{Deed, Draft};
use crate::place::{ChatId, Kind, MessageId, Place, UserId};

/// How long words alone wait for company.
const BREATH: Duration = Duration::from_millis(400);

/// How long anything else waits for the next part.
const WINDOW: Duration = Duration::from_secs(1);

/// How long a prompt waits at most, and of how many messages it is made.
const LONGEST: Duration = Duration::from_secs(10);
const MOST: usize = 20;

/// Seconds between the sending of two messages that belong together. Telegram gives whole seconds.
/// It keeps apart what was sent minutes apart and came at once, after a time without network.
const APART: u64 = 2;

/// The namespace of prompt ids.
const PROMPTS: Uuid = Uuid::from_u128(0x6f3c_1d52_8e0b_5b7c_9a41_d4c2_7e90_11aa);

/// A prompt that is being put together.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) place: Place,
    pub(super) user: UserId,
    kind: Kind,
    by: Actor,
    parts: Vec<Part>,
    updates: Vec<i64>,
    began: Moment,
    last: Moment,
}

/// Whose words, and where.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) place: Place,
    pub(super) kind: Kind,
    pub(super) user: UserId,
    pub(super) by: Actor,
}

impl Gathering {
    pub(super) fn begin(sender: Sender, part: Part, update: i64, now: Moment) -> Self {
        let Sender { place, kind, user, by } = sender;
        let (parts, updates) = (vec![part], vec![update]);
        Self { place, kind, user, by, parts, updates, began: now, last: now }
    }

    /// When it is complete, unless something comes before.
    pub(super) fn due(&self) -> Moment {
        let patience = match self.parts.as_slice() {
            [part] if part.is_brief() => BREATH,
            parts if parts.len() >= MOST => Duration::ZERO,
            _ => WINDOW,
        };
        self.last.saturating_add(patience).min(self.began.saturating_add(LONGEST))
    }

    /// Whether it is complete. A clock that was set back must not hold it up.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        now >= self.due() || now < self.last
    }

    /// Whether a message of the same person in the same place belongs to it. One that replies to
    /// something begins a prompt of its own.
    pub(super) fn fits(&self, part: &Part) -> bool {
        self.parts.last().is_some_and(|last| {
            let same_album = part.album.is_some() && part.album == last.album;
            same_album || part.reply.is_none() && part.date.abs_diff(last.date) <= APART
        })
    }

    pub(super) fn add(&mut self, part: Part, update: i64, now: Moment) {
        self.updates.push(update);
        if self.parts.iter().all(|it| it.message != part.message) {
            self.parts.push(part);
            self.last = now;
        }
    }

    /// Changes a part that was edited, if it is one of these.
    pub(super) fn edit(&mut self, part: &Part, update: i64) -> bool {
        let same = |it: &&mut Part| it.chat == part.chat && it.message == part.message;
        match self.parts.iter_mut().find(same) {
            Some(old) => {
                old.clone_from(part);
                self.updates.push(update);
                true
            }
            None => false,
        }
    }

    pub(super) fn updates(&self) -> &[i64] {
        &self.updates
    }

    /// The prompt, with what could not be taken said first, and the parts it is made of.
    pub(super) fn finish(self, bot: UserId) -> (Taken, Vec<Part>) {
        let Self { place, kind, by, mut parts, updates, .. } = self;
        // The parts of an album may come in any order.
        parts.sort_by_key(|part| part.message);
        let mut deeds: Vec<_> = parts
            .iter()
            .filter_map(|part| {
                let what = part.left.clone()?;
                Some(Deed::Left { place, kind, message: part.message, what })
            })
            .collect();
        if parts.iter().any(Part::has_content)
            && let Some(first) = parts.first()
        {
            deeds.push(Deed::Prompt(Draft {
                place,
                kind,
                id: prompt_id(bot, place.chat, first.message),
                messages: parts.iter().map(|part| part.message).collect(),
                reply_to: first.reply.as_ref().and_then(|it| it.to),
                quote: first.quote().map(ToOwned::to_owned),
                text: joined(&parts),
                attachments: parts.iter().filter_map(|part| part.attachment.clone()).collect(),
                by,
            }));
        }
        (Taken { deeds, updates }, parts)
    }
}

/// The id of the prompt that begins with a message.
fn prompt_id(bot: UserId, chat: ChatId, message: MessageId) -> Uuid {
    Uuid::new_v5(&PROMPTS, format!("{}/{}/{}", bot.0, chat.0, message.0).as_bytes())
}
