//! The scenario runner: runs scenarios against agents and reports where an agent differs.
//!
//! Every run of a scenario has its own sandbox, API server and transcript, so that many can run at
//! the same time. Steps wait for lines, requests, files and process exits, not for fixed times.

mod agent;
mod normalizer;
mod process;
pub mod report;
mod runner;
mod sandbox;
mod steps;
mod transcript;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::api::{ApiOptions, ApiScript, ApiServer};
use crate::scenario::{Scenario, ScenarioItem, ScenarioReply, ScenarioVariables};

pub use agent::{VerifyAgent, VerifyAgentError, agent_command, cached_release, fetch_release};
pub use transcript::{VerifyCapture, VerifyDirection, VerifyProcessRecord, VerifyTranscriptEntry};

use process::{VerifyProcess, describe_exit};
use runner::VerifyRunner;
use sandbox::VerifySandbox;

/// How scenarios are run.
#[derive(Clone, Debug)]
pub struct VerifyConfig {
    /// How long a step may wait.
    pub timeout: Duration,
    /// How many scenarios run at the same time.
    pub jobs: usize,
    /// The `PATH` of the agents.
    pub search_path: OsString,
    /// A directory for the captures of all scenarios.
    pub capture_dir: Option<PathBuf>,
    /// Without `capture_dir`, the directory for the captures of scenarios that did not pass.
    pub failure_dir: PathBuf,
    /// Whether scenarios that did not pass are run once more, one at a time.
    pub retry: bool,
}

/// The result of one scenario with one agent.
#[derive(Clone, Debug)]
pub struct VerifyResult {
    /// The index of the scenario.
    pub scenario: usize,
    /// The index of the agent.
    pub agent: usize,
    pub outcome: VerifyOutcome,
    /// How often the scenario was run.
    pub attempts: usize,
    pub duration: Duration,
    /// Where the capture was written.
    pub capture_path: Option<PathBuf>,
    pub capture: VerifyCapture,
    /// The variables of the scenario with their final values.
    pub variables: ScenarioVariables,
}

#[derive(Clone, Debug)]
pub enum VerifyOutcome {
    /// The agent behaves as the scenario says.
    Passed,
    /// The agent behaves differently.
    Differs(Box<VerifyDifference>),
    /// The scenario does not apply to the agent's version.
    NotApplicable,
    /// The scenario could not be run, for this reason.
    CouldNotRun(String),
}

/// Progress of a run. Scenarios and agents are given by their index.
#[derive(Debug)]
pub enum VerifyProgress<'a> {
    Started { scenario: usize, agent: usize },
    Finished(&'a VerifyResult),
}

/// Runs every scenario with every agent. The results are ordered by scenario, then by agent.
pub async fn run_scenarios(
    scenarios: Vec<Scenario>,
    agents: Vec<VerifyAgent>,
    config: VerifyConfig,
    mut on_progress: impl FnMut(VerifyProgress<'_>),
) -> Vec<VerifyResult> {
    let suite = Arc::new(VerifySuite { scenarios, agents, config });
    let pairs = (0..suite.agents.len())
        .flat_map(|agent| (0..suite.scenarios.len()).map(move |scenario| (scenario, agent)));
    let mut waiting = pairs.collect::<Vec<_>>().into_iter();
    let mut running = JoinSet::new();
    let mut results = Vec::new();
    loop {
        while running.len() < suite.config.jobs.max(1) {
            let Some((scenario, agent)) = waiting.next() else { break };
            on_progress(VerifyProgress::Started { scenario, agent });
            let suite = Arc::clone(&suite);
            running.spawn(async move { suite.run_one(scenario, agent).await });
        }
        let Some(joined) = running.join_next().await else { break };
        match joined {
            Ok(result) => {
                on_progress(VerifyProgress::Finished(&result));
                results.push(result);
            }
            // These tasks are never aborted, so an error is a panic: a bug that must not be hidden.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    if suite.config.retry {
        for result in results.iter_mut().filter(|result| result.outcome.is_failure()) {
            let (scenario, agent) = (result.scenario, result.agent);
            on_progress(VerifyProgress::Started { scenario, agent });
            let second = suite.run_one(scenario, agent).await;
            *result = VerifyResult { attempts: result.attempts + 1, ..second };
            on_progress(VerifyProgress::Finished(result));
        }
    }
    results.sort_by_key(|result| (result.scenario, result.agent));
    results
}

struct VerifySuite {
    scenarios: Vec<Scenario>,
    agents: Vec<VerifyAgent>,
    config: VerifyConfig,
}

impl VerifySuite {
    /// Runs one scenario with one agent and writes its capture.
    async fn run_one(&self, scenario_index: usize, agent_index: usize) -> VerifyResult {
        let started = Instant::now();
        let (scenario, agent) = (&self.scenarios[scenario_index], &self.agents[agent_index]);
        let mut result = VerifyResult {
            scenario: scenario_index,
            agent: agent_index,
            outcome: VerifyOutcome::NotApplicable,
            attempts: 1,
            duration: Duration::ZERO,
            capture_path: None,
            capture: VerifyCapture::default(),
            variables: ScenarioVariables::default(),
        };
        if !scenario.versions.contains(agent.version) {
            return result;
        }
        result.outcome = match self.run_in_sandbox(scenario, agent, &mut result).await {
            Ok(()) => VerifyOutcome::Passed,
            Err(VerifyFailure::Differs(difference)) => VerifyOutcome::Differs(difference),
            Err(VerifyFailure::CouldNotRun(problem)) => VerifyOutcome::CouldNotRun(problem),
        };
        result.duration = started.elapsed();
        let failure_dir = result.outcome.is_failure().then_some(&self.config.failure_dir);
        if let Some(directory) = self.config.capture_dir.as_ref().or(failure_dir) {
            match result.capture.write(directory, agent, &scenario.name, result.outcome.key()) {
                Ok(path) => result.capture_path = Some(path),
                Err(error) => {
                    let directory = directory.display();
                    result.outcome = VerifyOutcome::CouldNotRun(format!(
                        "could not write the capture to `{directory}`: {error}"
                    ));
                }
            }
        }
        result
    }

    async fn run_in_sandbox(
        &self,
        scenario: &Scenario,
        agent: &VerifyAgent,
        result: &mut VerifyResult,
    ) -> Result<(), VerifyFailure> {
        let failed = |action: &str, error: &dyn std::error::Error| {
            VerifyFailure::CouldNotRun(format!("could not {action}: {error}"))
        };
        let mut sandbox = VerifySandbox::new(&self.config.search_path)
            .map_err(|error| failed("create a sandbox", &error))?;
        let mut variables = sandbox.variables();
        if scenario.setup.session {
            variables.set("session", Uuid::new_v4().to_string());
        }
        let applies = |item: &&ScenarioItem<ScenarioReply>| item.versions.contains(agent.version);
        let replies =
            scenario.replies.iter().filter(applies).map(|item| item.value.expand(&variables));
        let script =
            ApiScript::new(replies).map_err(|error| failed("read a recorded reply", &error))?;
        let server = ApiServer::start(script, ApiOptions::default())
            .await
            .map_err(|error| failed("start the API", &error))?;
        sandbox.set_variable("ANTHROPIC_BASE_URL", &server.url);
        variables.set("api", server.url.trim_start_matches("http://"));
        sandbox
            .prepare(&scenario.setup, agent.version, &variables)
            .map_err(|error| failed("create the files", &error))?;
        let mut runner =
            VerifyRunner::new(scenario, agent, &sandbox, &server, variables, self.config.timeout);
        let outcome = runner.run().await;
        let record = |process: &VerifyProcess| VerifyProcessRecord {
            arguments: process.arguments.clone(),
            exit: process.status().map(describe_exit),
            stderr: process.stderr(),
        };
        let processes = runner.processes().map(record).collect();
        let entries = runner.transcript().entries().clone();
        result.capture = VerifyCapture { entries, requests: server.requests(), processes };
        result.variables = runner.variables().clone();
        drop(runner);
        sandbox.kill_processes().await;
        server.stop().await;
        outcome
    }
}

impl VerifyOutcome {
    /// The name of the outcome in JSON.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Differs(_) => "differs",
            Self::NotApplicable => "not_applicable",
            Self::CouldNotRun(_) => "could_not_run",
        }
    }

    /// Whether the scenario was run or tried, and did not pass.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Differs(_) | Self::CouldNotRun(_))
    }
}

