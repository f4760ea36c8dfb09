//! `towpath verify`: runs scenarios against agents and reports differences.

mod agents;
mod output;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anstream::eprintln;
use testbed::scenario::{Scenario, ScenarioVariables, matches_text};
use testbed::verify::{VerifyConfig, VerifyOutcome, VerifyResult, report, run_scenarios};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::VerifyArgs;
use crate::exit::CommandStatus;
use crate::exit::report_error;
use agents::{VerifyAgentChoice, VerifyEnvironment};
use output::{VerifyProgressLine, VerifyTable};

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
    #[error("could not write the report")]
    Write(#[from] io::Error),
    #[error("could not write `{}`", path.display())]
    WriteFile { path: PathBuf, source: io::Error },
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
            _ => None,
        }
    }
}

fn verify(options: &VerifyArgs) -> Result<CommandStatus, VerifyError> {
    let files = select(&options.scenarios)?;
    if options.list {
        let loaded = VerifyScenarioFiles::load(files);
        list(&loaded.scenarios)?;
        return Ok(if loaded.has_errors { CommandStatus::Error } else { CommandStatus::Success });
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(VerifyError::Runtime)?;
    let environment = VerifyEnvironment::read();
    let choices = VerifyAgentChoice::parse_all(&options.claude)?;
    if !options.isolated {
        runtime.block_on(agents::fetch_missing(&choices, &environment));
        // This returns only if the program cannot be isolated from the network.
        let reason = restart_without_network();
        eprintln!("note: the agents have network access: {reason}");
    }
    let VerifyScenarioFiles { files, scenarios, has_errors } = VerifyScenarioFiles::load(files);
    if scenarios.is_empty() {
        return Ok(CommandStatus::Error);
    }
    let agents = runtime.block_on(agents::detect_all(&choices, &environment));
    if agents.is_empty() {
        return Ok(CommandStatus::Error);
    }
    let is_incomplete = has_errors || agents.len() < choices.len();
    let failures = tempfile::Builder::new().prefix("towpath-verify-").tempdir();
    let failures = failures.map_err(VerifyError::CaptureDirectory)?;
    let config = VerifyConfig {
        timeout: Duration::from_secs(options.timeout),
        jobs: options.jobs.unwrap_or_else(cores),
        search_path: environment.agent_search_path(),
        capture_dir: options.record.clone(),
        failure_dir: failures.path().to_owned(),
        retry: options.again,
    };
    let mut progress = VerifyProgressLine::new(&scenarios, &agents);
    let results = run_scenarios(scenarios.clone(), agents.clone(), config, |event| {
        progress.update(&event);
    });
    let results = runtime.block_on(until_interrupted(results))?;
    let duration = progress.finish();
    let has_captures = results.iter().any(|result| {
        result.capture_path.as_ref().is_some_and(|path| path.starts_with(failures.path()))
    });
    if has_captures {
        // The user will want to look at the captures, so the directory is not removed.
        let _ = failures.keep();
    }
    if let Some(path) = &options.junit {
        fs::write(path, report::junit(&scenarios, &agents, &results))
            .map_err(|source| VerifyError::WriteFile { path: path.clone(), source })?;
    }
    let table = VerifyTable {
        files: &files,
        scenarios: &scenarios,
        agents: &agents,
        results: &results,
        duration,
    };
    if options.json {
        let json = report::json(&scenarios, &agents, &results);
        writeln!(io::stdout().lock(), "{json}")?;
    } else if options.markdown {
        write!(io::stdout().lock(), "{}", report::markdown(&scenarios, &agents, &results))?;
        table.write_differences(&mut anstream::stderr().lock())?;
    } else {
        table.write(&mut anstream::stdout().lock())?;
    }
    let incomplete = if is_incomplete { CommandStatus::Error } else { CommandStatus::Success };
    Ok(exit_status(&results).max(incomplete))
}

/// Waits for the results or a signal. After a signal all processes of all sandboxes are killed,
/// because their runners are dropped.
async fn until_interrupted(
    results: impl Future<Output = Vec<VerifyResult>>,
) -> Result<Vec<VerifyResult>, VerifyError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(VerifyError::Runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(VerifyError::Runtime)?;
    tokio::select! {
        results = results => Ok(results),
        _ = interrupt.recv() => Err(VerifyError::Interrupted),
        _ = terminate.recv() => Err(VerifyError::Interrupted),
    }
}

/// The directory of the scenario suite.
const SUITE: &str = "scenarios";
const EXTENSION: &str = "scenario";

/// There are no scenarios to run.
#[derive(Debug, thiserror::Error)]
enum VerifySelectionError {
    #[error("there is no directory `{SUITE}` here")]
    NoSuite,
    #[error("there are no scenarios in `{0}`")]
    Empty(String),
    #[error("there is no scenario `{0}`")]
    NotFound(String),
}

impl VerifySelectionError {
    fn hint(&self) -> String {
        match self {
            Self::NoSuite => {
                "give files or directories, as in `towpath verify path/to/x.scenario`".into()
            }
            Self::Empty(_) => format!("scenario files end with `.{EXTENSION}`"),
            Self::NotFound(_) => "`towpath verify --list` prints all scenarios".into(),
        }
    }
}

/// The files for the given files, directories, names and name patterns. Without any, the whole suite.
fn select(words: &[String]) -> Result<Vec<PathBuf>, VerifySelectionError> {
    if words.is_empty() {
        return suite();
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for word in words {
        for file in select_one(word)? {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

fn select_one(word: &str) -> Result<Vec<PathBuf>, VerifySelectionError> {
    let path = Path::new(word);
    if path.is_dir() {
        return non_empty(find_files(path), word);
    }
    let has_extension = path.extension().is_some_and(|it| it == EXTENSION);
    if has_extension || path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let pattern = word.replace('*', "…");
    let mut files = suite()?;
    files.retain(|file| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        matches_text(&pattern, &name, &ScenarioVariables::default())
    });
    if files.is_empty() { Err(VerifySelectionError::NotFound(word.into())) } else { Ok(files) }
}

fn suite() -> Result<Vec<PathBuf>, VerifySelectionError> {
    if !Path::new(SUITE).is_dir() {
        return Err(VerifySelectionError::NoSuite);
    }
    non_empty(find_files(Path::new(SUITE)), SUITE)
}

fn non_empty(files: Vec<PathBuf>, directory: &str) -> Result<Vec<PathBuf>, VerifySelectionError> {
    if files.is_empty() { Err(VerifySelectionError::Empty(directory.into())) } else { Ok(files) }
}

/// All scenario files below a directory, sorted by path.
fn find_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                find_files(&path)
            } else if path.extension().is_some_and(|it| it == EXTENSION) {
                vec![path]
            } else {
                Vec::new()
            }
        })
        .collect();
    // Without the extension `hello` comes before `hello-again`, with it after.
    files.sort_by_key(|file| file.with_extension(""));
    files
}

