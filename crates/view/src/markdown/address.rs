//! Where a link may lead.
//!
//! Addresses are let through by what they begin with, and nothing else is looked at: a list of what
//! is forbidden would have to know every spelling of `javascript:` that some browser understands.

/// The address of a link that may be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a>(&'a str);

impl<'a> Address<'a> {
    /// The address, if it is one of the web or of a mailbox.
    ///
    /// Relative addresses are refused too: an agent's `src/main.rs` leads nowhere in a browser or a
    /// chat.
    pub fn safe(text: &'a str) -> Option<Self> {
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

    /// As text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

/// Whether a character turns the direction of the text behind it, so that what is read is not what
/// is there.
pub(crate) fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn only_the_web_and_mailboxes_are_let_through() {
        for good in ["http://a", "HTTPS://a/b?c#d", "mailto:a@b.c", " https://a "] {
            assert!(Address::safe(good).is_some(), "{good}");
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
            assert!(Address::safe(bad).is_none(), "{bad}");
        }
    }
}
