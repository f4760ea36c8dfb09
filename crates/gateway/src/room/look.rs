//! How items are shown: their elements, and how much of a long one.

use view::html::{self, Look};
use view::{Body, CallState, Item, Verb};

use super::growing::Growing;
use crate::api::ShownItem;

/// A longer element shows only a part until somebody asks for all of it.
const LONGEST: usize = 32 << 10;

/// How much of a long output, and of a long input, a part shows.
const PART: usize = 4 << 10;

/// An item as it is shown in a conversation.
pub(crate) fn shown_item(item: &Item, base: Option<&str>) -> ShownItem {
    let look = Look { base, full: false };
    let mut html = element(item, look);
    let mut cut = false;
    if html.len() > LONGEST {
        html = element(&shortened(item), look);
        cut = true;
    }
    if html.len() > LONGEST {
        // Its mark-up alone is too long: then only what it is.
        html = element(&bare(item), look);
    }
    let mut shown = ShownItem::new(item, html);
    shown.cut |= cut;
    shown
}

/// Items with all of their elements, for somebody who asked.
pub(crate) fn shown_items(items: &[Item], base: Option<&str>) -> Vec<ShownItem> {
    items.iter().map(|item| shown_item(item, base)).collect()
}

/// An item with all there is of its element.
pub(crate) fn whole_item(item: &Item, base: Option<&str>) -> ShownItem {
    ShownItem::new(item, element(item, Look { base, full: true }))
}

/// An item that is being written, with the places its words go to.
pub(super) fn growing_item(item: &Item, growing: &mut Growing) -> ShownItem {
    let mut out = String::from("<div class=\"item ");
    let thinking = matches!(item.body, Body::Thinking { .. });
    out.push_str(if thinking { "thinking" } else { "text" });
    out.push_str("\" data-item=\"");
    html::escape(item.id.as_str(), &mut out);
    out.push_str("\">");
    if thinking {
        out.push_str("<details><summary>Thinking</summary><div class=\"words\">");
    }
    out.push_str("<div class=\"settled\">");
    out.push_str(growing.settled());
    out.push_str("</div><div class=\"growing\">");
    out.push_str(growing.open());
    out.push_str("</div>");
    out.push_str(if thinking { "</div></details></div>" } else { "</div>" });
    let mut shown = ShownItem::new(item, out);
    shown.settled = Some(growing.settled_units());
    shown
}

fn element(item: &Item, look: Look<'_>) -> String {
    let mut out = String::new();
    let writing;
    let (item, children) = match &item.body {
        // Half of an input is nothing to show, and would be sent again with every character.
        Body::Call(call) if call.state == CallState::Writing => {
            writing = bare(item);
            (&writing, "")
        }
        // The place for what a sub-agent does must be there before it does anything.
        Body::Call(call) if call.agent.is_some() || call.verb == Verb::Delegate => (item, "\n"),
        _ => (item, ""),
    };
    html::item(item, look, children, &mut out);
    out
}

/// An item with parts of its long texts.
fn shortened(item: &Item) -> Item {
    let mut item = item.clone();
    match &mut item.body {
        Body::Prompt(prompt) => cut(&mut prompt.text),
        Body::Text { text } | Body::Thinking { text, .. } | Body::Failure { text, .. } => cut(text),
        Body::Call(call) => {
            if let Some(outcome) = &mut call.outcome {
                let before = outcome.text.len();
                cut(&mut outcome.text);
                outcome.cut += (before - outcome.text.len()) as u64;
            }
        }
        Body::Hook(hook) => cut(&mut hook.output),
        Body::Compaction(compaction) => cut(&mut compaction.summary),
        Body::Notice(notice) => cut(&mut notice.text),
        Body::Raw(raw) => cut(&mut raw.text),
        Body::Retry(retry) => cut(&mut retry.error),
        Body::Interruption | Body::Agent(_) | Body::Reset | Body::Media { .. } => {}
    }
    item
}

/// An item without what it holds.
fn bare(item: &Item) -> Item {
    let mut item = shortened(item);
    if let Body::Call(call) = &mut item.body {
        call.input.clear();
        if let Some(outcome) = &mut call.outcome {
            outcome.hunks = None;
        }
    }
    item
}

fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(PART.min(text.len())));
}