/// The scenarios that could be loaded, each with its file.
struct VerifyScenarioFiles {
    files: Vec<PathBuf>,
    scenarios: Vec<Scenario>,
    has_errors: bool,
}

impl VerifyScenarioFiles {
    /// Loads the files, and prints the errors of those that cannot be loaded.
    fn load(selected: Vec<PathBuf>) -> Self {
        let mut loaded = Self { files: Vec::new(), scenarios: Vec::new(), has_errors: false };
        for file in selected {
            match Scenario::load(&file) {
                Ok(scenario) => {
                    loaded.files.push(file);
                    loaded.scenarios.push(scenario);
                }
                Err(error) => {
                    report_error(&error, error.hint().as_deref());
                    loaded.has_errors = true;
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
        let versions = if scenario.versions.is_unbounded() {
            String::new()
        } else {
            format!("  ({})", scenario.versions)
        };
        writeln!(out, "{:<width$}  {}{versions}", scenario.name, scenario.title)?;
    }
    Ok(())
}

fn exit_status(results: &[VerifyResult]) -> CommandStatus {
    let statuses = results.iter().map(|result| match result.outcome {
        VerifyOutcome::Passed | VerifyOutcome::NotApplicable => CommandStatus::Success,
        VerifyOutcome::Differs(_) => CommandStatus::Negative,
        VerifyOutcome::CouldNotRun(_) => CommandStatus::Error,
    });
    statuses.max().unwrap_or(CommandStatus::Success)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, Into::into)
}

/// A shell script that enables the loopback interface and then runs its arguments.
const ENABLE_LOOPBACK: &str =
    "{ ip link set lo up || ifconfig lo up; } 2>/dev/null || exit 97; exec \"$@\"";

/// Replaces this process by the same program in a network namespace with loopback only. Returns the
/// reason if that is not possible.
#[expect(clippy::disallowed_methods, reason = "the program restarts itself")]
fn restart_without_network() -> String {
    if !cfg!(target_os = "linux") {
        return "only Linux has network namespaces".to_owned();
    }
    let Ok(program) = std::env::current_exe() else {
        return "the path of this program is unknown".to_owned();
    };
    // The first works for root, the second for other users if the system allows it.
    for flags in ["-n", "-rn"] {
        let mut words: Vec<OsString> =
            [flags, "--", "sh", "-c", ENABLE_LOOPBACK, "sh"].map(Into::into).into();
        let status = Command::new("unshare")
            .args(&words)
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(_) => continue,
            Err(_) => return "`unshare` is not installed".to_owned(),
        }
        words.push(program.into());
        // The flag follows the name of the command, because after a `--` it would not be a flag.
        let mut arguments = std::env::args_os().skip(1);
        words.extend(arguments.next());
        words.push("--isolated".into());
        words.extend(arguments);
        return Command::new("unshare").args(words).exec().to_string();
    }
    "the system does not allow network namespaces".to_owned()
}
