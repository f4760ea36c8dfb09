//! A screen and its scrollback: bytes of a program in, rows out. Pure.
//!
//! Every line has a number that stays the same while it moves from the screen into the scrollback,
//! so that a client can ask for older lines while new ones are printed. A change of the size breaks
//! lines anew, and numbers begin anew with it.

use std::sync::{Arc, Mutex, PoisonError};

use alacritty_terminal::Term;
use alacritty_terminal::event::{Event, EventListener};
use alacritty_terminal::grid::{Dimensions, Scroll};
use alacritty_terminal::index::Line;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::term::{Config, Osc52, TermMode};
use alacritty_terminal::vte::ansi::{CursorShape as AnsiCursor, Processor, Timeout};

use crate::output_filter::OutputFilter;
use crate::row::ScreenRow;

/// How many lines of scrollback are kept at most. Of a wide screen there are fewer, because every
/// line takes memory for all its columns.
const MAX_SCROLLBACK_LINES: usize = 5000;
const MAX_SCROLLBACK_BYTES: usize = 10 << 20;

/// How many bytes are parsed at a time.
const CHUNK_BYTES: usize = 4096;

/// The longest title that is passed on, in characters.
const MAX_TITLE: usize = 200;

/// How many answers to a program's queries may wait.
const MAX_REPLIES: usize = 64;

/// A screen with its scrollback.
pub struct Screen {
    term: Term<EmulatorEvents>,
    parser: Processor<NoSynchronizedUpdates>,
    filter: OutputFilter,
    events: EmulatorEvents,
    title: String,
    /// The number of the first line of the main screen.
    top: u64,
    /// Changes when lines are numbered anew.
    numbering: u64,
    /// The rows as they were last asked for; `None` if they may have changed.
    rows: Option<Vec<Arc<ScreenRow>>>,
}

/// The size of a screen, within limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenSize {
    columns: u16,
    rows: u16,
}

/// Everything about a screen except its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenHead {
    pub size: ScreenSize,
    /// The number of the screen's first line.
    pub top: u64,
    /// The number of the oldest line of the scrollback.
    pub oldest: u64,
    pub cursor: Option<CursorPosition>,
    pub title: String,
    /// A program uses the whole screen, without scrollback.
    pub alternate: bool,
    /// Arrow keys are sent in another form.
    pub application_cursor: bool,
    pub bracketed_paste: bool,
    pub mouse: MouseReports,
    pub(crate) numbering: u64,
}

/// Where the cursor is on the screen, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorPosition {
    pub row: usize,
    pub column: usize,
    pub shape: CursorShape,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorShape {
    Block,
    Underline,
    Beam,
}

/// What a program wants to know about the mouse. Only the SGR form is supported, which every program
/// of this century asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseReports {
    None,
    Clicks,
    /// Also movement with a button pressed.
    Drags,
    /// All movement.
    Movement,
}

/// Synchronized updates are not held back: viewers get a few frames a second, each of a whole
/// screen, and a buffer that waits would make what is shown depend on time.
#[derive(Default)]
struct NoSynchronizedUpdates;

impl Timeout for NoSynchronizedUpdates {
    fn set_timeout(&mut self, _: std::time::Duration) {}
    fn clear_timeout(&mut self) {}
    fn pending_timeout(&self) -> bool {
        false
    }
}

/// What the emulator reports while it parses.
#[derive(Clone, Default)]
struct EmulatorEvents(Arc<Mutex<ReportedEvents>>);

#[derive(Default)]
struct ReportedEvents {
    replies: Vec<String>,
    title: Option<String>,
}

impl EventListener for EmulatorEvents {
    /// A reply is passed on only if it consists of what the emulator knows itself: its kind, the
    /// cursor, modes. The clipboard is neither read nor written, and nothing that a program can
    /// choose comes back as if it had been typed.
    fn send_event(&self, event: Event) {
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::PtyWrite(reply) if events.replies.len() < MAX_REPLIES => {
                events.replies.push(reply);
            }
            Event::Title(title) => {
                let visible = title.chars().filter(|it| !it.is_control());
                events.title = Some(visible.take(MAX_TITLE).collect());
            }
            Event::ResetTitle => events.title = Some(String::new()),
            _ => {}
        }
    }
}

impl ScreenSize {
    pub const MAX_COLUMNS: u16 = 300;
    pub const MAX_ROWS: u16 = 150;

    /// The size, or the nearest that is supported.
    pub fn new(columns: u16, rows: u16) -> Self {
        Self { columns: columns.clamp(2, Self::MAX_COLUMNS), rows: rows.clamp(2, Self::MAX_ROWS) }
    }

    pub fn columns(self) -> u16 {
        self.columns
    }

    pub fn rows(self) -> u16 {
        self.rows
    }
}

impl Default for ScreenSize {
    fn default() -> Self {
        Self::new(80, 24)
    }
}

impl Dimensions for ScreenSize {
    fn total_lines(&self) -> usize {
        self.rows.into()
    }

    fn screen_lines(&self) -> usize {
        self.rows.into()
    }

    fn columns(&self) -> usize {
        self.columns.into()
    }
}

/// The emulator's settings.
fn config(size: ScreenSize) -> Config {
    let line = usize::from(size.columns) * size_of::<Cell>();
    Config {
        scrolling_history: (MAX_SCROLLBACK_BYTES / line).min(MAX_SCROLLBACK_LINES),
        // A program must not see or replace what the user copied.
        osc52: Osc52::Disabled,
        ..Config::default()
    }
}

impl Screen {
    pub fn new(size: ScreenSize) -> Self {
        let config = config(size);
        let events = EmulatorEvents::default();
        Self {
            term: Term::new(config, &size, events.clone()),
            parser: Processor::new(),
            filter: OutputFilter::default(),
            events,
            title: String::new(),
            top: 0,
            numbering: 0,
            rows: None,
        }
    }

