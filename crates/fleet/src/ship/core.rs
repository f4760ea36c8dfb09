//! What the shipper of one session decides. Pure: `on(input) -> effect`.
//!
//! The log on the bus is the only memory of what was shipped. Whenever an append did not surely succeed, the
//! last message is read back, and it says how to go on: it is of this worker, and the changes behind it are
//! next; or another worker has taken the session over, and this one is *fenced*.

use journal::{JournalChange, OutboxPage, OutboxRow, SessionId};

use crate::bus::LogPosition;
use crate::pack::{NewPack, PackHeader, PackKind, WorkerId};

/// The decisions about the log of one session.
#[derive(Clone, Debug)]
pub struct ShipCore {
    session: SessionId,
    worker: WorkerId,
    stage: ShipStage,
    /// Whether the session is being given away: nothing is shipped any more but that.
    releasing: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ShipStage {
    /// The end of the log is not known.
    Unknown,
    /// The log ends with a message of this worker.
    Owned(LogEnd),
    /// A message is on its way.
    Appending {
        epoch: u64,
        last: u64,
    },
    Stopped(ShipStop),
}

/// The end of a log that this worker owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogEnd {
    epoch: u64,
    position: LogPosition,
    /// The number of the last change in the log.
    shipped: u64,
}

/// What the shipper learns.
#[derive(Clone, Debug)]
pub enum ShipInput {
    /// The last message of the log.
    LogEnd(Option<(LogPosition, PackHeader)>),
    /// The oldest changes in the outbox.
    Outbox(OutboxPage),
    /// The message was stored.
    Appended(LogPosition),
    /// The message was refused, or it is not known whether it was stored.
    NotAppended,
}

/// What the shipper does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShipEffect {
    ReadLogEnd,
    /// Remove the changes up to this number from the outbox, then read it.
    ReadOutbox {
        shipped: u64,
    },
    /// Append a message if the last one is the expected one.
    Append {
        expected: LogPosition,
        pack: Box<NewPack>,
    },
    /// The outbox has a gap: put the session into it as a whole, then read it.
    PutSnapshot,
    /// Nothing is left to do.
    Idle,
    /// Nothing of this session is shipped any more.
    Stop(ShipStop),
}

/// Why nothing of a session is shipped any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShipStop {
    /// Another worker owns the session.
    Fenced { by: WorkerId, epoch: u64 },
    /// The log has changes of this worker that its journal does not have: an older copy of the data directory
    /// is in use.
    Outdated { journal: u64, log: u64 },
    /// This worker has given the session away.
    Released,
    /// This worker has given its copy up and has taken the session over again since.
    Replaced,
}

impl ShipCore {
    pub fn new(session: SessionId, worker: WorkerId) -> Self {
        Self { session, worker, stage: ShipStage::Unknown, releasing: false }
    }

    /// What to do first, after a start or a pause.
    pub fn resume(&self) -> ShipEffect {
        match &self.stage {
            ShipStage::Unknown | ShipStage::Appending { .. } => ShipEffect::ReadLogEnd,
            ShipStage::Owned(end) => ShipEffect::ReadOutbox { shipped: end.shipped },
            ShipStage::Stopped(stop) => ShipEffect::Stop(stop.clone()),
        }
    }

    /// Gives the session away, once everything is shipped. Returns what to do.
    pub fn release(&mut self) -> ShipEffect {
        self.releasing = true;
        match self.stage {
            ShipStage::Owned(end) => self.append_released(end),
            _ => self.resume(),
        }
    }

    /// The copy of the session is being given up.
    pub(super) fn give_up(&mut self, stop: ShipStop) {
        self.stage = ShipStage::Stopped(stop);
    }

    /// Whether the session is being given away, or was.
    pub fn is_releasing(&self) -> bool {
        self.releasing
    }

    /// Whether the end of the log must be read before anything can be said.
    pub(super) fn is_unknown(&self) -> bool {
        self.stage == ShipStage::Unknown
    }

    /// The number of the last change that is surely in the log.
    pub fn shipped(&self) -> Option<u64> {
        match &self.stage {
            ShipStage::Owned(end) => Some(end.shipped),
            _ => None,
        }
    }

    /// The epoch in which this worker owns the session, if it surely does.
    pub fn epoch(&self) -> Option<u64> {
        match &self.stage {
            ShipStage::Owned(end) => Some(end.epoch),
            _ => None,
        }
    }

