//! Runs scenarios with one release in a process of its own, which has no network.
//!
//! Commands that search among releases fetch them, so they cannot be isolated themselves.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;
use testbed::scenario::AgentVersion;

use crate::arguments::VerifyArgs;

/// What one scenario did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReleaseOutcome {
    Passed,
    Differs,
    NotApplicable,
    /// It timed out, could not be run, or did not do the same every time.
    #[serde(other)]
    Uncertain,
}

/// The result of one scenario.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ReleaseResult {
    scenario: String,
    pub(super) outcome: ReleaseOutcome,
    difference: Option<ReleaseDifference>,
}

#[derive(Clone, Debug, Deserialize)]
struct ReleaseDifference {
    line: usize,
}

impl ReleaseResult {
    /// The line of the scenario, counted from 1, that was not as expected.
    pub(super) fn line(&self) -> Option<usize> {
        self.difference.as_ref().map(|it| it.line)
    }
}

/// A report in JSON, as far as it is needed here.
#[derive(Default, Deserialize)]
struct ReleaseReport {
    results: Vec<ReleaseResult>,
}

/// Runs the scenarios in these files, and returns their results by name.
#[expect(clippy::disallowed_methods, reason = "the program runs itself")]
pub(super) fn run_release(
    options: &VerifyArgs,
    version: AgentVersion,
    files: &[PathBuf],
    more: &[OsString],
) -> io::Result<HashMap<String, ReleaseResult>> {
    if files.is_empty() {
        return Ok(HashMap::new());
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["verify", "--claude", &format!("npm:{version}"), "--json"]).args(more);
    if let Some(jobs) = options.jobs {
        command.args(["--jobs", &jobs.to_string()]);
    }
    if let Some(timeout) = options.timeout {
        command.args(["--timeout", &timeout.to_string()]);
    }
    command.arg("--").args(files);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output()?;
    let report: ReleaseReport = serde_json::from_slice(&output.stdout).unwrap_or_default();
    Ok(report.results.into_iter().map(|it| (it.scenario.clone(), it)).collect())
}

/// The file of a scenario in a directory of its own.
pub(super) fn scenario_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.scenario"))
}
