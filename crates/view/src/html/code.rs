//! Code as HTML: a `pre` with classes for colours.

use super::escape::escape;
use crate::highlight::highlight;

/// Adds a block of code. Colours wait until it is complete: a half string would colour all of it.
pub fn code_block(code: &str, language: &str, complete: bool, out: &mut String) {
    let name = language.split([' ', ',', '{', '\t']).next().unwrap_or_default();
    out.push_str("<pre class=\"code\"");
    if !name.is_empty() {
        out.push_str(" data-language=\"");
        escape(name, out);
        out.push('"');
    }
    out.push_str("><code>");
    if complete {
        coloured(code, language, out);
    } else {
        escape(code, out);
    }
    out.push_str("</code></pre>");
}

/// Adds code with colours, without a frame.
pub fn coloured(code: &str, language: &str, out: &mut String) {
    highlight(code, language, |token, text| match token {
        None => escape(text, out),
        Some(token) => {
            out.push_str("<span class=");
            out.push_str(token.class());
            out.push('>');
            escape(text, out);
            out.push_str("</span>");
        }
    });
}
