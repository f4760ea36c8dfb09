//! What clients of a terminal are sent, and what they may send.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use terminal::{
    ColorPart, CursorPosition, CursorShape, MouseReports, ScreenHead, ScreenRow, ScreenUpdate,
    TextAttribute, TextRun,
};
use utoipa::ToSchema;

use super::{ShellExitResponse, TerminalResponse};

/// A frame about a terminal.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(in crate::api) enum TerminalFrame {
    /// The whole screen. Lines that the client has are not valid any more.
    Screen {
        screen: ScreenResponse,
        lines: Vec<ScreenLineResponse>,
    },
    /// Lines that changed. If `top` grew by more than the number of rows, the lines of the screen
    /// before have gone unseen, and the client forgets them.
    Rows {
        screen: ScreenResponse,
        lines: Vec<ScreenLineResponse>,
    },
    /// Lines of the scrollback, which the client asked for.
    Scrollback {
        oldest: u64,
        top: u64,
        lines: Vec<ScreenLineResponse>,
    },
    /// The terminals of the session.
    Terminals {
        terminals: Vec<TerminalResponse>,
    },
    /// The shell ended; its screen stays. Without `exit` the terminal was closed.
    Closed {
        #[serde(skip_serializing_if = "Option::is_none")]
        exit: Option<ShellExitResponse>,
    },
    Heartbeat {
        at: u64,
    },
}

/// What a client of a terminal may send.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub(in crate::api) enum TerminalClientFrame {
    /// What was typed, as a terminal sends it.
    Input { text: String },
    /// How much the client can show. The terminal has the size of the client that typed last.
    Resize { columns: u16, rows: u16 },
    /// Asks for lines of the scrollback, at most 500 at a time.
    Scrollback { from: u64, count: u16 },
}

/// Everything about a screen except its lines.
#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TerminalScreen)]
pub(in crate::api) struct ScreenResponse {
    columns: u16,
    rows: u16,
    /// The number of the screen's first line.
    top: u64,
    /// The number of the oldest line of the scrollback.
    oldest: u64,
    /// Missing if it is hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<CursorResponse>,
    title: String,
    /// A program uses the whole screen, without scrollback.
    alternate: bool,
    /// Arrow keys are sent as `ESC O A` and not as `ESC [ A`.
    application_cursor: bool,
    /// What is pasted is sent between `ESC [200~` and `ESC [201~`.
    bracketed_paste: bool,
    /// Which events of the mouse are sent, in the SGR form.
    mouse: MouseName,
}

/// From 0, at the top left of the screen.
#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = TerminalCursor)]
pub(in crate::api) struct CursorResponse {
    row: usize,
    column: usize,
    shape: CursorName,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = CursorShape)]
enum CursorName {
    Block,
    Underline,
    Beam,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MouseReports)]
enum MouseName {
    None,
    Clicks,
    Drags,
    Movement,
}

/// A line.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TerminalLine)]
pub(in crate::api) struct ScreenLineResponse {
    number: u64,
    runs: Vec<RunResponse>,
    /// The next line continues it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    wrapped: bool,
}

/// Text in one style. Colors are numbers of the 16 that a theme defines, or `#rrggbb`.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TerminalRun)]
pub(in crate::api) struct RunResponse {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    foreground: Option<ColorResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    background: Option<ColorResponse>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<AttributeName>,
    /// How many columns it takes, if a font may draw it wider or narrower than that.
    #[serde(skip_serializing_if = "Option::is_none")]
    cells: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = TerminalColor)]
enum ColorResponse {
    Theme(u8),
    Fixed(String),
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TextAttribute)]
enum AttributeName {
    Bold,
    Dim,
    Italic,
    Underline,
    Strikeout,
    Inverse,
}

impl From<ScreenUpdate> for TerminalFrame {
    fn from(update: ScreenUpdate) -> Self {
        let lines = update.lines.iter().map(|(number, row)| ScreenLineResponse::new(*number, row));
        let (screen, lines) = (update.head.into(), lines.collect());
        if update.is_whole { Self::Screen { screen, lines } } else { Self::Rows { screen, lines } }
    }
}

impl From<ScreenHead> for ScreenResponse {
    fn from(head: ScreenHead) -> Self {
        Self {
            columns: head.size.columns(),
            rows: head.size.rows(),
            top: head.top,
            oldest: head.oldest,
            cursor: head.cursor.map(CursorResponse::from),
            title: head.title,
            alternate: head.alternate,
            application_cursor: head.application_cursor,
            bracketed_paste: head.bracketed_paste,
            mouse: match head.mouse {
                MouseReports::None => MouseName::None,
                MouseReports::Clicks => MouseName::Clicks,
                MouseReports::Drags => MouseName::Drags,
                MouseReports::Movement => MouseName::Movement,
            },
        }
    }
}

impl From<CursorPosition> for CursorResponse {
    fn from(cursor: CursorPosition) -> Self {
        let shape = match cursor.shape {
            CursorShape::Block => CursorName::Block,
            CursorShape::Underline => CursorName::Underline,
            CursorShape::Beam => CursorName::Beam,
        };
        Self { row: cursor.row, column: cursor.column, shape }
    }
}

impl ScreenLineResponse {
    /// Lines with their numbers, from the first on.
    pub(super) fn from_first(first: u64, rows: &[Arc<ScreenRow>]) -> Vec<Self> {
        (first..).zip(rows).map(|(number, row)| Self::new(number, row)).collect()
    }

    fn new(number: u64, row: &ScreenRow) -> Self {
        let runs = row.runs.iter().map(RunResponse::from).collect();
        Self { number, runs, wrapped: row.wrapped }
    }
}

impl From<&TextRun> for RunResponse {
    fn from(run: &TextRun) -> Self {
        let attribute = |it: &TextAttribute| match it {
            TextAttribute::Bold => AttributeName::Bold,
            TextAttribute::Dim => AttributeName::Dim,
            TextAttribute::Italic => AttributeName::Italic,
            TextAttribute::Underline => AttributeName::Underline,
            TextAttribute::Strikeout => AttributeName::Strikeout,
            TextAttribute::Inverse => AttributeName::Inverse,
        };
        Self {
            text: run.text.clone(),
            foreground: run.foreground.map(ColorResponse::from),
            background: run.background.map(ColorResponse::from),
            attributes: run.attributes.iter().map(attribute).collect(),
            cells: run.cells,
        }
    }
}

impl From<ColorPart> for ColorResponse {
    fn from(color: ColorPart) -> Self {
        match color {
            ColorPart::Theme(number) => Self::Theme(number),
            ColorPart::Fixed(red, green, blue) => {
                Self::Fixed(format!("#{red:02x}{green:02x}{blue:02x}"))
            }
        }
    }
}
