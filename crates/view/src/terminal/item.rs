//! The items of a conversation as lines for a terminal, with similar calls grouped, and the status
//! line of a live session.

use super::call::call;
use super::markdown::markdown;
use super::{StyledLine, TerminalOptions};
use crate::ansi::{self, TextStyle};
use crate::card::{CALL_GROUP, groupable, relative_path};
use crate::conversation::Turn;
use crate::item::{Item, ItemBody, NoticeLevel, PromptAuthor, PromptItem, RawReason};
use crate::status::{ConversationStatus, SessionPhase};
use crate::tool_text::indented_json;
use crate::wording::{self, SystemMessage};

const SOFT: TextStyle = TextStyle::PLAIN.dim();
const PROMPT: TextStyle = TextStyle::PLAIN.in_colour(6).bold();

/// Lines of thinking that are shown unless everything is.
const THINKING_LINES: usize = 3;

/// Lines of an unknown event that are shown unless everything is.
const RAW_LINES: usize = 3;

fn inner_width(options: TerminalOptions<'_>) -> usize {
    options.width.saturating_sub(2)
}

/// A call without its result, to be shown before the items of its sub-agent.
pub fn call_head(item: &Item, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    match &item.body {
        ItemBody::Call(call) => {
            within_agent(item, options, |options| super::call::head(call, options))
        }
        _ => self::item(item, options),
    }
}

/// The result of a call; empty for other items.
pub fn call_result(item: &Item, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    match &item.body {
        ItemBody::Call(call) => {
            within_agent(item, options, |options| super::call::result(call, options))
        }
        _ => Vec::new(),
    }
}

/// An item; empty for housekeeping unless everything is shown.
pub fn item(item: &Item, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    within_agent(item, options, |inside| match &item.body {
        ItemBody::Prompt(prompt) => self::prompt(prompt, inside),
        ItemBody::Text { text } => markdown(text, inside),
        ItemBody::Thinking { text, tokens } => thinking(text, *tokens, inside),
        ItemBody::Call(it) => call(it, inside),
        body => {
            SystemMessage::of(body).map(|it| system_message(&it, body, inside)).unwrap_or_default()
        }
    })
}

/// Adds a margin to the lines of a sub-agent's item.
fn within_agent(
    item: &Item,
    options: TerminalOptions<'_>,
    lines: impl FnOnce(TerminalOptions<'_>) -> Vec<StyledLine>,
) -> Vec<StyledLine> {
    if item.parent.is_none() {
        return lines(options);
    }
    let lines = lines(options.indented(2));
    let margin = StyledLine::of(TextStyle::PLAIN.in_colour(5).dim(), "┆ ");
    lines
        .iter()
        .map(|line| {
            let mut indented = margin.clone();
            indented.append(line);
            indented
        })
        .collect()
}

fn prompt(prompt: &PromptItem, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let (sign, style, limit) = match prompt.author {
        PromptAuthor::User => ("❯ ", PROMPT, usize::MAX),
        PromptAuthor::Cli | PromptAuthor::Agent if options.full => ("⋯ ", SOFT, usize::MAX),
        PromptAuthor::Cli | PromptAuthor::Agent => ("⋯ ", SOFT, 1),
    };
    let text_style =
        if prompt.author == PromptAuthor::User { TextStyle::PLAIN.bold() } else { SOFT };
    let text = prompt.text.trim_end();
    let mut lines = Vec::new();
    for line in text.lines().take(limit) {
        for part in StyledLine::of(text_style, line).wrapped(options.width.saturating_sub(2)) {
            let mut whole = StyledLine::of(style, if lines.is_empty() { sign } else { "  " });
            whole.append(&part);
            lines.push(whole);
        }
    }
    if prompt.images > 0 {
        let images = wording::plural(prompt.images, "image", "images");
        lines.push(StyledLine::of(SOFT, &format!("  [{images}]")));
    }
    lines
}

fn thinking(text: &str, tokens: Option<u64>, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let tokens =
        tokens.map(|it| format!(", about {} tokens", wording::count(it))).unwrap_or_default();
    let text = text.trim();
    if text.is_empty() {
        return vec![StyledLine::of(SOFT.italic(), &format!("✻ Thought{tokens}"))];
    }
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        for part in StyledLine::of(SOFT.italic(), line).wrapped(options.width.saturating_sub(2)) {
            let mut whole = StyledLine::of(SOFT, if lines.is_empty() { "✻ " } else { "  " });
            whole.append(&part);
            lines.push(whole);
        }
        if !options.full && lines.len() > THINKING_LINES {
            lines.truncate(THINKING_LINES);
            lines.push(StyledLine::of(SOFT, "  …"));
            break;
        }
    }
    lines
}

