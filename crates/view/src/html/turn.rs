//! The items of a turn as HTML: sub-agents inside the call that began them, runs of like calls folded.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::escape::escape;
use super::item::{Look, item};
use crate::call::{Call, CallState};
use crate::card::shortened;
use crate::item::{Body, Item, ItemId};
use crate::phrase;
use crate::subject::Verb;
use crate::turn::Turn;

/// As many like calls in a row are folded into one line.
const RUN: usize = 3;

/// Adds items in their order. Those of a sub-agent whose call is not among them come as they are.
pub fn items<'a>(all: impl IntoIterator<Item = &'a Item>, look: Look<'_>, out: &mut String) {
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
    level(&top, &mut children, look, out);
}

/// Adds the items of one agent. What a call's children are is taken out of the map, so that no item
/// is shown twice even if parents should go in a circle.
fn level(
    items: &[&Item],
    children: &mut HashMap<&ItemId, Vec<&Item>>,
    look: Look<'_>,
    out: &mut String,
) {
    let mut at = 0;
    while at < items.len() {
        let length = run_length(&items[at..]);
        if length >= RUN && !look.full {
            let calls = items[at..at + length].iter().filter_map(|item| foldable(item));
            run_summary(calls, out);
        }
        for one in &items[at..at + length] {
            let below = children.remove(&one.id).unwrap_or_default();
            let mut nested = String::new();
            level(&below, children, look, &mut nested);
            item(one, look, &nested, out);
        }
        if length >= RUN && !look.full {
            out.push_str("</div></details></div>\n");
        }
        at += length;
    }
}

/// How many of the first items are calls of the same sort that went well; at least one.
fn run_length(items: &[&Item]) -> usize {
    let Some(verb) = items.first().and_then(|item| foldable(item)).map(|call| call.verb) else {
        return 1;
    };
    items.iter().take_while(|item| foldable(item).is_some_and(|call| call.verb == verb)).count()
}

/// A call that may be folded away with others: it only looked, and it went well.
pub(crate) fn foldable(item: &Item) -> Option<&Call> {
    let Body::Call(call) = &item.body else { return None };
    let looks = matches!(call.verb, Verb::Read | Verb::Search | Verb::Fetch | Verb::SearchWeb);
    (looks && call.state == CallState::Done).then_some(call)
}

fn run_summary<'a>(calls: impl Iterator<Item = &'a Call>, out: &mut String) {
    let calls: Vec<_> = calls.collect();
    let Some(first) = calls.first() else { return };
    let _ = write!(
        out,
        "<div class=\"item batch\"><details><summary><span class=\"icon\">⋯</span><span \
         class=\"verb\">{} × {}</span><span class=\"target\">",
        first.verb.word(),
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

/// Adds the line that ends a turn: how long it took, what it used, what it changed.
pub fn turn_end(turn: &Turn, look: Look<'_>, out: &mut String) {
    let Some(end) = &turn.end else { return };
    let failure = phrase::ending(end);
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
    parts.extend(phrase::account(turn, end));
    if !turn.files.is_empty() {
        let mut files = String::from("<details class=\"files\"><summary>");
        files.push_str(&phrase::several(turn.files.len(), "file changed", "files changed"));
        files.push_str("</summary><ul>");
        for file in &turn.files {
            files.push_str("<li>");
            escape(shortened(&file.path, look.base), &mut files);
            if file.times > 1 {
                let _ = write!(files, " × {}", file.times);
            }
            files.push_str("</li>");
        }
        files.push_str("</ul></details>");
        parts.push(files);
    }
    out.push_str(&parts.join("<span class=\"dot\"> · </span>"));
    out.push_str("</div>\n");
}
