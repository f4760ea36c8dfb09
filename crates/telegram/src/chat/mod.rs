//! A chat: the replica of a session in one chat or topic of Telegram. Pure.
//!
//! A chat is given the session's document ([`Chat::load`], [`Chat::apply`]), returns the next call on
//! request ([`Chat::next_call`]) and is given its outcome ([`Chat::call_finished`]). There is at most
//! one call in flight. Until its outcome is known there is no next call.
//!
//! These must be delivered, in order: messages between tool calls (silent, and merged while they
//! wait), cards for requests (with a sound), answers (with a sound, split at the size limit) and the
//! end of a turn. The progress message and drafts may be skipped: only their newest state is shown.
//!
//! `post` decides what is posted and puts it into messages. `card` shows requests, `tap` reads what
//! users do with them. `progress` shows what the agent is doing. `schedule` decides which call comes
//! first, and `call_outcome` what its outcome means.
//!
//! A call whose outcome is unknown is repeated: a duplicate message is better than a lost one.

mod call_outcome;
mod card;
mod disclosure;
mod outcome;
mod post;
mod progress;
mod question_card;
mod schedule;
mod tap;
mod text;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use view::telegram::{FormattedText, LIMIT};
use view::{Call, Conversation, Item, ItemBody, RevisionGap, Turn, Update};

use crate::address::{ChatAddress, MessageId};
use crate::bot::{BotCall, BotCallError, BotKeyboard, BotResponse, MessageText};
use crate::checkpoint::{ChatCheckpoint, ReplyPurpose};
use card::MessageContent;
use post::{ItemTreatment, PostItem};
use schedule::{CallPlan, CallPurpose};

/// A point in time, counted from the start of the bridge.
pub type BridgeTime = Duration;

/// Closed cards that are remembered for late taps.
const CLOSED_CARDS: usize = 32;

/// Messages whose prompts are remembered for edits.
const PROMPTS: usize = 256;

/// Finished calls of the running turn that are kept for the progress message.
const FINISHED_CALLS: usize = 8;

/// The replica of a session in one chat.
#[derive(Debug)]
pub struct Chat {
    checkpoint: ChatCheckpoint,
    /// The part of the session's document that is not delivered yet, and the running turn.
    document: Conversation,
    /// Whether there is a document. Without one, no request is known to be resolved.
    loaded: bool,
    /// The first turn whose cost is known.
    costs_from: u64,
    replies: VecDeque<QueuedReply>,
    files: VecDeque<OutgoingFile>,
    /// Requests for which the user is to be asked for a text.
    questions: Vec<(String, ReplyPurpose)>,
    /// Requests whose full text is being sent, the text's hash, and how many messages are sent.
    disclosures: Vec<(String, uuid::Uuid, usize)>,
    /// Messages that are no longer needed.
    obsolete: Vec<MessageId>,
    in_flight: Option<(CallPurpose, BotCall)>,
    /// What was rejected because of its formatting and is repeated without it.
    unformatted: Option<CallPurpose>,
    /// Whether the bot may not write here. Ends when a user writes.
    blocked: bool,
    /// What the cards show, by request.
    shown: BTreeMap<String, MessageContent>,
    /// Requests whose cards Telegram rejected.
    rejected_cards: BTreeSet<String>,
    progress: progress::ProgressState,
}

#[derive(Debug)]
struct QueuedReply {
    text: MessageText,
    buttons: BotKeyboard,
    reply_to: Option<MessageId>,
}

#[derive(Debug)]
struct OutgoingFile {
    path: PathBuf,
    picture: bool,
}

/// What a chat wants to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum NextCall {
    /// This call, as soon as the rate limits permit.
    Call(BotCall, CallUrgency),
    /// Nothing before this time, unless something happens.
    WaitUntil(BridgeTime),
    /// Nothing, unless something happens.
    Idle,
}

/// A more urgent call comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallUrgency {
    /// May be skipped: progress, drafts, the typing indicator.
    Optional,
    Required,
    /// A user waits for it: a card, its outcome, the reply to a command.
    Awaited,
}

