//! Whether a connected shim still answers.
//!
//! A process that is stopped keeps its connections open, so that only a question shows it. The
//! shim is asked when it is told something, and from time to time while a turn runs in silence.
//! While the session is idle, it is left alone.

use crate::shim::ShimCommand;

/// How long a shim may take to answer until that is reported.
pub(super) const PATIENCE: u64 = 3_000;

/// How long a shim may send nothing during a turn until it is asked.
const SILENCE: u64 = 30_000;

/// What is known of a connected shim.
#[derive(Debug)]
pub(super) struct Liveness {
    /// Whether the shim answers pings; earlier versions do not.
    pings: bool,
    /// The number of the last ping.
    last: u64,
    /// When that was sent, if it is not answered.
    asked: Option<u64>,
    /// When the shim sent something last.
    heard: u64,
    /// Whether it was reported that the shim does not answer.
    silent: bool,
}

/// What is to be done about a shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LivenessStep {
    Ask(ShimCommand),
    /// Report that it does not answer.
    Report,
}

impl Liveness {
    pub(super) fn new(pings: bool, now: u64) -> Self {
        Self { pings, last: 0, asked: None, heard: now, silent: false }
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent
    }

    /// The shim sent something. What it sent before the last ping may still be on its way.
    pub(super) fn heard(&mut self, now: u64) {
        self.heard = now;
        self.silent = false;
    }

    pub(super) fn answered(&mut self, number: u64) {
        if number == self.last {
            self.asked = None;
        }
    }

    /// A ping, unless one is not answered yet.
    pub(super) fn ask(&mut self, now: u64) -> Option<ShimCommand> {
        if !self.pings || self.asked.is_some() {
            return None;
        }
        self.last += 1;
        self.asked = Some(now);
        Some(ShimCommand::Ping(self.last))
    }

    /// When the next step is due.
    pub(super) fn deadline(&self, turn_runs: bool) -> Option<u64> {
        match self.asked {
            Some(_) if self.silent => None,
            Some(asked) => Some(asked.max(self.heard) + PATIENCE),
            None => (self.pings && turn_runs).then_some(self.heard + SILENCE),
        }
    }

    /// The next step, if it is due.
    pub(super) fn next_step(&mut self, now: u64, turn_runs: bool) -> Option<LivenessStep> {
        if self.deadline(turn_runs).is_none_or(|deadline| now < deadline) {
            return None;
        }
        if let Some(ping) = self.ask(now) {
            return Some(LivenessStep::Ask(ping));
        }
        self.silent = true;
        Some(LivenessStep::Report)
    }
}

#[cfg(test)]
mod tests {
    use super::{Liveness, LivenessStep, PATIENCE, SILENCE, ShimCommand};

    #[test]
    fn a_shim_that_does_not_answer_is_reported_once() {
        let mut liveness = Liveness::new(true, 0);
        assert_eq!(liveness.ask(10), Some(ShimCommand::Ping(1)));
        assert_eq!(liveness.ask(11), None, "one at a time");
        assert_eq!(liveness.next_step(10 + PATIENCE - 1, false), None);
        assert_eq!(liveness.next_step(10 + PATIENCE, false), Some(LivenessStep::Report));
        assert!(liveness.is_silent());
        assert_eq!(liveness.deadline(true), None);
        liveness.heard(20_000);
        assert!(!liveness.is_silent());
        liveness.answered(1);
        assert_eq!(liveness.deadline(false), None, "an idle shim is left alone");
    }

    #[test]
    fn output_that_comes_before_the_answer_gives_more_time() {
        let mut liveness = Liveness::new(true, 0);
        liveness.ask(0);
        for second in 1..100 {
            liveness.heard(second * 1000);
            assert_eq!(liveness.next_step(second * 1000 + 900, true), None);
        }
        assert_eq!(liveness.next_step(99_000 + PATIENCE, true), Some(LivenessStep::Report));
    }

    #[test]
    fn a_silent_turn_leads_to_a_question() {
        let mut liveness = Liveness::new(true, 5);
        assert_eq!(liveness.deadline(true), Some(5 + SILENCE));
        let ask = LivenessStep::Ask(ShimCommand::Ping(1));
        assert_eq!(liveness.next_step(5 + SILENCE, true), Some(ask));
        liveness.answered(1);
        liveness.heard(40_000);
        assert_eq!(liveness.deadline(true), Some(40_000 + SILENCE));
        let mut earlier = Liveness::new(false, 5);
        assert_eq!((earlier.ask(6), earlier.deadline(true)), (None, None), "it would not answer");
    }
}
