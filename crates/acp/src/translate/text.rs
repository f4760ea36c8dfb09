//! How much of a growing text was sent.

use std::hash::{DefaultHasher, Hasher as _};

/// How many bytes of text go into one line. Some clients accept no line of more than 64 KiB, and JSON
/// takes more room than the text.
pub(super) const MAX_TEXT: usize = 16 << 10;

/// Splits off as much text as goes into one line.
pub(super) fn split_text(text: &str) -> (&str, &str) {
    text.split_at(text.floor_char_boundary(MAX_TEXT))
}

/// The beginning of a text that is too long for one line, and how much is missing.
pub(super) fn excerpt(text: &str) -> String {
    let (first, rest) = split_text(text);
    match rest.len() {
        0 => first.to_owned(),
        bytes => format!("{first}\n… ({bytes} more bytes)"),
    }
}

/// What was sent of a text: its length, and a hash to notice if the text is another one.
#[derive(Debug, Default)]
pub(super) struct SentText {
    bytes: usize,
    /// The same length in UTF-16 code units, as patches count.
    units: u64,
    hash: DefaultHasher,
}

/// What has happened to a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextChange {
    None,
    /// It has grown, and what is behind this offset is new.
    Added(usize),
    /// It is another text.
    Replaced,
}

impl SentText {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Compares the text with what was sent; all of it counts as sent from now on.
    ///
    /// `appended` is the offset at which the text is known to have grown. Then nothing before it is
    /// compared, so that a long text that grows word by word takes linear time.
    pub(super) fn advance(&mut self, text: &str, appended: Option<u64>) -> TextChange {
        let from = self.bytes;
        let is_known = appended == Some(self.units);
        let is_same = text.is_char_boundary(from) && (is_known || self.is_prefix_of(text));
        if !is_same {
            *self = Self::default();
        } else if from == text.len() {
            return TextChange::None;
        }
        let new = &text[self.bytes..];
        self.hash.write(new.as_bytes());
        self.units += new.chars().map(|it| it.len_utf16() as u64).sum::<u64>();
        self.bytes = text.len();
        if is_same { TextChange::Added(from) } else { TextChange::Replaced }
    }

    fn is_prefix_of(&self, text: &str) -> bool {
        let mut hash = DefaultHasher::new();
        hash.write(&text.as_bytes()[..self.bytes]);
        hash.finish() == self.hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{SentText, TextChange};

    #[test]
    fn a_text_grows_or_is_replaced() {
        let mut sent = SentText::default();
        assert_eq!(sent.advance("", None), TextChange::None);
        assert_eq!(sent.advance("añ", None), TextChange::Added(0));
        assert_eq!(sent.advance("añb", None), TextChange::Added(3));
        assert_eq!(sent.advance("añb", None), TextChange::None);
        assert_eq!(sent.advance("aé", None), TextChange::Replaced);
        assert_eq!(sent.advance("aéx", None), TextChange::Added(3));
        assert_eq!(
            sent.advance("aéxy", Some(3)),
            TextChange::Added(4),
            "it is known to have grown"
        );
        assert_eq!(sent.advance("", None), TextChange::Replaced);
    }
}