/// What a user wants with a tap, or with a reply to a card.
#[derive(Clone, Debug, PartialEq)]
pub enum UserIntent {
    /// Answer a request.
    Answer {
        request: String,
        answer: session::RequestAnswer,
    },
    /// Stop the running turn.
    Stop,
    /// Remove a queued prompt.
    RemovePrompt(uuid::Uuid),
    ShowDiff {
        turn: u64,
    },
    /// Show another session in this chat.
    Resume(journal::SessionId),
    /// The same as a written command: a choice below the reply to one.
    Command(crate::inbound::ChatCommand),
    /// Nothing but a change of the card, such as a selected option.
    ChangeCard,
    /// It comes too late, for this reason.
    Stale(String),
}

impl Chat {
    /// A chat that continues at a checkpoint.
    pub fn new(checkpoint: ChatCheckpoint) -> Self {
        Self {
            checkpoint,
            document: Conversation::default(),
            loaded: false,
            costs_from: 0,
            replies: VecDeque::new(),
            files: VecDeque::new(),
            questions: Vec::new(),
            disclosures: Vec::new(),
            obsolete: Vec::new(),
            in_flight: None,
            unformatted: None,
            blocked: false,
            shown: BTreeMap::new(),
            rejected_cards: BTreeSet::new(),
            progress: progress::ProgressState::default(),
        }
    }

    /// The checkpoint, which must be stored before the next call is made.
    pub fn checkpoint(&self) -> &ChatCheckpoint {
        &self.checkpoint
    }

    /// Sets the document, at the start and after a gap. It may contain items that are delivered
    /// already.
    pub fn load(&mut self, conversation: Conversation, now: BridgeTime) {
        // Delivered items are dropped here, so a new item may precede all that are left. A document
        // that is marked as cut would not accept it.
        self.document = Conversation { more: false, ..conversation };
        self.loaded = true;
        self.costs_from = if self.checkpoint.from == 0 { 0 } else { u64::MAX };
        // The process before this one may have edited the progress message just now.
        self.progress.resume(now);
        self.refresh(now);
    }

    /// Applies a change of the document.
    pub fn apply(&mut self, update: &Update, now: BridgeTime) -> Result<(), RevisionGap> {
        self.document.apply(update)?;
        self.refresh(now);
        Ok(())
    }

    /// The next call; none while one is in flight.
    pub fn next_call(&self, now: BridgeTime) -> NextCall {
        match self.plan(now) {
            CallPlan::Call(planned) => NextCall::Call(planned.call, planned.urgency),
            CallPlan::WaitUntil(time) => NextCall::WaitUntil(time),
            CallPlan::Idle => NextCall::Idle,
        }
    }

    /// Notes that the call which [`next_call`](Self::next_call) returned is in flight.
    pub fn call_started(&mut self, call: &BotCall, now: BridgeTime) {
        let purpose = match self.plan(now) {
            CallPlan::Call(planned) if planned.call == *call => planned.purpose,
            _ => self.purpose_of(call),
        };
        self.progress.call_started(&purpose, now);
        self.in_flight = Some((purpose, call.clone()));
    }

    pub fn call_finished(&mut self, outcome: Result<BotResponse, BotCallError>, now: BridgeTime) {
        if let Some((purpose, call)) = self.in_flight.take() {
            self.handle_outcome(purpose, call, outcome);
            if self.loaded {
                self.refresh(now);
            }
        }
    }

    /// Queues a reply to a user.
    pub fn reply(
        &mut self,
        text: &FormattedText,
        buttons: BotKeyboard,
        reply_to: Option<MessageId>,
    ) {
        self.blocked = false;
        let mut reply_to = reply_to;
        let mut parts = text.messages(LIMIT);
        let last = parts.pop();
        for text in parts {
            let (buttons, reply_to) = (BotKeyboard::new(), reply_to.take());
            self.replies.push_back(QueuedReply { text, buttons, reply_to });
        }
        self.replies.extend(last.map(|text| QueuedReply { text, buttons, reply_to }));
    }

