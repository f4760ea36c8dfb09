//! Conversations as lines for a terminal.
//!
//! All functions are pure: items and [`TerminalOptions`] in, [`StyledLine`]s out. The caller decides
//! whether there are colours; nothing here reads the environment. Text is cleaned when a line is
//! built: whatever an agent or a tool wrote, [`StyledLine::paint`] gives text and colours, and no other
//! escape sequence.

mod agent;
mod call;
mod item;
mod line;
mod markdown;

pub use agent::agent;
pub use item::{
    call_group_line, call_head, call_result, is_call_group, item, items, status, turn_end,
};
pub use line::{ColourMode, StyledLine};
pub(crate) use markdown::TextTable;
pub use markdown::{StreamingLines, markdown};

/// What is rendered, and how wide.
#[derive(Clone, Copy, Debug)]
pub struct TerminalOptions<'a> {
    /// In columns.
    pub width: usize,
    /// The working directory; paths inside it are shown relative to it.
    pub base: Option<&'a str>,
    /// Show everything: complete output, thinking, housekeeping events.
    pub full: bool,
}

impl TerminalOptions<'_> {
    /// The same with fewer columns, for indented content.
    fn indented(self, columns: usize) -> Self {
        // With fewer columns, more words than lines would be broken.
        Self { width: self.width.saturating_sub(columns).max(8), ..self }
    }
}
