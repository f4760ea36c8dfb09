//! How long an agent runs without an owner, and the steps by which it is stopped.

use std::time::{Duration, Instant};

use super::turn_tracker::AgentActivity;
use crate::config::UnattendedLimits;

/// How long the first owner may take to attach, however short the limits are.
const FIRST_ATTACH_TIMEOUT: Duration = Duration::from_secs(30);

/// How long an agent may take to exit after it was terminated.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long until processes that escaped a kill are killed again.
const KILL_RETRY: Duration = Duration::from_millis(200);

/// How long an agent runs without an owner, and since when it has none.
#[derive(Debug)]
pub(super) struct Lease {
    limits: UnattendedLimits,
    /// When the owner disconnected; none while there is one.
    unowned_since: Option<Instant>,
    /// Whether there ever was an owner.
    was_owned: bool,
    activity: AgentActivity,
    /// Since when the agent has this activity.
    active_since: Instant,
}

impl Lease {
    /// A lease that starts now, before an owner has attached.
    pub(super) fn new(limits: UnattendedLimits, now: Instant) -> Self {
        Self {
            limits,
            unowned_since: Some(now),
            was_owned: false,
            activity: AgentActivity::Idle,
            active_since: now,
        }
    }

    pub(super) fn owner_attached(&mut self) {
        self.unowned_since = None;
        self.was_owned = true;
    }

    pub(super) fn owner_detached(&mut self, now: Instant) {
        self.unowned_since.get_or_insert(now);
    }

    /// Records the current activity of the agent.
    pub(super) fn observe(&mut self, activity: AgentActivity, now: Instant) {
        if activity != self.activity {
            self.activity = activity;
            self.active_since = now;
        }
    }

    /// When the agent must be stopped, if nothing changes.
    pub(super) fn end(&self) -> Option<Instant> {
        let since = self.unowned_since?.max(self.active_since);
        let sooner = match self.activity {
            AgentActivity::Idle if self.was_owned => since.checked_add(self.limits.idle),
            AgentActivity::Idle => since.checked_add(self.limits.idle.max(FIRST_ATTACH_TIMEOUT)),
            AgentActivity::Waiting => since.checked_add(self.limits.waiting),
            AgentActivity::Turn => None,
        };
        self.total_end().into_iter().chain(sooner).min()
    }

    /// When the agent must be stopped whatever it does; never if that is too far in the future.
    pub(super) fn total_end(&self) -> Option<Instant> {
        self.unowned_since?.checked_add(self.limits.total)
    }
}

/// The steps by which an agent is stopped: close stdin, terminate, kill.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Shutdown {
    #[default]
    NotStarted,
    /// Stdin is closed, and the agent may finish until this time.
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
pub(super) enum ShutdownStep {
    /// Send `SIGTERM` to all processes.
    Terminate,
    /// Send `SIGKILL` to all processes.
    Kill,
}

impl Shutdown {
    pub(super) fn has_started(&self) -> bool {
        !matches!(self, Self::NotStarted)
    }

    /// Starts the shutdown, or shortens the timeout of one that has started. The caller closes
    /// stdin.
    pub(super) fn start(&mut self, now: Instant, timeout: Duration) {
        // A timeout that is too far in the future is none.
        let until = now.checked_add(timeout);
        *self = match *self {
            Self::NotStarted => Self::Finishing { until },
            Self::Finishing { until: before } => {
                Self::Finishing { until: before.into_iter().chain(until).min() }
            }
            later @ (Self::Terminated { .. } | Self::Killed { .. }) => later,
        };
    }

