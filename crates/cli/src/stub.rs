//! `towpath stub`: serves the scripted Messages API until it is stopped by a signal.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use serde::Serialize;
use testbed::api::{
    ApiModel, ApiOptions, ApiRecordingError, ApiScript, ApiScriptSet, ApiServer, ApiServerError,
};
use testbed::scenario::{Scenario, ScenarioError, ScenarioVariables};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::StubArgs;
use crate::exit::CommandStatus;
use crate::exit::report_error;

/// Runs the command.
pub(crate) fn run(options: StubArgs) -> CommandStatus {
    // A request takes about 12 µs, two thirds of it in the kernel, so one thread is enough.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(serve(options)),
        Err(error) => Err(StubError::Runtime(error)),
    };
    match result {
        Ok(()) => CommandStatus::Success,
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum StubError {
    #[error("could not start the async runtime")]
    Runtime(#[source] io::Error),
    #[error("could not print the address of the server")]
    Announce(#[source] io::Error),
    #[error("could not read the directory `{}`", .0.display())]
    Directory(PathBuf, #[source] io::Error),
    #[error("there are no scenarios in `{}`", .0.display())]
    NoScenarios(PathBuf),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error(transparent)]
    Recording(#[from] ApiRecordingError),
    #[error(transparent)]
    Server(#[from] ApiServerError),
}

impl StubError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Scenario(error) => return error.hint(),
            Self::NoScenarios(_) => "scenario files end with `.scenario`",
            Self::Server(ApiServerError::NotLoopback(_)) => {
                "the server has no access control, so it only listens on this machine: \
                 try `--listen 127.0.0.1:0`"
            }
            Self::Server(ApiServerError::Listen { .. }) => {
                "use port 0 for any free port: `--listen 127.0.0.1:0`"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// What `--json` prints when the server is ready.
#[derive(Serialize)]
struct StubAnnouncement<'a> {
    url: &'a str,
    pid: u32,
}

async fn serve(options: StubArgs) -> Result<(), StubError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StubError::Runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(StubError::Runtime)?;
    let api_options = ApiOptions {
        listen: options.listen,
        keep_requests: false,
        request_log: options.requests,
        refuse_unknown_models: true,
    };
    let server = match (&options.record, options.out) {
        (Some(url), Some(out)) => ApiServer::record(url, out, api_options).await?,
        _ => ApiServer::start(model(options.scenario.as_deref())?, api_options).await?,
    };
    announce(&server.url, options.json).map_err(StubError::Announce)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    server.stop().await;
    Ok(())
}

/// The model: one scenario, the scenarios of a directory, or generated replies.
fn model(path: Option<&Path>) -> Result<ApiModel, StubError> {
    let Some(path) = path else { return Ok(ApiModel::Generated) };
    if !path.is_dir() {
        return Ok(ApiScript::from_scenario(&load_scenario(path)?)?.into());
    }
    let unreadable = |error| StubError::Directory(path.to_owned(), error);
    let entries: Result<Vec<_>, _> = path.read_dir().map_err(unreadable)?.collect();
    let files = entries.map_err(unreadable)?.into_iter().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|it| it == "scenario")).collect();
    files.sort();
    if files.is_empty() {
        return Err(StubError::NoScenarios(path.to_owned()));
    }
    let scenarios: Vec<Scenario> =
        files.iter().map(|it| load_scenario(it)).collect::<Result<_, _>>()?;
    Ok(ApiScriptSet::new(&scenarios)?.into())
}

/// Loads a scenario for use without its steps.
fn load_scenario(path: &Path) -> Result<Scenario, ScenarioError> {
    let mut variables = ScenarioVariables::default();
    let directories = [("cwd", std::env::current_dir().ok()), ("home", std::env::home_dir())];
    for (name, directory) in directories {
        variables.set(name, directory.unwrap_or_default().to_string_lossy());
    }
    let mut scenario = Scenario::load(path)?;
    for reply in &mut scenario.replies {
        reply.value = reply.value.expand(&variables);
        // No step opens the gates, so the replies must not wait for them.
        reply.value.hold = None;
    }
    Ok(scenario)
}

fn announce(url: &str, json: bool) -> io::Result<()> {
    eprintln!("listening on {url}");
    if json {
        let announcement = StubAnnouncement { url, pid: std::process::id() };
        let mut line = serde_json::to_vec(&announcement)?;
        line.push(b'\n');
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()?;
    }
    Ok(())
}
