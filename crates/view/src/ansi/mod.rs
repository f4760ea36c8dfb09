//! What programs print for a terminal: colours kept, everything else a terminal would obey dropped.
//!
//! Output of a tool is somebody else's text. Shown raw in a terminal it could move the cursor,
//! rewrite what was printed before, set the title, or answer a query on the user's behalf; so only
//! the styles of [`lines`] survive, never the sequences themselves. A line that was overwritten, as
//! progress bars do with `\r`, is shown as it looked last.

mod line;
mod style;

use anstyle_parse::{DefaultCharAccumulator, Params, Parser, Perform};

use line::Line;
pub use style::{Colour, Style};

/// A stretch of text in one style. Its text has no control characters but tabs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// How it looks.
    pub style: Style,
    /// What it says.
    pub text: String,
}

/// The lines of a text as a terminal would show them.
///
/// Styles go on from line to line; sequences do not, so that one that never ends cannot swallow
/// what follows.
pub fn lines(text: &str) -> impl Iterator<Item = Vec<Span>> {
    let mut style = Style::default();
    text.lines().map(move |line| {
        let line = line.trim_end_matches('\r');
        if !line.contains(|c: char| c.is_control() && c != '\t') {
            return if line.is_empty() {
                Vec::new()
            } else {
                vec![Span { style, text: line.to_owned() }]
            };
        }
        let mut screen = Screen { line: Line::default(), style };
        let mut parser = Parser::<DefaultCharAccumulator>::new();
        for &byte in line.as_bytes() {
            parser.advance(&mut screen, byte);
        }
        style = screen.style;
        screen.line.into_spans()
    })
}

/// The text alone.
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

struct Screen {
    line: Line,
    style: Style,
}

impl Perform for Screen {
    fn print(&mut self, c: char) {
        // The one-byte forms of control sequences are no text either.
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

#[cfg(test)]
mod tests {
    use super::{Colour, lines, plain};

    #[test]
    fn overwritten_lines_show_what_stood_there_last() {
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
    fn nothing_a_terminal_would_obey_is_left() {
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
    fn a_sequence_that_never_ends_takes_no_more_than_its_line() {
        assert_eq!(plain("a\x1b]0;never\nb\n\x1bPq\nc"), "a\nb\n\nc");
    }

    #[test]
    fn a_cursor_sent_far_away_costs_nothing() {
        assert!(plain("\x1b[65535Gx").len() < 5000);
        assert!(plain(&"\x1b[65535Cx".repeat(1000)).len() < 10_000);
    }

    #[test]
    fn colours_of_all_three_sorts_are_kept() {
        let colour = |text: &str| lines(text).next().unwrap()[0].style.foreground;
        assert_eq!(colour("\x1b[31mx"), Some(Colour(1)));
        assert_eq!(colour("\x1b[92mx"), Some(Colour(10)));
        assert_eq!(colour("\x1b[38;5;208mx"), Some(Colour(208)));
        assert_eq!(colour("\x1b[38;2;255;0;0mx"), Some(Colour(196)));
        assert_eq!(colour("\x1b[38:2::0:255:0mx"), Some(Colour(46)));
        assert_eq!(colour("\x1b[38;5mx"), None);
        assert_eq!(colour("\x1b[31m\x1b[39mx"), None);
        let found: Vec<_> = lines("\x1b[1;4;41ma\x1b[0mb\n\x1b[3mc\nd").collect();
        assert!(found[0][0].style.bold && found[0][0].style.underline);
        assert_eq!(found[0][0].style.background, Some(Colour(1)));
        assert_eq!(found[0][1].style, super::Style::default());
        assert!(found[2][0].style.italic, "styles go on to the next line");
    }
}
