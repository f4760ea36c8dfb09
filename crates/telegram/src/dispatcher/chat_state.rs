//! A chat as the dispatcher sees it: its replica, its replies, its jobs and its call in flight.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use journal::SessionId;
use tracing::error;
use view::telegram::LIMIT;

use super::job::ChatJob;
use crate::address::{ChatAddress, ChatKind, MessageId};
use crate::bot::{BotCall, BotCallError, BotResponse, OutgoingMessage};
use crate::chat::{BridgeTime, CallUrgency, Chat, NextCall};
use crate::checkpoint::ChatCheckpoint;
use crate::inbound::{ChatCommand, InboundAction};
use crate::rate_limiter::{CallCost, CallRequest};
use crate::replies::BotReply;

/// How much may be queued for a chat. Beyond that no updates are polled, and Telegram keeps them.
const MAX_QUEUE: usize = 200;

/// How much may be queued when polling starts again.
const QUEUE_ROOM: usize = MAX_QUEUE / 2;

/// While more replies are queued, no queued job is started, because most jobs add one.
const MAX_REPLIES: usize = 20;

#[derive(Debug)]
pub(super) struct ChatState {
    pub(super) address: ChatAddress,
    pub(super) kind: ChatKind,
    /// The replica of the session that the chat shows, if it shows one.
    chat: Option<Chat>,
    /// Whether the replica has its document.
    loaded: bool,
    /// Actions that arrived before it had, or that wait for the response to the call in flight.
    pub(super) early: Vec<EarlyAction>,
    pub(super) replies: ReplyQueue,
    pub(super) jobs: VecDeque<ChatJob>,
    pub(super) job_running: bool,
    call: Option<ActiveCall>,
    need: ChatNeed,
    /// Since when the chat wants to make a call.
    waiting_since: Option<BridgeTime>,
    /// The checkpoint that was last passed to the state writer.
    stored: Option<ChatCheckpoint>,
    /// Files of the agent that the replica has not sent yet.
    pub(super) queued_files: HashSet<PathBuf>,
    /// How many replicas there were: the outcome of a call may arrive after its replica is gone.
    generation: u64,
}

/// An action that cannot be understood yet.
#[derive(Debug)]
pub(super) struct EarlyAction {
    /// Increases with every action, in all chats.
    pub(super) order: u64,
    pub(super) action: InboundAction,
    pub(super) updates: Vec<i64>,
}

/// The call in flight.
#[derive(Debug)]
pub(super) struct ActiveCall {
    owner: CallOwner,
    pub(super) cost: CallCost,
    /// The file that it sends.
    pub(super) file: Option<PathBuf>,
    /// Whether it sends a message that asks the user for a text.
    asks_for_text: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallOwner {
    ReplyQueue,
    /// The replica of this generation.
    Chat(u64),
}

/// What the chat needed when it was last asked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ChatNeed {
    /// Something has changed since.
    Unknown,
    Call {
        cost: CallCost,
        urgency: CallUrgency,
    },
    WakeAt(BridgeTime),
    Nothing,
}

/// What a chat wants from the dispatcher.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChatDemand {
    Call(CallRequest<ChatAddress>),
    /// To be asked again at this time.
    WakeAt(BridgeTime),
    Nothing,
}

impl ChatState {
    pub(super) fn new(address: ChatAddress, kind: ChatKind) -> Self {
        Self {
            address,
            kind,
            chat: None,
            loaded: false,
            early: Vec::new(),
            replies: ReplyQueue::default(),
            jobs: VecDeque::new(),
            job_running: false,
            call: None,
            need: ChatNeed::Nothing,
            waiting_since: None,
            stored: None,
            queued_files: HashSet::new(),
            generation: 0,
        }
    }

