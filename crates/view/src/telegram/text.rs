//! Formatted text, and how it is split into messages.

/// Plain text with formats on ranges of it. A format that begins inside another ends inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormattedText {
    pub(super) text: String,
    pub(super) formats: Vec<FormatRange>,
}

/// A format and the bytes it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FormatRange {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) format: TextFormat,
}

/// The formats of Telegram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFormat {
    Bold,
    Italic,
    Strike,
    /// Inline code.
    Code,
    /// A code block, with its language if known.
    Block(Option<String>),
    Link(String),
    Quote,
    CollapsedQuote,
}

impl FormattedText {
    /// Text without formats.
    pub fn plain(text: &str) -> Self {
        let mut out = Self::default();
        out.push(text);
        out
    }

    pub fn plain_text(&self) -> &str {
        &self.text
    }

    /// Whether it is blank.
    pub fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// Appends text, without control characters.
    pub fn push(&mut self, text: &str) {
        self.text.extend(text.chars().filter(|&c| !c.is_control() || matches!(c, '\n' | '\t')));
    }

    /// Appends text in a format.
    pub fn push_formatted(&mut self, format: TextFormat, text: &str) {
        let start = self.text.len();
        self.push(text);
        self.format_from(start, format);
    }

    /// Formats everything from `start` on. The new format encloses those already there.
    pub fn format_from(&mut self, start: usize, format: TextFormat) {
        let end = self.text.len();
        if start < end {
            let at = self.formats.partition_point(|range| range.start < start);
            self.formats.insert(at, FormatRange { start, end, format });
        }
    }

    pub fn append(&mut self, other: &Self) {
        let offset = self.text.len();
        self.text.push_str(&other.text);
        self.formats.extend(other.formats.iter().map(|range| FormatRange {
            start: range.start + offset,
            end: range.end + offset,
            format: range.format.clone(),
        }));
    }

    /// Begins a new line, unless the current one is empty.
    pub(super) fn new_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    /// Adds a blank line, unless the text is empty.
    pub(super) fn blank_line(&mut self) {
        self.new_line();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }
}

/// The limit of a message in UTF-16 units, not counting tags.
pub const LIMIT: usize = 4096;

/// The number of formats that Telegram supports in one message.
const MAX_FORMATS: usize = 100;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedMessage {
    /// For `parse_mode: HTML`.
    pub html: String,
    /// The text without tags, for when Telegram rejects them.
    pub plain: String,
}

impl FormattedText {
    /// The text as messages of up to `limit` UTF-16 units each.
    ///
    /// It is split between blocks if possible, else between lines, else between words. It is split
    /// inside code only if there is no other way in the second half of a message.
    pub fn messages(&self, limit: usize) -> Vec<RenderedMessage> {
        let mut messages = Vec::new();
        let mut start = 0;
        while start < self.text.len() {
            let end = self.split(start, limit.max(2));
            let part = &self.text[start..end];
            let from = start + (part.len() - part.trim_start_matches('\n').len());
            let to = start + part.trim_end().len();
            if from < to && !part.trim().is_empty() {
                messages.push(RenderedMessage {
                    html: self.html(from, to),
                    plain: self.text[from..to].to_owned(),
                });
            }
            start = end;
        }
        messages
    }