    /// Queues a file of the agent, which is sent after the agent's messages.
    pub fn attach(&mut self, path: PathBuf, picture: bool) {
        self.files.push_back(OutgoingFile { path, picture });
    }

    /// Sets the [verbosity](ChatCheckpoint::verbosity).
    pub fn set_verbosity(&mut self, verbosity: u8) {
        self.checkpoint.verbosity = verbosity.min(2);
    }

    /// Moves the chat to another address: its group became a supergroup, or its topic was created
    /// again. The messages at the old address are gone.
    pub fn migrate(&mut self, address: ChatAddress) {
        self.checkpoint.address = address;
        self.checkpoint.progress = None;
        self.checkpoint.prompts.clear();
        self.checkpoint.cards.retain(|_, card| !card.closed);
        for card in self.checkpoint.cards.values_mut() {
            card.message = None;
            card.awaited_reply = None;
            card.disclosed = None;
        }
        self.obsolete.clear();
        self.shown.clear();
        self.progress.reset();
        self.blocked = false;
    }

    /// Notes a message of the bot that is not this chat's. The progress message moves below it.
    pub fn message_below(&mut self) {
        self.blocked = false;
        self.progress.message_below(self.checkpoint.progress.is_some());
    }

    /// The calls that clean up before another session is shown here, so that no message seems to be
    /// still active.
    pub fn closing_calls(&self) -> Vec<BotCall> {
        let chat = self.checkpoint.address.chat;
        let progress = self.checkpoint.progress.map(|message| BotCall::Delete { chat, message });
        let open = self.checkpoint.cards.values().filter(|card| !card.closed);
        let cards =
            open.filter_map(|card| Some(self.edit(card.message?, outcome::abandoned_card(card))));
        progress.into_iter().chain(cards).collect()
    }

    /// Notes that a user wrote here, so the bot may write here too.
    pub fn user_active(&mut self) {
        self.blocked = false;
    }

    /// Notes that messages of a user became a prompt, which an edit of them may change.
    pub fn add_prompt(&mut self, messages: &[MessageId], prompt: uuid::Uuid) {
        self.message_below();
        self.checkpoint.prompts.extend(messages.iter().map(|&message| (message, prompt)));
    }

    pub fn read_tap(&mut self, message: MessageId, data: &str) -> UserIntent {
        self.blocked = false;
        self.intent_of_tap(message, data)
    }

    /// What a reply to a message of the bot means; none if it is a prompt.
    pub fn read_reply(&mut self, to: MessageId, text: &str) -> Option<UserIntent> {
        self.blocked = false;
        self.intent_of_reply(to, text)
    }

    /// Brings everything up to date after a change.
    fn refresh(&mut self, now: BridgeTime) {
        if let Some(first) = self.document.turns.first() {
            let known = if first.number <= 1 { 0 } else { first.number + 1 };
            self.costs_from = self.costs_from.min(known);
        }
        self.skip_silent_items();
        self.drop_unsent_cards();
        self.advance_checkpoint();
        let running = self.running_turn().map(|turn| turn.number);
        self.progress.observe(&self.document, running, now);
        self.drop_delivered_items();
        self.drop_old_records();
    }

    fn running_turn(&self) -> Option<&Turn> {
        self.document.turns.last().filter(|turn| turn.number > 0 && !self.is_over(turn))
    }

    /// Moves past items that are not posted and past posts without text.
    fn skip_silent_items(&mut self) {
        while let Some(post) = self.post(None)
            && post.parts.len() <= post.progress.sent
        {
            self.post_delivered(&post.progress);
        }
        if self.checkpoint.post.is_some() {
            return;
        }
        let mut delivered = self.checkpoint.delivered;
        for item in self.post_items(self.checkpoint.verbosity) {
            let PostItem::Item(item, ItemTreatment::Skip) = item else { break };
            delivered = item.position;
        }
        self.checkpoint.delivered = delivered;
    }

