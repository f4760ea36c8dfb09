//! Terminal output of programs: colours are kept, all other escape sequences are dropped.
//!
//! A tool's output is untrusted. Printed raw, it could move the cursor, rewrite earlier lines, set the
//! title, or answer a query on the user's behalf. Only the styles of [`lines`] survive, never the
//! sequences themselves. A line that was overwritten, as progress bars do with `\r`, is shown as it
//! looked last.

use anstyle_parse::{DefaultCharAccumulator, Params, Parser, Perform};

/// Text in one style, without control characters except tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledSpan {
    pub style: TextStyle,
    pub text: String,
}

/// The lines of a text as a terminal would show them.
///
/// Styles continue on the next line, but sequences do not: an unterminated one cannot swallow the text
/// that follows.
pub fn lines(text: &str) -> impl Iterator<Item = Vec<StyledSpan>> {
    let mut style = TextStyle::default();
    text.lines().map(move |line| {
        let line = line.trim_end_matches('\r');
        if !line.contains(|c: char| c.is_control() && c != '\t') {
            return if line.is_empty() {
                Vec::new()
            } else {
                vec![StyledSpan { style, text: line.to_owned() }]
            };
        }
        let mut screen = AnsiScreen { line: AnsiLine::default(), style };
        let mut parser = Parser::<DefaultCharAccumulator>::new();
        for &byte in line.as_bytes() {
            parser.advance(&mut screen, byte);
        }
        style = screen.style;
        screen.line.into_spans()
    })
}

/// The text without styles.
pub fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in lines(text) {
        for span in line {
            out.push_str(&span.text);
        }
        out.push('\n');
    }
    if !text.ends_with('\n') {
        out.pop();
    }
    out
}

struct AnsiScreen {
    line: AnsiLine,
    style: TextStyle,
}

impl Perform for AnsiScreen {
    fn print(&mut self, c: char) {
        // The one-byte forms of control sequences (C1) are not text either.
        if !c.is_control() {
            self.line.put(c, self.style);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\r' => self.line.go_to(0),
            b'\x08' => self.line.go_back(1),
            b'\t' => self.line.put('\t', self.style),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: u8) {
        if ignore || !intermediates.is_empty() {
            return;
        }
        let first = params.iter().next().and_then(|values| values.first()).copied();
        let count = usize::from(first.unwrap_or(1).max(1));
        match action {
            b'm' => self.style.apply(params),
            b'K' => match first.unwrap_or(0) {
                0 => self.line.erase_behind(),
                1 => self.line.erase_before(),
                _ => self.line.erase(),
            },
            b'G' => self.line.go_to(count - 1),
            b'C' => self.line.go_forward(count),
            b'D' => self.line.go_back(count),
            _ => {}
        }
    }
}

#[expect(clippy::struct_excessive_bools, reason = "each is on or off by itself")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextStyle {
    /// `None` is the terminal's own colour.
    pub foreground: Option<AnsiColour>,
    pub background: Option<AnsiColour>,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: bool,
    pub strike: bool,
    pub inverse: bool,
}

/// One of the 256 terminal colours: 16 that the user chose, a cube of 216, and 24 greys.
///
/// True colours become the nearest of these, so that a page needs no inline style for each shade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnsiColour(pub u8);

impl AnsiColour {
    /// The nearest to a true colour.
    pub fn nearest(red: u8, green: u8, blue: u8) -> Self {
        if red == green && green == blue {
            return match red {
                0..=3 => Self(16),
                247..=255 => Self(231),
                grey => Self(232 + ((u16::from(grey.max(8)) - 8) * 24 / 240).min(23) as u8),
            };
        }
        // The cube's steps are 0, 95, 135, 175, 215 and 255.
        let step = |value: u8| match value {
            0..=47 => 0,
            48..=114 => 1,
            value => (value - 35) / 40,
        };
        Self(16 + 36 * step(red) + 6 * step(green) + step(blue))
    }

    /// Red, green and blue of a fixed colour; `None` for the first 16, which the user chooses.
    pub fn rgb(self) -> Option<(u8, u8, u8)> {
        let step = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
        match self.0 {
            0..=15 => None,
            number @ 16..=231 => {
                let number = number - 16;
                Some((step(number / 36), step(number / 6 % 6), step(number % 6)))
            }
            number => {
                let grey = 8 + 10 * (number - 232);
                Some((grey, grey, grey))
            }
        }
    }
}

