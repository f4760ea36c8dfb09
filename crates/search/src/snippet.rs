//! The part of a text that is shown with a result.

use crate::query::PhraseMatch;

/// How much is shown before the first match, and in all, in bytes.
const BEFORE: usize = 60;
const LENGTH: usize = 240;

/// A part of a snippet. Texts are as the agent wrote them, without control characters: a client must
/// escape them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnippetPart {
    pub text: String,
    pub is_match: bool,
}

/// The part of a text with the most of what is looked for.
pub(crate) fn snippet(text: &str, matches: &[PhraseMatch]) -> Vec<SnippetPart> {
    let best = best_match(matches);
    let mut start = text.floor_char_boundary(best.saturating_sub(BEFORE));
    if start > 0 {
        // Not in the middle of a word, if there is a space.
        let space = text[start..best].find(char::is_whitespace);
        start += space.unwrap_or(0);
    }
    let mut end = text.floor_char_boundary((start + LENGTH).min(text.len()));
    if end < text.len() {
        let space = text[start..end].rfind(char::is_whitespace).map(|it| start + it);
        end = space.filter(|space| *space > best + LENGTH / 4).unwrap_or(end);
    }
    let mut parts = SnippetParts::default();
    if !text[..start].trim().is_empty() {
        parts.push("…", false);
    }
    let mut at = start;
    for PhraseMatch { place, .. } in matches {
        let (from, to) = (place.start.max(at), place.end.min(end));
        if from >= to {
            continue;
        }
        parts.push(&text[at..from], false);
        parts.push(&text[from..to], true);
        at = to;
    }
    parts.push(&text[at..end], false);
    if !text[end..].trim().is_empty() {
        parts.push("…", false);
    }
    parts.0
}

/// The match with the most different ones behind it, the first of them.
fn best_match(matches: &[PhraseMatch]) -> usize {
    let count = |index: usize| {
        let first = &matches[index];
        let near = matches[index..].iter();
        let near = near.take_while(|it| it.place.end <= first.place.start + LENGTH - BEFORE);
        let mut phrases: Vec<usize> = near.map(|it| it.phrase).collect();
        phrases.sort_unstable();
        phrases.dedup();
        phrases.len()
    };
    let best = (0..matches.len()).max_by_key(|index| (count(*index), std::cmp::Reverse(*index)));
    best.map_or(0, |index| matches[index].place.start)
}

#[derive(Default)]
struct SnippetParts(Vec<SnippetPart>);

impl SnippetParts {
    /// Appends text in one line.
    fn push(&mut self, text: &str, is_match: bool) {
        let mut ends_with_space = self.0.last().is_none_or(|part| part.text.ends_with(' '));
        let mut line = String::with_capacity(text.len());
        for character in text.chars() {
            if character.is_whitespace() || character.is_control() {
                if !ends_with_space {
                    line.push(' ');
                }
                ends_with_space = true;
            } else {
                line.push(character);
                ends_with_space = false;
            }
        }
        match self.0.last_mut() {
            _ if line.is_empty() => {}
            Some(last) if last.is_match == is_match && !is_match => last.text.push_str(&line),
            _ => self.0.push(SnippetPart { text: line, is_match }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::snippet;
    use crate::query::SearchQuery;

    fn show(query: &str, text: &str) -> String {
        let matches = SearchQuery::parse(query).matches(text).unwrap();
        let parts = snippet(text, &matches).into_iter();
        parts.map(|it| if it.is_match { format!("[{}]", it.text) } else { it.text }).collect()
    }

    #[test]
    fn a_snippet_has_the_most_matches_in_one_line() {
        assert_eq!(show("two", "one\n\n  two \u{7}three"), "one [two] three");
        let far = format!("alpha {} and then alpha beta, {}", "x ".repeat(300), "y ".repeat(300));
        let shown = show("alpha bet", &far);
        assert!(shown.starts_with("… x x") && shown.contains("then [alpha] [beta], y"), "{shown}");
        assert!(shown.ends_with('…') && shown.len() < 300, "{shown}");
        assert_eq!(show("检索", "全文检索很快"), "全文[检索]很快");
        let one_word = "é".repeat(5000) + " word";
        assert!(show("word", &one_word).ends_with(" [word]"));
    }

    proptest! {
        #[test]
        fn every_text_has_a_snippet(text in "\\PC{0,600}", query in "[a-zé全]{1,3}") {
            if let Some(matches) = SearchQuery::parse(&query).matches(&text) {
                let parts = snippet(&text, &matches);
                prop_assert!(parts.iter().any(|part| part.is_match));
                let length: usize = parts.iter().map(|part| part.text.len()).sum();
                prop_assert!(length <= super::LENGTH + 100);
            }
        }
    }
}
