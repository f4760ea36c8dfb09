//! The results of releases as files of the project.
//!
//! There is a file for each release, with one line of JSON for each scenario in the order of their
//! names, so that a change of one result is a change of one line. Only certain outcomes are written,
//! and no times, so that two runs with equal outcomes give equal files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{ReleaseKinds, applied_digest};
use crate::scenario::AgentVersion;
use crate::verify::{VerifyDifference, VerifyKeptResult, VerifyOutcome};

/// The directory of the results.
#[derive(Clone, Debug)]
pub struct HistoryStore {
    directory: PathBuf,
}

/// What is known about one release of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRelease {
    pub agent: String,
    pub version: AgentVersion,
    /// Whether all scenarios that are for this release had a certain outcome when they were run.
    /// Otherwise only some were run, to find out when something changed.
    pub is_whole: bool,
    /// The results by the names of their scenarios.
    pub results: BTreeMap<String, HistoryResult>,
}

/// The result of a scenario with a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryResult {
    pub outcome: HistoryOutcome,
    /// A digest of the lines of the scenario that apply to the release.
    pub scenario: String,
    /// A digest of the normalized conversation.
    pub conversation: String,
    /// The step at which the agent differed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// How it differed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// How often a flaky scenario was run, and in how many of these runs it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<usize>,
    /// The later releases, named in conditions of the scenario, whose additional checks this release
    /// does not pass: what they check has not come yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_yet: Vec<String>,
}

/// The outcomes that say something about an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryOutcome {
    Passed,
    Differs,
    Flaky,
}

/// Results could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryStoreError {
    #[error("could not read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("`{}`, line {line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: String },
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct HistoryHead {
    agent: String,
    version: String,
    whole: bool,
}

/// A further line.
#[derive(Serialize, Deserialize)]
struct HistoryLine {
    name: String,
    #[serde(flatten)]
    result: HistoryResult,
}

const EXTENSION: &str = "jsonl";

impl HistoryStore {
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn file(&self, agent: &str, version: AgentVersion) -> PathBuf {
        self.directory.join(agent).join(format!("{version}.{EXTENSION}"))
    }

    /// All releases, ordered by agent and version.
    pub fn load_all(&self) -> Result<Vec<HistoryRelease>, HistoryStoreError> {
        let mut releases = Vec::new();
        for directory in children(&self.directory)?.into_iter().filter(|it| it.is_dir()) {
            for file in children(&directory)? {
                if file.extension().is_some_and(|it| it == EXTENSION) {
                    releases.push(load_file(&file)?);
                }
            }
        }
        releases.sort_by(|a, b| (&a.agent, a.version).cmp(&(&b.agent, b.version)));
        Ok(releases)
    }

    /// What is known about a release, which may be nothing.
    pub fn load(
        &self,
        agent: &str,
        version: AgentVersion,
    ) -> Result<HistoryRelease, HistoryStoreError> {
        let file = self.file(agent, version);
        if file.exists() {
            return load_file(&file);
        }
        let agent = agent.to_owned();
        Ok(HistoryRelease { agent, version, is_whole: false, results: BTreeMap::new() })
    }

    /// Writes the file of a release.
    pub fn save(&self, release: &HistoryRelease) -> Result<(), HistoryStoreError> {
        let path = self.file(&release.agent, release.version);
        write(&path, &release.to_text())
    }

    /// Keeps that a release does not pass the checks that a scenario makes since a later one. The
    /// scenario must have a result with the release.
    pub fn add_not_yet(
        &self,
        agent: &str,
        version: AgentVersion,
        (scenario, later): (&str, AgentVersion),
    ) -> Result<(), HistoryStoreError> {
        let mut release = self.load(agent, version)?;
        let Some(result) = release.results.get_mut(scenario) else { return Ok(()) };
        result.not_yet.push(later.to_string());
        result.not_yet.sort();
        result.not_yet.dedup();
        self.save(&release)
    }

    /// The kinds of lines of a release, if they were kept.
    pub fn kinds(
        &self,
        agent: &str,
        version: AgentVersion,
    ) -> Result<Option<ReleaseKinds>, HistoryStoreError> {
        let path = self.kinds_file(agent, version);
        if !path.exists() {
            return Ok(None);
        }
        read(&path, ReleaseKinds::parse).map(Some)
    }

    pub fn save_kinds(
        &self,
        agent: &str,
        version: AgentVersion,
        kinds: &ReleaseKinds,
    ) -> Result<(), HistoryStoreError> {
        write(&self.kinds_file(agent, version), &kinds.to_text(agent, version))
    }