/// Why a scenario ended early.
#[derive(Debug)]
enum VerifyFailure {
    Differs(Box<VerifyDifference>),
    CouldNotRun(String),
}

/// The first difference between a scenario and the agent. What the agent did is normalized.
#[derive(Clone, Debug, Default, Serialize)]
pub struct VerifyDifference {
    /// The line of the scenario, counted from 1.
    pub line: usize,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// The received line that matches best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closest: Option<VerifyClosestLine>,
    /// The kinds of the lines received since the previous step, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub received: Vec<String>,
    /// What the agent has written to stderr.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stderr: String,
}

/// A line that nearly matches an expectation, and the first place where it does not.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyClosestLine {
    pub line: String,
    /// The place in the line, such as `message.content[0].text`.
    pub path: String,
    pub expected: String,
    pub actual: String,
}

impl VerifyDifference {
    fn new(line: usize, message: &str) -> Self {
        Self { line, message: message.to_owned(), ..Self::default() }
    }
}

impl From<VerifyDifference> for VerifyFailure {
    fn from(difference: VerifyDifference) -> Self {
        Self::Differs(Box::new(difference))
    }
}

/// How many lines of stderr and how many kinds of lines a difference shows.
const MAX_STDERR_LINES: usize = 8;
const MAX_KINDS: usize = 12;

impl fmt::Display for VerifyDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        let mut field = |label: &str, text: &str| {
            let text = text.replace('\n', "\n              ");
            write!(f, "\n    {label:<8}  {text}")
        };
        if let Some(expected) = &self.expected {
            field("expected", expected)?;
        }
        if let Some(actual) = &self.actual {
            field("actual", actual)?;
        }
        if let Some(VerifyClosestLine { line, path, expected, actual }) = &self.closest {
            field("closest", line)?;
            let path = if path.is_empty() { "the line" } else { path };
            field("mismatch", &format!("{path}: expected {expected}, actual {actual}"))?;
        }
        if !self.received.is_empty() {
            field("received", &count_runs(&self.received))?;
        }
        if !self.stderr.trim().is_empty() {
            let lines: Vec<&str> = self.stderr.trim().lines().collect();
            let from = lines.len().saturating_sub(MAX_STDERR_LINES);
            field("stderr", &lines[from..].join("\n"))?;
        }
        Ok(())
    }
}

/// Lists kinds in order, with repeated ones counted: `assistant, stream_event × 12, result`.
fn count_runs(kinds: &[String]) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for kind in kinds {
        match runs.last_mut() {
            Some((last, count)) if *last == kind => *count += 1,
            _ => runs.push((kind, 1)),
        }
    }
    let omitted = runs.len().saturating_sub(MAX_KINDS);
    let shown = runs.iter().skip(omitted).map(|(kind, count)| match count {
        1 => (*kind).to_owned(),
        _ => format!("{kind} × {count}"),
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    if omitted > 0 { format!("… {shown}") } else { shown }
}
