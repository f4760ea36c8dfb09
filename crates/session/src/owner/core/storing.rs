//! Storing a batch, and what leaves the process once it is stored.
//!
//! A batch that the journal refuses is tried again until it is stored. Commands are refused in the
//! meantime.

use journal::{Batch, Seq, SpoolPosition};

use super::batch::Outgoing;
use super::{OwnerCore, OwnerEffect, WriteFailure};
use crate::command::{CommandOutput, SessionCommand};
use crate::machine::{CommandId, Input};
use crate::session::{Error, LeaveOutcome};
use crate::shim::{AgentSignal, ShimCommand};

/// How long to wait before a full disk is tried again.
const FULL_DISK_RETRY: u64 = 1_000;

/// How long to wait before a journal that another process has locked is tried again.
const BUSY_RETRY: u64 = 100;

/// After this time, commands no longer wait for a write that is neither done nor refused.
const SLOW_WRITE: u64 = 10_000;

/// What the core waits for.
#[derive(Debug)]
pub(super) enum Stage {
    Ready,
    LoadingGrants,
    /// Loading the lines behind this number, which did not reach the shim.
    LoadingOutbound {
        behind: u64,
        /// What the machine is told then.
        then: Option<Input>,
    },
    Writing {
        pending: Box<UnwrittenBatch>,
        since: u64,
        slow: bool,
    },
    /// The journal could not store the batch.
    Refused {
        pending: Box<UnwrittenBatch>,
        failure: WriteFailure,
        retry_at: u64,
    },
    Left,
}

/// A batch that is being written, and what waits for it.
#[derive(Debug)]
pub(super) struct UnwrittenBatch {
    batch: Batch,
    outgoing: Vec<Outgoing>,
}

impl Stage {
    /// When a write needs a tick.
    pub(super) fn deadline(&self) -> Option<u64> {
        match self {
            Self::Writing { since, slow, .. } => (!slow).then_some(since + SLOW_WRITE),
            Self::Refused { retry_at, .. } => Some(*retry_at),
            Self::Ready | Self::LoadingGrants | Self::LoadingOutbound { .. } | Self::Left => None,
        }
    }
}

impl OwnerCore {
    /// Writes the batch, if there is something to write. What waited for it leaves afterwards.
    pub(super) fn commit(&mut self) {
        let status = self.machine.status();
        self.batch.set_status((status != self.status).then_some(status));
        self.status = status;
        if let Some(state) = self.dialect.take_changed_state() {
            self.batch.set_agent_state(state);
        }
        let spool = SpoolPosition { run: self.run, offset: self.offset };
        let batch = self.batch.take_batch(self.now.wall, spool, self.writes);
        let outgoing = self.batch.take_outgoing();
        match batch {
            Some(batch) => self.write(Box::new(UnwrittenBatch { batch, outgoing })),
            None => self.let_out(outgoing, None),
        }
    }

    fn write(&mut self, pending: Box<UnwrittenBatch>) {
        self.effects.push(OwnerEffect::Write(Box::new(pending.batch.clone())));
        self.stage = Stage::Writing { pending, since: self.journal_now, slow: false };
    }