fn system_message(
    message: &SystemMessage,
    body: &ItemBody,
    options: TerminalOptions<'_>,
) -> Vec<StyledLine> {
    if !options.full && SystemMessage::is_housekeeping(body) {
        return Vec::new();
    }
    let (sign, style) = match message.level {
        NoticeLevel::Info => ("· ", SOFT),
        NoticeLevel::Warning => ("! ", TextStyle::PLAIN.in_colour(3)),
        NoticeLevel::Error => ("✘ ", TextStyle::PLAIN.in_colour(1)),
    };
    let mut lines = Vec::new();
    // Output that is not an event is shown unchanged, without a heading.
    let noise = matches!(body, ItemBody::Raw(raw) if raw.reason == RawReason::Noise);
    if noise {
        return printed(&message.details, options, TextStyle::PLAIN);
    }
    for spans in ansi::lines(message.text.trim_end()) {
        let mut line = StyledLine::default();
        for span in spans {
            line.push(if span.style == TextStyle::PLAIN { style } else { span.style }, &span.text);
        }
        for part in line.wrapped(options.width.saturating_sub(2)) {
            let mut whole = StyledLine::of(style, if lines.is_empty() { sign } else { "  " });
            whole.append(&part);
            lines.push(whole);
        }
    }
    if !options.full && matches!(body, ItemBody::Raw(_)) {
        let shown = StyledLine::of(SOFT, message.details.trim()).hard_wrapped(inner_width(options));
        let hidden = shown.len() > RAW_LINES;
        for line in shown.into_iter().take(RAW_LINES) {
            let mut indented = StyledLine::of(SOFT, "  ");
            indented.append(&line);
            lines.push(indented);
        }
        if hidden {
            lines.push(StyledLine::of(SOFT, "  …"));
        }
    }
    if options.full && !message.details.trim().is_empty() {
        let details = if matches!(body, ItemBody::Raw(_)) {
            indented_json(&message.details)
        } else {
            message.details.clone()
        };
        lines.extend(printed(&details, options.indented(2), SOFT).iter().map(|line| {
            let mut indented = StyledLine::of(SOFT, "  ");
            indented.append(line);
            indented
        }));
    }
    lines
}

fn printed(text: &str, options: TerminalOptions<'_>, plain: TextStyle) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    for spans in ansi::lines(text.trim_end()) {
        let mut line = StyledLine::default();
        for span in spans {
            line.push(if span.style == TextStyle::PLAIN { plain } else { span.style }, &span.text);
        }
        lines.extend(line.hard_wrapped(options.width));
    }
    lines
}

/// The last line of a turn: its duration, usage and changed files.
pub fn turn_end(turn: &Turn, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let Some(end) = &turn.end else { return Vec::new() };
    let failure = wording::turn_ending(end);
    let mut line = match &failure {
        Some(failure) => {
            StyledLine::of(TextStyle::PLAIN.in_colour(1).bold(), &format!("✘ {failure}"))
        }
        None => StyledLine::of(TextStyle::PLAIN.in_colour(2), "✔"),
    };
    let mut parts = wording::turn_totals(turn, end);
    if !turn.files.is_empty() {
        parts.push(wording::plural(turn.files.len(), "file changed", "files changed"));
    }
    if parts.is_empty() && failure.is_none() {
        return Vec::new();
    }
    let separator = if failure.is_some() { " · " } else { " " };
    if !parts.is_empty() {
        line.push(SOFT, &format!("{separator}{}", parts.join(" · ")));
    }
    line.wrapped(options.width)
}

/// Items in order, with a blank line between them except between calls.
pub fn items(all: &[&Item], options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = Vec::new();
    let mut at = 0;
    let mut before: Option<&Item> = None;
    while at < all.len() {
        let length = group_length(&all[at..]);
        let (new, taken) = match call_group_line(&all[at..at + length], options) {
            Some(line) => (vec![line], length),
            None => (item(all[at], options), 1),
        };
        let last = all[at];
        at += taken;
        if new.is_empty() {
            continue;
        }
        if before.is_some_and(|before| is_apart(before, last)) {
            lines.push(StyledLine::default());
        }
        lines.extend(new);
        before = Some(last);
    }
    lines
}

/// Whether a blank line belongs between two items.
fn is_apart(before: &Item, after: &Item) -> bool {
    let is_call = |item: &Item| matches!(item.body, ItemBody::Call(_) | ItemBody::Hook(_));
    !(is_call(before) && is_call(after))
}

