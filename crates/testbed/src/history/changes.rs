//! What changed in which release, from the conditions in the scenarios.
//!
//! A step with `[<N]` says what was so before release N, one with `[>=N]` what is so since.

use std::collections::BTreeMap;

use super::applied::text_lines;
use super::matrix::{HistoryCell, HistoryScenario};
use super::results::HistoryRelease;
use crate::scenario::{AgentVersion, ScenarioCondition, VERSIONS};

/// What changed in a release, as one scenario shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryChange {
    /// The steps that apply only before the release.
    pub before: Vec<String>,
    /// The steps that apply only since.
    pub after: Vec<String>,
    /// Whether the whole scenario applies only since the release.
    pub starts: bool,
    /// Whether the whole scenario applies only before it.
    pub ends: bool,
}

/// How exactly the release of a change is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryEvidence {
    /// The scenario was run with the release and with the one before it.
    Exact,
    /// The last release before it with which the scenario was run is this one.
    After(AgentVersion),
    /// The scenario was run with no earlier release.
    Unknown,
}

/// The changes that the text of a scenario shows, by release.
pub(super) fn changes_of(text: &str, agent: &str) -> BTreeMap<AgentVersion, HistoryChange> {
    let mut changes: BTreeMap<AgentVersion, HistoryChange> = BTreeMap::new();
    for line in text_lines(text) {
        if let Some(range) = line.text.strip_prefix(VERSIONS) {
            let (since, before) = bounds(range, agent);
            if let Some(version) = since {
                changes.entry(version).or_default().starts = true;
            }
            if let Some(version) = before {
                changes.entry(version).or_default().ends = true;
            }
            continue;
        }
        let (since, before) = bounds(&line.condition, agent);
        if let Some(version) = since {
            changes.entry(version).or_default().after.push(line.text.clone());
        }
        if let Some(version) = before {
            changes.entry(version).or_default().before.push(line.text);
        }
    }
    changes
}

/// The first version that a condition applies to, and the first one after those. A condition for
/// other agents has no bounds.
fn bounds(condition: &str, agent: &str) -> (Option<AgentVersion>, Option<AgentVersion>) {
    let version = |sign: &str| {
        let mut words = condition.split_whitespace();
        words.find_map(|word| word.strip_prefix(sign)?.parse::<AgentVersion>().ok())
    };
    let (since, before) = (version(">="), version("<"));
    let first = since.unwrap_or(AgentVersion(0, 0, 0));
    let parsed = condition.parse::<ScenarioCondition>();
    let is_meant = parsed.is_ok_and(|it| it.applies_to(agent, first));
    if is_meant { (since, before) } else { (None, None) }
}

impl HistoryEvidence {
    /// How exactly it is known that a scenario changed in `version`. A release with which it differs as it is
    /// says that the condition is wrong, and is no evidence for it.
    pub(super) fn of(
        scenario: &HistoryScenario,
        version: AgentVersion,
        releases: &[HistoryRelease],
        published: &[AgentVersion],
    ) -> Self {
        let mut was_run: Vec<AgentVersion> = releases
            .iter()
            .filter(|release| release.results.contains_key(&scenario.scenario.name))
            .filter(|release| scenario.cell(release) != HistoryCell::Differs)
            .map(|release| release.version)
            .collect();
        was_run.sort_unstable();
        let previous = published.iter().rev().find(|it| **it < version);
        match was_run.iter().rev().find(|it| **it < version) {
            Some(last) if Some(last) == previous && was_run.contains(&version) => Self::Exact,
            Some(last) => Self::After(*last),
            None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{HistoryChange, HistoryEvidence, HistoryScenario, changes_of};
    use crate::history::{HistoryOutcome, HistoryRelease, HistoryResult, applied_digest};
    use crate::scenario::AgentVersion;

    const OLD: AgentVersion = AgentVersion(2, 1, 37);
    const NEW: AgentVersion = AgentVersion(2, 1, 150);

    const TEXT: &str = "# T\n\n> user \"hi\"\n[>=2.1.150] < system\neof\n";

    #[test]
    fn steps_with_bounds_are_what_was_and_what_is() {
        let text = "# T\n\nversions >=2.1.37\n[<2.1.150] < user\n  {}\n[>=2.1.150] < system\n\
                    [codex >=2.6.0] < x\n[!play >=2.1.150] alive\neof\n";
        let changes = changes_of(text, "claude");
        let starts = HistoryChange { starts: true, ..HistoryChange::default() };
        let change = HistoryChange {
            before: vec!["< user\n  {}".to_owned()],
            after: vec!["< system".to_owned(), "alive".to_owned()],
            ..HistoryChange::default()
        };
        assert_eq!(changes, BTreeMap::from([(OLD, starts), (NEW, change)]));
        let codex = changes_of("[codex >=2.6.0] < x\n", "codex");
        assert_eq!(codex.keys().collect::<Vec<_>>(), [&AgentVersion(2, 6, 0)]);
    }

    #[test]
    fn a_change_is_exact_if_the_release_before_it_was_run() {
        let release = |version, name: &str| {
            let result = HistoryResult {
                outcome: HistoryOutcome::Passed,
                scenario: String::new(),
                conversation: String::new(),
                step: None,
                difference: None,
                runs: None,
                passes: None,
            };
            let results = BTreeMap::from([(name.to_owned(), result)]);
            HistoryRelease { agent: "claude".to_owned(), version, is_whole: false, results }
        };
        let before = AgentVersion(2, 1, 149);
        let published = [OLD, before, NEW];
        let scenario = HistoryScenario::parse("s", TEXT).unwrap();
        let evidence =
            |releases: &[HistoryRelease]| HistoryEvidence::of(&scenario, NEW, releases, &published);
        let (old, new) = (release(OLD, "s"), release(NEW, "s"));
        assert_eq!(
            evidence(&[old.clone(), release(before, "s"), new.clone()]),
            HistoryEvidence::Exact
        );
        assert_eq!(
            evidence(&[old.clone(), release(before, "t"), new.clone()]),
            HistoryEvidence::After(OLD)
        );
        assert_eq!(evidence(&[release(before, "s")]), HistoryEvidence::After(before));
        assert_eq!(evidence(std::slice::from_ref(&new)), HistoryEvidence::Unknown);
        // With the condition as it is, the scenario differs with the release of the condition.
        let mut wrong = new;
        let result = wrong.results.get_mut("s").unwrap();
        result.outcome = HistoryOutcome::Differs;
        result.scenario = applied_digest(TEXT, "claude", NEW);
        let releases = [old, release(before, "s"), wrong];
        assert_eq!(evidence(&releases), HistoryEvidence::After(before));
    }
}
