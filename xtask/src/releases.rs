//! New releases of Claude Code: runs all scenarios with those that have no results yet, and adds what
//! they printed to the captures if it has something new.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::cargo;
use crate::error::XtaskError;
use crate::test_programs;

const PACKAGE: &str = "@anthropic-ai/claude-code";

/// Where the results are, from the root of the workspace.
const RESULTS: &str = "scenarios/results";

/// How many releases are run if the user does not say.
const DEFAULT_MOST: usize = 3;

/// Three numbers, which order as versions do.
type Version = Vec<u32>;

/// Runs the newest releases without results, at most `most` of them, and writes the page. Fails if
/// something differs or is new.
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
    let runner = ReleaseRunner { towpath: test_programs::towpath(), root: cargo::root() };
    let mut summary = Vec::new();
    for version in &missing {
        summary.extend(runner.run(&text(version))?);
    }
    runner.write_page()?;
    if summary.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("\n{}\n\n{HINT}", summary.join("\n"));
    Ok(ExitCode::FAILURE)
}

/// What to do about the lines of the summary.
const HINT: &str = "\
Each difference is in docs/versions.md under \"Differences that no condition explains yet\".
1. Find the release of each change and write the condition, for one scenario or for all that differ:
     towpath verify --bisect SCENARIO --write-bounds
     towpath verify --bound-differences --claude npm:VERSION --results scenarios/results
2. Run the changed scenarios with the release again: this task leaves out releases with results.
     towpath verify --claude npm:VERSION --results scenarios/results
3. Explain each new kind in crates/wire/src/explanation.
4. Write the page again: towpath verify --history > docs/versions.md";

/// Runs the built program with releases, in the project at `root`.
struct ReleaseRunner {
    towpath: PathBuf,
    root: PathBuf,
}

impl ReleaseRunner {
    /// Runs all scenarios with a release and adds its captures. Returns what someone must look at.
    fn run(&self, version: &str) -> Result<Vec<String>, XtaskError> {
        println!("Claude Code {version}");
        let captures = cargo::target_directory().join("tmp/releases").join(version);
        // Captures of an earlier run may be of scenarios that are gone.
        let _ = fs::remove_dir_all(&captures);
        let output = self
            .towpath()
            .args(["verify", "--claude", &format!("npm:{version}"), "--json"])
            .args(["--results", RESULTS, "--record"])
            .arg(&captures)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| XtaskError::new("start towpath", &error))?;
        let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let Some(results) = report["results"].as_array().filter(|it| !it.is_empty()) else {
            return Ok(vec![format!("{version}: it could not be run")]);
        };
        let mut summary: Vec<String> =
            failures(results).into_iter().map(|it| format!("{version}: {it}")).collect();
        summary.extend(self.add(version, &captures)?);
        Ok(summary)
    }

    /// Adds the captures with something new to those of the project.
    fn add(&self, version: &str, captures: &Path) -> Result<Vec<String>, XtaskError> {
        let output = self
            .towpath()
            .args(["inspect", "--history", "captures", "--add"])
            .arg(captures)
            .output()
            .map_err(|error| XtaskError::new("start towpath", &error))?;
        let lines = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            text.lines().map(str::to_owned).collect::<Vec<String>>()
        };
        let stderr = lines(&output.stderr);
        if !output.status.success() {
            return Err(XtaskError::new("add the captures", &stderr.join("\n").trim()));
        }
        let added =
            lines(&output.stdout).into_iter().map(|line| format!("{version}: new in {line}"));
        // Without this name the release would only have a note that nothing is new.
        let unknown =
            stderr.iter().filter_map(|line| line.strip_prefix("note: Towpath does not know "));
        let unknown = unknown.map(|names| format!("{version}: Towpath does not know {names}"));
        Ok(added.chain(unknown).collect())
    }

    fn write_page(&self) -> Result<(), XtaskError> {
        let output = self
            .towpath()
            .args(["verify", "--history"])
            .output()
            .map_err(|error| XtaskError::new("start towpath", &error))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(XtaskError::new("make docs/versions.md", &stderr.trim()));
        }
        fs::write(self.root.join("docs/versions.md"), output.stdout)
            .map_err(|error| XtaskError::new("write docs/versions.md", &error))
    }

    fn towpath(&self) -> Command {
        let mut command = Command::new(&self.towpath);
        command.current_dir(&self.root);
        command
    }
}

