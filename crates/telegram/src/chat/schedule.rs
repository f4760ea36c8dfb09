//! Which call comes first, and what its outcome means for the chat.
//!
//! The order: replies to users, outcomes of requests, the full text of requests, changes of cards,
//! then messages and cards in their order, obsolete messages, files, and progress.

use uuid::Uuid;
use view::telegram::{FormattedText, TextFormat};
use view::{Item, ItemId, Position, Request};

use super::card::{self, MessageContent};
use super::question_card;
use super::text::{shortened_to, without_formatting};
use super::{BridgeTime, CallUrgency, Chat};
use crate::address::MessageId;
use crate::bot::{BotCall, BotCallError, BotKeyboard, BotResponse, MessageText, OutgoingMessage};
use crate::checkpoint::{CardState, PostProgress, ReplyPurpose};

/// What a call is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallPurpose {
    /// The first queued reply.
    Reply,
    /// A new card. `shown` is the hash of what it shows in full.
    SendCard {
        request: String,
        shown: Option<Uuid>,
    },
    /// A change of a card.
    EditCard {
        request: String,
        shown: Option<Uuid>,
    },
    /// A card shows its outcome.
    CloseCard(String),
    /// One of several messages that show a request in full.
    Disclose {
        request: String,
        last: bool,
        shown: Uuid,
    },
    /// The user is asked for a text.
    AskForText(String, ReplyPurpose),
    DeleteObsolete(MessageId),
    /// A message of a post, and the number of its messages.
    Post(PostProgress, usize),
    /// The first queued file.
    File,
    /// The progress message, sent or edited.
    Progress,
    DeleteProgress,
    Draft,
    Typing,
    /// Not a call of this chat.
    Unknown,
}

/// A call and its purpose.
#[derive(Clone, Debug)]
pub(super) struct PlannedCall {
    pub(super) purpose: CallPurpose,
    pub(super) call: BotCall,
    pub(super) urgency: CallUrgency,
}

#[derive(Clone, Debug)]
pub(super) enum CallPlan {
    Call(Box<PlannedCall>),
    WaitUntil(BridgeTime),
    Idle,
}

impl Chat {
    pub(super) fn plan(&self, now: BridgeTime) -> CallPlan {
        if self.in_flight.is_some() || self.blocked {
            return CallPlan::Idle;
        }
        let required = match self.plan_reply() {
            None if self.loaded => self
                .plan_closed_card()
                .or_else(|| self.plan_disclosure())
                .or_else(|| self.plan_card_change())
                .or_else(|| self.plan_post_or_card())
                .or_else(|| self.plan_deletion())
                .or_else(|| self.plan_file()),
            reply => reply,
        };
        let plan = match required {
            Some(planned) => CallPlan::Call(Box::new(planned)),
            None if self.loaded => self.plan_progress(now),
            None => CallPlan::Idle,
        };
        match plan {
            CallPlan::Call(mut planned) if self.unformatted.as_ref() == Some(&planned.purpose) => {
                planned.call.remove_formatting();
                CallPlan::Call(planned)
            }
            plan => plan,
        }
    }

    fn plan_reply(&self) -> Option<PlannedCall> {
        let reply = self.replies.front()?;
        let mut message = self.silent_message(reply.text.clone(), reply.buttons.clone());
        message.reply_to = reply.reply_to;
        message.notify = true;
        let (purpose, urgency) = (CallPurpose::Reply, CallUrgency::Awaited);
        Some(PlannedCall { purpose, call: BotCall::Send(message), urgency })
    }

    /// Cards whose requests are resolved.
    fn plan_closed_card(&self) -> Option<PlannedCall> {
        let open = self.checkpoint.cards.iter().filter(|(_, card)| !card.closed);
        let mut resolved = open.filter_map(|(id, card)| {
            let content = self.closed_card(id, card)?;
            Some((id, self.edit(card.message?, content)))
        });
        let (id, call) = resolved.next()?;
        let purpose = CallPurpose::CloseCard(id.clone());
        Some(PlannedCall { purpose, call, urgency: CallUrgency::Awaited })
    }

