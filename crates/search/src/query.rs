//! What a user looks for: words and quoted phrases, all of which must be in a line.
//!
//! A query is any text. There is no syntax that could be wrong: quotes without an end go to the end, and
//! whatever is neither a letter nor a digit separates words.

use std::ops::Range;

use memchr::memmem;

use crate::period::IndexPeriod;
use crate::words::WordList;

/// What is behind that is not looked at.
const MAX_BYTES: usize = 1000;
const MAX_PHRASES: usize = 20;

/// A phrase is marked at most so often in one text.
const MAX_MATCHES: usize = 200;

/// What a user looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchQuery {
    phrases: Vec<SearchPhrase>,
}

/// Words that must follow each other. A name such as `parse_config` is a phrase too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SearchPhrase {
    text: String,
    words: WordList,
    /// What is between the words must be as written.
    quoted: bool,
    /// The last word may go on.
    open: bool,
}

/// Where a phrase is in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhraseMatch {
    /// The number of the phrase in the query.
    pub(crate) phrase: usize,
    /// In bytes.
    pub(crate) place: Range<usize>,
}

/// The words that a line must have, and whether each is only the beginning of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexTerms(Vec<(String, bool)>);

impl IndexTerms {
    /// The expression for the lines of a period. It contains only words in quotes, so nothing in it is an
    /// operator.
    pub(crate) fn expression(&self, period: IndexPeriod) -> String {
        let mut expression = String::new();
        for (term, open) in &self.0 {
            expression.push_str(if expression.is_empty() { "\"" } else { " AND \"" });
            period.push_code(&mut expression);
            expression.push_str(term);
            expression.push_str(if *open { "\"*" } else { "\"" });
        }
        expression
    }
}

impl SearchQuery {
    pub(crate) fn parse(text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_BYTES)];
        let mut phrases = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find(|it: char| !it.is_whitespace()) {
            rest = &rest[start..];
            let is_quote = |it: char| matches!(it, '"' | '“' | '”' | '„');
            let first = rest.chars().next().filter(|it| is_quote(*it));
            let (phrase, closed) = if let Some(quote) = first {
                rest = &rest[quote.len_utf8()..];
                let (phrase, after) = rest.split_at(rest.find(is_quote).unwrap_or(rest.len()));
                let mut others = after.chars();
                let closed = others.next().is_some();
                rest = others.as_str();
                (phrase, closed)
            } else {
                let is_end = |it: char| it.is_whitespace() || is_quote(it);
                let (word, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
                rest = after;
                (word, false)
            };
            let words = WordList::new(phrase);
            let quoted = first.is_some();
            // A dash or a star between words is not looked for. In quotes, everything is.
            if words.is_empty() && (!quoted || phrase.trim().is_empty()) {
                continue;
            }
            let is_last = rest.trim().is_empty();
            let text = phrase.to_owned();
            phrases.push(SearchPhrase { text, words, quoted, open: is_last && !closed });
        }
        phrases.truncate(MAX_PHRASES);
        Self { phrases }
    }

    /// What the index is asked for; none if there is no word to look for.
    pub(crate) fn index_terms(&self) -> Option<IndexTerms> {
        let terms = self.phrases.iter().flat_map(|phrase| phrase.words.query_terms(phrase.open));
        let mut terms: Vec<(String, bool)> = terms.collect();
        terms.sort();
        terms.dedup();
        (!terms.is_empty()).then_some(IndexTerms(terms))
    }

    /// Where the phrases are in a text, in order; none if one of them is not in it.
    pub(crate) fn matches(&self, text: &str) -> Option<Vec<PhraseMatch>> {
        if self.may_match(text) { self.find(text) } else { None }
    }

    /// Whether the words of each phrase follow each other in a text. Dividing the text into words takes
    /// several times as long, and the index proposes many lines in which they are far from each other.
    fn may_match(&self, text: &str) -> bool {
        let is_fast =
            |phrase: &&SearchPhrase| phrase.words.words().len() > 1 && phrase.words.is_ascii();
        let mut phrases = self.phrases.iter().filter(is_fast).peekable();
        if phrases.peek().is_none() || !text.is_ascii() {
            return true;
        }
        let text = text.to_ascii_lowercase();
        phrases.all(|phrase| phrase.is_in_ascii(text.as_bytes()))
    }

    fn find(&self, text: &str) -> Option<Vec<PhraseMatch>> {
        let words = WordList::new(text);
        let mut matches = Vec::new();
        for (number, phrase) in self.phrases.iter().enumerate() {
            let before = matches.len();
            let found =
                phrase.find(text, &words).map(|place| PhraseMatch { phrase: number, place });
            matches.extend(found.take(MAX_MATCHES));
            if matches.len() == before {
                return None;
            }
        }
        matches.sort_by_key(|it| (it.place.start, it.place.end));
        Some(matches)
    }
}

