//! `towpath verify --bisect`: finds the release in which the outcome of a scenario changed.
//!
//! This process has the network and fetches releases. Each release runs the scenario in a process of
//! its own, without a network, which keeps its result; so a search that is repeated runs nothing.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use testbed::history::FIRST_RELEASE;
use testbed::scenario::{
    AgentVersion, Scenario, ScenarioError, VersionBound, with_step_bound, with_versions_bound,
};
use testbed::verify::{
    VerifyAgent, VerifyBisection, VerifyChange, VerifyKeptResult, VerifyResultStore, side_by_side,
    text_digest,
};

use super::agents::{self, VerifyAgentChoiceError, VerifyEnvironment};
use super::release_run::run_release;
use super::selection::{VerifySelectionError, select};
use crate::arguments::VerifyArgs;
use crate::exit::{CommandStatus, report_error};

/// The search is not possible.
#[derive(Debug, thiserror::Error)]
pub(super) enum BisectError {
    #[error(transparent)]
    Selection(#[from] VerifySelectionError),
    #[error("`{0}` selects more than one scenario")]
    SeveralScenarios(String),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Agent(#[from] VerifyAgentChoiceError),
    #[error("Claude Code {0} is not among the published versions that the scenario is for")]
    NotPublished(AgentVersion),
    #[error("fewer than two published versions are in question")]
    TooFewVersions,
    #[error("the scenario does not pass with {0}")]
    GoodDiffers(AgentVersion),
    #[error("the scenario passes with {0}")]
    BadPasses(AgentVersion),
    #[error("the scenario could not be judged with {version}: {problem}")]
    NoVerdict { version: AgentVersion, problem: String },
    #[error("could not run this program again")]
    Restart(#[source] io::Error),
    #[error("could not write `{}`", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    #[error("could not write the report")]
    Write(#[from] io::Error),
}

impl BisectError {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Selection(error) => Some(error.hint()),
            Self::Scenario(error) => error.hint(),
            Self::Agent(error) => error.hint(),
            Self::SeveralScenarios(_) => Some("give the name or the file of one scenario".into()),
            Self::GoodDiffers(_) | Self::BadPasses(_) => Some(
                "`--good` is a release with which it passes, `--bad` one with which it differs"
                    .into(),
            ),
            _ => None,
        }
    }
}

/// A search for one scenario.
struct BisectSearch<'a> {
    file: &'a Path,
    name: String,
    options: &'a VerifyArgs,
    environment: &'a VerifyEnvironment,
    store: VerifyResultStore,
    runs: usize,
}

/// Runs the command.
pub(super) async fn run(
    word: &str,
    options: &VerifyArgs,
    environment: &VerifyEnvironment,
) -> Result<CommandStatus, BisectError> {
    let files = select(&[word.to_owned()])?;
    let [file] = files.as_slice() else {
        return Err(BisectError::SeveralScenarios(word.to_owned()));
    };
    let scenario = Scenario::load(file)?;
    let store = environment.result_store().ok_or(VerifyAgentChoiceError::NoCache)?;
    let published = environment.published_versions(false).await?;
    // An earlier release can run no scenario. As the oldest end it would differ as the newest one does, and
    // the change in between would not be seen.
    let applies = |version: &AgentVersion| {
        *version >= FIRST_RELEASE && VerifyAgent::known_release(*version).runs(&scenario)
    };
    let versions: Vec<AgentVersion> = published.all().iter().copied().filter(applies).collect();
    let name = scenario.name.clone();
    let mut search = BisectSearch { file, name, options, environment, store, runs: 0 };
    let Some((versions, first_passes)) = search.ends(versions).await? else {
        return Ok(CommandStatus::Negative);
    };
    let change = search.narrow(VerifyBisection::new(versions, first_passes)).await?;
    search.report(&change)?;
    if options.write_bounds {
        search.write_bounds(&change).await?;
    }
    Ok(CommandStatus::Success)
}

impl BisectSearch<'_> {
    /// The versions between the two ends, and whether the scenario passes with the first. `None` if
    /// its outcome is the same at both ends.
    async fn ends(
        &mut self,
        mut versions: Vec<AgentVersion>,
    ) -> Result<Option<(Vec<AgentVersion>, bool)>, BisectError> {
        let (good, bad) = (self.options.good, self.options.bad);
        for version in [good, bad].into_iter().flatten() {
            if !versions.contains(&version) {
                return Err(BisectError::NotPublished(version));
            }
        }
        if let Some(version) = good
            && !self.passes(version).await?
        {
            return Err(BisectError::GoodDiffers(version));
        }
        if let Some(version) = bad
            && self.passes(version).await?
        {
            return Err(BisectError::BadPasses(version));
        }
        if let (Some(good), Some(bad)) = (good, bad) {
            versions.retain(|it| (good.min(bad)..=good.max(bad)).contains(it));
            return Ok(Some((versions, good < bad)));
        }
        // A version that cannot be judged is no end.
        let newest = loop {
            let version = *versions.last().ok_or(BisectError::TooFewVersions)?;
            match self.verdict(version).await? {
                Ok(passes) => break passes,
                Err(_) => drop(versions.pop()),
            }
        };
        if let Some(end) = good.or(bad) {
            let end_passes = good.is_some();
            if end_passes != newest {
                versions.retain(|it| *it >= end);
                return Ok(Some((versions, end_passes)));
            }
            // The change is then before the given version.
            versions.retain(|it| *it <= end);
        }
        let last_passes = if good.or(bad).is_some() { good.is_some() } else { newest };
        let oldest = loop {
            let version = *versions.first().ok_or(BisectError::TooFewVersions)?;
            match self.verdict(version).await? {
                Ok(passes) => break passes,
                Err(_) => drop(versions.remove(0)),
            }
        };
        if oldest == last_passes || versions.len() < 2 {
            let outcome = if oldest { "passes" } else { "differs" };
            let ends = (versions.first(), versions.last());
            if let (Some(first), Some(last)) = ends {
                writeln!(
                    io::stdout().lock(),
                    "{}: no change found, it {outcome} with {first} and with {last}",
                    self.name
                )?;
            }
            return Ok(None);
        }
        Ok(Some((versions, oldest)))
    }

