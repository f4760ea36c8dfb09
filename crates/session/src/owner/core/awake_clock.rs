//! Time in which this process really ran.

use crate::machine::ClockReading;

/// A tick that comes later than this was not late by chance: this process did not run.
const LATE: u64 = 2_000;

/// How much time is left until the deadline when this process runs again, so that what the agent
/// did in the meantime is read first.
const GRACE: u64 = 500;

/// The monotonic clock without the time in which this process was stopped.
///
/// An agent that has to answer within a minute may have done so while Towpath was stopped or its
/// virtual machine was paused. It must not be killed before its answer is read.
#[derive(Debug, Default)]
pub(super) struct AwakeClock {
    /// How much of the monotonic time does not count.
    stopped: u64,
    last: u64,
    /// The deadline that was put off last. None is put off twice, or a machine that is always late
    /// would never reach it.
    put_off: Option<u64>,
}

impl AwakeClock {
    /// The time that counts, given the deadline at which a tick was due.
    pub(super) fn read(&mut self, now: ClockReading, deadline: Option<u64>) -> ClockReading {
        let mut awake = now.monotonic.saturating_sub(self.stopped);
        if let Some(deadline) = deadline
            && awake > deadline.saturating_add(LATE)
            && self.put_off != Some(deadline)
        {
            let resumed = deadline.saturating_sub(GRACE).max(self.last);
            self.stopped += awake - resumed;
            self.put_off = Some(deadline);
            awake = resumed;
        }
        self.last = self.last.max(awake);
        ClockReading { wall: now.wall, monotonic: self.last }
    }

    /// How long it is until a deadline.
    pub(super) fn until(&self, deadline: u64, now: ClockReading) -> u64 {
        deadline.saturating_sub(now.monotonic.saturating_sub(self.stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::AwakeClock;
    use crate::machine::ClockReading;

    fn at(monotonic: u64) -> ClockReading {
        ClockReading { wall: 0, monotonic }
    }

    #[test]
    fn time_in_which_towpath_was_stopped_does_not_count() {
        let mut clock = AwakeClock::default();
        assert_eq!(clock.read(at(1_000), Some(60_000)).monotonic, 1_000);
        assert_eq!(clock.read(at(4_000_000), Some(60_000)).monotonic, 59_500);
        assert_eq!(clock.until(60_000, at(4_000_100)), 400);
        assert_eq!(clock.read(at(4_000_500), Some(60_000)).monotonic, 60_000);
    }

    #[test]
    fn a_deadline_is_put_off_once() {
        let mut clock = AwakeClock::default();
        assert_eq!(clock.read(at(10_000), Some(1_000)).monotonic, 500);
        assert_eq!(clock.read(at(20_000), Some(1_000)).monotonic, 10_500);
    }

    #[test]
    fn the_time_never_goes_back() {
        let mut clock = AwakeClock::default();
        assert_eq!(clock.read(at(9_000), None).monotonic, 9_000);
        assert_eq!(clock.read(at(3_000), None).monotonic, 9_000);
        assert_eq!(clock.read(at(30_000), Some(9_100)).monotonic, 9_000);
    }
}
