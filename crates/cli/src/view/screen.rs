//! What there is to write on: how wide, and whether in colours.

use std::io;

use anstream::{AutoStream, ColorChoice};
use view::terminal::Colours;

/// Lines of more columns are hard to read, however wide the terminal is.
const WIDEST: usize = 100;

/// What there is to write on.
#[derive(Clone, Copy)]
pub(crate) struct Screen {
    pub(crate) width: usize,
    /// Rows, where there is a terminal.
    pub(crate) height: usize,
    pub(crate) colours: Colours,
}

impl Screen {
    /// What stdout is, as far as the system, `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE` say.
    pub(crate) fn of_stdout(width: Option<u16>) -> Self {
        let size = terminal_size::terminal_size();
        let columns = size.map_or(WIDEST, |(width, _)| usize::from(width.0)).clamp(20, WIDEST);
        let colours = match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => Colours::Off,
            ColorChoice::Auto | ColorChoice::Always | ColorChoice::AlwaysAnsi => Colours::On,
        };
        Self {
            width: width.map_or(columns, usize::from),
            height: size.map_or(24, |(_, height)| usize::from(height.0)).max(4),
            colours,
        }
    }
}
