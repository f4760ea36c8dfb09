//! Cards: requests of the agent as messages with buttons.
//!
//! What must be shown before a request can be allowed is in [`disclosure`](super::disclosure). A card
//! shows all of it. If it is too long for a card, the card has no *Allow* but *Show all*, which sends
//! the full text in messages of its own. Only then does the card come back, below them, with the
//! buttons that allow the request. A rule is offered only if its text fits on the card.

use session::GrantScope;
use view::diff::{Diff, DiffLine};
use view::telegram::{FormattedText, LIMIT, TextFormat};
use view::{ItemBody, Request, ToolInput, wording};
use wire::acp::PermissionChoice;
use wire::consent::{self, Disclosure, PLAN_APPROVAL_MODES, Rule};
use wire::note::RequestKind;
use wire::outgoing::PermissionMode;

use super::Chat;
use super::disclosure::{
    CARD_LINES, CARD_UNITS, fits_on_card, has_long_remark, hash, push_disclosures, push_excerpts,
};
use super::tap::ButtonKey;
use super::text::{push_line, shortened_to, units, visible};
use crate::bot::{BotKeyboard, MessageText};
use crate::checkpoint::CardState;

/// The characters of a choice's name on its button, in the text of its card, and of one that may share
/// its row.
const CHOICE: usize = 40;
const LONG_CHOICE: usize = 400;
const SHORT_CHOICE: usize = 18;

/// The characters of a card's title.
const TITLE: usize = 120;

const UNKNOWN: &str = "This version of Towpath does not know this kind of request. You can only deny \
                       it, so that the agent does not wait for ever.";

pub(super) const SHOW_ALL: &str = "This is too long for one message. Tap “Show all” to read all of it; \
                        after that you can allow it.";

pub(super) const SHOWN_ABOVE: &str = "Shown in full above.";

/// The text and the buttons of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageContent {
    pub(super) text: MessageText,
    pub(super) buttons: BotKeyboard,
}

impl MessageContent {
    /// The first message of a text.
    pub(super) fn new(text: &FormattedText, buttons: BotKeyboard) -> Self {
        let first = text.messages(LIMIT).into_iter().next();
        let text = first
            .unwrap_or_else(|| MessageText { html: "…".to_owned(), plain: "…".to_owned() });
        Self { text, buttons }
    }

    /// Differs from everything that a message can show.
    pub(super) fn unknown() -> Self {
        let text = MessageText { html: String::new(), plain: String::new() };
        Self { text, buttons: BotKeyboard::new() }
    }
}

impl Chat {
    pub(super) fn card(&self, request: &Request, state: &CardState) -> MessageContent {
        let key = ButtonKey::of_request(self.checkpoint.session, &request.id);
        match request.kind {
            RequestKind::Permission | RequestKind::Unknown => {
                self.permission_card(request, state, &key)
            }
            RequestKind::Plan if !request.choices.is_empty() => {
                self.permission_card(request, state, &key)
            }
            RequestKind::Plan => self.plan_card(request, state, &key),
            RequestKind::Question => self.question_card(request, state, &key),
        }
    }

