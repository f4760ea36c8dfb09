//! Cards: requests of the agent as messages with buttons, and their outcome.
//!
//! [`wire::consent`] decides what a user must have seen before a request can be allowed, and which
//! rules *Always* offers. A card shows all of it. If it is too long for a card, the card has no
//! *Allow* but *Show all*, which sends the full text in messages of its own. Only then does the card
//! come back, below them, with the buttons that allow the request. A rule is offered only if its text
//! fits on the card.

use session::GrantScope;
use uuid::Uuid;
use view::diff::{Diff, DiffLine};
use view::telegram::{FormattedText, LIMIT, TextFormat};
use view::{CallPermission, ItemBody, Question, Request, ToolInput, wording};
use wire::consent::{self, Disclosure, PLAN_APPROVAL_MODES, Rule};
use wire::note::{Actor, Outcome, RequestKind};
use wire::outgoing::PermissionMode;

use super::Chat;
use super::tap::ButtonKey;
use super::text::{client_name, push_line, shortened_to, units, visible};
use crate::bot::{BotCall, BotKeyboard, MessageText};
use crate::checkpoint::{CardState, ReplyPurpose};

/// The lines and UTF-16 units that a card shows of a command, an input or a change.
const CARD_LINES: usize = 40;
const CARD_UNITS: usize = 2_500;

/// The lines and characters that a card shows of a text that is too long for it.
const EXCERPT_LINES: usize = 15;
const EXCERPT_CHARACTERS: usize = 600;

/// A longer text is sent as a file instead of messages.
const DISCLOSURE_MESSAGES: usize = 5;

/// The characters of a card's title, and of texts that the agent's model or program wrote about it.
const TITLE: usize = 120;
const REMARK: usize = 200;

/// Options of a question that get a button. *Other* accepts any answer.
const CHOICES: usize = 20;

/// Characters of a button's label.
const LABEL: usize = 48;

/// The namespace of the hashes of what was shown.
const DISCLOSURES: Uuid = Uuid::from_u128(0x3c0a_77f1_95d2_4e86_b1aa_62d9_0c4e_8f35);

const SHOW_ALL: &str = "This is too long for one message. Tap “Show all” to read all of it; \
                        after that you can allow it.";

