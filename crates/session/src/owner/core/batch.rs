//! The decisions of one step: a batch for the journal, and what may leave once it is written.

use std::time::Duration;

use bytes::Bytes;
use journal::{Batch, Grant, NewEntry, Origin, OutboundLine, SessionStatus, SpoolPosition};
use uuid::Uuid;
use wire::note::Note;
use wire::outgoing::OutgoingLine;

use crate::command::CommandResult;
use crate::config::HookRequest;
use crate::machine::{CommandId, Effect};
use crate::options::CliConversation;
use crate::shim::{AgentSignal, ShimCommand};

/// The length of a title made from a prompt, in characters.
const TITLE_LENGTH: usize = 60;

/// A batch that is not written yet.
#[derive(Debug, Default)]
pub(super) struct PendingBatch {
    batch: Batch,
    outgoing: Vec<Outgoing>,
    /// The number of the last line in the agent's pipe. Earlier lines need not be stored any
    /// longer. That alone is not worth a write.
    delivered: Option<u64>,
    /// Whether there is something to write.
    durable: bool,
}

/// What may leave once the batch is written.
#[derive(Debug)]
pub(super) enum Outgoing {
    Shim(ShimCommand),
    Reply(CommandId, CommandResult),
    Start { run: u64, conversation: CliConversation },
    RemoveRun(u64),
    Compact,
    RunHook(Box<HookRequest>),
    LoadDayCost(u64),
}

impl PendingBatch {
    /// Adds a line of the agent.
    pub(super) fn add_line(&mut self, bytes: Bytes, transient: bool) {
        self.durable = true;
        self.batch.entries.push(NewEntry { origin: Origin::Agent, bytes, transient });
    }

    /// The line that was added last goes on in the next one.
    pub(super) fn mark_unfinished(&mut self) {
        self.batch.unfinished.extend(self.batch.entries.len().checked_sub(1));
    }

    /// Adds a line for the agent with its number.
    pub(super) fn add_write(&mut self, line: OutgoingLine, number: u64) {
        self.durable = true;
        let bytes = line.into_bytes();
        let line = Bytes::copy_from_slice(&bytes);
        self.batch.outbound.push(OutboundLine { number, bytes: line });
        self.outgoing.push(Outgoing::Shim(ShimCommand::Write { number, bytes }));
    }

    /// Records a line for the agent as an entry.
    pub(super) fn add_sent(&mut self, line: &OutgoingLine) {
        self.durable = true;
        let bytes = Bytes::copy_from_slice(line.as_str().as_bytes());
        self.batch.entries.push(NewEntry { origin: Origin::Sent, bytes, transient: false });
    }

    pub(super) fn set_agent_state(&mut self, state: String) {
        self.durable = true;
        self.batch.change.agent_state = Some(state);
    }

    /// Adds an effect of the machine. The core has taken out starts, grants and messages to the agent.
    pub(super) fn add_effect(&mut self, effect: Effect, titled: &mut bool) {
        let outgoing = match effect {
            Effect::Stop { timeout } => {
                Outgoing::Shim(ShimCommand::Stop { timeout: Duration::from_millis(timeout) })
            }
            Effect::Kill => Outgoing::Shim(ShimCommand::Signal(AgentSignal::Kill)),
            Effect::Reply(id, result) => Outgoing::Reply(id, result),
            Effect::Compact => Outgoing::Compact,
            Effect::RunHook(hook) => Outgoing::RunHook(hook),
            Effect::LoadDayCost(day) => Outgoing::LoadDayCost(day),
            stored => return self.add_record(stored, titled),
        };
        self.outgoing.push(outgoing);
    }

    fn add_record(&mut self, effect: Effect, titled: &mut bool) {
        self.durable = true;
        match effect {
            Effect::Note(note) => {
                self.add_note(&note);
                match &note {
                    Note::TurnStarted { turn, .. } => self.batch.change.turn = Some(*turn),
                    Note::TurnEnded { turn, .. } => self.batch.change.turn_ended = Some(*turn),
                    Note::PromptQueued { text, .. } if !*titled => {
                        if let Some(title) = title_of(text) {
                            *titled = true;
                            self.add_note(&Note::TitleChanged { title: title.clone() });
                            self.batch.change.title = Some(title);
                        }
                    }
                    _ => {}
                }
            }
            Effect::Prompt(record) => self.batch.prompts.push(record),
            Effect::Request(record) => self.batch.requests.push(record),
            Effect::AddCost(cost) => self.batch.cost += cost,
            Effect::Options(options) => self.batch.change.options = Some(options.to_json()),
            _ => {}
        }
    }

    /// Adds a grant. It is stored together with the answer that gave it, or not at all.
    pub(super) fn add_grant(&mut self, grant: Grant, id: Uuid) {
        self.durable = true;
        self.batch.grants.push(Grant { id, ..grant });
    }

    /// Adds what may leave once the batch is written.
    pub(super) fn add_outgoing(&mut self, outgoing: Outgoing) {
        self.outgoing.push(outgoing);
    }

    pub(super) fn add_note(&mut self, note: &Note) {
        self.durable = true;
        let bytes = note.to_line().into();
        self.batch.entries.push(NewEntry { origin: Origin::Towpath, bytes, transient: false });
    }

    pub(super) fn set_conversation(&mut self, id: &str) {
        self.batch.change.agent_id = Some(id.to_owned());
    }

    pub(super) fn set_delivered(&mut self, number: u64) {
        self.delivered = Some(number);
    }

    pub(super) fn set_status(&mut self, status: Option<SessionStatus>) {
        self.durable |= status.is_some();
        self.batch.change.status = status;
    }

    /// Starts the counts of a new process.
    pub(super) fn start_run(&mut self) {
        self.durable = true;
        debug_assert!(self.batch.outbound.is_empty(), "there is no process to write to");
        // No line that was meant for another process may be sent to this one.
        self.delivered = Some(u64::MAX >> 1);
        self.batch.change.writes = Some(0);
    }

    /// Takes the batch, if there is something to write.
    pub(super) fn take_batch(
        &mut self,
        at: u64,
        spool: SpoolPosition,
        writes: u64,
    ) -> Option<Batch> {
        if !std::mem::take(&mut self.durable) {
            return None;
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.at = at;
        batch.change.spool = Some(spool);
        if !batch.outbound.is_empty() {
            batch.change.writes = Some(writes);
        }
        batch.change.delivered = self.delivered.take();
        Some(batch)
    }

    /// Takes what may leave once the batch is written.
    pub(super) fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }
}

/// The first line of a prompt, shortened at a word.
fn title_of(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    if line.chars().count() <= TITLE_LENGTH {
        return Some(line.to_owned());
    }
    let cut: String = line.chars().take(TITLE_LENGTH).collect();
    let words = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    Some(format!("{words}…"))
}

#[cfg(test)]
mod tests {
    use super::title_of;

    #[test]
    fn a_title_is_the_start_of_the_first_prompt() {
        assert_eq!(title_of("\n  fix it \nplease").as_deref(), Some("fix it"));
        assert_eq!(title_of(" \n"), None);
        let long = "word ".repeat(30);
        let title = title_of(&long).unwrap();
        assert!(title.ends_with("word…") && title.chars().count() <= 61, "{title}");
    }
}
