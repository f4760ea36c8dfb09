//! Ending an agent: first its stdin is closed, then it is terminated, then everything is killed.

use std::time::{Duration, Instant};

/// How long an agent may take after it was terminated.
const AFTER_TERM: Duration = Duration::from_secs(3);

/// How long until whoever escaped a kill is killed again.
const AFTER_KILL: Duration = Duration::from_millis(200);

/// How far the end of an agent has come.
#[derive(Debug, Default)]
pub(super) struct Ending {
    stage: Stage,
}

#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    NotBegun,
    Finishing {
        until: Option<Instant>,
    },
    Terminated {
        until: Instant,
    },
    Killed {
        again: Instant,
    },
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send everybody `SIGTERM`.
    Terminate,
    /// Send everybody `SIGKILL`.
    Kill,
}

impl Ending {
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.stage, Stage::NotBegun)
    }

    /// Begins, or makes haste if it has begun with more patience. The caller closes stdin.
    pub(super) fn begin(&mut self, now: Instant, patience: Duration) {
        // Patience beyond all time is patience without an end.
        let until = now.checked_add(patience);
        self.stage = match self.stage {
            Stage::NotBegun => Stage::Finishing { until },
            Stage::Finishing { until: before } => {
                Stage::Finishing { until: before.into_iter().chain(until).min() }
            }
            later @ (Stage::Terminated { .. } | Stage::Killed { .. }) => later,
        };
    }

    /// When something is to be done.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.stage {
            Stage::NotBegun => None,
            Stage::Finishing { until } => until,
            Stage::Terminated { until } => Some(until),
            Stage::Killed { again } => Some(again),
        }
    }

    /// What is to be done, if its time has come.
    pub(super) fn step(&mut self, now: Instant) -> Option<Step> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        match self.stage {
            Stage::NotBegun => None,
            Stage::Finishing { .. } => {
                self.stage = Stage::Terminated { until: now + AFTER_TERM };
                Some(Step::Terminate)
            }
            Stage::Terminated { .. } | Stage::Killed { .. } => {
                self.stage = Stage::Killed { again: now + AFTER_KILL };
                Some(Step::Kill)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{AFTER_KILL, AFTER_TERM, Ending, Step};

    #[test]
    fn it_ends_in_steps_and_kills_until_it_is_over() {
        let start = Instant::now();
        let patience = Duration::from_secs(5);
        let mut ending = Ending::default();
        assert_eq!(ending.due(), None);
        ending.begin(start, patience);
        assert_eq!(ending.step(start), None);
        let terminated = start + patience;
        assert_eq!(ending.step(terminated), Some(Step::Terminate));
        assert_eq!(ending.step(terminated), None);
        let killed = terminated + AFTER_TERM;
        assert_eq!(ending.step(killed), Some(Step::Kill));
        assert_eq!(ending.step(killed), None);
        assert_eq!(ending.step(killed + AFTER_KILL), Some(Step::Kill));
    }

    #[test]
    fn it_can_be_hastened_and_not_delayed() {
        let start = Instant::now();
        let mut ending = Ending::default();
        ending.begin(start, Duration::MAX);
        assert!(ending.has_begun());
        assert_eq!(ending.due(), None);
        ending.begin(start, Duration::from_secs(5));
        ending.begin(start, Duration::from_secs(50));
        assert_eq!(ending.due(), Some(start + Duration::from_secs(5)));
        ending.begin(start, Duration::ZERO);
        assert_eq!(ending.step(start), Some(Step::Terminate));
    }
}
