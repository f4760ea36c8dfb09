//! Scenarios by releases: what each of them did.

use super::applied::applied_digest;
use super::changes::changes_of;
use super::results::{HistoryOutcome, HistoryRelease, HistoryResult};
use crate::scenario::{
    AgentVersion, CLAUDE, Scenario, ScenarioError, ScenarioProtocol, with_moved_bound,
};

/// A scenario with the text of its file.
#[derive(Clone, Debug)]
pub(super) struct HistoryScenario {
    /// The path from the root of the project.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) scenario: Scenario,
}

/// What a scenario did with a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HistoryCell {
    Passed,
    Differs,
    Flaky,
    NotApplicable,
    /// It was not run as it is now.
    NotRun,
}

impl HistoryCell {
    pub(super) const ALL: [Self; 5] =
        [Self::Passed, Self::Differs, Self::Flaky, Self::NotApplicable, Self::NotRun];

    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Passed => "✓",
            Self::Differs => "✗",
            Self::Flaky => "~",
            Self::NotApplicable => "–",
            Self::NotRun => "·",
        }
    }
}

impl HistoryScenario {
    /// A scenario whose file does not matter.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let scenario = Scenario::parse(name, text)?;
        Ok(Self { path: String::new(), text: text.to_owned(), scenario })
    }

    /// Whether the scenario is for agents of this name.
    pub(super) fn is_spoken_by(&self, agent: &str) -> bool {
        let protocol =
            if agent == CLAUDE { ScenarioProtocol::StreamJson } else { ScenarioProtocol::Acp };
        self.scenario.protocol == protocol
    }

    /// The result with a release, if the scenario is still the one that was run.
    pub(super) fn result<'a>(&self, release: &'a HistoryRelease) -> Option<&'a HistoryResult> {
        let result = release.results.get(&self.scenario.name)?;
        let digest = applied_digest(&self.text, &release.agent, release.version);
        (self.applies_to(release) && result.scenario == digest).then_some(result)
    }

    /// Whether the result with a release shows where the change in `change` is: the scenario as it is now
    /// passes with a release that it is for, or differs with one that it is not for. For the latter the
    /// condition may have been moved so that the scenario applies.
    pub(super) fn is_evidence(&self, release: &HistoryRelease, change: AgentVersion) -> bool {
        let Some(result) = release.results.get(&self.scenario.name) else { return false };
        let differs = result.outcome == HistoryOutcome::Differs;
        let (agent, version) = (release.agent.as_str(), release.version);
        let is_of = |text: &str| result.scenario == applied_digest(text, agent, version);
        if is_of(&self.text) {
            let of_change = changes_of(&self.text, agent).remove(&change).unwrap_or_default();
            if version < change && of_change.only_adds_checks() {
                return result.not_yet.contains(&change.to_string());
            }
            return differs != self.applies_to(release);
        }
        differs && is_of(&with_moved_bound(&self.text, agent, change, version))
    }

    pub(super) fn applies_to(&self, release: &HistoryRelease) -> bool {
        self.scenario.condition.applies_to(&release.agent, release.version)
    }

    pub(super) fn cell(&self, release: &HistoryRelease) -> HistoryCell {
        if !self.applies_to(release) {
            return HistoryCell::NotApplicable;
        }
        match self.result(release).map(|it| it.outcome) {
            Some(HistoryOutcome::Passed) => HistoryCell::Passed,
            Some(HistoryOutcome::Differs) => HistoryCell::Differs,
            Some(HistoryOutcome::Flaky) => HistoryCell::Flaky,
            None => HistoryCell::NotRun,
        }
    }
}

/// The scenarios of one agent with its releases, the newest first.
pub(super) struct HistoryMatrix<'a> {
    /// Those with which all scenarios were run.
    pub(super) releases: Vec<&'a HistoryRelease>,
    /// All of them.
    all_releases: Vec<&'a HistoryRelease>,
    pub(super) scenarios: Vec<&'a HistoryScenario>,
}

impl<'a> HistoryMatrix<'a> {
    pub(super) fn new(
        agent: &str,
        releases: &'a [HistoryRelease],
        scenarios: &'a [HistoryScenario],
    ) -> Self {
        let mut all_releases: Vec<&HistoryRelease> =
            releases.iter().filter(|it| it.agent == agent).collect();
        all_releases.sort_by_key(|it| std::cmp::Reverse(it.version));
        let releases = all_releases.iter().copied().filter(|it| it.is_whole).collect();
        let scenarios = scenarios.iter().filter(|it| it.is_spoken_by(agent)).collect();
        Self { releases, all_releases, scenarios }
    }

    /// How many scenarios did what with a release, in the order of [`HistoryCell::ALL`].
    pub(super) fn counts(&self, release: &HistoryRelease) -> [usize; 5] {
        let cells: Vec<HistoryCell> = self.scenarios.iter().map(|it| it.cell(release)).collect();
        HistoryCell::ALL.map(|kind| cells.iter().filter(|it| **it == kind).count())
    }

    /// What no condition explains: the scenarios that differ, each with the versions and the first
    /// difference, those with equal differences together.
    pub(super) fn unexplained(
        &self,
    ) -> Vec<(&'a HistoryScenario, &'a HistoryResult, Vec<AgentVersion>)> {
        let mut found: Vec<(&HistoryScenario, &HistoryResult, Vec<AgentVersion>)> = Vec::new();
        for scenario in &self.scenarios {
            for release in &self.all_releases {
                let Some(result) = scenario.result(release) else { continue };
                if result.outcome == HistoryOutcome::Passed {
                    continue;
                }
                let same = found.iter_mut().find(|(other, it, _)| {
                    other.scenario.name == scenario.scenario.name
                        && (&it.step, &it.difference, it.outcome, it.runs, it.passes)
                            == (
                                &result.step,
                                &result.difference,
                                result.outcome,
                                result.runs,
                                result.passes,
                            )
                });
                match same {
                    Some((_, _, versions)) => versions.push(release.version),
                    None => found.push((scenario, result, vec![release.version])),
                }
            }
        }
        found
    }
}
