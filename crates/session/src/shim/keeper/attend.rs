//! Attending to owners: who comes, what it orders, what it is told.

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::agent::Verdict;
use super::door::Caller;
use super::keep::{Keeper, Phase, Record};
use super::owner::{Owner, Presence};
use crate::shim::greeting::{ShimHello, Stdin, Version};
use crate::shim::news::{News, Refused};
use crate::shim::order::Order;

/// How long an owner may take nothing before it is left with what lies on the disk.
pub(super) const STALLED: Duration = Duration::from_mins(1);

impl Keeper {
    /// Does what the owner orders.
    pub(super) fn hear_owner(&mut self, now: Instant) {
        let Some(owner) = &mut self.owner else { return };
        let mut orders = Vec::new();
        let presence = owner.read(&mut self.chunk, &mut orders);
        let may_write = owner.may_write();
        for order in orders {
            match order {
                Order::Write { number, bytes } if may_write => self.write(number, bytes),
                Order::CloseStdin if may_write => self.agent.close_stdin(),
                Order::Write { .. } | Order::CloseStdin => {}
                Order::Signal(signal) => drop(self.kin.signal(signal)),
                Order::End { patience } => self.begin_ending(now, patience),
                Order::Kept(offset) => self.spool.kept(offset.min(self.spool.end())),
                Order::Bye => return self.part(now),
            }
        }
        if presence == Presence::Gone {
            self.part(now);
        }
    }

    fn write(&mut self, number: u64, bytes: Vec<u8>) {
        match self.agent.judge(number, bytes.len()) {
            Verdict::New => {
                self.pulse.said(&bytes);
                self.agent.take(number, bytes);
            }
            Verdict::Again => {}
            Verdict::Not => {
                let last = self.agent.last_write();
                if let Some(owner) = &mut self.owner {
                    owner.tell(&News::Unwritten { number, last });
                }
            }
        }
    }

    /// The owner has left.
    fn part(&mut self, now: Instant) {
        self.owner = None;
        self.lease.owner_left(now);
    }

    /// Somebody has said hello: it becomes the owner, unless there is one.
    pub(super) fn receive(&mut self, mut caller: Caller, now: Instant) {
        // The one before may have gone without our having looked.
        self.hear_owner(now);
        if let Some(owner) = &self.owner {
            let mut refusal = Vec::new();
            Refused { owner: owner.pid }.put(&mut refusal);
            // A few bytes into an empty socket; if they do not fit, the closed door says it too.
            let _ = caller.socket.write(&refusal);
            return;
        }
        let mut owner = Owner::new(caller, &self.spool, now);
        let exit = match &self.phase {
            Phase::Running => None,
            Phase::Draining { exit, .. } => Some(*exit),
            Phase::Over { ended, .. } => Some(ended.exit),
        };
        let open = self.agent.stdin_is_open();
        let hello = ShimHello {
            version: Version::OURS,
            start: self.spool.start(),
            end: self.spool.end(),
            exit,
            shim: Some(self.shim),
            agent: Some(self.agent.id),
            run: Some(self.run),
            last_write: self.agent.last_write(),
            stdin: Some(if open { Stdin::Open } else { Stdin::Closed }),
            trouble: self.stuck.as_ref().map(|stuck| stuck.trouble.clone()),
        };
        hello.put(owner.out());
        self.owner = Some(owner);
        self.lease.owner_came();
        // What it said behind its hello is here already and would wake nobody.
        self.hear_owner(now);
    }

    /// Tells the owner what it can be told now.
    pub(super) fn send(&mut self, now: Instant) {
        let exit = match &self.phase {
            Phase::Over { ended, .. } => Some(News::Exited { exit: ended.exit, end: ended.end }),
            Phase::Running | Phase::Draining { .. } => None,
        };
        let Some(owner) = &mut self.owner else { return };
        let written = self.agent.written();
        let presence = owner.send(&mut self.spool, &mut self.chunk, written, exit.as_ref(), now);
        if presence == Presence::Gone {
            // It may have said something before it left.
            self.hear_owner(now);
            self.part(now);
        }
    }

    /// Whether the agent's end is written down and told.
    pub(super) fn is_done(&self, now: Instant) -> bool {
        let Phase::Over { record: Record::Done, .. } = &self.phase else { return false };
        self.owner.as_ref().is_none_or(|owner| owner.knows_all() || owner.moved + STALLED <= now)
    }
}
