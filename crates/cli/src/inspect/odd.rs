//! What is odd about an input, and where.

use wire::Noise;

/// How many of each sort are listed unless all are asked for.
pub(super) const LISTED: usize = 12;

/// How many of each sort are remembered: an input of nothing but oddities must not fill memory.
const REMEMBERED: usize = 10_000;

/// How much of a noisy line is shown.
const EXCERPT: usize = 60;

/// Things of one sort that are odd, the first few thousand with their place.
pub(super) struct Oddities<T> {
    pub(super) listed: Vec<Odd<T>>,
    pub(super) count: u64,
}

/// Something odd, and where.
pub(super) struct Odd<T> {
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) what: T,
}

/// A known kind in an unexpected shape.
pub(super) struct Misshapen {
    pub(super) kind: String,
    pub(super) reason: String,
}

/// A line that is no event.
pub(super) struct NoEvent {
    pub(super) why: String,
    /// How it begins, fit for a terminal.
    pub(super) excerpt: String,
}

impl<T> Default for Oddities<T> {
    fn default() -> Self {
        Self { listed: Vec::new(), count: 0 }
    }
}

impl<T> Oddities<T> {
    pub(super) fn add(&mut self, file: &str, line: u64, what: impl FnOnce() -> T) {
        self.count += 1;
        if self.listed.len() < REMEMBERED {
            self.listed.push(Odd { file: file.to_owned(), line, what: what() });
        }
    }
}

impl NoEvent {
    pub(super) fn of(noise: Noise, bytes: &[u8]) -> Self {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT * 4)]);
        let mut excerpt: String =
            start.chars().take(EXCERPT).flat_map(char::escape_debug).collect();
        if start.chars().nth(EXCERPT).is_some() {
            excerpt.push('…');
        }
        Self { why: noise.to_string(), excerpt }
    }
}
