//! Words that are being written, as HTML that grows.

use std::collections::VecDeque;

use view::Revision;
use view::html::Prose;

/// How many states are remembered. A follower that is further behind gets the item whole.
const MARKS: usize = 256;

/// Words that are being written.
#[derive(Debug, Default)]
pub(super) struct Growing {
    prose: Prose,
    /// How many bytes of the words are in it.
    taken: usize,
    /// The settled HTML, in UTF-16 code units.
    units: u64,
    marks: VecDeque<Mark>,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    rev: Revision,
    bytes: usize,
    units: u64,
}

/// What came after a revision.
pub(super) struct Growth {
    /// How long the settled HTML was.
    pub(super) at: u64,
    /// What was settled since.
    pub(super) settled: String,
}

impl Growing {
    /// Takes in what the words have become by a revision. They only ever grow; where they did not,
    /// all is made anew.
    pub(super) fn catch_up(&mut self, words: &str, rev: Revision) {
        let Some(more) = words.get(self.taken..) else {
            *self = Self::default();
            self.catch_up(words, rev);
            return;
        };
        if !more.is_empty() {
            let before = self.prose.closed().len();
            self.prose.push(more);
            self.taken = words.len();
            self.units += units(&self.prose.closed()[before..]);
        }
        let mark = Mark { rev, bytes: self.prose.closed().len(), units: self.units };
        match self.marks.back_mut() {
            Some(last) if last.rev >= rev => *last = mark,
            _ => self.marks.push_back(mark),
        }
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
    }

    /// What was settled after a revision; nothing where that is not remembered.
    pub(super) fn since(&self, rev: Revision) -> Option<Growth> {
        let known = self.marks.partition_point(|mark| mark.rev <= rev).checked_sub(1)?;
        let Mark { bytes, units, .. } = self.marks[known];
        Some(Growth { at: units, settled: self.prose.closed()[bytes..].to_owned() })
    }

    pub(super) fn settled(&self) -> &str {
        self.prose.closed()
    }

    pub(super) fn settled_units(&self) -> u64 {
        self.units
    }

    pub(super) fn open(&mut self) -> &str {
        self.prose.open()
    }
}

fn units(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}

#[cfg(test)]
mod tests {
    use super::Growing;
    use view::Revision;

    #[test]
    fn what_followers_put_together_is_what_is_settled() {
        let words = "# Dög 🐕\n\none\n\n- a\n- b\n\nend\n\n";
        let mut growing = Growing::default();
        let (mut put_together, mut have) = (String::new(), Revision(0));
        growing.catch_up("", Revision(0));
        let ends = words.char_indices().map(|(at, char)| at + char.len_utf8());
        for (number, end) in ends.enumerate() {
            let now = Revision(number as u64 + 1);
            growing.catch_up(&words[..end], now);
            if number % 3 == 0 {
                let growth = growing.since(have).unwrap();
                assert_eq!(growth.at, put_together.encode_utf16().count() as u64);
                put_together.push_str(&growth.settled);
                have = now;
            }
        }
        put_together.push_str(&growing.since(have).unwrap().settled);
        assert_eq!(put_together, growing.settled());
        assert!(put_together.contains("<h1>") && put_together.contains("🐕"), "{put_together}");
    }
}
