//! A text with its entities, written as HTML in one way only.

use super::entity::{Entity, Style};

/// A text with its entities, as HTML that says the same.
pub(super) fn as_html(text: &str, entities: &[Entity]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open: Vec<(usize, &'static str)> = Vec::new();
    let mut coming = entities.iter().peekable();
    let mut at = 0;
    let mut step = |at: usize, out: &mut String| {
        while let Some((_, tag)) = open.pop_if(|(end, _)| *end <= at) {
            out.push_str(tag);
        }
        while let Some(entity) = coming.next_if(|it| it.offset <= at) {
            let (start, end) = tags(&entity.style);
            out.push_str(&start);
            open.push((entity.range().end, end));
        }
    };
    for character in text.chars() {
        step(at, &mut out);
        escape(character, &mut out);
        at += character.len_utf16();
    }
    step(at, &mut out);
    out
}

fn escape(character: char, out: &mut String) {
    match character {
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '&' => out.push_str("&amp;"),
        other => out.push(other),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => out.push_str("&quot;"),
            other => escape(other, &mut out),
        }
    }
    out
}

fn tags(style: &Style) -> (String, &'static str) {
    match style {
        Style::Bold => ("<b>".to_owned(), "</b>"),
        Style::Italic => ("<i>".to_owned(), "</i>"),
        Style::Underline => ("<u>".to_owned(), "</u>"),
        Style::Strikethrough => ("<s>".to_owned(), "</s>"),
        Style::Spoiler => ("<tg-spoiler>".to_owned(), "</tg-spoiler>"),
        Style::Code => ("<code>".to_owned(), "</code>"),
        Style::Pre(None) => ("<pre>".to_owned(), "</pre>"),
        Style::Pre(Some(language)) => {
            let language = escaped(language);
            (format!("<pre><code class=\"language-{language}\">"), "</code></pre>")
        }
        Style::Blockquote => ("<blockquote>".to_owned(), "</blockquote>"),
        Style::ExpandableBlockquote => ("<blockquote expandable>".to_owned(), "</blockquote>"),
        Style::TextLink(url) => (format!("<a href=\"{}\">", escaped(url)), "</a>"),
        Style::CustomEmoji(id) => (format!("<tg-emoji emoji-id=\"{id}\">"), "</tg-emoji>"),
        Style::BotCommand | Style::Mention => (String::new(), ""),
    }
}
