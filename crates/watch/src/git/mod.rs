//! Commits of what the agent changed, and of nothing else.
//!
//! Everything goes through the `git` program, so the user's configuration, filters and hooks apply.
//! A commit is prepared in an index of its own: what the user has staged, and what they changed in
//! other files, stays as it is. Only the entries of the files that were committed are brought up to
//! date in the user's index, and only where the user had staged nothing in them.

mod commit;
mod message;
mod repository;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::delivery::DeliveryResult;
use crate::log_line::LogLine;
use crate::process::ProgramError;
use crate::project::{Project, ProjectFile};
use crate::report::{EntryNumber, ReportStatus};
use crate::settings::ActionTrigger;
use crate::workers::WorkerEvent;

pub(crate) use message::CommitOccasion;
pub use message::{DEFAULT_MESSAGE, DEFAULT_TRAILERS};
use repository::Repository;

/// What commits are called where targets are named.
pub(crate) const NAME: &str = "git";

/// How many commits may wait to be made; one more is not made, which is reported.
pub(crate) const WAITING: usize = 256;

/// How often is tried what fails because somebody else holds a lock.
const ATTEMPTS: u32 = 6;

/// How long is waited after the first of them; after each further one, twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether and how changes are committed.
#[derive(Clone, Debug)]
pub struct CommitSettings {
    /// How many changes go into a commit.
    pub every: ActionTrigger,
    /// The message, with `{summary}`, `{prompt}`, `{session}`, `{files}`, `{tool}` and `{count}`
    /// filled in. A line whose word is empty is left out.
    pub message: String,
    /// Lines like `Key: value` below it, filled in the same way.
    pub trailers: Vec<String>,
    /// The author, as `Name <address>`, if not the user.
    pub author: Option<String>,
    /// Where commits go.
    pub place: CommitTarget,
    /// How long `git` may take, with the user's hooks.
    pub limit: Duration,
}

impl Default for CommitSettings {
    fn default() -> Self {
        Self {
            every: ActionTrigger::Turn,
            message: DEFAULT_MESSAGE.to_owned(),
            trailers: DEFAULT_TRAILERS.map(str::to_owned).to_vec(),
            author: None,
            place: CommitTarget::Here,
            limit: Duration::from_mins(2),
        }
    }
}

/// Where commits go.
#[derive(Clone, Debug)]
pub enum CommitTarget {
    /// The branch that is checked out.
    Here,
    /// A branch of its own for each session, which need not be checked out. The name is filled in
    /// as a message is.
    Branch(String),
    /// A working tree of its own for each session, below this directory, on such a branch.
    Worktree {
        /// The directory.
        below: PathBuf,
        /// The branch.
        branch: String,
    },
}

/// A commit to be made.
#[derive(Debug)]
pub(crate) struct CommitJob {
    pub(crate) files: Vec<(ProjectFile, EntryNumber)>,
    pub(crate) occasion: CommitOccasion,
}

/// The task that commits.
pub(crate) struct Committer {
    pub(crate) settings: CommitSettings,
    pub(crate) project: Project,
    pub(crate) jobs: mpsc::Receiver<CommitJob>,
    pub(crate) done: mpsc::Sender<WorkerEvent>,
    pub(crate) log: mpsc::Sender<LogLine>,
}

/// Why nothing was committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Git(#[from] ProgramError),
    #[error("could not prepare a commit: {0}")]
    Prepare(#[from] std::io::Error),
    #[error("{0} is under way")]
    UnderWay(&'static str),
    #[error("there is no commit yet to branch from")]
    Unborn,
    #[error("could not bring it to the working tree: {0}")]
    Carry(String),
}

/// What became of the files of a job.
pub(crate) struct Committed {
    /// The commit and its first line, if there was anything to commit.
    pub(crate) commit: Option<(String, String)>,
    /// Files that git ignores.
    pub(crate) ignored: Vec<ProjectFile>,
}

impl Committer {
    /// Commits until no more jobs come; the commits that were made.
    pub(crate) async fn run(mut self) -> Vec<String> {
        let mut commits = Vec::new();
        let mut stages: Vec<Repository> = Vec::new();
        while let Some(job) = self.jobs.recv().await {
            let outcome = self.commit(&mut stages, &job).await;
            if let Ok(Committed { commit: Some((id, _)), .. }) = &outcome {
                commits.push(id.clone());
            }
            self.report(job, outcome).await;
        }
        for stage in stages {
            stage.leave(&self.settings).await;
        }
        commits
    }

    async fn commit(
        &self,
        stages: &mut Vec<Repository>,
        job: &CommitJob,
    ) -> Result<Committed, Error> {
        let session = &job.occasion.session;
        let known = stages.iter().position(|stage| stage.is_for(session.as_ref()));
        if known.is_none() {
            stages.push(Repository::enter(&self.project, &self.settings, &job.occasion).await?);
        }
        let stage = &stages[known.unwrap_or(stages.len() - 1)];
        let files: Vec<ProjectFile> = job.files.iter().map(|(file, _)| file.clone()).collect();
        let mut attempt = 1;
        loop {
            let outcome = stage.commit(&self.settings, &self.project, &files, &job.occasion).await;
            match outcome {
                Err(error) if attempt < ATTEMPTS && error.is_a_lock() => {
                    tokio::time::sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn report(&self, job: CommitJob, outcome: Result<Committed, Error>) {
        let say = async |line| drop(self.log.send(line).await);
        let settle = async |entries: Vec<EntryNumber>, status, reason: Option<String>| {
            let delivery = DeliveryResult { entries, status, reason };
            let _ = self.done.send(WorkerEvent::Delivered(delivery)).await;
        };
        let Committed { commit, ignored } = match outcome {
            Ok(committed) => committed,
            Err(error) => {
                let reason = error.to_string();
                let status = match error {
                    Error::UnderWay(_) => ReportStatus::Skipped,
                    _ => ReportStatus::Failed,
                };
                let files = job.files.len();
                say(LogLine::Problem(format!("nothing was committed of {files}: {reason}"))).await;
                let entries = job.files.into_iter().map(|(_, entry)| entry).collect();
                return settle(entries, status, Some(reason)).await;
            }
        };
        let (left_out, taken): (Vec<_>, Vec<_>) =
            job.files.into_iter().partition(|(file, _)| ignored.contains(file));
        for (file, entry) in left_out {
            let path = file.relative.to_string_lossy().into_owned();
            let reason = "git ignores it".to_owned();
            say(LogLine::Skipped { path, reason: reason.clone() }).await;
            settle(vec![entry], ReportStatus::Skipped, Some(reason)).await;
        }
        let count = taken.len();
        let entries = taken.into_iter().map(|(_, entry)| entry).collect();
        if let Some((commit, subject)) = commit {
            say(LogLine::Committed { commit, subject, files: count }).await;
            settle(entries, ReportStatus::Pushed, None).await;
        } else {
            let reason = "it is as it was committed".to_owned();
            settle(entries, ReportStatus::Skipped, Some(reason)).await;
        }
    }
}

impl Error {
    /// Whether somebody else was at it, as an agent that uses git itself is.
    fn is_a_lock(&self) -> bool {
        matches!(self, Self::Git(ProgramError::Failed { said, .. })
            if said.contains(".lock") || said.contains("cannot lock ref"))
    }
}
