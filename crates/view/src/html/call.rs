//! A tool call as HTML: a card with a one-line summary that expands.
//!
//! Successful calls are collapsed; failed ones, and short diffs, are expanded.

use std::fmt::Write as _;

use super::item::{HtmlOptions, open_item};
use super::markdown::markdown;
use super::page::action_class;
use super::text::{code_block, coloured, diff, escape, terminal_text};
use crate::call::{Call, CallState};
use crate::card::Card;
use crate::conversation::{Todo, TodoState};
use crate::diff::Diff;
use crate::item::Item;
use crate::tool::{Question, ToolAction, ToolInput};
use crate::tool_text::{indented_json, readable_result, without_line_numbers};
use crate::wording;

/// Output is cut to this many lines unless everything is shown.
const OUTPUT_LINES: usize = 120;

/// Diffs of up to this many lines are expanded.
const SHORT_DIFF: usize = 60;

/// Appends a card; `children` is the HTML of the items of its sub-agent.
pub(super) fn call(
    item: &Item,
    call: &Call,
    options: HtmlOptions<'_>,
    children: &str,
    out: &mut String,
) {
    let card = Card::of(call, options.base);
    let change = Diff::of(call);
    open_item(
        item,
        &format!("call {} {}", action_class(call.action), state_class(call.state)),
        out,
    );
    out.push_str(if is_open(call, change.as_ref(), options) {
        "<details open>"
    } else {
        "<details>"
    });
    out.push_str("<summary><span class=\"icon\">");
    out.push_str(card.icon);
    out.push_str("</span><span class=\"verb\">");
    escape(&card.label, out);
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
    } else if !card.detail.is_empty() {
        out.push_str("<span class=\"took\">");
        escape(&card.detail, out);
        out.push_str("</span>");
    }
    if let Some(duration) = &card.duration {
        let _ = write!(out, "<span class=\"took\">{duration}</span>");
    }
    let _ = write!(
        out,
        "<span class=\"mark\">{}</span></summary><div class=\"body\">",
        card.state_icon
    );
    permission(call, out);
    body(call, change.as_ref(), options, out);
    if !children.is_empty() {
        out.push_str("<div class=\"children\">");
        out.push_str(children);
        out.push_str("</div>");
    }
    result(call, options, out);
    out.push_str("</div></details></div>\n");
}

