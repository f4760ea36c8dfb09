//! The scenarios, with the built-in player as several releases and with two releases of the real CLI.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo;
use crate::counts::TestCounts;
use crate::error::XtaskError;
use crate::jobs::{CheckJob, JobFailure, JobFindings, JobLog};
use crate::setup;
use crate::survivors::SurvivorCheck;
use crate::test_programs;

/// The release of the CLI that runs every scenario.
const CLI: &str = "2.1.325";

/// The order of the lines that this release prints.
const LINES: &str = "scenarios/results/claude/lines/2.1.325.jsonl";

/// An older release of the CLI, which runs the scenarios that depend on the version.
const OLD_CLI: &str = "2.1.37";

/// The releases that the built-in player stands in for besides the newest.
const OLD_PLAYERS: [&str; 3] = ["play@1.0.128", "play@2.0.60", "play@2.1.37"];

/// The exit code of `towpath verify` if nothing is known to differ, but not everything is certain.
const FLAKY: i32 = 3;

/// The job that runs them all.
pub(crate) fn job(check: &SurvivorCheck) -> CheckJob {
    let mut command = Command::new(test_programs::towpath());
    check.mark(command.current_dir(cargo::root()));
    let marks: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    let work = move |log: &mut JobLog| {
        let verify = || {
            let mut command = Command::new(test_programs::towpath());
            command.args(["verify", "--again", "--lines", LINES]);
            command.envs(marks.clone()).current_dir(cargo::root());
            command
        };
        run(log, &verify)
    };
    CheckJob { name: "scenarios".to_owned(), step: "scenarios", work: Box::new(work) }
}

/// Runs the scenarios; `verify` is the command without agents and files.
fn run(log: &mut JobLog, verify: &dyn Fn() -> Command) -> Result<JobFindings, XtaskError> {
    let files = scenario_files()?;
    let version_dependent: Vec<PathBuf> =
        files.iter().filter(|file| depends_on_version(file)).cloned().collect();
    let mut result = JobFindings::default();
    let mut agents = vec!["play".to_owned()];
    agents.extend(OLD_PLAYERS.map(str::to_owned));
    for (version, files) in [(CLI, &files), (OLD_CLI, &version_dependent)] {
        let Some(first) = files.first() else { continue };
        if let Some(reason) = missing(log, verify, version, first)? {
            let name = format!("{} scenarios with Claude Code {version}", files.len());
            result.counts.skipped += files.len();
            result.skipped.push((name, reason));
        } else if version == CLI {
            agents.push(format!("npm:{version}"));
        } else {
            let agents = [format!("npm:{version}")];
            result.counts.add(run_files(log, verify(), &agents, files)?);
        }
    }
    result.counts.add(run_files(log, verify(), &agents, &[])?);
    if result.counts.failed > 0 {
        result.failures.push(JobFailure::other("see the differences above".to_owned()));
    }
    Ok(result)
}

/// Why a release of the CLI cannot be used. It is fetched on first use, with one scenario.
fn missing(
    log: &mut JobLog,
    verify: &dyn Fn() -> Command,
    version: &str,
    first: &Path,
) -> Result<Option<String>, XtaskError> {
    if !setup::has_npm() {
        return Ok(Some("`npm` is not installed".to_owned()));
    }
    log.write(&format!("xtask: trying Claude Code {version}, which is fetched on first use"));
    let mut command = verify();
    let status = log.run(command.args(["--claude", &format!("npm:{version}")]).arg(first))?;
    // 2 means that the scenario could not run at all.
    let is_missing = status.code() == Some(2);
    Ok(is_missing.then(|| "Claude Code could not be fetched; see above".to_owned()))
}

/// Runs scenarios, all of them unless some are named.
fn run_files(
    log: &mut JobLog,
    mut verify: Command,
    agents: &[String],
    files: &[PathBuf],
) -> Result<TestCounts, XtaskError> {
    let report = cargo::target_directory().join("scenarios.xml");
    // A report of an earlier run must not be counted.
    let _ = fs::remove_file(&report);
    verify.arg("--junit").arg(&report);
    for agent in agents {
        verify.args(["--claude", agent]);
    }
    let status = log.run(verify.args(files))?;
    let mut counts = TestCounts::from_junit(&fs::read_to_string(&report).unwrap_or_default());
    // 3 means that a scenario differs only sometimes, which the report counts as passed.
    if !status.success() && status.code() != Some(FLAKY) && counts.failed == 0 {
        // Scenarios or agents that could not be loaded are in no report.
        counts.failed = 1;
    }
    Ok(counts)
}

fn scenario_files() -> Result<Vec<PathBuf>, XtaskError> {
    let directory = cargo::root().join("scenarios");
    let failed = |error: io::Error| XtaskError::new("list the scenarios", &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|it| it == "scenario") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a scenario has a condition on the version, such as `versions >=2.1.37` or a step that
/// starts with `[<2.1.197]`.
fn depends_on_version(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|line| {
        line.starts_with("versions ")
            || line
                .strip_prefix('[')
                .is_some_and(|it| it.starts_with(|c: char| "<>=".contains(c) || c.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::{depends_on_version, scenario_files};

    #[test]
    fn some_scenarios_depend_on_the_version_and_some_do_not() {
        let files = scenario_files().unwrap();
        let dependent = files.iter().filter(|file| depends_on_version(file)).count();
        assert!(dependent > 0 && dependent < files.len(), "{dependent} of {}", files.len());
    }
}
