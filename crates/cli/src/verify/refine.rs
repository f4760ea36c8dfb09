//! `towpath verify --refine-bounds`: moves conditions to the exact releases of their changes.
//!
//! The searches for all conditions go on together: a release is fetched once, and runs every scenario
//! that needs it. As with `--bisect`, it runs them in a process of its own, without a network.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anstream::eprintln;
use testbed::history::{BoundRefinement, BoundVerdict, HistoryStore, HistoryStoreError};
use testbed::scenario::{AgentVersion, Scenario, ScenarioError, ScenarioProtocol};
use testbed::verify::{VerifyAgent, VerifyChange};

use super::agents::{self, VerifyAgentChoiceError, VerifyEnvironment};
use super::bisect::CLAUDE;
use super::history;
use super::release_run::{ReleaseOutcome, ReleaseResult, run_release, scenario_file};
use super::selection::{VerifyScenarioFiles, VerifySelectionError, select};
use crate::arguments::VerifyArgs;
use crate::exit::{CommandStatus, report_error};

/// The conditions cannot be moved.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefineError {
    #[error(transparent)]
    Selection(#[from] VerifySelectionError),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Agent(#[from] VerifyAgentChoiceError),
    #[error(transparent)]
    Results(#[from] HistoryStoreError),
    #[error("could not run this program again")]
    Restart(#[source] io::Error),
    #[error("could not write `{}`", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    #[error("could not create a directory for scenarios")]
    Directory(#[source] io::Error),
    #[error("could not write the report")]
    Write(#[from] io::Error),
}

impl RefineError {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Selection(error) => Some(error.hint()),
            Self::Scenario(error) => error.hint(),
            Self::Agent(error) => error.hint(),
            _ => None,
        }
    }
}

/// The search for one condition, and the file that it is in.
struct RefineSearch {
    file: PathBuf,
    refinement: BoundRefinement,
}

/// What all searches share.
struct Refine<'a> {
    options: &'a VerifyArgs,
    environment: &'a VerifyEnvironment,
}

/// Runs the command.
pub(super) async fn run(
    options: &VerifyArgs,
    environment: &VerifyEnvironment,
) -> Result<CommandStatus, RefineError> {
    let loaded = VerifyScenarioFiles::load(select(&options.scenarios)?);
    let has_errors = loaded.report_errors();
    let published = environment.published_versions(false).await?;
    let directory = options.results.clone().unwrap_or_default();
    let releases = HistoryStore::new(directory.clone()).load_all()?;
    history::save_published(&directory, &published)?;
    let scenarios = loaded.scenarios.iter().enumerate();
    let scenarios = scenarios.filter(|(_, it)| it.protocol == ScenarioProtocol::StreamJson);
    let searches: Vec<RefineSearch> = scenarios
        .flat_map(|(index, scenario)| {
            let text = (scenario.name.as_str(), loaded.texts[index].as_str());
            let all = BoundRefinement::all_of(text, CLAUDE, &releases, published.all());
            let file = &loaded.files[index];
            all.into_iter().map(|refinement| RefineSearch { file: file.clone(), refinement })
        })
        .collect();
    if searches.is_empty() {
        writeln!(io::stdout().lock(), "every condition is at the exact release of its change")?;
        return Ok(if has_errors { CommandStatus::Error } else { CommandStatus::Success });
    }
    let refine = Refine { options, environment };
    refine.search(searches).await?;
    Ok(if has_errors { CommandStatus::Error } else { CommandStatus::Success })
}

impl Refine<'_> {
    /// Continues all searches until each has found its release.
    async fn search(&self, mut searches: Vec<RefineSearch>) -> Result<(), RefineError> {
        while !searches.is_empty() {
            let mut wanted: BTreeMap<AgentVersion, usize> = BTreeMap::new();
            for version in searches.iter().filter_map(|it| it.refinement.step().ok()) {
                *wanted.entry(version).or_default() += 1;
            }
            // The release that most searches wait for comes first, because others may join them.
            if let Some((version, count)) = wanted.into_iter().max_by_key(|(_, count)| *count) {
                eprintln!("{} conditions left, {count} of them need {version}", searches.len());
                self.step(version, &mut searches).await?;
            }
            let mut found: Vec<(RefineSearch, VerifyChange)> = Vec::new();
            let mut open = Vec::new();
            for search in searches {
                match search.refinement.step() {
                    Ok(_) => open.push(search),
                    Err(change) => found.push((search, change)),
                }
            }
            searches = open;
            // Each is written when it is found, so that nothing is lost if the command is ended.
            self.write(&found).await?;
        }
        Ok(())
    }

    /// Runs the scenarios that need a release with it.
    async fn step(
        &self,
        version: AgentVersion,
        searches: &mut [RefineSearch],
    ) -> Result<(), RefineError> {
        let needs = |it: &&mut RefineSearch| it.refinement.step() == Ok(version);
        let mut searches: Vec<&mut RefineSearch> = searches.iter_mut().filter(needs).collect();
        if let Err(error) = agents::fetch_one(version, self.environment).await {
            eprintln!("{version} is left out: {error}");
            for search in searches {
                search.refinement.add(version, BoundVerdict::Unknown, BoundVerdict::Unknown);
            }
            return Ok(());
        }
        let texts = searches.iter().map(|it| (&it.refinement, it.refinement.text().to_owned()));
        // One run of each is enough to search with: what is found is run again until it is certain.
        let once = ["--once".into()];
        let as_they_are = self.verdicts(version, &texts.collect::<Vec<_>>(), &once)?;
        // With a scenario that passes as it is, the change is still to come, unless the change only
        // adds checks.
        let is_open = |it: &RefineSearch, verdict: BoundVerdict| {
            verdict != BoundVerdict::Passed || it.refinement.only_adds_checks()
        };
        let rest = searches.iter().zip(&as_they_are);
        let rest = rest.filter(|(it, verdict)| is_open(it, **verdict));
        let rest = rest.map(|(it, _)| (&it.refinement, it.refinement.moved_to(version)));
        let mut moved = self.verdicts(version, &rest.collect::<Vec<_>>(), &once)?.into_iter();
        for (search, as_it_is) in searches.iter_mut().zip(as_they_are) {
            let moved = if is_open(search, as_it_is) { moved.next() } else { None };
            let moved = moved.unwrap_or(BoundVerdict::Unknown);
            if !search.refinement.add(version, as_it_is, moved) {
                let name = &search.refinement.scenario;
                eprintln!("{version} says nothing about {name}: {as_it_is:?}, {moved:?}");
            }
        }
        Ok(())
    }

    /// What scenarios with these texts do with a release.
    fn verdicts(
        &self,
        version: AgentVersion,
        texts: &[(&BoundRefinement, String)],
        options: &[OsString],
    ) -> Result<Vec<BoundVerdict>, RefineError> {
        let agent = VerifyAgent::known_release(version);
        let directory = tempfile::tempdir().map_err(RefineError::Directory)?;
        let mut files = Vec::new();
        for (refinement, text) in texts {
            let scenario = Scenario::parse(&refinement.scenario, text)?;
            if agent.runs(&scenario) {
                let file = scenario_file(directory.path(), &refinement.scenario);
                fs::write(&file, text)
                    .map_err(|source| RefineError::WriteFile { path: file.clone(), source })?;
                files.push(file);
            }
        }
        let results = self.run_release(version, &files, options)?;
        let verdicts = texts.iter().map(|(refinement, _)| {
            let name = &refinement.scenario;
            if !files.contains(&scenario_file(directory.path(), name)) {
                return BoundVerdict::NotApplicable;
            }
            match results.get(name).map(|it| it.outcome) {
                Some(ReleaseOutcome::Passed) => BoundVerdict::Passed,
                Some(ReleaseOutcome::Differs) => BoundVerdict::Differs,
                Some(ReleaseOutcome::NotApplicable) => BoundVerdict::NotApplicable,
                Some(ReleaseOutcome::Uncertain) | None => BoundVerdict::Unknown,
            }
        });
        Ok(verdicts.collect())
    }

    /// Moves the conditions whose releases are found, runs their scenarios with the releases before
    /// and after the change, and keeps these results.
    async fn write(&self, found: &[(RefineSearch, VerifyChange)]) -> Result<(), RefineError> {
        let directory = tempfile::tempdir().map_err(RefineError::Directory)?;
        // For each release the files to run, and the outcome that the search expects.
        let mut runs: BTreeMap<AgentVersion, BTreeMap<PathBuf, ReleaseOutcome>> = BTreeMap::new();
        for (RefineSearch { file, refinement }, change) in found {
            let (name, bound, after) = (&refinement.scenario, refinement.bound, change.after);
            let failed = |source| RefineError::WriteFile { path: file.clone(), source };
            let text = fs::read_to_string(file).map_err(failed)?;
            let text = refinement.moved_in(&text, after);
            if after == bound {
                writeln!(io::stdout().lock(), "{name}: {bound} is right")?;
            } else {
                fs::write(file, &text).map_err(failed)?;
                writeln!(io::stdout().lock(), "{name}: {bound} became {after}")?;
            }
            let scenario = Scenario::parse(name, &text)?;
            for version in BoundRefinement::evidence(change) {
                let runs = runs.entry(version).or_default();
                if VerifyAgent::known_release(version).runs(&scenario) {
                    runs.insert(file.clone(), ReleaseOutcome::Passed);
                    continue;
                }
                // The condition says that it differs with a release that it is not for.
                let evidence = directory.path().join(version.to_string());
                fs::create_dir_all(&evidence).map_err(RefineError::Directory)?;
                let evidence = scenario_file(&evidence, name);
                fs::write(&evidence, refinement.applying_to(version)).map_err(failed)?;
                runs.insert(evidence, ReleaseOutcome::Differs);
            }
        }
        let directory = self.options.results.clone().unwrap_or_default();
        for (version, expected) in runs {
            if let Err(error) = agents::fetch_one(version, self.environment).await {
                report_error(&error, error.hint().as_deref());
                continue;
            }
            let files: Vec<PathBuf> = expected.keys().cloned().collect();
            let options = ["--results".into(), directory.clone().into_os_string()];
            let results = self.run_release(version, &files, &options)?;
            for (file, expected) in expected {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                let outcome = results.get(&*name).map(|it| it.outcome);
                if outcome != Some(expected) {
                    eprintln!(
                        "{name} with {version}: expected {expected:?}, but it is {outcome:?}"
                    );
                }
            }
        }
        self.write_not_yet(found)
    }

    /// Keeps that the additional checks do not pass with the release before the change.
    fn write_not_yet(&self, found: &[(RefineSearch, VerifyChange)]) -> Result<(), RefineError> {
        let store = HistoryStore::new(self.options.results.clone().unwrap_or_default());
        let mut searches: BTreeMap<AgentVersion, Vec<(&BoundRefinement, AgentVersion)>> =
            BTreeMap::new();
        for (RefineSearch { refinement, .. }, change) in found {
            let before = BoundRefinement::evidence(change).find(|it| *it != change.after);
            if let Some(before) = before.filter(|_| refinement.only_adds_checks()) {
                searches.entry(before).or_default().push((refinement, change.after));
            }
        }
        for (version, searches) in searches {
            let texts: Vec<_> =
                searches.iter().map(|(it, _)| (*it, it.moved_to(version))).collect();
            let verdicts = self.verdicts(version, &texts, &[])?;
            for ((refinement, after), verdict) in searches.into_iter().zip(verdicts) {
                let name = refinement.scenario.as_str();
                if verdict == BoundVerdict::Differs {
                    store.add_not_yet(CLAUDE, version, (name, after))?;
                } else {
                    eprintln!(
                        "{name} with {version}: expected a difference with the checks of {after}, \
                         but it is {verdict:?}"
                    );
                }
            }
        }
        Ok(())
    }

    fn run_release(
        &self,
        version: AgentVersion,
        files: &[PathBuf],
        options: &[OsString],
    ) -> Result<HashMap<String, ReleaseResult>, RefineError> {
        run_release(self.options, version, files, options).map_err(RefineError::Restart)
    }
}