    /// The next message that shows a request in full, after a tap on *Show all*.
    fn plan_disclosure(&self) -> Option<PlannedCall> {
        self.disclosures.iter().find_map(|(id, hash, sent)| {
            let request = self.document.requests.iter().find(|request| request.id == *id)?;
            let card = self.checkpoint.cards.get(id)?;
            let (mut calls, shown) = self.disclosure_calls(request, card);
            // A restarted agent may use an id again. Then the new text is sent from its beginning.
            let sent = if *hash == shown { *sent } else { 0 };
            let last = sent + 1 >= calls.len();
            let call = if sent < calls.len() { calls.swap_remove(sent) } else { calls.pop()? };
            let purpose = CallPurpose::Disclose { request: id.clone(), last, shown };
            Some(PlannedCall { purpose, call, urgency: CallUrgency::Awaited })
        })
    }

    /// Cards that changed since a tap, and texts that the user is asked for.
    fn plan_card_change(&self) -> Option<PlannedCall> {
        let requests = &self.document.requests;
        let request = |id: &str| requests.iter().find(|request| request.id == id);
        for (id, purpose) in &self.questions {
            let (Some(request), Some(card)) = (request(id), self.checkpoint.cards.get(id)) else {
                continue;
            };
            let text = question_card::text_question(request, card, *purpose);
            let content = MessageContent::new(&text, BotKeyboard::new());
            let mut message = self.silent_message(content.text, content.buttons);
            message.reply_to = card.message;
            message.force_reply = true;
            message.notify = true;
            let purpose = CallPurpose::AskForText(id.clone(), *purpose);
            let call = BotCall::Send(message);
            return Some(PlannedCall { purpose, call, urgency: CallUrgency::Awaited });
        }
        requests.iter().find_map(|request| {
            let card = self.checkpoint.cards.get(&request.id)?;
            let message = card.message?;
            let shown = self.shown.get(&request.id)?;
            let content = self.card(request, card);
            let purpose = CallPurpose::EditCard {
                request: request.id.clone(),
                shown: self.shown_on_card(request),
            };
            (content != *shown).then(|| PlannedCall {
                purpose,
                call: self.edit(message, content),
                urgency: CallUrgency::Awaited,
            })
        })
    }

    /// Messages and new cards, in the order of the document.
    fn plan_post_or_card(&self) -> Option<PlannedCall> {
        let next = self.document.requests.iter().find(|request| self.is_without_card(request));
        let position = next.and_then(|request| self.position_of(request));
        if let Some(planned) = self.plan_post(position) {
            return Some(planned);
        }
        let request = next?;
        let card = self.checkpoint.cards.get(&request.id).filter(|card| !card.closed);
        let content = self.card(request, &card.cloned().unwrap_or_default());
        let mut message = self.silent_message(content.text, content.buttons);
        message.notify = true;
        let shown = self.shown_on_card(request);
        let purpose = CallPurpose::SendCard { request: request.id.clone(), shown };
        Some(PlannedCall { purpose, call: BotCall::Send(message), urgency: CallUrgency::Awaited })
    }

    fn plan_post(&self, limit: Option<Position>) -> Option<PlannedCall> {
        let post = self.post(limit)?;
        let part = post.progress.sent;
        let count = post.parts.len();
        let text = post.parts.get(part)?.clone();
        let buttons = if part + 1 == count { post.buttons } else { BotKeyboard::new() };
        let mut message = self.silent_message(text, buttons);
        message.notify = post.notify && part == 0;
        let purpose = CallPurpose::Post(post.progress, count);
        Some(PlannedCall { purpose, call: BotCall::Send(message), urgency: CallUrgency::Required })
    }

    fn plan_deletion(&self) -> Option<PlannedCall> {
        let &message = self.obsolete.first()?;
        let call = BotCall::Delete { chat: self.checkpoint.address.chat, message };
        let purpose = CallPurpose::DeleteObsolete(message);
        Some(PlannedCall { purpose, call, urgency: CallUrgency::Required })
    }

