//! All scenarios with all agents: several at the same time, and those that did not pass again, alone.

use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinSet;
use uuid::Uuid;

use super::agent::VerifyAgent;
use super::confirmation::{RunVerdict, confirmed};
use super::process::{VerifyProcess, describe_exit};
use super::runner::VerifyRunner;
use super::sandbox::VerifySandbox;
use super::{
    VerifyCapture, VerifyConfig, VerifyDifference, VerifyFailure, VerifyOutcome,
    VerifyProcessRecord, VerifyResult,
};
use crate::api::{ApiOptions, ApiScript, ApiServer};
use crate::scenario::{Scenario, ScenarioItem, ScenarioProtocol, ScenarioReply};

/// The name of the built-in agent.
const PLAY: &str = "play";

/// Progress of a run. Scenarios and agents are given by their index.
#[derive(Debug)]
pub enum VerifyProgress<'a> {
    Started {
        scenario: usize,
        agent: usize,
    },
    /// The scenario did not pass. It will be run again, alone, before it is finished.
    Unconfirmed(&'a VerifyResult),
    Finished(&'a VerifyResult),
}

/// Scenarios, the agents to run them with, and what is already known.
#[derive(Debug)]
pub struct VerifySuite {
    scenarios: Vec<Scenario>,
    agents: Vec<VerifyAgent>,
    config: VerifyConfig,
    kept: Vec<VerifyResult>,
}

impl VerifySuite {
    pub fn new(scenarios: Vec<Scenario>, agents: Vec<VerifyAgent>, config: VerifyConfig) -> Self {
        Self { scenarios, agents, config, kept: Vec::new() }
    }

    /// Takes results of earlier runs over, so that these pairs are not run.
    pub fn keep(&mut self, results: Vec<VerifyResult>) {
        self.kept = results;
    }

    /// Runs every scenario with every agent. The results are ordered by scenario, then by agent.
    pub async fn run(
        mut self,
        mut on_progress: impl FnMut(VerifyProgress<'_>),
    ) -> Vec<VerifyResult> {
        let mut results = std::mem::take(&mut self.kept);
        let suite = Arc::new(self);
        let pairs = (0..suite.agents.len())
            .flat_map(|agent| (0..suite.scenarios.len()).map(move |scenario| (scenario, agent)))
            .filter(|pair| !results.iter().any(|it| (it.scenario, it.agent) == *pair))
            .collect::<Vec<_>>();
        let is_alone = suite.config.jobs <= 1 || pairs.len() == 1;
        let mut waiting = pairs.into_iter();
        let mut running = JoinSet::new();
        let mut unconfirmed = Vec::new();
        loop {
            while running.len() < suite.config.jobs.max(1) {
                let Some((scenario, agent)) = waiting.next() else { break };
                on_progress(VerifyProgress::Started { scenario, agent });
                let suite = Arc::clone(&suite);
                running.spawn(async move { suite.run_one((scenario, agent)).await });
            }
            let Some(joined) = running.join_next().await else { break };
            match joined {
                Ok(result) if suite.config.confirm && result.outcome.is_failure() => {
                    on_progress(VerifyProgress::Unconfirmed(&result));
                    unconfirmed.push(result);
                }
                Ok(result) => {
                    on_progress(VerifyProgress::Finished(&result));
                    results.push(result);
                }
                // These tasks are never aborted, so an error is a panic: a bug that must not be hidden.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        }
        for result in unconfirmed {
            let result = suite.confirm(result, is_alone).await;
            on_progress(VerifyProgress::Finished(&result));
            results.push(result);
        }
        results.sort_by_key(|result| (result.scenario, result.agent));
        results
    }

    /// Runs a scenario alone until its outcome is certain. The result is that of the last run which
    /// had this outcome.
    async fn confirm(&self, first: VerifyResult, is_alone: bool) -> VerifyResult {
        let pair = (first.scenario, first.agent);
        let mut verdicts = vec![RunVerdict::of(&first.outcome)];
        let beside_others = usize::from(!is_alone);
        let mut runs = vec![first];
        let verdict = loop {
            if let Some(verdict) = confirmed(&verdicts, beside_others) {
                break verdict;
            }
            let run = self.run_one(pair).await;
            verdicts.push(RunVerdict::of(&run.outcome));
            runs.push(run);
        };
        let attempts = runs.len();
        let passes = verdicts.iter().filter(|it| **it == RunVerdict::Passed).count();
        // A flaky scenario is reported with a run that differed, whose capture shows how.
        let wanted = if verdict == RunVerdict::Flaky { RunVerdict::Differs } else { verdict };
        let chosen = verdicts.iter().rposition(|it| *it == wanted).unwrap_or_default();
        let mut result = runs.swap_remove(chosen);
        if verdict == RunVerdict::Flaky
            && let VerifyOutcome::Differs(difference) = result.outcome
        {
            result.outcome = VerifyOutcome::Flaky(difference);
        }
        VerifyResult { attempts, passes, ..result }
    }

    /// Runs one scenario with one agent and writes its capture.
    async fn run_one(&self, (scenario_index, agent_index): (usize, usize)) -> VerifyResult {
        let (scenario, agent) = (&self.scenarios[scenario_index], &self.agents[agent_index]);
        let mut result =
            VerifyResult::new(scenario_index, agent_index, VerifyOutcome::NotApplicable);
        if !agent.runs(scenario) {
            return result;
        }
        let started = Instant::now();
        result.attempts = 1;
        result.outcome = match self.run_in_sandbox(scenario, agent, &mut result).await {
            Ok(()) => VerifyOutcome::Passed,
            Err(VerifyFailure::Differs(difference)) => VerifyOutcome::Differs(difference),
            Err(VerifyFailure::TimedOut(difference)) => VerifyOutcome::TimedOut(difference),
            Err(VerifyFailure::CouldNotRun(problem)) => VerifyOutcome::CouldNotRun(problem),
        };
        if let VerifyOutcome::Passed = result.outcome
            && let Some(difference) = self.other_order(scenario, agent, &result.capture)
        {
            result.outcome = VerifyOutcome::Differs(Box::new(difference));
        }
        result.duration = started.elapsed();
        result.passes = usize::from(matches!(result.outcome, VerifyOutcome::Passed));
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

    /// How the lines of a stand-in differ from those of the release that it stands in for.
    fn other_order(
        &self,
        scenario: &Scenario,
        agent: &VerifyAgent,
        capture: &VerifyCapture,
    ) -> Option<VerifyDifference> {
        let order = self.config.line_order.as_ref()?;
        let is_stand_in = agent.name == PLAY && agent.version == order.version();
        let is_compared = is_stand_in && scenario.protocol == ScenarioProtocol::StreamJson;
        if is_compared { order.difference(&scenario.name, capture) } else { None }
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
        let mut sandbox = VerifySandbox::new(&agent.search_path(&self.config.search_path))
            .map_err(|error| failed("create a sandbox", &error))?;
        let mut variables = sandbox.variables();
        if scenario.setup.session && scenario.protocol == ScenarioProtocol::StreamJson {
            variables.set("session", Uuid::new_v4().to_string());
        }
        let applies = |item: &&ScenarioItem<ScenarioReply>| agent.meets(&item.condition);
        let replies =
            scenario.replies.iter().filter(applies).map(|item| item.value.expand(&variables));
        let script =
            ApiScript::new(replies).map_err(|error| failed("read a recorded reply", &error))?;
        let server = ApiServer::start(script, ApiOptions::default())
            .await
            .map_err(|error| failed("start the API", &error))?;
        sandbox.set_variable("ANTHROPIC_BASE_URL", &server.url);
        variables.set("api", server.url.trim_start_matches("http://"));
        for setup in [&agent.setup, &scenario.setup] {
            sandbox
                .prepare(setup, agent, &variables)
                .map_err(|error| failed("create the files", &error))?;
        }
        let timeout = agent.calibration.map_or(self.config.timeout, |it| it.timeout);
        let mut runner = VerifyRunner::new(scenario, agent, &sandbox, &server, variables, timeout);
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
