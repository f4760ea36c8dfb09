//! What is to be done with changes.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::git::CommitSettings;
use crate::hooks::HookSettings;
use crate::observer::ObserverOptions;
use crate::selection::Selection;
use crate::target::Target;

/// All of it.
#[derive(Debug)]
pub struct WatchSettings {
    /// The directory to watch, if not the one the agent says it works in.
    pub project: Option<PathBuf>,
    /// The directory to watch where the agent does not say.
    pub current_directory: PathBuf,
    /// Which files of it.
    pub selection: Selection,
    /// Whether events may be spread over several lines.
    pub rejoin: bool,
    /// Whether to look for what commands of the shell changed.
    pub scan: bool,
    /// Since when the shell may have changed something that nobody has looked for yet.
    pub since: Option<SystemTime>,
    /// Where changed files go.
    pub targets: Vec<Target>,
    /// When they go.
    pub every: ActionTrigger,
    /// How hard is tried.
    pub retry: RetryPolicy,
    /// Whether and how changes are committed.
    pub commit: Option<CommitSettings>,
    /// Programs to tell of changes.
    pub hooks: HookSettings,
}

/// How many changes go together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActionTrigger {
    /// Each by itself.
    #[default]
    Change,
    /// Those of a turn, when it is over.
    Turn,
}

/// How hard is tried to bring a file to a target.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// How often.
    pub attempts: u32,
    /// How long one attempt may take.
    pub limit: Duration,
    /// How long is waited after the first attempt; after each further one, twice as long.
    pub pause: Duration,
    /// How long is waited at most.
    pub longest_pause: Duration,
    /// How long everything may take once the stream is over.
    pub at_end: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            limit: Duration::from_mins(1),
            pause: Duration::from_millis(250),
            longest_pause: Duration::from_secs(10),
            at_end: Duration::from_mins(2),
        }
    }
}

impl RetryPolicy {
    /// How long to wait after the attempt of this number, counted from 1.
    pub(crate) fn pause_after(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        self.pause.saturating_mul(factor).min(self.longest_pause)
    }
}

impl WatchSettings {
    /// Whether something is done with files at the end of a turn only.
    pub fn waits_for_turn(&self) -> bool {
        let commits = self.commit.as_ref().map(|commit| commit.every);
        self.every == ActionTrigger::Turn || commits == Some(ActionTrigger::Turn)
    }

    /// What must be known of the stream to do all this.
    pub fn wants(&self) -> ObserverOptions {
        ObserverOptions {
            bodies: self.hooks.any_for_tools(),
            words: self.commit.is_some(),
            shell: self.scan,
        }
    }
}
