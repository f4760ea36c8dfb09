//! Results of earlier runs in the cache directory: which of them are used, and keeping new ones.

use anstream::eprintln;
use testbed::scenario::{Scenario, ScenarioProtocol};
use testbed::verify::{VerifyAgent, VerifyOutcome, VerifyResult, VerifyResultStore};

use super::agents::{VerifyAgentChoice, VerifyEnvironment};
use super::selection::VerifyScenarioFiles;

/// The kept results, as far as this run uses them.
pub(super) struct KeptResults {
    store: Option<VerifyResultStore>,
    /// Whether results of earlier runs are used at all. New ones are kept in any case.
    is_used: bool,
}

impl KeptResults {
    /// Without a cache directory nothing is kept.
    pub(super) fn load(environment: &VerifyEnvironment, is_used: bool) -> Self {
        Self { store: environment.result_store(), is_used }
    }

    /// Whether everything is known about a release, so that its program is not needed.
    pub(super) fn covers(&self, choice: &VerifyAgentChoice, loaded: &VerifyScenarioFiles) -> bool {
        // Only for these is the program large, and is there a list of versions.
        let VerifyAgentChoice::Release(version) = choice else { return false };
        let agent = VerifyAgent::known_release(*version);
        let applies = |scenario: &Scenario| {
            scenario.protocol == ScenarioProtocol::StreamJson && agent.runs(scenario)
        };
        let applicable = loaded.scenarios.iter().filter(|it| applies(it)).count();
        self.results_of(loaded, &agent, 0).len() == applicable && applicable > 0
    }

    /// The results that need not be run, with the indices of their scenarios and agents.
    pub(super) fn results(
        &self,
        loaded: &VerifyScenarioFiles,
        agents: &[VerifyAgent],
    ) -> Vec<VerifyResult> {
        let results = agents.iter().enumerate();
        results.flat_map(|(index, agent)| self.results_of(loaded, agent, index)).collect()
    }

    fn results_of(
        &self,
        loaded: &VerifyScenarioFiles,
        agent: &VerifyAgent,
        agent_index: usize,
    ) -> Vec<VerifyResult> {
        let Some(store) = self.store.as_ref().filter(|_| self.is_used && agent.is_release) else {
            return Vec::new();
        };
        let kept = store.load(&agent.name, agent.version);
        let scenarios = loaded.scenarios.iter().zip(&loaded.digests).enumerate();
        let results = scenarios.filter(|(_, (scenario, _))| agent.runs(scenario));
        let results = results.filter_map(|(index, (scenario, digest))| {
            Some(kept.certain(&scenario.name, digest)?.result(index, agent_index))
        });
        results.collect()
    }

    /// Keeps a result of a release.
    pub(super) fn save(
        &self,
        loaded: &VerifyScenarioFiles,
        agent: &VerifyAgent,
        result: &VerifyResult,
    ) {
        let Some(store) = self.store.as_ref().filter(|_| agent.is_release) else { return };
        if matches!(result.outcome, VerifyOutcome::NotApplicable) {
            return;
        }
        let name = &loaded.scenarios[result.scenario].name;
        let digest = &loaded.digests[result.scenario];
        // The report does not depend on it; the scenario is just run again next time.
        if let Err(error) = store.save(agent, (name, digest), result) {
            eprintln!("note: the result of {name} could not be kept: {error}");
        }
    }
}
