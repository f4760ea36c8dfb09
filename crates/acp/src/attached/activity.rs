//! What a session is doing, as version 2 of the protocol reports it. Pure.

use wire::acp::{SessionActivity, StopReason, TokenUsage};
use wire::note::Note;

/// Follows the turns of a session.
#[derive(Debug, Default)]
pub(crate) struct ActivityTracker {
    turn: Option<u64>,
    /// Starts and ends of turns that were not reported yet.
    steps: Vec<TurnStep>,
    waits: bool,
    /// Whether changes are reported.
    is_started: bool,
}

#[derive(Clone, Copy, Debug)]
enum TurnStep {
    Started(u64),
    Ended(u64),
}

impl ActivityTracker {
    /// The running turn.
    pub(crate) fn turn(&self) -> Option<u64> {
        self.turn
    }

    pub(crate) fn observe(&mut self, note: &Note) {
        match note {
            Note::TurnStarted { turn, .. } => {
                self.turn = Some(*turn);
                self.steps.push(TurnStep::Started(*turn));
            }
            Note::TurnEnded { turn, .. } => {
                self.turn = None;
                self.steps.push(TurnStep::Ended(*turn));
            }
            _ => {}
        }
        if !self.is_started {
            self.steps.clear();
        }
    }

    /// The past is over: the present state is reported, and then every change.
    pub(crate) fn start(&mut self) {
        self.is_started = true;
        self.steps = match self.turn {
            Some(turn) => vec![TurnStep::Started(turn)],
            None => Vec::new(),
        };
    }

    /// The changes to report. `waits` is whether the agent waits for a person.
    pub(crate) fn take(
        &mut self,
        waits: bool,
        stop: impl Fn(u64) -> (Option<StopReason>, Option<TokenUsage>),
        hears_of: impl Fn(u64) -> bool,
    ) -> Vec<SessionActivity> {
        let mut changes = Vec::new();
        for step in std::mem::take(&mut self.steps) {
            match step {
                TurnStep::Started(turn) if hears_of(turn) => changes.push(SessionActivity::Running),
                TurnStep::Ended(turn) if hears_of(turn) => {
                    let (stop, usage) = stop(turn);
                    changes.push(SessionActivity::Idle { stop, usage });
                }
                TurnStep::Started(_) | TurnStep::Ended(_) => {}
            }
            self.waits = false;
        }
        if let Some(turn) = self.turn
            && hears_of(turn)
            && self.waits != waits
        {
            self.waits = waits;
            changes.push(if waits {
                SessionActivity::RequiresAction
            } else {
                SessionActivity::Running
            });
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::ActivityTracker;
    use wire::acp::{SessionActivity, StopReason};
    use wire::note::{Note, TurnEnding};

    #[test]
    fn every_turn_is_reported_with_its_pauses_and_its_end() {
        let mut tracker = ActivityTracker::default();
        let started = |turn| Note::TurnStarted { turn, prompts: Vec::new() };
        let ended = |turn| Note::TurnEnded { turn, ending: TurnEnding::Completed };
        let stop = |_| (Some(StopReason::EndTurn), None);
        tracker.observe(&started(1));
        tracker.observe(&ended(1));
        tracker.observe(&started(2));
        tracker.start();
        let take = |tracker: &mut ActivityTracker, waits| tracker.take(waits, stop, |_| true);
        assert_eq!(take(&mut tracker, false), [SessionActivity::Running]);
        assert_eq!(take(&mut tracker, true), [SessionActivity::RequiresAction]);
        assert_eq!(take(&mut tracker, true), []);
        assert_eq!(take(&mut tracker, false), [SessionActivity::Running]);
        tracker.observe(&ended(2));
        tracker.observe(&started(3));
        let idle = SessionActivity::idle(Some(StopReason::EndTurn));
        assert_eq!(take(&mut tracker, false), [idle, SessionActivity::Running]);
        assert_eq!(tracker.turn(), Some(3));
    }
}
