//! `towpath watch` behind the real CLI, several versions of it, and behind the built-in agent.
//!
//! `towpath verify` gives the agent a home, a model and no network; here the agent it is given is a
//! pipeline. Versions are fetched with npm on first use; without it the test says that it was
//! skipped, and where `CI` is `true` that is a failure.

#![expect(clippy::print_stdout, reason = "what is fetched or skipped is said")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and look whether CI runs them"
)]

#[expect(dead_code, reason = "only trees are looked at here")]
mod pipeline;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pipeline::tree;
use testbed::verify::{cached_release, fetch_release};

/// The agent: a repository is made around what the scenario laid out, with work of the user's in
/// it, and the real agent runs in there with the pipe behind it. What is left is kept.
const PIPELINE: &str = r#"#!/bin/sh
case "$*" in *--version*) exec $CLAUDE --version;; esac
git init --quiet --initial-branch=main && git config user.name User && git config user.email user@example.org
echo mine > mine.txt
git add --all && git commit --quiet --message base --allow-empty
echo 'mine, not done yet' > mine.txt
echo staged > staged.txt && git add staged.txt
{ $CLAUDE "$@"; echo $? > "$OUT/code"; } | tee "$OUT/in" |
    $TOWPATH watch --to "$OUT/copy" --scan --commit=change --report "$OUT/report.json" 2> "$OUT/said" |
    tee "$OUT/out"
cp -R . "$OUT/project"
exit "$(cat "$OUT/code")"
"#;

/// What a run left behind.
struct Left {
    out: tempfile::TempDir,
}

impl Left {
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

    /// The stream came through, the copy holds what the agent changed, and so do the commits.
    fn is_in_order(&self, changed: &[&str]) {
        let read = |name: &str| fs::read(self.path(name)).unwrap_or_default();
        let said = String::from_utf8_lossy(&read("said")).into_owned();
        assert!(!read("in").is_empty() && read("in") == read("out"), "{said}");
        let project = tree(&self.path("project"));
        let copy = if self.path("copy").exists() { tree(&self.path("copy")) } else { Vec::new() };
        let names: Vec<&str> = copy.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, changed, "{said}");
        for file in &copy {
            assert!(project.contains(file), "{} differs: {said}", file.0);
        }
        let theirs = |name: &str| name == "mine.txt" || name == "staged.txt";
        let base = self.git(&["rev-list", "--max-parents=0", "HEAD"]);
        let committed = self.git(&["diff", "--name-only", "--no-renames", base.trim(), "HEAD"]);
        let committed: Vec<&str> = committed.lines().collect();
        assert_eq!(committed, changed, "{said}");
        // Whatever the agent left in the project is committed, and nothing of the user's is.
        assert_eq!(self.git(&["status", "--porcelain"]), " M mine.txt\nA  staged.txt\n", "{said}");
        assert!(!committed.iter().any(|name| theirs(name)));
    }
}

/// Holds a scenario with an agent that has the pipe behind it.
fn hold(claude: &[OsString], scenario: &str) -> Left {
    let left = Left { out: tempfile::tempdir().expect("a directory") };
    let quoted = |word: &OsStr| format!("'{}'", word.to_string_lossy());
    let claude: Vec<String> = claude.iter().map(|word| quoted(word)).collect();
    let script = PIPELINE
        .replace("$CLAUDE", &claude.join(" "))
        .replace("$TOWPATH", &quoted(OsStr::new(env!("CARGO_BIN_EXE_towpath"))))
        .replace("$OUT", &left.out.path().display().to_string());
    let agent = left.path("claude");
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
    left
}

fn follow(claude: &[OsString], multi_edit: bool) {
    let left = hold(claude, "changes.scenario");
    let mut files = vec!["deep/out.txt", "e.txt", "gen/made.txt", "n.ipynb", "p3.txt"];
    if multi_edit {
        files.insert(3, "m.txt");
    }
    left.is_in_order(&files);
    let changes = left.changes();
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

    let left = hold(claude, "denied.scenario");
    left.is_in_order(&[]);
    assert_eq!(left.changes(), ["Write denied.txt skipped"]);

    let left = hold(claude, "sub-agent.scenario");
    left.is_in_order(&["sub.txt"]);
    assert_eq!(left.changes(), ["Write sub.txt pushed"]);
}

#[test]
fn behind_the_built_in_agent() {
    let play = [env!("CARGO_BIN_EXE_towpath"), "play"].map(OsString::from);
    follow(&play, false);
}

#[test]
fn behind_claude_code_2_1_325() {
    behind("2.1.325", false);
}

#[test]
fn behind_claude_code_2_1_37() {
    behind("2.1.37", false);
}

#[test]
fn behind_claude_code_1_0_128_which_has_multi_edit() {
    behind("1.0.128", true);
}

fn behind(version: &str, multi_edit: bool) {
    match claude(version) {
        Ok(claude) => follow(&claude, multi_edit),
        Err(why) => {
            assert!(env::var("CI").as_deref() != Ok("true"), "could not run: {why}");
            println!("skipped: {why}");
        }
    }
}

/// A release of the CLI, from the cache that `towpath verify` keeps.
fn claude(version: &str) -> Result<Vec<OsString>, String> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(env::home_dir()?.join(".cache")));
    let cache = cache.ok_or("there is no place for a cache")?.join("towpath/claude");
    let version = version.parse().map_err(|_| format!("`{version}` is no version"))?;
    let node = OsStr::new("node");
    if let Some(command) = cached_release(&cache, version, node) {
        return Ok(command);
    }
    println!("fetching Claude Code {version} into {}", cache.display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(fetch_release(&cache, version, node)).map_err(|error| error.to_string())
}
