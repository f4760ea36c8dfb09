//! Commits of the files that the agent changed and nothing else.
//!
//! Everything goes through the `git` program, so the user's configuration, filters and hooks apply.
//! A commit is prepared in a temporary index. What the user has staged or changed in other files is not
//! touched. In the user's index only the entries of the committed files are updated, and only if the
//! user had not staged changes of them. See [`staging`] for the order of these steps.

mod branch_directory;
mod commit;
mod message;
mod repository;
mod staging;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::delivery::DeliveryResult;
use crate::process::ProgramError;
use crate::project::{Project, ProjectFile};
use crate::report::{EntryNumber, LogLine, ReportStatus};
use crate::settings::ActionTrigger;
use crate::workers::WorkerEvent;

pub(crate) use message::CommitContext;
pub use message::{DEFAULT_MESSAGE, DEFAULT_TRAILERS};
use repository::Repository;

/// The name of commits among the targets of the report.
pub(crate) const NAME: &str = "git";

/// How many commits may wait. Further ones are dropped and reported.
pub(crate) const MAX_WAITING: usize = 256;

/// How often a commit is tried while another process holds a lock of git: for about 20 s.
const ATTEMPTS: u32 = 14;

/// The delay after the first attempt. It doubles after each further one.
const LOCK_DELAY: Duration = Duration::from_millis(100);
const MAX_LOCK_DELAY: Duration = Duration::from_secs(2);

/// How changes are committed.
#[derive(Clone, Debug)]
pub struct CommitSettings {
    /// Whether each change is a commit, or each turn.
    pub trigger: ActionTrigger,
    /// The template of the message, with the placeholders `{summary}`, `{prompt}`, `{session}`,
    /// `{files}`, `{tool}` and `{count}`. A line whose placeholders are all empty is left out.
    pub message: String,
    /// Templates of trailers: lines like `Key: value` below the message.
    pub trailers: Vec<String>,
    /// The author as `Name <address>`; by default the user.
    pub author: Option<String>,
    pub target: CommitTarget,
    /// The time limit of one call of `git`, including the user's hooks.
    pub timeout: Duration,
}

impl Default for CommitSettings {
    fn default() -> Self {
        Self {
            trigger: ActionTrigger::Turn,
            message: DEFAULT_MESSAGE.to_owned(),
            trailers: DEFAULT_TRAILERS.map(str::to_owned).to_vec(),
            author: None,
            target: CommitTarget::CheckedOut,
            timeout: Duration::from_mins(2),
        }
    }
}

/// Where commits go.
#[derive(Clone, Debug)]
pub enum CommitTarget {
    /// The branch that is checked out.
    CheckedOut,
    /// A branch for each session, which is not checked out. This is a template of its name.
    Branch(String),
    /// A working tree for each session, below this directory, on such a branch.
    Worktree { directory: PathBuf, branch: String },
}

/// A commit to make.
#[derive(Debug)]
pub(crate) struct CommitJob {
    pub(crate) files: Vec<(ProjectFile, EntryNumber)>,
    pub(crate) context: CommitContext,
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
pub(crate) enum CommitError {
    #[error(transparent)]
    Git(#[from] ProgramError),
    #[error("could not prepare the commit: {0}")]
    Prepare(#[from] std::io::Error),
    #[error("another process committed at the same time")]
    Moved,
    #[error("another commit takes too long; look for a git hook that hangs")]
    Busy,
    #[error("{0} is in progress")]
    InProgress(&'static str),
    #[error("the branch `{branch}` is checked out at `{path}`; check out another one there")]
    BranchCheckedOut { branch: String, path: String },
    #[error(
        "process {process} commits to the branch `{branch}`, and only one may; this one commits as \
         soon as that has ended, or to another branch"
    )]
    BranchInUse { branch: String, process: String },
    #[error("git has not finished the working tree `{0}`")]
    Unfinished(String),
    #[error(
        "the working tree `{0}` is missing; mount its disk, or remove it with `git worktree remove`"
    )]
    MissingWorktree(String),
    #[error("the repository has no commit to branch from")]
    NoCommit,
    #[error("could not copy the file to the working tree: {0}")]
    Copy(String),
}

pub(crate) struct CommitOutcome {
    /// The id and first line of the commit; `None` if there was nothing to commit.
    pub(crate) commit: Option<(String, String)>,
    /// Files that git ignores.
    pub(crate) ignored: Vec<ProjectFile>,
}

