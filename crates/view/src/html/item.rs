//! An item of a conversation as HTML.

use std::fmt::Write as _;

use super::call::call;
use super::escape::escape;
use super::markdown::render;
use super::prose::prose;
use crate::item::{Body, Item, Level};
use crate::markdown::Stream;
use crate::prompt::{Prompt, Speaker};
use crate::remark::Remark;
use crate::{phrase, reindent};

/// What is shown of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look<'a> {
    /// The working directory: paths in it are shown from there on.
    pub base: Option<&'a str>,
    /// Whether everything is shown: long output to its end, thoughts open, the machinery too.
    pub full: bool,
}

/// Adds an item, with what its sub-agent said and did inside it.
pub fn item(item: &Item, look: Look<'_>, children: &str, out: &mut String) {
    match &item.body {
        Body::Prompt(prompt) => self::prompt(item, prompt, look, out),
        Body::Text { text } => {
            open(item, "text", out);
            words(text, item.open, out);
            out.push_str("</div>\n");
        }
        Body::Thinking { text, tokens } => thinking(item, text, *tokens, look, out),
        Body::Call(it) => call(item, it, look, children, out),
        body => {
            if let Some(remark) = Remark::of(body) {
                self::remark(item, &remark, matches!(body, Body::Raw(_)), look, out);
            }
        }
    }
}

/// Opens the element of an item. Its id is how a page finds it again.
pub(super) fn open(item: &Item, class: &str, out: &mut String) {
    out.push_str("<div class=\"item ");
    out.push_str(class);
    out.push_str("\" data-item=\"");
    escape(item.id.as_str(), out);
    out.push_str("\">");
}

/// Words in Markdown; the last block of those still being written is not final.
fn words(text: &str, open: bool, out: &mut String) {
    if !open {
        out.push_str(&prose(text));
        return;
    }
    let mut stream = Stream::new();
    stream.push(text, |block| render(&block, out));
    render(&stream.open(), out);
}

fn prompt(item: &Item, prompt: &Prompt, look: Look<'_>, out: &mut String) {
    let label = match prompt.speaker {
        Speaker::Person => {
            open(item, "prompt", out);
            out.push_str("<div class=\"words\">");
            escape(prompt.text.trim_end(), out);
            pictures(prompt.images, out);
            out.push_str("</div>");
            if let Some(at) = item.at {
                // The link is the turn's own, for who wants to show somebody this place.
                let (turn, moment) = (item.turn, phrase::moment(at));
                let _ = write!(
                    out,
                    "<a class=\"when\" href=\"#t{turn}\"><time data-at=\"{at}\">{moment}</time></a>"
                );
            }
            out.push_str("</div>\n");
            return;
        }
        Speaker::Program => "Told by the program",
        Speaker::Agent => "Given to the sub-agent",
    };
    open(item, "aside", out);
    out.push_str(if look.full { "<details open><summary>" } else { "<details><summary>" });
    out.push_str(label);
    out.push_str("<span class=\"first\">");
    escape(first_line(&prompt.text), out);
    out.push_str("</span></summary><div class=\"words\">");
    escape(prompt.text.trim_end(), out);
    pictures(prompt.images, out);
    out.push_str("</div></details></div>\n");
}

fn pictures(number: usize, out: &mut String) {
    if number > 0 {
        out.push_str("<span class=\"chip\">🖼 ");
        out.push_str(&phrase::several(number, "picture", "pictures"));
        out.push_str("</span>");
    }
}

fn thinking(item: &Item, text: &str, tokens: Option<u64>, look: Look<'_>, out: &mut String) {
    open(item, "thinking", out);
    let tokens =
        tokens.map(|it| format!(" · about {} tokens", phrase::count(it))).unwrap_or_default();
    if text.trim().is_empty() {
        out.push_str("<p class=\"remark\">Thought, withheld");
        out.push_str(&tokens);
        out.push_str("</p></div>\n");
        return;
    }
    out.push_str(if look.full { "<details open><summary>" } else { "<details><summary>" });
    out.push_str("Thought");
    out.push_str(&tokens);
    out.push_str("<span class=\"first\">");
    escape(first_line(text), out);
    out.push_str("</span></summary><div class=\"words\">");
    words(text, item.open, out);
    out.push_str("</div></details></div>\n");
}

fn remark(item: &Item, remark: &Remark, raw: bool, look: Look<'_>, out: &mut String) {
    if !look.full && Remark::is_housekeeping(&item.body) {
        return;
    }
    open(item, level_class(remark.level), out);
    if remark.more.trim().is_empty() {
        out.push_str("<p class=\"remark\">");
        super::terminal_text(&remark.text, out);
        out.push_str("</p></div>\n");
        return;
    }
    out.push_str(if look.full { "<details open><summary>" } else { "<details><summary>" });
    escape(&remark.text, out);
    if raw {
        out.push_str("<span class=\"first\">");
        escape(first_line(&remark.more), out);
        out.push_str("</span>");
    }
    out.push_str("</summary><pre class=\"output\">");
    if raw && remark.more.starts_with(['{', '[']) {
        super::coloured(&reindent::reindented(&remark.more), "json", out);
    } else {
        super::terminal_text(&remark.more, out);
    }
    out.push_str("</pre></details></div>\n");
}

/// Adds a line that tells a person nothing, for who wants to see it all the same.
pub fn raw_line(kind: &str, json: &str, out: &mut String) {
    out.push_str("<div class=\"item note\"><details><summary>");
    escape(kind, out);
    out.push_str("<span class=\"first\">");
    escape(first_line(json), out);
    out.push_str("</span></summary><pre class=\"output\">");
    super::coloured(&reindent::reindented(json), "json", out);
    out.push_str("</pre></details></div>\n");
}

fn level_class(level: Level) -> &'static str {
    match level {
        Level::Info => "note",
        Level::Warning => "note warning",
        Level::Error => "note error",
    }
}

/// The first line that says something, to be shown beside a heading.
pub(super) fn first_line(text: &str) -> &str {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.char_indices().nth(160).map_or(line, |(end, _)| &line[..end])
}
