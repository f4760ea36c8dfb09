//! The scenarios of the Agent Client Protocol, with released agents and `towpath verify`.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use test_support::other_agents::OtherAgent;
use test_support::packages;

/// The release of Node.js in the cache of `towpath verify`.
const NODE: &str = "node@22.23.3";

/// Runs all scenarios with an agent, unless it cannot be installed.
fn verify(agent: OtherAgent) {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if packages::or_skip(agent.install(shared)).is_none() {
        return;
    }
    let version = agent.package().rsplit('@').next().expect("a version");
    let name = format!("{}@{version}", agent.name());
    let directory = tempfile::tempdir().expect("a directory");
    // What tests have installed is as `towpath verify` would install it.
    let cache = directory.path().join("towpath/agents");
    std::fs::create_dir_all(&cache).expect("a directory");
    symlink(shared.join("acp/node-release"), cache.join(NODE)).expect("a link");
    symlink(shared.join("agents").join(agent.name()), cache.join(&name)).expect("a link");
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/acp");
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.args(["verify", "--again", "--timeout", "300", "--agent", &name]).arg(scenarios);
    command.env("XDG_CACHE_HOME", directory.path()).stdin(Stdio::null());
    let output = command.output().expect("the program starts");
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|it| String::from_utf8(it).expect("text"));
    println!("{}", stdout.trim().lines().last().unwrap_or_default());
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert!(!stderr.contains("fetching"), "{stderr}");
}

#[test]
fn claude_agent_acp_passes_the_scenarios() {
    verify(OtherAgent::Claude);
}

#[test]
fn codex_passes_the_scenarios() {
    verify(OtherAgent::Codex);
}

#[test]
fn opencode_passes_the_scenarios() {
    verify(OtherAgent::Opencode);
}

#[test]
fn gemini_passes_the_scenarios() {
    verify(OtherAgent::Gemini);
}

#[test]
fn copilot_passes_the_scenarios() {
    verify(OtherAgent::Copilot);
}