impl SearchPhrase {
    fn find<'a>(
        &'a self,
        text: &'a str,
        words: &'a WordList,
    ) -> Box<dyn Iterator<Item = Range<usize>> + 'a> {
        if self.words.is_empty() {
            let wanted = self.text.trim();
            return Box::new(text.match_indices(wanted).map(|(at, it)| at..at + it.len()));
        }
        let last = (words.words().len() + 1).saturating_sub(self.words.words().len());
        Box::new((0..last).filter_map(|first| self.place_at(text, words, first)))
    }

    /// Whether the words are one after the other in a text in lower case, whatever is between them.
    fn is_in_ascii(&self, text: &[u8]) -> bool {
        let is_word = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphanumeric);
        let begins_at = |start: usize| {
            let mut at = start;
            for index in 0..self.words.words().len() {
                let word = self.words.folded(index).as_bytes();
                while index > 0 && at < text.len() && !is_word(at) {
                    at += 1;
                }
                if !text[at..].starts_with(word) || (at > 0 && is_word(at - 1)) {
                    return false;
                }
                at += word.len();
            }
            self.open || !is_word(at)
        };
        memmem::find_iter(text, self.words.folded(0)).any(begins_at)
    }

    /// Where the phrase is, if it begins with a certain word.
    fn place_at(&self, text: &str, words: &WordList, first: usize) -> Option<Range<usize>> {
        let wanted = self.words.words();
        for index in 0..wanted.len() {
            let (found, word) = (words.folded(first + index), self.words.folded(index));
            let is_open = self.open && index + 1 == wanted.len();
            if found != word && !(is_open && found.starts_with(word)) {
                return None;
            }
        }
        let found = &words.words()[first..first + wanted.len()];
        let place = found.first()?.place.start..found.last()?.place.end;
        for (two, wanted_two) in found.windows(2).zip(wanted.windows(2)) {
            let gap = &text[two[0].place.end..two[1].place.start];
            let wanted_gap = &self.text[wanted_two[0].place.end..wanted_two[1].place.start];
            // Characters of a script without spaces are side by side in both.
            let fits = if self.quoted || wanted_gap.is_empty() {
                collapse(gap) == collapse(wanted_gap)
            } else {
                true
            };
            if !fits {
                return None;
            }
        }
        (!self.quoted || self.is_written_around(text, &place)).then_some(place)
    }

    /// Whether what is in the quotes before the first word and behind the last one is there too.
    fn is_written_around(&self, text: &str, place: &Range<usize>) -> bool {
        let (Some(first), Some(last)) = (self.words.words().first(), self.words.words().last())
        else {
            return true;
        };
        let before = collapse(self.text[..first.place.start].trim_start());
        let after = collapse(self.text[last.place.end..].trim_end());
        let near = 4 * MAX_BYTES;
        let start = text.ceil_char_boundary(place.start.saturating_sub(near));
        let end = text.floor_char_boundary((place.end + near).min(text.len()));
        (before.is_empty() || collapse(&text[start..place.start]).ends_with(&before))
            && (after.is_empty() || collapse(&text[place.end..end]).starts_with(&after))
    }
}