    pub(super) fn written(&mut self, result: Result<Seq, WriteFailure>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Ready);
        let Stage::Writing { pending, .. } = stage else {
            self.stage = stage;
            return;
        };
        match result {
            Ok(last) => {
                if self.is_connected() {
                    self.effects.push(OwnerEffect::Send(ShimCommand::Acknowledge(self.offset)));
                }
                self.let_out(pending.outgoing, Some(last));
            }
            Err(_) if self.leaving => {
                self.drop_replies(pending.outgoing);
                self.leave(LeaveOutcome::NotStored);
            }
            Err(failure) => {
                let mut pending = pending;
                if failure == WriteFailure::Full {
                    self.answer_delayed(&mut pending.outgoing);
                }
                let pause = match failure {
                    WriteFailure::Full => FULL_DISK_RETRY,
                    WriteFailure::Busy => BUSY_RETRY,
                };
                let retry_at = self.journal_now + pause;
                self.stage = Stage::Refused { pending, failure, retry_at };
                self.refuse_waiting();
            }
        }
    }

    pub(super) fn pass_write_deadline(&mut self) {
        let now = self.journal_now;
        match &mut self.stage {
            Stage::Writing { since, slow, .. } if *since + SLOW_WRITE <= now => {
                *slow = true;
                if self.leaving {
                    self.leave(LeaveOutcome::NotStored);
                } else {
                    self.refuse_waiting();
                }
            }
            Stage::Refused { retry_at, .. } if *retry_at <= now => self.retry_write(),
            _ => {}
        }
    }

    fn retry_write(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Ready) {
            Stage::Refused { pending, .. } => self.write(pending),
            stage => self.stage = stage,
        }
    }

    /// Refuses the commands that waited for a write that failed or takes too long.
    fn refuse_waiting(&mut self) {
        for input in std::mem::take(&mut self.waiting) {
            self.take(input);
        }
    }

    /// Refuses a command that cannot be stored, except that an interrupt still reaches the agent.
    pub(super) fn refuse(
        &mut self,
        id: CommandId,
        command: &SessionCommand,
        failure: WriteFailure,
    ) {
        let refusal = match failure {
            WriteFailure::Full => Error::NotStored,
            WriteFailure::Busy => Error::Journal(journal::Error::Busy),
        };
        let result = match command {
            SessionCommand::Capabilities => {
                Ok(CommandOutput::Payload(self.machine.capabilities().map(str::to_owned)))
            }
            SessionCommand::Interrupt { .. } if self.is_connected() => {
                let interrupt = ShimCommand::Signal(AgentSignal::Interrupt);
                self.effects.push(OwnerEffect::Send(interrupt));
                Err(refusal)
            }
            _ => Err(refusal),
        };
        self.effects.push(OwnerEffect::Reply(id, result));
    }

    fn let_out(&mut self, outgoing: Vec<Outgoing>, last: Option<Seq>) {
        for outgoing in outgoing {
            match outgoing {
                Outgoing::Shim(command) => self.send(command),
                Outgoing::Reply(id, result) => {
                    let result = result.map_err(Error::Refused);
                    self.effects.push(OwnerEffect::Reply(id, result));
                }
                Outgoing::Start { run, conversation } => {
                    self.effects.push(OwnerEffect::Start { run, conversation });
                }
                Outgoing::RemoveRun(run) => self.effects.push(OwnerEffect::RemoveRun(run)),
                Outgoing::LoadDayCost(day) => self.effects.push(OwnerEffect::LoadDayCost { day }),
                Outgoing::RunHook(hook) => self.effects.push(OwnerEffect::RunHook(hook)),
                Outgoing::Compact => {
                    self.effects.extend(last.map(OwnerEffect::Compact));
                }
            }
        }
    }

    /// Tells the clients of the batch that the disk is full. Their commands are carried out when
    /// there is space, but it is unknown when that will be.
    fn answer_delayed(&mut self, outgoing: &mut Vec<Outgoing>) {
        let effects = &mut self.effects;
        outgoing.retain(|outgoing| {
            let Outgoing::Reply(id, _) = outgoing else { return true };
            let error = Error::Journal(journal::Error::Full);
            effects.push(OwnerEffect::Reply(*id, Err(error)));
            false
        });
    }

    pub(super) fn leave_when_written(&mut self) {
        self.leaving = true;
        if let Stage::Writing { slow: true, .. } = self.stage {
            self.leave(LeaveOutcome::NotStored);
        }
        self.retry_write();
    }

    /// Nothing of a batch that was not stored may be acknowledged.
    fn drop_replies(&mut self, outgoing: Vec<Outgoing>) {
        for outgoing in outgoing {
            if let Outgoing::Reply(id, _) = outgoing {
                self.effects.push(OwnerEffect::Reply(id, Err(Error::NotStored)));
            }
        }
    }

    pub(super) fn leave(&mut self, outcome: LeaveOutcome) {
        self.stage = Stage::Left;
        self.effects.push(OwnerEffect::Leave(outcome));
    }
}
