//! A line of a terminal while a program writes it.

use super::{Span, Style};

/// Columns beyond this one are not reached by moving: a sequence of a few bytes must not become a
/// line of thousands of blanks.
const FARTHEST: usize = 1000;

/// The characters of a line and the place where the next one goes.
#[derive(Default)]
pub(super) struct Line {
    cells: Vec<(char, Style)>,
    cursor: usize,
}

impl Line {
    pub(super) fn put(&mut self, c: char, style: Style) {
        if self.cursor < self.cells.len() {
            self.cells[self.cursor] = (c, style);
        } else {
            self.cells.resize(self.cursor, (' ', Style::default()));
            self.cells.push((c, style));
        }
        self.cursor += 1;
    }

    pub(super) fn go_to(&mut self, column: usize) {
        self.cursor = column.min(self.cells.len().max(FARTHEST));
    }

    pub(super) fn go_forward(&mut self, columns: usize) {
        self.go_to(self.cursor + columns);
    }

    pub(super) fn go_back(&mut self, columns: usize) {
        self.cursor = self.cursor.saturating_sub(columns);
    }

    pub(super) fn erase_behind(&mut self) {
        self.cells.truncate(self.cursor);
    }

    pub(super) fn erase_before(&mut self) {
        let end = self.cursor.min(self.cells.len());
        self.cells[..end].fill((' ', Style::default()));
    }

    pub(super) fn erase(&mut self) {
        self.cells.clear();
    }

    /// Neighbours of the same style put together.
    pub(super) fn into_spans(self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for (c, style) in self.cells {
            match spans.last_mut() {
                Some(span) if span.style == style => span.text.push(c),
                _ => spans.push(Span { style, text: c.into() }),
            }
        }
        spans
    }
}