    fn plan_file(&self) -> Option<PlannedCall> {
        let file = self.files.front()?;
        let call = BotCall::SendFile {
            address: self.checkpoint.address,
            path: file.path.clone(),
            picture: file.picture,
        };
        Some(PlannedCall { purpose: CallPurpose::File, call, urgency: CallUrgency::Required })
    }

    /// Whether a request has no card. A restarted agent may use an id again.
    fn is_without_card(&self, request: &Request) -> bool {
        let card = self.checkpoint.cards.get(&request.id).filter(|card| !card.closed);
        !self.rejected_cards.contains(&request.id) && card.is_none_or(|card| card.message.is_none())
    }

    /// The position of the call that a request is about.
    fn position_of(&self, request: &Request) -> Option<Position> {
        self.item(request.item.as_ref()?).filter(|item| !item.open).map(|item| item.position)
    }

    pub(super) fn item(&self, id: &ItemId) -> Option<&Item> {
        self.document.items.iter().rfind(|item| item.id == *id)
    }

    /// A message without a sound that is not a reply.
    pub(super) fn silent_message(
        &self,
        text: MessageText,
        buttons: BotKeyboard,
    ) -> OutgoingMessage {
        OutgoingMessage {
            address: self.checkpoint.address,
            text,
            buttons,
            notify: false,
            reply_to: None,
            force_reply: false,
        }
    }

    pub(super) fn edit(&self, message: MessageId, content: MessageContent) -> BotCall {
        let MessageContent { text, buttons } = content;
        BotCall::Edit { chat: self.checkpoint.address.chat, message, text, buttons }
    }

    /// The purpose of a call that is no longer the planned one because time has passed. Only calls
    /// that show progress depend on the time.
    pub(super) fn purpose_of(&self, call: &BotCall) -> CallPurpose {
        let progress = self.checkpoint.progress;
        match call {
            BotCall::Draft { .. } => CallPurpose::Draft,
            BotCall::Typing(_) => CallPurpose::Typing,
            BotCall::Edit { message, .. } if progress == Some(*message) => CallPurpose::Progress,
            BotCall::Delete { message, .. } if progress == Some(*message) => {
                CallPurpose::DeleteProgress
            }
            BotCall::Send(message) if progress.is_none() && self.is_progress_message(message) => {
                CallPurpose::Progress
            }
            _ => CallPurpose::Unknown,
        }
    }

    pub(super) fn handle_outcome(
        &mut self,
        purpose: CallPurpose,
        call: BotCall,
        outcome: Result<BotResponse, BotCallError>,
    ) {
        match outcome {
            Ok(BotResponse::Sent(message)) => self.succeeded(purpose, call, Some(message)),
            Ok(BotResponse::Done) | Err(BotCallError::NotModified) => {
                self.succeeded(purpose, call, None);
            }
            Err(BotCallError::InvalidMarkup(_)) if self.unformatted.as_ref() != Some(&purpose) => {
                self.unformatted = Some(purpose);
            }
            Err(BotCallError::InvalidMarkup(why) | BotCallError::Rejected(why)) => {
                self.give_up(purpose, &why);
            }
            Err(BotCallError::MessageNotFound) => self.message_not_found(purpose),
            // There is nothing to do until a user writes or the chat is migrated.
            Err(BotCallError::Forbidden(_) | BotCallError::TopicNotFound) => self.blocked = true,
            // The call is repeated. The rate limiter decides when.
            Err(
                BotCallError::RateLimited(_)
                | BotCallError::Unreachable(_)
                | BotCallError::NoResponse(_),
            ) => {}
        }
    }