    /// In a directory of its own, because every file beside it has results.
    fn kinds_file(&self, agent: &str, version: AgentVersion) -> PathBuf {
        self.directory.join(agent).join("kinds").join(format!("{version}.{EXTENSION}"))
    }

    /// The versions of an agent that were published when npm was asked last, in ascending order.
    pub fn published(&self, agent: &str) -> Vec<AgentVersion> {
        let text = fs::read_to_string(self.published_file(agent)).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub fn save_published(
        &self,
        agent: &str,
        versions: &[AgentVersion],
    ) -> Result<(), HistoryStoreError> {
        let lines = versions.iter().map(|version| format!("{version}\n"));
        write(&self.published_file(agent), &lines.collect::<String>())
    }

    fn published_file(&self, agent: &str) -> PathBuf {
        self.directory.join(agent).join("published.txt")
    }
}

fn write(path: &Path, text: &str) -> Result<(), HistoryStoreError> {
    let directory = path.parent().unwrap_or(path);
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(path, text))
        .map_err(|source| HistoryStoreError::Write { path: path.to_owned(), source })
}

/// The entries of a directory in order. A directory that does not exist is empty.
fn children(directory: &Path) -> Result<Vec<PathBuf>, HistoryStoreError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(HistoryStoreError::Read { path: directory.to_owned(), source });
        }
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn load_file(path: &Path) -> Result<HistoryRelease, HistoryStoreError> {
    read(path, HistoryRelease::parse)
}

/// Reads a file. An error of `parse` has the number of the line.
fn read<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, (usize, String)>,
) -> Result<T, HistoryStoreError> {
    let text = fs::read_to_string(path)
        .map_err(|source| HistoryStoreError::Read { path: path.to_owned(), source })?;
    parse(&text).map_err(|(line, problem)| HistoryStoreError::Line {
        path: path.to_owned(),
        line,
        problem,
    })
}

impl HistoryRelease {
    /// Reads what `to_text` has written. An error has the number of the line.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = text.lines().enumerate();
        let head: HistoryHead = serde_json::from_str(lines.next().map_or("", |(_, line)| line))
            .map_err(|error| (1, error.to_string()))?;
        let version =
            head.version.parse().map_err(|_| (1, format!("no version: `{}`", head.version)))?;
        let mut results = BTreeMap::new();
        for (index, line) in lines {
            let line: HistoryLine =
                serde_json::from_str(line).map_err(|error| (index + 1, error.to_string()))?;
            results.insert(line.name, line.result);
        }
        Ok(Self { agent: head.agent, version, is_whole: head.whole, results })
    }

    fn to_text(&self) -> String {
        let head = HistoryHead {
            agent: self.agent.clone(),
            version: self.version.to_string(),
            whole: self.is_whole,
        };
        let mut text = serde_json::to_string(&head).unwrap_or_default();
        text.push('\n');
        for (name, result) in &self.results {
            let line = HistoryLine { name: name.clone(), result: result.clone() };
            let _ = writeln!(text, "{}", serde_json::to_string(&line).unwrap_or_default());
        }
        text
    }
}

impl HistoryRelease {
    /// Whether a scenario passed as it is now.
    pub fn passed(&self, scenario: &str, text: &str) -> bool {
        self.results.get(scenario).is_some_and(|result| {
            result.outcome == HistoryOutcome::Passed
                && result.scenario == applied_digest(text, &self.agent, self.version)
        })
    }
}

impl HistoryResult {
    /// The result of an outcome, with the digests of the scenario and of the conversation, and the
    /// text of the scenario's file. None if the outcome says nothing about the agent.
    pub fn of(
        outcome: &VerifyOutcome,
        (runs, passes): (usize, usize),
        (scenario, conversation): (String, String),
        text: &str,
    ) -> Option<Self> {
        let kind = match outcome {
            VerifyOutcome::Passed => HistoryOutcome::Passed,
            VerifyOutcome::Differs(_) => HistoryOutcome::Differs,
            VerifyOutcome::Flaky(_) => HistoryOutcome::Flaky,
            VerifyOutcome::TimedOut(_)
            | VerifyOutcome::NotApplicable
            | VerifyOutcome::CouldNotRun(_) => return None,
        };
        let difference = outcome.difference();
        let is_flaky = kind == HistoryOutcome::Flaky;
        Some(Self {
            outcome: kind,
            scenario,
            conversation,
            step: difference.and_then(|it| step_text(text, it.line)),
            difference: difference.map(first_difference),
            runs: is_flaky.then_some(runs),
            passes: is_flaky.then_some(passes),
            not_yet: Vec::new(),
        })
    }
}

