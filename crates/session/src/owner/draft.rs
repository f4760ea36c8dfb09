//! What one step decided: a batch for the journal, and what may leave once that is written.

use bytes::Bytes;
use journal::{Batch, Grant, NewEntry, Origin, Outbound, SpoolMark, Status};
use wire::note::Note;

use crate::machine::{Effect, Reply, Start, Ticket};

/// How long a title made of a prompt gets.
const TITLE_LENGTH: usize = 60;

/// The batch in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    batch: Batch,
    grants: Vec<Grant>,
    after: Vec<After>,
    /// How many lines the agent has in its pipe, which need not be kept any longer. Worth writing
    /// down only with something else.
    delivered: Option<u64>,
    /// Whether anything happened at all.
    touched: bool,
}

/// What may leave once the batch is written.
#[derive(Debug)]
pub(super) enum After {
    Say { number: u64, bytes: Vec<u8> },
    End { patience: u64 },
    Kill,
    Reply(Ticket, Reply),
    Start(Start),
    Settle,
}

impl Draft {
    /// A line of the agent.
    pub(super) fn line(&mut self, bytes: &[u8], transient: bool) {
        self.touched = true;
        let bytes = Bytes::copy_from_slice(bytes);
        self.batch.entries.push(NewEntry { origin: Origin::Agent, bytes, transient });
    }

    /// Something the machine wants; `write` is the number a word to the agent goes by.
    pub(super) fn take(&mut self, effect: Effect, write: u64, titled: &mut bool) {
        self.touched = true;
        match effect {
            Effect::Note(note) => {
                self.note(&note);
                match note {
                    Note::TurnBegan { turn, .. } => self.batch.change.turn = Some(turn),
                    Note::TurnOver { turn, .. } => self.batch.change.turn_over = Some(turn),
                    _ => {}
                }
                if let Note::PromptQueued { text, .. } = &note
                    && !*titled
                    && let Some(title) = title_of(text)
                {
                    *titled = true;
                    self.note(&Note::Named { title: title.clone() });
                    self.batch.change.title = Some(title);
                }
            }
            Effect::Prompt(record) => self.batch.prompts.push(record),
            Effect::Request(record) => self.batch.requests.push(record),
            Effect::Grant(grant) => self.grants.push(grant),
            Effect::Options(options) => {
                self.batch.change.options = Some(options.to_json());
            }
            Effect::Say(saying) => {
                let bytes = saying.into_bytes();
                let line = Bytes::copy_from_slice(&bytes);
                self.batch.outbound.push(Outbound { number: write, bytes: line });
                self.after.push(After::Say { number: write, bytes });
            }
            Effect::Start(start) => self.after.push(After::Start(start)),
            Effect::End { patience } => self.after.push(After::End { patience }),
            Effect::Kill => self.after.push(After::Kill),
            Effect::Reply(ticket, reply) => self.after.push(After::Reply(ticket, reply)),
            Effect::Settle => self.after.push(After::Settle),
        }
    }

    fn note(&mut self, note: &Note) {
        let bytes = note.to_line().into();
        self.batch.entries.push(NewEntry { origin: Origin::Towpath, bytes, transient: false });
    }

    pub(super) fn conversation(&mut self, id: &str) {
        self.batch.change.agent_id = Some(id.to_owned());
    }

    pub(super) fn written(&mut self, number: u64) {
        self.delivered = Some(number);
    }

    pub(super) fn status(&mut self, status: Option<Status>) {
        self.touched |= status.is_some();
        self.batch.change.status = status;
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.touched
    }

    /// What is to be written, and what comes after.
    pub(super) fn finish(
        &mut self,
        at: u64,
        spool: SpoolMark,
        writes: u64,
    ) -> (Batch, Vec<Grant>, Vec<After>) {
        let Self { mut batch, grants, after, delivered, .. } = std::mem::take(self);
        batch.at = at;
        batch.change.spool = Some(spool);
        if !batch.outbound.is_empty() {
            batch.change.writes = Some(writes);
        }
        batch.change.delivered = delivered;
        (batch, grants, after)
    }

    /// Another process begins, with a count of its own.
    pub(super) fn run_begins(&mut self) {
        self.touched = true;
        // Nothing that was said to another process is of any use to this one.
        self.delivered = Some(u64::MAX >> 1);
        self.batch.change.writes = Some(0);
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
    fn a_title_is_the_first_words_of_the_first_prompt() {
        assert_eq!(title_of("\n  fix it \nplease").as_deref(), Some("fix it"));
        assert_eq!(title_of(" \n"), None);
        let long = "word ".repeat(30);
        let title = title_of(&long).unwrap();
        assert!(title.ends_with("word…") && title.chars().count() <= 61, "{title}");
    }
}