impl TextStyle {
    /// The terminal's default style.
    pub const PLAIN: Self = Self {
        foreground: None,
        background: None,
        bold: false,
        dim: false,
        italic: false,
        underline: false,
        strike: false,
        inverse: false,
    };

    #[must_use]
    pub const fn in_colour(mut self, number: u8) -> Self {
        self.foreground = Some(AnsiColour(number));
        self
    }

    #[must_use]
    pub const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    #[must_use]
    pub const fn dim(mut self) -> Self {
        self.dim = true;
        self
    }

    #[must_use]
    pub const fn italic(mut self) -> Self {
        self.italic = true;
        self
    }

    /// Applies the parameters of an SGR sequence.
    fn apply(&mut self, params: &Params) {
        let mut groups = params.iter();
        let mut any = false;
        while let Some(group) = groups.next() {
            any = true;
            let Some(&code) = group.first() else { continue };
            match code {
                0 => *self = Self::PLAIN,
                1 => self.bold = true,
                2 => self.dim = true,
                3 => self.italic = true,
                4 => self.underline = group.get(1) != Some(&0),
                7 => self.inverse = true,
                9 => self.strike = true,
                22 => (self.bold, self.dim) = (false, false),
                23 => self.italic = false,
                24 => self.underline = false,
                27 => self.inverse = false,
                29 => self.strike = false,
                30..=37 => self.foreground = palette(code - 30),
                90..=97 => self.foreground = palette(code - 90 + 8),
                39 => self.foreground = None,
                40..=47 => self.background = palette(code - 40),
                100..=107 => self.background = palette(code - 100 + 8),
                49 => self.background = None,
                38 | 48 => {
                    // With colons, all values are in this group; with semicolons, in the next ones.
                    let colour = if group.len() > 1 {
                        extended(group[1], &group[2..])
                    } else {
                        let kind = groups.next().and_then(|it| it.first()).copied().unwrap_or(0);
                        let length = if kind == 2 { 3 } else { 1 };
                        let values: Vec<_> = groups
                            .by_ref()
                            .take(length)
                            .filter_map(|it| it.first().copied())
                            .collect();
                        extended(kind, &values)
                    };
                    match (code, colour) {
                        (_, None) => {}
                        (38, colour) => self.foreground = colour,
                        (_, colour) => self.background = colour,
                    }
                }
                _ => {}
            }
        }
        if !any {
            *self = Self::PLAIN;
        }
    }
}

fn palette(number: u16) -> Option<AnsiColour> {
    u8::try_from(number).ok().map(AnsiColour)
}

/// A colour by its number (5), or by red, green and blue (2) after an optional colour space.
fn extended(kind: u16, values: &[u16]) -> Option<AnsiColour> {
    match (kind, values) {
        (5, &[number, ..]) => palette(number),
        (2, &[red, green, blue] | &[_, red, green, blue, ..]) => {
            let value = |value: u16| u8::try_from(value).unwrap_or(u8::MAX);
            Some(AnsiColour::nearest(value(red), value(green), value(blue)))
        }
        _ => None,
    }
}

/// The cursor cannot be moved beyond this column: a sequence of a few bytes must not become a line of
/// thousands of blanks.
const MAX_COLUMN: usize = 1000;

/// A line while a program writes it.
#[derive(Default)]
struct AnsiLine {
    cells: Vec<(char, TextStyle)>,
    cursor: usize,
}

impl AnsiLine {
    fn put(&mut self, c: char, style: TextStyle) {
        if self.cursor < self.cells.len() {
            self.cells[self.cursor] = (c, style);
        } else {
            self.cells.resize(self.cursor, (' ', TextStyle::default()));
            self.cells.push((c, style));
        }
        self.cursor += 1;
    }

    fn go_to(&mut self, column: usize) {
        self.cursor = column.min(self.cells.len().max(MAX_COLUMN));
    }

    fn go_forward(&mut self, columns: usize) {
        self.go_to(self.cursor + columns);
    }

    fn go_back(&mut self, columns: usize) {
        self.cursor = self.cursor.saturating_sub(columns);
    }