impl HistoryResult {
    /// This result, of so many runs and passes, together with an earlier one of the same scenario. What
    /// was flaky stays flaky when it passes, with another rate.
    #[must_use]
    pub fn merged(self, (runs, passes): (usize, usize), earlier: &Self) -> Self {
        let was_flaky =
            earlier.outcome == HistoryOutcome::Flaky && earlier.scenario == self.scenario;
        if !was_flaky || self.outcome == HistoryOutcome::Differs {
            return self;
        }
        Self {
            outcome: HistoryOutcome::Flaky,
            step: self.step.or_else(|| earlier.step.clone()),
            difference: self.difference.or_else(|| earlier.difference.clone()),
            runs: Some(earlier.runs.unwrap_or_default() + runs),
            passes: Some(earlier.passes.unwrap_or_default() + passes),
            ..self
        }
    }

    /// The result as one of an earlier run, with the text of the scenario's file. None if it is not
    /// certain.
    pub fn kept(&self, text: &str) -> Option<VerifyKeptResult> {
        let difference = match self.outcome {
            HistoryOutcome::Passed => None,
            HistoryOutcome::Flaky => return None,
            HistoryOutcome::Differs => {
                let step = self.step.as_deref().unwrap_or_default();
                let line = text.lines().position(|it| shortened(it.trim()) == step);
                Some(VerifyDifference {
                    line: line.map_or(1, |it| it + 1),
                    message: self.difference.clone().unwrap_or_default(),
                    ..VerifyDifference::default()
                })
            }
        };
        let passes = usize::from(difference.is_none());
        Some(VerifyKeptResult {
            outcome: if passes == 1 { "passed" } else { "differs" }.to_owned(),
            scenario: self.scenario.clone(),
            towpath: String::new(),
            conversation: self.conversation.clone(),
            difference,
            error: None,
            attempts: 1,
            passes,
            seconds: 0.0,
        })
    }
}

/// The step at a line, counted from 1. Line numbers change with every edit, so they are not kept.
fn step_text(text: &str, line: usize) -> Option<String> {
    text.lines().nth(line.checked_sub(1)?).map(|it| shortened(it.trim()))
}

/// The difference in one line, without anything that depends on the machine.
fn first_difference(difference: &VerifyDifference) -> String {
    if let Some(closest) = &difference.closest {
        let (expected, actual) = (shortened(&closest.expected), shortened(&closest.actual));
        return format!("{}: expected {expected}, actual {actual}", closest.path);
    }
    // How long the runner waited follows the machine.
    let message = difference.message.split(" within ").next().unwrap_or_default();
    let mut text = shortened(message);
    for (label, part) in [("expected", &difference.expected), ("actual", &difference.actual)] {
        if let Some(part) = part {
            let _ = write!(text, "; {label} {}", shortened(part));
        }
    }
    // An agent that refuses to start says why.
    if let (true, Some(line)) =
        (text.starts_with("the agent exited"), difference.stderr.trim().lines().next())
    {
        let _ = write!(text, "; stderr {}", shortened(line));
    }
    text
}

