//! What users send: Telegram's updates become [`InboundAction`]s. Pure.
//!
//! Albums and forwarded messages arrive as several messages, so a prompt is assembled first. The
//! result depends only on the messages and on when they arrived: after a crash the stored updates are
//! processed again, with their original times, and yield the same prompts with the same ids.
//!
//! The list of allowed users is checked first. Other users get no answer, not even that there is a
//! list. Bots, channels and users who write on behalf of a chat get none either.

mod action;
mod arguments;
mod assembly;
mod command;
mod message_part;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use session::OptionRole;
use wire::note::Actor;

use crate::address::{ChatAddress, ChatId, ChatKind, TelegramUserId, TopicId};
use crate::chat::BridgeTime;
use crate::update::{TelegramCallbackQuery, TelegramMessage, TelegramUpdate, TelegramUser};
pub(crate) use action::edited_prompt;
pub use action::{InboundAction, InboundFile, PromptDraft, RejectedContent};
pub use arguments::{ArgumentsError, NewSessionArguments, ScheduleArguments, SetArguments};
use assembly::{MessageSender, PromptAssembly, PromptEdit, RecentPrompts};
use command::ParsedText;
pub use command::{ChatCommand, CommitArgument};
use message_part::{MessagePart, user_name};

/// The largest file that a bot can download from Telegram's own servers.
pub const DOWNLOAD_LIMIT: u64 = 20 << 20;

/// How long a user who is not allowed is not logged again.
const LOG_INTERVAL: Duration = Duration::from_hours(1);

/// How many such users are logged in that time. A bot's name is public, and a log is finite.
const MAX_LOGGED: usize = 100;

/// Reads what users send.
#[derive(Debug)]
pub struct Inbound {
    config: InboundConfig,
    /// At most one for each user in each chat.
    assemblies: Vec<PromptAssembly>,
    recent: RecentPrompts,
    unknown_users: UnknownUsers,
}

#[derive(Clone, Debug)]
pub struct InboundConfig {
    /// The users who may use the bot. An empty set allows no one.
    pub allowed_users: BTreeSet<TelegramUserId>,
    /// Those of them who may set the options that can run programs.
    pub admins: BTreeSet<TelegramUserId>,
    /// The bot itself.
    pub bot: TelegramUserId,
    /// The bot's username, without the `@`.
    pub username: String,
    /// The largest file that the bot can download, in bytes.
    pub download_limit: u64,
}

/// Actions, in order, and the updates that they result from.
///
/// Every update is part of exactly one batch, which may have no actions. An update stays on disk
/// until the actions of its batch are done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InboundBatch {
    pub actions: Vec<InboundAction>,
    pub updates: Vec<i64>,
}

impl InboundBatch {
    fn of(action: Option<InboundAction>, update: i64) -> Self {
        Self { actions: action.into_iter().collect(), updates: vec![update] }
    }
}

impl Inbound {
    pub fn new(config: InboundConfig) -> Self {
        Self {
            config,
            assemblies: Vec::new(),
            recent: RecentPrompts::default(),
            unknown_users: UnknownUsers::default(),
        }
    }

    /// Processes an update that arrived at `now`, after everything that was due before. Times count
    /// from a fixed point that is the same after a restart, such as 1970.
    pub fn receive(&mut self, update: &TelegramUpdate, now: BridgeTime) -> Vec<InboundBatch> {
        let mut batches = self.take_due(now);
        let id = update.update_id;
        if self.pending_updates().any(|pending| pending == id) {
            return batches;
        }
        if let Some(message) = &update.message {
            self.message(message, id, now, &mut batches);
        } else if let Some(message) = &update.edited_message {
            self.edited_message(message, id, now, &mut batches);
        } else {
            let action = update.callback_query.as_ref().and_then(|tap| self.tap(tap, now));
            batches.push(InboundBatch::of(action, id));
        }
        batches
    }

    /// The prompts that are complete by now.
    pub fn take_due(&mut self, now: BridgeTime) -> Vec<InboundBatch> {
        let mut complete: Vec<_> = self.assemblies.extract_if(.., |it| it.is_due(now)).collect();
        complete.sort_by_key(PromptAssembly::due);
        complete.into_iter().map(|it| self.finish(it)).collect()
    }

