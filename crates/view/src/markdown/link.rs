//! Links: which URLs are safe to follow, and URLs in plain text.
//!
//! URLs are allowed by what they begin with. A list of forbidden ones would have to know every
//! spelling of `javascript:` that some browser understands.

/// A URL that is safe to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafeUrl<'a>(&'a str);

impl<'a> SafeUrl<'a> {
    /// The URL, if it leads to the web or a mailbox.
    ///
    /// Relative URLs are rejected too: an agent's `src/main.rs` leads nowhere in a browser or a chat.
    pub fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim_ascii();
        let behind = |scheme: &str| {
            let start = text.get(..scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then(|| &text[scheme.len()..])
        };
        let rest =
            behind("https://").or_else(|| behind("http://")).or_else(|| behind("mailto:"))?;
        let clean = !rest.is_empty()
            && !rest.starts_with(['/', '\\'])
            && !text.chars().any(|c| c.is_control() || is_direction_mark(c));
        clean.then_some(Self(text))
    }

    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// Whether a character changes the direction of the text behind it, which can make text read
/// differently from what it is.
pub(crate) fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextSegment<'a> {
    Plain(&'a str),
    Link(SafeUrl<'a>),
}

/// Splits text into plain parts and web URLs.
///
/// A URL ends before white space or `<`. It does not include punctuation at its end, or a closing
/// bracket that it did not open.
pub fn segments(text: &str) -> impl Iterator<Item = TextSegment<'_>> {
    let mut rest = text;
    let mut pending = None;
    std::iter::from_fn(move || {
        if let Some(link) = pending.take() {
            return Some(TextSegment::Link(link));
        }
        if rest.is_empty() {
            return None;
        }
        let Some((start, link)) = next_link(rest) else {
            return Some(TextSegment::Plain(std::mem::take(&mut rest)));
        };
        let plain = &rest[..start];
        rest = &rest[start + link.as_str().len()..];
        if plain.is_empty() {
            return Some(TextSegment::Link(link));
        }
        pending = Some(link);
        Some(TextSegment::Plain(plain))
    })
}

/// The first URL and where it begins.
fn next_link(text: &str) -> Option<(usize, SafeUrl<'_>)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("http") {
        let start = from + found;
        let stands_alone = !text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '/');
        let candidate = trimmed(&text[start..]);
        if stands_alone && let Some(url) = SafeUrl::parse(candidate) {
            return Some((start, url));
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
        let excluded = match last {
            '.' | ',' | ':' | ';' | '!' | '?' | '\'' | '*' | '_' | '~' => true,
            ')' => unopened('(', ')'),
            ']' => unopened('[', ']'),
            _ => false,
        };
        if !excluded {
            return link;
        }
        link = &link[..link.len() - last.len_utf8()];
    }
}

#[cfg(test)]
mod tests {
    use super::SafeUrl;

    #[test]
    fn only_the_web_and_mailboxes_are_allowed() {
        for good in ["http://a", "HTTPS://a/b?c#d", "mailto:a@b.c", " https://a "] {
            assert!(SafeUrl::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "a",
            "/a",
            "//evil",
            "#a",
            "a/b.rs",
            "http:",
            "http://",
            "http:/evil",
            "https:///x",
            "https://\\evil",
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "java\tscript:alert(1)",
            "\u{1}javascript:alert(1)",
            "javascript&colon;alert(1)",
            "data:text/html,<script>",
            "vbscript:x",
            "file:///etc/passwd",
            "ftp://a",
            "blob:https://a",
            "https://a\u{202e}b",
            "https://a\nb",
            "view-source:https://a",
            "jar:https://a",
            "about:blank",
            "intent://x",
            "ｈttps://a",
            "https：//a",
        ] {
            assert!(SafeUrl::parse(bad).is_none(), "{bad}");
        }
    }
}

#[cfg(test)]
mod segment_tests {
    use super::{TextSegment, segments};

    #[track_caller]
    fn check(text: &str, links: &[&str]) {
        let found: Vec<_> = segments(text).collect();
        let whole: String = found
            .iter()
            .map(|segment| match segment {
                TextSegment::Plain(text) => text,
                TextSegment::Link(link) => link.as_str(),
            })
            .collect();
        assert_eq!(whole, text);
        let found: Vec<_> = found
            .iter()
            .filter_map(|segment| match segment {
                TextSegment::Plain(_) => None,
                TextSegment::Link(link) => Some(link.as_str()),
            })
            .collect();
        assert_eq!(found, links);
    }

    #[test]
    fn urls_are_found_without_the_punctuation_around_them() {
        check("", &[]);
        check("no link", &[]);
        check("https://a.b", &["https://a.b"]);
        check("see https://a.b/c, then (http://d/e).", &["https://a.b/c", "http://d/e"]);
        check("https://a/b_(c)!", &["https://a/b_(c)"]);
        check("xhttps://a http:// https", &[]);
        check("https://ä/ö\u{a0}ü", &["https://ä/ö"]);
    }
}
