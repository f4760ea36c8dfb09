//! Replies about rules: what the agent may do without asking.

use journal::Grant;
use uuid::Uuid;
use view::telegram::TextFormat;
use view::wording;
use wire::consent::{describe_rule, visible};

use super::{BotReply, shortened};
use crate::bot::BotButton;

/// Rules that are listed.
const RULES: usize = 12;

/// Characters of a rule in the list and on its button.
const RULE_TEXT: usize = 200;
const RULE_LABEL: usize = 32;

/// The rules that apply in a session, newest first, each with a button that revokes it.
pub fn rules(grants: &[Grant]) -> BotReply {
    if grants.is_empty() {
        return "No rules: the agent asks before everything that needs a permission. To add a rule, \
                tap Always… on a request."
            .into();
    }
    let mut newest: Vec<&Grant> = grants.iter().collect();
    newest.sort_by_key(|grant| std::cmp::Reverse((grant.created, grant.id)));
    let mut reply = BotReply::default();
    reply.text.push_formatted(TextFormat::Bold, "Always allowed");
    for (grant, number) in newest.iter().zip(1..).take(RULES) {
        let (kind, pattern) = describe(grant);
        reply.text.push(&format!("\n\n{number}. {kind}"));
        if let Some(pattern) = &pattern {
            reply.text.push(" ");
            reply.text.push_formatted(TextFormat::Code, pattern);
        }
        let place = if grant.session.is_some() { "this session" } else { "this directory" };
        let by = shortened(&grant.by.name, 40);
        reply.text.push(&format!("\nin {place} · by {by}"));
        if let Some(until) = grant.until {
            reply.text.push(&format!(" · until {}", wording::date_time(until)));
        }
        let label = format!("✕ {number}. {kind} {}", pattern.unwrap_or_default());
        reply.buttons.push(vec![revoke_button(shortened(&label, RULE_LABEL), grant.id)]);
    }
    if newest.len() > RULES {
        reply.text.push(&format!("\n\n… and {} more", newest.len() - RULES));
    }
    reply
}

pub fn rule_revoked(grant: &Grant) -> BotReply {
    let (kind, pattern) = describe(grant);
    let mut reply = BotReply::from(format!("Revoked: {kind}"));
    if let Some(pattern) = pattern {
        reply.text.push(" ");
        reply.text.push_formatted(TextFormat::Code, &pattern);
    }
    reply.text.push(". The agent asks again for the next call.");
    reply
}

pub fn rule_not_found() -> BotReply {
    "This rule was already revoked.".into()
}

fn describe(grant: &Grant) -> (String, Option<String>) {
    let pattern = grant.pattern.as_deref().map(|it| shortened(&visible(it), RULE_TEXT));
    (describe_rule(&shortened(&grant.tool, 60), grant.kind), pattern)
}

fn revoke_button(label: String, grant: Uuid) -> BotButton {
    BotButton { label, data: format!("g:{}", grant.simple()) }
}
