//! Text cut up as a model's tokens come: roughly a word each.

/// Longer runs without a space, such as JSON or base64, come in pieces of this many bytes.
const LONGEST: usize = 12;

/// A text of more pieces than this comes in larger ones: a reply of 5 MB is there to be large, not to
/// be a million events.
const MOST: usize = 10_000;

/// Cuts a text into pieces that give it back when put together; none if it is empty.
pub(super) fn pieces(text: &str) -> Pieces<'_> {
    Pieces { rest: text, least: text.len() / MOST }
}

/// The pieces of a text.
pub(super) struct Pieces<'a> {
    rest: &'a str,
    least: usize,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        // A token carries the space before its word.
        let word = self.rest.find(|it: char| !it.is_whitespace()).unwrap_or(self.rest.len());
        let ends =
            self.rest[word..].find(char::is_whitespace).map_or(self.rest.len(), |at| word + at);
        let end = ends.min(word + LONGEST).max(self.least.min(self.rest.len()));
        let (piece, rest) = self.rest.split_at(self.rest.ceil_char_boundary(end));
        self.rest = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn words_come_one_by_one_with_the_space_before_them() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("Hello", &["Hello"]),
            ("It says: remember the milk", &["It", " says:", " remember", " the", " milk"]),
            ("a\n\n  b ", &["a", "\n\n  b", " "]),
            ("   ", &["   "]),
            ("0123456789abcdef", &["0123456789ab", "cdef"]),
            ("日本語日本語", &["日本語日", "本語"]),
            ("ééééééééé", &["éééééé", "ééé"]),
        ];
        for (text, expected) in cases {
            assert_eq!(pieces(text).collect::<Vec<_>>(), *expected, "{text}");
        }
    }

    #[test]
    fn a_huge_text_comes_whole_in_a_bounded_number_of_pieces() {
        let text = "größer ".repeat(1_000_000);
        let all: Vec<&str> = pieces(&text).collect();
        assert!(all.len() <= 10_001, "{}", all.len());
        assert_eq!(all.concat(), text);
    }
}
