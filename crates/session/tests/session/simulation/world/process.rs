//! The shim and its agent: what reaches them, what comes from them, and how they start.

use towpath_session::machine::AgentExit;
use towpath_session::owner::{AttachOutcome, OwnerInput, StartOutcome};
use towpath_session::shim::ShimEvent;
use towpath_session::{CliConversation, SessionOptions};

use super::World;
use crate::simulation::agent_model::{AgentModel, Faults};
use crate::simulation::storage::{Received, SimulatedShim};

impl World {
    /// Lets commands arrive at the shim. Returns whether there were any.
    pub(in crate::simulation) fn deliver_commands(&mut self, most: usize) -> bool {
        let mut delivered = false;
        for _ in 0..most {
            let has_room = !self.chance(60);
            let Some(shim) = self.shim.as_mut().filter(|it| self.connected && !it.stopped) else {
                break;
            };
            let Some(command) = self.in_flight.pop_front() else { break };
            delivered = true;
            if !shim.lives {
                continue;
            }
            match shim.receive(command, self.now, has_room) {
                Received::Line(line) => self.invariants.line_written(&line),
                Received::Kill => self.kill_agent(),
                Received::Nothing => {}
            }
        }
        delivered
    }

    pub(super) fn disconnect(&mut self) {
        self.deliver_commands(usize::MAX);
        self.in_flight.clear();
        self.connected = false;
    }

    /// The connection ends, and some commands with it.
    pub(in crate::simulation) fn lose_connection(&mut self) {
        if !self.connected || !self.core.is_ready() {
            return;
        }
        self.record(|| "the connection is lost".to_owned());
        let some = usize::try_from(self.random.below(4)).expect("a small number");
        self.deliver_commands(some);
        self.connected = false;
        self.in_flight.clear();
        self.take(OwnerInput::Disconnected);
    }

    /// The shim is stopped, or continued.
    pub(in crate::simulation) fn stop_shim(&mut self, stopped: bool) {
        if let Some(shim) = self.shim.as_mut().filter(|shim| shim.lives) {
            shim.stopped = stopped;
        }
    }

    pub(super) fn live_shim(&self) -> Option<&SimulatedShim> {
        self.shim.as_ref().filter(|shim| self.connected && !shim.stopped && self.core.is_ready())
    }

    /// Takes in some of the agent's output or a report. Returns whether there was any.
    pub(in crate::simulation) fn read_output(&mut self, most: u64) -> bool {
        let sent = self.sent;
        let Some(shim) = self.live_shim() else { return false };
        let end = shim.spool.len().min(sent + usize::try_from(most).unwrap_or(usize::MAX));
        if sent < end {
            let bytes = shim.spool[sent..end].to_vec();
            self.sent = end;
            self.last_output = self.now;
            self.take(OwnerInput::Shim(ShimEvent::Output { offset: sent as u64, bytes }));
            return true;
        }
        let Some(shim) = self.shim.as_mut().filter(|it| it.lives && !it.reports.is_empty()) else {
            return false;
        };
        let report = shim.reports.remove(0);
        self.take(OwnerInput::Shim(report));
        true
    }

    /// Takes in the agent's exit after all its output. Returns whether it has exited.
    pub(in crate::simulation) fn read_exit(&mut self) -> bool {
        let sent = self.sent;
        let Some(shim) = self.live_shim() else { return false };
        if !shim.lives {
            self.connected = false;
            self.in_flight.clear();
            self.take(OwnerInput::Disconnected);
            return true;
        }
        let Some(status) = shim.exit_status().filter(|_| shim.spool.len() <= sent) else {
            return false;
        };
        let end = shim.spool.len() as u64;
        // Some may have been written when it was dead already.
        self.orphan_prompts();
        self.take(OwnerInput::Shim(ShimEvent::Exited { status, end }));
        true
    }

