//! Code line by line, for a page that shows only the lines in sight.

use super::text::escape;
use crate::highlight::highlight;

/// The lines of code as HTML, without line breaks. A token that spans several lines is closed at the
/// end of each. Of a line with more than `max_chars` characters, the rest is left out and counted.
pub fn code_lines(code: &str, language: &str, max_chars: usize) -> Vec<String> {
    let mut lines = LineWriter { lines: Vec::new(), line: String::new(), chars: 0, max_chars };
    highlight(code, language, |token, text| {
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                lines.end();
            }
            lines.add(token.map(super::super::highlight::SyntaxToken::class), part);
        }
    });
    if lines.chars > 0 {
        lines.end();
    }
    lines.lines
}

struct LineWriter {
    lines: Vec<String>,
    line: String,
    chars: usize,
    max_chars: usize,
}

impl LineWriter {
    fn add(&mut self, class: Option<&str>, text: &str) {
        let room = self.max_chars.saturating_sub(self.chars);
        // A carriage return is a part of the line break.
        let text = text.strip_suffix('\r').unwrap_or(text);
        self.chars += text.chars().count();
        let end = text.char_indices().nth(room).map_or(text.len(), |(at, _)| at);
        let text = &text[..end];
        if text.is_empty() {
            return;
        }
        if let Some(class) = class {
            self.line.push_str("<span class=");
            self.line.push_str(class);
            self.line.push('>');
        }
        escape(text, &mut self.line);
        if class.is_some() {
            self.line.push_str("</span>");
        }
    }

    fn end(&mut self) {
        if self.chars > self.max_chars {
            let more = self.chars - self.max_chars;
            self.line.push_str("<span class=\"line-rest\"> … ");
            self.line.push_str(&more.to_string());
            self.line.push_str(" more characters</span>");
        }
        self.chars = 0;
        self.lines.push(std::mem::take(&mut self.line));
    }
}

#[cfg(test)]
mod tests {
    use super::code_lines;

    #[test]
    fn every_line_is_complete_by_itself() {
        let lines = code_lines("/* a\n<b> */\r\nlet x = 1;\n\n", "js", 100);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(lines[0], "<span class=tc>/* a</span>");
        assert_eq!(lines[1], "<span class=tc>&lt;b&gt; */</span>");
        assert!(lines[2].contains("<span class=tk>let</span>"), "{lines:?}");
        assert_eq!(lines[3], "");
    }

    #[test]
    fn a_long_line_is_cut_and_the_rest_is_counted() {
        let lines = code_lines(&format!("{}\nb", "ä".repeat(50)), "", 10);
        let cut =
            format!("{}<span class=\"line-rest\"> … 40 more characters</span>", "ä".repeat(10));
        assert_eq!(lines, [cut.as_str(), "b"]);
        assert!(code_lines("", "", 10).is_empty());
    }
}
