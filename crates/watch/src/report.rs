//! What a watch reports: log lines while it runs, a report at the end, and checkpoints.
//!
//! A checkpoint is a position in a persistent record that is logged once everything before it is done.
//! A process that follows such a record stores the last one: what lies before it need not be read again
//! after a restart. A pipe has no checkpoints.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::stream_event::Change;

/// The result of every change.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// One entry for each change and target.
    pub changes: Vec<ReportEntry>,
    /// How many turns ended.
    pub turns: u64,
    /// How many bytes were copied.
    pub bytes: u64,
    /// The commits that were made, oldest first.
    pub commits: Vec<String>,
    /// Lines that were too long to read, even abridged. A change in one of them was missed.
    pub unread: u64,
    /// Hooks that failed, or did not run because too many were waiting.
    pub failed_hooks: u64,
    /// Sessions whose id is no UUID, and the ids that GitButler got for them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub gitbutler_sessions: BTreeMap<String, String>,
    /// How many entries were removed from the front of `changes`.
    #[serde(skip)]
    discarded: usize,
}

/// The result of one change at one target.
#[derive(Clone, Debug, Serialize)]
pub struct ReportEntry {
    /// Relative to the project, or as the model wrote it if the file is outside.
    pub path: String,
    pub tool: String,
    pub session: Option<String>,
    pub status: ReportStatus,
    pub target: Option<String>,
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReportStatus {
    /// The file arrived at the target.
    Pushed,
    /// There was nothing to do.
    Skipped,
    /// The file did not arrive and will not be retried.
    Failed,
    /// The call never got a result.
    Unfinished,
}

/// The number of an entry, which does not change when older entries are discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryNumber(usize);

impl Report {
    /// Whether every delivery succeeded.
    pub fn is_success(&self) -> bool {
        self.count(ReportStatus::Failed) == 0
    }

    /// How many entries have this status.
    pub fn count(&self, status: ReportStatus) -> usize {
        self.changes.iter().filter(|entry| entry.status == status).count()
    }

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
        EntryNumber(self.discarded + self.changes.len() - 1)
    }

    /// The number of the next entry.
    pub(crate) fn next(&self) -> EntryNumber {
        EntryNumber(self.discarded + self.changes.len())
    }

    /// Removes the entries before one.
    pub(crate) fn discard(&mut self, before: EntryNumber) {
        let count = before.0.saturating_sub(self.discarded).min(self.changes.len());
        self.changes.drain(..count);
        self.discarded += count;
    }

    /// Adds a delivery in progress. It counts as failed until [`finish`](Self::finish) is called.
    pub(crate) fn add_pending(
        &mut self,
        path: &Path,
        change: &Change,
        target: &str,
    ) -> EntryNumber {
        let path = path.to_string_lossy().into_owned();
        let reason = Some("not finished in time".to_owned());
        self.add(path, change, Some(target.to_owned()), ReportStatus::Failed, reason)
    }

    pub(crate) fn finish(
        &mut self,
        entry: EntryNumber,
        status: ReportStatus,
        reason: Option<String>,
    ) {
        let index = entry.0.checked_sub(self.discarded);
        if let Some(entry) = index.and_then(|index| self.changes.get_mut(index)) {
            (entry.status, entry.reason) = (status, reason);
        }
    }
}

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only errors.
    Quiet,
    /// Also what was done.
    #[default]
    Normal,
    /// Everything.
    Verbose,
}

/// A log line for the user.
#[derive(Clone, Debug)]
pub enum LogLine {
    /// The directory that is watched.
    Watching(PathBuf),
    /// A file is about to change.
    Announced {
        tool: String,
        path: String,
    },
    /// A file arrived at a target.
    Pushed {
        path: PathBuf,
        target: String,
        note: Option<String>,
    },
    /// The upload of a large file continues.
    Progress {
        path: PathBuf,
        target: String,
        done: u64,
        total: u64,
    },
    /// A delivery failed and is retried.
    Retrying {
        path: PathBuf,
        target: String,
        reason: String,
    },
    /// A change needs no action.
    Skipped {
        path: String,
        reason: String,
    },
    /// A delivery failed and is not retried.
    Failed {
        path: String,
        target: String,
        reason: String,
    },
    /// A call never got a result.
    Unfinished {
        tool: String,
        path: String,
    },
    Committed {
        commit: String,
        subject: String,
        files: usize,
    },
    /// A hook ran.
    Hook {
        text: String,
        path: Option<String>,
    },
    /// Something to know that is no problem.
    Note(String),
    /// The command was asked to stop.
    Stopping,
    /// Everything up to this position is done.
    Checkpoint(u64),
    /// Any other problem.
    Problem(String),
}

