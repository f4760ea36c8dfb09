//! Characters that a person does not see, made visible.

/// A text in which characters that are not displayed, or that change how others are displayed, are
/// replaced by their code: `\\u{202e}`. Line breaks and tabs stay. A carriage return that breaks no line
/// is replaced too: a terminal would write over what comes before it.
///
/// ```
/// use towpath_wire::consent::visible;
///
/// assert_eq!(visible("ls \u{202e}x"), r"ls \u{202e}x");
/// ```
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let stays = match c {
            '\n' | '\t' => true,
            '\r' => rest.peek() == Some(&'\n'),
            c => !(c.is_control() || is_hidden(c)),
        };
        if stays { out.push(c) } else { out.extend(c.escape_unicode()) }
    }
    out
}

/// Whether a character has no width, or changes the direction of text.
pub(super) fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            // The last two say whether a character is drawn as a picture.
            | '\u{fe00}'..='\u{fe0d}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}
