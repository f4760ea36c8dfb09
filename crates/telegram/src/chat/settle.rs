//! What came of a request, on its card and to those who tap too late.

use view::telegram::{Mark, Text};
use view::{Body, Permission};
use wire::note::{Actor, Outcome, Wants};

use super::card::Shown;
use super::{Chat, words};
use crate::call::Buttons;
use crate::memory::CardMemory;

impl Chat {
    /// What came of a request, in a line; nothing while it waits.
    pub(super) fn outcome(&self, request: &str) -> Option<String> {
        if self.document.requests.iter().any(|known| known.id == request) {
            return None;
        }
        let card = self.memory.cards.get(request);
        if card.is_some_and(|card| self.document.revision.0 < card.since) {
            // The document is not yet where it was when the card was sent.
            return None;
        }
        let permission = self.document.items.iter().rev().find_map(|item| match &item.body {
            Body::Call(call) => {
                call.permission.as_ref().filter(|it| it.request.as_deref() == Some(request))
            }
            _ => None,
        });
        Some(permission.map_or_else(|| "Settled elsewhere".to_owned(), in_words))
    }

    /// The card of a request that waits no longer.
    pub(super) fn settled(&self, request: &str, card: &CardMemory) -> Option<Shown> {
        let outcome = self.outcome(request)?;
        let mut text = Text::default();
        text.push_marked(Mark::Bold, &card.title);
        text.push("\n");
        text.push(&outcome);
        Some(Shown::new(&text, Buttons::new()))
    }
}

/// The card of a request whose session is shown here no longer.
pub(super) fn left(card: &CardMemory) -> Shown {
    let mut text = Text::default();
    text.push_marked(Mark::Bold, &card.title);
    text.push("\nThis waits in its session, which is not shown here any more.");
    Shown::new(&text, Buttons::new())
}

fn in_words(permission: &Permission) -> String {
    let by = permission.by.as_ref().map(who).unwrap_or_default();
    let said = permission.message.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let said = said.map(|said| format!(": {}", words::shortened_to(said, 300))).unwrap_or_default();
    match (permission.outcome, permission.wants) {
        (Some(Outcome::Allowed), Wants::Permission) => format!("✔ Allowed{by}"),
        (Some(Outcome::Allowed | Outcome::AllowedAndRemembered), Wants::PlanApproval) => {
            format!("✔ Approved{by}")
        }
        (Some(Outcome::Allowed | Outcome::AllowedAndRemembered), Wants::Answers) => {
            let answers = permission.answers.iter().map(|(question, answer)| {
                let question = words::shortened_to(question, 200);
                format!("\n{question} → {}", words::shortened_to(answer, 300))
            });
            format!("✔ Answered{by}{}", answers.collect::<String>())
        }
        (Some(Outcome::AllowedAndRemembered), Wants::Permission) => {
            format!("✔ Allowed{by}, from here on too")
        }
        (Some(Outcome::Denied), Wants::Permission) => format!("✘ Denied{by}{said}"),
        (Some(Outcome::Denied), Wants::PlanApproval) => format!("✎ Sent back{by}{said}"),
        (Some(Outcome::Denied), Wants::Answers) => format!("✘ Not answered{by}{said}"),
        (Some(Outcome::Expired), _) => "⌛ Nobody answered in time".to_owned(),
        (Some(Outcome::Withdrawn), _) => "– No longer needed".to_owned(),
        (None, _) => "Settled elsewhere".to_owned(),
    }
}

fn who(by: &Actor) -> String {
    match by.via.as_str() {
        "rule" => format!(" by a rule of {}", by.name),
        via => format!(" by {} {}", by.name, words::by_way_of(via)),
    }
}