    pub fn on(&mut self, input: ShipInput) -> ShipEffect {
        match input {
            ShipInput::LogEnd(end) => self.on_log_end(end),
            ShipInput::Outbox(page) => self.on_outbox(&page),
            ShipInput::Appended(position) => {
                let ShipStage::Appending { epoch, last } = self.stage else {
                    return self.resume();
                };
                if self.releasing {
                    return self.stop(ShipStop::Released);
                }
                self.own(LogEnd { epoch, position, shipped: last })
            }
            ShipInput::NotAppended => {
                if matches!(self.stage, ShipStage::Stopped(_)) {
                    return self.resume();
                }
                self.stage = ShipStage::Unknown;
                ShipEffect::ReadLogEnd
            }
        }
    }

    fn on_log_end(&mut self, end: Option<(LogPosition, PackHeader)>) -> ShipEffect {
        if matches!(self.stage, ShipStage::Stopped(_)) {
            return self.resume();
        }
        match end {
            None if self.releasing => self.stop(ShipStop::Released),
            None => self.append_own(LogPosition(0), 1, 0),
            Some((_, header)) if header.worker.data != self.worker.data => {
                self.stop(ShipStop::Fenced { by: header.worker, epoch: header.epoch })
            }
            Some((_, header)) if header.kind == PackKind::Released && self.releasing => {
                self.stop(ShipStop::Released)
            }
            Some((position, header)) if header.kind == PackKind::Released => {
                self.append_own(position, header.epoch + 1, header.last)
            }
            Some((position, PackHeader { epoch, last, .. })) => {
                self.own(LogEnd { epoch, position, shipped: last })
            }
        }
    }

    fn on_outbox(&mut self, page: &OutboxPage) -> ShipEffect {
        let ShipStage::Owned(end) = self.stage else { return self.resume() };
        if page.last < end.shipped && page.last > 0 {
            return self.stop(ShipStop::Outdated { journal: page.last, log: end.shipped });
        }
        let Some(first) = page.rows.first() else {
            // Only what is stored is removed from the outbox, so the log was longer before.
            let is_lost = page.last > end.shipped;
            return if is_lost { ShipEffect::PutSnapshot } else { ShipEffect::Idle };
        };
        if first.number <= end.shipped {
            return ShipEffect::ReadOutbox { shipped: end.shipped };
        }
        if first.number != end.shipped + 1 && !begins_snapshot(first) {
            return ShipEffect::PutSnapshot;
        }
        let consecutive =
            (first.number..).zip(&page.rows).take_while(|(it, row)| row.number == *it);
        let rows = &page.rows[..consecutive.count()];
        let worker = self.worker.clone();
        let Some(pack) = NewPack::of_changes(self.session, end.epoch, worker, rows) else {
            return ShipEffect::Idle;
        };
        self.append(end.position, pack)
    }

    fn own(&mut self, end: LogEnd) -> ShipEffect {
        self.stage = ShipStage::Owned(end);
        if self.releasing {
            return self.append_released(end);
        }
        ShipEffect::ReadOutbox { shipped: end.shipped }
    }

    fn append_own(&mut self, expected: LogPosition, epoch: u64, last: u64) -> ShipEffect {
        let worker = self.worker.clone();
        self.append(expected, NewPack::without_changes(PackKind::Own, epoch, worker, last))
    }

    fn append_released(&mut self, end: LogEnd) -> ShipEffect {
        let worker = self.worker.clone();
        let pack = NewPack::without_changes(PackKind::Released, end.epoch, worker, end.shipped);
        self.append(end.position, pack)
    }

    fn append(&mut self, expected: LogPosition, pack: NewPack) -> ShipEffect {
        self.stage = ShipStage::Appending { epoch: pack.header.epoch, last: pack.header.last };
        ShipEffect::Append { expected, pack: Box::new(pack) }
    }

    fn stop(&mut self, stop: ShipStop) -> ShipEffect {
        self.stage = ShipStage::Stopped(stop.clone());
        ShipEffect::Stop(stop)
    }
}

/// Whether a change stands for all changes before it.
fn begins_snapshot(row: &OutboxRow) -> bool {
    matches!(JournalChange::decode(row.bytes.clone()), Ok(JournalChange::BeginSnapshot(_)))
}
