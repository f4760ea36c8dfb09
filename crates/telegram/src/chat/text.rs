//! Small functions on texts that several messages share.

use view::telegram::{FormattedText, TextFormat};

use crate::bot::MessageText;

/// Adds a text after a blank line, unless it is empty.
pub(super) fn push_paragraph(text: &mut FormattedText, more: &FormattedText) {
    if more.is_empty() {
        return;
    }
    if !text.plain_text().is_empty() {
        text.push("\n\n");
    }
    text.append(more);
}

/// Adds a marked line, unless it is empty.
pub(super) fn push_line(text: &mut FormattedText, mark: TextFormat, line: &str) {
    if line.trim().is_empty() {
        return;
    }
    if !text.plain_text().is_empty() {
        text.push("\n");
    }
    text.push_formatted(mark, line);
}

pub(super) fn without_formatting(text: &MessageText) -> MessageText {
    let plain = FormattedText::plain(&text.plain);
    plain.messages(usize::MAX).pop().unwrap_or_else(|| text.clone())
}

/// The client that a user acted in.
pub(super) fn client_name(via: &str) -> &'static str {
    match via {
        "terminal" => "in the terminal",
        "browser" => "in the browser",
        "telegram" => "in Telegram",
        "api" => "through the API",
        "rule" => "by a rule",
        _ => "in another client",
    }
}

/// The beginning of a text, with an ellipsis if it is cut.
pub(super) fn shortened_to(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// The end of a text, at most so many UTF-16 units long.
pub(super) fn end_of(text: &str, units: usize) -> &str {
    let mut left = units;
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        let Some(rest) = left.checked_sub(c.len_utf16()) else { break };
        left = rest;
        start = at;
    }
    &text[start..]
}

/// The length of a text as Telegram counts it.
pub(super) fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// A text in which characters that Telegram does not show, or that change the order in which others
/// are shown, are replaced by visible ones.
pub(super) fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => visible.push(c),
            '\0'..='\u{1f}' => {
                visible.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'));
            }
            '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0e}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}' => visible.extend(c.escape_unicode()),
            _ => visible.push(c),
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::{end_of, shortened_to, visible, without_formatting};
    use crate::bot::MessageText;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened_to("née", 3), "née");
        assert_eq!(shortened_to("néé n", 3), "néé…");
        assert_eq!(end_of("a👍b", 3), "👍b");
        assert_eq!(end_of("a👍b", 2), "b");
        assert_eq!(end_of("abc", 9), "abc");
    }

    #[test]
    fn a_plain_text_has_no_tags() {
        let text = MessageText { html: "<b>a &lt; b</b>".to_owned(), plain: "a < b".to_owned() };
        let plain = without_formatting(&text);
        assert_eq!((plain.html.as_str(), plain.plain.as_str()), ("a &lt; b", "a < b"));
    }

    #[test]
    fn hidden_characters_become_visible() {
        assert_eq!(visible("a\n\tb é 👍"), "a\n\tb é 👍");
        assert_eq!(visible("ls\r\u{1b}[8m"), "ls␍␛[8m");
        assert_eq!(visible("a\u{202e}b\u{200b}"), "a\\u{202e}b\\u{200b}");
    }
}