    /// The end of the message that begins at `start`.
    fn split(&self, start: usize, limit: usize) -> usize {
        let mut end = self.text.len();
        let mut units = 0;
        for (at, c) in self.text[start..].char_indices() {
            units += c.len_utf16();
            if units > limit {
                end = start + at;
                break;
            }
        }
        let inside = self.formats.iter().filter(|range| range.end > start && range.start < end);
        if let Some(extra) =
            inside.skip(MAX_FORMATS).map(|range| range.start).find(|&at| at > start)
        {
            end = end.min(extra);
        }
        if end == self.text.len() {
            return end;
        }
        let part = &self.text[start..end];
        // Splitting in the first half would make too many messages.
        let half = part.floor_char_boundary(part.len() / 2);
        let in_code = |at: usize| {
            self.formats.iter().any(|range| {
                matches!(range.format, TextFormat::Block(_) | TextFormat::Code)
                    && range.start < at
                    && at < range.end
            })
        };
        let last = |separator: &str, free_only: bool| {
            part[half..]
                .rmatch_indices(separator)
                .map(|(at, _)| start + half + at + separator.len())
                .find(|&at| !free_only || !in_code(at))
        };
        last("\n\n", true)
            .or_else(|| last("\n", true))
            .or_else(|| last("\n", false))
            .or_else(|| last(" ", true))
            .unwrap_or(end)
            .max(start + self.text[start..].chars().next().map_or(1, char::len_utf8))
    }

    /// A part of the text with tags.
    fn html(&self, from: usize, to: usize) -> String {
        let mut out = String::new();
        let mut open: Vec<(usize, &TextFormat)> = Vec::new();
        let mut at = from;
        let close_until = |out: &mut String,
                           at: &mut usize,
                           open: &mut Vec<(usize, &TextFormat)>,
                           limit: usize| {
            while let Some(&(end, format)) = open.last().filter(|(end, _)| *end <= limit) {
                escape(&self.text[*at..end], out);
                *at = end;
                format.close(out);
                open.pop();
            }
        };
        for FormatRange { start, end, format } in &self.formats {
            let (start, end) = ((*start).max(from), (*end).min(to));
            if start >= end {
                continue;
            }
            close_until(&mut out, &mut at, &mut open, start);
            // A format that is not properly nested is left out.
            if open.last().is_some_and(|&(outer, _)| outer < end) || !fits(&open, format) {
                continue;
            }
            escape(&self.text[at..start], &mut out);
            at = start;
            format.open(&mut out);
            open.push((end, format));
        }
        close_until(&mut out, &mut at, &mut open, to);
        escape(&self.text[at..to], &mut out);
        out
    }
}

/// Whether Telegram allows a format inside the open ones.
fn fits(open: &[(usize, &TextFormat)], format: &TextFormat) -> bool {
    open.iter().all(|(_, outer)| match outer {
        TextFormat::Code | TextFormat::Block(_) => false,
        TextFormat::Quote | TextFormat::CollapsedQuote => {
            !matches!(format, TextFormat::Quote | TextFormat::CollapsedQuote | TextFormat::Block(_))
        }
        TextFormat::Link(_) => !matches!(format, TextFormat::Link(_) | TextFormat::Block(_)),
        TextFormat::Bold | TextFormat::Italic | TextFormat::Strike => outer != &format,
    })
}

impl TextFormat {
    fn open(&self, out: &mut String) {
        match self {
            Self::Bold => out.push_str("<b>"),
            Self::Italic => out.push_str("<i>"),
            Self::Strike => out.push_str("<s>"),
            Self::Code => out.push_str("<code>"),
            Self::Block(None) => out.push_str("<pre>"),
            Self::Block(Some(language)) => {
                out.push_str("<pre><code class=\"language-");
                escape(language, out);
                out.push_str("\">");
            }
            Self::Link(url) => {
                out.push_str("<a href=\"");
                escape(url, out);
                out.push_str("\">");
            }
            Self::Quote => out.push_str("<blockquote>"),
            Self::CollapsedQuote => out.push_str("<blockquote expandable>"),
        }
    }

    fn close(&self, out: &mut String) {
        out.push_str(match self {
            Self::Bold => "</b>",
            Self::Italic => "</i>",
            Self::Strike => "</s>",
            Self::Code => "</code>",
            Self::Block(None) => "</pre>",
            Self::Block(Some(_)) => "</code></pre>",
            Self::Link(_) => "</a>",
            Self::Quote | Self::CollapsedQuote => "</blockquote>",
        });
    }
}