fn is_open(call: &Call, change: Option<&Diff>, options: HtmlOptions<'_>) -> bool {
    options.full
        || matches!(call.state, CallState::Failed | CallState::Denied | CallState::Waiting)
        || matches!(call.action, ToolAction::Ask | ToolAction::Plan)
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

/// The outcome of the permission request.
fn permission(call: &Call, out: &mut String) {
    let Some(permission) = &call.permission else { return };
    out.push_str("<p class=\"remark\">");
    out.push_str(wording::permission_outcome(permission.outcome));
    if let Some(by) = &permission.by {
        out.push_str(" by ");
        escape(&by.name, out);
        if let Some(device) = by.device() {
            out.push_str(", on ");
            escape(device, out);
        }
    }
    let result = call.result.as_ref().map_or("", |result| result.text.as_str());
    if let Some(message) = permission.message.as_ref().filter(|it| !result.contains(it.as_str())) {
        out.push_str(": ");
        escape(message, out);
    }
    if let Some(choice) = &permission.choice {
        out.push_str(": ");
        escape(choice, out);
    }
    out.push_str("</p>");
}

/// The tool's input.
fn body(call: &Call, change: Option<&Diff>, options: HtmlOptions<'_>, out: &mut String) {
    if let Some(change) = change {
        diff(change, out);
        return;
    }
    match call.tool_input() {
        ToolInput::Read { .. } | ToolInput::Search { .. } | ToolInput::Web { .. } => {}
        ToolInput::Write { path, content } => code(&content, &path, options, out),
        ToolInput::Edit { replacements, .. } => {
            for replacement in replacements {
                diff(&Diff::between(&replacement.before, &replacement.after), out);
            }
        }
        ToolInput::Shell { command, description, .. } => {
            if let Some(description) = description {
                out.push_str("<p class=\"remark\">");
                escape(&description, out);
                out.push_str("</p>");
            }
            out.push_str("<pre class=\"command\"><code>");
            coloured(&command, "bash", out);
            out.push_str("</code></pre>");
        }
        ToolInput::Agent { prompt, .. } => {
            out.push_str("<details class=\"part\"><summary>Task</summary><div class=\"words\">");
            out.push_str(&markdown(&prompt));
            out.push_str("</div></details>");
        }
        ToolInput::Todos(list) => todos(&list, out),
        ToolInput::Questions(questions) => {
            let answers =
                call.permission.as_ref().map(|it| it.answers.as_slice()).unwrap_or_default();
            for one in &questions {
                question(one, answers, out);
            }
        }
        ToolInput::Plan(plan) => {
            out.push_str("<div class=\"words\">");
            out.push_str(&markdown(&plan));
            out.push_str("</div>");
        }
        ToolInput::Other(input) => {
            if let Some((path, source)) = notebook_cell(call) {
                code(&source, &path, options, out);
            } else if !matches!(input.trim(), "" | "{}") {
                code(&indented_json(input), ".json", options, out);
            }
        }
    }
}

/// The language and text of the cell that `NotebookEdit` writes. Its input does not have the old text.
fn notebook_cell(call: &Call) -> Option<(String, String)> {
    #[derive(serde::Deserialize)]
    struct NotebookCell {
        new_source: String,
        #[serde(default)]
        cell_type: Option<String>,
    }
    if call.tool != "NotebookEdit" {
        return None;
    }
    let written: NotebookCell = serde_json::from_str(&call.input).ok()?;
    let language = if written.cell_type.as_deref() == Some("markdown") { "a.md" } else { "a.py" };
    Some((language.to_owned(), written.new_source))
}

fn result(call: &Call, options: HtmlOptions<'_>, out: &mut String) {
    let Some(result) = &call.result else { return };
    let quiet = call.state == CallState::Done
        && match call.action {
            ToolAction::Edit | ToolAction::Write | ToolAction::Track | ToolAction::Plan => true,
            // The answers are shown with the questions, if they are known.
            ToolAction::Ask => call.permission.as_ref().is_some_and(|it| !it.answers.is_empty()),
            _ => false,
        };
    let text = if options.full { &result.text } else { readable_result(&result.text) };
    if !text.trim().is_empty() && (options.full || !quiet) {
        result_text(call, text, options, out);
    }
    if result.omitted_bytes > 0 {
        let size = wording::size(result.omitted_bytes);
        let _ = write!(out, "<p class=\"remark\">Truncated: {size} more</p>");
    }
    for image in &result.images {
        out.push_str("<span class=\"chip\">🖼 ");
        escape(&image.media_type, out);
        let _ = write!(out, ", {}</span>", wording::size(image.bytes));
    }
}

fn result_text(call: &Call, text: &str, options: HtmlOptions<'_>, out: &mut String) {
    if call.state == CallState::Done {
        match call.tool_input() {
            ToolInput::Agent { .. } | ToolInput::Web { .. } => {
                out.push_str("<div class=\"words\">");
                out.push_str(&markdown(text));
                out.push_str("</div>");
                return;
            }
            ToolInput::Read { path, .. } => {
                code(&without_line_numbers(text), &path, options, out);
                return;
            }
            _ => {}
        }
    }
    let (shown, hidden) = beginning(text, options);
    out.push_str("<pre class=\"output\">");
    terminal_text(shown, out);
    out.push_str("</pre>");
    more(hidden, out);
}

fn code(text: &str, path: &str, options: HtmlOptions<'_>, out: &mut String) {
    let (shown, hidden) = beginning(text, options);
    let language = path.rsplit(['.', '/']).next().unwrap_or_default();
    code_block(shown, language, true, out);
    more(hidden, out);
}

/// The first lines of a text, and how many are left out.
fn beginning<'a>(text: &'a str, options: HtmlOptions<'_>) -> (&'a str, usize) {
    if options.full {
        return (text, 0);
    }
    match text.match_indices('\n').nth(OUTPUT_LINES - 1) {
        Some((end, _)) => (&text[..end], text[end + 1..].lines().count()),
        None => (text, 0),
    }
}

fn more(hidden: usize, out: &mut String) {
    if hidden > 0 {
        let lines = wording::plural(hidden, "more line", "more lines");
        let _ = write!(out, "<p class=\"hidden-lines\">{lines}</p>");
    }
}

/// Appends a to-do list.
fn todos(todos: &[Todo], out: &mut String) {
    out.push_str("<ul class=\"todos\">");
    for todo in todos {
        let (class, sign) = match todo.state {
            TodoState::Pending => ("pending", "☐"),
            TodoState::Doing => ("doing", "◐"),
            TodoState::Done => ("done", "☑"),
        };
        let _ = write!(out, "<li class={class}><span>{sign}</span> ");
        escape(&todo.text, out);
        out.push_str("</li>");
    }
    out.push_str("</ul>");
}

/// Appends a question, with its answer marked.
fn question(question: &Question, answers: &[(String, String)], out: &mut String) {
    out.push_str("<div class=\"question\"><p><strong>");
    escape(&question.text, out);
    out.push_str("</strong></p><ul>");
    let answer = answers.iter().find(|(text, _)| *text == question.text).map(|(_, answer)| answer);
    let mut others: Vec<_> = answer.iter().flat_map(|answer| answer.split(", ")).collect();
    for option in &question.options {
        let before = others.len();
        others.retain(|one| *one != option.label);
        let chosen = others.len() < before;
        out.push_str(if chosen { "<li class=\"chosen\">" } else { "<li>" });
        escape(&option.label, out);
        if !option.description.is_empty() {
            out.push_str(" <small>");
            escape(&option.description, out);
            out.push_str("</small>");
        }
        out.push_str("</li>");
    }
    // What the user wrote beside the options.
    if !others.is_empty() {
        out.push_str("<li class=\"chosen\">");
        escape(&others.join(", "), out);
        out.push_str("</li>");
    }
    out.push_str("</ul></div>");
}