/// A text with one space for each run of white space.
fn collapse(text: &str) -> String {
    let mut collapsed = String::with_capacity(text.len());
    for character in text.chars() {
        if !character.is_whitespace() {
            collapsed.push(character);
        } else if !collapsed.ends_with(' ') {
            collapsed.push(' ');
        }
    }
    collapsed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::SearchQuery;
    use crate::period::IndexPeriod;

    fn found(query: &str, text: &str) -> Option<Vec<String>> {
        let matches = SearchQuery::parse(query).matches(text)?;
        Some(matches.into_iter().map(|it| text[it.place].to_owned()).collect())
    }

    #[test]
    fn all_words_must_be_there_and_the_last_one_may_go_on() {
        let text = "Fixed the Größe of `parse_config`; see README.md";
        let some = |words: &[&str]| Some(words.iter().map(|it| (*it).to_owned()).collect());
        for (query, expected) in [
            ("fixed grö", some(&["Fixed", "Größe"])),
            ("fix größe", None),
            ("FIXED groß", some(&["Fixed", "Größe"])),
            ("parse_conf", some(&["parse_config"])),
            ("config parsed", None),
            ("config pars", some(&["parse", "config"])),
            ("\"of `parse\"", some(&["of `parse"])),
            ("\"of parse\"", None),
            ("\"the größe\" read", some(&["the Größe", "README"])),
            ("\"the grö\"", None),
            ("\"the grö", some(&["the Größe"])),
            ("readme.md", some(&["README.md"])),
            ("\"README.md\"", some(&["README.md"])),
            ("\"`;\" see", some(&["`;", "see"])),
            ("\"; see\"", some(&["see"])),
            ("\". see\"", None),
            ("", Some(Vec::new())),
        ] {
            assert_eq!(found(query, text), expected, "{query}");
        }
        assert_eq!(found("全文検索", "日本語の全文検索です"), some(&["全文検索"]));
        assert_eq!(found("全索", "日本語の全文検索です"), None);
        assert_eq!(found("文", "日本語の全文検索です"), some(&["文"]));
        assert_eq!(found("\"one  two\"", "one\n\ttwo"), some(&["one\n\ttwo"]));
    }

    #[test]
    fn words_that_are_far_from_each_other_are_no_phrase() {
        let may_match = |query: &str, text: &str| SearchQuery::parse(query).may_match(text);
        for (query, text, expected) in [
            ("\"parse config\"", "parse the config", false),
            ("\"parse config\"", "reparse config, Parse -\n CONFIG", true),
            ("\"parse config\"", "parse configs", false),
            ("\"parse conf", "parse configs", true),
            ("parse_conf", "a parse_config b", true),
            ("parse_conf", "parse, but no config", false),
            ("parse config", "config, parse", true),
            ("\"parse config\"", "é: it is not known", true),
        ] {
            assert_eq!(may_match(query, text), expected, "{query} in {text}");
        }
    }

    #[test]
    fn nothing_in_a_query_is_an_operator() {
        let expression = |text: &str| {
            let terms = SearchQuery::parse(text).index_terms();
            terms.map(|it| it.expression(IndexPeriod::of_row(0)))
        };
        let expected = "\"00a\" AND \"00bc\"* AND \"00or\"".to_owned();
        assert_eq!(expression("a OR bc*"), Some(expected));
        assert_eq!(expression("NEAR(x, 2) col:y -z ^q "), expression("near x 2 col y z q"));
        for nothing in ["", "  ", "\"", "\"\"", "*", "- : ^ (", "\"->\"", "\u{0}"] {
            assert_eq!(expression(nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn a_text_without_a_phrase_is_recognized_before_it_is_divided(
            query in "[\"]?[ab_A]{1,3}[ ._][ab]{1,2}[\" ]?[ab]{0,2}",
            text in "[abAB ._é-]{0,30}",
        ) {
            let query = SearchQuery::parse(&query);
            let found = query.find(&text);
            prop_assert!(found.is_none() || query.may_match(&text));
            prop_assert_eq!(query.matches(&text), found);
        }

        #[test]
        fn any_query_on_any_text_is_answered(query in ".{0,40}", text in ".{0,200}") {
            let parsed = SearchQuery::parse(&query);
            let _ = parsed.index_terms().map(|it| it.expression(IndexPeriod::of_row(7)));
            for it in parsed.matches(&text).unwrap_or_default() {
                prop_assert!(text.get(it.place).is_some());
            }
            // A text contains its own words.
            let itself = SearchQuery::parse(&text.replace(['"', '“', '”', '„'], " "));
            if itself.index_terms().is_some() {
                prop_assert!(itself.matches(&text).is_some(), "{:?}", itself);
            }
        }
    }
}
