//! How a stretch of text looks.

use anstyle_parse::Params;

/// How a stretch of text looks.
#[expect(clippy::struct_excessive_bools, reason = "each is on or off by itself")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The colour of the letters; the terminal's own where nothing is said.
    pub foreground: Option<Colour>,
    /// The colour behind them.
    pub background: Option<Colour>,
    /// Heavy.
    pub bold: bool,
    /// Faint.
    pub dim: bool,
    /// Slanted.
    pub italic: bool,
    /// With a line under it.
    pub underline: bool,
    /// With a line through it.
    pub strike: bool,
    /// Colours the other way round.
    pub inverse: bool,
}

/// One of the 256 colours of a terminal: 16 that the user chose, a cube of 216, 24 greys.
///
/// Colours of 24 bits become the nearest of these, so that a page needs no style of its own for
/// every shade somebody prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Colour(pub u8);

impl Colour {
    /// The nearest to a colour of 24 bits.
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

    /// Red, green and blue of a colour of the cube or of the greys; nothing for the first 16, which
    /// are the user's own.
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

impl Style {
    /// The terminal's own.
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

    /// The same in a colour.
    #[must_use]
    pub const fn in_colour(mut self, number: u8) -> Self {
        self.foreground = Some(Colour(number));
        self
    }

    /// The same, heavy.
    #[must_use]
    pub const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    /// The same, faint.
    #[must_use]
    pub const fn dim(mut self) -> Self {
        self.dim = true;
        self
    }

    /// The same, slanted.
    #[must_use]
    pub const fn italic(mut self) -> Self {
        self.italic = true;
        self
    }

    /// Takes the parameters of a sequence that ends in `m`.
    pub(super) fn apply(&mut self, params: &Params) {
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
                    // Written with colons, all is in this group; with semicolons, in the next ones.
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

fn palette(number: u16) -> Option<Colour> {
    u8::try_from(number).ok().map(Colour)
}

/// A colour by its number (5) or by red, green and blue (2), in front of which a colour space may
/// stand.
fn extended(kind: u16, values: &[u16]) -> Option<Colour> {
    match (kind, values) {
        (5, &[number, ..]) => palette(number),
        (2, &[red, green, blue] | &[_, red, green, blue, ..]) => {
            let value = |value: u16| u8::try_from(value).unwrap_or(u8::MAX);
            Some(Colour::nearest(value(red), value(green), value(blue)))
        }
        _ => None,
    }
}
