//! Text that is being written, as HTML that grows.

use std::collections::VecDeque;

use view::Revision;
use view::html::StreamingHtml;

/// How many revisions are remembered. A client that is further behind gets the whole item.
const MAX_MARKS: usize = 256;

/// Text that is being written. Its HTML is a stable part, which only grows, and a tail, which may
/// still change.
#[derive(Debug, Default)]
pub(super) struct StreamedText {
    prose: StreamingHtml,
    /// How many bytes of the text are in `prose`.
    consumed: usize,
    /// The length of the stable HTML in UTF-16 code units.
    stable_length: u64,
    marks: VecDeque<StableMark>,
}

/// How long the stable HTML was at a revision.
#[derive(Clone, Copy, Debug)]
struct StableMark {
    rev: Revision,
    bytes: usize,
    /// In UTF-16 code units.
    length: u64,
}

impl StreamedText {
    /// Takes in what the text has become by a revision. Text that did not just grow is rendered
    /// again from the start.
    pub(super) fn catch_up(&mut self, text: &str, rev: Revision) {
        let Some(more) = text.get(self.consumed..) else {
            *self = Self::default();
            self.catch_up(text, rev);
            return;
        };
        if !more.is_empty() {
            let before = self.prose.closed().len();
            self.prose.push(more);
            self.consumed = text.len();
            self.stable_length += utf16_length(&self.prose.closed()[before..]);
        }
        let bytes = self.prose.closed().len();
        let mark = StableMark { rev, bytes, length: self.stable_length };
        match self.marks.back_mut() {
            Some(last) if last.rev >= rev => *last = mark,
            _ => self.marks.push_back(mark),
        }
        if self.marks.len() > MAX_MARKS {
            self.marks.pop_front();
        }
    }

    /// The stable HTML that was added after a revision, and the offset where it starts; `None` if
    /// the revision is not remembered.
    pub(super) fn added_since(&self, rev: Revision) -> Option<(u64, &str)> {
        let known = self.marks.partition_point(|mark| mark.rev <= rev).checked_sub(1)?;
        let StableMark { bytes, length, .. } = self.marks[known];
        Some((length, &self.prose.closed()[bytes..]))
    }

    pub(super) fn stable(&self) -> &str {
        self.prose.closed()
    }

    /// In UTF-16 code units.
    pub(super) fn stable_length(&self) -> u64 {
        self.stable_length
    }

    pub(super) fn tail(&mut self) -> &str {
        self.prose.open()
    }
}

fn utf16_length(text: &str) -> u64 {
    text.encode_utf16().count() as u64
}

#[cfg(test)]
mod tests {
    use super::StreamedText;
    use view::Revision;

    #[test]
    fn appended_parts_add_up_to_the_stable_html() {
        let text = "# Dög 🐕\n\none\n\n- a\n- b\n\nend\n\n";
        let mut streamed = StreamedText::default();
        let (mut appended, mut known) = (String::new(), Revision(0));
        streamed.catch_up("", Revision(0));
        let ends = text.char_indices().map(|(at, char)| at + char.len_utf8());
        for (number, end) in ends.enumerate() {
            let now = Revision(number as u64 + 1);
            streamed.catch_up(&text[..end], now);
            if number % 3 == 0 {
                let (offset, html) = streamed.added_since(known).unwrap();
                assert_eq!(offset, appended.encode_utf16().count() as u64);
                appended.push_str(html);
                known = now;
            }
        }
        appended.push_str(streamed.added_since(known).unwrap().1);
        assert_eq!(appended, streamed.stable());
        assert!(appended.contains("<h1>") && appended.contains("🐕"), "{appended}");
    }
}
