//! `towpath stub`: the scripted Messages API until someone ends it.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anstream::eprintln;
use serde::Serialize;
use testbed::api::{BadRecording, Error, Model, Options, Script, Server, Shelf};
use testbed::scenario::{LoadError, Names, Scenario};
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::StubOptions;
use crate::complaint::complain;
use crate::verdict::Verdict;

/// Runs the command.
pub(crate) fn run(options: StubOptions) -> Verdict {
    // A request costs some 12 µs, two thirds of them in the kernel: one thread is plenty.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(serve(options)),
        Err(error) => Err(Failure::Runtime(error)),
    };
    match outcome {
        Ok(()) => Verdict::Done,
        Err(failure) => {
            complain(&failure, failure.hint().as_deref());
            Verdict::CouldNotTry
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("could not set up what runs the server")]
    Runtime(#[source] io::Error),
    #[error("could not say where it listens")]
    Announce(#[source] io::Error),
    #[error("could not read the directory `{}`", .0.display())]
    Directory(PathBuf, #[source] io::Error),
    #[error("there is no scenario in `{}`", .0.display())]
    NoScenario(PathBuf),
    #[error(transparent)]
    Scenario(#[from] LoadError),
    #[error(transparent)]
    Recording(#[from] BadRecording),
    #[error(transparent)]
    Start(#[from] Error),
}

impl Failure {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Scenario(error) => return error.hint(),
            Self::NoScenario(_) => "files of scenarios end in `.scenario`",
            Self::Start(Error::NotLoopback(_)) => {
                "it answers anyone who asks, so it listens on this machine only: \
                 try `--listen 127.0.0.1:0`"
            }
            Self::Start(Error::Listen { .. }) => {
                "port 0 takes one that is free: `--listen 127.0.0.1:0`"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

#[derive(Serialize)]
struct Ready<'a> {
    url: &'a str,
    pid: u32,
}

async fn serve(options: StubOptions) -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Runtime)?;
    let running = Options { listen: options.listen, keep: false, requests: options.requests };
    let server = match (&options.record, options.out) {
        (Some(url), Some(out)) => Server::record(url, out, running).await?,
        _ => Server::start(model(options.scenario.as_deref())?, running).await?,
    };
    announce(&server.url, options.json).map_err(Failure::Announce)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    server.stop().await;
    Ok(())
}

/// Who answers: one scenario, those of a directory, or nobody in particular.
fn model(path: Option<&Path>) -> Result<Model, Failure> {
    let Some(path) = path else { return Ok(Model::Improvised) };
    if !path.is_dir() {
        return Ok(Script::of(&scenario(path)?)?.into());
    }
    let unreadable = |error| Failure::Directory(path.to_owned(), error);
    let entries: Result<Vec<_>, _> = path.read_dir().map_err(unreadable)?.collect();
    let files = entries.map_err(unreadable)?.into_iter().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|it| it == "scenario")).collect();
    files.sort();
    if files.is_empty() {
        return Err(Failure::NoScenario(path.to_owned()));
    }
    let scenarios: Vec<Scenario> = files.iter().map(|it| scenario(it)).collect::<Result<_, _>>()?;
    Ok(Shelf::new(&scenarios)?.into())
}

/// A scenario as it is given to whoever asks, with nobody there to take its steps.
fn scenario(path: &Path) -> Result<Scenario, LoadError> {
    let mut names = Names::default();
    let places = [("cwd", std::env::current_dir().ok()), ("home", std::env::home_dir())];
    for (name, place) in places {
        names.set(name, place.unwrap_or_default().to_string_lossy());
    }
    let mut scenario = Scenario::load(path)?;
    for reply in &mut scenario.replies {
        reply.what = reply.what.filled(&names);
        // No step will open a gate, and a reply that waits forever helps nobody.
        reply.what.hold = None;
    }
    Ok(scenario)
}

fn announce(url: &str, json: bool) -> io::Result<()> {
    eprintln!("listening on {url}");
    if json {
        let mut line = serde_json::to_vec(&Ready { url, pid: std::process::id() })?;
        line.push(b'\n');
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()?;
    }
    Ok(())
}
