//! `towpath play`: the environment in, an exit code out.

use std::path::PathBuf;
use std::time::Duration;

use testbed::play::{Arguments, Surroundings};

use crate::verdict::Verdict;

/// Plays the CLI with the arguments behind `towpath play`, and ends the process with its code.
pub(crate) fn run(arguments: Vec<String>) -> Verdict {
    let arguments = match Arguments::read(arguments) {
        Ok(arguments) => arguments,
        Err(refusal) => {
            anstream::eprintln!("{refusal}");
            return Verdict::No;
        }
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Verdict::CouldNotTry;
    };
    let code = runtime.block_on(testbed::play::run(arguments, surroundings()));
    // A thread may still wait for stdin; nothing it could say matters any more.
    std::process::exit(i32::from(code))
}

#[expect(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_set(name: &str) -> bool {
    variable(name).is_some_and(|value| !matches!(value.as_str(), "0" | "false" | "no" | "off"))
}

fn surroundings() -> Surroundings {
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let temporary = variable("CLAUDE_CODE_TMPDIR").or(variable("TMPDIR"));
    let temporary = PathBuf::from(temporary.unwrap_or_else(|| "/tmp".to_owned()));
    let user = user();
    let pace = variable("TOWPATH_PLAY_PACE").and_then(|millis| millis.parse().ok());
    Surroundings {
        cwd,
        home: variable("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from),
        temporary: temporary.join(format!("claude-{user}")),
        pid: std::process::id(),
        root: user == 0,
        sandbox: is_set("IS_SANDBOX"),
        base_url: variable("ANTHROPIC_BASE_URL"),
        api_key: variable("ANTHROPIC_API_KEY"),
        auth_token: variable("ANTHROPIC_AUTH_TOKEN"),
        model: variable("ANTHROPIC_MODEL"),
        effort: variable("CLAUDE_CODE_EFFORT_LEVEL"),
        max_retries: variable("CLAUDE_CODE_MAX_RETRIES").and_then(|most| most.parse().ok()),
        state_events: is_set("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"),
        checkpoints: is_set("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"),
        scenario: variable("TOWPATH_PLAY_SCENARIO").map(PathBuf::from),
        all_tools: variable("TOWPATH_PLAY_TOOLS").is_some_and(|tools| tools == "all"),
        pace: pace.map(Duration::from_millis),
        fault: variable("TOWPATH_PLAY_FAULT"),
    }
}

/// The user's number, by whom this process belongs to.
fn user() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").map_or(0, |process| process.uid())
}
