//! `towpath watch` after the built-in agent and after several versions of the real CLI.
//!
//! `towpath verify` gives the agent a home, a model and no network; here its agent is a pipeline.
//! Versions are fetched with npm on first use. If that is not possible, the test prints that it was
//! skipped; with `CI=true` it fails.

#![expect(clippy::print_stdout, reason = "the test prints what it fetches and skips")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testbed::verify::{cached_release, fetch_release};

use crate::process::tree;

/// The agent of the scenario. It creates a repository with uncommitted work of the user, runs the real
/// agent in it with `towpath watch` after it, and keeps the results.
const PIPELINE: &str = r#"#!/bin/sh
case "$*" in *--version*) exec $CLAUDE --version;; esac
git init --quiet --initial-branch=main && git config user.name User && git config user.email user@example.org
echo mine > mine.txt
git add --all && git commit --quiet --message base --allow-empty
echo 'mine, not done yet' > mine.txt
echo staged > staged.txt && git add staged.txt
{ $CLAUDE "$@"; echo $? > "$OUT/code"; } | tee "$OUT/in" |
    $TOWPATH watch --to "$OUT/copy" --scan --commit=change --report "$OUT/report.json" 2> "$OUT/log" |
    tee "$OUT/out"
cp -R . "$OUT/project"
exit "$(cat "$OUT/code")"
"#;

/// The files that a run produced.
struct ScenarioFiles {
    out: tempfile::TempDir,
}

impl ScenarioFiles {
    fn path(&self, name: &str) -> PathBuf {
        self.out.path().join(name)
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git").args(arguments).current_dir(self.path("project")).output();
        String::from_utf8_lossy(&output.expect("git").stdout).into_owned()
    }

    fn changes(&self) -> Vec<String> {
        let report = fs::read(self.path("report.json")).expect("a report");
        let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
        let line = |it: &serde_json::Value| {
            let text = |key: &str| it[key].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", text("tool"), text("path"), text("status"))
        };
        let of_copy = |it: &&serde_json::Value| it["target"] != "git";
        report["changes"].as_array().expect("changes").iter().filter(of_copy).map(line).collect()
    }

    /// Checks that the stream was copied and that the copy and the commits have the agent's changes.
    fn check(&self, changed: &[&str]) {
        let read = |name: &str| fs::read(self.path(name)).unwrap_or_default();
        let log = String::from_utf8_lossy(&read("log")).into_owned();
        assert!(!read("in").is_empty() && read("in") == read("out"), "{log}");
        let project = tree(&self.path("project"));
        let copy = if self.path("copy").exists() { tree(&self.path("copy")) } else { Vec::new() };
        let names: Vec<&str> = copy.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, changed, "{log}");
        for file in &copy {
            assert!(project.contains(file), "{} differs: {log}", file.0);
        }
        let is_users = |name: &str| name == "mine.txt" || name == "staged.txt";
        let base = self.git(&["rev-list", "--max-parents=0", "HEAD"]);
        let committed = self.git(&["diff", "--name-only", "--no-renames", base.trim(), "HEAD"]);
        let committed: Vec<&str> = committed.lines().collect();
        assert_eq!(committed, changed, "{log}");
        // All changes of the agent are committed, and none of the user.
        assert_eq!(self.git(&["status", "--porcelain"]), " M mine.txt\nA  staged.txt\n", "{log}");
        assert!(!committed.iter().any(|name| is_users(name)));
    }
}

/// Runs a scenario with an agent that has `towpath watch` after it.
fn run_scenario(claude: &[OsString], scenario: &str) -> ScenarioFiles {
    let files = ScenarioFiles { out: tempfile::tempdir().expect("a directory") };
    let quoted = |argument: &OsStr| format!("'{}'", argument.to_string_lossy());
    let claude: Vec<String> = claude.iter().map(|argument| quoted(argument)).collect();
    let script = PIPELINE
        .replace("$CLAUDE", &claude.join(" "))
        .replace("$TOWPATH", &quoted(OsStr::new(env!("CARGO_BIN_EXE_towpath"))))
        .replace("$OUT", &files.out.path().display().to_string());
    let agent = files.path("claude");
    fs::write(&agent, script).expect("a script");
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).expect("executable");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/watch").join(scenario);
    let output = Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["verify", "--timeout", "60", "--claude"])
        .args([&agent, &file])
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    files
}

fn check_scenarios(claude: &[OsString], multi_edit: bool) {
    let result = run_scenario(claude, "changes.scenario");
    let mut files = vec!["deep/out.txt", "e.txt", "gen/made.txt", "n.ipynb", "p3.txt"];
    if multi_edit {
        files.insert(3, "m.txt");
    }
    result.check(&files);
    let changes = result.changes();
    for expected in [
        "Write deep/out.txt pushed",
        "Write p1.txt pushed",
        "Write p2.txt pushed",
        "Edit e.txt pushed",
        "Edit e.txt skipped",
        "NotebookEdit n.ipynb pushed",
        "Bash gen/made.txt pushed",
        "Bash p3.txt pushed",
    ] {
        assert!(changes.iter().any(|it| it == expected), "no `{expected}` in {changes:#?}");
    }
    let outside = changes.last().expect("changes");
    assert!(
        outside.starts_with("Write /") && outside.ends_with("outside.txt skipped"),
        "{outside}"
    );

    let result = run_scenario(claude, "denied.scenario");
    result.check(&[]);
    assert_eq!(result.changes(), ["Write denied.txt skipped"]);

    let result = run_scenario(claude, "sub-agent.scenario");
    result.check(&["sub.txt"]);
    assert_eq!(result.changes(), ["Write sub.txt pushed"]);
}

#[test]
fn after_the_built_in_agent() {
    let play = [env!("CARGO_BIN_EXE_towpath"), "play"].map(OsString::from);
    check_scenarios(&play, false);
}

#[test]
fn after_claude_code_2_1_325() {
    check_release("2.1.325", false);
}

#[test]
fn after_claude_code_2_1_37() {
    check_release("2.1.37", false);
}

#[test]
fn after_claude_code_1_0_128_which_has_multi_edit() {
    check_release("1.0.128", true);
}

fn check_release(version: &str, multi_edit: bool) {
    match claude(version) {
        Ok(claude) => check_scenarios(&claude, multi_edit),
        Err(reason) => {
            assert!(env::var("CI").as_deref() != Ok("true"), "could not run: {reason}");
            println!("skipped: {reason}");
        }
    }
}

/// A release of the CLI, from the cache of `towpath verify`.
fn claude(version: &str) -> Result<Vec<OsString>, String> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(env::home_dir()?.join(".cache")));
    let cache = cache.ok_or("there is no cache directory")?.join("towpath/claude");
    let version = version.parse().map_err(|_| format!("`{version}` is not a version"))?;
    let node = OsStr::new("node");
    if let Some(command) = cached_release(&cache, version, node) {
        return Ok(command);
    }
    println!("fetching Claude Code {version} into {}", cache.display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(fetch_release(&cache, version, node)).map_err(|error| error.to_string())
}
