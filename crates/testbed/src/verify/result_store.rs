//! Results of earlier runs, so that only what is missing or has changed is run.
//!
//! There is a file for each version of an agent. A result counts as long as the scenario's file and
//! Towpath are the same; the agent is, because only releases have kept results. Results that are not
//! certain are kept for their report, and run again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{VerifyAgent, VerifyConversation, VerifyDifference, VerifyOutcome, VerifyResult};
use crate::scenario::AgentVersion;

/// The directory of kept results.
#[derive(Clone, Debug)]
pub struct VerifyResultStore {
    directory: PathBuf,
}

/// The results of one version of an agent, by the names of their scenarios.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerifyKeptResults {
    results: BTreeMap<String, VerifyKeptResult>,
}

/// The result of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyKeptResult {
    /// The outcome, as in JSON reports.
    pub outcome: String,
    /// A digest of the scenario's file.
    pub scenario: String,
    /// The version of Towpath that ran it.
    pub towpath: String,
    /// A digest of the normalized conversation, which is the name of its file.
    pub conversation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<VerifyDifference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How often the scenario was run, and in how many of these runs it passed.
    pub attempts: usize,
    pub passes: usize,
    pub seconds: f64,
}

/// The version of Towpath: another one may judge differently.
const TOWPATH: &str = env!("CARGO_PKG_VERSION");

/// A digest of a text.
pub fn text_digest(text: &str) -> String {
    /// Enough to tell texts apart that are not made to collide.
    const BYTES: usize = 12;
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(BYTES).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl VerifyResultStore {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn file(&self, agent: &str, version: AgentVersion) -> PathBuf {
        self.directory.join(agent).join(format!("{version}.json"))
    }

    fn conversation_file(&self, digest: &str) -> PathBuf {
        self.directory.join("conversations").join(format!("{digest}.txt"))
    }

    /// The results of a version. A file that cannot be read is as good as none: everything is run.
    pub fn load(&self, agent: &str, version: AgentVersion) -> VerifyKeptResults {
        let text = fs::read_to_string(self.file(agent, version)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// The conversation that a kept result is about.
    pub fn conversation(&self, result: &VerifyKeptResult) -> io::Result<VerifyConversation> {
        self.conversation_with(&result.conversation)
    }

    /// The conversation with this digest.
    pub fn conversation_with(&self, digest: &str) -> io::Result<VerifyConversation> {
        let text = fs::read_to_string(self.conversation_file(digest))?;
        Ok(VerifyConversation::from_text(&text))
    }

    /// Keeps a result with its conversation. `scenario` is the name and the digest of the scenario.
    pub fn save(
        &self,
        agent: &VerifyAgent,
        (name, digest): (&str, &str),
        result: &VerifyResult,
    ) -> io::Result<()> {
        let conversation = VerifyConversation::of(result, agent);
        let conversation_digest = conversation.digest();
        let file = self.conversation_file(&conversation_digest);
        if !file.exists() {
            write_whole(&file, &conversation.to_text())?;
        }
        let error = match &result.outcome {
            VerifyOutcome::CouldNotRun(problem) => Some(problem.clone()),
            _ => None,
        };
        let kept = VerifyKeptResult {
            outcome: result.outcome.key().to_owned(),
            scenario: digest.to_owned(),
            towpath: TOWPATH.to_owned(),
            conversation: conversation_digest,
            difference: result.outcome.difference().cloned(),
            error,
            attempts: result.attempts,
            passes: result.passes,
            seconds: result.duration.as_secs_f64(),
        };
        // Another process may have kept results of the same version meanwhile.
        let mut all = self.load(&agent.name, agent.version);
        all.results.insert(name.to_owned(), kept);
        let text = serde_json::to_string_pretty(&all).map_err(io::Error::other)?;
        write_whole(&self.file(&agent.name, agent.version), &text)
    }
}

impl VerifyKeptResults {
    /// The latest result of a scenario, whether or not it still counts.
    pub fn latest(&self, name: &str) -> Option<&VerifyKeptResult> {
        self.results.get(name)
    }

    /// The result of a scenario with this digest, if it is certain.
    pub fn certain(&self, name: &str, digest: &str) -> Option<&VerifyKeptResult> {
        let result = self.results.get(name)?;
        let is_same = result.scenario == digest && result.towpath == TOWPATH;
        let is_certain = matches!(result.outcome.as_str(), "passed" | "differs");
        (is_same && is_certain).then_some(result)
    }
}

impl VerifyKeptResult {
    /// The result of a suite in which the scenario and the agent have these indices.
    pub fn result(&self, scenario: usize, agent: usize) -> VerifyResult {
        let outcome = match &self.difference {
            Some(difference) => VerifyOutcome::Differs(Box::new(difference.clone())),
            None => VerifyOutcome::Passed,
        };
        VerifyResult {
            attempts: self.attempts,
            passes: self.passes,
            kept: true,
            duration: Duration::from_secs_f64(self.seconds),
            ..VerifyResult::new(scenario, agent, outcome)
        }
    }
}

/// Writes a file so that a reader never sees a part of it.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{VerifyResultStore, text_digest};
    use crate::scenario::AgentVersion;
    use crate::verify::{VerifyAgent, VerifyDifference, VerifyOutcome, VerifyResult};

    #[test]
    fn a_certain_result_counts_until_its_scenario_changes() {
        let directory = tempfile::tempdir().unwrap();
        let store = VerifyResultStore::new(directory.path().join("verify"));
        let version = AgentVersion(2, 1, 37);
        let agent = VerifyAgent::known_release(version);
        let difference = VerifyDifference::new(7, "no matching line");
        let save = |name: &str, outcome: VerifyOutcome| {
            let result = VerifyResult { attempts: 3, ..VerifyResult::new(0, 0, outcome) };
            store.save(&agent, (name, &text_digest("text")), &result).unwrap();
        };
        save("passes", VerifyOutcome::Passed);
        save("differs", VerifyOutcome::Differs(Box::new(difference.clone())));
        save("comes-and-goes", VerifyOutcome::Flaky(Box::new(difference.clone())));
        save("late", VerifyOutcome::TimedOut(Box::new(difference.clone())));
        save("broken", VerifyOutcome::CouldNotRun("no".to_owned()));

        let kept = store.load("claude", version);
        let certain = |name: &str| kept.certain(name, &text_digest("text"));
        let result = certain("differs").unwrap().result(4, 2);
        assert_eq!((result.scenario, result.agent, result.attempts), (4, 2, 3));
        assert!(result.kept);
        assert_eq!(result.outcome.difference(), Some(&difference));
        assert_eq!(certain("passes").unwrap().result(0, 0).outcome.key(), "passed");
        for name in ["comes-and-goes", "late", "broken", "missing"] {
            assert!(certain(name).is_none(), "{name}");
        }
        assert_eq!(kept.latest("late").unwrap().outcome, "timed_out");
        assert!(kept.certain("passes", &text_digest("other text")).is_none());
        assert!(store.load("claude", AgentVersion(2, 1, 38)).latest("passes").is_none());
        let conversation = store.conversation(certain("passes").unwrap()).unwrap();
        assert_eq!(conversation.to_text(), "");
    }
}
