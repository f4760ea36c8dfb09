//! The outcome of requests: what a card becomes when its request is resolved.

use view::telegram::{FormattedText, TextFormat};
use view::{CallPermission, ItemBody};
use wire::note::{Actor, Outcome, RequestKind};

use super::Chat;
use super::card::MessageContent;
use super::text::{client_name, shortened_to};
use crate::bot::BotKeyboard;
use crate::checkpoint::CardState;

impl Chat {
    /// The outcome of a request in one line; none while it is open.
    pub(super) fn outcome(&self, request: &str) -> Option<String> {
        if self.document.requests.iter().any(|known| known.id == request) {
            return None;
        }
        let card = self.checkpoint.cards.get(request);
        if card.is_some_and(|card| self.document.revision.0 < card.since) {
            // The document is older than the card, so it does not contain the request yet.
            return None;
        }
        let permission = self.document.items.iter().rev().find_map(|item| match &item.body {
            ItemBody::Call(call) => {
                call.permission.as_ref().filter(|it| it.request.as_deref() == Some(request))
            }
            _ => None,
        });
        Some(permission.map_or_else(|| "Answered in another client".to_owned(), outcome_line))
    }

    /// The card of a resolved request.
    pub(super) fn closed_card(&self, request: &str, card: &CardState) -> Option<MessageContent> {
        let outcome = self.outcome(request)?;
        let mut text = FormattedText::default();
        text.push_formatted(TextFormat::Bold, &card.title);
        text.push("\n");
        text.push(&outcome);
        Some(MessageContent::new(&text, BotKeyboard::new()))
    }
}

/// The card of an open request whose session is no longer shown in the chat.
pub(super) fn abandoned_card(card: &CardState) -> MessageContent {
    let mut text = FormattedText::default();
    text.push_formatted(TextFormat::Bold, &card.title);
    text.push("\nStill open, but this chat now shows another session.");
    MessageContent::new(&text, BotKeyboard::new())
}

fn outcome_line(permission: &CallPermission) -> String {
    let by = permission.by.as_ref().map(actor).unwrap_or_default();
    let reason = permission.message.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let reason = reason.map(|it| format!(": {}", shortened_to(it, 300))).unwrap_or_default();
    match (permission.outcome, permission.kind) {
        (Some(Outcome::Allowed), RequestKind::Permission | RequestKind::Unknown) => {
            format!("✔ Allowed{by}")
        }
        (Some(Outcome::AllowedAndRemembered), RequestKind::Permission | RequestKind::Unknown) => {
            format!("✔ Always allowed{by}")
        }
        (Some(Outcome::Allowed | Outcome::AllowedAndRemembered), RequestKind::Plan) => {
            format!("✔ Approved{by}")
        }
        (Some(Outcome::Allowed | Outcome::AllowedAndRemembered), RequestKind::Question) => {
            let answers = permission.answers.iter().map(|(question, answer)| {
                let question = shortened_to(question, 200);
                format!("\n{question} → {}", shortened_to(answer, 300))
            });
            format!("✔ Answered{by}{}", answers.collect::<String>())
        }
        (Some(Outcome::Denied), RequestKind::Permission | RequestKind::Unknown) => {
            format!("✘ Denied{by}{reason}")
        }
        (Some(Outcome::Denied), RequestKind::Plan) => format!("✎ Not approved{by}{reason}"),
        (Some(Outcome::Denied), RequestKind::Question) => format!("✘ Skipped{by}{reason}"),
        (Some(Outcome::Expired), _) => "⌛ Denied: no answer in time".to_owned(),
        (Some(Outcome::Withdrawn), _) => "– No longer needed".to_owned(),
        (None, _) => "Answered in another client".to_owned(),
    }
}

fn actor(by: &Actor) -> String {
    match by.client() {
        "rule" => format!(" by a rule of {}", by.name),
        via => format!(" by {} {}", by.name, client_name(via)),
    }
}
