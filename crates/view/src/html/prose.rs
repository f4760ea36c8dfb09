//! Markdown that grows, as HTML that grows.

use super::markdown::render;
use crate::markdown::Stream;

/// How long an open part may be and still be rendered anew each time it is asked for.
const SHORT: usize = 8 << 10;

/// An answer while it is written: HTML that is final, and HTML of the part that is not.
///
/// The final part only ever grows at its end. The open part is rendered when it is asked for, so
/// that text may come in pieces as small as they like.
#[derive(Clone, Debug, Default)]
pub struct Prose {
    stream: Stream,
    closed: String,
    open: String,
    /// How much of the open text is in `open`.
    shown: usize,
    /// How much of it there was when `open` was rendered last; the rest was added as it is.
    rendered: usize,
}

impl Prose {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more text.
    pub fn push(&mut self, text: &str) {
        let before = self.closed.len();
        let closed = &mut self.closed;
        self.stream.push(text, |block| render(&block, closed));
        if self.closed.len() > before {
            self.forget_open();
        }
    }

    /// No more text comes.
    pub fn finish(&mut self) {
        let closed = &mut self.closed;
        self.stream.finish(|block| render(&block, closed));
        self.forget_open();
    }

    /// What is final.
    pub fn closed(&self) -> &str {
        &self.closed
    }

    /// What may still change, as it would look if the text ended here.
    ///
    /// A long block that stays open is rendered anew when it has grown by an eighth, so that all of
    /// it together costs a multiple of its length and not the square; until then what came is added
    /// as it is.
    pub fn open(&mut self) -> &str {
        let block = self.stream.open();
        let source = block.source();
        if source.len() == self.shown {
            return &self.open;
        }
        if source.len() <= SHORT || source.len() - self.rendered > source.len() / 8 {
            self.open.clear();
            render(&block, &mut self.open);
            self.rendered = source.len();
        } else {
            append(&source[self.shown..], &mut self.open);
        }
        self.shown = source.len();
        &self.open
    }

    fn forget_open(&mut self) {
        self.open.clear();
        self.shown = 0;
        self.rendered = 0;
    }
}

/// Adds text to the innermost element at the end, as it is.
fn append(text: &str, html: &mut String) {
    let mut end = html.len();
    loop {
        let kept = html[..end].trim_end();
        // Text has no `<` of its own here, so the last one begins a tag.
        match kept.rfind("</") {
            Some(tag) if kept.ends_with('>') && !kept[tag..kept.len() - 1].contains('>') => {
                end = tag;
            }
            _ => break,
        }
    }
    let tags = html.split_off(end);
    super::escape(text, html);
    html.push_str(&tags);
}

/// A whole text as HTML.
pub fn prose(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    crate::markdown::blocks(text, |block| render(&block, &mut out));
    out
}
