//! Checkpoints: positions in a stream that are reported once everything before them is done.
//!
//! A process that follows a persistent record stores the last one: what lies before it need not be
//! read again after a restart. A pipe has none.

use std::collections::{BTreeSet, VecDeque};

use crate::report::EntryNumber;

/// The work in progress, and the checkpoints that wait for it.
#[derive(Debug, Default)]
pub(crate) struct CompletionTracker {
    ahead: VecDeque<PendingCheckpoint>,
    /// Entries of the report without a result.
    open: BTreeSet<EntryNumber>,
    /// How many hook calls were started and finished.
    hooks: (u64, u64),
}

#[derive(Debug)]
struct PendingCheckpoint {
    position: u64,
    /// The first entry of the report behind it.
    entry: EntryNumber,
    hooks: u64,
}

impl CompletionTracker {
    pub(crate) fn started(&mut self, entry: EntryNumber) {
        self.open.insert(entry);
    }

    pub(crate) fn finished(&mut self, entry: EntryNumber) {
        self.open.remove(&entry);
    }

    pub(crate) fn hook_started(&mut self) {
        self.hooks.0 += 1;
    }

    pub(crate) fn hook_finished(&mut self) {
        self.hooks.1 += 1;
    }

    /// The stream has reached a position; `entry` is the next one of the report.
    pub(crate) fn reach(&mut self, position: u64, entry: EntryNumber) {
        self.ahead.push_back(PendingCheckpoint { position, entry, hooks: self.hooks.0 });
    }

    /// The last checkpoint that is done since the previous call, and the first entry behind it.
    pub(crate) fn pass(&mut self) -> Option<(u64, EntryNumber)> {
        let mut passed = None;
        while let Some(next) = self.ahead.front() {
            let waits = self.open.first().is_some_and(|open| *open < next.entry);
            if waits || self.hooks.1 < next.hooks {
                break;
            }
            passed = Some((next.position, next.entry));
            self.ahead.pop_front();
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::CompletionTracker;
    use crate::report::EntryNumber;

    #[test]
    fn a_checkpoint_is_done_when_everything_before_it_is() {
        let mut tracker = CompletionTracker::default();
        let entry = EntryNumber::new;
        tracker.reach(1, entry(0));
        assert_eq!(tracker.pass(), Some((1, entry(0))));
        tracker.started(entry(0));
        tracker.started(entry(1));
        tracker.reach(2, entry(2));
        tracker.started(entry(2));
        tracker.hook_started();
        tracker.reach(3, entry(3));
        tracker.finished(entry(2));
        tracker.finished(entry(0));
        assert_eq!(tracker.pass(), None);
        tracker.finished(entry(1));
        assert_eq!(tracker.pass(), Some((2, entry(2))));
        assert_eq!(tracker.pass(), None, "a hook still runs");
        tracker.hook_finished();
        assert_eq!(tracker.pass(), Some((3, entry(3))));
        assert_eq!(tracker.pass(), None);
    }
}
