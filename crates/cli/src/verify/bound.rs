//! `towpath verify --bound-differences`: writes a condition into every scenario that differs with a release.
//!
//! The condition is at the next newer release with which the scenario is known to pass, or, if it passes
//! only with older ones, at the release itself. If it passes with both, the condition leaves out what
//! is from the release to the newer one. It is written at the step that differs if the rest of
//! the scenario then passes, and otherwise for the whole scenario. `--refine-bounds` then moves it to the
//! exact releases.

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
        let explained = self.outcomes(&steps)?;
        let mut out = io::stdout().lock();
        for difference in &differences {
            let UnboundDifference { scenario, line, bound } = difference;
            let name = &self.loaded.scenarios[*scenario].name;
            let (text, place) = match (explained.get(name), line) {
                (Some((ReleaseOutcome::Passed, text)), Some(line)) => {
                    (text.clone(), format!("[{bound}] at line {line}"))
                }
                (Some((ReleaseOutcome::Uncertain, _)), Some(line)) => {
                    eprintln!(
                        "{name} is left out: with [{bound}] at line {line} its outcome is not certain"
                    );
                    continue;
                }
                _ => {
                    let text = with_versions_bound(self.text(difference), *bound);
                    (text, format!("versions {bound}"))
                }
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
                    eprintln!("{name} is left out: its outcome is not certain");
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
                None => {
                    eprintln!("{name} is left out: it is not known to pass with any release");
                }
            }
        }
        Ok(differences)
    }

    /// What scenarios with these texts do with the release, by name, each with its text.
    fn outcomes(
        &self,
        texts: &[(&UnboundDifference, String)],
    ) -> Result<HashMap<String, (ReleaseOutcome, String)>, BoundError> {
        let directory = tempfile::tempdir().map_err(BoundError::Directory)?;
        let mut files = Vec::new();
        for (difference, text) in texts {
            let name = &self.loaded.scenarios[difference.scenario].name;
            let file = scenario_file(directory.path(), name);
            write_file(&file, text)?;
            files.push(file);
        }
        let results = self.run_release(&files)?;
        let outcomes = texts.iter().filter_map(|(difference, text)| {
            let name = &self.loaded.scenarios[difference.scenario].name;
            Some((name.clone(), (results.get(name)?.outcome, text.clone())))
        });
        Ok(outcomes.collect())
    }

    fn text(&self, difference: &UnboundDifference) -> &str {
        &self.loaded.texts[difference.scenario]
    }

    fn run_release(&self, files: &[PathBuf]) -> Result<HashMap<String, ReleaseResult>, BoundError> {
        // Not `--once`: a difference that was seen in one run may be that of a busy machine, and a
        // condition would hide it from then on.
        let again = ["--again".into()];
        run_release(self.options, self.version, files, &again).map_err(BoundError::Restart)
    }
}

/// The condition on the versions that leaves out one release, and none with which the scenario passes.
/// None if it is not known to pass with any other release.
fn bound_for(version: AgentVersion, passed: &[AgentVersion]) -> Option<VersionBound> {
    let older = passed.iter().copied().filter(|it| *it < version).max();
    let newer = passed.iter().copied().filter(|it| *it > version).min();
    match (older, newer) {
        (Some(_), Some(newer)) => Some(VersionBound::Except(version, newer)),
        (None, Some(newer)) => Some(VersionBound::Since(newer)),
        (Some(_), None) => Some(VersionBound::Before(version)),
        (None, None) => None,
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), BoundError> {
    fs::write(path, text).map_err(|source| BoundError::WriteFile { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use testbed::scenario::{AgentVersion, VersionBound};

    use super::bound_for;

    #[test]
    fn a_condition_leaves_out_no_release_that_passes() {
        let version = |patch| AgentVersion(2, 1, patch);
        let since = |patch| Some(VersionBound::Since(version(patch)));
        let before = |patch| Some(VersionBound::Before(version(patch)));
        let except = |from, until| Some(VersionBound::Except(version(from), version(until)));
        let table: [(&[u32], Option<VersionBound>); 6] = [
            (&[9, 7], since(7)),
            (&[3], before(5)),
            (&[3, 7], except(5, 7)),
            (&[9, 1, 7, 4, 2], except(5, 7)),
            (&[5], None),
            (&[], None),
        ];
        for (passed, expected) in table {
            let passed: Vec<AgentVersion> = passed.iter().copied().map(version).collect();
            assert_eq!(bound_for(version(5), &passed), expected, "{passed:?}");
        }
    }
}
