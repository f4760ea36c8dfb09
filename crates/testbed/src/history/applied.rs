//! The part of a scenario that applies to one version of an agent.
//!
//! A result stays valid as long as this part is the same: a condition that is added for other
//! versions, or a comment, is no reason to run the scenario again.

use crate::scenario::{AgentVersion, ScenarioCondition, VERSIONS};
use crate::verify::text_digest;

/// A line of a scenario with the lines that continue it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScenarioTextLine {
    /// The condition in brackets, without them. Empty if there is none.
    pub(super) condition: String,
    /// The rest, with its line breaks.
    pub(super) text: String,
}

/// The lines of a scenario without comments and blank lines.
pub(super) fn text_lines(text: &str) -> Vec<ScenarioTextLine> {
    let mut lines: Vec<ScenarioTextLine> = Vec::new();
    for line in text.lines().filter(|it| !it.trim().is_empty() && !it.starts_with('#')) {
        if line.starts_with(char::is_whitespace) {
            if let Some(last) = lines.last_mut() {
                last.text.push('\n');
                last.text.push_str(line);
            }
            continue;
        }
        let (condition, rest) = match line.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((condition, rest)) => (condition.trim(), rest.trim_start()),
            None => ("", line),
        };
        lines.push(ScenarioTextLine { condition: condition.to_owned(), text: rest.to_owned() });
    }
    lines
}

/// A digest of the lines of a scenario that apply to a version of an agent.
pub fn applied_digest(text: &str, agent: &str, version: AgentVersion) -> String {
    let applies = |line: &ScenarioTextLine| {
        let condition = line.condition.parse::<ScenarioCondition>();
        condition.map_or(true, |it| it.applies_to(agent, version))
    };
    let lines = text_lines(text).into_iter().filter(applies).map(|line| line.text);
    let lines: Vec<String> = lines.filter(|line| !line.starts_with(VERSIONS)).collect();
    text_digest(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::applied_digest;
    use crate::scenario::AgentVersion;

    const OLD: AgentVersion = AgentVersion(2, 1, 37);
    const NEW: AgentVersion = AgentVersion(2, 1, 150);

    #[test]
    fn only_what_applies_to_the_version_counts() {
        let text = "# T\n\n> user \"hi\"\n[<2.1.150] < result\n  {\"a\":1}\neof\n";
        let old = applied_digest(text, "claude", OLD);
        let new = applied_digest(text, "claude", NEW);
        assert_ne!(old, new);

        let same_for_both = [
            "# Other\n# More\n\nversions >=2.0.0\n> user \"hi\"\n[<2.1.150] < result\n  {\"a\":1}\neof\n",
            "# T\n> user \"hi\"\n[<2.1.100] < result\n  {\"a\":1}\n[play] exit 0\neof\n",
        ];
        for changed in same_for_both {
            assert_eq!(applied_digest(changed, "claude", OLD), old, "{changed}");
            assert_eq!(applied_digest(changed, "claude", NEW), new, "{changed}");
        }
        // A continuation belongs to its line, and a step for newer versions is new only for them.
        let longer = text.replace("{\"a\":1}", "{\"a\":2}");
        assert_ne!(applied_digest(&longer, "claude", OLD), old);
        assert_eq!(applied_digest(&longer, "claude", NEW), new);
        let added = text.replace("eof", "[>=2.1.100] exit 0\neof");
        assert_eq!(applied_digest(&added, "claude", OLD), old);
        assert_ne!(applied_digest(&added, "claude", NEW), new);
    }
}