const SHOWN_ABOVE: &str = "Shown in full above.";

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
            RequestKind::Plan => self.plan_card(request, state, &key),
            RequestKind::Question => question_card(request, state, &key),
        }
    }

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

    /// The rules that *Always* offers, with their numbers: those whose text fits on the card.
    pub(super) fn offered_rules<'r>(&self, request: &'r Request) -> Vec<(usize, &'r Rule)> {
        let text =
            self.permission_text(request, &self.required(request), &FormattedText::default());
        let mut left =
            LIMIT.saturating_sub(units(text.plain_text()) + units(ALWAYS) + units(SHOW_ALL));
        let mut offered = Vec::new();
        for (number, rule) in request.rules.iter().enumerate() {
            let length = units(&rule_line(number, rule));
            if length <= left {
                left -= length;
                offered.push((number, rule));
            }
        }
        offered
    }

    /// What must be shown before a request can be allowed.
    fn required(&self, request: &Request) -> Vec<Disclosure> {
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
        request.disclosures()
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
        let deny = vec![key.button("Deny", "n"), key.button("Deny with reason", "w")];
        if !fits && state.disclosed != Some(hash(&required)) {
            push_line(&mut text, TextFormat::Italic, SHOW_ALL);
            return MessageContent::new(&text, vec![vec![key.button("Show all", "s")], deny]);
        }
        if !fits {
            push_line(&mut text, TextFormat::Italic, SHOWN_ABOVE);
        }
        if request.kind == RequestKind::Unknown {
            return MessageContent::new(&text, vec![deny]);
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
        let mut allow = vec![key.button("Allow", "y")];
        if !rules.is_empty() {
            allow.push(key.button("Always…", "a"));
        }
        MessageContent::new(&text, vec![allow, deny])
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
        let remark = |text: &str| shortened_to(text.trim(), REMARK);
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
            push_line(&mut text, TextFormat::Italic, &remark(&format!("Asks because of {path}")));
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
        Some(shortened_to(&target, TITLE)).filter(|target| !target.is_empty())
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

/// The message that asks the user for a text.
pub(super) fn text_question(
    request: &Request,
    state: &CardState,
    purpose: ReplyPurpose,
) -> FormattedText {
    let mut text = FormattedText::default();
    let question = current_question(request, state).map(|(_, question)| question);
    match (purpose, question) {
        (ReplyPurpose::Answer, Some(question)) => {
            text.push_formatted(TextFormat::Bold, &shortened_to(&question.text, 1_000));
            text.push("\nReply to this message with your answer.");
        }
        (ReplyPurpose::Reason, _) if request.kind == RequestKind::Plan => {
            text.push("Reply to this message with the changes you want.");
        }
        _ => text.push(
            "Reply to this message with the reason, or with what the agent should do instead.",
        ),
    }
    text
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

/// Whether a card has room for everything that must be shown.
fn fits_on_card(required: &[Disclosure]) -> bool {
    let mut text = FormattedText::default();
    push_disclosures(&mut text, required);
    units(text.plain_text()) <= CARD_UNITS && text.plain_text().lines().count() <= CARD_LINES
}

fn hash(required: &[Disclosure]) -> Uuid {
    let text: Vec<_> = required.iter().flat_map(|it| [it.label.as_str(), &it.text]).collect();
    Uuid::new_v5(&DISCLOSURES, text.join("\0").as_bytes())
}

fn push_disclosures(text: &mut FormattedText, required: &[Disclosure]) {
    for disclosure in required {
        push_disclosure(text, &disclosure.label, &visible(&disclosure.text), required.len() > 1);
    }
}

/// The beginning of everything that must be shown, marked as shortened.
fn push_excerpts(text: &mut FormattedText, required: &[Disclosure]) {
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
    match by.via.as_str() {
        "rule" => format!(" by a rule of {}", by.name),
        via => format!(" by {} {}", by.name, client_name(via)),
    }
}

/// The questions of a request; none if they cannot be read.
pub(super) fn questions(request: &Request) -> Vec<Question> {
    match request.call().tool_input() {
        ToolInput::Questions(questions) => questions,
        _ => Vec::new(),
    }
}

/// The next question to be answered and its index.
pub(super) fn current_question(request: &Request, state: &CardState) -> Option<(usize, Question)> {
    let index = state.answers.len();
    questions(request).into_iter().nth(index).map(|question| (index, question))
}

/// The card of a request with up to four questions: the next question, below the answers so far.
fn question_card(request: &Request, state: &CardState, key: &ButtonKey) -> MessageContent {
    let mut text = FormattedText::default();
    for (question, answer) in &state.answers {
        text.push("✔ ");
        text.push_formatted(TextFormat::Italic, &shortened_to(question, 200));
        text.push(&format!(" {}\n", shortened_to(answer, 200)));
    }
    let skip = key.button("Skip", "n");
    let Some((index, question)) = current_question(request, state) else {
        text.push("❓ The agent asks a question that cannot be shown here.");
        return MessageContent::new(&text, vec![vec![skip]]);
    };
    let count = questions(request).len();
    text.push("❓ ");
    if count > 1 {
        text.push(&format!("{} of {count} · ", index + 1));
    }
    text.push_formatted(TextFormat::Bold, &shortened_to(&question.text, 1_000));
    let mut buttons = BotKeyboard::new();
    for (number, choice) in question.options.iter().take(CHOICES).enumerate() {
        text.push(&format!("\n{}. {}", number + 1, shortened_to(&choice.label, 100)));
        if !choice.description.is_empty() {
            text.push(" – ");
            text.push_formatted(TextFormat::Italic, &shortened_to(&choice.description, 150));
        }
        let mark = match (question.multiple, state.selected.contains(&number)) {
            (false, _) => format!("{}. ", number + 1),
            (true, false) => "☐ ".to_owned(),
            (true, true) => "☑ ".to_owned(),
        };
        let label = format!("{mark}{}", shortened_to(&choice.label, LABEL));
        buttons.push(vec![key.button(&label, &format!("q{index}.{number}"))]);
    }
    let mut last = vec![key.button("Other…", &format!("q{index}.o")), skip];
    if question.multiple {
        last.insert(0, key.button("Done", &format!("q{index}.f")));
    }
    buttons.push(last);
    MessageContent::new(&text, buttons)
}

/// The selected options as one answer.
pub(super) fn selected_options(question: &Question, state: &CardState) -> String {
    let options = question.options.iter().enumerate();
    let selected = options.filter(|(number, _)| state.selected.contains(number));
    let labels: Vec<_> = selected.map(|(_, choice)| choice.label.as_str()).collect();
    labels.join(", ")
}
