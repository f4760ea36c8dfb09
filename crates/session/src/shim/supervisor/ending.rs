//! After the agent has exited: killing what it left, recording the end of the run, and leaving.

use std::io::{self, Read as _};
use std::net::Shutdown as SocketShutdown;
use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, WaitStatus};

use super::agent_process::PipeRead;
use super::{DRAIN_TIMEOUT, OWNER_STALL_TIMEOUT, RecordState, Supervisor, SupervisorPhase};
use crate::shim::launch::{ExitStatus, RunEnd};
use crate::shim::protocol::AgentSignal;

/// How often the end of a run is written at most, a second apart.
const RECORD_ATTEMPTS: u32 = 60;

/// How long an owner that has received everything may take to disconnect.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(2);

impl Supervisor {
    /// Reaps exited children, including the agent.
    pub(super) fn reap(&mut self, now: Instant) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get() == self.agent.id
                && matches!(self.phase, SupervisorPhase::Running)
            {
                self.agent.drop_stdin();
                self.tree.remove_agent();
                let until = now + DRAIN_TIMEOUT;
                self.phase = SupervisorPhase::Draining { exit: exit_status(status), until };
            }
        }
    }

    /// After the agent's exit: drains its output, then records the end of the run.
    pub(super) fn advance_end(&mut self, now: Instant) {
        if let SupervisorPhase::Draining { exit, until } = self.phase
            && self.is_drained(now, until)
        {
            self.agent.drop_output();
            let end = RunEnd { exit, end: self.spool.end() };
            let record = RecordState::Due { at: now, attempts: RECORD_ATTEMPTS };
            self.phase = SupervisorPhase::Ended { end, record };
        }
        if let SupervisorPhase::Ended { end, record: RecordState::Due { at, attempts } } =
            self.phase
            && at <= now
        {
            let record = match self.record_end(&end) {
                // Without its directory the session is deleted, and there is nothing to record.
                Err(error) if attempts > 1 && error.kind() != io::ErrorKind::NotFound => {
                    RecordState::Due { at: now + Duration::from_secs(1), attempts: attempts - 1 }
                }
                Ok(()) | Err(_) => RecordState::Done,
            };
            self.phase = SupervisorPhase::Ended { end, record };
        }
    }

    /// Kills what the agent left and reads its output. Returns whether that is complete.
    fn is_drained(&mut self, now: Instant, until: Instant) -> bool {
        let alone = self.tree.members().is_empty();
        if !alone {
            self.tree.signal(AgentSignal::Kill);
            self.reap(now);
        }
        while self.stuck.is_none() && matches!(self.read_stdout(now), PipeRead::Bytes(_)) {}
        while matches!(self.read_stderr(), PipeRead::Bytes(_)) {}
        if self.stuck.is_some() {
            // On a full disk the output is kept in memory as long as an owner may still come for
            // it.
            return self.lease.total_end().is_some_and(|end| end <= now);
        }
        (alone && self.agent.stdout.is_none()) || until <= now
    }

    fn record_end(&mut self, end: &RunEnd) -> io::Result<()> {
        self.live.write_stderr_tail(self.run, self.stderr.bytes())?;
        self.live.write_run_end(self.run, end)
    }

    /// Whether the end of the run is recorded and the owner knows it, or a terminated shim has
    /// waited long enough for that.
    pub(super) fn is_done(&self, now: Instant) -> bool {
        if self.leave_at.is_some_and(|at| at <= now) {
            return true;
        }
        let SupervisorPhase::Ended { record: RecordState::Done, .. } = &self.phase else {
            return false;
        };
        self.owner.as_ref().is_none_or(|owner| {
            owner.is_complete() || owner.last_progress + OWNER_STALL_TIMEOUT <= now
        })
    }

    /// Exits: accepts no new owner, and lets the current one read the end before the socket closes.
    pub(super) fn exit(self) {
        if !matches!(self.phase, SupervisorPhase::Ended { .. }) {
            // It was terminated and leaves early. The next owner reads what is in the spool.
            self.tree.signal(AgentSignal::Kill);
        }
        self.listener.remove();
        drop(self.lock);
        let Some(owner) = self.owner else { return };
        let mut socket = owner.socket;
        let _ = socket.shutdown(SocketShutdown::Write);
        let _ = socket.set_nonblocking(false);
        let _ = socket.set_read_timeout(Some(DISCONNECT_TIMEOUT));
        let deadline = Instant::now() + DISCONNECT_TIMEOUT;
        let mut chunk = [0; 4096];
        while matches!(socket.read(&mut chunk), Ok(read) if read > 0) && Instant::now() < deadline {
        }
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        (None, None) => ExitStatus::Unknown,
    }
}