/// Telegram supports only these four entities.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{FormattedText, RenderedMessage, TextFormat};
    use crate::telegram::markdown;

    fn units(text: &str) -> usize {
        text.encode_utf16().count()
    }

    /// Removes the tags as Telegram does; panics if they are not nested.
    fn parsed(html: &str) -> String {
        let mut out = String::new();
        let mut open = Vec::new();
        let mut rest = html;
        while let Some(start) = rest.find('<') {
            out.push_str(&rest[..start]);
            let end = rest[start..].find('>').expect("a tag ends") + start;
            let tag = &rest[start + 1..end];
            match tag.strip_prefix('/') {
                Some(name) => assert_eq!(open.pop(), Some(name), "{html}"),
                None => open.push(tag.split(' ').next().unwrap()),
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "unclosed {open:?} in {html}");
        out.push_str(rest);
        out.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    }

    #[track_caller]
    fn check(messages: &[RenderedMessage], limit: usize) {
        for message in messages {
            assert_eq!(parsed(&message.html), message.plain);
            assert!(units(&message.plain) <= limit, "{}", units(&message.plain));
            assert!(!message.plain.trim().is_empty());
        }
    }

    #[test]
    fn formats_that_span_a_split_are_closed_and_opened_again() {
        let mut text = FormattedText::default();
        text.push_formatted(TextFormat::Bold, "one two three four");
        let messages = text.messages(10);
        let html: Vec<_> = messages.iter().map(|message| message.html.as_str()).collect();
        assert_eq!(html, ["<b>one two</b>", "<b>three four</b>"]);
        check(&messages, 10);
    }

    #[test]
    fn code_is_not_split_if_it_fits_one_message() {
        let text = markdown(&format!(
            "{}\n\n```rust\n{}```\n",
            "word ".repeat(30),
            "let x = 1;\n".repeat(8)
        ));
        let messages = text.messages(200);
        assert_eq!(messages.len(), 2);
        assert!(
            messages[1].html.starts_with("<pre><code class=\"language-rust\">let"),
            "{messages:?}"
        );
        check(&messages, 200);
        let long = markdown(&format!("```rust\n{}```\n", "let x = 1;\n".repeat(60)));
        let messages = long.messages(200);
        assert!(messages.len() > 3);
        for message in &messages {
            assert!(
                message.html.starts_with("<pre><code class=\"language-rust\">let"),
                "{message:?}"
            );
            assert!(message.html.ends_with(";</code></pre>"), "{message:?}");
        }
        check(&messages, 200);
    }

    #[test]
    fn no_message_has_more_formats_than_telegram_supports() {
        let messages = markdown(&"**a** `b` ".repeat(300)).messages(4096);
        for message in &messages {
            let marks =
                message.html.matches("<b>").count() + message.html.matches("<code>").count();
            assert!(marks <= 101, "{marks}");
        }
        check(&messages, 4096);
    }

    #[test]
    fn surrogate_pairs_are_not_split() {
        let messages = FormattedText::plain(&"👍".repeat(100)).messages(51);
        assert_eq!(messages.len(), 4);
        check(&messages, 51);
    }

    proptest! {
        #[test]
        fn messages_fit_are_well_formed_and_lose_no_character(
            text in "([a-z<>&\"*_`~👍é \n|#>-]|\\*\\*[a-z ]+\\*\\*|\n```\n[a-z\n]*\n```\n|\\[a\\]\\(https://b\\)|\n> [a-z]+\n){0,60}",
            limit in 20_usize..300,
        ) {
            let whole = markdown(&text);
            let messages = whole.messages(limit);
            check(&messages, limit);
            let letters = |text: &str| text.replace(char::is_whitespace, "");
            let sent: String = messages.iter().map(|message| letters(&message.plain)).collect();
            prop_assert_eq!(sent, letters(whole.plain_text()));
        }
    }
}
