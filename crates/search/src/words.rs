//! Words: how text is folded and divided, in the same way for what is indexed and what is searched.
//!
//! Folding removes case and diacritics. A word is a run of letters and digits; everything else
//! separates. Scripts that do not separate words with spaces (Chinese, Japanese, Thai and others) have
//! one word for each character here, and pairs of neighbours in the index.

use std::collections::HashSet;
use std::ops::Range;

use unicode_normalization::char::decompose_compatible;

/// Longer words are cut in the index. That bounds what hashes and keys cost; a result is compared with
/// the whole word before it is shown.
const MAX_TERM_BYTES: usize = 28;

/// A text divided into words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WordList {
    /// The folded words, one after the other.
    folded: String,
    words: Vec<Word>,
}

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    folded: Range<usize>,
    /// Where it is in the text, in bytes.
    pub(crate) place: Range<usize>,
    /// It is one character of a script without spaces.
    unspaced: bool,
}

impl WordList {
    pub(crate) fn new(text: &str) -> Self {
        let mut this = Self::default();
        this.read(text);
        this
    }

    /// Divides another text, and reuses the memory.
    pub(crate) fn read(&mut self, text: &str) {
        self.folded.clear();
        self.words.clear();
        let mut start: Option<(usize, usize)> = None;
        let mut at = 0;
        while let Some(character) = text[at..].chars().next() {
            let before = self.folded.len();
            if character.is_ascii_alphanumeric() {
                // Most text is this, and a run of it is folded at once.
                let rest = &text.as_bytes()[at..];
                let length = rest.iter().position(|byte| !byte.is_ascii_alphanumeric());
                let end = length.map_or(text.len(), |length| at + length);
                start.get_or_insert((at, before));
                self.folded.push_str(&text[at..end]);
                self.folded[before..].make_ascii_lowercase();
                at = end;
                continue;
            }
            let end = at + character.len_utf8();
            if is_unspaced(character) {
                self.end_word(start.take(), at);
                let before = self.folded.len();
                self.folded.push(character);
                let folded = before..self.folded.len();
                self.words.push(Word { folded, place: at..end, unspaced: true });
            } else if is_word_character(character) {
                start.get_or_insert((at, before));
                fold(character, &mut self.folded);
            } else {
                self.end_word(start.take(), at);
            }
            at = end;
        }
        self.end_word(start, text.len());
    }

    fn end_word(&mut self, start: Option<(usize, usize)>, end: usize) {
        let Some((at, folded)) = start else { return };
        // A word of nothing but diacritics is none.
        if folded < self.folded.len() {
            let folded = folded..self.folded.len();
            self.words.push(Word { folded, place: at..end, unspaced: false });
        }
    }

    pub(crate) fn words(&self) -> &[Word] {
        &self.words
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether all words have only ASCII characters when they are folded.
    pub(crate) fn is_ascii(&self) -> bool {
        self.folded.is_ascii()
    }

    pub(crate) fn folded(&self, index: usize) -> &str {
        &self.folded[self.words[index].folded.clone()]
    }

    /// Calls `add` with every term that the index has for the text. Those of scripts without spaces are
    /// two characters long, and one at the end of a run.
    pub(crate) fn index_terms<'a>(&'a self, mut add: impl FnMut(&'a str)) {
        for (index, word) in self.words.iter().enumerate() {
            if !word.unspaced {
                add(cut(&self.folded[word.folded.clone()]));
                continue;
            }
            let end = match self.words.get(index + 1) {
                Some(next) if next.unspaced && next.place.start == word.place.end => {
                    next.folded.end
                }
                _ => word.folded.end,
            };
            add(&self.folded[word.folded.start..end]);
        }
    }

    /// The terms to look for, and whether each is the beginning of one. `open` means that the last word
    /// may go on.
    pub(crate) fn query_terms(&self, open: bool) -> Vec<(String, bool)> {
        let mut terms = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            let is_last = index + 1 == self.words.len();
            let text = &self.folded[word.folded.clone()];
            if !word.unspaced {
                let term = cut(text);
                // What begins with a letter is almost everything, and takes long to find.
                let is_open = open && is_last && term.len() == text.len() && text.len() > 1;
                terms.push((term.to_owned(), is_open));
                continue;
            }
            let follows = |other: &Word, one: &Word| {
                other.unspaced && one.unspaced && other.place.start == one.place.end
            };
            match self.words.get(index + 1) {
                Some(next) if follows(next, word) => {
                    let pair = &self.folded[word.folded.start..next.folded.end];
                    terms.push((pair.to_owned(), false));
                }
                // The pair before contains it.
                _ if index > 0 && follows(word, &self.words[index - 1]) => {}
                _ => terms.push((text.to_owned(), true)),
            }
        }
        terms
    }
}

