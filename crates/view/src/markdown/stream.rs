//! Markdown that arrives in pieces.

use pulldown_cmark::Parser;

use super::Block;
use super::block::{Ends, OPTIONS};
use super::definitions::Definitions;

/// Text that grows, and which of its blocks are closed.
///
/// Whatever pieces the text comes in, the closed blocks are the same in the end; only *when* a block
/// is found to be closed depends on them.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// What comes behind the last closed block.
    open: String,
    definitions: Definitions,
    /// How long the open part must be before it is looked at again.
    ///
    /// A block that does not close is looked at each time it has grown by a part of itself, not
    /// with every line: a list of a megabyte would otherwise cost the square of its length.
    look_at: usize,
}

impl Stream {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes more text; hands over the blocks it closes.
    pub fn push(&mut self, text: &str, mut closed: impl FnMut(Block<'_>)) {
        self.open.push_str(text);
        if self.open.len() < self.look_at || !text.contains('\n') {
            return;
        }
        // The last line may still become anything: `#` alone is a heading, `#foo` is not.
        let Some(complete) = self.open.rfind('\n').map(|newline| newline + 1) else { return };
        let Ends { mut ends, last_is_closed } = Ends::of(&self.open[..complete]);
        if !last_is_closed {
            ends.pop();
        }
        let done = self.hand_over(&ends, &mut closed);
        self.open.drain(..done);
        self.look_at = if done > 0 { 0 } else { self.open.len() + self.open.len() / 8 };
    }

    /// No more text comes: hands over what is left.
    pub fn finish(&mut self, mut closed: impl FnMut(Block<'_>)) {
        let mut ends = Ends::of(&self.open).ends;
        // White space behind an open fence belongs to the code.
        if let Some(last) = ends.last_mut() {
            *last = self.open.len();
        }
        self.hand_over(&ends, &mut closed);
        self.open.clear();
        self.look_at = 0;
    }

    /// What comes behind the last closed block, as it would look if the text ended here.
    pub fn open(&self) -> Block<'_> {
        Block { source: &self.open, definitions: Some(&self.definitions), closed: false }
    }

    /// Hands over the blocks that end at `ends`; says where the last of them does.
    fn hand_over(&mut self, ends: &[usize], closed: &mut impl FnMut(Block<'_>)) -> usize {
        let mut start = 0;
        for &end in ends {
            let source = &self.open[start..end];
            closed(Block { source, definitions: Some(&self.definitions), closed: true });
            // Only a text with such a thing in it needs to be looked through for definitions.
            if source.contains("]:") {
                self.definitions.learn(Parser::new_ext(source, OPTIONS).reference_definitions());
            }
            start = end;
        }
        start
    }
}
