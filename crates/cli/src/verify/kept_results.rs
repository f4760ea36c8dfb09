//! Results of earlier runs: which of them are used, and keeping new ones.
//!
//! They are in the cache directory and, with `--results`, in files of the project.

use std::collections::HashMap;
use std::path::PathBuf;

use anstream::eprintln;
use testbed::history::{
    HistoryRelease, HistoryResult, HistoryStore, HistoryStoreError, ReleaseKinds, applied_digest,
};
use testbed::scenario::{Scenario, ScenarioProtocol};
use testbed::verify::{
    VerifyAgent, VerifyConversation, VerifyOutcome, VerifyResult, VerifyResultStore,
};

use super::agents::{VerifyAgentChoice, VerifyEnvironment};
use super::selection::VerifyScenarioFiles;

/// The kept results, as far as this run uses them.
pub(super) struct KeptResults {
    store: Option<VerifyResultStore>,
    /// The results that are part of a project.
    project: Option<HistoryStore>,
    /// Whether results of earlier runs are used at all. New ones are kept in any case.
    is_used: bool,
}

impl KeptResults {
    /// Without a cache directory nothing is kept.
    pub(super) fn load(
        environment: &VerifyEnvironment,
        project: Option<PathBuf>,
        is_used: bool,
    ) -> Self {
        let project = project.map(HistoryStore::new);
        Self { store: environment.result_store(), project, is_used }
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
        if !self.is_used || !agent.is_release {
            return Vec::new();
        }
        let kept = self.store.as_ref().map(|it| it.load(&agent.name, agent.version));
        // A file that cannot be read is reported when it is to be written.
        let release = self.project.as_ref().and_then(|it| it.load(&agent.name, agent.version).ok());
        let scenarios = loaded.scenarios.iter().enumerate();
        let results = scenarios.filter(|(_, scenario)| agent.runs(scenario));
        let results = results.filter_map(|(index, scenario)| {
            let text = &loaded.texts[index];
            if let Some(result) = release.as_ref().and_then(|it| current(it, scenario, text))
                && let Some(result) = result.kept(text)
            {
                return Some(result.result(index, agent_index));
            }
            let kept = kept.as_ref()?.certain(&scenario.name, &loaded.digests[index])?;
            Some(kept.result(index, agent_index))
        });
        results.collect()
    }

    /// Writes the certain results to the files of the project, if there are to be any. `is_suite`
    /// says whether all scenarios were selected.
    pub(super) fn write_project(
        &self,
        loaded: &VerifyScenarioFiles,
        agents: &[VerifyAgent],
        results: &[VerifyResult],
        is_suite: bool,
    ) -> Result<(), HistoryStoreError> {
        let Some(project) = &self.project else { return Ok(()) };
        for (index, agent) in agents.iter().enumerate().filter(|(_, agent)| agent.is_release) {
            let mut release = project.load(&agent.name, agent.version)?;
            for result in results.iter().filter(|it| it.agent == index) {
                let scenario = &loaded.scenarios[result.scenario];
                let text = &loaded.texts[result.scenario];
                // A kept result may be the one that is already there.
                if result.kept && current(&release, scenario, text).is_some() {
                    continue;
                }
                let Some(conversation) = self.conversation(&scenario.name, agent, result) else {
                    continue;
                };
                let digest = applied_digest(text, &agent.name, agent.version);
                let counts = (result.attempts, result.passes);
                let digests = (digest, conversation);
                if let Some(mut entry) = HistoryResult::of(&result.outcome, counts, digests, text) {
                    // What the release does not have yet was shown by another text of the scenario.
                    let earlier = release.results.get(&scenario.name);
                    if let Some(earlier) = earlier.filter(|it| it.scenario == entry.scenario) {
                        entry.not_yet.clone_from(&earlier.not_yet);
                    }
                    let entry = match release.results.get(&scenario.name) {
                        Some(earlier) if !result.kept => entry.merged(counts, earlier),
                        _ => entry,
                    };
                    release.results.insert(scenario.name.clone(), entry);
                }
            }
            if is_suite {
                let names: Vec<&str> = loaded.scenarios.iter().map(|it| it.name.as_str()).collect();
                release.results.retain(|name, _| names.contains(&name.as_str()));
                let mut scenarios = loaded.scenarios.iter().zip(&loaded.texts);
                release.is_whole = scenarios
                    .all(|(it, text)| !agent.runs(it) || current(&release, it, text).is_some());
            }
            if !release.results.is_empty() {
                project.save(&release)?;
            }
            let of_agent = results.iter().filter(|it| it.agent == index);
            let run = of_agent.filter(|it| !it.kept && it.attempts > 0).map(|result| {
                let name = loaded.scenarios[result.scenario].name.as_str();
                (name, VerifyConversation::of(result, agent))
            });
            self.write_kinds(project, &release, &run.collect(), is_suite)?;
        }
        Ok(())
    }

    /// Writes which kinds of lines a release has printed, if the whole suite was run with it: now,
    /// or earlier and some scenarios again now. `run` has the conversations of the scenarios that
    /// were run now; those of the others are in the cache, if they were run on this machine.
    fn write_kinds(
        &self,
        project: &HistoryStore,
        release: &HistoryRelease,
        run: &HashMap<&str, VerifyConversation>,
        is_suite: bool,
    ) -> Result<(), HistoryStoreError> {
        let HistoryRelease { agent, version, .. } = release;
        let earlier = project.kinds(agent, *version)?;
        if !(is_suite && release.is_whole || earlier.is_some()) {
            return Ok(());
        }
        let conversation = |name: &str, digest: &str| {
            let kept = || self.store.as_ref()?.conversation_with(digest).ok();
            run.get(name).cloned().or_else(kept)
        };
        let mut kinds = ReleaseKinds::default();
        for (name, result) in &release.results {
            match conversation(name, &result.conversation) {
                Some(conversation) => kinds.add(name, &conversation),
                None => drop(kinds.without.insert(name.clone())),
            }
        }
        // What a scenario showed that is not at hand now is still known from the file.
        if let Some(earlier) = earlier.filter(|_| !kinds.without.is_empty()) {
            kinds.add_earlier(&earlier);
        }
        if kinds.is_empty() { Ok(()) } else { project.save_kinds(agent, *version, &kinds) }
    }

    /// The digest of the conversation of a result, which is only in the cache if it was not run now.
    fn conversation(
        &self,
        name: &str,
        agent: &VerifyAgent,
        result: &VerifyResult,
    ) -> Option<String> {
        if !result.kept {
            return Some(VerifyConversation::of(result, agent).digest());
        }
        let kept = self.store.as_ref()?.load(&agent.name, agent.version);
        Some(kept.latest(name)?.conversation.clone())
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

/// The result of a scenario in the project, if it was run as it is now.
fn current<'a>(
    release: &'a HistoryRelease,
    scenario: &Scenario,
    text: &str,
) -> Option<&'a HistoryResult> {
    let result = release.results.get(&scenario.name)?;
    (result.scenario == applied_digest(text, &release.agent, release.version)).then_some(result)
}
