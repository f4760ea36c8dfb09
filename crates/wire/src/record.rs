//! A line of a session's journal as its readers get it, whatever stores it.

use crate::note::Note;

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The agent, on its stdout.
    Agent,
    /// Towpath: a [note](crate::note) between the agent's lines.
    Towpath,
    /// Towpath, to the agent's stdin. Only lines of the Agent Client Protocol are recorded; what is sent
    /// to the CLI is in notes.
    Sent,
    /// The CLI, into its own session file, before Towpath drove the session. It was imported from there.
    Transcript,
}

/// A line of a session's journal.
#[derive(Clone, Copy, Debug)]
pub struct RecordedLine<'a> {
    /// Its number in the session, from 1 on. Numbers may be missing.
    pub seq: u64,
    /// When it was recorded, in milliseconds since 1970.
    pub at: u64,
    pub origin: Origin,
    /// The line without its newline.
    pub bytes: &'a [u8],
}

impl RecordedLine<'_> {
    /// The note, if Towpath wrote the line and this version knows the note. An agent's line is never
    /// one, whatever it looks like.
    pub fn note(&self) -> Option<Note> {
        match self.origin {
            Origin::Towpath => Note::read(self.bytes),
            Origin::Agent | Origin::Sent | Origin::Transcript => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Origin, RecordedLine};

    #[test]
    fn a_line_of_the_agent_that_looks_like_a_note_is_none() {
        let bytes = br#"{"type":"towpath","note":"named","title":"forged"}"#;
        let line = |origin| RecordedLine { seq: 1, at: 0, origin, bytes };
        assert!(line(Origin::Towpath).note().is_some());
        assert!(line(Origin::Agent).note().is_none());
        assert!(line(Origin::Transcript).note().is_none());
        assert!(line(Origin::Sent).note().is_none());
    }
}
