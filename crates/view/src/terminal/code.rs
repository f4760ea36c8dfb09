//! Code as lines for a terminal, in the sixteen colours the user chose.

use super::Line;
use crate::ansi::Style;
use crate::highlight::{Token, highlight};

/// Code as lines in colours.
pub(super) fn code_lines(code: &str, language: &str) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    highlight(code, language, |token, text| {
        let style = token.map_or(Style::PLAIN, token_style);
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                lines.push(Line::default());
            }
            if let Some(line) = lines.last_mut() {
                line.push(style, part);
            }
        }
    });
    if lines.last().is_some_and(Line::is_empty) {
        lines.pop();
    }
    lines
}

fn token_style(token: Token) -> Style {
    match token {
        Token::Comment => Style::PLAIN.in_colour(8).italic(),
        Token::Text | Token::Added => Style::PLAIN.in_colour(2),
        Token::Constant => Style::PLAIN.in_colour(3),
        Token::Keyword => Style::PLAIN.in_colour(5),
        Token::Function => Style::PLAIN.in_colour(4),
        Token::Type | Token::Tag | Token::Attribute => Style::PLAIN.in_colour(6),
        Token::Heading => Style::PLAIN.in_colour(5).bold(),
        Token::Removed => Style::PLAIN.in_colour(1),
        Token::Wrong => Style { underline: true, ..Style::PLAIN.in_colour(1) },
    }
}
