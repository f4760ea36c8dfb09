//! A call of a tool as HTML: a card of one line that opens.
//!
//! What went well is closed, what changed a file shows the change, what failed is open.

use std::fmt::Write as _;

use super::escape::escape;
use super::item::{Look, open};
use super::lists::{question, todos};
use super::timeline::class;
use super::{code_block, coloured, diff, prose, terminal_text};
use crate::call::{Call, CallState};
use crate::card::Card;
use crate::diff::Diff;
use crate::item::Item;
use crate::phrase;
use crate::reindent::reindented;
use crate::subject::{Subject, Verb};
use crate::told::for_a_person;

/// Lines of output that are shown where not everything is.
const LINES: usize = 120;

/// Changes of up to this many lines are shown open.
const SHORT_DIFF: usize = 60;

/// Adds a card.
pub(super) fn call(item: &Item, call: &Call, look: Look<'_>, children: &str, out: &mut String) {
    let card = Card::of(call, look.base);
    let change = Diff::of(call);
    open(item, &format!("call {} {}", class(call.verb), state_class(call.state)), out);
    out.push_str(if is_open(call, change.as_ref(), look) { "<details open>" } else { "<details>" });
    out.push_str("<summary><span class=\"icon\">");
    out.push_str(card.icon);
    out.push_str("</span><span class=\"verb\">");
    escape(&card.verb, out);
    out.push_str("</span><span class=\"target\">");
    escape(&card.target, out);
    out.push_str("</span>");
    if let Some(diff) = &change {
        out.push_str("<span class=\"delta\">");
        if diff.added > 0 {
            let _ = write!(out, "<ins>+{}</ins>", diff.added);
        }
        if diff.removed > 0 {
            let _ = write!(out, " <del>−{}</del>", diff.removed);
        }
        out.push_str("</span>");
    } else if !card.aside.is_empty() {
        out.push_str("<span class=\"took\">");
        escape(&card.aside, out);
        out.push_str("</span>");
    }
    if let Some(took) = &card.took {
        let _ = write!(out, "<span class=\"took\">{took}</span>");
    }
    let _ = write!(out, "<span class=\"mark\">{}</span></summary><div class=\"body\">", card.mark);
    permission(call, out);
    body(call, change.as_ref(), look, out);
    if !children.is_empty() {
        out.push_str("<div class=\"children\">");
        out.push_str(children);
        out.push_str("</div>");
    }
    result(call, look, out);
    out.push_str("</div></details></div>\n");
}

fn is_open(call: &Call, change: Option<&Diff>, look: Look<'_>) -> bool {
    look.full
        || matches!(call.state, CallState::Failed | CallState::Denied | CallState::Waiting)
        || matches!(call.verb, Verb::Ask | Verb::Plan)
        || call.tool == "TodoWrite"
        || change.is_some_and(|diff| diff.len() <= SHORT_DIFF)
}

fn state_class(state: CallState) -> &'static str {
    match state {
        CallState::Writing | CallState::Running => "running",
        CallState::Waiting => "waiting",
        CallState::Done => "done",
        CallState::Failed => "failed",
        CallState::Denied => "denied",
        CallState::Unanswered => "unanswered",
    }
}

/// Who was asked and what they said, where that was not simply yes.
fn permission(call: &Call, out: &mut String) {
    let Some(permission) = &call.permission else { return };
    let words = match permission.outcome {
        None => "Waits for an answer",
        Some(wire::note::Outcome::Allowed) => "Allowed",
        Some(wire::note::Outcome::AllowedAndRemembered) => "Allowed from here on",
        Some(wire::note::Outcome::Denied) => "Refused",
        Some(wire::note::Outcome::Expired) => "Refused for want of an answer",
        Some(wire::note::Outcome::Withdrawn) => "Withdrawn",
    };
    out.push_str("<p class=\"remark\">");
    out.push_str(words);
    if let Some(by) = &permission.by {
        out.push_str(" by ");
        escape(&by.name, out);
    }
    let told = call.outcome.as_ref().map_or("", |outcome| outcome.text.as_str());
    if let Some(message) = permission.message.as_ref().filter(|it| !told.contains(it.as_str())) {
        out.push_str(": ");
        escape(message, out);
    }
    out.push_str("</p>");
}

