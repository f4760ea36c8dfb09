//! The search for the exact release of a change that a scenario already has a condition for.
//!
//! A condition is written at the release with which a change was seen, which may be many releases
//! after the one that made it. The search halves the releases in between. With each it asks which
//! conversation takes place: the one of the scenario as it is, in which the change is still to come,
//! or the one with the condition moved to this release.

use super::HistoryEvidence;
use super::changes::changes_of;
use super::matrix::HistoryScenario;
use super::results::HistoryRelease;
use crate::scenario::{AgentVersion, Scenario, with_moved_bound, without_versions};
use crate::verify::{VerifyBisection, VerifyChange};

/// The first release that takes its input as `stream-json`. Earlier ones cannot run a scenario.
pub const FIRST_RELEASE: AgentVersion = AgentVersion(1, 0, 24);

/// Stands for all releases before the first one: with none of them is a scenario known to pass.
const NO_RELEASE: AgentVersion = AgentVersion(0, 0, 0);

/// After so many releases in a row that say nothing, a search ends. Then several steps have changed,
/// not all in the same release, and nearly all releases in between would say nothing.
const MAX_LEFT_OUT: u32 = 3;

/// The search for the release of one condition.
#[derive(Clone, Debug)]
pub struct BoundRefinement {
    /// The name of the scenario.
    pub scenario: String,
    /// The release at which the condition is now.
    pub bound: AgentVersion,
    agent: String,
    text: String,
    bisection: VerifyBisection,
    /// Whether the change is one that only adds checks, so that the scenario as it is passes on both
    /// sides of it.
    only_adds_checks: bool,
    /// How many releases in a row have said nothing.
    left_out: u32,
}

/// What the scenario did with one release, with the condition in one of two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundVerdict {
    Passed,
    Differs,
    /// The scenario, with the condition there, is not for this release.
    NotApplicable,
    /// The outcome is not certain.
    Unknown,
}

impl BoundRefinement {
    /// The searches for all conditions of a scenario whose release is not known exactly.
    pub fn all_of(
        (scenario, text): (&str, &str),
        agent: &str,
        releases: &[HistoryRelease],
        published: &[AgentVersion],
    ) -> Vec<Self> {
        let releases: Vec<HistoryRelease> =
            releases.iter().filter(|release| release.agent == agent).cloned().collect();
        // A file with errors is reported when it is loaded.
        let Ok(history) = HistoryScenario::parse(scenario, text) else { return Vec::new() };
        let changes = changes_of(text, agent);
        let bounds: Vec<AgentVersion> = changes.keys().copied().collect();
        let is_inexact = |bound: &&AgentVersion| {
            let evidence = HistoryEvidence::of(&history, **bound, &releases, published);
            evidence != HistoryEvidence::Exact && published.contains(bound)
        };
        let searches = bounds.iter().filter(is_inexact).map(|bound| {
            let only_adds_checks = changes[bound].only_adds_checks();
            let passed = releases.iter().filter(|release| {
                release.passed(scenario, text)
                    && (!only_adds_checks || history.is_evidence(release, *bound))
            });
            // What is between two conditions is not known to pass, but is not part of this change.
            let ends = passed.map(|it| it.version).chain(bounds.iter().copied());
            let before = ends.filter(|it| it < bound).max().unwrap_or(NO_RELEASE);
            let between = published.iter().copied();
            let between = between.filter(|it| *it > before && it <= bound && *it >= FIRST_RELEASE);
            Self {
                scenario: scenario.to_owned(),
                bound: *bound,
                agent: agent.to_owned(),
                text: text.to_owned(),
                bisection: VerifyBisection::new(
                    [before].into_iter().chain(between).collect(),
                    true,
                ),
                only_adds_checks,
                left_out: 0,
            }
        });
        searches.collect()
    }

    /// The release to run next, or the releases around the change once the search has ended.
    pub fn step(&self) -> Result<AgentVersion, VerifyChange> {
        match self.bisection.range() {
            Some(range) if self.left_out == MAX_LEFT_OUT => Err(range),
            _ => self.bisection.step(),
        }
    }

    /// The scenario as it is: what it says about a release before the condition is what was so
    /// before the change.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The scenario with the condition at another release.
    pub fn moved_to(&self, version: AgentVersion) -> String {
        self.moved_in(&self.text, version)
    }

