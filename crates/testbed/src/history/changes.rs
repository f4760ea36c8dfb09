//! What changed in which release, from the conditions in the scenarios.
//!
//! A step with `[<N]` says what was so before release N, one with `[>=N]` what is so since.

use std::collections::BTreeMap;

use super::applied::text_lines;
use super::matrix::HistoryScenario;
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

/// The first words of steps that check something.
const CHECKS: [&str; 15] = [
    "<",
    "<~",
    "<!",
    "says",
    "count",
    "request",
    "requests",
    "exit",
    "alive",
    "stderr",
    "is",
    "is-not",
    "wait-file",
    "gone",
    "left",
];

impl HistoryChange {
    /// Whether the scenario only checks more since the release. Then it passes before the release
    /// too, wherever the change is, and shows nothing unless these checks are made there.
    pub(super) fn only_adds_checks(&self) -> bool {
        let is_check =
            |step: &String| step.split_whitespace().next().is_some_and(|it| CHECKS.contains(&it));
        let is_whole = self.starts || self.ends;
        self.before.is_empty() && !is_whole && self.after.iter().any(is_check)
    }
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
            for version in since {
                changes.entry(version).or_default().starts = true;
            }
            for version in before {
                changes.entry(version).or_default().ends = true;
            }
            continue;
        }
        let (since, before) = bounds(&line.condition, agent);
        for version in since {
            changes.entry(version).or_default().after.push(line.text.clone());
        }
        for version in before {
            changes.entry(version).or_default().before.push(line.text.clone());
        }
    }
    changes
}

/// The first versions that a condition applies to, and the first ones after those. A condition for
/// other agents has no bounds.
fn bounds(condition: &str, agent: &str) -> (Vec<AgentVersion>, Vec<AgentVersion>) {
    let versions = |sign: &str| -> Vec<AgentVersion> {
        let words = condition.split_whitespace();
        words.filter_map(|word| word.strip_prefix(sign)?.parse().ok()).collect()
    };
    let (since, before) = (versions(">="), versions("<"));
    let first = since.first().copied().unwrap_or(AgentVersion(0, 0, 0));
    let parsed = condition.parse::<ScenarioCondition>();
    let is_meant = parsed.is_ok_and(|it| it.applies_to(agent, first));
    if is_meant { (since, before) } else { (Vec::new(), Vec::new()) }
}

impl HistoryEvidence {
    /// How exactly it is known that a scenario changed in `version`. Only results of the scenario as it is
    /// now count: what an earlier text of it did says nothing about this condition. A release with which it
    /// differs although it is for it says that the condition is wrong, and is no evidence for it.
    pub(super) fn of(
        scenario: &HistoryScenario,
        version: AgentVersion,
        releases: &[HistoryRelease],
        published: &[AgentVersion],
    ) -> Self {
        let mut was_run: Vec<AgentVersion> = releases
            .iter()
            .filter(|release| scenario.is_evidence(release, version))
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

    const TEXT: &str = "# T\n\n> user \"hi\"\n[<2.1.150] < user\n[>=2.1.150] < system\neof\n";

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
        // Something was otherwise for a while.
        let gap = changes_of("[<2.1.37 >=2.1.150] < user\n", "claude");
        let user = vec!["< user".to_owned()];
        let ended = HistoryChange { before: user.clone(), ..HistoryChange::default() };
        let again = HistoryChange { after: user, ..HistoryChange::default() };
        assert_eq!(gap, BTreeMap::from([(OLD, ended), (NEW, again)]));
        let codex = changes_of("[codex >=2.6.0] < x\n", "codex");
        assert_eq!(codex.keys().collect::<Vec<_>>(), [&AgentVersion(2, 6, 0)]);
    }

    /// A release with the result of a scenario named `s`, as it was with this text.
    fn release(version: AgentVersion, outcome: HistoryOutcome, text: &str) -> HistoryRelease {
        let result = HistoryResult {
            outcome,
            scenario: applied_digest(text, "claude", version),
            conversation: String::new(),
            step: None,
            difference: None,
            runs: None,
            passes: None,
            not_yet: Vec::new(),
        };
        let results = BTreeMap::from([("s".to_owned(), result)]);
        HistoryRelease { agent: "claude".to_owned(), version, is_whole: false, results }
    }

