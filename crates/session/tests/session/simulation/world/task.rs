//! What the owner's task does: performing effects, storing batches, passing on commands.

use std::collections::VecDeque;

use journal::{Batch, Origin};
use serde_json::Value;
use towpath_session::machine::CommandId;
use towpath_session::owner::{OwnerEffect, OwnerInput, WriteFailure};
use towpath_session::shim::ShimCommand;
use towpath_session::{CommandOutput, LeaveOutcome, SessionCommand};
use wire::note::{ExitCause, Note, Outcome, PromptState};
use wire::outgoing::JsonObject;

use super::World;
use crate::simulation::agent_model::Generation;

impl World {
    pub(super) fn take(&mut self, input: OwnerInput) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.record(|| format!("> {input:?}"));
            // A slow write keeps deadlines waiting, but a tick passes them all.
            let passes = self.core.is_ready() && !self.paused && matches!(input, OwnerInput::Tick);
            let effects = self.core.on(self.clock(), input);
            if passes && self.core.is_ready() {
                assert_ne!(self.pause(), Some(0), "a deadline is left at {}", self.now);
            }
            for effect in effects {
                self.record(|| format!("    {effect:?}"));
                if self.chance(self.crashes) {
                    self.record(|| "towpath dies before that".to_owned());
                    return self.die();
                }
                inputs.extend(self.perform(effect));
                if self.down {
                    return;
                }
            }
        }
        self.taking_over &= !self.core.is_settled();
        if self.writing.is_some() && !self.chance(12) {
            self.finish_write();
        }
    }

    pub(super) fn perform(&mut self, effect: OwnerEffect) -> Option<OwnerInput> {
        match effect {
            OwnerEffect::Write(batch) => {
                assert!(self.writing.is_none(), "two writes at once");
                if !std::mem::take(&mut self.refused) {
                    self.check_silence(&batch);
                }
                self.writing = Some(batch);
            }
            OwnerEffect::LoadGrants { .. } => {
                let (mut grants, linked) = (self.stored.grants.clone(), Vec::new());
                if self.chance(20) {
                    // They cannot be read, so a person is asked.
                    grants.clear();
                }
                return Some(OwnerInput::Grants { grants, linked });
            }
            OwnerEffect::LoadDayCost { .. } | OwnerEffect::LoadOutbound if self.chance(40) => {
                self.record(|| "that cannot be read, and the owner ends".to_owned());
                self.die();
            }
            OwnerEffect::LoadDayCost { day } => {
                // Other sessions go on too.
                let others = if self.random.one_in(3) { 0.4 } else { 0.0 };
                let cost = self.stored.costs.entry(day).or_default();
                *cost += others;
                self.loaded = Some((day, *cost));
                return Some(OwnerInput::DayCost(*cost));
            }
            OwnerEffect::LoadOutbound => return Some(OwnerInput::Outbound(self.stored.lines())),
            OwnerEffect::Send(command) => {
                self.check_command(&command);
                self.in_flight.push_back(command);
            }
            OwnerEffect::Reply(id, result) => {
                self.invariants.command_replied(id);
                if let Some(at) = self.prompted.iter().position(|(it, _)| *it == id)
                    && let (_, prompt) = self.prompted.swap_remove(at)
                    && let Ok(CommandOutput::Prompt(_)) = result
                {
                    let stored = self.stored.prompts.contains_key(&prompt);
                    assert!(stored, "{prompt} was confirmed and is not stored");
                }
            }
            OwnerEffect::Start { run, conversation } => {
                assert_eq!(self.stored.record.spool.run, run, "a run that is not stored");
                assert!(self.starting.is_none(), "two starts at once");
                let options = self.core.machine().options().clone();
                self.starting = Some((run, conversation, options));
            }
            OwnerEffect::Attach { run, from } => self.attaching = Some((run, from)),
            OwnerEffect::ReadLeftovers { run, from } => self.open_leftovers(run, from),
            OwnerEffect::Disconnect => self.disconnect(),
            OwnerEffect::RemoveRun(run) => {
                self.shim = self.shim.take().filter(|shim| shim.run != run);
            }
            OwnerEffect::Compact(upto) => assert!(upto <= self.stored.record.last),
            OwnerEffect::RunHook(hook) => {
                let stored = self.stored.requests.contains_key(&hook.request);
                assert!(stored, "a hook that is not stored");
                self.hooks.push(*hook);
            }
            OwnerEffect::Leave(outcome) => {
                assert!(outcome == LeaveOutcome::Stored || self.faulty, "not stored");
                if let Some((run, conversation, options)) = self.starting.take() {
                    self.spawn(run, &conversation, options);
                }
                self.deliver_commands(usize::MAX);
                self.die();
            }
        }
        None
    }

    /// Nothing reaches the shim before it is in the journal.
    pub(super) fn check_command(&self, command: &ShimCommand) {
        let stored = &self.stored;
        match command {
            ShimCommand::Write { number, bytes } => {
                let line = stored.outbound.get(number);
                assert!(
                    line.is_some_and(|line| line == bytes),
                    "line {number} is not in the journal"
                );
                assert!(*number <= stored.record.writes, "line {number} is not counted");
            }
            ShimCommand::Acknowledge(offset) => {
                assert_eq!(*offset, stored.record.spool.offset, "output that is not stored");
            }
            ShimCommand::Ping(_) => assert!(self.pings, "a ping for a shim that knows none"),
            _ => {}
        }
    }

    /// Finishes a write, or fails to. Returns whether there was one.
    pub(in crate::simulation) fn finish_write(&mut self) -> bool {
        let Some(batch) = self.writing.take() else { return false };
        if self.disk_is_full || self.chance(25) {
            let full = self.disk_is_full || self.random.one_in(2);
            let failure = if full { WriteFailure::Full } else { WriteFailure::Busy };
            self.refused = true;
            self.take(OwnerInput::Written(Err(failure)));
            return true;
        }
        let last = self.store(&batch);
        if self.chance(self.crashes) {
            self.record(|| "towpath dies after it has stored that".to_owned());
            self.die();
        } else {
            self.take(OwnerInput::Written(Ok(last)));
        }
        true
    }

    pub(super) fn store(&mut self, batch: &Batch) -> journal::Seq {
        let last = self.stored.write(batch);
        let notes: Vec<Note> = notes(batch).collect();
        let remembered = notes.iter().filter(|note| {
            let outcome = Outcome::AllowedAndRemembered;
            matches!(note, Note::RequestResolved { outcome: it, .. } if *it == outcome)
        });
        assert_eq!(remembered.count(), batch.grants.len(), "grants come with their answers");
        let restarted =
            |note: &Note| matches!(note, Note::AgentExited { cause: ExitCause::Restarted });
        if notes.iter().any(restarted) {
            // A prompt that the agent dropped is given up, which may be what a restart waited for.
            let given_up = batch.prompts.iter().find(|it| {
                let dropped = self.storage.dropped.contains(&it.id);
                it.state == PromptState::Indeterminate && !dropped
            });
            assert!(given_up.is_none() || self.timed_out, "restarted with {given_up:?}");
        }
        for (note, later) in notes.iter().zip(self.costs_after_notes(batch)) {
            self.invariants.check_budget(note, &self.stored, later, self.limits, self.loaded);
            self.check_end_of_prompt(note, batch.at);
            self.invariants.note(note);
        }
        self.invariants.check_batch();
        self.check_cost(batch);
        self.invariants.check_status(self.stored.record.status);
        last
    }

    /// For each note of a batch, how much of its cost the agent reported after that note.
    fn costs_after_notes(&self, batch: &Batch) -> Vec<f64> {
        let mut reported = self.reported.unwrap_or(0.0);
        let mut costs = Vec::new();
        for entry in &batch.entries {
            if entry.origin == Origin::Towpath {
                costs.push(0.0);
                continue;
            }
            let line = serde_json::from_slice::<Value>(&entry.bytes).unwrap_or_default();
            let Some(total) = line["total_cost_usd"].as_f64() else { continue };
            // A lower total is that of a new conversation.
            let new = if total < reported { total } else { total - reported };
            reported = total;
            for cost in &mut costs {
                *cost += new;
            }
        }
        costs.iter().map(|cost| cost.min(batch.cost)).collect()
    }

    /// What the agent reports is counted once, whatever happens in between.
    fn check_cost(&mut self, batch: &Batch) {
        let options: Value = serde_json::from_str(&self.stored.record.options).expect("JSON");
        let total = options["spending"]["total"].as_f64().unwrap_or(0.0);
        let stored = self.stored.cost;
        assert!((total - stored).abs() < 1e-6, "{total} is stored, and {stored} for the days");
        let lines = batch.entries.iter().filter(|entry| entry.origin == Origin::Agent);
        for line in lines.filter_map(|entry| serde_json::from_slice::<Value>(&entry.bytes).ok()) {
            self.reported = line["total_cost_usd"].as_f64().or(self.reported);
        }
        if self.generation == Generation::New && self.storage.conversations == 1 {
            let reported = self.reported.unwrap_or(0.0);
            assert!((total - reported).abs() < 1e-6, "{total} is stored, and {reported} reported");
        }
    }

    /// A turn is not reported as stalled too early.
    pub(super) fn check_silence(&mut self, batch: &Batch) {
        for note in notes(batch) {
            match note {
                Note::RequestResolved { .. } => self.last_output = self.now,
                Note::Stalled { .. } if !self.paused => {
                    let silence = self.now - self.last_output;
                    assert!(silence >= self.limits.stall, "stalled after {silence} ms");
                }
                _ => {}
            }
        }
    }

    /// A prompt is not done before the agent has started with it, and an agent that has a prompt is
    /// not parked.
    pub(super) fn check_end_of_prompt(&self, note: &Note, at: u64) {
        match note {
            Note::PromptStateChanged { prompt, state: PromptState::Done } => {
                let runs = self.storage.runs.get(prompt).copied().unwrap_or(0);
                // 2.1.37 does not report whether it started a turn by itself.
                let loses = self.shim.as_ref().is_some_and(|it| it.agent.faults.loses_results);
                // Only the Towpath that gave up waiting for a result knows that it is late.
                let excused = self.timed_out
                    || self.generation == Generation::Old
                    || loses && self.deaths > 0;
                assert!(runs > 0 || excused, "{prompt} is done and was not started");
            }
            Note::AgentExited { cause: ExitCause::Parked } => {
                let mut ends = self.stored.prompts.values().filter(|it| it.changed == at);
                let lost = ends.find(|it| {
                    let dropped = self.storage.dropped.contains(&it.id);
                    it.state == PromptState::Indeterminate && !dropped
                });
                assert!(lost.is_none() || self.timed_out, "parked with {lost:?}");
            }
            _ => {}
        }
    }

    /// A user sends a command.
    pub(in crate::simulation) fn command(&mut self, command: SessionCommand) {
        self.commands += 1;
        let id = CommandId(self.commands);
        self.invariants.command_sent(id);
        if let SessionCommand::Prompt(prompt) = &command {
            self.prompted.push((id, prompt.id));
        }
        self.take(OwnerInput::Command { id, command: Box::new(command) });
    }

    /// A hook that runs ends. Returns whether there is one.
    pub(in crate::simulation) fn finish_hook(&mut self) -> bool {
        if !self.takes_commands() || !self.core.is_ready() || self.hooks.is_empty() {
            return false;
        }
        let one = self.random.below(self.hooks.len() as u64);
        let hook = self.hooks.swap_remove(usize::try_from(one).expect("a small number"));
        let output = self.random.one_in(2).then(JsonObject::empty);
        self.command(SessionCommand::AnswerHook { request: hook.request, output });
        true
    }

    pub(in crate::simulation) fn tick(&mut self) {
        self.take(OwnerInput::Tick);
    }

    pub(in crate::simulation) fn release(&mut self) {
        self.record(|| "towpath is asked to leave".to_owned());
        self.take(OwnerInput::Leave);
    }
}

fn notes(batch: &Batch) -> impl Iterator<Item = Note> {
    let notes = batch.entries.iter().filter(|entry| entry.origin == Origin::Towpath);
    notes.map(|entry| Note::read(&entry.bytes).expect("a note"))
}
