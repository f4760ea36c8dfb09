//! What a user must have been shown before a request can be allowed, and how it is shown.
//!
//! [`wire::consent`] decides what that is about a call. Texts that the agent's model or program wrote
//! about the call, and questions, are shown in full as well: no user should agree to a text that was
//! cut.

use uuid::Uuid;
use view::telegram::{FormattedText, LIMIT, TextFormat};
use view::{Request, ToolInput};
use wire::consent::Disclosure;
use wire::note::RequestKind;

use super::Chat;
use super::question_card::question_disclosure;
use super::text::{push_line, shortened_to, units, visible};
use crate::bot::{BotCall, BotKeyboard};
use crate::checkpoint::CardState;

/// The lines and UTF-16 units that a card shows of a command, an input or a change.
pub(super) const CARD_LINES: usize = 40;
pub(super) const CARD_UNITS: usize = 2_500;

/// The lines and characters that a card shows of a text that is too long for it.
const EXCERPT_LINES: usize = 15;
const EXCERPT_CHARACTERS: usize = 600;

/// A longer text is sent as a file instead of messages.
const DISCLOSURE_MESSAGES: usize = 5;

/// The characters of a remark about a call that are shown as a line of its card.
const REMARK: usize = 200;

/// The namespace of the hashes of what was shown.
const DISCLOSURES: Uuid = Uuid::from_u128(0x3c0a_77f1_95d2_4e86_b1aa_62d9_0c4e_8f35);

impl Chat {
    /// The hash of what must be shown, if the card of a request shows it in full.
    pub(super) fn shown_on_card(&self, request: &Request) -> Option<Uuid> {
        let required = self.required(request);
        fits_on_card(&required).then(|| hash(&required))
    }

    /// Whether the user was shown everything that must be visible before the request is allowed.
    pub(super) fn was_shown_in_full(&self, request: &Request, state: &CardState) -> bool {
        let required = self.required(request);
        match state.disclosed {
            _ if required.is_empty() => true,
            // Cards of earlier versions have the hash of something else.
            _ if request.kind == RequestKind::Question && fits_on_card(&required) => true,
            Some(shown) => shown == hash(&required),
            // The card's response was lost, or an earlier version sent it, which shortened only what
            // does not fit.
            None => fits_on_card(&required),
        }
    }

    /// The calls that show a request in full, and the hash of what they show.
    pub(super) fn disclosure_calls(
        &self,
        request: &Request,
        state: &CardState,
    ) -> (Vec<BotCall>, Uuid) {
        let required = self.required(request);
        let mut text = FormattedText::default();
        push_disclosures(&mut text, &required);
        let messages = text.messages(LIMIT);
        let address = self.checkpoint.address;
        let calls = if messages.len() > DISCLOSURE_MESSAGES {
            let content = required.iter().map(|it| format!("{}:\n{}\n", it.label, it.text));
            let content = content.collect::<Vec<_>>().join("\n");
            vec![BotCall::SendText { address, name: "request.txt".to_owned(), content }]
        } else {
            let messages = messages.into_iter().map(|text| {
                let mut message = self.silent_message(text, BotKeyboard::new());
                message.reply_to = state.message;
                BotCall::Send(message)
            });
            messages.collect()
        };
        (calls, hash(&required))
    }

    /// What must be shown before a request can be allowed.
    pub(super) fn required(&self, request: &Request) -> Vec<Disclosure> {
        if request.kind == RequestKind::Plan
            && let ToolInput::Plan(text) = request.call().tool_input()
        {
            // Usually the plan was posted before its card.
            let item = request.item.as_ref().and_then(|id| self.item(id));
            let was_posted = item.is_some_and(|item| {
                let after_start = self.checkpoint.start.is_none_or(|start| item.position > start);
                after_start && item.position <= self.checkpoint.delivered && !item.trimmed
            });
            if was_posted {
                return Vec::new();
            }
            return vec![Disclosure { label: "Plan".to_owned(), text }];
        }
        if request.kind == RequestKind::Question {
            return question_disclosure(request).into_iter().collect();
        }
        let mut required = request.disclosures();
        let blocked = request.blocked_path.as_ref().filter(|_| request.reason.is_none());
        for (label, remark) in [
            ("Description", request.description.as_ref()),
            ("Reason", request.reason.as_ref()),
            ("Asks because of", blocked),
        ] {
            if let Some(text) = remark.filter(|text| has_long_remark(text)) {
                required.push(Disclosure { label: label.to_owned(), text: text.clone() });
            }
        }
        required
    }
}

/// Whether a remark about a call is too long for a line, so that it must be disclosed.
pub(super) fn has_long_remark(remark: &str) -> bool {
    let text = remark.trim();
    text.chars().nth(REMARK).is_some() || text.lines().nth(1).is_some()
}

/// Whether a card has room for everything that must be shown.
pub(super) fn fits_on_card(required: &[Disclosure]) -> bool {
    let mut text = FormattedText::default();
    push_disclosures(&mut text, required);
    units(text.plain_text()) <= CARD_UNITS && text.plain_text().lines().count() <= CARD_LINES
}

pub(super) fn hash(required: &[Disclosure]) -> Uuid {
    let text: Vec<_> = required.iter().flat_map(|it| [it.label.as_str(), &it.text]).collect();
    Uuid::new_v5(&DISCLOSURES, text.join("\0").as_bytes())
}

pub(super) fn push_disclosures(text: &mut FormattedText, required: &[Disclosure]) {
    for disclosure in required {
        push_disclosure(text, &disclosure.label, &visible(&disclosure.text), required.len() > 1);
    }
}

/// The beginning of everything that must be shown, marked as shortened.
pub(super) fn push_excerpts(text: &mut FormattedText, required: &[Disclosure]) {
    for disclosure in required {
        let full = visible(&disclosure.text);
        let lines: Vec<_> = full.lines().take(EXCERPT_LINES).collect();
        let excerpt = shortened_to(&lines.join("\n"), EXCERPT_CHARACTERS);
        push_disclosure(text, &disclosure.label, &excerpt, required.len() > 1);
        if excerpt != full {
            let characters = full.chars().count();
            push_line(
                text,
                TextFormat::Italic,
                &format!("… shortened, {characters} characters in all"),
            );
        }
    }
}

fn push_disclosure(text: &mut FormattedText, label: &str, value: &str, with_label: bool) {
    if with_label {
        push_line(text, TextFormat::Italic, &format!("{label}:"));
    }
    let mark = match label {
        "Command" => TextFormat::Block(Some("bash".to_owned())),
        "Input" => TextFormat::Block(Some("json".to_owned())),
        "Plan" => TextFormat::Block(None),
        _ => TextFormat::Code,
    };
    push_line(text, mark, value);
}