    /// Forgets requests that were resolved before their card was sent.
    fn drop_unsent_cards(&mut self) {
        let unsent = self.checkpoint.cards.iter().filter(|(_, card)| card.message.is_none());
        let resolved = unsent.filter(|(id, card)| !card.closed && self.outcome(id).is_some());
        let resolved: Vec<String> = resolved.map(|(id, _)| id.clone()).collect();
        for id in resolved {
            self.checkpoint.cards.remove(&id);
            self.shown.remove(&id);
        }
    }

    /// If everything is delivered and nothing waits for a user, no entry so far is needed again.
    fn advance_checkpoint(&mut self) {
        let document = &self.document;
        let undelivered = |item: &Item| item.open || item.position > self.checkpoint.delivered;
        let open_card = self.checkpoint.cards.values().any(|card| !card.closed);
        let quiet = self.running_turn().is_none()
            && self.checkpoint.post.is_none()
            && document.queue.is_empty()
            && document.requests.is_empty()
            && !open_card
            && !document.items.iter().any(undelivered)
            && document.turns.last().is_none_or(|turn| turn.number <= self.checkpoint.turn);
        if quiet {
            let end = view::Position(document.revision.0, u32::MAX);
            self.checkpoint.from = self.checkpoint.from.max(document.revision.0);
            self.checkpoint.delivered = self.checkpoint.delivered.max(end);
        }
    }

    fn drop_delivered_items(&mut self) {
        let (checkpoint, items) = (&self.checkpoint, &self.document.items);
        let running = self.running_turn().map(|turn| turn.number);
        let finished = |item: &Item| {
            item.parent.is_none()
                && Some(item.turn) == running
                && call_of(item).is_some_and(|call| !call.state.is_open())
        };
        let finished_calls = items.iter().filter(|item| finished(item)).count();
        let mut excess = finished_calls.saturating_sub(FINISHED_CALLS);
        let has_open_request = |item: &Item| {
            let permission = call_of(item).and_then(|call| call.permission.as_ref());
            let request = permission.and_then(|permission| permission.request.as_deref());
            request.is_some_and(|request| {
                self.document.requests.iter().any(|known| known.id == request)
                    || checkpoint.cards.get(request).is_some_and(|card| !card.closed)
            })
        };
        let keep: Vec<bool> = items
            .iter()
            .map(|item| {
                let recent = finished(item) && {
                    let old = excess > 0;
                    excess = excess.saturating_sub(1);
                    !old
                };
                let open = item.open || call_of(item).is_some_and(|call| call.state.is_open());
                let own = item.parent.is_none();
                (own && (item.position > checkpoint.delivered || open))
                    || recent
                    || has_open_request(item)
            })
            .collect();
        if keep.iter().any(|keep| !keep) {
            let mut keep = keep.into_iter();
            self.document.items.retain(|_| keep.next().unwrap_or(true));
        }
        let last = self.document.turns.last().map_or(0, |turn| turn.number);
        let posted = self.checkpoint.turn;
        self.document.turns.retain(|turn| turn.number > posted || turn.number == last);
    }

    fn drop_old_records(&mut self) {
        while self.checkpoint.prompts.len() > PROMPTS {
            self.checkpoint.prompts.pop_first();
        }
        let closed = self.checkpoint.cards.values().filter(|card| card.closed);
        let mut closed: Vec<_> = closed.map(|card| card.message).collect();
        if closed.len() > CLOSED_CARDS {
            closed.sort_unstable();
            let oldest = closed[closed.len() - CLOSED_CARDS];
            self.checkpoint.cards.retain(|_, card| !card.closed || card.message >= oldest);
        }
        let requests = &self.document.requests;
        let is_open = |id: &str| requests.iter().any(|request| request.id == id);
        self.questions.retain(|(id, _)| is_open(id));
        self.disclosures.retain(|(id, ..)| is_open(id));
        self.rejected_cards.retain(|id| is_open(id));
    }
}

fn call_of(item: &Item) -> Option<&Call> {
    match &item.body {
        ItemBody::Call(call) => Some(call),
        _ => None,
    }
}
