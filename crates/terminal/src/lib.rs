//! Shells in pseudo-terminals, and the screens that clients see of them.
//!
//! ```text
//!  shell ◄─ pseudo-terminal ─► screen (cells, scrollback) ── changes ──► any number of viewers
//! ```
//!
//! The screen is kept here and not in a browser, so a viewer that comes later, or again, sees what
//! all others see. A viewer that is slow gets the newest screen and not every change.
//!
//! [`Screen`] is pure: bytes in, rows out. [`Terminal`] has the process and its threads, [`Viewer`]
//! is one of those who look at it, and [`Terminals`] are all terminals of a server.
//!
//! Deliberately absent: HTTP, roles, and who may have a shell. The caller decides.

mod output_filter;
mod row;
mod screen;
mod shell;
mod terminal;
mod terminals;
mod viewer;

pub use row::{ColorPart, ScreenRow, TextAttribute, TextRun};
pub use screen::{CursorPosition, CursorShape, MouseReports, Screen, ScreenHead, ScreenSize};
pub use shell::{ShellConfig, ShellExit, ShellStartError};
pub use terminal::Terminal;
pub use terminals::{MAX_OF_SESSION, MAX_TERMINALS, StartError, Terminals};
pub use viewer::{ScreenUpdate, Viewer, ViewerEvent};