    /// The session that the chat shows.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.chat.as_ref().map(|chat| chat.checkpoint().session)
    }

    pub(super) fn checkpoint(&self) -> Option<&ChatCheckpoint> {
        self.chat.as_ref().map(Chat::checkpoint)
    }

    /// Whether actions can be done: the replica has its document, or there is no replica.
    pub(super) fn is_ready(&self) -> bool {
        self.loaded || self.chat.is_none()
    }

    /// Whether an action must wait for the response to the call in flight. The id of a message that
    /// asks for a text is known only then, and a fast user replies to the message before. What comes
    /// after such a reply waits too, so that the order stays.
    pub(super) fn must_wait(&self, action: &InboundAction) -> bool {
        let asks_for_text = self.call.as_ref().is_some_and(|call| call.asks_for_text);
        asks_for_text
            && match action {
                InboundAction::Prompt(draft) => draft.reply_to.is_some() || !self.early.is_empty(),
                InboundAction::Command { command, .. } => {
                    *command != ChatCommand::Stop && !self.early.is_empty()
                }
                InboundAction::EditPrompt { .. } => !self.early.is_empty(),
                _ => false,
            }
    }

    #[cfg(test)]
    pub(super) fn reply_count(&self) -> usize {
        self.replies.0.len()
    }

    /// Whether a queued job may start.
    pub(super) fn can_start_job(&self) -> bool {
        !self.job_running && self.is_ready() && self.replies.0.len() < MAX_REPLIES
    }

    /// Whether further updates may be polled, which was or was not the case before.
    pub(super) fn has_room(&self, before: bool) -> bool {
        let queued = self.jobs.len() + self.early.len() + self.replies.0.len();
        queued < if before { MAX_QUEUE } else { QUEUE_ROOM }
    }

    /// Shows a session, continuing at a checkpoint.
    pub(super) fn show(&mut self, checkpoint: ChatCheckpoint) {
        self.replace(Some(Chat::new(checkpoint)));
    }

    /// Shows no session.
    pub(super) fn clear(&mut self) {
        self.replace(None);
        self.stored = None;
    }

    fn replace(&mut self, chat: Option<Chat>) {
        for call in self.with(|chat| chat.closing_calls()).unwrap_or_default() {
            self.replies.add_call(call);
        }
        self.chat = chat;
        self.loaded = false;
        self.generation += 1;
        self.queued_files.clear();
        self.need = ChatNeed::Unknown;
    }

    /// Uses the replica. A replica that panics is removed: the chat then shows no session until a
    /// user asks for it again, and other chats are not affected.
    pub(super) fn with<T>(&mut self, work: impl FnOnce(&mut Chat) -> T) -> Option<T> {
        self.need = ChatNeed::Unknown;
        let chat = self.chat.as_mut()?;
        let done = catch_unwind(AssertUnwindSafe(|| work(chat)));
        if done.is_err() {
            error!(chat = self.address.chat.0, "a chat panicked and no longer shows its session");
            self.chat = None;
            self.loaded = false;
            self.generation += 1;
        }
        done.ok()
    }

    /// Notes that the replica has its document.
    pub(super) fn set_loaded(&mut self) {
        self.loaded = true;
        self.need = ChatNeed::Unknown;
    }

    /// Notes a change that may affect what the chat needs.
    pub(super) fn changed(&mut self) {
        self.need = ChatNeed::Unknown;
    }

    /// What the chat wants. The replica is asked only if a call may be made now: its answer may be
    /// another one later. `earliest` is when the rate limits permit a call.
    pub(super) fn demand(&mut self, earliest: Option<BridgeTime>, now: BridgeTime) -> ChatDemand {
        let Some(earliest) = earliest.filter(|_| self.call.is_none()) else {
            return ChatDemand::Nothing;
        };
        let outdated = match self.need {
            ChatNeed::Unknown => true,
            ChatNeed::WakeAt(at) => at <= now,
            ChatNeed::Call { .. } | ChatNeed::Nothing => false,
        };
        if outdated && earliest > now {
            return ChatDemand::WakeAt(earliest);
        }
        if outdated {
            self.update_need(now);
        }
        match self.need {
            ChatNeed::Call { cost, urgency } => {
                let since = self.waiting_since.unwrap_or(now);
                let (key, chat) = (self.address, self.address.chat);
                ChatDemand::Call(CallRequest { key, chat, cost, urgency, since })
            }
            ChatNeed::WakeAt(at) => ChatDemand::WakeAt(at),
            ChatNeed::Unknown | ChatNeed::Nothing => ChatDemand::Nothing,
        }
    }

    fn update_need(&mut self, now: BridgeTime) {
        let next = match self.replies.next() {
            Some(call) => NextCall::Call(call.clone(), CallUrgency::Awaited),
            None if self.loaded => self.with(|chat| chat.next_call(now)).unwrap_or(NextCall::Idle),
            None => NextCall::Idle,
        };
        self.need = match next {
            NextCall::Call(call, urgency) => ChatNeed::Call { cost: CallCost::of(&call), urgency },
            NextCall::WaitUntil(at) => ChatNeed::WakeAt(at),
            NextCall::Idle => ChatNeed::Nothing,
        };
        self.waiting_since = match self.need {
            ChatNeed::Call { .. } => Some(self.waiting_since.unwrap_or(now)),
            ChatNeed::Unknown | ChatNeed::WakeAt(_) | ChatNeed::Nothing => None,
        };
    }

    /// The call to make, which is then in flight. It is decided only here, so that it shows the
    /// newest state.
    pub(super) fn start_call(&mut self, now: BridgeTime) -> Option<BotCall> {
        let (call, owner) = if let Some(call) = self.replies.next() {
            (call.clone(), CallOwner::ReplyQueue)
        } else {
            let next = self.loaded.then(|| self.with(|chat| chat.next_call(now))).flatten();
            let Some(NextCall::Call(call, _)) = next else {
                self.update_need(now);
                return None;
            };
            self.with(|chat| chat.call_started(&call, now))?;
            (call, CallOwner::Chat(self.generation))
        };
        let file = match &call {
            BotCall::SendFile { path, .. } => Some(path.clone()),
            _ => None,
        };
        let asks_for_text = matches!(&call, BotCall::Send(message) if message.force_reply);
        self.waiting_since = None;
        self.call = Some(ActiveCall { owner, cost: CallCost::of(&call), file, asks_for_text });
        Some(call)
    }

    /// Handles the outcome of the call in flight, and returns that call.
    pub(super) fn call_finished(
        &mut self,
        outcome: &Result<BotResponse, BotCallError>,
        now: BridgeTime,
    ) -> Option<ActiveCall> {
        let call = self.call.take()?;
        match call.owner {
            CallOwner::ReplyQueue => {
                self.replies.call_finished(outcome);
                if outcome.is_ok() {
                    self.with(Chat::message_below);
                }
            }
            CallOwner::Chat(generation) if generation == self.generation => {
                self.with(|chat| chat.call_finished(outcome.clone(), now));
            }
            // The chat shows another session by now.
            CallOwner::Chat(_) => {}
        }
        self.need = ChatNeed::Unknown;
        Some(call)
    }

    pub(super) fn is_calling(&self) -> bool {
        self.call.is_some()
    }

    /// The checkpoint, if it differs from the one that was last passed to the state writer.
    pub(super) fn unstored_checkpoint(&mut self) -> Option<&ChatCheckpoint> {
        let checkpoint = self.chat.as_ref()?.checkpoint();
        if self.stored.as_ref() == Some(checkpoint) {
            return None;
        }
        self.stored = Some(checkpoint.clone());
        self.stored.as_ref()
    }

    /// Notes whether the current checkpoint is on disk.
    pub(super) fn set_stored(&mut self, stored: bool) {
        self.stored = self.chat.as_ref().filter(|_| stored).map(|chat| chat.checkpoint().clone());
    }
}