impl LogLine {
    /// The lowest verbosity at which the line is shown.
    pub fn verbosity(&self) -> Verbosity {
        match self {
            Self::Failed { .. } | Self::Problem(_) => Verbosity::Quiet,
            Self::Pushed { .. }
            | Self::Progress { .. }
            | Self::Skipped { .. }
            | Self::Unfinished { .. }
            | Self::Committed { .. }
            | Self::Note(_)
            | Self::Stopping => Verbosity::Normal,
            Self::Watching(_)
            | Self::Announced { .. }
            | Self::Retrying { .. }
            | Self::Hook { .. }
            | Self::Checkpoint(_) => Verbosity::Verbose,
        }
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watching(root) => write!(f, "watching {}", root.display()),
            Self::Announced { tool, path } => write!(f, "{tool} is about to change {path}"),
            Self::Pushed { path, target, note } => {
                write!(f, "{} → {target}", path.display())?;
                note.as_ref().map_or(Ok(()), |note| write!(f, " ({note})"))
            }
            Self::Progress { path, target, done, total } => {
                let percent = done * 100 / (*total).max(1);
                write!(f, "{} → {target}: {percent} % of {} MB", path.display(), total / 1_000_000)
            }
            Self::Retrying { path, target, reason } => {
                write!(f, "{} → {target}: {reason}; retrying", path.display())
            }
            Self::Skipped { path, reason } => write!(f, "skipped {path}: {reason}"),
            Self::Failed { path, target, reason } => {
                write!(f, "failed {path} → {target}: {reason}")
            }
            Self::Unfinished { tool, path } => write!(f, "{tool} {path}: no result received"),
            Self::Committed { commit, subject, files } => {
                let plural = if *files == 1 { "" } else { "s" };
                write!(f, "committed {commit} {subject} ({files} file{plural})")
            }
            Self::Stopping => f.write_str("stopping after the work in progress"),
            Self::Checkpoint(position) => write!(f, "done up to {position}"),
            Self::Problem(text) | Self::Note(text) | Self::Hook { text, .. } => f.write_str(text),
        }
    }
}

/// The work in progress, and the checkpoints that wait for it.
#[derive(Debug, Default)]
pub(crate) struct CompletionTracker {
    pending: VecDeque<PendingCheckpoint>,
    /// Entries of the report without a result.
    open: BTreeSet<EntryNumber>,
    hooks_started: u64,
    hooks_finished: u64,
}

#[derive(Debug)]
struct PendingCheckpoint {
    position: u64,
    /// The first entry of the report after it.
    entry: EntryNumber,
    /// How many hooks were started before it.
    hooks: u64,
}

impl CompletionTracker {
    pub(crate) fn start(&mut self, entry: EntryNumber) {
        self.open.insert(entry);
    }

    pub(crate) fn finish(&mut self, entry: EntryNumber) {
        self.open.remove(&entry);
    }

    pub(crate) fn start_hook(&mut self) {
        self.hooks_started += 1;
    }

    pub(crate) fn finish_hook(&mut self) {
        self.hooks_finished += 1;
    }

    /// Adds a checkpoint at this position; `entry` is the next one of the report.
    pub(crate) fn add(&mut self, position: u64, entry: EntryNumber) {
        self.pending.push_back(PendingCheckpoint { position, entry, hooks: self.hooks_started });
    }

    /// The last checkpoint that was completed since the previous call, and the first entry after it.
    pub(crate) fn completed(&mut self) -> Option<(u64, EntryNumber)> {
        let mut completed = None;
        while let Some(next) = self.pending.front() {
            let waits = self.open.first().is_some_and(|open| *open < next.entry);
            if waits || self.hooks_finished < next.hooks {
                break;
            }
            completed = Some((next.position, next.entry));
            self.pending.pop_front();
        }
        completed
    }
}

#[cfg(test)]
mod tests {
    use super::{CompletionTracker, EntryNumber};

    #[test]
    fn a_checkpoint_is_completed_when_everything_before_it_is() {
        let mut tracker = CompletionTracker::default();
        let entry = EntryNumber;
        tracker.add(1, entry(0));
        assert_eq!(tracker.completed(), Some((1, entry(0))));
        tracker.start(entry(0));
        tracker.start(entry(1));
        tracker.add(2, entry(2));
        tracker.start(entry(2));
        tracker.start_hook();
        tracker.add(3, entry(3));
        tracker.finish(entry(2));
        tracker.finish(entry(0));
        assert_eq!(tracker.completed(), None);
        tracker.finish(entry(1));
        assert_eq!(tracker.completed(), Some((2, entry(2))));
        assert_eq!(tracker.completed(), None, "a hook still runs");
        tracker.finish_hook();
        assert_eq!(tracker.completed(), Some((3, entry(3))));
        assert_eq!(tracker.completed(), None);
    }
}
