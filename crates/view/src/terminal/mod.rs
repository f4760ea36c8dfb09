//! What a person sees, as lines for a terminal.
//!
//! Every function is pure: items and a [`Look`] in, [`Line`]s out. Whether there are colours is said
//! by who calls; nothing here asks the environment. Lines are cleaned when they are made: whatever
//! an agent or a tool wrote, [`Line::paint`] gives text and colours, no other sequence.

mod call;
mod code;
mod diff;
mod fit;
mod item;
mod line;
mod markdown;
mod prose;
mod run;
mod status;
mod table;
mod wrap;

pub use item::{call_head, call_result, item, turn_end};
pub use line::{Colours, Line};
pub use prose::{Prose, prose};
pub use run::{is_run, items, run_line};
pub use status::status;
pub(crate) use table::Table;

/// What is shown, and in what width.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// Columns there are.
    pub width: usize,
    /// The working directory: paths in it are shown from there on.
    pub base: Option<&'a str>,
    /// Whether everything is shown: long output to its end, thoughts, the machinery too.
    pub full: bool,
}

impl Look<'_> {
    /// The same with less room, for what stands inside something.
    fn within(self, columns: usize) -> Self {
        // Below this, words are broken more often than lines.
        Self { width: self.width.saturating_sub(columns).max(8), ..self }
    }
}