    /// The scenario with the condition at `version` or where it was, whichever makes the scenario
    /// apply to that version; without any condition on the whole scenario if neither does, as with the
    /// first release that it is not for.
    pub fn applying_to(&self, version: AgentVersion) -> String {
        let applies = |text: &String| {
            Scenario::parse(&self.scenario, text)
                .is_ok_and(|it| it.condition.applies_to(&self.agent, version))
        };
        let candidates = [self.moved_to(version), self.text.clone()];
        candidates.into_iter().find(applies).unwrap_or_else(|| without_versions(&self.text))
    }

    /// A text of the scenario, which may have changed meanwhile, with the condition at another
    /// release.
    pub fn moved_in(&self, text: &str, version: AgentVersion) -> String {
        with_moved_bound(text, &self.agent, self.bound, version)
    }

    /// Whether the condition must be moved to a release even if the scenario passes as it is.
    pub fn only_adds_checks(&self) -> bool {
        self.only_adds_checks
    }

    /// The releases whose results show that the change is where it was found.
    pub fn evidence(change: &VerifyChange) -> impl Iterator<Item = AgentVersion> {
        [change.before, change.after].into_iter().filter(|it| *it != NO_RELEASE)
    }

    /// Continues with what the scenario did with a release, as it is and with the condition moved
    /// to that release. Returns whether that says where the change is.
    pub fn add(
        &mut self,
        version: AgentVersion,
        as_it_is: BoundVerdict,
        moved: BoundVerdict,
    ) -> bool {
        use BoundVerdict::{Differs, NotApplicable, Passed};
        let is_before = match (as_it_is, moved) {
            (Passed, Passed) if self.only_adds_checks => false,
            (Passed | NotApplicable, Differs) => true,
            (Passed, _) if !self.only_adds_checks => true,
            (_, Passed) | (Differs, NotApplicable) => false,
            // Several steps changed, and not all in the same release; or it is not certain.
            _ => {
                self.bisection.skip(version);
                self.left_out += 1;
                return false;
            }
        };
        self.left_out = 0;
        self.bisection.add(version, is_before);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{BoundRefinement, BoundVerdict, NO_RELEASE};
    use crate::history::{HistoryOutcome, HistoryRelease, HistoryResult, applied_digest};
    use crate::scenario::{AgentVersion, ScenarioCondition};
    use BoundVerdict::{Differs, NotApplicable, Passed, Unknown};

    const TEXT: &str = "# T\n\n> user \"hi\"\n[<2.1.40] < user\n[>=2.1.40] < system\neof\n";

    fn version(patch: u32) -> AgentVersion {
        AgentVersion(2, 1, patch)
    }

    fn published() -> Vec<AgentVersion> {
        (0..=40).map(version).collect()
    }

    fn passed(patch: u32, text: &str) -> HistoryRelease {
        let version = version(patch);
        let result = HistoryResult {
            outcome: HistoryOutcome::Passed,
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

    /// The release in which the change is found, if the real one is `changed_in`.
    fn found(text: &str, releases: &[HistoryRelease], changed_in: u32) -> AgentVersion {
        let mut all = BoundRefinement::all_of(("s", text), "claude", releases, &published());
        let mut search = all.pop().unwrap();
        assert!(all.is_empty());
        loop {
            let version = match search.step() {
                Ok(version) => version,
                Err(change) => return change.after,
            };
            let is_whole = text.contains("versions");
            let (as_it_is, moved) = match (version.2 < changed_in, is_whole) {
                (true, false) => (Passed, Differs),
                (false, false) => (Differs, Passed),
                (true, true) => (NotApplicable, Differs),
                (false, true) => (NotApplicable, Passed),
            };
            assert!(search.add(version, as_it_is, moved));
        }
    }

    #[test]
    fn the_release_is_found_wherever_it_is() {
        for changed_in in 11..=40 {
            let releases = [passed(10, TEXT), passed(40, TEXT)];
            assert_eq!(found(TEXT, &releases, changed_in), version(changed_in));
        }
        let whole = "# T\n\nversions >=2.1.40\n> user \"hi\"\neof\n";
        for changed_in in 0..=40 {
            assert_eq!(found(whole, &[passed(40, whole)], changed_in), version(changed_in));
        }
    }

    #[test]
    fn a_condition_that_is_exact_is_not_searched() {
        let releases = [passed(39, TEXT), passed(40, TEXT)];
        assert!(BoundRefinement::all_of(("s", TEXT), "claude", &releases, &published()).is_empty());
        // A result of an earlier text says nothing about where the change is.
        let other = passed(10, "# T\n\neof\n");
        let all = BoundRefinement::all_of(("s", TEXT), "claude", &[other], &published());
        assert_eq!(all[0].bisection.step(), Ok(version(20)));
        let mut search = all[0].clone();
        assert!(search.add(version(20), Differs, Passed));
        assert!(search.add(search.step().unwrap(), Differs, NotApplicable));
        assert!(search.step().unwrap() > NO_RELEASE);
    }

    #[test]
    fn a_release_that_says_nothing_is_left_out() {
        let releases = [passed(37, TEXT), passed(40, TEXT)];
        let mut search =
            BoundRefinement::all_of(("s", TEXT), "claude", &releases, &published()).remove(0);
        assert_eq!(search.step(), Ok(version(39)));
        assert!(!search.add(version(39), Differs, Differs));
        assert_eq!(search.step(), Ok(version(38)));
        assert!(!search.add(version(38), Unknown, NotApplicable));
        let change = search.step().unwrap_err();
        assert_eq!((change.before, change.after), (version(37), version(40)));
    }

    #[test]
    fn a_search_ends_if_nearly_all_releases_say_nothing() {
        let releases = [passed(10, TEXT), passed(40, TEXT)];
        let mut search =
            BoundRefinement::all_of(("s", TEXT), "claude", &releases, &published()).remove(0);
        assert!(search.add(search.step().unwrap(), Differs, Passed));
        let mut runs = 0;
        let change = loop {
            match search.step() {
                Ok(version) => assert!(!search.add(version, Differs, Differs)),
                Err(change) => break change,
            }
            runs += 1;
        };
        assert_eq!((change.before, change.after, runs), (version(10), version(25), 3));
    }

    #[test]
    fn both_ends_of_a_gap_are_searched() {
        let text = "# T\n\n> user \"hi\"\n[<2.1.20 >=2.1.30] < user\neof\n";
        let releases = [passed(10, text), passed(20, text), passed(40, text)];
        let all = BoundRefinement::all_of(("s", text), "claude", &releases, &published());
        // The step is in the conversation, is not, and is again.
        let is_said = |version: AgentVersion| version.2 < 13 || version.2 >= 26;
        let found = all.into_iter().map(|mut search| {
            loop {
                let version = match search.step() {
                    Ok(version) => version,
                    Err(change) => return (search.bound, change.after),
                };
                let verdict = |text: &str| {
                    let line = text.lines().find(|it| it.starts_with('[')).unwrap();
                    let condition: ScenarioCondition =
                        line[1..line.find(']').unwrap()].parse().unwrap();
                    let is_expected = condition.applies_to("claude", version);
                    if is_expected && !is_said(version) { Differs } else { Passed }
                };
                let moved = search.moved_to(version);
                assert!(search.add(version, verdict(search.text()), verdict(&moved)));
            }
        });
        let found: Vec<_> = found.collect();
        assert_eq!(found, [(version(20), version(13)), (version(30), version(26))]);
    }

    #[test]
    fn the_condition_is_moved_in_the_text() {
        let search = &BoundRefinement::all_of(("s", TEXT), "claude", &[], &published())[0];
        assert_eq!(search.moved_to(version(12)), TEXT.replace("2.1.40", "2.1.12"));
        assert_eq!(search.moved_in("[<2.1.40] eof\n", version(12)), "[<2.1.12] eof\n");
        // The first release that a scenario is not for is run without the condition.
        let whole = "# T\n\nversions <2.1.40\n> user \"hi\"\neof\n";
        let search = &BoundRefinement::all_of(("s", whole), "claude", &[], &published())[0];
        assert_eq!(search.applying_to(version(40)), whole.replace("versions <2.1.40\n", ""));
        assert_eq!(search.applying_to(version(39)), whole);
    }
}