    /// When the next prompt is complete.
    pub fn next_due(&self) -> Option<BridgeTime> {
        self.assemblies.iter().map(PromptAssembly::due).min()
    }

    /// The updates that are not part of a batch yet.
    pub fn pending_updates(&self) -> impl Iterator<Item = i64> {
        self.assemblies.iter().flat_map(PromptAssembly::updates).copied()
    }

    fn message(
        &mut self,
        message: &TelegramMessage,
        id: i64,
        now: BridgeTime,
        batches: &mut Vec<InboundBatch>,
    ) {
        if let Some(to) = message.migrate_to_chat_id {
            // Telegram itself reports this, so it does not matter which user caused it.
            let action = InboundAction::ChatMigrated { from: message.chat.id, to };
            batches.push(InboundBatch::of(Some(action), id));
            return;
        }
        let Some(sender) = self.allowed_sender(message) else {
            let action = user_of(message).and_then(|(from, _)| self.unknown_user(from, now));
            batches.push(InboundBatch::of(action, id));
            return;
        };
        match parse_text(message, &self.config.username) {
            ParsedText::Command(command) => {
                // The user meant what they sent before the command to come before it.
                batches.extend(self.complete(&sender));
                let MessageSender { address, kind, by, user, .. } = sender;
                let (message, role) = (message.message_id, self.role_of(user));
                let action = InboundAction::Command { address, kind, message, command, by, role };
                batches.push(InboundBatch::of(Some(action), id));
            }
            ParsedText::OtherBot => batches.push(InboundBatch::of(None, id)),
            ParsedText::Text => {
                let part = MessagePart::read(message, &self.config);
                batches.extend(self.assemble(sender, part, id, now));
            }
        }
    }

    /// Adds a message to the prompt it belongs to. Returns the prompts that are complete.
    fn assemble(
        &mut self,
        sender: MessageSender,
        mut part: MessagePart,
        id: i64,
        now: BridgeTime,
    ) -> Vec<InboundBatch> {
        if sender.kind == ChatKind::Group
            && matches!(part.rejected, Some(RejectedContent::Unsupported(_)))
        {
            // In a group, a poll is probably not meant for the bot.
            part.rejected = None;
        }
        if !part.has_content() && part.rejected.is_none() {
            return vec![InboundBatch::of(None, id)];
        }
        let alone = part.may_be_answer();
        if let Some(open) = self.assemblies.iter_mut().find(|it| it.is_from(&sender))
            && !alone
            && open.accepts(&part)
        {
            open.add(part, id, now);
        } else {
            let mut batches: Vec<_> = self.complete(&sender).into_iter().collect();
            let new = PromptAssembly::new(sender, part, id, now);
            if alone {
                batches.push(self.finish(new));
            } else {
                self.assemblies.push(new);
            }
            return batches;
        }
        self.take_due(now)
    }

    fn edited_message(
        &mut self,
        message: &TelegramMessage,
        id: i64,
        now: BridgeTime,
        batches: &mut Vec<InboundBatch>,
    ) {
        let Some(sender) = self.allowed_sender(message) else {
            let action = user_of(message).and_then(|(from, _)| self.unknown_user(from, now));
            batches.push(InboundBatch::of(action, id));
            return;
        };
        let part = MessagePart::read(message, &self.config);
        if self.assemblies.iter_mut().any(|it| it.edit(&part, id)) {
            return;
        }
        // A command runs once, even if its message is edited.
        let is_text = parse_text(message, &self.config.username) == ParsedText::Text;
        let edit = match is_text.then(|| self.recent.edit(part)) {
            None | Some(PromptEdit::Unchanged) => None,
            Some(PromptEdit::Whole(text)) => Some((text, true)),
            Some(PromptEdit::Part(text)) => Some((text, false)).filter(|it| !it.0.is_empty()),
        };
        let (address, message) = (sender.address, message.message_id);
        let action =
            edit.map(|(text, whole)| InboundAction::EditPrompt { address, message, text, whole });
        batches.push(InboundBatch::of(action, id));
    }

