//! Parts of text in Markdown.

use super::super::matrix::HistoryScenario;
use crate::scenario::AgentVersion;

/// A link to the file of a scenario.
pub(super) fn link(scenario: &HistoryScenario) -> String {
    format!("[{}](../{})", scenario.scenario.name, scenario.path)
}

pub(super) fn links(scenarios: &[&HistoryScenario]) -> String {
    scenarios.iter().map(|it| link(it)).collect::<Vec<_>>().join(", ")
}

pub(super) fn versions(versions: &[AgentVersion]) -> String {
    versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Text as code in Markdown, whatever it contains.
pub(super) fn code(text: &str) -> String {
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

/// `1 release`, `2 releases`.
pub(super) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Text in lines of at most 100 characters.
pub(super) fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let size = word.chars().count();
        if length > 0 && length + 1 + size > WIDTH {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += size;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{code, wrapped};

    #[test]
    fn any_text_can_be_shown_as_code() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a `b` ``c``"), "``` a `b` ``c`` ```");
        let text = wrapped(&"word ".repeat(50));
        assert!(text.lines().all(|line| line.len() <= 100) && text.lines().count() == 3, "{text}");
    }
}
