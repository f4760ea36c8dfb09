//! The items of a conversation as HTML: sub-agents inside their calls, similar calls grouped.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::call::call;
use super::markdown::{markdown, render_block};
use super::text::{coloured, escape, terminal_text};
use crate::call::Call;
use crate::card::{CALL_GROUP, groupable, relative_path};
use crate::conversation::Turn;
use crate::item::{Item, ItemBody, ItemId, NoticeLevel, PromptAuthor, PromptItem};
use crate::markdown::MarkdownStream;
use crate::tool_text::indented_json;
use crate::wording::{self, SystemMessage};

/// What is rendered.
#[derive(Clone, Copy, Debug, Default)]
pub struct HtmlOptions<'a> {
    /// The working directory; paths inside it are shown relative to it.
    pub base: Option<&'a str>,
    /// Show everything: complete output, thinking expanded, housekeeping events.
    pub full: bool,
}

/// Appends an item; `children` is the HTML of the items of its sub-agent.
pub fn item(item: &Item, options: HtmlOptions<'_>, children: &str, out: &mut String) {
    match &item.body {
        ItemBody::Prompt(prompt) => self::prompt(item, prompt, options, out),
        ItemBody::Text { text } => {
            open_item(item, "text", out);
            add_markdown(text, item.open, out);
            out.push_str("</div>\n");
        }
        ItemBody::Thinking { text, tokens } => thinking(item, text, *tokens, options, out),
        ItemBody::Call(it) => call(item, it, options, children, out),
        body => {
            if let Some(message) = SystemMessage::of(body) {
                system_message(item, &message, matches!(body, ItemBody::Raw(_)), options, out);
            }
        }
    }
}

/// Opens the element of an item. A page finds it by its id.
pub(super) fn open_item(item: &Item, class: &str, out: &mut String) {
    out.push_str("<div class=\"item ");
    out.push_str(class);
    out.push_str("\" data-item=\"");
    escape(item.id.as_str(), out);
    out.push_str("\">");
}

/// Appends Markdown; the last block of an open item is not final.
fn add_markdown(text: &str, open: bool, out: &mut String) {
    if !open {
        out.push_str(&markdown(text));
        return;
    }
    let mut stream = MarkdownStream::new();
    stream.push(text, |block| render_block(&block, out));
    render_block(&stream.open(), out);
}

fn prompt(item: &Item, prompt: &PromptItem, options: HtmlOptions<'_>, out: &mut String) {
    let label = match prompt.author {
        PromptAuthor::User => {
            open_item(item, "prompt", out);
            out.push_str("<div class=\"words\">");
            escape(prompt.text.trim_end(), out);
            images(prompt.images, out);
            out.push_str("</div>");
            if let Some(at) = item.at {
                // A link to the turn, for sharing.
                let (turn, time) = (item.turn, wording::date_time(at));
                let _ = write!(
                    out,
                    "<a class=\"when\" href=\"#t{turn}\"><time data-at=\"{at}\">{time}</time></a>"
                );
            }
            out.push_str("</div>\n");
            return;
        }
        PromptAuthor::Cli => "Added by Claude Code",
        PromptAuthor::Agent => "Task for the sub-agent",
    };
    open_item(item, "aside", out);
    out.push_str(if options.full { "<details open><summary>" } else { "<details><summary>" });
    out.push_str(label);
    out.push_str("<span class=\"first\">");
    escape(first_line(&prompt.text), out);
    out.push_str("</span></summary><div class=\"words\">");
    escape(prompt.text.trim_end(), out);
    images(prompt.images, out);
    out.push_str("</div></details></div>\n");
}

fn images(number: usize, out: &mut String) {
    if number > 0 {
        out.push_str("<span class=\"chip\">🖼 ");
        out.push_str(&wording::plural(number, "image", "images"));
        out.push_str("</span>");
    }
}

fn thinking(
    item: &Item,
    text: &str,
    tokens: Option<u64>,
    options: HtmlOptions<'_>,
    out: &mut String,
) {
    open_item(item, "thinking", out);
    let tokens =
        tokens.map(|it| format!(" · about {} tokens", wording::count(it))).unwrap_or_default();
    if text.trim().is_empty() {
        out.push_str("<p class=\"remark\">Thought (hidden)");
        out.push_str(&tokens);
        out.push_str("</p></div>\n");
        return;
    }
    out.push_str(if options.full { "<details open><summary>" } else { "<details><summary>" });
    out.push_str("Thought");
    out.push_str(&tokens);
    out.push_str("<span class=\"first\">");
    escape(first_line(text), out);
    out.push_str("</span></summary><div class=\"words\">");
    add_markdown(text, item.open, out);
    out.push_str("</div></details></div>\n");
}

fn system_message(
    item: &Item,
    message: &SystemMessage,
    raw: bool,
    options: HtmlOptions<'_>,
    out: &mut String,
) {
    if !options.full && SystemMessage::is_housekeeping(&item.body) {
        return;
    }
    open_item(item, level_class(message.level), out);
    if message.details.trim().is_empty() {
        out.push_str("<p class=\"remark\">");
        terminal_text(&message.text, out);
        out.push_str("</p></div>\n");
        return;
    }
    out.push_str(if options.full { "<details open><summary>" } else { "<details><summary>" });
    escape(&message.text, out);
    if raw {
        out.push_str("<span class=\"first\">");
        escape(first_line(&message.details), out);
        out.push_str("</span>");
    }
    out.push_str("</summary><pre class=\"output\">");
    if raw && message.details.starts_with(['{', '[']) {
        coloured(&indented_json(&message.details), "json", out);
    } else {
        terminal_text(&message.details, out);
    }
    out.push_str("</pre></details></div>\n");
}

