//! The scenarios that the arguments select.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use testbed::scenario::{Scenario, ScenarioError, ScenarioVariables, matches_text};
use testbed::verify::{VerifyAgent, text_digest};

use crate::exit::report_error;

/// The directory of the scenario suite.
const SUITE: &str = "scenarios";
const EXTENSION: &str = "scenario";

/// There are no scenarios to run.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerifySelectionError {
    #[error("there is no directory `{SUITE}` here")]
    NoSuite,
    #[error("there are no scenarios in `{0}`")]
    Empty(String),
    #[error("there is no scenario `{0}`")]
    NotFound(String),
    #[error("none of the scenarios is for the protocol of these agents")]
    OtherProtocol,
}

impl VerifySelectionError {
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NoSuite => {
                "give files or directories, as in `towpath verify path/to/x.scenario`".into()
            }
            Self::Empty(_) => format!("scenario files end with `.{EXTENSION}`"),
            Self::OtherProtocol => {
                "`--claude` is for scenarios of stream-json, `--agent` for those with `acp`".into()
            }
            Self::NotFound(_) => "`towpath verify --list` prints all scenarios".into(),
        }
    }
}

/// The files for the given files, directories, names and name patterns. Without any, the whole suite.
pub(super) fn select(words: &[String]) -> Result<Vec<PathBuf>, VerifySelectionError> {
    if words.is_empty() {
        return suite();
    }
    let mut files: Vec<PathBuf> = Vec::new();
    for word in words {
        for file in select_one(word)? {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

fn select_one(word: &str) -> Result<Vec<PathBuf>, VerifySelectionError> {
    let path = Path::new(word);
    if path.is_dir() {
        return non_empty(find_files(path), word);
    }
    let has_extension = path.extension().is_some_and(|it| it == EXTENSION);
    if has_extension || path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let pattern = word.replace('*', "…");
    let mut files = suite()?;
    files.retain(|file| {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        matches_text(&pattern, &name, &ScenarioVariables::default())
    });
    if files.is_empty() { Err(VerifySelectionError::NotFound(word.into())) } else { Ok(files) }
}

fn suite() -> Result<Vec<PathBuf>, VerifySelectionError> {
    if !Path::new(SUITE).is_dir() {
        return Err(VerifySelectionError::NoSuite);
    }
    non_empty(find_files(Path::new(SUITE)), SUITE)
}

fn non_empty(files: Vec<PathBuf>, directory: &str) -> Result<Vec<PathBuf>, VerifySelectionError> {
    if files.is_empty() { Err(VerifySelectionError::Empty(directory.into())) } else { Ok(files) }
}

/// All scenario files below a directory, sorted by path.
fn find_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .flat_map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                find_files(&path)
            } else if path.extension().is_some_and(|it| it == EXTENSION) {
                vec![path]
            } else {
                Vec::new()
            }
        })
        .collect();
    // Without the extension `hello` comes before `hello-again`, with it after.
    files.sort_by_key(|file| file.with_extension(""));
    files
}

/// The scenarios that could be loaded, each with its file.
pub(super) struct VerifyScenarioFiles {
    pub(super) files: Vec<PathBuf>,
    pub(super) scenarios: Vec<Scenario>,
    /// What is in the files.
    pub(super) texts: Vec<String>,
    /// Digests of the files.
    pub(super) digests: Vec<String>,
    /// Why the others could not be loaded.
    errors: Vec<ScenarioError>,
}

impl VerifyScenarioFiles {
    /// Loads the files.
    pub(super) fn load(selected: Vec<PathBuf>) -> Self {
        let mut loaded = Self {
            files: Vec::new(),
            scenarios: Vec::new(),
            texts: Vec::new(),
            digests: Vec::new(),
            errors: Vec::new(),
        };
        for file in selected {
            match Scenario::load(&file) {
                Ok(scenario) => {
                    // A file that has just been read can be read again.
                    let text = fs::read_to_string(&file).unwrap_or_default();
                    loaded.digests.push(text_digest(&text));
                    loaded.texts.push(text);
                    loaded.files.push(file);
                    loaded.scenarios.push(scenario);
                }
                Err(error) => loaded.errors.push(error),
            }
        }
        loaded
    }

    /// Prints the errors of the files that could not be loaded. Returns whether there are any.
    pub(super) fn report_errors(&self) -> bool {
        for error in &self.errors {
            report_error(error, error.hint().as_deref());
        }
        !self.errors.is_empty()
    }

    /// Leaves out the scenarios whose protocol none of the agents speaks.
    pub(super) fn retain_spoken(&mut self, agents: &[VerifyAgent]) {
        let is_spoken = |scenario: &Scenario| {
            agents.iter().any(|agent| agent.command_for(scenario.protocol).is_some())
        };
        let spoken: Vec<bool> = self.scenarios.iter().map(is_spoken).collect();
        retain(&mut self.files, &spoken);
        retain(&mut self.texts, &spoken);
        retain(&mut self.digests, &spoken);
        retain(&mut self.scenarios, &spoken);
    }
}

/// Leaves out the items at the indices where `keep` is false.
fn retain<T>(items: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    items.retain(|_| keep.next().copied().unwrap_or(false));
}

pub(super) fn list(scenarios: &[Scenario]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let width = scenarios.iter().map(|it| it.name.chars().count()).max().unwrap_or(0);
    for scenario in scenarios {
        let condition = if scenario.condition.is_unconditional() {
            String::new()
        } else {
            format!("  ({})", scenario.condition)
        };
        writeln!(out, "{:<width$}  {}{condition}", scenario.name, scenario.title)?;
    }
    Ok(())
}
