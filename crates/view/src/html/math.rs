//! Formulas as `MathML`.
//!
//! The converter writes some text as it is, and `style` attributes, which the page's policy forbids.
//! So what it wrote is read again: only known elements and attributes pass, and text is escaped. If
//! anything else occurs, the formula is shown as it was written.

use pulldown_latex::config::DisplayMode;
use pulldown_latex::event::{Content, Event};
use pulldown_latex::{ParserError, RenderConfig, Storage, push_mathml};

use super::text::escape;
use crate::markdown::{formula_events, without_panics};

/// A formula becomes at most this much `MathML`, and a block with all its formulas this much.
const MAX_OUTPUT: usize = 64 << 10;
pub(super) const MAX_BLOCK_OUTPUT: usize = 1 << 20;

/// Browsers nest no more than some hundred elements.
const MAX_DEPTH: usize = 160;

/// Appends a formula. What is no LaTeX, or too large, is shown as it was written.
pub(super) fn formula(latex: &str, display: bool, room: &mut usize, out: &mut String) {
    let class = if display { "math display" } else { "math" };
    if *room > 0
        && let Some(mathml) = mathml(latex, display)
    {
        *room = room.saturating_sub(mathml.len());
        out.push_str("<span class=\"");
        out.push_str(class);
        out.push_str("\">");
        out.push_str(&mathml);
        out.push_str("</span>");
        return;
    }
    let delimiter = if display { "$$" } else { "$" };
    out.push_str("<code class=\"");
    out.push_str(class);
    out.push_str("\">");
    for part in [delimiter, latex, delimiter] {
        escape(part, out);
    }
    out.push_str("</code>");
}

fn mathml(latex: &str, display: bool) -> Option<String> {
    let storage = Storage::new();
    let events = formula_events(latex, &storage)?;
    let is_plain = |event: &Event<'_>| match event {
        Event::Content(Content::Function(name)) => !name.contains(['<', '>', '&']),
        _ => true,
    };
    if !events.iter().all(is_plain) {
        return None;
    }
    let display_mode = if display { DisplayMode::Block } else { DisplayMode::Inline };
    let config = RenderConfig { display_mode, ..RenderConfig::default() };
    let written = without_panics(|| {
        let mut written = String::new();
        push_mathml(&mut written, events.into_iter().map(Ok::<_, ParserError>), config).ok()?;
        Some(written)
    })?;
    checked(&written)
}

/// What was written, if it has only known elements and attributes.
fn checked(written: &str) -> Option<String> {
    if written.len() > MAX_OUTPUT {
        return None;
    }
    let mut out = String::with_capacity(written.len());
    let mut open: Vec<&str> = Vec::new();
    let mut rest = written;
    while !rest.is_empty() {
        let is_tag = rest.strip_prefix('<').is_some_and(|behind| {
            behind.starts_with(|c: char| c == '/' || c.is_ascii_alphabetic())
        });
        if !is_tag {
            // An operator `<` is written as it is.
            let first = rest.chars().next().map_or(1, char::len_utf8);
            let end = rest[first..].find('<').map_or(rest.len(), |found| found + first);
            let text = &rest[..end];
            add_text(text, &mut out);
            rest = &rest[end..];
            continue;
        }
        let (tag, behind) = rest[1..].split_once('>')?;
        rest = behind;
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return None;
            }
            out.push_str("</");
            out.push_str(name);
            out.push('>');
            continue;
        }
        let is_empty = tag.ends_with('/');
        let tag = tag.trim_end_matches('/').trim_end();
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if !ELEMENTS.contains(&name) || open.len() >= MAX_DEPTH {
            return None;
        }
        out.push('<');
        out.push_str(name);
        add_attributes(attributes, &mut out)?;
        out.push('>');
        if is_empty {
            out.push_str("</");
            out.push_str(name);
            out.push('>');
        } else {
            open.push(name);
        }
    }
    open.is_empty().then_some(out)
}

const ELEMENTS: [&str; 19] = [
    "math",
    "mrow",
    "mi",
    "mo",
    "mn",
    "mtext",
    "mspace",
    "mfrac",
    "msqrt",
    "mroot",
    "msub",
    "msup",
    "msubsup",
    "munder",
    "mover",
    "munderover",
    "mtable",
    "mtr",
    "mtd",
];

const ATTRIBUTES: [&str; 15] = [
    "display",
    "displaystyle",
    "scriptlevel",
    "mathvariant",
    "stretchy",
    "symmetric",
    "largeop",
    "movablelimits",
    "minsize",
    "maxsize",
    "width",
    "height",
    "depth",
    "linethickness",
    "class",
];

/// Appends the known attributes; none if there are others than these and `style`.
fn add_attributes(attributes: &str, out: &mut String) -> Option<()> {
    let mut rest = attributes.trim_start();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"")?;
        let (value, behind) = behind.split_once('"')?;
        rest = behind.trim_start();
        // Colours and negative margins are no loss.
        if name == "style" {
            continue;
        }
        let is_plain = value
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '%' | '+' | '-'));
        if !ATTRIBUTES.contains(&name) || !is_plain {
            return None;
        }
        out.push(' ');
        out.push_str(name);
        out.push_str("=\"");
        out.push_str(value);
        out.push('"');
    }
    Some(())
}

/// Appends text of which some characters are entities already.
fn add_text(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        escape(&rest[..at], out);
        rest = &rest[at..];
        // The converter escapes the space that it makes of `~`.
        rest = rest.strip_prefix("&amp;nbsp;").map_or(rest, |behind| {
            out.push_str("&nbsp;");
            behind
        });
        let entity = ["&amp;", "&lt;", "&gt;", "&nbsp;"].iter().find(|it| rest.starts_with(**it));
        match entity {
            Some(entity) => {
                out.push_str(entity);
                rest = &rest[entity.len()..];
            }
            None if rest.starts_with('&') => {
                out.push_str("&amp;");
                rest = &rest[1..];
            }
            None => {}
        }
    }
    escape(rest, out);
}
