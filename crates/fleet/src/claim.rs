//! Taking a session over: the next message of its log names another owner.
//!
//! A worker that takes a session over has replayed its log first. The message expects the end of what was replayed,
//! so a log that went on meanwhile, or that another worker has taken over, refuses it.

use crate::bus::LogPosition;
use crate::mirror::MirrorCursor;
use crate::pack::{NewPack, PackHeader, PackKind, WorkerId};

/// An attempt to take a session over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The end of the log that was replayed.
    pub expected: LogPosition,
    pub pack: NewPack,
}

/// What became of a claim, as the log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The session belongs to this worker now.
    Won,
    /// The log has gone on: it must be replayed before the next attempt.
    Lost,
    /// The message is not in the log. It can be sent again.
    Missing,
}

impl Claim {
    pub fn new(cursor: &MirrorCursor, worker: WorkerId) -> Self {
        let pack =
            NewPack::without_changes(PackKind::Own, cursor.epoch() + 1, worker, cursor.last());
        Self { expected: cursor.position(), pack }
    }

    /// What the last message of the log says about a claim that was refused or is not sure.
    pub fn outcome(&self, end: Option<&(LogPosition, PackHeader)>) -> ClaimOutcome {
        match end {
            Some((_, header))
                if header.worker == self.pack.header.worker
                    && header.epoch == self.pack.header.epoch =>
            {
                ClaimOutcome::Won
            }
            Some((position, _)) if *position == self.expected => ClaimOutcome::Missing,
            None if self.expected == LogPosition(0) => ClaimOutcome::Missing,
            _ => ClaimOutcome::Lost,
        }
    }
}

/// A copy of a session in the journal of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalCopy {
    /// The number of the last change.
    pub last: u64,
    /// The epoch in which this worker got the copy, or claims it; none if an earlier version has not recorded it.
    pub epoch: Option<u64>,
}

/// What the log of a session says about the copy of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCopyState {
    /// It is the session.
    Present,
    /// Another worker has taken the session over.
    Fenced,
    /// The worker owns the session, and this is not what it shipped: an older copy of its data directory is in use,
    /// or it was killed while it gave the session away. The log must be replayed.
    Outdated,
}

impl LocalCopyState {
    /// `end` is the last message of the log.
    pub fn of(copy: LocalCopy, worker: &WorkerId, end: Option<&PackHeader>) -> Self {
        match end {
            Some(end) if end.worker.data != worker.data => Self::Fenced,
            // Other changes may have the same numbers, if the session was elsewhere meanwhile. A log that is shorter, or
            // of an earlier epoch, is that of servers that were restored: they get the copy again.
            Some(end)
                if end.last > copy.last
                    || end.kind == PackKind::Released && end.last == copy.last
                    || copy.epoch.is_some_and(|epoch| end.epoch > epoch) =>
            {
                Self::Outdated
            }
            Some(_) | None => Self::Present,
        }
    }

    /// The same for a copy whose take-over had begun when the process ended, with the claim of an epoch. It is the
    /// session if the log ends with that claim.
    pub fn of_pending(copy: LocalCopy, worker: &WorkerId, end: Option<&PackHeader>) -> Self {
        match end {
            Some(end) if end.worker.data != worker.data || end.kind == PackKind::Released => {
                Self::Fenced
            }
            Some(end)
                if end.kind == PackKind::Own
                    && end.last <= copy.last
                    && copy.epoch.is_none_or(|epoch| epoch == end.epoch) =>
            {
                Self::Present
            }
            // The backup of the data directory is from that moment.
            Some(_) => Self::Outdated,
            None => Self::Fenced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LocalCopy, LocalCopyState};
    use crate::mirror::tests::worker_id;
    use crate::pack::{NewPack, PackKind};

    #[test]
    fn a_copy_is_replaced_only_if_the_log_has_more_or_something_else() {
        use LocalCopyState::{Fenced, Outdated, Present};
        use PackKind::{Changes, Own, Released};
        let copy = LocalCopy { last: 7, epoch: Some(3) };
        for (kind, worker, epoch, last, expected) in [
            (Changes, 1, 3, 7, Present),
            (Changes, 1, 3, 5, Present),
            (Changes, 1, 3, 8, Outdated),
            // It was elsewhere and came back, with as many changes.
            (Changes, 1, 5, 7, Outdated),
            (Own, 2, 4, 7, Fenced),
            // The worker was killed while it gave the session away.
            (Released, 1, 3, 7, Outdated),
            // The servers were restored.
            (Changes, 1, 1, 4, Present),
            (Released, 1, 1, 4, Present),
        ] {
            let end = NewPack::without_changes(kind, epoch, worker_id(worker), last).header;
            assert_eq!(LocalCopyState::of(copy, &worker_id(1), Some(&end)), expected, "{end:?}");
        }
        assert_eq!(LocalCopyState::of(copy, &worker_id(1), None), Present);
        let unknown = LocalCopy { epoch: None, ..copy };
        let end = NewPack::without_changes(Changes, 5, worker_id(1), 7).header;
        assert_eq!(LocalCopyState::of(unknown, &worker_id(1), Some(&end)), Present);
    }
}