    /// Finishes an attempt to attach. Returns whether there was one that could be finished.
    pub(in crate::simulation) fn finish_attach(&mut self) -> bool {
        let Some((run, from)) = self.attaching.filter(|_| self.core.is_ready()) else {
            return false;
        };
        let outcome = match &mut self.shim {
            Some(shim) if shim.lives && shim.stopped => return false,
            Some(shim) if shim.lives && shim.run == run => {
                // What was reported to the last owner is lost, but the last write is reported again.
                shim.reports = vec![ShimEvent::Written(shim.last_write)];
                self.connected = true;
                self.sent = usize::try_from(from).expect("a small number");
                AttachOutcome::Attached { last_write: shim.last_write, pings: self.pings }
            }
            Some(shim) if shim.lives => {
                self.shim = None;
                AttachOutcome::Gone
            }
            _ => AttachOutcome::Gone,
        };
        self.attaching = None;
        self.take(OwnerInput::Attached(outcome));
        true
    }

    pub(super) fn open_leftovers(&mut self, run: u64, from: u64) {
        if let Some(shim) = self.shim.as_mut().filter(|shim| shim.run == run) {
            // The agent of a dead shim is reaped.
            shim.kill();
        }
        self.collect_output();
        self.orphan_prompts();
        self.leftovers = Some(usize::try_from(from).expect("a small number"));
    }

    /// Reads some output of a dead agent. Returns whether there is one.
    pub(in crate::simulation) fn read_leftovers(&mut self, most: u64) -> bool {
        let Some(from) = self.leftovers.filter(|_| self.core.is_ready()) else { return false };
        let run = self.stored.record.spool.run;
        let shim = self.shim.as_ref().filter(|shim| shim.run == run);
        let spool = shim.map_or(&[][..], |shim| &shim.spool);
        let end = spool.len().min(from + usize::try_from(most).unwrap_or(usize::MAX));
        if from < end {
            let bytes = spool[from..end].to_vec();
            self.leftovers = Some(end);
            self.last_output = self.now;
            self.take(OwnerInput::Leftover { offset: from as u64, bytes });
        } else {
            let exit = shim.and_then(|shim| shim.exit().cloned()).unwrap_or(AgentExit::Unknown);
            self.leftovers = None;
            self.take(OwnerInput::LeftoversEnd(exit));
        }
        true
    }

    /// Finishes the start of a process. Returns whether one was being started.
    pub(in crate::simulation) fn finish_start(&mut self) -> bool {
        if !self.core.is_ready() {
            return false;
        }
        let Some((run, conversation, options)) = self.starting.take() else { return false };
        let outcome = if self.chance(8) {
            self.shim = None;
            StartOutcome::Failed("no such file".to_owned())
        } else {
            self.spawn(run, &conversation, options);
            if self.chance(10) {
                self.kill_agent();
                self.shim.as_mut().expect("it was spawned").lives = false;
                StartOutcome::Exited
            } else {
                self.connected = true;
                self.sent = 0;
                self.in_flight.clear();
                StartOutcome::Running { pings: self.pings }
            }
        };
        self.take(OwnerInput::Started(outcome));
        true
    }

    pub(super) fn spawn(
        &mut self,
        run: u64,
        conversation: &CliConversation,
        options: SessionOptions,
    ) {
        let faults = if self.faulty {
            Faults {
                ignores_interrupts: self.random.one_in(6),
                loses_results: self.random.one_in(4),
                never_ready: self.random.one_in(20),
                crashes: self.random.one_in(8),
                loses_prompts: self.random.one_in(8),
            }
        } else {
            Faults::default()
        };
        let mut agent = AgentModel::new(self.generation, faults, options);
        self.settings_unknown = false;
        match conversation {
            CliConversation::New(_) => AgentModel::start_conversation(&mut self.storage),
            _ if !self.storage.saved => agent.fail_to_resume(),
            _ => {}
        }
        self.record(|| format!("a process starts: {conversation:?}, {faults:?}"));
        self.shim = Some(SimulatedShim::new(run, agent));
        self.collect_output();
    }
}
