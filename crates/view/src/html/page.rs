//! The frame of a conversation that is one file: opens offline, is searched, folded and printed.
//!
//! Only here are there a script and a style inside the page: a file on somebody's disk has nowhere
//! else to keep them. The page's own policy lets these two work, by a number that whoever wrote the
//! conversation could not know, and forbids every other script and style, loading anything and
//! sending anything anywhere.

use std::fmt::Write as _;

use super::escape::{escape, escaped};
use super::{STYLE, Timeline, colour_rules};
use crate::conversation::Head;
use crate::phrase;
use crate::usage::Usage;

const FRAME: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The number by which a page knows its own script and style. To be drawn anew for each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub u128);

impl std::fmt::Display for Nonce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The numbers at the top of the page.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The first words a person said, which is what the page is called where it has no title.
    pub first_prompt: Option<String>,
    /// The first words of each turn's prompt, with the turn's number, in their order.
    pub prompts: Vec<(u64, String)>,
    /// How many turns there were.
    pub turns: usize,
    /// How many tools were used, sub-agents' included.
    pub calls: usize,
    /// How many files were changed.
    pub files: usize,
    /// When the first and the last thing happened, in milliseconds since 1970.
    pub span: Option<(u64, u64)>,
    /// How long the turns took together, in milliseconds.
    pub worked_ms: u64,
    /// What was used.
    pub usage: Usage,
}

/// Everything of the page up to the first turn.
pub fn head(head: &Head, totals: &Totals, timeline: &Timeline, nonce: Nonce) -> String {
    let title = escaped(&title(head, totals));
    let rules = colour_rules();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'nonce-{nonce}'; script-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'\">\n<meta \
         name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" \
         content=\"towpath\">\n<title>{title}</title>\n<style nonce=\"{nonce}\">\n{STYLE}{rules}\n{FRAME}</style>\n\
         </head>\n<body>\n<div class=\"top\"><div><span class=\"name\">{title}</span><output \
         id=\"found\"></output><input id=\"search\" type=\"search\" placeholder=\"Search  /\" \
         aria-label=\"Search\"><button id=\"fold\" title=\"Open or close everything (e)\">Open \
         all</button><button id=\"theme\" title=\"Light or dark (t)\">◐</button></div></div>\n\
         <header>\n<h1>{title}</h1>\n"
    );
    let mut place = Vec::new();
    place.extend(head.model.as_deref().map(escaped));
    place
        .extend(head.version.as_deref().map(|version| format!("Claude Code {}", escaped(version))));
    place.extend(head.cwd.as_deref().map(|cwd| format!("<code>{}</code>", escaped(cwd))));
    place.extend(totals.span.map(|(first, _)| format!("{} UTC", phrase::moment(first))));
    let _ = writeln!(out, "<p class=\"where\">{}</p>", place.join(" · "));
    numbers(totals, &mut out);
    out.push_str(&timeline.svg());
    contents(&totals.prompts, &mut out);
    out.push_str("</header>\n<main>\n");
    out
}

/// A list of the prompts to go to, where there are enough to get lost among.
fn contents(prompts: &[(u64, String)], out: &mut String) {
    if prompts.len() < 3 {
        return;
    }
    let _ =
        write!(out, "<details class=\"contents\"><summary>{} prompts</summary><ol>", prompts.len());
    for (turn, words) in prompts {
        let _ = write!(out, "<li><a href=\"#t{turn}\">{}</a></li>", escaped(words));
    }
    out.push_str("</ol></details>\n");
}

fn numbers(totals: &Totals, out: &mut String) {
    out.push_str("<ul class=\"numbers\">");
    let mut number = |value: &str, name: &str| {
        let _ = write!(out, "<li><b>{}</b>{name}</li>", escaped(value));
    };
    let mut things = |count: usize, one: &str, many: &str| {
        number(&count.to_string(), if count == 1 { one } else { many });
    };
    things(totals.turns, "turn", "turns");
    things(totals.calls, "tool call", "tool calls");
    if totals.files > 0 {
        things(totals.files, "file changed", "files changed");
    }
    if totals.worked_ms > 0 {
        number(&phrase::duration(totals.worked_ms), "at work");
    }
    let tokens = totals.usage.tokens;
    if tokens.total() > 0 {
        let read =
            tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
        number(&phrase::count(read), "tokens in");
        number(&phrase::count(tokens.output), "tokens out");
    }
    match totals.usage.cost {
        Some(cost) => number(&phrase::dollars(cost), "cost"),
        None => number("–", "cost not told"),
    }
    out.push_str("</ul>\n");
}

fn title(head: &Head, totals: &Totals) -> String {
    let words = head.title.as_deref().or(totals.first_prompt.as_deref()).unwrap_or_default();
    let Some(line) = words.lines().map(str::trim).find(|line| !line.is_empty()) else {
        // `claude -p` does not repeat its prompt, so there may be nothing else to call it by.
        let folder =
            head.cwd.as_deref().and_then(|cwd| cwd.rsplit('/').find(|name| !name.is_empty()));
        return folder
            .map_or("A conversation".to_owned(), |name| format!("A conversation in {name}"));
    };
    match line.char_indices().nth(110) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Everything of the page behind the last turn.
pub fn foot(head: &Head, nonce: Nonce) -> String {
    let mut out = String::from("</main>\n<footer>");
    if let Some(session) = &head.session {
        out.push_str("Session ");
        escape(session, &mut out);
        out.push_str(". ");
    }
    out.push_str(
        "<span class=\"keys\"><kbd>/</kbd> search · <kbd>n</kbd> next · <kbd>j</kbd> <kbd>k</kbd> \
         turns · <kbd>e</kbd> open all · <kbd>t</kbd> light or dark</span></footer>\n",
    );
    let _ = writeln!(out, "<script nonce=\"{nonce}\">");
    out.push_str(SCRIPT);
    out.push_str("</script>\n</body>\n</html>\n");
    out
}