    /// The rules that *Always* offers, with their numbers: those whose text fits on the card.
    pub(super) fn offered_rules<'r>(&self, request: &'r Request) -> Vec<(usize, &'r Rule)> {
        let text =
            self.permission_text(request, &self.required(request), &FormattedText::default());
        let mut left =
            LIMIT.saturating_sub(units(text.plain_text()) + units(ALWAYS) + units(SHOW_ALL));
        let mut offered = Vec::new();
        if !request.choices.is_empty() {
            // The agent remembers by itself what its own choices say.
            return offered;
        }
        for (number, rule) in request.rules.iter().enumerate() {
            let length = units(&rule_line(number, rule));
            if length <= left {
                left -= length;
                offered.push((number, rule));
            }
        }
        offered
    }

    fn permission_card(
        &self,
        request: &Request,
        state: &CardState,
        key: &ButtonKey,
    ) -> MessageContent {
        let required = self.required(request);
        let fits = fits_on_card(&required);
        let mut text = self.permission_text(request, &required, &FormattedText::default());
        let deny = match own_choices(request, key, false) {
            Some(rows) => rows,
            None => vec![vec![key.button("Deny", "n"), key.button("Deny with reason", "w")]],
        };
        if request.kind == RequestKind::Unknown {
            push_line(&mut text, TextFormat::Italic, UNKNOWN);
            let all = vec![key.button("Show all", "s")];
            let all = Some(all).filter(|_| !fits);
            return MessageContent::new(&text, all.into_iter().chain(deny).collect());
        }
        if !fits && state.disclosed != Some(hash(&required)) {
            push_line(&mut text, TextFormat::Italic, SHOW_ALL);
            let all = vec![key.button("Show all", "s")];
            return MessageContent::new(&text, [all].into_iter().chain(deny).collect());
        }
        if !fits {
            push_line(&mut text, TextFormat::Italic, SHOWN_ABOVE);
        }
        let rules = self.offered_rules(request);
        if state.choosing_rule && !rules.is_empty() {
            text.push(ALWAYS);
            let mut buttons = BotKeyboard::new();
            for (number, rule) in &rules {
                text.push(&rule_line(*number, rule));
                for (scope, label) in [
                    (GrantScope::Session, "In this session"),
                    (GrantScope::Directory, "In all sessions in this directory"),
                ] {
                    let label = format!("{}. {label}", number + 1);
                    buttons.push(vec![key.button(&label, &rule_verb(*number, scope))]);
                }
            }
            buttons.push(vec![key.button("Back", "b")]);
            return MessageContent::new(&text, buttons);
        }
        if fits {
            let detailed = self.permission_text(request, &required, &details(request, &required));
            if units(detailed.plain_text()) <= LIMIT {
                text = detailed;
            }
        }
        if let Some(allow) = own_choices(request, key, true) {
            push_long_names(&mut text, request);
            return MessageContent::new(&text, allow.into_iter().chain(deny).collect());
        }
        let mut allow = vec![key.button("Allow", "y")];
        if !rules.is_empty() {
            allow.push(key.button("Always…", "a"));
        }
        MessageContent::new(&text, [allow].into_iter().chain(deny).collect())
    }

    fn permission_text(
        &self,
        request: &Request,
        required: &[Disclosure],
        details: &FormattedText,
    ) -> FormattedText {
        let mut text = FormattedText::default();
        text.push("🔐 ");
        text.push_formatted(TextFormat::Bold, &title(request, self.document.head.cwd.as_deref()));
        if let Some(agent) = self.subagent_of(request) {
            push_line(&mut text, TextFormat::Italic, &format!("Requested by a subagent: {agent}"));
        }
        // A long remark is among what must be shown.
        let remark =
            |text: &str| if has_long_remark(text) { String::new() } else { visible(text.trim()) };
        let description = request.description.as_deref().unwrap_or_default();
        push_line(&mut text, TextFormat::Italic, &remark(description));
        if fits_on_card(required) {
            push_disclosures(&mut text, required);
        } else {
            push_excerpts(&mut text, required);
        }
        if !details.is_empty() {
            text.push("\n");
            text.append(details);
        }
        if let Some(reason) = &request.reason {
            push_line(&mut text, TextFormat::Italic, &remark(reason));
        } else if let Some(path) = &request.blocked_path {
            let path = remark(path);
            if !path.is_empty() {
                push_line(&mut text, TextFormat::Italic, &format!("Asks because of {path}"));
            }
        }
        let timeout = request.expires.zip(request.at).map(|(end, at)| end.saturating_sub(at));
        if let Some(timeout) = timeout {
            let timeout = wording::duration(timeout);
            let line = format!("Denied if not answered within {timeout}.");
            push_line(&mut text, TextFormat::Italic, &line);
        }
        text
    }

    /// The task of the subagent that makes a request.
    fn subagent_of(&self, request: &Request) -> Option<String> {
        let parent = self.item(request.item.as_ref()?)?.parent.as_ref()?;
        let ItemBody::Call(call) = &self.item(parent)?.body else { return None };
        let target = view::Card::of(call, None).target;
        Some(shortened_to(&visible(&target), TITLE)).filter(|target| !target.is_empty())
    }

    fn plan_card(&self, request: &Request, state: &CardState, key: &ButtonKey) -> MessageContent {
        let mut text = FormattedText::default();
        text.push_formatted(TextFormat::Bold, "◫ Approve this plan?");
        let required = self.required(request);
        let fits = fits_on_card(&required);
        if fits {
            push_disclosures(&mut text, &required);
        } else {
            push_excerpts(&mut text, &required);
        }
        let deny = vec![key.button("Keep planning", "n"), key.button("Request changes", "w")];
        if !fits && state.disclosed != Some(hash(&required)) {
            push_line(&mut text, TextFormat::Italic, SHOW_ALL);
            return MessageContent::new(&text, vec![vec![key.button("Show all", "s")], deny]);
        }
        if !fits {
            push_line(&mut text, TextFormat::Italic, SHOWN_ABOVE);
        }
        let approve = PLAN_APPROVAL_MODES.into_iter().map(|mode| {
            let label = format!("Approve: {}", consent::describe_mode(mode).label);
            vec![key.button(&label, plan_verb(mode))]
        });
        let mut buttons: BotKeyboard = approve.collect();
        buttons.push(deny);
        MessageContent::new(&text, buttons)
    }
}

