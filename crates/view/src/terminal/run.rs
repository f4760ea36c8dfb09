//! Items in their order, runs of like calls folded into one line.

use super::wrap::cut;
use super::{Line, Look, item};
use crate::ansi::Style;
use crate::card::shortened;
use crate::html::foldable;
use crate::item::{Body, Item};

/// As many like calls in a row are folded into one line.
const RUN: usize = 3;

/// The lines of items, with a blank line between those that are not calls following each other.
pub fn items(all: &[&Item], look: Look<'_>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut at = 0;
    let mut before: Option<&Item> = None;
    while at < all.len() {
        let length = run_length(&all[at..]);
        let (new, taken) = match run_line(&all[at..at + length], look) {
            Some(line) => (vec![line], length),
            None => (item(all[at], look), 1),
        };
        let last = all[at];
        at += taken;
        if new.is_empty() {
            continue;
        }
        if before.is_some_and(|before| is_apart(before, last)) {
            lines.push(Line::default());
        }
        lines.extend(new);
        before = Some(last);
    }
    lines
}

/// Whether a blank line belongs between two items.
fn is_apart(before: &Item, after: &Item) -> bool {
    let is_call = |item: &Item| matches!(item.body, Body::Call(_) | Body::Hook(_));
    !(is_call(before) && is_call(after))
}

/// The one line for a run of like calls; nothing where it is too short to be folded.
pub fn run_line(run: &[&Item], look: Look<'_>) -> Option<Line> {
    if look.full || run.len() < RUN || run_length(run) < run.len() {
        return None;
    }
    let calls: Vec<_> = run.iter().filter_map(|item| foldable(item)).collect();
    let first = calls.first()?;
    let names: Vec<_> = calls
        .iter()
        .map(|call| {
            let path = shortened(&call.target, look.base);
            path.rsplit('/').next().unwrap_or(path)
        })
        .collect();
    let mut line = Line::default();
    if run.first().is_some_and(|item| item.parent.is_some()) {
        line.push(Style::PLAIN.in_colour(5).dim(), "┆ ");
    }
    line.push(Style::PLAIN.in_colour(2), "✔ ");
    line.push(
        Style::PLAIN.in_colour(6).bold(),
        &format!("{} × {}", first.verb.word(), calls.len()),
    );
    line.push(Style::PLAIN.dim(), &format!(" {}", names.join(", ")));
    Some(cut(&line, look.width))
}

/// Whether the items are like calls that may be folded into one line, if there are enough of them.
pub fn is_run(items: &[&Item]) -> bool {
    items.first().is_some_and(|first| foldable(first).is_some()) && run_length(items) == items.len()
}

/// How many of the first items are calls of the same sort, by the same agent, that went well.
fn run_length(items: &[&Item]) -> usize {
    let Some(first) = items.first() else { return 0 };
    let Some(verb) = foldable(first).map(|call| call.verb) else { return 1 };
    items
        .iter()
        .take_while(|item| {
            item.parent == first.parent && foldable(item).is_some_and(|call| call.verb == verb)
        })
        .count()
}
