//! A text cut into messages.

use super::text::{Mark, Marked, Text};

/// UTF-16 units that a message may have, after Telegram has taken the tags away.
pub const LIMIT: usize = 4096;

/// Marks that Telegram honours in one message.
const MARKS: usize = 100;

/// What is sent as one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// For `parse_mode: HTML`.
    pub html: String,
    /// The same without tags, for when they are refused.
    pub plain: String,
}

impl Text {
    /// The text in messages of up to `limit` UTF-16 units each.
    ///
    /// It is cut where it hurts least: between blocks, else between lines, else between words, and
    /// inside a block of code only where there is no other place in the second half.
    pub fn messages(&self, limit: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut start = 0;
        while start < self.words.len() {
            let end = self.cut(start, limit.max(2));
            let piece = &self.words[start..end];
            let from = start + (piece.len() - piece.trim_start_matches('\n').len());
            let to = start + piece.trim_end().len();
            if from < to && !piece.trim().is_empty() {
                messages.push(Message {
                    html: self.html(from, to),
                    plain: self.words[from..to].to_owned(),
                });
            }
            start = end;
        }
        messages
    }

    /// Where the message that begins at `start` ends.
    fn cut(&self, start: usize, limit: usize) -> usize {
        let mut end = self.words.len();
        let mut units = 0;
        for (at, c) in self.words[start..].char_indices() {
            units += c.len_utf16();
            if units > limit {
                end = start + at;
                break;
            }
        }
        let inside = self.marks.iter().filter(|marked| marked.end > start && marked.start < end);
        if let Some(extra) = inside.skip(MARKS).map(|marked| marked.start).find(|&at| at > start) {
            end = end.min(extra);
        }
        if end == self.words.len() {
            return end;
        }
        let piece = &self.words[start..end];
        // A cut in the first half would make more messages than it saves.
        let half = piece.floor_char_boundary(piece.len() / 2);
        let in_code = |at: usize| {
            self.marks.iter().any(|marked| {
                matches!(marked.mark, Mark::Block(_) | Mark::Code)
                    && marked.start < at
                    && at < marked.end
            })
        };
        let last = |separator: &str, free_only: bool| {
            piece[half..]
                .rmatch_indices(separator)
                .map(|(at, _)| start + half + at + separator.len())
                .find(|&at| !free_only || !in_code(at))
        };
        last("\n\n", true)
            .or_else(|| last("\n", true))
            .or_else(|| last("\n", false))
            .or_else(|| last(" ", true))
            .unwrap_or(end)
            .max(start + self.words[start..].chars().next().map_or(1, char::len_utf8))
    }

    /// A part of the text with its tags.
    fn html(&self, from: usize, to: usize) -> String {
        let mut out = String::new();
        let mut open: Vec<(usize, &Mark)> = Vec::new();
        let mut at = from;
        let close_until =
            |out: &mut String, at: &mut usize, open: &mut Vec<(usize, &Mark)>, limit: usize| {
                while let Some(&(end, mark)) = open.last().filter(|(end, _)| *end <= limit) {
                    escape(&self.words[*at..end], out);
                    *at = end;
                    mark.close(out);
                    open.pop();
                }
            };
        for Marked { start, end, mark } in &self.marks {
            let (start, end) = ((*start).max(from), (*end).min(to));
            if start >= end {
                continue;
            }
            close_until(&mut out, &mut at, &mut open, start);
            // Marks are nested, whatever put them there; one that is not is left out.
            if open.last().is_some_and(|&(outer, _)| outer < end) || !fits(&open, mark) {
                continue;
            }
            escape(&self.words[at..start], &mut out);
            at = start;
            mark.open(&mut out);
            open.push((end, mark));
        }
        close_until(&mut out, &mut at, &mut open, to);
        escape(&self.words[at..to], &mut out);
        out
    }
}

/// Whether Telegram takes a mark inside those that are open.
fn fits(open: &[(usize, &Mark)], mark: &Mark) -> bool {
    open.iter().all(|(_, outer)| match outer {
        Mark::Code | Mark::Block(_) => false,
        Mark::Quote | Mark::Folded => !matches!(mark, Mark::Quote | Mark::Folded | Mark::Block(_)),
        Mark::Link(_) => !matches!(mark, Mark::Link(_) | Mark::Block(_)),
        Mark::Bold | Mark::Italic | Mark::Strike => outer != &mark,
    })
}

impl Mark {
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
            Self::Link(address) => {
                out.push_str("<a href=\"");
                escape(address, out);
                out.push_str("\">");
            }
            Self::Quote => out.push_str("<blockquote>"),
            Self::Folded => out.push_str("<blockquote expandable>"),
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
            Self::Quote | Self::Folded => "</blockquote>",
        });
    }
}

/// Telegram knows these four names and no others.
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

    use super::super::text::{Mark, Text};
    use super::Message;
    use crate::telegram::prose;

    fn units(text: &str) -> usize {
        text.encode_utf16().count()
    }

    /// Takes the tags away as Telegram does; panics where they are not nested.
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
    fn check(messages: &[Message], limit: usize) {
        for message in messages {
            assert_eq!(parsed(&message.html), message.plain);
            assert!(units(&message.plain) <= limit, "{}", units(&message.plain));
            assert!(!message.plain.trim().is_empty());
        }
    }

    #[test]
    fn marks_that_span_a_cut_are_closed_and_opened_again() {
        let mut text = Text::default();
        text.push_marked(Mark::Bold, "one two three four");
        let messages = text.messages(10);
        let html: Vec<_> = messages.iter().map(|message| message.html.as_str()).collect();
        assert_eq!(html, ["<b>one two</b>", "<b>three four</b>"]);
        check(&messages, 10);
    }

    #[test]
    fn code_is_not_cut_where_it_can_stand_whole() {
        let text =
            prose(&format!("{}\n\n```rust\n{}```\n", "word ".repeat(30), "let x = 1;\n".repeat(8)));
        let messages = text.messages(200);
        assert_eq!(messages.len(), 2);
        assert!(
            messages[1].html.starts_with("<pre><code class=\"language-rust\">let"),
            "{messages:?}"
        );
        check(&messages, 200);
        let long = prose(&format!("```rust\n{}```\n", "let x = 1;\n".repeat(60)));
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
    fn no_message_has_more_marks_than_telegram_honours() {
        let messages = prose(&"**a** `b` ".repeat(300)).messages(4096);
        for message in &messages {
            let marks =
                message.html.matches("<b>").count() + message.html.matches("<code>").count();
            assert!(marks <= 101, "{marks}");
        }
        check(&messages, 4096);
    }

    #[test]
    fn letters_of_two_units_are_not_split() {
        let messages = Text::plain(&"👍".repeat(100)).messages(51);
        assert_eq!(messages.len(), 4);
        check(&messages, 51);
    }

    proptest! {
        #[test]
        fn messages_fit_are_well_formed_and_lose_no_letter(
            text in "([a-z<>&\"*_`~👍é \n|#>-]|\\*\\*[a-z ]+\\*\\*|\n```\n[a-z\n]*\n```\n|\\[a\\]\\(https://b\\)|\n> [a-z]+\n){0,60}",
            limit in 20_usize..300,
        ) {
            let whole = prose(&text);
            let messages = whole.messages(limit);
            check(&messages, limit);
            let letters = |text: &str| text.replace(char::is_whitespace, "");
            let sent: String = messages.iter().map(|message| letters(&message.plain)).collect();
            prop_assert_eq!(sent, letters(whole.words()));
        }
    }
}
