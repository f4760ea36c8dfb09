//! Conditions: which agents a part of a scenario applies to.

use std::fmt;
use std::str::FromStr;

use super::{AgentVersion, AgentVersionRange};

/// The name of Claude Code itself.
pub(crate) const CLAUDE: &str = "claude";

/// The names that conditions can have.
pub(crate) const AGENT_NAMES: [&str; 7] =
    [CLAUDE, "play", "claude-agent-acp", "codex", "copilot", "gemini", "opencode"];

/// Agents by name and by version, such as `codex opencode`, `!play` or `codex >=2.6.0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioCondition {
    /// The agent is one of these. All agents are meant if the list is empty.
    names: Vec<String>,
    /// The agent is none of these.
    excluded: Vec<String>,
    versions: AgentVersionRange,
}

/// A text is not a condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a version such as `2.1.325` nor the name of an agent")]
pub struct ScenarioConditionError(String);

impl ScenarioCondition {
    pub fn applies_to(&self, name: &str, version: AgentVersion) -> bool {
        self.is_for(name) && self.versions.contains(version)
    }

    /// Whether it applies to some version of an agent.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|it| it == name);
        (self.names.is_empty() || has(&self.names)) && !has(&self.excluded)
    }

    /// Whether it applies to every agent.
    pub fn is_unconditional(&self) -> bool {
        *self == Self::default()
    }
}

impl FromStr for ScenarioCondition {
    type Err = ScenarioConditionError;

    fn from_str(text: &str) -> Result<Self, ScenarioConditionError> {
        let mut condition = Self::default();
        let mut bounds = Vec::new();
        for word in text.split_whitespace() {
            let name = word.strip_prefix('!').unwrap_or(word);
            if !name.starts_with(|it: char| it.is_ascii_alphabetic()) {
                bounds.push(word);
                continue;
            }
            if !AGENT_NAMES.contains(&name) {
                return Err(ScenarioConditionError(word.to_owned()));
            }
            let list = if name == word { &mut condition.names } else { &mut condition.excluded };
            list.push(name.to_owned());
        }
        let bounds = bounds.join(" ");
        condition.versions = bounds.parse().map_err(|_| ScenarioConditionError(bounds))?;
        Ok(condition)
    }
}

impl fmt::Display for ScenarioCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.iter().cloned();
        let excluded = self.excluded.iter().map(|name| format!("!{name}"));
        let versions = self.versions.to_string();
        let words = names.chain(excluded).chain((!versions.is_empty()).then_some(versions));
        write!(f, "{}", words.collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::{AgentVersion, ScenarioCondition};

    #[test]
    fn an_agent_is_meant_by_its_name_and_its_version() {
        let (old, new) = (AgentVersion(2, 5, 9), AgentVersion(2, 6, 0));
        let table = [
            ("", "codex", old, true),
            ("codex", "codex", old, true),
            ("codex opencode", "opencode", new, true),
            ("codex opencode", "play", new, false),
            ("!play", "play", new, false),
            ("!play !gemini", "codex", new, true),
            ("codex >=2.6.0", "codex", old, false),
            ("codex >=2.6.0", "codex", new, true),
            ("codex >=2.6.0", "gemini", new, false),
            ("!codex <2.6.0", "gemini", old, true),
            (">=2.6.0", "claude", new, true),
        ];
        for (text, name, version, expected) in table {
            let condition: ScenarioCondition = text.parse().unwrap();
            assert_eq!(condition.applies_to(name, version), expected, "{text}: {name} {version}");
            assert_eq!(condition.to_string(), text);
            assert_eq!(condition.is_unconditional(), text.is_empty());
        }
    }

    #[test]
    fn unknown_names_and_incomplete_versions_are_rejected() {
        for text in ["codec", "!", "!codec", ">=2.1", "codex 2"] {
            assert!(text.parse::<ScenarioCondition>().is_err(), "{text}");
        }
    }
}
