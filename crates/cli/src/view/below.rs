//! What stands below a conversation that is told live: a question, a line to write in.

use view::ItemId;
use view::terminal::Line;

/// Lines below everything else, drawn again with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Below {
    /// The lines; none may be wider than the screen.
    pub(crate) lines: Vec<Line>,
    /// Where the cursor rests: a row of these lines, and a column.
    pub(crate) cursor: Option<(usize, usize)>,
    /// An open item that is not drawn, because the lines show it in a form of their own.
    pub(crate) instead_of: Option<ItemId>,
}
