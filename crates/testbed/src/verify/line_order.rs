//! The order and number of the lines that a release printed in each scenario.
//!
//! Scenarios say which lines must come, and leave out most. A program that stands in for a release has
//! to print the others too, so its lines are compared with those that the release was seen to print.
//! Only their kinds count. What depends on the speed of the machine may be one of several orders.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{VerifyCapture, VerifyDifference, VerifyDirection};
use crate::history::line_kind;
use crate::scenario::AgentVersion;

/// The orders that one release was seen to print, by scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyLineOrder {
    version: AgentVersion,
    scenarios: BTreeMap<String, ScenarioLines>,
}

/// What was seen in one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ScenarioLines {
    /// A digest of the lines of the scenario that apply to the release.
    scenario: String,
    /// The kinds of all lines with spaces in between, once for each order.
    orders: BTreeSet<String>,
}

/// The first line of the file.
#[derive(Serialize, Deserialize)]
struct OrderHead {
    version: String,
}

/// A further line of it.
#[derive(Serialize, Deserialize)]
struct OrderLine {
    name: String,
    scenario: String,
    orders: BTreeSet<String>,
}

/// Kinds that come in runs whose length depends on how the reply was cut into pieces.
const IN_PIECES: [&str; 2] = ["stream_event/content_block_delta", "system/thinking_tokens"];

/// Scenarios whose lines a stand-in cannot be expected to print in an order that was seen, each with
/// the reason.
const RACES: [(&str, &str); 4] = [
    ("permission-subagent", TOGETHER),
    ("subagent-default", TOGETHER),
    ("team-teammate", "it also ends with SIGKILL at no certain line"),
    ("shell-background", "the command ends while the model is asked, or before"),
];

const TOGETHER: &str = "the sub-agent and the agent that started it ask the model at the same time";

impl VerifyLineOrder {
    pub fn new(version: AgentVersion) -> Self {
        Self { version, scenarios: BTreeMap::new() }
    }

    /// Reads a file that `save` has written.
    pub fn load(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let mut lines = text.lines();
        let head: OrderHead = serde_json::from_str(lines.next().unwrap_or_default())?;
        let version = head.version.parse().map_err(io::Error::other)?;
        let mut scenarios = BTreeMap::new();
        for line in lines {
            let OrderLine { name, scenario, orders } = serde_json::from_str(line)?;
            scenarios.insert(name, ScenarioLines { scenario, orders });
        }
        Ok(Self { version, scenarios })
    }

