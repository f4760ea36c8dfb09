//! Time in which this process really ran and could take in what happened.

use crate::machine::ClockReading;

/// A tick that comes later than this was not late by chance: this process did not run.
const LATE: u64 = 2_000;

/// How much time is left until the deadline when this process runs again, so that what the agent
/// did in the meantime is read first.
const GRACE: u64 = 500;

/// How often the same deadline is put off. A machine that is always late must reach it some time.
const MAX_POSTPONEMENTS: u32 = 4;

/// The monotonic clock without the time in which nothing could be taken in, because this process
/// was stopped or waited for the journal.
///
/// An agent that has to answer within a minute may have done so while Towpath was stopped, its
/// virtual machine was paused or the disk was full. It must not be killed before its answer is read.
#[derive(Debug, Default)]
pub(super) struct AwakeClock {
    /// How much of the monotonic time does not count.
    stopped: u64,
    last: u64,
    /// The deadline that was put off last, and how often.
    put_off: (u64, u32),
    /// Whether nothing could be taken in since the clock was read.
    blocked: bool,
}

impl AwakeClock {
    /// Nothing can be taken in from now on until the clock is read.
    pub(super) fn block(&mut self) {
        self.blocked = true;
    }

    /// The time that counts, given the deadline at which a tick was due.
    pub(super) fn read(&mut self, now: ClockReading, deadline: Option<u64>) -> ClockReading {
        let mut awake = now.monotonic.saturating_sub(self.stopped);
        let blocked = std::mem::take(&mut self.blocked);
        if let Some(deadline) = deadline
            && (blocked && awake >= deadline || awake > deadline.saturating_add(LATE))
        {
            // Later deadlines are as far away from this one as they were.
            let resumed = deadline.saturating_sub(self.put_off(deadline)).max(self.last);
            self.stopped += awake.saturating_sub(resumed);
            awake = resumed;
        }
        self.last = self.last.max(awake);
        ClockReading { wall: now.wall, monotonic: self.last }
    }

    /// How much time there is again until a deadline that has passed.
    fn put_off(&mut self, deadline: u64) -> u64 {
        let times = if self.put_off.0 == deadline { self.put_off.1 } else { 0 };
        self.put_off = (deadline, times + 1);
        if times < MAX_POSTPONEMENTS { GRACE } else { 0 }
    }

    /// How long it is until a deadline.
    pub(super) fn until(&self, deadline: u64, now: ClockReading) -> u64 {
        deadline.saturating_sub(now.monotonic.saturating_sub(self.stopped))
    }
}

#[cfg(test)]
mod tests {
    use super::{AwakeClock, MAX_POSTPONEMENTS};
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
    fn a_deadline_is_put_off_a_few_times_and_then_passes_alone() {
        let mut clock = AwakeClock::default();
        for stop in 1..=u64::from(MAX_POSTPONEMENTS) {
            assert_eq!(clock.read(at(stop * 10_000), Some(1_000)).monotonic, 500);
        }
        assert_eq!(clock.read(at(900_000), Some(1_000)).monotonic, 1_000);
        assert_eq!(clock.until(1_001, at(900_000)), 1, "the next deadline is as far as before");
    }

    #[test]
    fn a_deadline_that_passed_while_nothing_could_be_taken_in_is_put_off_at_once() {
        let mut clock = AwakeClock::default();
        clock.block();
        assert_eq!(clock.read(at(1_001), Some(1_000)).monotonic, 500);
        assert_eq!(clock.read(at(1_501), Some(1_000)).monotonic, 1_000);
        clock.block();
        assert_eq!(clock.read(at(1_601), Some(2_000)).monotonic, 1_100);
        // A full disk is tried again after whole seconds, as deadlines are set.
        clock.block();
        assert_eq!(clock.read(at(2_501), Some(2_000)).monotonic, 1_500);
    }

    #[test]
    fn the_time_never_goes_back() {
        let mut clock = AwakeClock::default();
        assert_eq!(clock.read(at(9_000), None).monotonic, 9_000);
        clock.block();
        assert_eq!(clock.read(at(3_000), None).monotonic, 9_000);
        assert_eq!(clock.read(at(30_000), Some(9_100)).monotonic, 9_000);
    }
}
