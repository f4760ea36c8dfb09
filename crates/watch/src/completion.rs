//! Places in a stream that are passed once all that came before them is done with.
//!
//! Whoever follows a record that stays needs them: what lies before a place that was passed need not
//! be heard again by the next of its kind. A pipe has none.

use std::collections::{BTreeSet, VecDeque};

use crate::report::EntryNumber;

/// What is under way, and the places that wait for it.
#[derive(Debug, Default)]
pub(crate) struct CompletionTracker {
    ahead: VecDeque<PendingCheckpoint>,
    /// Entries of the report that are not settled.
    open: BTreeSet<EntryNumber>,
    /// How many calls of hooks were given out, and how many came back.
    hooks: (u64, u64),
}

#[derive(Debug)]
struct PendingCheckpoint {
    place: u64,
    /// The first entry of the report that lies behind it.
    entry: EntryNumber,
    hooks: u64,
}

impl CompletionTracker {
    pub(crate) fn sent(&mut self, entry: EntryNumber) {
        self.open.insert(entry);
    }

    pub(crate) fn settled(&mut self, entry: EntryNumber) {
        self.open.remove(&entry);
    }

    pub(crate) fn hook_called(&mut self) {
        self.hooks.0 += 1;
    }

    pub(crate) fn hook_over(&mut self) {
        self.hooks.1 += 1;
    }

    /// The stream has come to a place; `entry` is the next of the report.
    pub(crate) fn reach(&mut self, place: u64, entry: EntryNumber) {
        self.ahead.push_back(PendingCheckpoint { place, entry, hooks: self.hooks.0 });
    }

    /// The last place that is passed by now and was not before, and the first entry behind it.
    pub(crate) fn pass(&mut self) -> Option<(u64, EntryNumber)> {
        let mut passed = None;
        while let Some(next) = self.ahead.front() {
            let waits = self.open.first().is_some_and(|open| *open < next.entry);
            if waits || self.hooks.1 < next.hooks {
                break;
            }
            passed = Some((next.place, next.entry));
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
    fn a_place_is_passed_when_all_before_it_is_done_whatever_is_done_behind_it() {
        let mut milestones = CompletionTracker::default();
        let entry = EntryNumber::new;
        milestones.reach(1, entry(0));
        assert_eq!(milestones.pass(), Some((1, entry(0))));
        milestones.sent(entry(0));
        milestones.sent(entry(1));
        milestones.reach(2, entry(2));
        milestones.sent(entry(2));
        milestones.hook_called();
        milestones.reach(3, entry(3));
        milestones.settled(entry(2));
        milestones.settled(entry(0));
        assert_eq!(milestones.pass(), None);
        milestones.settled(entry(1));
        assert_eq!(milestones.pass(), Some((2, entry(2))));
        assert_eq!(milestones.pass(), None, "a hook still runs");
        milestones.hook_over();
        assert_eq!(milestones.pass(), Some((3, entry(3))));
        assert_eq!(milestones.pass(), None);
    }
}