    /// When the next step is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match *self {
            Self::NotStarted => None,
            Self::Finishing { until } => until,
            Self::Terminated { until } => Some(until),
            Self::Killed { again } => Some(again),
        }
    }

    /// The next step, if it is due.
    pub(super) fn next_step(&mut self, now: Instant) -> Option<ShutdownStep> {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return None;
        }
        match self {
            Self::NotStarted => None,
            Self::Finishing { .. } => {
                *self = Self::Terminated { until: now + TERMINATE_TIMEOUT };
                Some(ShutdownStep::Terminate)
            }
            Self::Terminated { .. } | Self::Killed { .. } => {
                *self = Self::Killed { again: now + KILL_RETRY };
                Some(ShutdownStep::Kill)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{
        AgentActivity, KILL_RETRY, Lease, Shutdown, ShutdownStep, TERMINATE_TIMEOUT,
        UnattendedLimits,
    };

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn lease(now: Instant) -> Lease {
        let limits = UnattendedLimits { idle: secs(10), waiting: secs(100), total: secs(1000) };
        Lease::new(limits, now)
    }

    #[test]
    fn an_owned_agent_has_no_limit() {
        let start = Instant::now();
        let mut lease = lease(start);
        assert_eq!(lease.end(), Some(start + secs(30)), "no owner has attached yet");
        lease.owner_attached();
        assert_eq!(lease.end(), None);
    }

    #[test]
    fn a_turn_finishes_and_the_idle_limit_counts_from_its_end() {
        let start = Instant::now();
        let mut lease = lease(start);
        lease.owner_attached();
        lease.observe(AgentActivity::Turn, start + secs(1));
        lease.owner_detached(start + secs(2));
        assert_eq!(lease.end(), Some(start + secs(1002)), "but not for ever");
        lease.observe(AgentActivity::Idle, start + secs(50));
        lease.observe(AgentActivity::Idle, start + secs(55));
        assert_eq!(lease.end(), Some(start + secs(60)));
    }

    #[test]
    fn an_agent_that_waits_for_a_person_runs_longer_from_when_the_owner_left() {
        let start = Instant::now();
        let mut lease = lease(start);
        lease.owner_attached();
        lease.observe(AgentActivity::Waiting, start + secs(1));
        lease.owner_detached(start + secs(20));
        assert_eq!(lease.end(), Some(start + secs(120)));
        lease.observe(AgentActivity::Turn, start + secs(30));
        assert_eq!(lease.end(), Some(start + secs(1020)));
    }

    #[test]
    fn a_limit_that_is_too_far_away_is_none() {
        let start = Instant::now();
        let max = Duration::MAX;
        let limits = UnattendedLimits { idle: max, waiting: max, total: max };
        let mut lease = Lease::new(limits, start);
        assert_eq!(lease.end(), None);
        lease.was_owned = true;
        lease.limits.idle = secs(1);
        assert_eq!(lease.end(), Some(start + secs(1)));
    }

    #[test]
    fn a_shutdown_goes_step_by_step_and_kills_until_all_are_gone() {
        let start = Instant::now();
        let mut shutdown = Shutdown::default();
        assert_eq!(shutdown.deadline(), None);
        shutdown.start(start, secs(5));
        assert_eq!(shutdown.next_step(start), None);
        let terminated = start + secs(5);
        assert_eq!(shutdown.next_step(terminated), Some(ShutdownStep::Terminate));
        assert_eq!(shutdown.next_step(terminated), None);
        let killed = terminated + TERMINATE_TIMEOUT;
        assert_eq!(shutdown.next_step(killed), Some(ShutdownStep::Kill));
        assert_eq!(shutdown.next_step(killed), None);
        assert_eq!(shutdown.next_step(killed + KILL_RETRY), Some(ShutdownStep::Kill));
    }

    #[test]
    fn a_shutdown_can_be_shortened_and_not_extended() {
        let start = Instant::now();
        let mut shutdown = Shutdown::default();
        shutdown.start(start, Duration::MAX);
        assert!(shutdown.has_started());
        assert_eq!(shutdown.deadline(), None);
        shutdown.start(start, secs(5));
        shutdown.start(start, secs(50));
        assert_eq!(shutdown.deadline(), Some(start + secs(5)));
        shutdown.start(start, Duration::ZERO);
        assert_eq!(shutdown.next_step(start), Some(ShutdownStep::Terminate));
    }
}
