//! `towpath verify --bound-differences`: writes a condition into every scenario that differs with a release.
//!
//! The condition is at a release with which the scenario is known to pass: the next newer one, or else
//! the next older one. It is written at the step that differs if the rest of the scenario then passes,
//! and otherwise for the whole scenario. `--refine-bounds` then moves it to the exact release.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use testbed::history::{HistoryRelease, HistoryStore, HistoryStoreError};
use testbed::scenario::{
    AgentVersion, ScenarioProtocol, VersionBound, with_step_bound, with_versions_bound,
};
use testbed::verify::VerifyAgent;

use super::agents::{self, VerifyAgentChoice, VerifyAgentChoiceError, VerifyEnvironment};
use super::bisect::CLAUDE;
use super::release_run::{ReleaseOutcome, ReleaseResult, run_release, scenario_file};
use super::selection::{VerifyScenarioFiles, VerifySelectionError, select};
use crate::arguments::VerifyArgs;
use crate::exit::CommandStatus;

/// The conditions cannot be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum BoundError {
    #[error(transparent)]
    Selection(#[from] VerifySelectionError),
    #[error(transparent)]
    Agent(#[from] VerifyAgentChoiceError),
    #[error(transparent)]
    Results(#[from] HistoryStoreError),
    #[error("conditions are about releases of Claude Code")]
    NoRelease,
    #[error("could not run this program again")]
    Restart(#[source] io::Error),
    #[error("could not write `{}`", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    #[error("could not create a directory for scenarios")]
    Directory(#[source] io::Error),
    #[error("could not write the report")]
    Write(#[from] io::Error),
}

impl BoundError {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Selection(error) => Some(error.hint()),
            Self::Agent(error) => error.hint(),
            Self::NoRelease => Some("give releases, as in `--claude npm:1.0.60,1.0.24`".into()),
            _ => None,
        }
    }
}

/// A scenario that differs with a release, and the condition that says so.
struct UnboundDifference {
    /// The index among the loaded scenarios.
    scenario: usize,
    /// The line of the step that differs, counted from 1.
    line: Option<usize>,
    bound: VersionBound,
}

/// Runs the command.
pub(super) async fn run(
    options: &VerifyArgs,
    environment: &VerifyEnvironment,
) -> Result<CommandStatus, BoundError> {
    let mut versions = Vec::new();
    for choice in VerifyAgentChoice::parse_all(&options.claude, &options.agent)? {
        let VerifyAgentChoice::Release(version) = choice else { return Err(BoundError::NoRelease) };
        versions.push(version);
    }
    if versions.is_empty() {
        return Err(BoundError::NoRelease);
    }
    // An older release may differ in a step that gets its condition because of a newer one.
    versions.sort_unstable_by(|a, b| b.cmp(a));
    let releases = HistoryStore::new(options.results.clone().unwrap_or_default()).load_all()?;
    let mut has_errors = false;
    for version in versions {
        agents::fetch_one(version, environment).await?;
        let loaded = VerifyScenarioFiles::load(select(&options.scenarios)?);
        has_errors |= loaded.report_errors();
        let command = BoundCommand { options, version, loaded };
        command.run(&releases)?;
    }
    Ok(if has_errors { CommandStatus::Error } else { CommandStatus::Success })
}

/// What is done for one release.
struct BoundCommand<'a> {
    options: &'a VerifyArgs,
    version: AgentVersion,
    loaded: VerifyScenarioFiles,
}

impl BoundCommand<'_> {
    fn run(&self, releases: &[HistoryRelease]) -> Result<(), BoundError> {
        let differences = self.find_differences(releases)?;
        eprintln!("{} scenarios differ with {}", differences.len(), self.version);
        let steps = differences.iter().filter_map(|it| {
            let text = with_step_bound(self.text(it), it.line?, it.bound);
            Some((it, text))
        });
        let steps: Vec<(&UnboundDifference, String)> = steps.collect();
        let explained = self.passing(&steps)?;
        let mut out = io::stdout().lock();
        for difference in &differences {
            let UnboundDifference { scenario, line, bound } = difference;
            let name = &self.loaded.scenarios[*scenario].name;
            let (text, place) = if let (Some(text), Some(line)) = (explained.get(name), line) {
                (text.clone(), format!("[{bound}] at line {line}"))
            } else {
                let text = with_versions_bound(self.text(difference), *bound);
                (text, format!("versions {bound}"))
            };
            let file = &self.loaded.files[*scenario];
            write_file(file, &text)?;
            writeln!(out, "{name}: {place}")?;
        }
        Ok(())
    }

    /// The scenarios that differ with the release, as far as they are known to pass with another one.
    fn find_differences(
        &self,
        releases: &[HistoryRelease],
    ) -> Result<Vec<UnboundDifference>, BoundError> {
        let agent = VerifyAgent::known_release(self.version);
        let scenarios = self.loaded.scenarios.iter().enumerate();
        let applicable: Vec<usize> = scenarios
            .filter(|(_, it)| it.protocol == ScenarioProtocol::StreamJson && agent.runs(it))
            .map(|(index, _)| index)
            .collect();
        let files: Vec<PathBuf> =
            applicable.iter().map(|index| self.loaded.files[*index].clone()).collect();
        let results = self.run_release(&files)?;
        let mut differences = Vec::new();
        for scenario in applicable {
            let name = &self.loaded.scenarios[scenario].name;
            let line = match results.get(name) {
                Some(it) if it.outcome == ReleaseOutcome::Differs => it.line(),
                Some(it) if it.outcome != ReleaseOutcome::Uncertain => continue,
                Some(_) => {
                    eprintln!("{name} is left out: it timed out or could not be run");
                    continue;
                }
                None => {
                    eprintln!("{name} is left out: it was not run");
                    continue;
                }
            };
            let text = &self.loaded.texts[scenario];
            let passed = releases.iter().filter(|it| it.agent == CLAUDE && it.passed(name, text));
            let passed: Vec<AgentVersion> = passed.map(|it| it.version).collect();
            match bound_for(self.version, &passed) {
                Some(bound) => differences.push(UnboundDifference { scenario, line, bound }),
                None => eprintln!("{name} is left out: it is not known to pass with any release"),
            }
        }
        Ok(differences)
    }

    /// The texts with which a scenario passes now, by name.
    fn passing(
        &self,
        texts: &[(&UnboundDifference, String)],
    ) -> Result<HashMap<String, String>, BoundError> {
        let directory = tempfile::tempdir().map_err(BoundError::Directory)?;
        let mut files = Vec::new();
        for (difference, text) in texts {
            let name = &self.loaded.scenarios[difference.scenario].name;
            let file = scenario_file(directory.path(), name);
            write_file(&file, text)?;
            files.push(file);
        }
        let results = self.run_release(&files)?;
        let passing = texts.iter().filter_map(|(difference, text)| {
            let name = &self.loaded.scenarios[difference.scenario].name;
            let outcome = results.get(name)?.outcome;
            (outcome == ReleaseOutcome::Passed).then(|| (name.clone(), text.clone()))
        });
        Ok(passing.collect())
    }

    fn text(&self, difference: &UnboundDifference) -> &str {
        &self.loaded.texts[difference.scenario]
    }

    fn run_release(&self, files: &[PathBuf]) -> Result<HashMap<String, ReleaseResult>, BoundError> {
        // A condition that was not needed is moved to the first release by `--refine-bounds`.
        let once = ["--once".into(), "--again".into()];
        run_release(self.options, self.version, files, &once).map_err(BoundError::Restart)
    }
}

/// The condition on the versions that leaves one release out.
fn bound_for(version: AgentVersion, passed: &[AgentVersion]) -> Option<VersionBound> {
    let newer = passed.iter().copied().filter(|it| *it > version).min();
    let is_older = passed.iter().any(|it| *it < version);
    newer.map(VersionBound::Since).or(is_older.then_some(VersionBound::Before(version)))
}

fn write_file(path: &Path, text: &str) -> Result<(), BoundError> {
    fs::write(path, text).map_err(|source| BoundError::WriteFile { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use testbed::scenario::{AgentVersion, VersionBound};

    use super::bound_for;

    #[test]
    fn a_condition_is_at_the_next_newer_release_that_passes_and_otherwise_at_the_release_itself() {
        let version = |patch| AgentVersion(2, 1, patch);
        let (before, since) = (VersionBound::Before, VersionBound::Since);
        assert_eq!(bound_for(version(5), &[version(9), version(7)]), Some(since(version(7))));
        assert_eq!(bound_for(version(5), &[version(3), version(7)]), Some(since(version(7))));
        assert_eq!(bound_for(version(5), &[version(3)]), Some(before(version(5))));
        assert_eq!(bound_for(version(5), &[version(5)]), None);
        assert_eq!(bound_for(version(5), &[]), None);
    }
}
