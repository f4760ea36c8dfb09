//! Lines made to fit, for who puts lines of their own below a conversation.

use super::Line;
use super::wrap::{cut, wrapped};

impl Line {
    /// Cut to so many columns, with `…` where something is missing.
    #[must_use]
    pub fn cut(&self, width: usize) -> Self {
        cut(self, width)
    }

    /// Broken between words into lines of so many columns.
    pub fn wrapped(&self, width: usize) -> Vec<Self> {
        wrapped(self, width)
    }
}
