//! Many scenarios, held with many agents, several at a time.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;

use super::agent::Agent;
use super::capture::{Capture, ProcessTrace};
use super::child::ending;
use super::conversation::Conversation;
use super::difference::{Difference, Stop};
use super::sandbox::Sandbox;
use crate::api::{self, Script, Server};
use crate::scenario::{Item, Names, Reply, Scenario};

/// How scenarios are to be held.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a step may wait.
    pub patience: Duration,
    /// How many conversations go on at a time.
    pub jobs: usize,
    /// Where agents find programs.
    pub search_path: OsString,
    /// Where every capture is kept, if they are.
    pub record: Option<PathBuf>,
    /// Where captures of what differs are kept otherwise.
    pub evidence: PathBuf,
    /// Whether what differs is tried once more, by itself, before it counts.
    pub again: bool,
}

/// What came of one scenario with one agent.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which scenario, by its place.
    pub scenario: usize,
    /// Which agent, by its place.
    pub agent: usize,
    /// What came of it.
    pub outcome: Outcome,
    /// How often it was tried.
    pub tries: usize,
    /// How long it took.
    pub took: Duration,
    /// Where the capture lies.
    pub kept: Option<PathBuf>,
    /// What was seen.
    pub capture: Capture,
    /// What names stood for.
    pub names: Names,
}

/// What came of a scenario.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The agent does what it says.
    Holds,
    /// It does something else.
    Differs(Box<Difference>),
    /// The scenario is not meant for this version.
    NotMeant,
    /// It could not be tried.
    CouldNotRun(String),
}

/// What happens while the book is run.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A conversation begins: scenario and agent by their places.
    Begins(usize, usize),
    /// A conversation is over.
    Over(&'a Report),
}

/// Runs every scenario with every agent and reports in the order of both.
pub async fn run_book(
    scenarios: Vec<Scenario>,
    agents: Vec<Agent>,
    settings: Settings,
    mut tell: impl FnMut(Progress<'_>),
) -> Vec<Report> {
    let book = Arc::new((scenarios, agents, settings));
    let (scenarios, agents, settings) = &*book;
    let pairs = (0..agents.len()).flat_map(|agent| (0..scenarios.len()).map(move |it| (it, agent)));
    let mut waiting = pairs.collect::<Vec<_>>().into_iter();
    let mut running = JoinSet::new();
    let mut reports = Vec::new();
    loop {
        while running.len() < settings.jobs.max(1) {
            let Some((scenario, agent)) = waiting.next() else { break };
            tell(Progress::Begins(scenario, agent));
            let book = Arc::clone(&book);
            running.spawn(async move { try_one(&book, scenario, agent).await });
        }
        let Some(ended) = running.join_next().await else { break };
        match ended {
            Ok(report) => {
                tell(Progress::Over(&report));
                reports.push(report);
            }
            // Nobody aborts these tasks, so one that does not end well has panicked: a defect of
            // ours, which must be seen.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    if settings.again {
        for report in reports.iter_mut().filter(|report| report.differs()) {
            tell(Progress::Begins(report.scenario, report.agent));
            let second = try_one(&book, report.scenario, report.agent).await;
            *report = Report { tries: report.tries + 1, ..second };
            tell(Progress::Over(report));
        }
    }
    reports.sort_by_key(|report| (report.scenario, report.agent));
    reports
}

async fn try_one(
    (scenarios, agents, settings): &(Vec<Scenario>, Vec<Agent>, Settings),
    scenario: usize,
    agent: usize,
) -> Report {
    let started = Instant::now();
    let (script, speaker) = (&scenarios[scenario], &agents[agent]);
    let mut report = Report {
        scenario,
        agent,
        outcome: Outcome::NotMeant,
        tries: 1,
        took: Duration::ZERO,
        kept: None,
        capture: Capture::default(),
        names: Names::default(),
    };
    if !script.versions.contains(speaker.version) {
        return report;
    }
    report.outcome = match hold(script, speaker, settings, &mut report).await {
        Ok(()) => Outcome::Holds,
        Err(Stop::Differs(difference)) => Outcome::Differs(difference),
        Err(Stop::Broken(problem)) => Outcome::CouldNotRun(problem),
    };
    report.took = started.elapsed();
    let holds = matches!(report.outcome, Outcome::Holds);
    let directory = settings.record.as_ref().or((!holds).then_some(&settings.evidence));
    if let Some(directory) = directory {
        let outcome = report.outcome.word();
        match report.capture.write(directory, speaker, &script.name, outcome) {
            Ok(place) => report.kept = Some(place),
            Err(error) => {
                let directory = directory.display();
                report.outcome = Outcome::CouldNotRun(format!(
                    "could not write the capture below `{directory}`: {error}"
                ));
            }
        }
    }
    report
}

async fn hold(
    scenario: &Scenario,
    agent: &Agent,
    settings: &Settings,
    report: &mut Report,
) -> Result<(), Stop> {
    let broken = |what: &str, error: &dyn std::error::Error| {
        Stop::Broken(format!("could not {what}: {error}"))
    };
    let mut sandbox =
        Sandbox::new(&settings.search_path).map_err(|error| broken("make a sandbox", &error))?;
    let mut names = sandbox.names();
    if scenario.start.session {
        names.set("session", Uuid::new_v4().to_string());
    }
    let counts = |item: &&Item<Reply>| item.versions.contains(agent.version);
    let replies = scenario.replies.iter().filter(counts).map(|item| item.what.filled(&names));
    let script = Script::new(replies).map_err(|error| broken("read a recorded reply", &error))?;
    let options = api::Options::default();
    let server =
        Server::start(script, options).await.map_err(|error| broken("start the API", &error))?;
    sandbox.set_variable("ANTHROPIC_BASE_URL", &server.url);
    names.set("api", server.url.trim_start_matches("http://"));
    sandbox
        .prepare(&scenario.start, agent.version, &names)
        .map_err(|error| broken("lay out the files", &error))?;
    let mut conversation =
        Conversation::new(scenario, agent, &sandbox, &server, names, settings.patience);
    let outcome = conversation.hold().await;
    let process = |child: &super::child::Child| ProcessTrace {
        arguments: child.arguments.clone(),
        ended: child.status().map(ending),
        errors: child.errors(),
    };
    let processes = conversation.children().map(process).collect();
    let entries = conversation.tape().entries().clone();
    report.capture = Capture { entries, requests: server.requests(), processes };
    report.names = conversation.names().clone();
    drop(conversation);
    sandbox.clear().await;
    server.stop().await;
    outcome
}

impl Report {
    fn differs(&self) -> bool {
        matches!(self.outcome, Outcome::Differs(_) | Outcome::CouldNotRun(_))
    }
}

impl Outcome {
    /// It in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Differs(_) => "differs",
            Self::NotMeant => "not meant",
            Self::CouldNotRun(_) => "could not run",
        }
    }
}
