//! The journal that is meant.

use anstream::eprintln;
use journal::{Journal, Mended};
use session::Home;

use super::Settings;

impl Settings {
    /// Opens the journal; says so where it had to be mended.
    pub(crate) fn journal(&self) -> Result<Journal, journal::Error> {
        let opening = Journal::open(&Home::journal(&self.data))?;
        if let Some(mended) = &opening.mended {
            eprintln!("note: {}", what_was_mended(mended));
        }
        Ok(opening.journal)
    }
}

/// What was done to a damaged journal.
pub(crate) fn what_was_mended(mended: &Mended) -> String {
    let Mended { fault, backup, sessions, entries, .. } = mended;
    let backup = backup.display();
    format!(
        "the journal was damaged ({fault}); {sessions} sessions with {entries} entries could be read, \
         and the damaged file is kept as `{backup}`"
    )
}