fn shortened(text: &str) -> String {
    const LENGTH: usize = 200;
    let line = text.replace('\n', " ");
    match line.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::{HistoryOutcome, HistoryRelease, HistoryResult, HistoryStore, HistoryStoreError};
    use crate::scenario::AgentVersion;
    use crate::verify::{VerifyClosestLine, VerifyDifference, VerifyOutcome};

    const TEXT: &str = "# T\n\n> user \"hi\"\n< result\n  {}\n";

    fn result(outcome: &VerifyOutcome) -> Option<HistoryResult> {
        HistoryResult::of(outcome, (5, 4), ("s".to_owned(), "c".to_owned()), TEXT)
    }

    #[test]
    fn a_file_has_a_line_for_each_scenario_and_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let store = HistoryStore::new(directory.path().to_owned());
        let version = AgentVersion(2, 1, 37);
        assert!(store.load_all().unwrap().is_empty());
        let mut release = store.load("claude", version).unwrap();
        assert!(release.results.is_empty() && !release.is_whole);

        let closest = VerifyClosestLine {
            line: "{}".to_owned(),
            path: "message.id".to_owned(),
            expected: "\"a\"".to_owned(),
            actual: "\"b\"".to_owned(),
        };
        let difference = Box::new(VerifyDifference {
            line: 4,
            message: "no matching line within 20 s".to_owned(),
            closest: Some(closest),
            ..VerifyDifference::default()
        });
        let unmatched = Box::new(VerifyDifference { closest: None, ..(*difference).clone() });
        let outcomes = [
            ("b-passes", VerifyOutcome::Passed),
            ("a-differs", VerifyOutcome::Differs(difference)),
            ("c-flaky", VerifyOutcome::Flaky(unmatched.clone())),
        ];
        for (name, outcome) in &outcomes {
            release.results.insert((*name).to_owned(), result(outcome).unwrap());
        }
        release.is_whole = true;
        store.save(&release).unwrap();

        let text = std::fs::read_to_string(directory.path().join("claude/2.1.37.jsonl")).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                r#"{"agent":"claude","version":"2.1.37","whole":true}"#,
                r#"{"name":"a-differs","outcome":"differs","scenario":"s","conversation":"c","step":"< result","difference":"message.id: expected \"a\", actual \"b\""}"#,
                r#"{"name":"b-passes","outcome":"passed","scenario":"s","conversation":"c"}"#,
                r#"{"name":"c-flaky","outcome":"flaky","scenario":"s","conversation":"c","step":"< result","difference":"no matching line","runs":5,"passes":4}"#,
            ]
        );
        assert_eq!(store.load_all().unwrap(), [release.clone()]);
        let kept = |name: &str| release.results[name].kept(TEXT);
        let differs = kept("a-differs").unwrap().result(3, 1);
        assert_eq!(differs.outcome.difference().unwrap().line, 4);
        assert_eq!(kept("b-passes").unwrap().result(3, 1).outcome.key(), "passed");
        assert_eq!(kept("c-flaky"), None);
        // What says nothing about the agent is not written.
        assert_eq!(result(&VerifyOutcome::TimedOut(unmatched)), None);
        assert_eq!(result(&VerifyOutcome::NotApplicable), None);
        assert_eq!(result(&VerifyOutcome::CouldNotRun("no".to_owned())), None);
    }

    #[test]
    fn what_was_flaky_stays_flaky_when_it_passes_later() {
        let message = "no matching line".to_owned();
        let difference =
            Box::new(VerifyDifference { line: 4, message, ..VerifyDifference::default() });
        let flaky = result(&VerifyOutcome::Flaky(difference.clone())).unwrap();
        let passed = result(&VerifyOutcome::Passed).unwrap();
        let differs = result(&VerifyOutcome::Differs(difference)).unwrap();
        let merged = passed.clone().merged((1, 1), &flaky);
        assert_eq!((merged.outcome, merged.runs, merged.passes), (flaky.outcome, Some(6), Some(5)));
        assert_eq!((&merged.step, &merged.difference), (&flaky.step, &flaky.difference));
        let again = flaky.clone().merged((5, 3), &merged);
        assert_eq!((again.outcome, again.runs, again.passes), (flaky.outcome, Some(11), Some(8)));
        // Nothing else is taken over from an earlier run, nor from a run of another scenario.
        assert_eq!(passed.clone().merged((1, 1), &differs), passed);
        assert_eq!(differs.clone().merged((3, 0), &flaky), differs);
        let other = HistoryResult { scenario: "t".to_owned(), ..flaky };
        assert_eq!(passed.clone().merged((1, 1), &other), passed);
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let text = "{\"agent\":\"claude\",\"version\":\"2.1.37\",\"whole\":false}\n{\"name\":1}\n";
        let (line, _) = HistoryRelease::parse(text).unwrap_err();
        assert_eq!(line, 2);
        let error = HistoryStoreError::Line { path: "x".into(), line, problem: "p".to_owned() };
        assert_eq!(error.to_string(), "`x`, line 2: p");
        assert_eq!(HistoryRelease::parse("").unwrap_err().0, 1);
        let outcome: HistoryOutcome = serde_json::from_str("\"flaky\"").unwrap();
        assert_eq!(outcome, HistoryOutcome::Flaky);
    }

    #[test]
    fn published_versions_are_kept_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let store = HistoryStore::new(directory.path().to_owned());
        assert!(store.published("claude").is_empty());
        let versions = [AgentVersion(1, 0, 24), AgentVersion(2, 1, 9), AgentVersion(2, 1, 10)];
        store.save_published("claude", &versions).unwrap();
        assert_eq!(store.published("claude"), versions);
    }
}