/// The terms of a text, each one once, separated by spaces.
#[derive(Debug, Default)]
pub(crate) struct TermCollector {
    words: WordList,
    seen: HashSet<Box<str>>,
}

impl TermCollector {
    pub(crate) fn collect(&mut self, text: &str) -> String {
        self.words.read(text);
        self.seen.clear();
        let mut terms = String::new();
        let seen = &mut self.seen;
        self.words.index_terms(|term| {
            if !seen.contains(term) {
                seen.insert(term.into());
                terms.push_str(term);
                terms.push(' ');
            }
        });
        terms
    }
}

fn cut(term: &str) -> &str {
    if term.len() <= MAX_TERM_BYTES {
        return term;
    }
    &term[..term.floor_char_boundary(MAX_TERM_BYTES)]
}

/// Appends a character without its case and diacritics. The result has only characters that SQLite's
/// tokenizer leaves together.
pub(crate) fn fold(character: char, out: &mut String) {
    if character.is_ascii() {
        return out.push(character.to_ascii_lowercase());
    }
    if matches!(character, '\u{ac00}'..='\u{d7a3}') {
        // Hangul syllables would be taken apart.
        return out.push(character);
    }
    decompose_compatible(character, |part| {
        for lower in part.to_lowercase() {
            match lower {
                'ς' => out.push('σ'),
                _ if is_diacritic(lower) => {}
                _ if is_word_character(lower) => out.push(lower),
                _ => {}
            }
        }
    });
}

pub(crate) fn is_word_character(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric();
    }
    character.is_alphanumeric() || is_diacritic(character)
}

fn is_diacritic(character: char) -> bool {
    matches!(character,
        '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5bd}' | '\u{64b}'..='\u{65f}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}')
}

/// Whether a character belongs to a script that has no spaces between words.
fn is_unspaced(character: char) -> bool {
    if character < '\u{e00}' {
        return false;
    }
    let of_script = matches!(character,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9d}' | '\u{20000}'..='\u{3ffff}');
    // Marks between the letters of these scripts are not punctuation.
    let is_mark = matches!(character, '\u{e31}'..='\u{eff}' | '\u{102b}'..='\u{109f}');
    of_script && (character.is_alphanumeric() || is_mark)
}

#[cfg(test)]
mod tests {
    use super::{TermCollector, WordList};

    fn terms(text: &str) -> String {
        TermCollector::default().collect(text).trim_end().to_owned()
    }

    #[test]
    fn words_lose_case_and_diacritics_and_are_listed_once() {
        for (text, expected) in [
            ("Größe und GRÖSSE: fn parse_config(&self)", "große und grosse fn parse config self"),
            ("Déjà vu, deja VU", "deja vu"),
            ("e\u{301}tude ﬁle ½ ㏂ Ａ１", "etude file 12 a1"),
            ("ΟΔΟΣ οδος", "οδοσ"),
            ("한국어 테스트", "한국어 테스트"),
            ("\u{301}\u{301} --- \0", ""),
            ("全文検索 2つ", "全文 文検 検索 索 2 つ"),
            ("ひらがな、カタカナ", "ひら らが がな な カタ タカ カナ ナ"),
        ] {
            assert_eq!(terms(text), expected, "{text}");
        }
        let long = "a".repeat(100);
        assert_eq!(terms(&long).len(), super::MAX_TERM_BYTES);
    }

    #[test]
    fn a_query_asks_for_the_terms_that_the_index_has() {
        let query = |text: &str, open| WordList::new(text).query_terms(open);
        let exact = |it: &str| (it.to_owned(), false);
        let open = |it: &str| (it.to_owned(), true);
        assert_eq!(query("Parse_con", true), [exact("parse"), open("con")]);
        assert_eq!(query("検索", true), [exact("検索")]);
        assert_eq!(query("検", false), [open("検")]);
        assert_eq!(query("全文検 xy", true), [exact("全文"), exact("文検"), open("xy")]);
        assert_eq!(query("x", true), [exact("x")]);
    }
}
