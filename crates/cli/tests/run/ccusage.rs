//! `towpath inspect` and `ccusage` count the same tokens in the same session files.
//!
//! `ccusage` is installed under `target/` on first use. Without node or a way to install it the test
//! reports that it was skipped; if `CI` is `true` that is a failure.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use test_support::packages::{self, OptionalPackages};

const CCUSAGE: &str = "ccusage@20.0.24";

/// Input, output, cache reads and cache writes.
type TokenSums = [u64; 4];

#[test]
fn the_tokens_of_every_captured_session_file_are_those_that_ccusage_counts() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ccusage");
    let installed = packages::npm(&directory, &[CCUSAGE], OptionalPackages::Install);
    if packages::or_skip(installed).is_none() {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let mut ours = BTreeMap::new();
    for (number, transcript) in transcripts().iter().enumerate() {
        // ccusage expects one directory per project, and takes file names for session ids.
        let name = format!("00000000-0000-4000-8000-{number:012}");
        let project = home.path().join("projects").join(&name);
        fs::create_dir_all(&project).expect("a directory");
        fs::copy(transcript, project.join(format!("{name}.jsonl"))).expect("a copy");
        let counted = count_with_inspect(transcript);
        // ccusage leaves out sessions without usage.
        if counted != [0; 4] {
            ours.insert(name, counted);
        }
    }
    assert!(ours.len() > 20, "the captures are there");
    let theirs = count_with_ccusage(&directory, home.path());
    assert_eq!(ours, theirs);
}

fn transcripts() -> Vec<PathBuf> {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let versions = fs::read_dir(captures).expect("captures").flatten();
    let directories = versions.filter_map(|it| fs::read_dir(it.path().join("transcript")).ok());
    let mut files: Vec<_> = directories.flatten().flatten().map(|it| it.path()).collect();
    files.sort();
    files
}

fn count_with_inspect(transcript: &Path) -> TokenSums {
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_towpath"));
    let output = inspect.args(["inspect", "--json"]).arg(transcript).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let mut sum = [0; 4];
    for session in report["sessions"].as_array().expect("sessions") {
        let fields = ["input", "output", "cache_read", "cache_write"];
        let tokens = fields.map(|field| session["tokens"][field].as_u64().unwrap_or(0));
        sum.iter_mut().zip(tokens).for_each(|(sum, tokens)| *sum += tokens);
    }
    sum
}

fn count_with_ccusage(directory: &Path, home: &Path) -> BTreeMap<String, TokenSums> {
    let mut ccusage = Command::new(directory.join("node_modules/.bin/ccusage"));
    ccusage.args(["session", "--json", "--offline"]).env("CLAUDE_CONFIG_DIR", home);
    let output = ccusage.env("HOME", home).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let sessions = report["session"].as_array().expect("sessions");
    let tokens = |session: &Value| {
        let fields = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheCreationTokens"];
        fields.map(|field| session[field].as_u64().unwrap_or(0))
    };
    sessions
        .iter()
        .map(|session| (session["period"].as_str().unwrap_or_default().to_owned(), tokens(session)))
        .collect()
}
