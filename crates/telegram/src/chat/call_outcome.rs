//! What the outcome of a call means for the chat.

use uuid::Uuid;
use view::telegram::{FormattedText, TextFormat};

use super::Chat;
use super::card::{self, MessageContent};
use super::schedule::CallPurpose;
use super::text::shortened_to;
use crate::address::MessageId;
use crate::bot::{BotCall, BotCallError, BotKeyboard, BotResponse};
use crate::checkpoint::{CardState, PostProgress};

impl Chat {
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