/// The scenarios that did not pass, by what they did.
fn failures(results: &[Value]) -> Vec<String> {
    let named = |outcome: &str| -> Vec<&str> {
        let results = results.iter().filter(|it| it["outcome"] == outcome);
        results.filter_map(|it| it["scenario"].as_str()).collect()
    };
    let labels = [
        ("differs", "differs", "differ"),
        ("flaky", "is flaky", "are flaky"),
        ("timed_out", "timed out", "timed out"),
        ("could_not_run", "could not be run", "could not be run"),
    ];
    let lines = labels.into_iter().filter_map(|(outcome, one, several)| {
        let found = named(outcome);
        let label = if found.len() == 1 { one } else { several };
        (!found.is_empty()).then(|| format!("{} {label}: {}", found.len(), found.join(", ")))
    });
    lines.collect()
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
    let words: Vec<String> = serde_json::from_str(text).unwrap_or_default();
    let mut versions: Vec<Version> = words.iter().filter_map(|it| parse(it)).collect();
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
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{ReleaseRunner, missing, newest, parse_list, text, whole_releases};

    /// A project with a program in place of towpath, which notes its arguments.
    struct FakeProject {
        root: PathBuf,
    }

    impl FakeProject {
        fn new(name: &str, program: &str) -> Self {
            use std::os::unix::fs::PermissionsExt as _;
            let name = format!("tmp/xtask-{name}-{}", std::process::id());
            let root = crate::cargo::target_directory().join(name);
            fs::create_dir_all(root.join("docs")).unwrap();
            let program = format!("#!/bin/sh\necho \"$*\" >> arguments\n{program}");
            fs::write(root.join("towpath"), program).unwrap();
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(root.join("towpath"), executable).unwrap();
            Self { root }
        }

        fn runner(&self) -> ReleaseRunner {
            ReleaseRunner { towpath: self.root.join("towpath"), root: self.root.clone() }
        }

        fn text(&self, path: impl AsRef<Path>) -> String {
            fs::read_to_string(self.root.join(path)).unwrap()
        }
    }

    impl Drop for FakeProject {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }

    #[test]
    fn the_summary_names_what_differs_and_what_is_new() {
        let report = r#"{"results":[{"scenario":"text","outcome":"passed"},
            {"scenario":"one","outcome":"differs","difference":{"message":"\"outcome\":\"flaky\""}},
            {"scenario":"old","outcome":"not_applicable"},{"scenario":"two","outcome":"differs"},
            {"scenario":"slow","outcome":"timed_out"},{"scenario":"maybe","outcome":"flaky"}]}"#;
        let program = format!(
            "case $* in\n\
             verify*--history) echo page;;\n\
             verify*) echo '{report}'; exit 1;;\n\
             inspect*) echo 'captures/9.9.9/stdout/one.jsonl: wibble'\n\
             echo 'note: Towpath does not know wibble' >&2;;\n\
             esac\n"
        );
        let project = FakeProject::new("summary", &program);
        let summary = project.runner().run("9.9.9").unwrap();
        assert_eq!(
            summary,
            [
                "9.9.9: 2 differ: one, two",
                "9.9.9: 1 is flaky: maybe",
                "9.9.9: 1 timed out: slow",
                "9.9.9: new in captures/9.9.9/stdout/one.jsonl: wibble",
                "9.9.9: Towpath does not know wibble",
            ]
        );
        project.runner().write_page().unwrap();
        assert_eq!(project.text("docs/versions.md"), "page\n");
        let captures = crate::cargo::target_directory().join("tmp/releases/9.9.9");
        let captures = captures.display();
        assert_eq!(
            project.text("arguments").lines().collect::<Vec<_>>(),
            [
                &format!(
                    "verify --claude npm:9.9.9 --json --results scenarios/results --record {captures}"
                ),
                &format!("inspect --history captures --add {captures}"),
                "verify --history",
            ]
        );
    }

    #[test]
    fn a_release_without_anything_new_has_no_summary() {
        let program = "case $* in\n\
            verify*) echo '{\"results\":[{\"scenario\":\"text\",\"outcome\":\"passed\"}]}';;\n\
            *) echo 'note: the captures have nothing that is not in `captures`' >&2;;\nesac\n";
        let project = FakeProject::new("same", program);
        assert_eq!(project.runner().run("9.9.8").unwrap(), Vec::<String>::new());
        let project = FakeProject::new("none", "exit 2\n");
        assert_eq!(project.runner().run("9.9.7").unwrap(), ["9.9.7: it could not be run"]);
        assert_eq!(project.text("arguments").lines().count(), 1);
    }

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