    pub fn save(&self, path: &Path) -> io::Result<()> {
        let head = OrderHead { version: self.version.to_string() };
        let mut text = serde_json::to_string(&head)?;
        text.push('\n');
        for (name, ScenarioLines { scenario, orders }) in &self.scenarios {
            let (name, scenario, orders) = (name.clone(), scenario.clone(), orders.clone());
            let line = serde_json::to_string(&OrderLine { name, scenario, orders })?;
            let _ = writeln!(text, "{line}");
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        fs::write(path, text)
    }

    /// The release that printed the lines.
    pub fn version(&self) -> AgentVersion {
        self.version
    }

    /// Adds what the release printed in a scenario with this digest. Orders of another text of the
    /// scenario are forgotten.
    pub fn add(&mut self, name: &str, digest: &str, capture: &VerifyCapture) {
        let new = || ScenarioLines { scenario: digest.to_owned(), orders: BTreeSet::new() };
        let lines = self.scenarios.entry(name.to_owned()).or_insert_with(new);
        if lines.scenario != digest {
            *lines = new();
        }
        lines.orders.insert(order(capture));
    }

    /// Whether it is known what the release prints in a scenario with this digest.
    pub fn knows(&self, name: &str, digest: &str) -> bool {
        self.scenarios.get(name).is_some_and(|it| it.scenario == digest)
    }

    /// How the lines of a stand-in differ from all orders that were seen.
    pub(super) fn difference(
        &self,
        name: &str,
        capture: &VerifyCapture,
    ) -> Option<VerifyDifference> {
        let seen = self.scenarios.get(name)?;
        let printed = order(capture);
        if seen.orders.contains(&printed) || RACES.iter().any(|(race, _)| *race == name) {
            return None;
        }
        let nearest = seen.orders.iter().max_by_key(|it| common_start(it, &printed))?;
        let start = common_start(nearest, &printed);
        let rest = |text: &str| {
            let words: Vec<&str> = text.split(' ').skip(start.saturating_sub(1)).collect();
            words.join(" ")
        };
        let mut difference = VerifyDifference::new(1, "the order of the lines is another one");
        difference.expected = Some(rest(nearest));
        difference.actual = Some(rest(&printed));
        Some(difference)
    }
}

/// The number of kinds that two orders start with in common.
fn common_start(one: &str, other: &str) -> usize {
    one.split(' ').zip(other.split(' ')).take_while(|(one, other)| one == other).count()
}

/// The kinds of all lines that were printed, those of each process together.
fn order(capture: &VerifyCapture) -> String {
    let printed = capture.entries.iter().filter(|it| it.direction == VerifyDirection::Output);
    let mut lines: Vec<(usize, &Value)> = printed
        .flat_map(|entry| {
            let values = match &entry.value {
                Value::Array(values) => values.iter().collect(),
                value => vec![value],
            };
            values.into_iter().map(|value| (entry.process, value))
        })
        .collect();
    lines.sort_by_key(|(process, _)| *process);
    let mut kinds: Vec<String> = Vec::new();
    for kind in lines.into_iter().filter_map(|(_, value)| line_kind(value)) {
        let is_piece = |kind: &str| IN_PIECES.contains(&kind);
        let last = kinds.iter().rev().take_while(|it| is_piece(it));
        let is_repeated = is_piece(&kind) && last.into_iter().any(|it| *it == kind);
        if !is_repeated {
            kinds.push(kind);
        }
    }
    kinds.join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::VerifyLineOrder;
    use crate::scenario::AgentVersion;
    use crate::verify::{VerifyCapture, VerifyDirection, VerifyTranscriptEntry};

    fn capture(kinds: &[&str]) -> VerifyCapture {
        let entries = kinds.iter().map(|kind| {
            let mut words = kind.split('/');
            let mut value = json!({ "type": words.next().unwrap() });
            if let Some(subtype) = words.next() {
                value["subtype"] = subtype.into();
            }
            VerifyTranscriptEntry {
                time: Duration::ZERO,
                process: 1,
                direction: VerifyDirection::Output,
                text: String::new(),
                value,
            }
        });
        VerifyCapture { entries: entries.collect(), ..VerifyCapture::default() }
    }

    #[test]
    fn each_order_that_was_seen_is_right() {
        let mut seen = VerifyLineOrder::new(AgentVersion(2, 1, 325));
        seen.add("s", "d", &capture(&["a", "b", "c"]));
        seen.add("s", "d", &capture(&["a", "c", "b"]));
        assert_eq!(seen.difference("s", &capture(&["a", "b", "c"])), None);
        assert_eq!(seen.difference("s", &capture(&["a", "c", "b"])), None);
        let difference = seen.difference("s", &capture(&["a", "c", "c"])).unwrap();
        assert_eq!(difference.expected.as_deref(), Some("c b"));
        assert_eq!(difference.actual.as_deref(), Some("c c"));
        assert_eq!(seen.difference("unknown", &capture(&["x"])), None);
        // Of another text of the scenario nothing else is known.
        seen.add("s", "e", &capture(&["x"]));
        assert!(seen.difference("s", &capture(&["a", "b", "c"])).is_some());
        assert!(seen.knows("s", "e") && !seen.knows("s", "d"));
    }

    #[test]
    fn pieces_of_a_reply_may_be_any_number() {
        let mut seen = VerifyLineOrder::new(AgentVersion(2, 1, 325));
        let tokens = "system/thinking_tokens";
        let delta = "stream_event/content_block_delta";
        seen.add("s", "d", &capture(&["a", tokens, delta, tokens, delta, delta, "b", delta]));
        assert_eq!(seen.difference("s", &capture(&["a", tokens, delta, "b", delta, delta])), None);
        assert!(seen.difference("s", &capture(&["a", delta, "b", delta])).is_some());
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new/lines.jsonl");
        let mut seen = VerifyLineOrder::new(AgentVersion(2, 1, 325));
        seen.add("s", "d", &capture(&["a", "b"]));
        seen.save(&file).unwrap();
        assert_eq!(VerifyLineOrder::load(&file).unwrap(), seen);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            text,
            "{\"version\":\"2.1.325\"}\n{\"name\":\"s\",\"scenario\":\"d\",\"orders\":[\"a b\"]}\n"
        );
        std::fs::write(&file, "{}\n").unwrap();
        assert!(VerifyLineOrder::load(&file).is_err());
    }
}
