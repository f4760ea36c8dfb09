//! An item of a conversation as lines for a terminal.

use super::call::call;
use super::wrap::{broken, wrapped};
use super::{Line, Look, prose};
use crate::ansi::{self, Style};
use crate::item::{Body, Item, Level};
use crate::prompt::{Prompt, Speaker};
use crate::remark::Remark;
use crate::turn::Turn;
use crate::{phrase, reindent};

const SOFT: Style = Style::PLAIN.dim();
const PROMPT: Style = Style::PLAIN.in_colour(6).bold();

/// Lines of thoughts and of told texts that are shown where not everything is.
const BRIEF: usize = 3;

/// The lines of a call up to what came of it, to be shown before what its sub-agent did.
pub fn call_head(item: &Item, look: Look<'_>) -> Vec<Line> {
    match &item.body {
        Body::Call(call) => within_agent(item, look, |look| super::call::head(call, look)),
        _ => self::item(item, look),
    }
}

/// The lines of what came of a call; none for what is no call.
pub fn call_result(item: &Item, look: Look<'_>) -> Vec<Line> {
    match &item.body {
        Body::Call(call) => within_agent(item, look, |look| super::call::report(call, look)),
        _ => Vec::new(),
    }
}

/// The lines of an item; none for what is only shown to who asks for everything.
pub fn item(item: &Item, look: Look<'_>) -> Vec<Line> {
    within_agent(item, look, |inside| match &item.body {
        Body::Prompt(prompt) => self::prompt(prompt, inside),
        Body::Text { text } => prose(text, inside),
        Body::Thinking { text, tokens } => thinking(text, *tokens, inside),
        Body::Call(it) => call(it, inside),
        body => Remark::of(body).map(|it| remark(&it, body, inside)).unwrap_or_default(),
    })
}

/// The lines of an item, behind a margin where it is a sub-agent's.
fn within_agent(
    item: &Item,
    look: Look<'_>,
    lines: impl FnOnce(Look<'_>) -> Vec<Line>,
) -> Vec<Line> {
    if item.parent.is_none() {
        return lines(look);
    }
    let lines = lines(look.within(2));
    let margin = Line::of(Style::PLAIN.in_colour(5).dim(), "┆ ");
    lines
        .iter()
        .map(|line| {
            let mut indented = margin.clone();
            indented.append(line);
            indented
        })
        .collect()
}

fn prompt(prompt: &Prompt, look: Look<'_>) -> Vec<Line> {
    let (sign, style, limit) = match prompt.speaker {
        Speaker::Person => ("❯ ", PROMPT, usize::MAX),
        Speaker::Program | Speaker::Agent if look.full => ("⋯ ", SOFT, usize::MAX),
        Speaker::Program | Speaker::Agent => ("⋯ ", SOFT, 1),
    };
    let words = if prompt.speaker == Speaker::Person { Style::PLAIN.bold() } else { SOFT };
    let text = prompt.text.trim_end();
    let mut lines = Vec::new();
    for line in text.lines().take(limit) {
        for part in wrapped(&Line::of(words, line), look.width.saturating_sub(2)) {
            let mut whole = Line::of(style, if lines.is_empty() { sign } else { "  " });
            whole.append(&part);
            lines.push(whole);
        }
    }
    if prompt.images > 0 {
        let pictures = phrase::several(prompt.images, "picture", "pictures");
        lines.push(Line::of(SOFT, &format!("  [{pictures}]")));
    }
    lines
}

fn thinking(text: &str, tokens: Option<u64>, look: Look<'_>) -> Vec<Line> {
    let tokens =
        tokens.map(|it| format!(", about {} tokens", phrase::count(it))).unwrap_or_default();
    let text = text.trim();
    if text.is_empty() {
        return vec![Line::of(SOFT.italic(), &format!("✻ Thought{tokens}"))];
    }
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        for part in wrapped(&Line::of(SOFT.italic(), line), look.width.saturating_sub(2)) {
            let mut whole = Line::of(SOFT, if lines.is_empty() { "✻ " } else { "  " });
            whole.append(&part);
            lines.push(whole);
        }
        if !look.full && lines.len() > BRIEF {
            lines.truncate(BRIEF);
            lines.push(Line::of(SOFT, "  …"));
            break;
        }
    }
    lines
}

fn remark(remark: &Remark, body: &Body, look: Look<'_>) -> Vec<Line> {
    if !look.full && Remark::is_housekeeping(body) {
        return Vec::new();
    }
    let (sign, style) = match remark.level {
        Level::Info => ("· ", SOFT),
        Level::Warning => ("! ", Style::PLAIN.in_colour(3)),
        Level::Error => ("✘ ", Style::PLAIN.in_colour(1)),
    };
    let mut lines = Vec::new();
    // What is no event is text somebody printed; it is shown as it is, without a heading.
    let noise = matches!(body, Body::Raw(raw) if raw.reason == crate::RawReason::Noise);
    if noise {
        return printed(&remark.more, look, Style::PLAIN);
    }
    for spans in ansi::lines(remark.text.trim_end()) {
        let mut line = Line::default();
        for span in spans {
            line.push(if span.style == Style::PLAIN { style } else { span.style }, &span.text);
        }
        for part in wrapped(&line, look.width.saturating_sub(2)) {
            let mut whole = Line::of(style, if lines.is_empty() { sign } else { "  " });
            whole.append(&part);
            lines.push(whole);
        }
    }
    if look.full && !remark.more.trim().is_empty() {
        let more = if matches!(body, Body::Raw(_)) {
            reindent::reindented(&remark.more)
        } else {
            remark.more.clone()
        };
        lines.extend(printed(&more, look.within(2), SOFT).iter().map(|line| {
            let mut indented = Line::of(SOFT, "  ");
            indented.append(line);
            indented
        }));
    }
    lines
}

fn printed(text: &str, look: Look<'_>, plain: Style) -> Vec<Line> {
    let mut lines = Vec::new();
    for spans in ansi::lines(text.trim_end()) {
        let mut line = Line::default();
        for span in spans {
            line.push(if span.style == Style::PLAIN { plain } else { span.style }, &span.text);
        }
        lines.extend(broken(&line, look.width));
    }
    lines
}

/// The lines that end a turn: how long it took, what it used, what it changed.
pub fn turn_end(turn: &Turn, look: Look<'_>) -> Vec<Line> {
    let Some(end) = &turn.end else { return Vec::new() };
    let failure = phrase::ending(end);
    let mut line = match &failure {
        Some(failure) => Line::of(Style::PLAIN.in_colour(1).bold(), &format!("✘ {failure}")),
        None => Line::of(Style::PLAIN.in_colour(2), "✔"),
    };
    let mut parts = phrase::account(turn, end);
    if !turn.files.is_empty() {
        parts.push(phrase::several(turn.files.len(), "file changed", "files changed"));
    }
    if parts.is_empty() && failure.is_none() {
        return Vec::new();
    }
    let separator = if failure.is_some() { " · " } else { " " };
    if !parts.is_empty() {
        line.push(SOFT, &format!("{separator}{}", parts.join(" · ")));
    }
    wrapped(&line, look.width)
}