/// Replies to users that wait to be sent, in order. They do not depend on the session that the chat
/// shows.
#[derive(Debug, Default)]
pub(super) struct ReplyQueue(VecDeque<BotCall>);

impl ReplyQueue {
    /// Adds a reply, in as many messages as it needs.
    pub(super) fn add(&mut self, address: ChatAddress, reply: &BotReply, to: Option<MessageId>) {
        let mut messages = reply.text.messages(LIMIT).into_iter().peekable();
        let mut reply_to = to;
        while let Some(text) = messages.next() {
            let last = messages.peek().is_none();
            self.add_call(BotCall::Send(OutgoingMessage {
                address,
                text,
                buttons: if last { reply.buttons.clone() } else { Vec::new() },
                notify: false,
                reply_to: reply_to.take(),
                force_reply: false,
            }));
        }
    }

    pub(super) fn add_call(&mut self, call: BotCall) {
        self.0.push_back(call);
    }

    pub(super) fn next(&self) -> Option<&BotCall> {
        self.0.front()
    }

    pub(super) fn call_finished(&mut self, outcome: &Result<BotResponse, BotCallError>) {
        match outcome {
            Err(BotCallError::InvalidMarkup(_)) => match self.0.front_mut() {
                Some(BotCall::Send(message))
                    if message.text.html != escape_html(&message.text.plain) =>
                {
                    message.text.html = escape_html(&message.text.plain);
                }
                _ => drop(self.0.pop_front()),
            },
            Err(
                BotCallError::RateLimited(_)
                | BotCallError::Unreachable(_)
                | BotCallError::NoResponse(_),
            ) => {}
            Err(BotCallError::Forbidden(_) | BotCallError::TopicNotFound) => self.0.clear(),
            Ok(_)
            | Err(
                BotCallError::NotModified
                | BotCallError::MessageNotFound
                | BotCallError::Rejected(_),
            ) => {
                self.0.pop_front();
            }
        }
    }

    pub(super) fn migrate(&mut self, to: ChatAddress) {
        for call in &mut self.0 {
            match call {
                BotCall::Send(message) => message.address = to,
                BotCall::SendText { address, .. } => *address = to,
                _ => {}
            }
        }
    }
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use journal::SessionId;
    use uuid::Uuid;
    use view::telegram::{FormattedText, TextFormat};

