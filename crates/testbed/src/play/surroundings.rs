//! What the player is told about the machine it runs on.
//!
//! The binary reads the environment; everything here arrives as an argument, so that two players
//! with different environments can run in one test.

use std::path::PathBuf;
use std::time::Duration;

/// The environment of one player.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a variable of its own")]
pub struct Surroundings {
    /// The working directory.
    pub cwd: PathBuf,
    /// The home directory, below which sessions are kept.
    pub home: PathBuf,
    /// Where temporary files go.
    pub temporary: PathBuf,
    /// The process id, which `initialize` tells.
    pub pid: u32,
    /// Whether it runs as root.
    pub root: bool,
    /// `IS_SANDBOX`
    pub sandbox: bool,
    /// `ANTHROPIC_BASE_URL`
    pub base_url: Option<String>,
    /// `ANTHROPIC_API_KEY`
    pub api_key: Option<String>,
    /// `ANTHROPIC_AUTH_TOKEN`
    pub auth_token: Option<String>,
    /// `ANTHROPIC_MODEL`
    pub model: Option<String>,
    /// `CLAUDE_CODE_EFFORT_LEVEL`
    pub effort: Option<String>,
    /// `CLAUDE_CODE_MAX_RETRIES`
    pub max_retries: Option<u32>,
    /// `CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS`
    pub state_events: bool,
    /// `CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING`
    pub checkpoints: bool,
    /// `TOWPATH_PLAY_SCENARIO`
    pub scenario: Option<PathBuf>,
    /// `TOWPATH_PLAY_TOOLS`: `all` brings back the tools that 2.1.325 no longer has.
    pub all_tools: bool,
    /// `TOWPATH_PLAY_PACE`: time between the deltas of the demonstration.
    pub pace: Option<Duration>,
    /// `TOWPATH_PLAY_FAULT`
    pub fault: Option<String>,
}
