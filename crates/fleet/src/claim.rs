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