/// The buttons of the agent's own choices that allow a request, or that refuse it. None if it offers
/// none at all.
fn own_choices(request: &Request, key: &ButtonKey, allows: bool) -> Option<BotKeyboard> {
    if request.choices.is_empty() || request.kind == RequestKind::Unknown {
        return None;
    }
    let sign = if allows { "✔" } else { "✘" };
    let mut rows = BotKeyboard::new();
    for (number, choice) in request.choices.iter().enumerate() {
        if choice.kind.allows() != allows {
            continue;
        }
        let name = shortened_to(&visible(choice.name.trim()), CHOICE);
        let is_short = name.chars().count() <= SHORT_CHOICE;
        let button = key.button(&format!("{sign} {name}"), &choice_verb(number));
        match rows.last_mut() {
            Some(row)
                if is_short
                    && row.len() == 1
                    && row[0].label.chars().count() <= SHORT_CHOICE + 2 =>
            {
                row.push(button);
            }
            _ => rows.push(vec![button]),
        }
    }
    if !allows && rows.is_empty() {
        rows.push(vec![key.button("Deny", "n")]);
    }
    Some(rows)
}

/// Adds the names that are too long for a button, as far as there is room.
fn push_long_names(text: &mut FormattedText, request: &Request) {
    for choice in &request.choices {
        if choice.name.chars().count() > CHOICE {
            let sign = if choice.kind.allows() { "✔" } else { "✘" };
            let name = shortened_to(&visible(choice.name.trim()), LONG_CHOICE);
            if units(text.plain_text()) + units(&name) + 4 <= LIMIT {
                text.push(&format!("\n{sign} {name}"));
            }
        }
    }
}

/// The verb of the button for one of the agent's choices.
fn choice_verb(number: usize) -> String {
    format!("c{number}")
}

/// The choice that a button names.
pub(super) fn parse_choice_verb<'r>(
    request: &'r Request,
    verb: &str,
) -> Option<&'r PermissionChoice> {
    request.choices.get(verb.strip_prefix('c')?.parse::<usize>().ok()?)
}

/// A request in one line.
pub(super) fn title(request: &Request, base: Option<&str>) -> String {
    let title = match request.kind {
        RequestKind::Plan => "Plan".to_owned(),
        RequestKind::Question => format!("Question: {}", request.target),
        RequestKind::Unknown => format!("Unknown request {}", request.tool),
        RequestKind::Permission => {
            let card = view::Card::of(&request.call(), base);
            format!("{} {}", card.label, card.target)
        }
    };
    shortened_to(&visible(title.trim()), TITLE)
}

/// The verb of the button that approves a plan and continues in a mode.
pub(super) fn plan_verb(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::AcceptEdits => "pe",
        PermissionMode::Default => "pa",
        other => other.name(),
    }
}

const ALWAYS: &str = "\n\nAlways allow without asking:";

fn rule_line(number: usize, rule: &Rule) -> String {
    format!("\n{}. {}", number + 1, visible(&rule.label))
}

fn rule_verb(number: usize, scope: GrantScope) -> String {
    match scope {
        GrantScope::Session => format!("r{number}s"),
        GrantScope::Directory => format!("r{number}d"),
    }
}

pub(super) fn parse_rule_verb(verb: &str) -> Option<(usize, GrantScope)> {
    let rest = verb.strip_prefix('r')?;
    let (number, scope) = if let Some(number) = rest.strip_suffix('s') {
        (number, GrantScope::Session)
    } else {
        (rest.strip_suffix('d')?, GrantScope::Directory)
    };
    Some((number.parse().ok()?, scope))
}

/// The change that an edit would make, as far as there is room for it.
fn details(request: &Request, required: &[Disclosure]) -> FormattedText {
    let mut text = FormattedText::default();
    let call = request.call();
    let (language, details) = match call.tool_input() {
        ToolInput::Edit { .. } => {
            let diff = Diff::of(&call).unwrap_or_default();
            let lines = diff.hunks.iter().flat_map(|hunk| &hunk.lines);
            let signed = |line: &DiffLine| format!("{}{}", line.change.sign(), line.text());
            (Some("diff".to_owned()), lines.map(signed).collect::<Vec<_>>().join("\n"))
        }
        ToolInput::Write { content, .. } => (None, content),
        _ => return text,
    };
    let used: usize = required.iter().map(|it| units(&it.text)).sum();
    let shown: Vec<_> = details.lines().take(CARD_LINES).collect();
    let shown = shortened_to(&shown.join("\n"), CARD_UNITS.saturating_sub(used));
    push_line(&mut text, TextFormat::Block(language), &visible(&shown));
    let hidden = details.lines().count().saturating_sub(CARD_LINES);
    if hidden > 0 {
        let hidden = wording::plural(hidden, "more line", "more lines");
        push_line(&mut text, TextFormat::Italic, &format!("… {hidden}"));
    }
    text
}
