//! What came of every change, for the end and for `--report`.

use std::path::Path;

use serde::Serialize;

use crate::stream_event::Change;

/// What came of all of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// ActionTrigger change, once for each place it was to go to.
    pub changes: Vec<ReportEntry>,
    /// How many turns ended.
    pub turns: u64,
    /// How many bytes were passed on.
    pub bytes: u64,
    /// Commits that were made, oldest first.
    pub commits: Vec<String>,
    /// Lines that were too long to be read, even abridged; a change in one of them was missed.
    pub unread: u64,
    /// Hooks that failed, or were not run because too many waited.
    pub failed_hooks: u64,
    /// How many entries are no longer here, because nobody will ask for them.
    #[serde(skip)]
    forgotten: usize,
}

/// What came of one change at one target.
#[derive(Clone, Debug, Serialize)]
pub struct ReportEntry {
    /// Below the project, or as the model wrote it where it is not there.
    pub path: String,
    /// The tool.
    pub tool: String,
    /// The session.
    pub session: Option<String>,
    /// What came of it.
    pub status: ReportStatus,
    /// Where it was to go; nothing where it was to go nowhere.
    pub target: Option<String>,
    /// Why, where there is a why.
    pub reason: Option<String>,
}

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportStatus {
    /// It arrived.
    Pushed,
    /// There was nothing to do.
    Skipped,
    /// It did not arrive, and never will.
    Failed,
    /// The call never had a result.
    Unfinished,
}

/// Which entry of a report something is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryNumber(usize);

#[cfg(test)]
impl EntryNumber {
    pub(crate) fn new(number: usize) -> Self {
        Self(number)
    }
}

impl Report {
    /// Whether everything that should have arrived did.
    pub fn is_good(&self) -> bool {
        self.count(ReportStatus::Failed) == 0
    }

    /// How many entries have a status.
    pub fn count(&self, status: ReportStatus) -> usize {
        self.changes.iter().filter(|entry| entry.status == status).count()
    }

    /// Notes a change of which something is already known.
    pub(crate) fn add(
        &mut self,
        path: String,
        change: &Change,
        target: Option<String>,
        status: ReportStatus,
        reason: Option<String>,
    ) -> EntryNumber {
        let session = change.session.as_ref().map(ToString::to_string);
        let tool = change.tool.clone();
        self.changes.push(ReportEntry { path, tool, session, status, target, reason });
        EntryNumber(self.forgotten + self.changes.len() - 1)
    }

    /// The number that the next entry will have.
    pub(crate) fn next(&self) -> EntryNumber {
        EntryNumber(self.forgotten + self.changes.len())
    }

    /// Forgets the entries before one.
    pub(crate) fn forget(&mut self, before: EntryNumber) {
        let some = before.0.saturating_sub(self.forgotten).min(self.changes.len());
        self.changes.drain(..some);
        self.forgotten += some;
    }

    /// Notes a change that is on its way: until it is known to have arrived, it has not.
    pub(crate) fn send(&mut self, path: &Path, change: &Change, target: &str) -> EntryNumber {
        let path = path.to_string_lossy().into_owned();
        let reason = Some("no time was left for it".to_owned());
        self.add(path, change, Some(target.to_owned()), ReportStatus::Failed, reason)
    }

    pub(crate) fn settle(
        &mut self,
        entry: EntryNumber,
        status: ReportStatus,
        reason: Option<String>,
    ) {
        let place = entry.0.checked_sub(self.forgotten);
        if let Some(entry) = place.and_then(|place| self.changes.get_mut(place)) {
            (entry.status, entry.reason) = (status, reason);
        }
    }
}
