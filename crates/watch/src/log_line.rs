//! Log lines for the user, written to stderr by the command.

use std::fmt;
use std::path::PathBuf;

/// How much somebody wants to hear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Only what went wrong.
    Quiet,
    /// What was done, too.
    #[default]
    Normal,
    /// Everything.
    Verbose,
}

/// Something worth a line.
#[derive(Clone, Debug)]
pub enum LogLine {
    /// The directory that is watched.
    Watching(PathBuf),
    /// A file is going to be changed.
    Announced { tool: String, path: String },
    /// A file arrived at a target.
    Pushed { path: PathBuf, target: String, note: Option<String> },
    /// A large file is on its way.
    Progress { path: PathBuf, target: String, done: u64, total: u64 },
    /// It did not work, and is tried again.
    Retrying { path: PathBuf, target: String, reason: String },
    /// Nothing is done with a change.
    Skipped { path: String, reason: String },
    /// It did not work, and is not tried again.
    Failed { path: String, target: String, reason: String },
    /// A call never had a result.
    Unfinished { tool: String, path: String },
    /// A commit was made.
    Committed { commit: String, subject: String, files: usize },
    /// Somebody wants us to stop.
    Stopping,
    /// Everything up to a milestone is done with.
    Passed(u64),
    /// Something else went wrong.
    Problem(String),
}

impl LogLine {
    /// Who hears it.
    pub fn verbosity(&self) -> Verbosity {
        match self {
            Self::Failed { .. } | Self::Problem(_) => Verbosity::Quiet,
            Self::Pushed { .. }
            | Self::Progress { .. }
            | Self::Skipped { .. }
            | Self::Unfinished { .. }
            | Self::Committed { .. }
            | Self::Stopping => Verbosity::Normal,
            Self::Watching(_)
            | Self::Announced { .. }
            | Self::Retrying { .. }
            | Self::Passed(_) => Verbosity::Verbose,
        }
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watching(root) => write!(f, "watching {}", root.display()),
            Self::Announced { tool, path } => write!(f, "{tool} is going to change {path}"),
            Self::Pushed { path, target, note } => {
                write!(f, "{} → {target}", path.display())?;
                note.as_ref().map_or(Ok(()), |note| write!(f, " ({note})"))
            }
            Self::Progress { path, target, done, total } => {
                let percent = done * 100 / (*total).max(1);
                write!(f, "{} → {target}: {percent} % of {} MB", path.display(), total / 1_000_000)
            }
            Self::Retrying { path, target, reason } => {
                write!(f, "{} → {target}: {reason}; trying again", path.display())
            }
            Self::Skipped { path, reason } => write!(f, "skipped {path}: {reason}"),
            Self::Failed { path, target, reason } => {
                write!(f, "failed {path} → {target}: {reason}")
            }
            Self::Unfinished { tool, path } => {
                write!(f, "{tool} of {path} never came to a result")
            }
            Self::Committed { commit, subject, files } => {
                let plural = if *files == 1 { "" } else { "s" };
                write!(f, "committed {commit} {subject} ({files} file{plural})")
            }
            Self::Stopping => f.write_str("stopping once what is under way is done"),
            Self::Passed(place) => write!(f, "done up to {place}"),
            Self::Problem(what) => f.write_str(what),
        }
    }
}
