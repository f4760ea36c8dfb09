//! How far the log of a session is mirrored, and whether a message is the next one. Pure.

use serde::{Deserialize, Serialize};

use crate::bus::LogPosition;
use crate::pack::{PackHeader, PackKind, WorkerId};

/// The end of what is mirrored of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorCursor {
    position: u64,
    epoch: u64,
    /// The number of the last change.
    last: u64,
    /// The worker of the last message; none before the first.
    owner: Option<WorkerId>,
    /// Whether the owner has released the session.
    released: bool,
}

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSource {
    /// The log was read in order from the cursor on.
    Read,
    /// The bus reported the message. Others before it may be missing.
    Follow,
}

/// What to do with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorStep {
    /// Replay it; the cursor is this one then.
    Apply(MirrorCursor),
    /// It is mirrored already.
    Skip,
    /// No owner of the session wrote it, so it does not count.
    Ignore,
    /// Messages before it are missing: read the log from the cursor on.
    ReadLog,
}

impl MirrorCursor {
    pub fn position(&self) -> LogPosition {
        LogPosition(self.position)
    }

    /// The worker that owns the session, and the epoch. None if it was released.
    pub fn owner(&self) -> Option<(&WorkerId, u64)> {
        self.owner.as_ref().filter(|_| !self.released).map(|owner| (owner, self.epoch))
    }

    /// The worker that has released the session, if none owns it.
    pub fn former_owner(&self) -> Option<&WorkerId> {
        self.owner.as_ref().filter(|_| self.released)
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the last change.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Decides about a message.
    pub fn on(
        &self,
        position: LogPosition,
        header: &PackHeader,
        source: MessageSource,
    ) -> MirrorStep {
        if position.0 <= self.position {
            return MirrorStep::Skip;
        }
        let is_owner = self.owner.as_ref() == Some(&header.worker) && header.epoch == self.epoch;
        let fits = match header.kind {
            PackKind::Own => header.epoch == self.epoch + 1 && header.last == self.last,
            PackKind::Changes => is_owner && !self.released && header.first > self.last,
            PackKind::Released => is_owner && !self.released && header.last == self.last,
        };
        // A snapshot may leave out numbers, so only the log itself shows that nothing is missing.
        let is_next = fits && (header.kind != PackKind::Changes || header.first == self.last + 1);
        match source {
            MessageSource::Follow if !is_next => MirrorStep::ReadLog,
            MessageSource::Read if !fits => MirrorStep::Ignore,
            _ => MirrorStep::Apply(Self {
                position: position.0,
                epoch: header.epoch,
                last: header.last,
                owner: Some(header.worker.clone()),
                released: header.kind == PackKind::Released,
            }),
        }
    }

    /// The cursor behind a message that does not count.
    #[must_use]
    pub fn behind(&self, position: LogPosition) -> Self {
        Self { position: self.position.max(position.0), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{LogPosition, MessageSource, MirrorCursor, MirrorStep};
    use crate::pack::{NewPack, PackHeader, PackKind, WorkerId};

    fn header(kind: PackKind, worker: u128, epoch: u64, first: u64, last: u64) -> PackHeader {
        let worker = WorkerId { name: format!("w{worker}"), data: Uuid::from_u128(worker) };
        let mut header = NewPack::without_changes(kind, epoch, worker, last).header;
        header.first = first;
        header
    }

    #[test]
    fn only_messages_of_the_owner_count_and_gaps_are_read() {
        use MessageSource::{Follow, Read};
        use PackKind::{Changes, Own, Released};
        let mut cursor = MirrorCursor::default();
        // What, from where, and whether it is applied.
        let messages = [
            (1, header(Changes, 1, 1, 1, 1), Read, "ignore"),
            (2, header(Own, 1, 1, 1, 0), Follow, "apply"),
            (2, header(Own, 1, 1, 1, 0), Follow, "skip"),
            (5, header(Changes, 1, 1, 3, 4), Follow, "read"),
            (4, header(Changes, 1, 1, 1, 2), Follow, "apply"),
            (5, header(Changes, 1, 1, 3, 4), Follow, "apply"),
            (6, header(Changes, 2, 1, 5, 6), Read, "ignore"),
            (9, header(Changes, 2, 2, 5, 6), Follow, "read"),
            (7, header(Own, 2, 2, 5, 4), Follow, "apply"),
            (8, header(Changes, 1, 1, 5, 5), Read, "ignore"),
            (9, header(Changes, 2, 2, 5, 6), Follow, "apply"),
            (10, header(Own, 1, 2, 7, 6), Read, "ignore"),
            (11, header(Changes, 2, 2, 9, 12), Follow, "read"),
            (11, header(Changes, 2, 2, 9, 12), Read, "apply"),
            (12, header(Released, 2, 2, 13, 12), Follow, "apply"),
            (13, header(Changes, 2, 2, 13, 13), Read, "ignore"),
        ];
        for (position, header, source, expected) in messages {
            let step = cursor.on(LogPosition(position), &header, source);
            let found = match &step {
                MirrorStep::Apply(_) => "apply",
                MirrorStep::Skip => "skip",
                MirrorStep::Ignore => "ignore",
                MirrorStep::ReadLog => "read",
            };
            assert_eq!(found, expected, "{position} {header:?} {source:?}");
            if let MirrorStep::Apply(next) = step {
                cursor = next;
            }
        }
        assert_eq!(cursor.owner(), None);
    }
}
