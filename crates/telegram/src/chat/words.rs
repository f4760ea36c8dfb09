//! Small things that are said in several places.

use view::telegram::{Mark, Text};

use crate::call::Words;

/// Adds a text behind a blank line; nothing where it is empty.
pub(super) fn paragraph(text: &mut Text, more: &Text) {
    if more.is_empty() {
        return;
    }
    if !text.words().is_empty() {
        text.push("\n\n");
    }
    text.append(more);
}

/// Adds a line under a mark; nothing where it is empty.
pub(super) fn line(text: &mut Text, mark: Mark, words: &str) {
    if words.trim().is_empty() {
        return;
    }
    if !text.words().is_empty() {
        text.push("\n");
    }
    text.push_marked(mark, words);
}

/// The same words without any tags.
pub(super) fn plainly(words: &Words) -> Words {
    let plain = Text::plain(&words.plain);
    plain.messages(usize::MAX).pop().unwrap_or_else(|| words.clone())
}

/// From where somebody spoke.
pub(super) fn by_way_of(via: &str) -> &'static str {
    match via {
        "terminal" => "in the terminal",
        "browser" => "in the browser",
        "telegram" => "in Telegram",
        "api" => "through the API",
        "rule" => "by a rule",
        _ => "elsewhere",
    }
}

/// The beginning of a text, with a sign that there is more.
pub(super) fn shortened_to(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// The end of a text that has no more than so many UTF-16 units.
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

#[cfg(test)]
mod tests {
    use super::{end_of, plainly, shortened_to};
    use crate::call::Words;

    #[test]
    fn texts_are_cut_between_letters() {
        assert_eq!(shortened_to("née", 3), "née");
        assert_eq!(shortened_to("néé n", 3), "néé…");
        assert_eq!(end_of("a👍b", 3), "👍b");
        assert_eq!(end_of("a👍b", 2), "b");
        assert_eq!(end_of("abc", 9), "abc");
    }

    #[test]
    fn plain_words_have_no_tags() {
        let words = Words { html: "<b>a &lt; b</b>".to_owned(), plain: "a < b".to_owned() };
        let plain = plainly(&words);
        assert_eq!((plain.html.as_str(), plain.plain.as_str()), ("a &lt; b", "a < b"));
    }
}
