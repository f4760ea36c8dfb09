//! Addresses that stand in text as they are, without Markdown's brackets.

use super::Address;

/// A stretch of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stretch<'a> {
    /// Words.
    Plain(&'a str),
    /// An address of the web.
    Link(Address<'a>),
}

/// Cuts text into words and the addresses of the web among them.
///
/// An address ends before white space or `<`, and gives back the punctuation behind it and a closing
/// bracket it did not open.
pub fn stretches(text: &str) -> impl Iterator<Item = Stretch<'_>> {
    let mut rest = text;
    let mut pending = None;
    std::iter::from_fn(move || {
        if let Some(link) = pending.take() {
            return Some(Stretch::Link(link));
        }
        if rest.is_empty() {
            return None;
        }
        let Some((start, link)) = next_link(rest) else {
            return Some(Stretch::Plain(std::mem::take(&mut rest)));
        };
        let words = &rest[..start];
        rest = &rest[start + link.as_str().len()..];
        if words.is_empty() {
            return Some(Stretch::Link(link));
        }
        pending = Some(link);
        Some(Stretch::Plain(words))
    })
}

/// The first address and where it begins.
fn next_link(text: &str) -> Option<(usize, Address<'_>)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("http") {
        let start = from + found;
        let stands_alone = !text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '/');
        let candidate = trimmed(&text[start..]);
        if stands_alone && let Some(address) = Address::safe(candidate) {
            return Some((start, address));
        }
        from = start + "http".len();
    }
    None
}

fn trimmed(text: &str) -> &str {
    let end = text
        .find(|c: char| c.is_whitespace() || matches!(c, '<' | '"' | '`'))
        .unwrap_or(text.len());
    let mut link = &text[..end];
    loop {
        let Some(last) = link.chars().last() else { return link };
        let unopened = |open, close| link.matches(open).count() < link.matches(close).count();
        let given_back = match last {
            '.' | ',' | ':' | ';' | '!' | '?' | '\'' | '*' | '_' | '~' => true,
            ')' => unopened('(', ')'),
            ']' => unopened('[', ']'),
            _ => false,
        };
        if !given_back {
            return link;
        }
        link = &link[..link.len() - last.len_utf8()];
    }
}

#[cfg(test)]
mod tests {
    use super::{Stretch, stretches};

    #[track_caller]
    fn check(text: &str, links: &[&str]) {
        let found: Vec<_> = stretches(text).collect();
        let whole: String = found
            .iter()
            .map(|stretch| match stretch {
                Stretch::Plain(text) => text,
                Stretch::Link(link) => link.as_str(),
            })
            .collect();
        assert_eq!(whole, text);
        let found: Vec<_> = found
            .iter()
            .filter_map(|stretch| match stretch {
                Stretch::Plain(_) => None,
                Stretch::Link(link) => Some(link.as_str()),
            })
            .collect();
        assert_eq!(found, links);
    }

    #[test]
    fn addresses_are_found_without_the_punctuation_around_them() {
        check("", &[]);
        check("no link", &[]);
        check("https://a.b", &["https://a.b"]);
        check("see https://a.b/c, then (http://d/e).", &["https://a.b/c", "http://d/e"]);
        check("https://a/b_(c)!", &["https://a/b_(c)"]);
        check("xhttps://a http:// https", &[]);
        check("https://ä/ö\u{a0}ü", &["https://ä/ö"]);
    }
}