/// What the tool was given.
fn body(call: &Call, change: Option<&Diff>, look: Look<'_>, out: &mut String) {
    if let Some(change) = change {
        diff(change, out);
        return;
    }
    match call.subject() {
        Subject::Read { .. } | Subject::Search { .. } | Subject::Web { .. } => {}
        Subject::Write { path, content } => code(&content, &path, look, out),
        Subject::Edit { changes, .. } => {
            for change in changes {
                diff(&Diff::between(&change.before, &change.after), out);
            }
        }
        Subject::Shell { command, description, .. } => {
            if let Some(description) = description {
                out.push_str("<p class=\"remark\">");
                escape(&description, out);
                out.push_str("</p>");
            }
            out.push_str("<pre class=\"command\"><code>");
            coloured(&command, "bash", out);
            out.push_str("</code></pre>");
        }
        Subject::Agent { prompt, .. } => {
            out.push_str("<details class=\"part\"><summary>Task</summary><div class=\"words\">");
            out.push_str(&prose(&prompt));
            out.push_str("</div></details>");
        }
        Subject::Todos(list) => todos(&list, out),
        Subject::Questions(questions) => {
            let answers =
                call.permission.as_ref().map(|it| it.answers.as_slice()).unwrap_or_default();
            for one in &questions {
                question(one, answers, out);
            }
        }
        Subject::Plan(plan) => {
            out.push_str("<div class=\"words\">");
            out.push_str(&prose(&plan));
            out.push_str("</div>");
        }
        Subject::Other(input) => {
            if let Some((path, source)) = notebook_cell(call) {
                code(&source, &path, look, out);
            } else if !matches!(input.trim(), "" | "{}") {
                code(&reindented(input), ".json", look, out);
            }
        }
    }
}

/// The cell that `NotebookEdit` writes. What stood there before it does not say.
fn notebook_cell(call: &Call) -> Option<(String, String)> {
    #[derive(serde::Deserialize)]
    struct Cell {
        new_source: String,
        #[serde(default)]
        cell_type: Option<String>,
    }
    if call.tool != "NotebookEdit" {
        return None;
    }
    let written: Cell = serde_json::from_str(&call.input).ok()?;
    let language = if written.cell_type.as_deref() == Some("markdown") { "a.md" } else { "a.py" };
    Some((language.to_owned(), written.new_source))
}

/// What came of it.
fn result(call: &Call, look: Look<'_>, out: &mut String) {
    let Some(outcome) = &call.outcome else { return };
    let quiet = call.state == CallState::Done
        && match call.verb {
            Verb::Edit | Verb::Write | Verb::Track | Verb::Plan => true,
            // The answers stand beside the questions, where they are known.
            Verb::Ask => call.permission.as_ref().is_some_and(|it| !it.answers.is_empty()),
            _ => false,
        };
    let words = if look.full { &outcome.text } else { for_a_person(&outcome.text) };
    if !words.trim().is_empty() && (look.full || !quiet) {
        text(call, words, look, out);
    }
    if outcome.cut > 0 {
        let _ = write!(out, "<p class=\"remark\">{} more not kept</p>", phrase::size(outcome.cut));
    }
    for picture in &outcome.pictures {
        out.push_str("<span class=\"chip\">🖼 ");
        escape(&picture.media_type, out);
        let _ = write!(out, ", {}</span>", phrase::size(picture.bytes));
    }
}

fn text(call: &Call, words: &str, look: Look<'_>, out: &mut String) {
    if call.state == CallState::Done {
        match call.subject() {
            Subject::Agent { .. } | Subject::Web { .. } => {
                out.push_str("<div class=\"words\">");
                out.push_str(&prose(words));
                out.push_str("</div>");
                return;
            }
            Subject::Read { path, .. } => {
                code(&without_numbers(words), &path, look, out);
                return;
            }
            _ => {}
        }
    }
    let (shown, hidden) = beginning(words, look);
    out.push_str("<pre class=\"output\">");
    terminal_text(shown, out);
    out.push_str("</pre>");
    more(hidden, out);
}

fn code(text: &str, path: &str, look: Look<'_>, out: &mut String) {
    let (shown, hidden) = beginning(text, look);
    let language = path.rsplit(['.', '/']).next().unwrap_or_default();
    code_block(shown, language, true, out);
    more(hidden, out);
}

/// The first lines of a text, and how many there are behind them.
fn beginning<'a>(text: &'a str, look: Look<'_>) -> (&'a str, usize) {
    if look.full {
        return (text, 0);
    }
    match text.match_indices('\n').nth(LINES - 1) {
        Some((end, _)) => (&text[..end], text[end + 1..].lines().count()),
        None => (text, 0),
    }
}

fn more(hidden: usize, out: &mut String) {
    if hidden > 0 {
        let lines = phrase::several(hidden, "more line", "more lines");
        let _ = write!(out, "<p class=\"hidden-lines\">{lines}</p>");
    }
}

/// The text of a file without the line numbers that `Read` puts in front: `     1→` up to 2.1, a tab
/// behind the number later.
pub(crate) fn without_numbers(text: &str) -> String {
    let stripped = |line: &str| -> Option<usize> {
        let rest = line.trim_start_matches(' ');
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let mark =
            rest[digits..].chars().next().filter(|&c| digits > 0 && (c == '→' || c == '\t'))?;
        Some(line.len() - rest.len() + digits + mark.len_utf8())
    };
    if text.lines().next().and_then(stripped).is_none() {
        return text.to_owned();
    }
    let lines = text.split_inclusive('\n');
    lines.map(|line| stripped(line).map_or(line, |start| &line[start..])).collect()
}