    /// Halves the versions until the change is found.
    async fn narrow(
        &mut self,
        mut bisection: VerifyBisection,
    ) -> Result<VerifyChange, BisectError> {
        loop {
            let version = match bisection.step() {
                Ok(version) => version,
                Err(change) => return Ok(change),
            };
            eprintln!("at most {} more runs", bisection.remaining_runs());
            match self.verdict(version).await? {
                Ok(passes) => bisection.add(version, passes),
                Err(problem) => {
                    eprintln!("{version} is left out: {problem}");
                    bisection.skip(version);
                }
            }
        }
    }

    /// Whether the scenario passes with a version that must be judged.
    async fn passes(&mut self, version: AgentVersion) -> Result<bool, BisectError> {
        let verdict = self.verdict(version).await?;
        verdict.map_err(|problem| BisectError::NoVerdict { version, problem })
    }

    /// Whether the scenario passes with a version. The inner error says why that is not known.
    async fn verdict(
        &mut self,
        version: AgentVersion,
    ) -> Result<Result<bool, String>, BisectError> {
        if self.kept(version).is_none() || self.options.again {
            if let Err(error) = agents::fetch_one(version, self.environment).await {
                return Ok(Err(error.to_string()));
            }
            self.run_release(version)?;
            self.runs += 1;
        }
        let Some(result) = self.kept(version) else {
            let all = self.store.load(CLAUDE, version);
            let outcome = all.latest(&self.name).map_or("not run", |it| it.outcome.as_str());
            return Ok(Err(format!("the scenario is {}", outcome.replace('_', " "))));
        };
        let passes = result.difference.is_none();
        eprintln!("{version}: {}", if passes { "passes" } else { "differs" });
        Ok(Ok(passes))
    }

    /// The certain result of a version.
    fn kept(&self, version: AgentVersion) -> Option<VerifyKeptResult> {
        let text = fs::read_to_string(self.file).ok()?;
        self.store.load(CLAUDE, version).certain(&self.name, &text_digest(&text)).cloned()
    }

    /// Runs the scenario. Its result is then kept, whatever it is.
    fn run_release(&self, version: AgentVersion) -> Result<(), BisectError> {
        let files = [self.file.to_owned()];
        run_release(self.options, version, &files, &["--again".into()])
            .map_err(BisectError::Restart)?;
        Ok(())
    }

    /// Prints the change with both conversations.
    fn report(&self, change: &VerifyChange) -> Result<(), BisectError> {
        let VerifyChange { before, after, passes_before } = change;
        let outcome = |passes: bool| if passes { "passes" } else { "differs" };
        let mut out = anstream::stdout().lock();
        writeln!(
            out,
            "{} changed in {after}: it {} with {before} and {} with {after} ({} runs)",
            self.name,
            outcome(*passes_before),
            outcome(!passes_before),
            self.runs
        )?;
        let results = [self.kept(*before), self.kept(*after)];
        if let Some(difference) = results.iter().flatten().find_map(|it| it.difference.as_ref()) {
            writeln!(out, "\n{}:{}: {difference}", self.file.display(), difference.line)?;
        }
        if let [Some(before_result), Some(after_result)] = &results {
            let before_lines = self.store.conversation(before_result)?;
            let after_lines = self.store.conversation(after_result)?;
            let titles = [before.to_string(), after.to_string()];
            let text =
                side_by_side((&titles[0], &before_lines), (&titles[1], &after_lines), COLUMN_WIDTH);
            writeln!(out, "\n{}", text.trim_end())?;
        }
        Ok(())
    }

    /// Writes the condition at the step that differs. If later steps then differ too, the whole
    /// scenario gets it.
    async fn write_bounds(&mut self, change: &VerifyChange) -> Result<(), BisectError> {
        let VerifyChange { before, after, passes_before } = change;
        let (bound, differing) = if *passes_before {
            (VersionBound::Before(*after), *after)
        } else {
            (VersionBound::Since(*after), *before)
        };
        let difference = self.kept(differing).and_then(|it| it.difference);
        let failed = |source| BisectError::WriteFile { path: self.file.to_owned(), source };
        let text = fs::read_to_string(self.file).map_err(failed)?;
        if let Some(difference) = difference {
            fs::write(self.file, with_step_bound(&text, difference.line, bound)).map_err(failed)?;
            if matches!(self.verdict(differing).await, Ok(Ok(true))) {
                eprintln!("wrote [{bound}] to {}:{}", self.file.display(), difference.line);
                return Ok(());
            }
        }
        let failed = |source| BisectError::WriteFile { path: self.file.to_owned(), source };
        fs::write(self.file, with_versions_bound(&text, bound)).map_err(failed)?;
        if let Err(error) = Scenario::load(self.file) {
            report_error(&error, error.hint().as_deref());
        }
        eprintln!("wrote `versions {bound}` to {}", self.file.display());
        Ok(())
    }
}

/// The name of Claude Code among kept results.
pub(super) const CLAUDE: &str = "claude";

/// The width of each conversation: both fit on a screen of 160 characters.
const COLUMN_WIDTH: usize = 78;