    fn erase_behind(&mut self) {
        self.cells.truncate(self.cursor);
    }

    fn erase_before(&mut self) {
        let end = self.cursor.min(self.cells.len());
        self.cells[..end].fill((' ', TextStyle::default()));
    }

    fn erase(&mut self) {
        self.cells.clear();
    }

    /// Its characters, grouped by style.
    fn into_spans(self) -> Vec<StyledSpan> {
        let mut spans: Vec<StyledSpan> = Vec::new();
        for (c, style) in self.cells {
            match spans.last_mut() {
                Some(span) if span.style == style => span.text.push(c),
                _ => spans.push(StyledSpan { style, text: c.into() }),
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::{AnsiColour, lines, plain};

    #[test]
    fn overwritten_lines_show_their_last_content() {
        assert_eq!(plain("a\nb"), "a\nb");
        assert_eq!(plain("a\r\nb\r\n"), "a\nb\n");
        assert_eq!(plain("10%\r50%\r100%\ndone"), "100%\ndone");
        assert_eq!(plain("100%\r5%"), "5%0%");
        assert_eq!(plain("100%\r\x1b[K5%"), "5%");
        assert_eq!(plain("100%\x1b[2K\r5%"), "5%");
        assert_eq!(plain("ab\x08c"), "ac");
        assert_eq!(plain("\x1b[3Gx"), "  x");
        assert_eq!(plain("a\tb"), "a\tb");
    }

    #[test]
    fn no_control_sequence_is_left() {
        for hostile in [
            "a\x1b]0;title\x07b",
            "a\x1b]0;title\x1b\\b",
            "a\x1b]8;;https://evil\x1b\\b",
            "a\x1b]52;c;ZXZpbA==\x07b",
            "a\x1b[2J\x1b[Hb",
            "a\x1b[10Ab",
            "a\x1b[6nb",
            "a\x1b[cb",
            "a\x1b[?1049hb",
            "a\x1bcb",
            "a\x1b[?25lb",
            "a\x1bP+q544e\x1b\\b",
            "a\x1b_x\x1b\\b",
            "a\x1b^x\x1b\\b",
            "a\x07b",
            "a\u{9b}b",
            "a\0b",
            "a\x7fb",
            "a\x1b(0b",
            "a\x1b[>cb",
            "a\x1b[5;10Hb",
        ] {
            let shown = plain(hostile);
            assert!(!shown.contains(char::is_control), "{hostile:?} became {shown:?}");
            assert!(shown.starts_with('a') && shown.ends_with('b'), "{hostile:?} became {shown:?}");
        }
    }

    #[test]
    fn an_unterminated_sequence_ends_with_its_line() {
        assert_eq!(plain("a\x1b]0;never\nb\n\x1bPq\nc"), "a\nb\n\nc");
    }

    #[test]
    fn a_far_cursor_position_costs_little() {
        assert!(plain("\x1b[65535Gx").len() < 5000);
        assert!(plain(&"\x1b[65535Cx".repeat(1000)).len() < 10_000);
    }

    #[test]
    fn all_three_kinds_of_colours_are_kept() {
        let colour = |text: &str| lines(text).next().unwrap()[0].style.foreground;
        assert_eq!(colour("\x1b[31mx"), Some(AnsiColour(1)));
        assert_eq!(colour("\x1b[92mx"), Some(AnsiColour(10)));
        assert_eq!(colour("\x1b[38;5;208mx"), Some(AnsiColour(208)));
        assert_eq!(colour("\x1b[38;2;255;0;0mx"), Some(AnsiColour(196)));
        assert_eq!(colour("\x1b[38:2::0:255:0mx"), Some(AnsiColour(46)));
        assert_eq!(colour("\x1b[38;5mx"), None);
        assert_eq!(colour("\x1b[31m\x1b[39mx"), None);
        let found: Vec<_> = lines("\x1b[1;4;41ma\x1b[0mb\n\x1b[3mc\nd").collect();
        assert!(found[0][0].style.bold && found[0][0].style.underline);
        assert_eq!(found[0][0].style.background, Some(AnsiColour(1)));
        assert_eq!(found[0][1].style, super::TextStyle::default());
        assert!(found[2][0].style.italic, "styles go on to the next line");
    }
}
