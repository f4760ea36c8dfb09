//! Prompts that are assembled from several messages.
//!
//! Telegram sends as separate messages what belongs together: the pictures of an album, a forwarded
//! message and the comment on it (the comment comes first), a long text that the client split.
//! Telegram does not mark the last message, so the assembly waits a second for another one. A short
//! text waits only long enough for messages that were sent together with it: too short for a user to
//! type another message or to notice the delay.

use std::collections::VecDeque;
use std::time::Duration;

use uuid::Uuid;
use wire::note::Actor;

use super::action::with_quote;
use super::message_part::{MessagePart, join_parts};
use super::{InboundAction, InboundBatch, PromptDraft};
use crate::address::{ChatAddress, ChatId, ChatKind, MessageId, TelegramUserId};
use crate::chat::BridgeTime;

/// How long a short text waits for another message.
const SHORT_WAIT: Duration = Duration::from_millis(400);

/// How long anything else waits for another message.
const WAIT: Duration = Duration::from_secs(1);

/// How long a prompt waits in total.
const MAX_WAIT: Duration = Duration::from_secs(10);

const MAX_MESSAGES: usize = 20;

/// The largest difference in sending time between messages that belong together, in seconds, which
/// is Telegram's resolution. It separates messages that were sent minutes apart but arrive together
/// after an outage.
const MAX_GAP: u64 = 2;

/// The namespace of prompt ids.
const PROMPTS: Uuid = Uuid::from_u128(0x6f3c_1d52_8e0b_5b7c_9a41_d4c2_7e90_11aa);

/// How many assembled prompts are remembered for edits.
const MAX_RECENT: usize = 64;

/// A prompt that may still get more messages.
#[derive(Debug)]
pub(super) struct PromptAssembly {
    sender: MessageSender,
    parts: Vec<MessagePart>,
    updates: Vec<i64>,
    started: BridgeTime,
    last: BridgeTime,
}

#[derive(Clone, Debug)]
pub(super) struct MessageSender {
    pub(super) address: ChatAddress,
    pub(super) kind: ChatKind,
    pub(super) user: TelegramUserId,
    pub(super) by: Actor,
}

impl PromptAssembly {
    pub(super) fn new(
        sender: MessageSender,
        part: MessagePart,
        update: i64,
        now: BridgeTime,
    ) -> Self {
        Self { sender, parts: vec![part], updates: vec![update], started: now, last: now }
    }

    /// Whether it is a prompt of this user in this chat.
    pub(super) fn is_from(&self, sender: &MessageSender) -> bool {
        self.sender.address == sender.address && self.sender.user == sender.user
    }

    /// When it is complete, unless another message arrives before.
    pub(super) fn due(&self) -> BridgeTime {
        let wait = match self.parts.as_slice() {
            [part] if part.is_short_text() => SHORT_WAIT,
            parts if parts.len() >= MAX_MESSAGES => Duration::ZERO,
            _ => WAIT,
        };
        self.last.saturating_add(wait).min(self.started.saturating_add(MAX_WAIT))
    }

    /// Whether it is complete. A clock that was set back must not delay it.
    pub(super) fn is_due(&self, now: BridgeTime) -> bool {
        now >= self.due() || now < self.last
    }

    /// Whether a message of the same user in the same chat belongs to it. A reply starts a prompt of
    /// its own.
    pub(super) fn accepts(&self, part: &MessagePart) -> bool {
        self.parts.last().is_some_and(|last| {
            let same_album = part.album.is_some() && part.album == last.album;
            same_album || part.reply.is_none() && part.date.abs_diff(last.date) <= MAX_GAP
        })
    }

    pub(super) fn add(&mut self, part: MessagePart, update: i64, now: BridgeTime) {
        self.updates.push(update);
        if self.parts.iter().all(|it| it.message != part.message) {
            self.parts.push(part);
            self.last = now;
        }
    }

    /// Applies an edit, if the message is part of this prompt.
    pub(super) fn edit(&mut self, part: &MessagePart, update: i64) -> bool {
        let same = |it: &&mut MessagePart| it.chat == part.chat && it.message == part.message;
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

    /// The prompt, after the rejected content, and the parts of the prompt.
    pub(super) fn finish(self, bot: TelegramUserId) -> (InboundBatch, Vec<MessagePart>) {
        let Self { sender, mut parts, updates, .. } = self;
        let MessageSender { address, kind, by, .. } = sender;
        // The messages of an album may arrive in any order.
        parts.sort_by_key(|part| part.message);
        let mut actions: Vec<_> = parts
            .iter()
            .filter_map(|part| {
                let content = part.rejected.clone()?;
                Some(InboundAction::Rejected { address, kind, message: part.message, content })
            })
            .collect();
        if parts.iter().any(MessagePart::has_content)
            && let Some(first) = parts.first()
        {
            actions.push(InboundAction::Prompt(PromptDraft {
                address,
                kind,
                id: prompt_id(bot, address.chat, first.message),
                messages: parts.iter().map(|part| part.message).collect(),
                reply_to: first.reply.as_ref().and_then(|it| it.message),
                quote: first.quote().map(ToOwned::to_owned),
                text: join_parts(&parts),
                attachments: parts.iter().filter_map(|part| part.attachment.clone()).collect(),
                by,
            }));
        }
        (InboundBatch { actions, updates }, parts)
    }
}

/// The id of the prompt that starts with a message.
fn prompt_id(bot: TelegramUserId, chat: ChatId, message: MessageId) -> Uuid {
    Uuid::new_v5(&PROMPTS, format!("{}/{}/{}", bot.0, chat.0, message.0).as_bytes())
}

/// The parts of the latest prompts.
///
/// Telegram reports an edit without the old text, and also reports edits that change nothing
/// visible. A prompt of several messages can be edited only while the other messages are known.
#[derive(Debug, Default)]
pub(super) struct RecentPrompts(VecDeque<Vec<MessagePart>>);

/// What an edited message means for its prompt.
#[derive(Debug, PartialEq)]
pub(super) enum PromptEdit {
    Unchanged,
    /// The new text of the whole prompt.
    Whole(String),
    /// The new text of this message. Whether the prompt has other messages is not known.
    Part(String),
}

impl RecentPrompts {
    pub(super) fn add(&mut self, parts: Vec<MessagePart>) {
        if self.0.len() >= MAX_RECENT {
            self.0.pop_front();
        }
        self.0.push_back(parts);
    }

    pub(super) fn edit(&mut self, part: MessagePart) -> PromptEdit {
        let same = |it: &MessagePart| it.chat == part.chat && it.message == part.message;
        let Some(parts) = self.0.iter_mut().find(|parts| parts.iter().any(same)) else {
            return PromptEdit::Part(full_text(&[part]));
        };
        let before = full_text(parts);
        if let Some(old) = parts.iter_mut().find(|it| same(it)) {
            old.text = part.text;
        }
        let after = full_text(parts);
        if before == after { PromptEdit::Unchanged } else { PromptEdit::Whole(after) }
    }
}

fn full_text(parts: &[MessagePart]) -> String {
    with_quote(parts.first().and_then(MessagePart::quote), &join_parts(parts))
}