    fn succeeded(&mut self, purpose: CallPurpose, call: BotCall, message: Option<MessageId>) {
        if self.unformatted.as_ref() == Some(&purpose) {
            self.unformatted = None;
        }
        let is_new =
            matches!(call, BotCall::Send(_) | BotCall::SendFile { .. } | BotCall::SendText { .. });
        if is_new && purpose != CallPurpose::Progress {
            self.progress.message_below(self.checkpoint.progress.is_some());
        }
        match purpose {
            CallPurpose::Reply => {
                self.replies.pop_front();
            }
            CallPurpose::SendCard { request, shown } => {
                self.card_sent(&request, message);
                self.card_shown(request, call, shown);
            }
            CallPurpose::EditCard { request, shown } => self.card_shown(request, call, shown),
            CallPurpose::CloseCard(id) => self.close_card(&id),
            CallPurpose::Disclose { request, last, shown } => {
                self.part_disclosed(&request, last, shown);
            }
            CallPurpose::AskForText(id, purpose) => {
                self.questions.retain(|known| *known != (id.clone(), purpose));
                if let (Some(card), Some(message)) = (self.checkpoint.cards.get_mut(&id), message) {
                    let before = card.awaited_reply.replace((message, purpose));
                    self.obsolete.extend(before.map(|(message, _)| message));
                }
            }
            CallPurpose::DeleteObsolete(message) => self.obsolete.retain(|known| *known != message),
            CallPurpose::Post(progress, count) => self.part_posted(progress, count),
            CallPurpose::File => {
                self.files.pop_front();
            }
            CallPurpose::Progress => {
                self.checkpoint.progress = message.or(self.checkpoint.progress);
                if let Some(content) = content_of(call) {
                    self.progress.message_shown(content);
                }
            }
            CallPurpose::DeleteProgress => self.progress_deleted(),
            CallPurpose::Draft => {
                if let BotCall::Draft { draft_id, text, .. } = call {
                    self.progress.draft.draft_shown(draft_id, text);
                }
            }
            CallPurpose::Typing | CallPurpose::Unknown => {}
        }
    }

    fn part_posted(&mut self, mut progress: PostProgress, count: usize) {
        progress.sent += 1;
        if progress.sent < count {
            self.checkpoint.post = Some(progress);
        } else {
            self.post_delivered(&progress);
        }
    }

    /// Notes that a message of the full text was sent. After the last one, the card is sent again
    /// below it, with the buttons that allow the request.
    fn part_disclosed(&mut self, request: &str, last: bool, shown: Uuid) {
        if let Some((_, hash, sent)) = self.disclosures.iter_mut().find(|(id, ..)| id == request) {
            *sent = if *hash == shown { *sent + 1 } else { 1 };
            *hash = shown;
        }
        if !last {
            return;
        }
        self.disclosures.retain(|(id, ..)| id != request);
        if let Some(card) = self.checkpoint.cards.get_mut(request) {
            card.disclosed = Some(shown);
            self.obsolete.extend(card.message.take());
            self.shown.remove(request);
        }
    }

    fn card_sent(&mut self, id: &str, message: Option<MessageId>) {
        let request = self.document.requests.iter().find(|request| request.id == id);
        let base = self.document.head.cwd.as_deref();
        let title = request.map(|request| card::title(request, base)).unwrap_or_default();
        let card = self.checkpoint.cards.entry(id.to_owned()).or_default();
        if card.closed {
            *card = CardState::default();
        }
        if !title.is_empty() {
            card.title = title;
        }
        card.message = message.or(card.message);
        card.since = self.document.revision.0;
    }

    fn card_shown(&mut self, request: String, call: BotCall, shown: Option<Uuid>) {
        if let (Some(card), Some(shown)) = (self.checkpoint.cards.get_mut(&request), shown) {
            card.disclosed = Some(shown);
        }
        if let Some(content) = content_of(call) {
            self.shown.insert(request, content);
        }
    }

    /// Notes that the outcome of a request is shown, as far as possible.
    fn close_card(&mut self, request: &str) {
        let outcome = self.outcome(request).unwrap_or_default();
        self.shown.remove(request);
        if let Some(card) = self.checkpoint.cards.get_mut(request) {
            card.closed = true;
            card.outcome = outcome;
            // The record of the awaited reply stays, so that a late reply gets an answer.
            self.obsolete.extend(card.awaited_reply.map(|(message, _)| message));
        }
    }

