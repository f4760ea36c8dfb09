//! The agent: whether there is one, which version, and whether it answers.

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use journal::Journal;
use session::machine::Limits;
use session::{AgentProgram, Creation, Home, Options, Sessions};
use tokio::time::timeout;
use view::phrase;
use wire::json::Raw;

use super::arguments::DoctorOptions;
use super::checkup::{Checkup, Finding, with_causes};
use crate::settings::Settings;

/// The oldest version whose answers to our requests were tried.
const OLDEST: &str = "1.0.24";

/// How much is shown of what an agent complains of.
const COMPLAINT: usize = 300;

/// Looks at the agent.
pub(super) async fn examine(options: &DoctorOptions, settings: &Settings, checkup: &mut Checkup) {
    let agent = match settings.agent(&options.agent) {
        Ok(agent) => agent,
        Err(error) => {
            let hint = error.hint().unwrap_or_default();
            checkup.add("agent", Finding::bad(with_causes(&error), hint));
            return;
        }
    };
    let path = agent.program.to_string_lossy().into_owned();
    let patience = Duration::from_secs(options.timeout);
    let built_in = if options.agent.demo { " (the built-in one)" } else { "" };
    checkup.add("agent", Finding::good(format!("{path}{built_in}")));
    let version = version(&agent, patience).await;
    let can_be_run = version.is_good();
    checkup.add("version", version);
    if can_be_run {
        checkup.add("answers", answers(agent, settings, patience).await);
    }
}

async fn version(agent: &AgentProgram, patience: Duration) -> Finding {
    match timeout(patience, ask_version(agent)).await {
        Err(_) => Finding::bad(
            format!("it says nothing within {} s", patience.as_secs()),
            "try `--timeout` with more; does it ask something in a terminal of its own?",
        ),
        Ok(Err(error)) => Finding::bad(
            format!("it cannot be started: {error}"),
            "is it a program for this system?",
        ),
        Ok(Ok(said)) => {
            let line = said.lines().next().unwrap_or_default().trim();
            if line.starts_with(|it: char| it.is_ascii_digit()) {
                return Finding::good(line);
            }
            let hint = format!("Claude Code from {OLDEST} on answers `--version` with a number");
            Finding::bad(format!("it says `{}`", shortened(line)), hint)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a version is asked for without a session")]
async fn ask_version(agent: &AgentProgram) -> io::Result<String> {
    let mut command = std::process::Command::new(&agent.program);
    command.args(&agent.arguments).arg("--version").stdin(Stdio::null());
    let output = tokio::process::Command::from(command).kill_on_drop(true).output().await?;
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Has a session wake an agent, in a place that is gone afterwards.
async fn answers(agent: AgentProgram, settings: &Settings, patience: Duration) -> Finding {
    let began = Instant::now();
    match wake(agent, settings, patience).await {
        Ok(abilities) => {
            let took = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            Finding::good(format!("`initialize` in {}{abilities}", phrase::duration(took)))
        }
        Err(problem) => Finding::bad(
            format!("not to `initialize`: {}", shortened(&problem)),
            "run it once by itself: it may want to be signed in, updated or told to trust something",
        ),
    }
}

async fn wake(
    agent: AgentProgram,
    settings: &Settings,
    patience: Duration,
) -> Result<String, String> {
    let place = tempfile::Builder::new().prefix("towpath-doctor-").tempdir();
    let place = place.map_err(|error| error.to_string())?;
    let directory = place.path().join("empty");
    std::fs::create_dir(&directory).map_err(|error| error.to_string())?;
    let limits = Limits {
        initialize: u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
        restarts: 0,
        ..Limits::default()
    };
    let home = settings.home(agent, limits).map_err(|error| with_causes(&error))?;
    let home = Home { data: place.path().to_owned(), ..home };
    let opening = Journal::open(&Home::journal(place.path()));
    let journal = opening.map_err(|error| with_causes(&error))?.journal;
    let sessions = Sessions::new(home, journal);
    let options = Options { directory, ..Options::default() };
    let creation = Creation { options, ..Creation::default() };
    let session = sessions.create(creation).await.map_err(|error| with_causes(&error))?;
    let woken = session.wake().await;
    let cause = last_cause(&sessions, &session).await;
    let id = session.id();
    drop(session);
    // Its agent ends with it, however it is.
    let _ = sessions.delete(id).await;
    match woken {
        Ok(abilities) => Ok(abilities.as_deref().map(summary).unwrap_or_default()),
        Err(error) => Err(cause.unwrap_or_else(|| with_causes(&error))),
    }
}

/// Why the agent is gone, as the session wrote it down.
async fn last_cause(sessions: &Sessions, session: &session::Session) -> Option<String> {
    let entries = sessions.journal().read(session.id(), journal::Seq(0), 100).await.ok()?;
    let notes = entries.iter().filter_map(|entry| wire::note::Note::read(&entry.bytes));
    let causes = notes.filter_map(|note| match note {
        wire::note::Note::AgentGone { cause } => Some(phrase::cause(&cause)),
        _ => None,
    });
    causes.last()
}

/// What of its abilities is worth a word.
fn summary(abilities: &str) -> String {
    let Some(abilities) = Raw::parse(abilities) else { return String::new() };
    let count = |name: &str| abilities.get(name).map_or(0, |list| list.items().count());
    let mut parts = String::new();
    for (name, one, many) in [
        ("models", "model", "models"),
        ("commands", "command", "commands"),
        ("agents", "agent", "agents"),
    ] {
        if count(name) > 0 {
            parts.push_str(", ");
            parts.push_str(&phrase::several(count(name), one, many));
        }
    }
    parts
}

/// The beginning of a complaint, harmless on a terminal.
fn shortened(text: &str) -> String {
    view::terminal::Line::of(view::ansi::Style::PLAIN, &text.replace('\n', " "))
        .cut(COMPLAINT)
        .text()
}
