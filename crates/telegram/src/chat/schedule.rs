//! Which call comes first.
//!
//! The order: replies to users, outcomes of requests, the full text of requests, changes of cards,
//! then messages and cards in their order, obsolete messages, files, and progress.

use uuid::Uuid;
use view::{Item, ItemId, Position, Request};

use super::card::MessageContent;
use super::question_card;
use super::text::without_formatting;
use super::{BridgeTime, CallUrgency, Chat};
use crate::address::MessageId;
use crate::bot::{BotCall, BotKeyboard, MessageText, OutgoingMessage};
use crate::checkpoint::{PostProgress, ReplyPurpose};

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
