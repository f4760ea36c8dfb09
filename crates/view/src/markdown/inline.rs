//! Events of a block whose text still has placeholders of formulas and references to footnotes.

use std::collections::VecDeque;

use pulldown_cmark::{CowStr, Event, Tag, TagEnd};

use super::formula::{Formula, FormulaKind, PLACEHOLDER};

/// Splits text into formulas, references to footnotes and other text.
pub(super) struct InlineSplitter<'a, I> {
    events: I,
    formulas: std::vec::IntoIter<Formula>,
    waiting: VecDeque<Event<'a>>,
    in_code: bool,
}

impl<'a, I: Iterator<Item = Event<'a>>> InlineSplitter<'a, I> {
    pub(super) fn new(events: I, formulas: Vec<Formula>) -> Self {
        let formulas = formulas.into_iter();
        Self { events, formulas, waiting: VecDeque::new(), in_code: false }
    }

    fn split(&mut self, text: &str) {
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find([PLACEHOLDER, '[']) {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(behind) = rest.strip_prefix(PLACEHOLDER)
                && let Some(formula) = self.formulas.next()
            {
                rest = behind;
                let event = match formula.kind {
                    FormulaKind::Inline => Event::InlineMath(formula.text.into()),
                    FormulaKind::Display => Event::DisplayMath(formula.text.into()),
                    FormulaKind::Unfinished => Event::Text(formula.text.into()),
                };
                self.push(&mut plain, event);
            } else if let Some((label, behind)) = footnote_reference(rest) {
                rest = behind;
                self.push(&mut plain, Event::FootnoteReference(label.to_owned().into()));
            } else {
                let next = rest.chars().next().map_or(1, char::len_utf8);
                plain.push_str(&rest[..next]);
                rest = &rest[next..];
            }
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            self.waiting.push_back(Event::Text(plain.into()));
        }
    }

    fn push(&mut self, plain: &mut String, event: Event<'a>) {
        if !plain.is_empty() {
            self.waiting.push_back(Event::Text(std::mem::take(plain).into()));
        }
        self.waiting.push_back(event);
    }
}

impl<'a, I: Iterator<Item = Event<'a>>> Iterator for InlineSplitter<'a, I> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let event = self.events.next()?;
            match &event {
                Event::Start(Tag::CodeBlock(_)) => self.in_code = true,
                Event::End(TagEnd::CodeBlock) => self.in_code = false,
                Event::Text(text)
                    if !self.in_code && (text.contains(PLACEHOLDER) || text.contains("[^")) =>
                {
                    let text: CowStr<'a> = text.clone();
                    self.split(&text);
                    continue;
                }
                Event::FootnoteReference(label) if !is_footnote_label(label) => {
                    return Some(Event::Text(format!("[^{label}]").into()));
                }
                _ => {}
            }
            return Some(event);
        }
    }
}

/// The label of the reference to a footnote that `text` begins with, and the text behind it.
///
/// The definition is behind it, usually in a block that has not arrived. So references are known by
/// their labels alone.
fn footnote_reference(text: &str) -> Option<(&str, &str)> {
    let (label, behind) = text.strip_prefix("[^")?.split_once(']')?;
    is_footnote_label(label).then_some((label, behind))
}

/// Whether a label is a number, or a word with a number. `[^abc]` and `[^0-9]` are more often regular
/// expressions.
fn is_footnote_label(label: &str) -> bool {
    let digits =
        label.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '-' || c == '_');
    label == "note"
        || (label.len() <= 24
            && (1..=3).contains(&digits.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