    fn progress_deleted(&mut self) {
        self.checkpoint.progress = None;
        self.progress.message_deleted();
    }

    /// Skips a call that Telegram will never accept.
    fn give_up(&mut self, purpose: CallPurpose, why: &str) {
        const CARD: &str = "A request of the agent could not be shown here:";
        self.unformatted = None;
        match purpose {
            CallPurpose::Reply => {
                self.replies.pop_front();
            }
            CallPurpose::SendCard { request, .. } => {
                self.rejected_cards.insert(request);
                self.report_failure(CARD, why);
            }
            CallPurpose::EditCard { request, .. } => {
                self.checkpoint.cards.entry(request.clone()).or_default().message = None;
                self.shown.remove(&request);
                self.rejected_cards.insert(request);
                self.report_failure(CARD, why);
            }
            CallPurpose::CloseCard(id) => self.close_card(&id),
            CallPurpose::Disclose { request, .. } => {
                self.disclosures.retain(|(id, ..)| *id != request);
                self.report_failure("The full request could not be shown here:", why);
            }
            CallPurpose::AskForText(id, _) => self.questions.retain(|(known, _)| *known != id),
            CallPurpose::DeleteObsolete(message) => self.obsolete.retain(|known| *known != message),
            CallPurpose::Post(progress, count) => {
                self.part_posted(progress, count);
                self.report_failure("A message could not be shown here:", why);
            }
            CallPurpose::File => {
                let file = self.files.pop_front();
                let name = file.as_ref().and_then(|file| file.path.file_name());
                let name = name.map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
                self.report_failure(&format!("The file {name} could not be sent:"), why);
            }
            CallPurpose::Progress => self.progress.message_rejected(),
            CallPurpose::DeleteProgress => self.progress_deleted(),
            CallPurpose::Draft => self.progress.draft.draft_rejected(),
            CallPurpose::Typing | CallPurpose::Unknown => {}
        }
    }

    fn message_not_found(&mut self, purpose: CallPurpose) {
        match purpose {
            CallPurpose::Reply => match self.replies.front_mut() {
                // The message that is replied to was deleted.
                Some(reply) if reply.reply_to.is_some() => reply.reply_to = None,
                _ => drop(self.replies.pop_front()),
            },
            CallPurpose::EditCard { request, .. } => {
                self.shown.remove(&request);
                if let Some(card) = self.checkpoint.cards.get_mut(&request) {
                    card.message = None;
                }
            }
            CallPurpose::CloseCard(id) => self.close_card(&id),
            CallPurpose::AskForText(id, _) => {
                if let Some(card) = self.checkpoint.cards.get_mut(&id) {
                    card.message = None;
                }
            }
            CallPurpose::Progress | CallPurpose::DeleteProgress => self.progress_deleted(),
            purpose => self.give_up(purpose, "message not found"),
        }
    }

    fn report_failure(&mut self, what: &str, why: &str) {
        let mut text = FormattedText::plain(&format!("⚠️ {what} "));
        text.push_formatted(TextFormat::Italic, &shortened_to(why, 200));
        self.reply(&text, BotKeyboard::new(), None);
    }
}

impl BotCall {
    fn remove_formatting(&mut self) {
        match self {
            Self::Send(OutgoingMessage { text, .. }) | Self::Edit { text, .. } => {
                *text = without_formatting(text);
            }
            Self::Draft { .. }
            | Self::Delete { .. }
            | Self::SendFile { .. }
            | Self::SendText { .. }
            | Self::Typing(_)
            | Self::AnswerTap { .. } => {}
        }
    }
}

/// What a message shows after a call.
fn content_of(call: BotCall) -> Option<MessageContent> {
    match call {
        BotCall::Send(message) => {
            Some(MessageContent { text: message.text, buttons: message.buttons })
        }
        BotCall::Edit { text, buttons, .. } => Some(MessageContent { text, buttons }),
        _ => None,
    }
}
