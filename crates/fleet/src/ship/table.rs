//! What is known about the logs of all sessions that a worker ships, and when a change counts as stored. Pure.
//!
//! The numbers of changes go on after another worker had the session, so a number alone does not say which change is
//! meant. What is waited for therefore belongs to a [`Tenure`]: the time from when this worker has a copy of the
//! session until it gives the copy up. An empty outbox says nothing either, because giving a copy up empties it.

use std::collections::HashMap;

use journal::SessionId;

use super::{ShipCore, ShipEffect, ShipStop};
use crate::pack::WorkerId;

/// The time in which a worker has one copy of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenure(u64);

/// Whether a change is stored in the log of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    Stored,
    /// It is not, as far as is known.
    Waiting,
    /// Nothing is known about the log: its end must be read.
    Unknown,
    /// It will not be, or not by this worker.
    Stopped(ShipStop),
}

/// What a worker knows about the logs of its sessions.
#[derive(Debug)]
pub struct ShipTable {
    worker: WorkerId,
    sessions: HashMap<SessionId, ShippedSession>,
    last_tenure: u64,
}

/// What is known about the log of a session.
#[derive(Clone, Debug)]
pub struct ShippedSession {
    tenure: Tenure,
    pub core: ShipCore,
    /// The number of the last change that was removed from the outbox.
    pub removed: u64,
}

impl ShipTable {
    pub fn new(worker: WorkerId) -> Self {
        Self { worker, sessions: HashMap::new(), last_tenure: 0 }
    }

    /// The present tenure of a session.
    pub fn tenure(&mut self, session: SessionId) -> Tenure {
        self.entry(session).tenure
    }

    /// What is known about a session, for shipping it; none if it is not shipped any more.
    pub fn shipping(&mut self, session: SessionId) -> Option<ShippedSession> {
        let known = self.entry(session);
        may_ship(&known.core).then(|| known.clone())
    }

    /// Takes in what was learned while shipping. False if the session is not to be shipped any more: another task gives
    /// it away, or the copy was given up.
    pub fn learn(&mut self, session: SessionId, learned: &ShippedSession) -> bool {
        let Some(known) = self.sessions.get_mut(&session) else { return false };
        let is_present = known.tenure == learned.tenure && may_ship(&known.core);
        if is_present {
            known.clone_from(learned);
        }
        is_present
    }

    /// Begins to give a session away. It is not shipped any more by others than the caller.
    pub fn begin_release(&mut self, session: SessionId) -> (ShippedSession, ShipEffect) {
        let known = self.entry(session);
        let effect = known.core.release();
        (known.clone(), effect)
    }

    /// Takes in that a session was given away, or belongs to another worker.
    pub fn finish_release(&mut self, session: SessionId, learned: &ShippedSession) {
        if let Some(known) = self.sessions.get_mut(&session)
            && known.tenure == learned.tenure
        {
            known.clone_from(learned);
        }
    }

    /// The copy of a session is being given up: nothing of it is confirmed or shipped any more.
    pub fn stop(&mut self, session: SessionId, stop: ShipStop) {
        self.entry(session).core.give_up(stop);
    }

    /// Begins a new tenure: this worker has taken the session over.
    pub fn begin(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.entry(session);
    }

    /// Why a session is not shipped any more.
    pub fn stop_reason(&self, session: SessionId) -> Option<ShipStop> {
        match self.sessions.get(&session)?.core.resume() {
            ShipEffect::Stop(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether the changes of a session up to a number are stored in its log.
    pub fn confirmation(&self, session: SessionId, tenure: Tenure, number: u64) -> Confirmation {
        let Some(known) = self.sessions.get(&session).filter(|it| it.tenure == tenure) else {
            return Confirmation::Stopped(ShipStop::Replaced);
        };
        match (known.core.resume(), known.core.shipped()) {
            (ShipEffect::Stop(reason), _) => Confirmation::Stopped(reason),
            (_, Some(shipped)) if shipped >= number => Confirmation::Stored,
            (_, None) if known.core.is_unknown() => Confirmation::Unknown,
            _ => Confirmation::Waiting,
        }
    }

    fn entry(&mut self, session: SessionId) -> &mut ShippedSession {
        let Self { worker, sessions, last_tenure } = self;
        sessions.entry(session).or_insert_with(|| {
            *last_tenure += 1;
            let core = ShipCore::new(session, worker.clone());
            ShippedSession { tenure: Tenure(*last_tenure), core, removed: 0 }
        })
    }
}

fn may_ship(core: &ShipCore) -> bool {
    !core.is_releasing() && !matches!(core.resume(), ShipEffect::Stop(_))
}

#[cfg(test)]
mod tests {
    use super::{Confirmation, ShipTable, ShippedSession};
    use crate::bus::LogPosition;
    use crate::mirror::tests::{id, worker_id};
    use crate::pack::{NewPack, PackKind};
    use crate::ship::{ShipInput, ShipStop};

    /// Learns that the log ends with a message of this worker, in an epoch.
    fn own(mut shipped: ShippedSession, epoch: u64, last: u64) -> ShippedSession {
        let header = NewPack::without_changes(PackKind::Changes, epoch, worker_id(1), last).header;
        shipped.core.on(ShipInput::LogEnd(Some((LogPosition(9), header))));
        shipped
    }

    #[test]
    fn a_number_is_confirmed_only_in_its_tenure_and_never_after_the_copy_is_given_up() {
        let mut table = ShipTable::new(worker_id(1));
        let first = table.tenure(id(1));
        assert_eq!(table.confirmation(id(1), first, 0), Confirmation::Unknown);
        let shipping = table.shipping(id(1)).unwrap();
        assert!(table.learn(id(1), &own(shipping.clone(), 1, 4)));
        assert_eq!(table.confirmation(id(1), first, 4), Confirmation::Stored);
        assert_eq!(table.confirmation(id(1), first, 5), Confirmation::Waiting);

        let stop = ShipStop::Fenced { by: worker_id(2), epoch: 2 };
        table.stop(id(1), stop.clone());
        // A task that was reading the log meanwhile does not bring it back.
        assert!(!table.learn(id(1), &own(shipping.clone(), 1, 5)));
        assert_eq!(table.confirmation(id(1), first, 4), Confirmation::Stopped(stop.clone()));
        assert_eq!(table.stop_reason(id(1)), Some(stop));
        assert!(table.shipping(id(1)).is_none());

        // It comes back, with other changes under the same numbers.
        table.begin(id(1));
        assert!(!table.learn(id(1), &own(shipping, 1, 5)));
        let second = table.shipping(id(1)).unwrap();
        assert!(table.learn(id(1), &own(second, 3, 7)));
        let replaced = Confirmation::Stopped(ShipStop::Replaced);
        assert_eq!(table.confirmation(id(1), first, 5), replaced);
        let present = table.tenure(id(1));
        assert_eq!(table.confirmation(id(1), present, 7), Confirmation::Stored);
    }

    #[test]
    fn a_session_that_is_being_given_away_is_shipped_by_nothing_else() {
        let mut table = ShipTable::new(worker_id(1));
        let shipping = own(table.shipping(id(1)).unwrap(), 1, 4);
        assert!(table.learn(id(1), &shipping));
        let (mut releasing, _) = table.begin_release(id(1));
        assert!(!table.learn(id(1), &shipping));
        assert!(table.shipping(id(1)).is_none());
        releasing.core.on(ShipInput::Appended(LogPosition(10)));
        table.finish_release(id(1), &releasing);
        assert!(!table.learn(id(1), &shipping));
        assert_eq!(table.stop_reason(id(1)), Some(ShipStop::Released));
    }
}
