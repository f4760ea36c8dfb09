//! New releases of Claude Code: runs all scenarios with those that have no results yet.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::cargo;
use crate::error::XtaskError;
use crate::test_programs;

const PACKAGE: &str = "@anthropic-ai/claude-code";

/// Where the results are, from the root of the workspace.
const RESULTS: &str = "scenarios/results";

/// How many releases are run if the user does not say.
const DEFAULT_MOST: usize = 3;

/// The exit codes of `towpath verify` that are about agents, not about the run.
const DIFFERS: i32 = 1;
const UNCERTAIN: i32 = 3;

/// Three numbers, which order as versions do.
type Version = Vec<u32>;

/// Runs the newest releases without results, at most `most` of them, and writes the page. Fails if
/// something differs.
pub(crate) fn run(options: &[&str]) -> Result<ExitCode, XtaskError> {
    let most = match options {
        [] => DEFAULT_MOST,
        ["--most", number] => {
            number.parse().map_err(|_| XtaskError::usage(format!("`{number}` is no number")))?
        }
        _ => return Err(XtaskError::usage(format!("`{}` is unknown", options.join(" ")))),
    };
    let directory = cargo::root().join(RESULTS).join("claude");
    let published = published()?;
    let missing = missing(&published, &whole_releases(&directory), most);
    write_published(&directory, &published)?;
    if missing.is_empty() {
        println!("there are results of the newest release, {}", newest(&published));
    }
    let build = ["build", "--package", "towpath"];
    if cargo::forward(&build)? != ExitCode::SUCCESS {
        return Ok(ExitCode::FAILURE);
    }
    let mut summary = Vec::new();
    for version in &missing {
        let version = text(version);
        println!("Claude Code {version}");
        let status = verify(&["--claude", &format!("npm:{version}"), "--results", RESULTS])
            .status()
            .map_err(|error| XtaskError::new("start towpath", &error))?;
        match status.code() {
            Some(0) => {}
            Some(DIFFERS) => summary.push(format!("{version}: something differs")),
            Some(UNCERTAIN) => summary.push(format!("{version}: something is not certain")),
            _ => summary.push(format!("{version}: it could not be run")),
        }
    }
    write_page()?;
    if summary.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("\n{}", summary.join("\n"));
    println!(
        "The differences are above, and in docs/versions.md under \"Differences that no condition \
         explains yet\".\n`towpath verify --bisect SCENARIO --write-bounds` finds the release of a change."
    );
    Ok(ExitCode::FAILURE)
}

fn verify(arguments: &[&str]) -> Command {
    let mut command = Command::new(test_programs::towpath());
    command.arg("verify").args(arguments).current_dir(cargo::root());
    command
}

fn write_page() -> Result<(), XtaskError> {
    let output = verify(&["--history"])
        .output()
        .map_err(|error| XtaskError::new("start towpath", &error))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(XtaskError::new("make docs/versions.md", &stderr.trim()));
    }
    fs::write(cargo::root().join("docs/versions.md"), output.stdout)
        .map_err(|error| XtaskError::new("write docs/versions.md", &error))
}

/// The published versions in ascending order, as npm lists them.
fn published() -> Result<Vec<Version>, XtaskError> {
    let output = Command::new("npm")
        .args(["view", PACKAGE, "versions", "--json"])
        .output()
        .map_err(|error| XtaskError::new("start npm", &error))?;
    let versions = parse_list(&String::from_utf8_lossy(&output.stdout));
    if versions.is_empty() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(XtaskError::new("list the published versions with npm", &stderr.trim()));
    }
    Ok(versions)
}

/// The versions in a JSON list of strings. Those with a suffix are left out.
fn parse_list(text: &str) -> Vec<Version> {
    let words = text.split('"').skip(1).step_by(2);
    let mut versions: Vec<Version> = words.filter_map(parse).collect();
    versions.sort_unstable();
    versions.dedup();
    versions
}

fn parse(word: &str) -> Option<Version> {
    let numbers: Option<Version> = word.split('.').map(|part| part.parse().ok()).collect();
    numbers.filter(|it| it.len() == 3)
}

fn text(version: &[u32]) -> String {
    version.iter().map(ToString::to_string).collect::<Vec<_>>().join(".")
}

fn newest(versions: &[Version]) -> String {
    versions.last().map(|it| text(it)).unwrap_or_default()
}

/// The releases with which all scenarios were run.
fn whole_releases(directory: &Path) -> Vec<Version> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let whole = files.into_iter().filter_map(|file| {
        let version = parse(file.file_name()?.to_str()?.strip_suffix(".jsonl")?)?;
        let text = fs::read_to_string(&file).ok()?;
        text.lines().next()?.contains("\"whole\":true").then_some(version)
    });
    whole.collect()
}

/// The releases that are newer than all with results, the newest first.
fn missing(published: &[Version], whole: &[Version], most: usize) -> Vec<Version> {
    let last = whole.iter().max();
    let is_new = |version: &&Version| last.is_none_or(|last| *version > last);
    published.iter().rev().filter(is_new).take(most).cloned().collect()
}

fn write_published(directory: &Path, versions: &[Version]) -> Result<(), XtaskError> {
    let lines: String = versions.iter().map(|version| text(version) + "\n").collect();
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(directory.join("published.txt"), lines))
        .map_err(|error| XtaskError::new("write the list of published versions", &error))
}

#[cfg(test)]
mod tests {
    use super::{missing, newest, parse_list, text, whole_releases};

    #[test]
    fn the_newest_releases_without_results_are_run() {
        let list =
            "[\n  \"2.1.9\",\n  \"2.1.10\",\n  \"2.0.0-beta.1\",\n  \"1.0.24\", \"2.1.11\"\n]\n";
        let published = parse_list(list);
        let texts = |versions: &[Vec<u32>]| versions.iter().map(|it| text(it)).collect::<Vec<_>>();
        assert_eq!(texts(&published), ["1.0.24", "2.1.9", "2.1.10", "2.1.11"]);
        assert_eq!(newest(&published), "2.1.11");
        let known = |versions: &[&str]| parse_list(&format!("{versions:?}"));
        assert_eq!(texts(&missing(&published, &known(&["2.1.9"]), 9)), ["2.1.11", "2.1.10"]);
        assert_eq!(texts(&missing(&published, &known(&["2.1.9"]), 1)), ["2.1.11"]);
        assert!(missing(&published, &known(&["2.1.11"]), 9).is_empty());
        assert_eq!(texts(&missing(&published, &[], 2)), ["2.1.11", "2.1.10"]);
        assert!(parse_list("npm error").is_empty());
    }

    #[test]
    fn a_release_counts_once_all_scenarios_were_run() {
        let results = crate::cargo::root().join("scenarios/results/claude");
        let whole = whole_releases(&results);
        let files = std::fs::read_dir(&results).unwrap().flatten();
        let all = files.filter(|it| it.path().extension().is_some_and(|it| it == "jsonl")).count();
        assert!(!whole.is_empty() && whole.len() <= all, "{} of {all}", whole.len());
    }
}