impl Committer {
    /// Commits until the channel is closed. Returns the ids of the commits.
    pub(crate) async fn run(mut self) -> Vec<String> {
        let mut commits = Vec::new();
        let mut repositories: Vec<Repository> = Vec::new();
        while let Some(job) = self.jobs.recv().await {
            let outcome = self.commit(&mut repositories, &job).await;
            if let Ok(CommitOutcome { commit: Some((id, _)), .. }) = &outcome {
                commits.push(id.clone());
            }
            self.report(job, outcome).await;
        }
        for repository in repositories {
            repository.close();
        }
        commits
    }

    async fn commit(
        &self,
        repositories: &mut Vec<Repository>,
        job: &CommitJob,
    ) -> Result<CommitOutcome, CommitError> {
        let files: Vec<ProjectFile> = job.files.iter().map(|(file, _)| file.clone()).collect();
        let mut attempt = 1;
        loop {
            let outcome = self.try_commit(repositories, &files, &job.context).await;
            match outcome {
                Err(error) if attempt < ATTEMPTS && error.is_temporary() => {
                    let delay = LOCK_DELAY.saturating_mul(2_u32.pow(attempt - 1));
                    tokio::time::sleep(delay.min(MAX_LOCK_DELAY)).await;
                    repositories.iter().for_each(Repository::remove_stale_locks);
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_commit(
        &self,
        repositories: &mut Vec<Repository>,
        files: &[ProjectFile],
        context: &CommitContext,
    ) -> Result<CommitOutcome, CommitError> {
        let is_known = |it: &Repository| it.is_for(context.session.as_ref());
        let known = repositories.iter().position(is_known);
        if known.is_none() {
            let repository = Repository::open(&self.project, &self.settings, context).await?;
            repositories.push(repository);
        }
        let repository = &repositories[known.unwrap_or(repositories.len() - 1)];
        repository.commit(&self.settings, &self.project, files, context).await
    }

    async fn report(&self, job: CommitJob, outcome: Result<CommitOutcome, CommitError>) {
        let log = async |line| drop(self.log.send(line).await);
        let finish = async |entries: Vec<EntryNumber>, status, reason: Option<String>| {
            let delivery = DeliveryResult { entries, status, reason };
            let _ = self.done.send(WorkerEvent::DeliveryFinished(delivery)).await;
        };
        let CommitOutcome { commit, ignored } = match outcome {
            Ok(committed) => committed,
            Err(error) => {
                let reason = error.to_string();
                let status = match error {
                    CommitError::InProgress(_) => ReportStatus::Skipped,
                    _ => ReportStatus::Failed,
                };
                let files = match job.files.len() {
                    1 => "1 file".to_owned(),
                    count => format!("{count} files"),
                };
                log(LogLine::Problem(format!("could not commit {files}: {reason}"))).await;
                let entries = job.files.into_iter().map(|(_, entry)| entry).collect();
                return finish(entries, status, Some(reason)).await;
            }
        };
        let (left_out, included): (Vec<_>, Vec<_>) =
            job.files.into_iter().partition(|(file, _)| ignored.contains(file));
        for (file, entry) in left_out {
            let path = file.relative.to_string_lossy().into_owned();
            let reason = "ignored by git".to_owned();
            log(LogLine::Skipped { path, reason: reason.clone() }).await;
            finish(vec![entry], ReportStatus::Skipped, Some(reason)).await;
        }
        let count = included.len();
        let entries = included.into_iter().map(|(_, entry)| entry).collect();
        if let Some((commit, subject)) = commit {
            log(LogLine::Committed { commit, subject, files: count }).await;
            finish(entries, ReportStatus::Pushed, None).await;
        } else {
            let reason = "unchanged since the last commit".to_owned();
            finish(entries, ReportStatus::Skipped, Some(reason)).await;
        }
    }
}

impl CommitError {
    /// Whether another process held a lock or committed, as an agent does that uses git itself.
    fn is_temporary(&self) -> bool {
        match self {
            Self::Moved | Self::Unfinished(_) => true,
            Self::Git(ProgramError::Failed { message, .. }) => {
                message.contains(".lock") || message.contains("cannot lock ref")
            }
            _ => false,
        }
    }
}
