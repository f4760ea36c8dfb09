//! The kinds of lines that a release printed in the scenario suite, and their fields.
//!
//! Unlike captures, which are selections, this is what all scenarios showed together, so two releases
//! can be compared: what is in one and not in the other has come or gone. There is a file for each
//! release beside its results. Each field has the name of a scenario that shows it, because a scenario
//! that was not run with the other release proves nothing about it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::capture_kinds::{fields_of, line_kind};
use crate::scenario::AgentVersion;
use crate::verify::VerifyConversation;

/// What one release printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseKinds {
    /// The fields of each kind, each with the first scenario, by name, whose lines have it.
    kinds: BTreeMap<String, BTreeMap<String, String>>,
    /// The scenarios with results whose lines were not at hand when this was written.
    pub without: BTreeSet<String>,
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct KindsHead {
    agent: String,
    version: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    without: BTreeSet<String>,
}

/// A further line: a kind, and the fields that each scenario is the first to show.
#[derive(Serialize, Deserialize)]
struct KindsLine {
    kind: String,
    fields: BTreeMap<String, BTreeSet<String>>,
}

impl ReleaseKinds {
    /// Adds what the agent printed in a scenario.
    pub fn add(&mut self, scenario: &str, conversation: &VerifyConversation) {
        self.without.remove(scenario);
        for value in conversation.output() {
            let Some(kind) = line_kind(&value) else { continue };
            for field in fields_of(&value) {
                self.add_field(&kind, field, scenario);
            }
        }
    }

    fn add_field(&mut self, kind: &str, field: String, scenario: &str) {
        let fields = self.kinds.entry(kind.to_owned()).or_default();
        let first = fields.entry(field).or_insert_with(|| scenario.to_owned());
        if scenario < first.as_str() {
            scenario.clone_into(first);
        }
    }

    /// Adds what was known earlier, for the scenarios whose lines are not at hand now.
    pub fn add_earlier(&mut self, earlier: &Self) {
        self.without.retain(|it| earlier.without.contains(it));
        for (kind, fields) in &earlier.kinds {
            for (field, scenario) in fields {
                self.add_field(kind, field.clone(), scenario);
            }
        }
    }

    /// Whether nothing was printed that has a kind, as with agents of another protocol.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// All kinds, in order.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }

    /// The fields of a kind, each with a scenario that shows it. None if there is no such kind.
    pub(super) fn fields(&self, kind: &str) -> Option<&BTreeMap<String, String>> {
        self.kinds.get(kind)
    }

    /// Reads what `to_text` has written. An error has the number of the line.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = text.lines().enumerate();
        let head: KindsHead = serde_json::from_str(lines.next().map_or("", |(_, line)| line))
            .map_err(|error| (1, error.to_string()))?;
        let mut kinds = BTreeMap::new();
        for (index, line) in lines {
            let line: KindsLine =
                serde_json::from_str(line).map_err(|error| (index + 1, error.to_string()))?;
            let fields = line.fields.into_iter().flat_map(|(scenario, fields)| {
                fields.into_iter().map(move |field| (field, scenario.clone()))
            });
            kinds.insert(line.kind, fields.collect());
        }
        Ok(Self { kinds, without: head.without })
    }

    pub(super) fn to_text(&self, agent: &str, version: AgentVersion) -> String {
        let head = KindsHead {
            agent: agent.to_owned(),
            version: version.to_string(),
            without: self.without.clone(),
        };
        let mut text = serde_json::to_string(&head).unwrap_or_default();
        text.push('\n');
        for (kind, all) in &self.kinds {
            let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
            for (field, scenario) in all {
                fields.entry(scenario.clone()).or_default().insert(field.clone());
            }
            let line = KindsLine { kind: kind.clone(), fields };
            let _ = writeln!(text, "{}", serde_json::to_string(&line).unwrap_or_default());
        }
        text
    }
}

impl VerifyConversation {
    /// The lines that the agent printed, as values.
    fn output(&self) -> impl Iterator<Item = Value> {
        let printed = self.lines().iter().filter_map(|line| line.strip_prefix("→ "));
        printed.filter_map(|line| serde_json::from_str(line).ok())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ReleaseKinds;
    use crate::scenario::AgentVersion;
    use crate::verify::VerifyConversation;

    #[test]
    fn each_field_has_the_first_scenario_that_shows_it() {
        let conversation = VerifyConversation::from_text(
            "· started\n← {\"type\":\"user\"}\n→ {\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/\"}\n\
             → \"noise\"\n→ {\"type\":\"result\",\"subtype\":\"success\"}\n",
        );
        let more = VerifyConversation::from_text(
            "→ {\"type\":\"system\",\"subtype\":\"init\",\"cwd\":\"/\",\"tools\":[]}\n",
        );
        let mut kinds = ReleaseKinds::default();
        assert!(kinds.is_empty());
        kinds.without = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        kinds.add("c", &conversation);
        kinds.add("b", &more);
        kinds.add("d", &more);
        let text = kinds.to_text("claude", AgentVersion(2, 1, 37));
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                r#"{"agent":"claude","version":"2.1.37","without":["a"]}"#,
                r#"{"kind":"result/success","fields":{"c":["subtype","type"]}}"#,
                r#"{"kind":"system/init","fields":{"b":["cwd","subtype","tools","type"]}}"#,
            ]
        );
        assert_eq!(ReleaseKinds::parse(&text), Ok(kinds));
        assert_eq!(ReleaseKinds::parse("{}\n").unwrap_err().0, 1);
        let broken = format!("{}\n{{}}\n", text.lines().next().unwrap());
        assert_eq!(ReleaseKinds::parse(&broken).unwrap_err().0, 2);
    }
}
