//! `towpath verify`: the book of scenarios, held with any agent.

mod agents;
mod isolation;
mod progress;
mod selection;
mod table;

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anstream::eprintln;
use testbed::scenario::{LoadError, Scenario};
use testbed::verify::{Outcome, Report, Settings, report, run_book};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::VerifyOptions;
use crate::complaint::complain;
use crate::verdict::Verdict;
use agents::{Choice, Surroundings};
use progress::Progress;
use selection::Selected;

/// Runs the command.
pub(crate) fn run(options: &VerifyOptions) -> Verdict {
    match verify(options) {
        Ok(verdict) => verdict,
        // Whoever reads our output has seen enough.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Done,
        Err(failure) => {
            complain(&failure, failure.hint().as_deref());
            Verdict::CouldNotTry
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("could not set up what runs the scenarios")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Selection(#[from] selection::NothingFound),
    #[error(transparent)]
    Agent(#[from] agents::NoAgent),
    #[error("could not write the report")]
    Write(#[from] io::Error),
    #[error("could not write `{}`", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    #[error("ended before the scenarios were over")]
    Ended,
    #[error("no directory for captures could be made")]
    Evidence(#[source] io::Error),
}

impl Failure {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Selection(nothing) => Some(nothing.hint()),
            Self::Agent(none) => none.hint(),
            _ => None,
        }
    }
}

fn verify(options: &VerifyOptions) -> Result<Verdict, Failure> {
    let selected = Selected::by(&options.scenarios)?;
    if options.list {
        let Loaded { scenarios, unreadable, .. } = Loaded::of(selected);
        list(&scenarios)?;
        return Ok(if unreadable { Verdict::CouldNotTry } else { Verdict::Done });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::Runtime)?;
    let surroundings = Surroundings::read();
    let choices = Choice::all(&options.claude)?;
    if !options.isolated {
        runtime.block_on(agents::fetch_missing(&choices, &surroundings));
        // Comes back only where there is no way to do without the network.
        let why = isolation::enter();
        eprintln!("note: agents can reach the network here: {why}");
    }
    let Loaded { files, scenarios, unreadable } = Loaded::of(selected);
    if scenarios.is_empty() {
        return Ok(Verdict::CouldNotTry);
    }
    let agents = runtime.block_on(agents::ask_all(&choices, &surroundings));
    if agents.is_empty() {
        return Ok(Verdict::CouldNotTry);
    }
    let incomplete = unreadable || agents.len() < choices.len();
    let evidence = tempfile::Builder::new().prefix("towpath-verify-").tempdir();
    let evidence = evidence.map_err(Failure::Evidence)?;
    let settings = Settings {
        patience: Duration::from_secs(options.timeout),
        jobs: options.jobs.unwrap_or_else(cores),
        search_path: surroundings.for_agents(),
        record: options.record.clone(),
        evidence: evidence.path().to_owned(),
        again: options.again,
    };
    let mut progress = Progress::over(&scenarios, &agents);
    let book = run_book(scenarios.clone(), agents.clone(), settings, |news| progress.tell(&news));
    let reports = runtime.block_on(unless_ended(book))?;
    let took = progress.end();
    if reports.iter().any(|it| it.kept.as_ref().is_some_and(|it| it.starts_with(evidence.path()))) {
        // There is something to look at, so it stays.
        let _ = evidence.keep();
    }
    let outcome = table::Table {
        files: &files,
        scenarios: &scenarios,
        agents: &agents,
        reports: &reports,
        took,
    };
    if let Some(path) = &options.junit {
        fs::write(path, report::junit(&scenarios, &agents, &reports))
            .map_err(|source| Failure::WriteFile { path: path.clone(), source })?;
    }
    if options.json {
        let json = report::json(&scenarios, &agents, &reports);
        writeln!(io::stdout().lock(), "{json}")?;
    } else if options.markdown {
        write!(io::stdout().lock(), "{}", report::markdown(&scenarios, &agents, &reports))?;
        outcome.write_differences(&mut anstream::stderr().lock())?;
    } else {
        outcome.write(&mut anstream::stdout().lock())?;
    }
    Ok(verdict(&reports).max(if incomplete { Verdict::CouldNotTry } else { Verdict::Done }))
}

/// The book's reports, unless someone ends us before. What runs is then dropped, and with it every
/// process of every sandbox.
async fn unless_ended(book: impl Future<Output = Vec<Report>>) -> Result<Vec<Report>, Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Runtime)?;
    tokio::select! {
        reports = book => Ok(reports),
        _ = interrupt.recv() => Err(Failure::Ended),
        _ = terminate.recv() => Err(Failure::Ended),
    }
}

/// What can be read of the selected files, each with its file, and whether something cannot.
struct Loaded {
    files: Vec<PathBuf>,
    scenarios: Vec<Scenario>,
    unreadable: bool,
}

impl Loaded {
    /// Reads the files; what cannot be read is complained of.
    fn of(selected: Selected) -> Self {
        let mut loaded = Self { files: Vec::new(), scenarios: Vec::new(), unreadable: false };
        for file in selected.files {
            match Scenario::load(&file) {
                Ok(scenario) => {
                    loaded.files.push(file);
                    loaded.scenarios.push(scenario);
                }
                Err(error) => {
                    complain(&error, LoadError::hint(&error).as_deref());
                    loaded.unreadable = true;
                }
            }
        }
        loaded
    }
}

fn list(scenarios: &[Scenario]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let width = scenarios.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    for scenario in scenarios {
        let versions = if scenario.versions.is_all() {
            String::new()
        } else {
            format!("  ({})", scenario.versions)
        };
        writeln!(out, "{:<width$}  {}{versions}", scenario.name, scenario.title)?;
    }
    Ok(())
}

fn verdict(reports: &[Report]) -> Verdict {
    let verdicts = reports.iter().map(|report| match report.outcome {
        Outcome::Holds | Outcome::NotMeant => Verdict::Done,
        Outcome::Differs(_) => Verdict::No,
        Outcome::CouldNotRun(_) => Verdict::CouldNotTry,
    });
    verdicts.max().unwrap_or(Verdict::Done)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, Into::into)
}