    fn tap(&mut self, tap: &TelegramCallbackQuery, now: BridgeTime) -> Option<InboundAction> {
        if !self.config.allowed_users.contains(&tap.from.id) {
            return self.unknown_user(&tap.from, now);
        }
        let message = tap.message.as_ref()?;
        Some(InboundAction::Tap {
            address: address_of(message),
            kind: chat_kind(&message.chat.kind)?,
            tap: tap.id.clone(),
            message: message.message_id,
            data: tap.data.clone()?,
            by: actor(&tap.from),
            role: self.role_of(tap.from.id),
        })
    }

    fn role_of(&self, user: TelegramUserId) -> OptionRole {
        if self.config.admins.contains(&user) { OptionRole::Admin } else { OptionRole::Drive }
    }

    /// The sender of a message, if they may use the bot.
    fn allowed_sender(&self, message: &TelegramMessage) -> Option<MessageSender> {
        let (from, kind) = user_of(message)?;
        let allowed = self.config.allowed_users.contains(&from.id);
        let address = address_of(message);
        allowed.then(|| MessageSender { address, kind, user: from.id, by: actor(from) })
    }

    fn unknown_user(&mut self, user: &TelegramUser, now: BridgeTime) -> Option<InboundAction> {
        let action = InboundAction::UnknownUser { user: user.id, name: user_name(user) };
        self.unknown_users.should_log(user.id, now).then_some(action)
    }

    /// Ends the prompt that a user is sending.
    fn complete(&mut self, sender: &MessageSender) -> Option<InboundBatch> {
        let at = self.assemblies.iter().position(|it| it.is_from(sender))?;
        let complete = self.assemblies.remove(at);
        Some(self.finish(complete))
    }

    fn finish(&mut self, complete: PromptAssembly) -> InboundBatch {
        let (batch, parts) = complete.finish(self.config.bot);
        self.recent.add(parts);
        batch
    }
}

/// The users who are not allowed and were logged lately, and when.
#[derive(Debug, Default)]
struct UnknownUsers(BTreeMap<TelegramUserId, BridgeTime>);

impl UnknownUsers {
    fn should_log(&mut self, user: TelegramUserId, now: BridgeTime) -> bool {
        self.0.retain(|_, logged| now.abs_diff(*logged) < LOG_INTERVAL);
        if self.0.len() >= MAX_LOGGED || self.0.contains_key(&user) {
            return false;
        }
        self.0.insert(user, now);
        true
    }
}

/// Parses the text of a message. A forwarded message is never a command.
fn parse_text(message: &TelegramMessage, username: &str) -> ParsedText {
    match &message.text {
        Some(text) if message.forward_origin.is_none() => ParsedText::parse(text, username),
        _ => ParsedText::Text,
    }
}

/// The user who wrote a message, unless a bot did or it was sent on behalf of a chat.
fn user_of(message: &TelegramMessage) -> Option<(&TelegramUser, ChatKind)> {
    let from = message.from.as_ref().filter(|it| !it.is_bot && message.sender_chat.is_none())?;
    Some((from, chat_kind(&message.chat.kind)?))
}

fn chat_kind(name: &str) -> Option<ChatKind> {
    match name {
        "private" => Some(ChatKind::Private),
        "group" | "supergroup" => Some(ChatKind::Group),
        _ => None,
    }
}

/// The chat or topic of a message. A thread of replies in a group is not a topic, and the general
/// topic has no id, although some clients send 1.
fn address_of(message: &TelegramMessage) -> ChatAddress {
    let topic = message.message_thread_id.filter(|_| message.is_topic_message);
    let general = |it: TopicId| it.0 == 1 && message.chat.id < ChatId(0);
    ChatAddress { chat: message.chat.id, topic: topic.filter(|it| !general(*it)) }
}

fn actor(user: &TelegramUser) -> Actor {
    Actor { name: user_name(user), via: "telegram".to_owned() }
}
