//! `towpath play`: reads the environment and runs the player.

use std::path::PathBuf;
use std::time::Duration;

use testbed::play::{AcpPlayerArgs, PlayerArgs, PlayerEnvironment};

use crate::exit::CommandStatus;

/// Runs the player with the arguments after `towpath play`, and exits with its exit code.
pub(crate) fn run(arguments: Vec<String>) -> CommandStatus {
    if AcpPlayerArgs::are_meant(&arguments) {
        return run_acp(&arguments);
    }
    let args = match PlayerArgs::parse(arguments) {
        Ok(args) => args,
        Err(error) => {
            anstream::eprintln!("{error}");
            return CommandStatus::Negative;
        }
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return CommandStatus::Error;
    };
    let code = runtime.block_on(testbed::play::run(args, environment()));
    // The thread that reads stdin may still be blocked, so the process does not wait for it.
    std::process::exit(i32::from(code))
}

/// Runs the player as an agent of the Agent Client Protocol.
fn run_acp(arguments: &[String]) -> CommandStatus {
    let args = match AcpPlayerArgs::parse(arguments) {
        Ok(args) => args,
        Err(error) => {
            anstream::eprintln!("error: {error}");
            return CommandStatus::Error;
        }
    };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return CommandStatus::Error;
    };
    let code = runtime.block_on(testbed::play::run_acp(args, environment()));
    std::process::exit(i32::from(code))
}

#[expect(clippy::disallowed_methods, reason = "the binary is where the environment is read")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_set(name: &str) -> bool {
    variable(name).is_some_and(|value| !matches!(value.as_str(), "0" | "false" | "no" | "off"))
}

fn environment() -> PlayerEnvironment {
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let temporary = variable("CLAUDE_CODE_TMPDIR").or(variable("TMPDIR"));
    let temporary = PathBuf::from(temporary.unwrap_or_else(|| "/tmp".to_owned()));
    let user = user_id();
    let pace = variable("TOWPATH_PLAY_PACE").and_then(|millis| millis.parse().ok());
    PlayerEnvironment {
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
        thinking_budget: variable("MAX_THINKING_TOKENS").and_then(|count| count.parse().ok()),
        teams: is_set("CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"),
        max_retries: variable("CLAUDE_CODE_MAX_RETRIES").and_then(|count| count.parse().ok()),
        state_events: is_set("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"),
        analytics_disabled: is_set("DISABLE_TELEMETRY")
            || is_set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"),
        checkpoints: is_set("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"),
        scenario: variable("TOWPATH_PLAY_SCENARIO").map(PathBuf::from),
        pace: pace.map(Duration::from_millis),
        fault: variable("TOWPATH_PLAY_FAULT"),
    }
}

/// The id of the user that owns this process.
fn user_id() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").map_or(0, |process| process.uid())
}
