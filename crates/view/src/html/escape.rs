//! Text as HTML text.

use crate::markdown::is_direction_mark;

/// Adds text so that it reads as itself, between tags and inside a quoted attribute alike.
///
/// Characters that turn the direction of what follows are shown by their number: with them, code
/// reads otherwise than it runs.
pub fn escape(text: &str, out: &mut String) {
    out.reserve(text.len());
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        let entity = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '"' => "&quot;",
            '\'' => "&#39;",
            '\0' => "\u{fffd}",
            c if is_direction_mark(c) => {
                out.push_str(&text[plain..at]);
                out.extend(c.escape_unicode());
                plain = at + c.len_utf8();
                continue;
            }
            _ => continue,
        };
        out.push_str(&text[plain..at]);
        out.push_str(entity);
        plain = at + c.len_utf8();
    }
    out.push_str(&text[plain..]);
}

/// Text as HTML text, by itself.
pub fn escaped(text: &str) -> String {
    let mut out = String::new();
    escape(text, &mut out);
    out
}
