//! `towpath verify`: runs scenarios against agents and reports differences.

mod agents;
mod bisect;
mod bound;
mod history;
mod isolation;
mod kept_results;
mod lines;
mod output;
mod refine;
mod release_run;
mod selection;

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anstream::eprintln;
use testbed::history::{HistoryPageError, HistoryStoreError};
use testbed::scenario::Scenario;
use testbed::verify::{
    VerifyAgent, VerifyCalibration, VerifyConfig, VerifyOutcome, VerifyProgress, VerifyRepetition,
    VerifyResult, VerifySuite, calibrate, report,
};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::VerifyArgs;
use crate::exit::CommandStatus;
use crate::exit::report_error;
use agents::{VerifyAgentChoice, VerifyEnvironment};
use isolation::restart_without_network;
use kept_results::KeptResults;
use output::{VerifyProgressLine, VerifyTable};
use selection::{VerifyScenarioFiles, VerifySelectionError, list, select};

/// Runs the command.
pub(crate) fn run(options: &VerifyArgs) -> CommandStatus {
    match verify(options) {
        Ok(status) => status,
        // The reader of our output has closed the pipe, as `head` does.
        Err(VerifyError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            CommandStatus::Success
        }
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum VerifyError {
    #[error("could not start the async runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Selection(#[from] VerifySelectionError),
    #[error(transparent)]
    Agent(#[from] agents::VerifyAgentChoiceError),
    #[error(transparent)]
    Bisect(#[from] bisect::BisectError),
    #[error(transparent)]
    Bound(#[from] bound::BoundError),
    #[error(transparent)]
    Refine(#[from] refine::RefineError),
    #[error(transparent)]
    History(#[from] HistoryPageError),
    #[error(transparent)]
    Results(#[from] HistoryStoreError),
    #[error("could not write the report")]
    Write(#[from] io::Error),
    #[error("could not write `{}`", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
    #[error("could not read `{}`", path.display())]
    ReadLines { path: PathBuf, source: io::Error },
    #[error("`--record-lines` needs one release of Claude Code, as in `--claude npm:2.1.325`")]
    NoReleaseOfLines,
    #[error("interrupted before all scenarios were finished")]
    Interrupted,
    #[error("could not create a directory for captures")]
    CaptureDirectory(#[source] io::Error),
}

impl VerifyError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Selection(error) => Some(error.hint()),
            Self::Agent(error) => error.hint(),
            Self::Bisect(error) => error.hint(),
            Self::Bound(error) => error.hint(),
            Self::Refine(error) => error.hint(),
            _ => None,
        }
    }
}

fn verify(options: &VerifyArgs) -> Result<CommandStatus, VerifyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(VerifyError::Runtime)?;
    let environment = VerifyEnvironment::read();
    if let Some(status) = search_releases(options, &environment, &runtime) {
        return status;
    }
    let files = select(&options.scenarios)?;
    let mut loaded = VerifyScenarioFiles::load(files);
    if options.list {
        let has_errors = loaded.report_errors();
        list(&loaded.scenarios)?;
        return Ok(if has_errors { CommandStatus::Error } else { CommandStatus::Success });
    }
    let mut choices = VerifyAgentChoice::parse_all(&options.claude, &options.agent)?;
    if options.all || options.since.is_some() {
        let published = runtime.block_on(environment.published_versions(options.isolated))?;
        let versions = options.since.map_or(published.all(), |first| published.since(first));
        choices = VerifyAgentChoice::with_releases(choices, versions);
        if let Some(directory) = &options.results {
            history::save_published(directory, &published)?;
        }
    }
    if choices.is_empty() {
        choices.push(VerifyAgentChoice::Play);
    }
    // A page and captures are made from runs, so that nothing can be taken from earlier ones.
    let uses_kept = !(options.again
        || options.times.is_some()
        || options.markdown
        || options.record.is_some()
        || options.record_lines.is_some());
    let known = KeptResults::load(&environment, options.results.clone(), uses_kept);
    let is_known = |choice: &VerifyAgentChoice| known.covers(choice, &loaded);
    if !options.isolated {
        let needed = choices.iter().filter(|choice| !is_known(choice));
        runtime.block_on(agents::fetch_missing(needed, &environment));
        // This returns only if the program cannot be isolated from the network.
        let reason = restart_without_network();
        eprintln!("note: the agents have network access: {reason}");
    }
    // This process is the one that stays, so that errors are printed once.
    let has_errors = loaded.report_errors();
    if loaded.scenarios.is_empty() {
        return Ok(CommandStatus::Error);
    }
    let mut agents = runtime.block_on(agents::detect_all(&choices, &environment, is_known));
    if agents.is_empty() {
        return Ok(CommandStatus::Error);
    }
    loaded.retain_spoken(&agents);
    if loaded.scenarios.is_empty() {
        return Err(VerifySelectionError::OtherProtocol.into());
    }
    let is_incomplete = has_errors || agents.len() < choices.len();
    let failures = tempfile::Builder::new().prefix("towpath-verify-").tempdir();
    let failures = failures.map_err(VerifyError::CaptureDirectory)?;
    let config = VerifyConfig {
        timeout: options.timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs),
        jobs: options.jobs.unwrap_or_else(cores),
        search_path: environment.agent_search_path(),
        capture_dir: options.record.clone(),
        failure_dir: failures.path().to_owned(),
        confirm: !options.once,
        line_order: lines::load(options.lines.as_deref(), &loaded)?.map(Arc::new),
    };
    let run = SuiteRun { options, runtime: &runtime, loaded: &loaded, known: &known, config };
    let mut repetition = VerifyRepetition::default();
    let mut duration = Duration::ZERO;
    for number in 1..=options.times.unwrap_or(1) {
        if let Some(times) = options.times {
            eprintln!("run {number} of {times}");
        }
        let (results, seconds) = run.run(&mut agents)?;
        repetition.add(results);
        duration += seconds;
    }
    let results = repetition.results();
    let is_suite = options.scenarios.is_empty();
    known.write_project(&loaded, &agents, &results, is_suite)?;
    lines::record(options.record_lines.as_deref(), &loaded, &agents, &results)?;
    let has_captures = results.iter().any(|result| {
        result.capture_path.as_ref().is_some_and(|path| path.starts_with(failures.path()))
    });
    if has_captures {
        // The user will want to look at the captures, so the directory is not removed.
        let _ = failures.keep();
    }
    let table = VerifyTable {
        files: &loaded.files,
        scenarios: &loaded.scenarios,
        agents: &agents,
        results: &results,
        duration,
        repetition: options.times.map(|_| &repetition),
    };
    write_reports(options, &table)?;
    let incomplete = if is_incomplete { CommandStatus::Error } else { CommandStatus::Success };
    let status = if repetition.varying() > 0 {
        // Whatever one run says of the agent, the next one may not.
        CommandStatus::Uncertain
    } else {
        exit_status(&results)
    };
    Ok(status.max(incomplete))
}

/// What all runs of the selected scenarios share.
struct SuiteRun<'a> {
    options: &'a VerifyArgs,
    runtime: &'a Runtime,
    loaded: &'a VerifyScenarioFiles,
    known: &'a KeptResults,
    config: VerifyConfig,
}

impl SuiteRun<'_> {
    /// Runs everything that is not known once. Returns all results, and how long it took.
    fn run(
        &self,
        agents: &mut [VerifyAgent],
    ) -> Result<(Vec<VerifyResult>, Duration), VerifyError> {
        let Self { options, runtime, loaded, known, config } = self;
        let kept = known.results(loaded, agents);
        if options.timeout.is_none() {
            runtime.block_on(until_interrupted(calibrate_all(agents, loaded, &kept, config)))?;
        }
        let mut progress = VerifyProgressLine::new(&loaded.scenarios, agents, kept.len());
        let mut suite = VerifySuite::new(loaded.scenarios.clone(), agents.to_vec(), config.clone());
        suite.keep(kept);
        let results = suite.run(|event| {
            progress.update(&event);
            if let VerifyProgress::Finished(result) = event
                // What was seen once proves nothing.
                && !(options.once && result.outcome.is_failure())
            {
                known.save(loaded, &agents[result.agent], result);
            }
        });
        let results = runtime.block_on(until_interrupted(results))?;
        Ok((results, progress.finish()))
    }
}

/// Runs the command if it is about the history of releases and the conditions in scenarios.
fn search_releases(
    options: &VerifyArgs,
    environment: &VerifyEnvironment,
    runtime: &Runtime,
) -> Option<Result<CommandStatus, VerifyError>> {
    if options.history {
        return Some(history::print_page());
    }
    if let Some(word) = &options.bisect {
        let status = runtime.block_on(bisect::run(word, options, environment));
        return Some(status.map_err(VerifyError::from));
    }
    if options.bound_differences {
        let status = runtime.block_on(bound::run(options, environment));
        return Some(status.map_err(VerifyError::from));
    }
    if options.refine_bounds {
        let status = runtime.block_on(refine::run(options, environment));
        return Some(status.map_err(VerifyError::from));
    }
    None
}

/// How long a step may wait with an agent that does not get through the measured turn.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);

/// Measures the agents that will run something, and says what follows from it.
async fn calibrate_all(
    agents: &mut [VerifyAgent],
    loaded: &VerifyScenarioFiles,
    kept: &[VerifyResult],
    config: &VerifyConfig,
) {
    for (index, agent) in agents.iter_mut().enumerate() {
        let runs = |(scenario, it): (usize, &Scenario)| {
            agent.runs(it) && !kept.iter().any(|it| (it.scenario, it.agent) == (scenario, index))
        };
        if !loaded.scenarios.iter().enumerate().any(runs) {
            continue;
        }
        agent.calibration = calibrate(agent, config).await;
        let label = &agent.label;
        match agent.calibration {
            Some(VerifyCalibration { turn, timeout }) => eprintln!(
                "note: a turn takes {label} {:.1} s, so its steps may wait {} s",
                turn.as_secs_f64(),
                timeout.as_secs()
            ),
            None => eprintln!(
                "note: {label} did not get through the turn that measures its speed; its steps may wait {} s",
                config.timeout.as_secs()
            ),
        }
    }
}

fn write_reports(options: &VerifyArgs, table: &VerifyTable<'_>) -> Result<(), VerifyError> {
    let VerifyTable { scenarios, agents, results, repetition, .. } = *table;
    if let Some(path) = &options.junit {
        fs::write(path, report::junit(scenarios, agents, results))
            .map_err(|source| VerifyError::WriteFile { path: path.clone(), source })?;
    }
    if options.json {
        let mut report = report::json(scenarios, agents, results);
        if let Some(repetition) = repetition {
            report::add_repetition(&mut report, results, repetition);
        }
        writeln!(io::stdout().lock(), "{report}")?;
    } else if options.markdown {
        let page = report::markdown(scenarios, agents, results, &explanations());
        write!(io::stdout().lock(), "{page}")?;
        table.write_differences(&mut anstream::stderr().lock())?;
    } else {
        table.write(&mut anstream::stdout().lock())?;
    }
    Ok(())
}

/// What each message means, for the page about the protocol.
fn explanations() -> Vec<report::MessageExplanation> {
    let all = wire::explanation::explanations().into_iter();
    all.map(|it| report::MessageExplanation {
        name: it.name.to_owned(),
        group: it.group.to_owned(),
        text: it.text,
    })
    .collect()
}

/// Waits for the results or a signal. After a signal all processes of all sandboxes are killed,
/// because their runners are dropped.
async fn until_interrupted<T>(results: impl Future<Output = T>) -> Result<T, VerifyError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(VerifyError::Runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(VerifyError::Runtime)?;
    tokio::select! {
        results = results => Ok(results),
        _ = interrupt.recv() => Err(VerifyError::Interrupted),
        _ = terminate.recv() => Err(VerifyError::Interrupted),
    }
}

fn exit_status(results: &[VerifyResult]) -> CommandStatus {
    let statuses = results.iter().map(|result| match result.outcome {
        VerifyOutcome::Passed | VerifyOutcome::NotApplicable => CommandStatus::Success,
        VerifyOutcome::Flaky(_) | VerifyOutcome::TimedOut(_) => CommandStatus::Uncertain,
        VerifyOutcome::Differs(_) => CommandStatus::Negative,
        VerifyOutcome::CouldNotRun(_) => CommandStatus::Error,
    });
    statuses.max().unwrap_or(CommandStatus::Success)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, Into::into)
}
