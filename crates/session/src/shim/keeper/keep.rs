//! The loop: waits for whoever has something, and never for anybody in particular.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, WaitStatus};

use super::agent::{Agent, Flow, read_now};
use super::alarm::Alarm;
use super::complaints::Complaints;
use super::door::Door;
use super::ending::{Ending, Step};
use super::lease::Lease;
use super::owner::Owner;
use super::pulse::Pulse;
use crate::shim::exit::{Ended, Exit};
use crate::shim::kin::Kin;
use crate::shim::news::{News, Trouble};
use crate::shim::order::Signal;
use crate::shim::place::{Place, Register};
use crate::shim::plan::{Plan, Run};
use crate::shim::spool::Spool;

/// Read from a pipe or a socket at once: as much as a pipe holds.
const CHUNK: usize = 64 << 10;

/// How long an agent without an owner may take to finish by itself once its stdin is closed: with a
/// background shell the CLI was seen to wait six seconds.
const UNOWNED_PATIENCE: Duration = Duration::from_secs(10);

/// How long what the agent left may take to be gone.
const DRAIN_PATIENCE: Duration = Duration::from_secs(3);

/// Between two tries to write to a disk that is full.
const RETRY: Duration = Duration::from_secs(1);

/// Keeps one agent.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) place: Place,
    pub(super) run: Run,
    /// Held while this shim lives.
    pub(super) lock: File,
    pub(super) spool: Spool,
    pub(super) door: Door,
    pub(super) agent: Agent,
    pub(super) kin: Kin,
    pub(super) owner: Option<Owner>,
    pub(super) lease: Lease,
    pub(super) complaints: Complaints,
    pub(super) phase: Phase,
    /// What the disk had no room for, while it has none.
    pub(super) stuck: Option<Stuck>,
    pub(super) alarm: Alarm,
    pub(super) pulse: Pulse,
    pub(super) ending: Ending,
    pub(super) shim: i32,
    /// Room to read into.
    pub(super) chunk: Vec<u8>,
}

/// How far the agent's life has come.
#[derive(Debug)]
pub(super) enum Phase {
    /// It runs.
    Running,
    /// It has ended; what it left is ended, and its pipes are read to their end.
    Draining { exit: Exit, until: Instant },
    /// All is read; its end is being written down, or was.
    Over { ended: Ended, record: Record },
}

/// Whether the end of an agent is written down.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record {
    /// Not yet; to be tried at this time, so many times at most.
    Due { at: Instant, tries: u32 },
    /// It is, or it could not be.
    Done,
}

/// Output that is neither in the pipe any more nor in the spool yet.
#[derive(Debug)]
pub(super) struct Stuck {
    rest: Vec<u8>,
    pub(super) retry: Instant,
    pub(super) trouble: Trouble,
}

impl Keeper {
    #[expect(clippy::too_many_arguments, reason = "all that stands before the agent runs")]
    pub(super) fn new(
        plan: &Plan,
        place: Place,
        lock: File,
        spool: Spool,
        door: Door,
        alarm: Alarm,
        agent: Agent,
        now: Instant,
    ) -> Self {
        let shim = rustix::process::getpid().as_raw_nonzero().get();
        Self {
            place,
            run: plan.run,
            lock,
            spool,
            door,
            kin: Kin::of_shim(&plan.marker, shim, agent.id),
            agent,
            owner: None,
            lease: Lease::new(plan.grace, plan.ask_grace, plan.unowned_limit, now),
            complaints: Complaints::default(),
            phase: Phase::Running,
            stuck: None,
            alarm,
            pulse: Pulse::new(),
            ending: Ending::default(),
            shim,
            chunk: vec![0; CHUNK],
        }
    }

    pub(super) fn shim(&self) -> i32 {
        self.shim
    }

    pub(super) fn agent(&self) -> i32 {
        self.agent.id
    }

    pub(super) fn register(&self, register: &Register) -> io::Result<()> {
        self.place.write_register(register)
    }

    /// Keeps the agent until it has ended and whoever is attached knows.
    pub(super) fn keep(mut self) {
        loop {
            let now = Instant::now();
            self.lease.seen(self.pulse.doing(), now);
            self.retry_spool(now);
            self.end_if_due(now);
            self.close_if_due(now);
            self.send(now);
            if self.is_done(now) {
                return self.leave();
            }
            let ready = self.wait(now);
            self.hear(&ready);
        }
    }

    /// Closes the agent's stdin, and begins to lose patience.
    pub(super) fn begin_ending(&mut self, now: Instant, patience: Duration) {
        self.agent.close_stdin();
        self.ending.begin(now, patience);
    }

    fn end_if_due(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        if !self.ending.has_begun() && self.lease.end().is_some_and(|end| end <= now) {
            self.begin_ending(now, UNOWNED_PATIENCE);
        }
        match self.ending.step(now) {
            Some(Step::Terminate) => drop(self.kin.signal(Signal::Terminate)),
            Some(Step::Kill) => drop(self.kin.signal(Signal::Kill)),
            None => {}
        }
    }

    /// Buries the dead; among them, at last, the agent.
    pub(super) fn reap(&mut self, now: Instant) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get() == self.agent.id && matches!(self.phase, Phase::Running) {
                self.agent.drop_stdin();
                self.kin.forget_agent();
                let until = now + DRAIN_PATIENCE;
                self.phase = Phase::Draining { exit: exit_of(status), until };
            }
        }
    }

    pub(super) fn read_stdout(&mut self, now: Instant) -> Flow {
        let Some(stdout) = &mut self.agent.stdout else { return Flow::End };
        let flow = read_now(stdout, &mut self.chunk);
        match flow {
            Flow::Bytes(read) => {
                let bytes = &self.chunk[..read];
                self.pulse.printed(bytes);
                let (stored, outcome) = self.spool.append(bytes);
                if let Err(error) = outcome {
                    let rest = bytes[stored..].to_vec();
                    self.be_stuck(rest, &error, now);
                }
            }
            Flow::Dry => {}
            Flow::End => self.agent.stdout = None,
        }
        flow
    }

    fn be_stuck(&mut self, rest: Vec<u8>, error: &io::Error, now: Instant) {
        let trouble = Trouble { spool: error.to_string() };
        if let (None, Some(owner)) = (&self.stuck, &mut self.owner) {
            owner.tell(&News::Trouble(trouble.clone()));
        }
        self.stuck = Some(Stuck { rest, retry: now + RETRY, trouble });
    }

    /// Tries again to store what the disk had no room for.
    fn retry_spool(&mut self, now: Instant) {
        let Some(stuck) = self.stuck.take_if(|stuck| stuck.retry <= now) else { return };
        let (stored, outcome) = self.spool.append(&stuck.rest);
        if outcome.is_err() {
            let rest = stuck.rest[stored..].to_vec();
            self.stuck = Some(Stuck { rest, retry: now + RETRY, ..stuck });
        } else if let Some(owner) = &mut self.owner {
            owner.tell(&News::Eased);
        }
    }

    pub(super) fn read_stderr(&mut self) -> Flow {
        let Some(stderr) = &mut self.agent.stderr else { return Flow::End };
        let flow = read_now(stderr, &mut self.chunk);
        match flow {
            Flow::Bytes(read) => {
                let bytes = &self.chunk[..read];
                self.complaints.add(bytes);
                if let Some(owner) = &mut self.owner {
                    owner.tell(&News::Stderr(bytes.to_vec()));
                }
            }
            Flow::Dry => {}
            Flow::End => self.agent.stderr = None,
        }
        flow
    }
}

fn exit_of(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}
