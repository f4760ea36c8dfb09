//! Markdown that grows, as lines that grow.

use super::markdown::render;
use super::{Line, Look};
use crate::markdown::{Stream, blocks};

/// An answer while it is written. Lines of closed blocks are handed over once, to be printed for
/// good; those of the open one can be drawn and drawn again.
#[derive(Clone, Debug, Default)]
pub struct Prose {
    stream: Stream,
    any: bool,
    taken: usize,
}

impl Prose {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many bytes of text it was given.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Takes more text; gives the lines it makes final.
    pub fn push(&mut self, text: &str, look: Look<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        let any = &mut self.any;
        self.taken += text.len();
        self.stream.push(text, |block| add(&block, look, any, &mut lines));
        lines
    }

    /// No more text comes; gives the lines that are left.
    pub fn finish(&mut self, look: Look<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        let any = &mut self.any;
        self.stream.finish(|block| add(&block, look, any, &mut lines));
        lines
    }

    /// What may still change, as it would look if the text ended here.
    pub fn open(&self, look: Look<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        add(&self.stream.open(), look, &mut self.any.clone(), &mut lines);
        lines
    }
}

fn add(block: &crate::markdown::Block<'_>, look: Look<'_>, any: &mut bool, lines: &mut Vec<Line>) {
    let mut new = Vec::new();
    render(block, look, &mut new);
    if new.is_empty() {
        return;
    }
    if std::mem::replace(any, true) {
        lines.push(Line::default());
    }
    lines.append(&mut new);
}

/// A whole text as lines.
pub fn prose(text: &str, look: Look<'_>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut any = false;
    blocks(text, |block| add(&block, look, &mut any, &mut lines));
    lines
}