/// The one line for a group of similar calls; `None` if there are too few of them.
pub fn call_group_line(run: &[&Item], options: TerminalOptions<'_>) -> Option<StyledLine> {
    if options.full || run.len() < CALL_GROUP || group_length(run) < run.len() {
        return None;
    }
    let calls: Vec<_> = run.iter().filter_map(|item| groupable(item)).collect();
    let first = calls.first()?;
    let names: Vec<_> = calls
        .iter()
        .map(|call| {
            let path = relative_path(&call.target, options.base);
            path.rsplit('/').next().unwrap_or(path)
        })
        .collect();
    let mut line = StyledLine::default();
    if run.first().is_some_and(|item| item.parent.is_some()) {
        line.push(TextStyle::PLAIN.in_colour(5).dim(), "┆ ");
    }
    line.push(TextStyle::PLAIN.in_colour(2), "✔ ");
    line.push(
        TextStyle::PLAIN.in_colour(6).bold(),
        &format!("{} × {}", first.action.label(), calls.len()),
    );
    line.push(TextStyle::PLAIN.dim(), &format!(" {}", names.join(", ")));
    Some(line.cut(options.width))
}

/// Whether the items are similar calls that may be shown as one line, if there are enough of them.
pub fn is_call_group(items: &[&Item]) -> bool {
    items.first().is_some_and(|first| groupable(first).is_some())
        && group_length(items) == items.len()
}

/// How many of the first items can be shown as one group: the same action by the same agent.
fn group_length(items: &[&Item]) -> usize {
    let Some(first) = items.first() else { return 0 };
    let Some(action) = groupable(first).map(|call| call.action) else { return 1 };
    items
        .iter()
        .take_while(|item| {
            item.parent == first.parent && groupable(item).is_some_and(|call| call.action == action)
        })
        .count()
}

/// What the session is doing. `now` is the time in milliseconds since 1970, if the line shows how
/// long it takes.
pub fn status(
    status: &ConversationStatus,
    now: Option<u64>,
    options: TerminalOptions<'_>,
) -> StyledLine {
    let style = TextStyle::PLAIN.dim();
    let mut line = StyledLine::default();
    let text = match &status.phase {
        SessionPhase::Idle => "Idle".to_owned(),
        SessionPhase::Starting => "Starting".to_owned(),
        SessionPhase::Working => "Working".to_owned(),
        SessionPhase::Thinking { tokens: Some(tokens) } => {
            format!("Thinking, {} tokens", wording::count(*tokens))
        }
        SessionPhase::Thinking { tokens: None } => "Thinking".to_owned(),
        SessionPhase::Writing => "Writing".to_owned(),
        SessionPhase::Running { tool, target, others, .. } => {
            let others = if *others > 0 { format!(" and {others} more") } else { String::new() };
            format!("Running {tool} {}{others}", relative_path(target, options.base))
        }
        SessionPhase::Waiting { requests } => {
            line.push(TextStyle::PLAIN.in_colour(3).bold(), "Waiting for you");
            if *requests > 1 { format!(", {requests} requests") } else { String::new() }
        }
        SessionPhase::Retrying { attempt, max_attempts, delay_ms } => {
            let which = match (attempt, max_attempts) {
                (Some(attempt), Some(max)) => format!(" {attempt} of {max}"),
                (Some(attempt), None) => format!(" {attempt}"),
                _ => String::new(),
            };
            let left = delay_ms.map(|delay| {
                let passed =
                    now.zip(status.since).map_or(0, |(now, since)| now.saturating_sub(since));
                format!(" in {}", wording::duration(delay.saturating_sub(passed)))
            });
            format!("Retrying{which}{}", left.unwrap_or_default())
        }
        SessionPhase::Compacting => "Compacting the conversation".to_owned(),
        SessionPhase::Interrupting => "Interrupting".to_owned(),
        SessionPhase::Stalled { seconds } => {
            format!("No output for {}", wording::duration(seconds * 1000))
        }
        SessionPhase::Stopped { cause } => wording::stop_cause(cause),
    };
    line.push(style, &text);
    let since = status.turn_since.or(status.since);
    if status.phase.is_busy()
        && let Some(passed) = now.zip(since).map(|(now, since)| now.saturating_sub(since))
        && passed >= 1000
    {
        line.push(style, &format!(" · {}", wording::duration(passed / 1000 * 1000)));
    }
    line.cut(options.width)
}