    /// Shows what a program printed. Returns the answers to its queries.
    pub fn advance(&mut self, bytes: &[u8]) -> Vec<String> {
        self.rows = None;
        for chunk in self.filter.filter(bytes).chunks(CHUNK_BYTES) {
            self.advance_chunk(chunk);
        }
        let mut events = self.events.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(title) = events.title.take() {
            self.title = title;
        }
        std::mem::take(&mut events.replies)
    }

    /// Counts the lines that leave the screen. The emulator does not; but it moves a display that is
    /// scrolled up along with its lines, and nothing else here uses the display.
    fn advance_chunk(&mut self, chunk: &[u8]) {
        if self.is_alternate() {
            self.parser.advance(&mut self.term, chunk);
            return;
        }
        let before = self.term.grid().history_size();
        self.term.grid_mut().scroll_display(Scroll::Bottom);
        self.term.grid_mut().scroll_display(Scroll::Delta(1));
        self.parser.advance(&mut self.term, chunk);
        if self.is_alternate() {
            // It is counted when the main screen is back.
            return;
        }
        let limit = config(self.size()).scrolling_history;
        let (history, moved) = (self.term.grid().history_size(), self.term.grid().display_offset());
        let moved = if history < before {
            // The scrollback was cleared.
            self.numbering += 1;
            history
        } else if history < limit {
            history - before
        } else if moved >= limit {
            // It stopped counting there: perhaps no line is left that had a number.
            limit + usize::from(self.size().rows)
        } else {
            moved.saturating_sub(usize::from(before > 0)).max(history - before)
        };
        self.top = (self.top + moved as u64).max(history as u64);
    }

    /// Lines of the main screen are broken anew.
    pub fn resize(&mut self, size: ScreenSize) {
        if size == self.size() {
            return;
        }
        self.rows = None;
        self.term.grid_mut().scroll_display(Scroll::Bottom);
        self.term.resize(size);
        self.term.set_options(config(size));
        self.top = self.top.max(self.term.grid().history_size() as u64);
        self.numbering += 1;
    }

    pub fn size(&self) -> ScreenSize {
        let length = |it: usize| u16::try_from(it).unwrap_or(u16::MAX);
        ScreenSize::new(length(self.term.columns()), length(self.term.screen_lines()))
    }

    pub fn title(&self) -> &str {
        &self.title
    }

    pub fn head(&self) -> ScreenHead {
        let mode = *self.term.mode();
        let mouse = match mode {
            it if !it.contains(TermMode::SGR_MOUSE) => MouseReports::None,
            it if it.contains(TermMode::MOUSE_MOTION) => MouseReports::Movement,
            it if it.contains(TermMode::MOUSE_DRAG) => MouseReports::Drags,
            it if it.contains(TermMode::MOUSE_REPORT_CLICK) => MouseReports::Clicks,
            _ => MouseReports::None,
        };
        let (top, oldest) = self.line_numbers();
        ScreenHead {
            size: self.size(),
            top,
            oldest,
            cursor: self.cursor(),
            title: self.title.clone(),
            alternate: self.is_alternate(),
            application_cursor: mode.contains(TermMode::APP_CURSOR),
            bracketed_paste: mode.contains(TermMode::BRACKETED_PASTE),
            mouse,
            numbering: self.numbering,
        }
    }

    /// The rows of the screen, from the top.
    pub fn rows(&mut self) -> &[Arc<ScreenRow>] {
        let grid = self.term.grid();
        let lines = 0..i32::from(self.size().rows);
        self.rows.get_or_insert_with(|| {
            lines.map(|it| Arc::new(ScreenRow::new(&grid[Line(it)]))).collect()
        })
    }

    /// Lines of the scrollback from a number on, at most `count`, and the number of the first.
    pub fn scrollback(&self, from: u64, count: usize) -> (u64, Vec<Arc<ScreenRow>>) {
        let (top, oldest) = self.line_numbers();
        let from = from.clamp(oldest, top);
        let end = top.min(from + count as u64);
        let row = |number: u64| {
            let above = i32::try_from(top - number).unwrap_or(i32::MAX);
            Arc::new(ScreenRow::new(&self.term.grid()[Line(-above)]))
        };
        (from, (from..end).map(row).collect())
    }

    fn is_alternate(&self) -> bool {
        self.term.mode().contains(TermMode::ALT_SCREEN)
    }

    /// The numbers of the first line of the screen and of the oldest line.
    fn line_numbers(&self) -> (u64, u64) {
        let history = self.term.grid().history_size() as u64;
        // After lines were broken anew there may be more of them than were counted.
        let top = self.top.max(history);
        (top, top - history)
    }

    fn cursor(&self) -> Option<CursorPosition> {
        if !self.term.mode().contains(TermMode::SHOW_CURSOR) {
            return None;
        }
        let point = self.term.grid().cursor.point;
        let shape = match self.term.cursor_style().shape {
            AnsiCursor::Hidden => return None,
            AnsiCursor::Underline => CursorShape::Underline,
            AnsiCursor::Beam => CursorShape::Beam,
            AnsiCursor::Block | AnsiCursor::HollowBlock => CursorShape::Block,
        };
        let spacer = self.term.grid()[point].flags.contains(Flags::WIDE_CHAR_SPACER);
        let column = point.column.0.saturating_sub(usize::from(spacer));
        Some(CursorPosition { row: usize::try_from(point.line.0).ok()?, column, shape })
    }
}

impl std::fmt::Debug for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Screen").field("head", &self.head()).finish_non_exhaustive()
    }
}
