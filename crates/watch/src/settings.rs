//! The settings of a watch.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::git::CommitSettings;
use crate::hooks::HookSettings;
use crate::observer::ObserverOptions;
use crate::project::Selection;
use crate::target::Target;

/// What to watch, and what to do with changed files.
#[derive(Debug)]
pub struct WatchSettings {
    /// The directory to watch; by default the agent's working directory.
    pub project: Option<PathBuf>,
    /// The directory to watch if the agent does not report its own.
    pub current_directory: PathBuf,
    /// Which files of the project.
    pub selection: Selection,
    /// Whether events may be spread over several lines.
    pub rejoin: bool,
    /// Whether to scan for files that shell commands changed.
    pub scan: bool,
    /// The time from which changes of shell commands have not been scanned for yet.
    pub scan_since: Option<SystemTime>,
    /// Where changed files are copied to.
    pub targets: Vec<Target>,
    /// When they are copied.
    pub trigger: ActionTrigger,
    pub retry: RetryPolicy,
    /// Whether and how changes are committed.
    pub commit: Option<CommitSettings>,
    pub hooks: HookSettings,
}

/// When changes are acted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActionTrigger {
    /// After each change.
    #[default]
    Change,
    /// At the end of a turn, all together.
    Turn,
}

/// How often and how long the delivery of a file is tried.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    pub attempts: u32,
    /// The time limit of one attempt.
    pub timeout: Duration,
    /// The delay after the first attempt. It doubles after each further one.
    pub delay: Duration,
    pub max_delay: Duration,
    /// The time limit for all remaining work once the stream has ended.
    pub grace: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 5,
            timeout: Duration::from_mins(1),
            delay: Duration::from_millis(250),
            max_delay: Duration::from_secs(10),
            grace: Duration::from_mins(2),
        }
    }
}

impl RetryPolicy {
    /// The delay after an attempt. Attempts are counted from 1.
    pub(crate) fn delay_after(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
        self.delay.saturating_mul(factor).min(self.max_delay)
    }
}

impl WatchSettings {
    /// Whether some actions run only at the end of a turn.
    pub fn acts_per_turn(&self) -> bool {
        let commit = self.commit.as_ref().map(|commit| commit.trigger);
        self.trigger == ActionTrigger::Turn || commit == Some(ActionTrigger::Turn)
    }

    /// What the observer must report for these settings.
    pub fn observer_options(&self) -> ObserverOptions {
        ObserverOptions {
            bodies: self.hooks.any_for_tools(),
            texts: self.commit.is_some(),
            shell: self.scan,
        }
    }
}