/// Appends a hidden line as raw JSON.
pub fn raw_line(kind: &str, json: &str, out: &mut String) {
    out.push_str("<div class=\"item note\"><details><summary>");
    escape(kind, out);
    out.push_str("<span class=\"first\">");
    escape(first_line(json), out);
    out.push_str("</span></summary><pre class=\"output\">");
    coloured(&indented_json(json), "json", out);
    out.push_str("</pre></details></div>\n");
}

fn level_class(level: NoticeLevel) -> &'static str {
    match level {
        NoticeLevel::Info => "note",
        NoticeLevel::Warning => "note warning",
        NoticeLevel::Error => "note error",
    }
}

/// The first line that is not blank, shown beside a heading.
fn first_line(text: &str) -> &str {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.char_indices().nth(160).map_or(line, |(end, _)| &line[..end])
}

/// Appends items in order. The items of a sub-agent go inside its call, if that is among them.
pub fn items<'a>(
    all: impl IntoIterator<Item = &'a Item>,
    options: HtmlOptions<'_>,
    out: &mut String,
) {
    let all: Vec<_> = all.into_iter().collect();
    let known: HashSet<&ItemId> = all.iter().map(|item| &item.id).collect();
    let mut children: HashMap<&ItemId, Vec<&Item>> = HashMap::new();
    let mut top = Vec::new();
    for item in all {
        match item.parent.as_ref().filter(|parent| known.contains(parent) && **parent != item.id) {
            Some(parent) => children.entry(parent).or_default().push(item),
            None => top.push(item),
        }
    }
    add_level(&top, &mut children, options, 1, out);
}

/// How many sub-agents are shown inside each other. Deeper ones are shown side by side.
const MAX_AGENT_DEPTH: usize = 8;

/// Appends the items of one agent, which is the last of `depth` agents that are inside each other.
/// Children are removed from the map, so that no item is shown twice even if parents form a cycle.
fn add_level(
    items: &[&Item],
    children: &mut HashMap<&ItemId, Vec<&Item>>,
    options: HtmlOptions<'_>,
    depth: usize,
    out: &mut String,
) {
    let mut at = 0;
    while at < items.len() {
        let length = group_length(&items[at..]);
        if length >= CALL_GROUP && !options.full {
            let calls = items[at..at + length].iter().filter_map(|item| groupable(item));
            group_summary(calls, out);
        }
        for one in &items[at..at + length] {
            let nested_items = children.remove(&one.id).unwrap_or_default();
            let mut nested = String::new();
            if depth < MAX_AGENT_DEPTH {
                add_level(&nested_items, children, options, depth + 1, &mut nested);
            } else {
                add_flat(nested_items, children, options, &mut nested);
            }
            item(one, options, &nested, out);
        }
        if length >= CALL_GROUP && !options.full {
            out.push_str("</div></details></div>\n");
        }
        at += length;
    }
}

/// Appends items and everything below them, one after the other.
fn add_flat<'a>(
    mut items: Vec<&'a Item>,
    children: &mut HashMap<&ItemId, Vec<&'a Item>>,
    options: HtmlOptions<'_>,
    out: &mut String,
) {
    items.reverse();
    while let Some(next) = items.pop() {
        item(next, options, "", out);
        items.extend(children.remove(&next.id).into_iter().flatten().rev());
    }
}

/// How many of the first items can be shown as one group; at least one.
fn group_length(items: &[&Item]) -> usize {
    let Some(action) = items.first().and_then(|item| groupable(item)).map(|call| call.action)
    else {
        return 1;
    };
    items
        .iter()
        .take_while(|item| groupable(item).is_some_and(|call| call.action == action))
        .count()
}

fn group_summary<'a>(calls: impl Iterator<Item = &'a Call>, out: &mut String) {
    let calls: Vec<_> = calls.collect();
    let Some(first) = calls.first() else { return };
    let _ = write!(
        out,
        "<div class=\"item batch\"><details><summary><span class=\"icon\">⋯</span><span \
         class=\"verb\">{} × {}</span><span class=\"target\">",
        first.action.label(),
        calls.len()
    );
    for (number, call) in calls.iter().take(6).enumerate() {
        if number > 0 {
            out.push_str(", ");
        }
        let name = call.target.rsplit('/').next().unwrap_or(&call.target);
        escape(name, out);
    }
    out.push_str("</span><span class=\"mark\">✔</span></summary><div class=\"body\">");
}

/// Appends the last line of a turn: its duration, usage and changed files.
pub fn turn_end(turn: &Turn, options: HtmlOptions<'_>, out: &mut String) {
    let Some(end) = &turn.end else { return };
    let failure = wording::turn_ending(end);
    out.push_str(if failure.is_some() {
        "<div class=\"end failed\">"
    } else {
        "<div class=\"end\">"
    });
    let mut parts = Vec::new();
    parts.extend(failure.map(|failure| {
        let mut out = String::from("<strong>");
        escape(&failure, &mut out);
        out + "</strong>"
    }));
    parts.extend(wording::turn_totals(turn, end));
    if !turn.files.is_empty() {
        let mut files = String::from("<details class=\"files\"><summary>");
        files.push_str(&wording::plural(turn.files.len(), "file changed", "files changed"));
        files.push_str("</summary><ul>");
        for file in &turn.files {
            files.push_str("<li>");
            escape(relative_path(&file.path, options.base), &mut files);
            if file.edits > 1 {
                let _ = write!(files, " × {}", file.edits);
            }
            files.push_str("</li>");
        }
        files.push_str("</ul></details>");
        parts.push(files);
    }
    out.push_str(&parts.join("<span class=\"dot\"> · </span>"));
    out.push_str("</div>\n");
}
