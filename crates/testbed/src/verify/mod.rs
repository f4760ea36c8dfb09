//! The scenario runner: runs scenarios against agents and reports where an agent differs.
//!
//! Every run of a scenario has its own sandbox, API server and transcript, so that many can run at
//! the same time. Steps wait for lines, requests, files and process exits, not for fixed times.

mod acp;
mod acp_release;
mod agent;
mod bisection;
mod calibration;
mod confirmation;
mod conversation;
mod difference;
mod line_order;
mod normalizer;
mod process;
mod published;
mod repetition;
pub mod report;
mod result_store;
mod runner;
mod sandbox;
mod steps;
mod suite;
mod transcript;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::scenario::{Scenario, ScenarioVariables};

pub use acp_release::{ACP_RELEASES, AcpRelease};
pub use agent::{VerifyAgent, VerifyAgentError, agent_command, cached_release, fetch_release};
pub use bisection::{VerifyBisection, VerifyChange};
pub use calibration::{VerifyCalibration, calibrate};
pub use conversation::{VerifyConversation, side_by_side};
pub use difference::{VerifyClosestLine, VerifyDifference};
pub use line_order::VerifyLineOrder;
pub use published::PublishedVersions;
pub use repetition::VerifyRepetition;
pub use result_store::{VerifyKeptResult, VerifyKeptResults, VerifyResultStore, text_digest};
pub use suite::{VerifyProgress, VerifySuite};
pub use transcript::{VerifyCapture, VerifyDirection, VerifyProcessRecord, VerifyTranscriptEntry};

/// Runs every scenario with every agent. The results are ordered by scenario, then by agent.
pub async fn run_scenarios(
    scenarios: Vec<Scenario>,
    agents: Vec<VerifyAgent>,
    config: VerifyConfig,
    on_progress: impl FnMut(VerifyProgress<'_>),
) -> Vec<VerifyResult> {
    VerifySuite::new(scenarios, agents, config).run(on_progress).await
}

/// How scenarios are run.
#[derive(Clone, Debug)]
pub struct VerifyConfig {
    /// How long a step may wait, with an agent whose speed was not measured.
    pub timeout: Duration,
    /// How many scenarios run at the same time.
    pub jobs: usize,
    /// The `PATH` of the agents.
    pub search_path: OsString,
    /// A directory for the captures of all scenarios.
    pub capture_dir: Option<PathBuf>,
    /// Without `capture_dir`, the directory for the captures of scenarios that did not pass.
    pub failure_dir: PathBuf,
    /// Whether a scenario that did not pass is run again, alone, until its outcome is certain.
    pub confirm: bool,
    /// What the release printed that the built-in agent stands in for.
    pub line_order: Option<Arc<VerifyLineOrder>>,
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
    /// In how many of these runs it passed.
    pub passes: usize,
    /// Whether the result is of an earlier run of the program.
    pub kept: bool,
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
    /// The agent behaves differently in some runs, and as the scenario says in others. The
    /// difference is that of the last run that had one.
    Flaky(Box<VerifyDifference>),
    /// A step had to wait too long for an agent that was still working, which shows no difference.
    TimedOut(Box<VerifyDifference>),
    /// The scenario is not for this agent: for another version, another agent or another protocol.
    NotApplicable,
    /// The scenario could not be run, for this reason.
    CouldNotRun(String),
}

impl VerifyOutcome {
    /// The name of the outcome in JSON.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Differs(_) => "differs",
            Self::Flaky(_) => "flaky",
            Self::TimedOut(_) => "timed_out",
            Self::NotApplicable => "not_applicable",
            Self::CouldNotRun(_) => "could_not_run",
        }
    }

    /// Whether the scenario was run or tried, and did not pass.
    pub fn is_failure(&self) -> bool {
        !matches!(self, Self::Passed | Self::NotApplicable)
    }

    /// The difference of a run that did not pass.
    pub fn difference(&self) -> Option<&VerifyDifference> {
        match self {
            Self::Differs(difference) | Self::Flaky(difference) | Self::TimedOut(difference) => {
                Some(difference)
            }
            Self::Passed | Self::NotApplicable | Self::CouldNotRun(_) => None,
        }
    }
}

impl VerifyResult {
    /// A result without a run.
    fn new(scenario: usize, agent: usize, outcome: VerifyOutcome) -> Self {
        Self {
            scenario,
            agent,
            outcome,
            attempts: 0,
            passes: 0,
            kept: false,
            duration: Duration::ZERO,
            capture_path: None,
            capture: VerifyCapture::default(),
            variables: ScenarioVariables::default(),
        }
    }
}

/// Why a scenario ended early.
#[derive(Debug)]
enum VerifyFailure {
    Differs(Box<VerifyDifference>),
    TimedOut(Box<VerifyDifference>),
    CouldNotRun(String),
}

impl From<VerifyDifference> for VerifyFailure {
    fn from(difference: VerifyDifference) -> Self {
        Self::Differs(Box::new(difference))
    }
}