    use super::{ChatDemand, ChatState, ReplyQueue};
    use crate::address::{ChatAddress, ChatId, ChatKind, MessageId};
    use crate::bot::{BotCall, BotCallError, BotResponse};
    use crate::chat::BridgeTime;
    use crate::checkpoint::ChatCheckpoint;
    use crate::replies::BotReply;

    const HERE: ChatAddress = ChatAddress { chat: ChatId(1), topic: None };

    fn chat() -> ChatState {
        let mut chat = ChatState::new(HERE, ChatKind::Private);
        let session = SessionId(Uuid::from_u128(1));
        chat.show(ChatCheckpoint::new(HERE, ChatKind::Private, session));
        chat
    }

    #[test]
    fn a_chat_that_panics_affects_nothing_else() {
        let mut chat = chat();
        assert_eq!(chat.with(|_| -> u8 { panic!("for this test") }), None);
        assert_eq!(chat.session(), None);
        assert!(chat.is_ready(), "actions are still possible");
        chat.replies.add(HERE, &BotReply::from("still here"), None);
        chat.changed();
        let demand = chat.demand(Some(BridgeTime::ZERO), BridgeTime::ZERO);
        assert!(matches!(demand, ChatDemand::Call(_)));
        assert!(matches!(chat.start_call(BridgeTime::ZERO), Some(BotCall::Send(_))));
    }

    #[test]
    fn a_chat_is_asked_only_when_it_may_call_and_makes_one_call_at_a_time() {
        let mut chat = chat();
        chat.replies.add(HERE, &BotReply::from("one"), None);
        chat.replies.add(HERE, &BotReply::from("two"), None);
        let later = BridgeTime::from_secs(5);
        let early = chat.demand(Some(later), BridgeTime::ZERO);
        assert!(matches!(early, ChatDemand::WakeAt(at) if at == later));
        assert!(matches!(chat.demand(None, later), ChatDemand::Nothing));
        assert!(matches!(chat.demand(Some(later), later), ChatDemand::Call(_)));
        assert!(chat.start_call(later).is_some() && chat.is_calling());
        assert!(matches!(chat.demand(Some(later), later), ChatDemand::Nothing), "one is in flight");
        chat.call_finished(&Ok(BotResponse::Sent(MessageId(1))), later);
        assert!(
            matches!(chat.start_call(later), Some(BotCall::Send(it)) if it.text.plain == "two")
        );
    }

    #[test]
    fn a_checkpoint_is_stored_once() {
        let mut chat = chat();
        assert!(chat.unstored_checkpoint().is_some());
        assert!(chat.unstored_checkpoint().is_none());
        chat.set_stored(false);
        assert!(chat.unstored_checkpoint().is_some(), "the write failed");
        chat.with(|chat| chat.set_verbosity(2));
        assert!(chat.unstored_checkpoint().is_some());
    }

    fn next(replies: &ReplyQueue) -> (String, Option<MessageId>) {
        match replies.next() {
            Some(BotCall::Send(message)) => (message.text.html.clone(), message.reply_to),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reply_is_repeated_if_it_was_lost_and_without_formatting_if_that_was_rejected() {
        let mut replies = ReplyQueue::default();
        let mut text = FormattedText::default();
        text.push_formatted(TextFormat::Bold, "a < b");
        replies.add(HERE, &BotReply::from(text), Some(MessageId(7)));
        replies.add(HERE, &BotReply::from("second"), None);
        assert_eq!(next(&replies), ("<b>a &lt; b</b>".to_owned(), Some(MessageId(7))));
        replies.call_finished(&Err(BotCallError::NoResponse("?".to_owned())));
        replies.call_finished(&Err(BotCallError::InvalidMarkup("no".to_owned())));
        assert_eq!(next(&replies).0, "a &lt; b");
        replies.call_finished(&Err(BotCallError::InvalidMarkup("still no".to_owned())));
        assert_eq!(next(&replies).0, "second", "the first one is skipped");
        replies.call_finished(&Ok(BotResponse::Sent(MessageId(8))));
        assert_eq!(replies.next(), None);
    }

    #[test]
    fn a_long_reply_is_several_messages_and_only_the_first_is_a_reply() {
        let mut replies = ReplyQueue::default();
        replies.add(HERE, &BotReply::from("word ".repeat(1_000)), Some(MessageId(7)));
        assert_eq!(next(&replies).1, Some(MessageId(7)));
        replies.call_finished(&Ok(BotResponse::Sent(MessageId(8))));
        assert_eq!(next(&replies).1, None);
    }
}
