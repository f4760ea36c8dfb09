//! The end of a keeper: what the agent left is ended, its output read to the last byte, its end
//! written down and told.

use std::io::Read as _;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::agent::Flow;
use super::keep::{Keeper, Phase, Record};
use crate::shim::exit::Ended;
use crate::shim::order::Signal;

/// How often writing down an agent's end is tried, a second apart, before it is given up.
const TRIES: u32 = 60;

/// How long an owner that knows all may take to hang up.
const FAREWELL: Duration = Duration::from_secs(2);

impl Keeper {
    /// Goes on with the end of an agent that is dead.
    pub(super) fn close_if_due(&mut self, now: Instant) {
        if let Phase::Draining { exit, until } = self.phase
            && self.is_drained(now, until)
        {
            self.agent.drop_output();
            let ended = Ended { exit, end: self.spool.end() };
            self.phase = Phase::Over { ended, record: Record::Due { at: now, tries: TRIES } };
        }
        if let Phase::Over { ended, record: Record::Due { at, tries } } = self.phase
            && at <= now
        {
            let record = match self.record(&ended) {
                Ok(()) => Record::Done,
                Err(_) if tries <= 1 => Record::Done,
                Err(_) => Record::Due { at: now + Duration::from_secs(1), tries: tries - 1 },
            };
            self.phase = Phase::Over { ended, record };
        }
    }

    fn record(&mut self, ended: &Ended) -> std::io::Result<()> {
        self.place.write_stderr_tail(self.run, self.complaints.tail())?;
        self.place.write_ended(self.run, ended)
    }

    /// Ends what the agent left and reads what it printed; says whether that is all.
    fn is_drained(&mut self, now: Instant, until: Instant) -> bool {
        let alone = self.kin.living().is_empty();
        if !alone {
            self.kin.signal(Signal::Kill);
            self.reap(now);
        }
        while self.stuck.is_none() && matches!(self.read_stdout(now), Flow::Bytes(_)) {}
        while matches!(self.read_stderr(), Flow::Bytes(_)) {}
        if self.stuck.is_some() {
            // Nothing is given up for want of room, unless nobody has come for all that time.
            return self.lease.limit_end().is_some_and(|end| end <= now);
        }
        (alone && self.agent.stdout.is_none()) || until <= now
    }

    /// Leaves: nobody new comes in, and whoever is attached hears the end before it hears that the
    /// socket is closed.
    pub(super) fn leave(self) {
        self.door.remove();
        drop(self.lock);
        let Some(owner) = self.owner else { return };
        let mut socket = owner.socket;
        let _ = socket.shutdown(Shutdown::Write);
        let _ = socket.set_nonblocking(false);
        let _ = socket.set_read_timeout(Some(FAREWELL));
        let deadline = Instant::now() + FAREWELL;
        let mut chunk = [0; 4096];
        while matches!(socket.read(&mut chunk), Ok(read) if read > 0) && Instant::now() < deadline {
        }
    }

    /// Undoes a start that could not be finished.
    pub(super) fn abandon(self) {
        self.kin.signal(Signal::Kill);
        self.door.remove();
        // Nothing points to what stays.
        let _ = self.place.remove(self.run);
    }
}
