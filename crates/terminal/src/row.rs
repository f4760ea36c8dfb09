//! A row of a screen as text with styles.

use alacritty_terminal::grid::Row;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::{Cell, Flags};
use alacritty_terminal::vte::ansi::{Color, NamedColor};

/// A row, from the left. What is blank at its end is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenRow {
    pub runs: Vec<TextRun>,
    /// The next row continues it.
    pub wrapped: bool,
}

/// Text in one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRun {
    pub text: String,
    pub foreground: Option<ColorPart>,
    pub background: Option<ColorPart>,
    pub attributes: Vec<TextAttribute>,
    /// How many columns it takes, if a font may draw it wider or narrower than that.
    pub cells: Option<usize>,
}

/// A color: one of the 16 that a theme defines, or a fixed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorPart {
    Theme(u8),
    Fixed(u8, u8, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAttribute {
    Bold,
    Dim,
    Italic,
    Underline,
    Strikeout,
    /// Foreground and background are exchanged.
    Inverse,
}

/// What decides whether two cells are in the same run.
type CellStyle = (Color, Color, Flags);

const STYLE_FLAGS: Flags = Flags::INVERSE
    .union(Flags::BOLD)
    .union(Flags::ITALIC)
    .union(Flags::ALL_UNDERLINES)
    .union(Flags::DIM)
    .union(Flags::STRIKEOUT);

const SPACERS: Flags = Flags::WIDE_CHAR_SPACER.union(Flags::LEADING_WIDE_CHAR_SPACER);

/// How a run is laid out. A font that lacks a character takes it from another font, in which it may
/// have any width, so only ASCII is trusted to keep to the columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunLayout {
    Ascii,
    Other,
    /// A character of two columns is a run of its own.
    Wide,
}

impl ScreenRow {
    pub(crate) fn new(row: &Row<Cell>) -> Self {
        let cells: Vec<&Cell> = (0..row.len()).map(|it| &row[Column(it)]).collect();
        let used = cells.iter().rposition(|it| !is_blank(it)).map_or(0, |it| it + 1);
        let wrapped = cells.last().is_some_and(|it| it.flags.contains(Flags::WRAPLINE));
        let mut runs: Vec<TextRun> = Vec::new();
        let mut current: Option<(CellStyle, RunLayout, usize)> = None;
        for cell in cells.into_iter().take(used) {
            if cell.flags.intersects(SPACERS) {
                continue;
            }
            let style = (cell.fg, cell.bg, cell.flags & STYLE_FLAGS);
            let combining = cell.zerowidth().unwrap_or_default();
            let character = visible_character(cell);
            let wide = cell.flags.contains(Flags::WIDE_CHAR);
            let layout = match character {
                _ if wide => RunLayout::Wide,
                it if it.is_ascii() && combining.is_empty() => RunLayout::Ascii,
                _ => RunLayout::Other,
            };
            let width = if wide { 2 } else { 1 };
            match (&mut current, runs.last_mut()) {
                (Some((of, how, columns)), Some(run))
                    if *of == style && *how == layout && layout != RunLayout::Wide =>
                {
                    *columns += width;
                    if layout != RunLayout::Ascii {
                        run.cells = Some(*columns);
                    }
                }
                _ => {
                    let cells = (layout != RunLayout::Ascii).then_some(width);
                    runs.push(TextRun::new(style, cells));
                    current = Some((style, layout, width));
                }
            }
            if let Some(run) = runs.last_mut() {
                run.text.push(character);
                run.text.extend(combining);
            }
        }
        Self { runs, wrapped }
    }

    /// The text without styles.
    pub fn text(&self) -> String {
        self.runs.iter().map(|it| it.text.as_str()).collect()
    }
}

impl TextRun {
    fn new((foreground, background, flags): CellStyle, cells: Option<usize>) -> Self {
        let (foreground, dim) = color(foreground);
        let (background, _) = color(background);
        let attributes = [
            (flags.contains(Flags::BOLD), TextAttribute::Bold),
            (dim || flags.contains(Flags::DIM), TextAttribute::Dim),
            (flags.contains(Flags::ITALIC), TextAttribute::Italic),
            (flags.intersects(Flags::ALL_UNDERLINES), TextAttribute::Underline),
            (flags.contains(Flags::STRIKEOUT), TextAttribute::Strikeout),
            (flags.contains(Flags::INVERSE), TextAttribute::Inverse),
        ];
        let attributes = attributes.into_iter().filter_map(|(has, it)| has.then_some(it)).collect();
        Self { text: String::new(), foreground, background, attributes, cells }
    }
}

/// A hidden character is left out of what is sent, and so is one that would be read as markup of
/// lines.
fn visible_character(cell: &Cell) -> char {
    if cell.flags.contains(Flags::HIDDEN) || cell.c.is_control() { ' ' } else { cell.c }
}

fn is_blank(cell: &Cell) -> bool {
    let shows = Flags::INVERSE | Flags::ALL_UNDERLINES | Flags::STRIKEOUT;
    visible_character(cell) == ' '
        && cell.zerowidth().is_none_or(<[char]>::is_empty)
        && cell.bg == Color::Named(NamedColor::Background)
        && !cell.flags.intersects(shows)
}

/// A color, and whether it is the dim variant.
fn color(color: Color) -> (Option<ColorPart>, bool) {
    match color {
        Color::Spec(it) => (Some(ColorPart::Fixed(it.r, it.g, it.b)), false),
        Color::Indexed(index) => (Some(indexed(index)), false),
        Color::Named(name) => named(name),
    }
}

fn named(name: NamedColor) -> (Option<ColorPart>, bool) {
    let number = name as usize;
    let dim = |it: u8| (Some(ColorPart::Theme(it)), true);
    match name {
        NamedColor::DimForeground => (None, true),
        NamedColor::DimBlack => dim(0),
        NamedColor::DimRed => dim(1),
        NamedColor::DimGreen => dim(2),
        NamedColor::DimYellow => dim(3),
        NamedColor::DimBlue => dim(4),
        NamedColor::DimMagenta => dim(5),
        NamedColor::DimCyan => dim(6),
        NamedColor::DimWhite => dim(7),
        _ => (u8::try_from(number).ok().filter(|it| *it < 16).map(ColorPart::Theme), false),
    }
}

/// A color of the table of 256: 16 of the theme, a cube, and shades of gray.
fn indexed(index: u8) -> ColorPart {
    let level = |it: u8| if it == 0 { 0 } else { 55 + 40 * it };
    match index {
        0..16 => ColorPart::Theme(index),
        16..232 => {
            let it = index - 16;
            ColorPart::Fixed(level(it / 36), level(it / 6 % 6), level(it % 6))
        }
        232.. => {
            let gray = 8 + 10 * (index - 232);
            ColorPart::Fixed(gray, gray, gray)
        }
    }
}