    const BEFORE: AgentVersion = AgentVersion(2, 1, 149);

    fn evidence(text: &str, releases: &[HistoryRelease]) -> HistoryEvidence {
        let scenario = HistoryScenario::parse("s", text).unwrap();
        HistoryEvidence::of(&scenario, NEW, releases, &[OLD, BEFORE, NEW])
    }

    #[test]
    fn a_change_is_exact_if_the_release_before_it_was_run() {
        use HistoryOutcome::{Differs, Passed};
        let [old, before, new] = [OLD, BEFORE, NEW].map(|it| release(it, Passed, TEXT));
        let exact = evidence(TEXT, &[old.clone(), before.clone(), new.clone()]);
        assert_eq!(exact, HistoryEvidence::Exact);
        let mut other = before.clone();
        other.results = BTreeMap::from([("t".to_owned(), before.results["s"].clone())]);
        let all = [old.clone(), other, new.clone()];
        assert_eq!(evidence(TEXT, &all), HistoryEvidence::After(OLD));
        let one = std::slice::from_ref(&before);
        assert_eq!(evidence(TEXT, one), HistoryEvidence::After(BEFORE));
        assert_eq!(evidence(TEXT, std::slice::from_ref(&new)), HistoryEvidence::Unknown);
        // With the condition as it is, the scenario differs with the release of the condition.
        let wrong = [old, before, release(NEW, Differs, TEXT)];
        assert_eq!(evidence(TEXT, &wrong), HistoryEvidence::After(BEFORE));
    }

    #[test]
    fn results_of_another_text_are_no_evidence() {
        use HistoryOutcome::Passed;
        let new = release(NEW, Passed, TEXT);
        let current = release(BEFORE, Passed, TEXT);
        assert_eq!(evidence(TEXT, &[current, new.clone()]), HistoryEvidence::Exact);
        // Only a step that applies to this release was another one when it was run.
        let stale = release(BEFORE, Passed, &TEXT.replace("hi", "hello"));
        let all = [release(OLD, Passed, TEXT), stale.clone(), new];
        assert_eq!(evidence(TEXT, &all), HistoryEvidence::After(OLD));
        assert_eq!(evidence(TEXT, &[stale]), HistoryEvidence::Unknown);
        // Neither is one of the release of the change.
        let stale = release(NEW, Passed, &TEXT.replace("system", "assistant"));
        let all = [release(BEFORE, Passed, TEXT), stale];
        assert_eq!(evidence(TEXT, &all), HistoryEvidence::After(BEFORE));
    }

    #[test]
    fn a_check_that_is_only_added_must_have_been_made_before() {
        use HistoryOutcome::Passed;
        let added = "# T\n\n> user \"hi\"\n[>=2.1.150] < system\neof\n";
        let new = release(NEW, Passed, added);
        let before = release(BEFORE, Passed, added);
        assert_eq!(evidence(added, &[before.clone(), new.clone()]), HistoryEvidence::Unknown);
        let mut shown = before;
        shown.results.get_mut("s").unwrap().not_yet = vec![NEW.to_string()];
        assert_eq!(evidence(added, &[shown, new.clone()]), HistoryEvidence::Exact);
        // What is only started in another way shows itself.
        let args = "# T\n\n[>=2.1.150] args --new\n> user \"hi\"\neof\n";
        let both = [release(BEFORE, Passed, args), release(NEW, Passed, args)];
        assert_eq!(evidence(args, &both), HistoryEvidence::Exact);
    }

    #[test]
    fn a_release_that_a_scenario_is_not_for_is_evidence_if_it_differs() {
        use HistoryOutcome::{Differs, Passed};
        let whole = format!("# T\n\nversions >=2.1.150\n{}", &TEXT["# T\n\n".len()..]);
        let new = release(NEW, Passed, &whole);
        // The scenario was run with the condition moved to the release before, as the search does.
        let moved = whole.replace("2.1.150", "2.1.149");
        let differs = release(BEFORE, Differs, &moved);
        assert_eq!(evidence(&whole, &[differs, new.clone()]), HistoryEvidence::Exact);
        for no_evidence in [release(BEFORE, Passed, &moved), release(BEFORE, Passed, &whole)] {
            let all = [no_evidence, new.clone()];
            assert_eq!(evidence(&whole, &all), HistoryEvidence::Unknown);
        }
    }
}
