//! Lines of a session file that were imported before Towpath drove the session.
//!
//! They are folded like the file itself: there are no notes about their turns, and a new prompt begins a
//! new turn. After the last one the turn ends, and nothing in it is open any more.

use serde::{Deserialize, Serialize};
use wire::event::Body as EventBody;
use wire::{Line, Reading};

use super::{Fold, Visibility};

/// The entries that were imported, as the note in front of them says. The export of a journal does not
/// say where each line is from.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct ImportedEntries {
    /// The note.
    after: u64,
    /// The last one.
    last: u64,
    /// The highest number that an imported turn may have; 0 if that is not known.
    turns: u64,
    /// The last one is not folded yet.
    is_open: bool,
}

impl ImportedEntries {
    pub(super) fn has_entry(self, seq: u64) -> bool {
        (self.after + 1..=self.last).contains(&seq)
    }
}

impl Fold {
    /// The next entries are imported.
    pub(super) fn begin_import(&mut self, entries: u64, turns: u64) {
        let after = self.entry.seq;
        let last = after.saturating_add(entries);
        self.import = ImportedEntries { after, last, turns, is_open: entries > 0 };
    }

    /// Folds an object of an imported line.
    pub(super) fn push_imported(&mut self, seq: u64, line: &Line<'_>) -> Visibility {
        let has_notes = std::mem::replace(&mut self.turns.has_notes, false);
        self.entry.imported = true;
        let belongs = belongs_to_history(line);
        let visibility =
            self.push(seq, None, |fold| if belongs { fold.line(line) } else { Visibility::Hidden });
        if seq == self.import.last {
            let at = self.entry.at;
            self.push(seq, at, |fold| {
                fold.close_turn(None);
                Visibility::Visible
            });
            self.import.is_open = false;
        }
        self.entry.imported = false;
        self.turns.has_notes = has_notes;
        visibility
    }

    /// Ends an import of which entries are missing, because the journal was damaged.
    pub(super) fn abandon_import(&mut self) {
        if std::mem::take(&mut self.import.is_open) {
            self.import.last = self.entry.seq;
            self.close_turn(None);
        }
    }

    /// The number of a new turn. The numbers after those of the imported turns are Towpath's.
    pub(super) fn limit_imported_turn(&self, number: u64) -> u64 {
        match self.import.turns {
            limit @ 1.. if self.entry.imported => number.min(limit),
            _ => number,
        }
    }
}

/// Whether a line says what happened. No request of an earlier process is open, and no turn of it
/// runs.
fn belongs_to_history(line: &Line<'_>) -> bool {
    match &line.reading {
        Reading::Event(event) => matches!(
            event.body,
            EventBody::Assistant(_)
                | EventBody::User(_)
                | EventBody::System(_)
                | EventBody::Record(_)
        ),
        Reading::Unknown(_) | Reading::Mismatch(_) | Reading::Noise(_) => false,
    }
}
