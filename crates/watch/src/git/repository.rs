//! The repository that a session's commits go to.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::branch_directory::{BranchDirectory, worktree_entries, worktree_path};
use super::{CommitContext, CommitError, CommitSettings, CommitTarget};
use crate::process::{Program, ProgramError, path_from};
use crate::project::{Project, resolve_links};
use crate::stream_event::AgentSessionId;

/// The maximum size of a list of files: more than git prints for a million files.
pub(super) const MAX_OUTPUT: usize = 256 << 20;

/// The age from which an unfinished working tree was left by a process that was killed.
const UNFINISHED_WORKTREE: Duration = Duration::from_mins(1);

/// The files that mark an operation in progress in git's directory.
const OPERATIONS: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

/// Environment variables that would make git use another repository.
const GIT_VARIABLES: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
];

/// The environment variable that makes git take paths literally, not as patterns.
pub(super) const LITERAL_PATHSPECS: &str = "GIT_LITERAL_PATHSPECS";

/// A branch, and the working tree whose files are committed to it.
#[derive(Debug)]
pub(super) struct Repository {
    /// The working tree.
    pub(super) tree: PathBuf,
    /// The directory with `HEAD` and the index.
    pub(super) git_dir: PathBuf,
    /// The path of the project in the working tree.
    pub(super) prefix: PathBuf,
    kind: RepositoryKind,
}

#[derive(Debug)]
enum RepositoryKind {
    /// The branch that the user has checked out, for all sessions.
    CheckedOut,
    /// A branch of the session's own that is not checked out.
    Branch { session: Option<AgentSessionId>, directory: BranchDirectory },
    /// A working tree of the session's own.
    Worktree { session: Option<AgentSessionId> },
}

impl Repository {
    /// Opens the repository for the session of a commit.
    pub(super) async fn open(
        project: &Project,
        settings: &CommitSettings,
        context: &CommitContext,
    ) -> Result<Self, CommitError> {
        let users = Self::around(project.root(), RepositoryKind::CheckedOut, settings).await?;
        let session = context.session.clone();
        match &settings.target {
            CommitTarget::CheckedOut => Ok(users),
            CommitTarget::Branch(branch) => {
                let branch = context.branch(branch);
                let common = users.common(settings).await?;
                let (at, name) = (common.clone(), branch.clone());
                users.create_branch(settings, &branch).await?;
                let open = spawn_blocking(move || BranchDirectory::open(&at, &name));
                let directory = open.await.map_err(io::Error::from)??;
                users.check_not_checked_out(settings, &branch).await?;
                let git_dir = directory.path().to_owned();
                let kind = RepositoryKind::Branch { session, directory };
                let own = Self { git_dir, kind, ..users };
                let reference = format!("refs/heads/{branch}");
                own.remove_stale_locks();
                own.run(settings, ["symbolic-ref", "HEAD", &reference]).await?;
                Ok(own)
            }
            CommitTarget::Worktree { directory, branch } => {
                let branch = context.branch(branch);
                let directory = std::path::absolute(directory)?;
                let path = directory.join(branch.replace('/', "-"));
                users.open_worktree(settings, &branch, &directory, &path).await?;
                let kind = RepositoryKind::Worktree { session };
                let own = Self::around(&path, kind, settings).await?;
                Ok(Self { prefix: users.prefix, ..own })
            }
        }
    }

    /// The repository that contains a directory.
    async fn around(
        directory: &Path,
        kind: RepositoryKind,
        settings: &CommitSettings,
    ) -> Result<Self, CommitError> {
        let query =
            |option| run_in(Program::git().directory(directory), settings, ["rev-parse", option]);
        let tree: PathBuf = path_from(&query("--show-toplevel").await?).into();
        let git_dir = path_from(&query("--absolute-git-dir").await?).into();
        let prefix = directory.strip_prefix(&tree).unwrap_or(Path::new("")).to_owned();
        Ok(Self { tree, git_dir, prefix, kind })
    }

    /// The directory that all working trees of the repository share.
    async fn common(&self, settings: &CommitSettings) -> Result<PathBuf, CommitError> {
        let common = self.run(settings, ["rev-parse", "--git-common-dir"]).await?;
        Ok(self.tree.join(path_from(&common)).canonicalize()?)
    }

    /// Creates a branch at the last commit, unless it exists.
    async fn create_branch(
        &self,
        settings: &CommitSettings,
        branch: &str,
    ) -> Result<(), CommitError> {
        let reference = format!("refs/heads/{branch}");
        let exists = async || -> Result<bool, CommitError> {
            let show = self.git().args(["show-ref", "--verify", "--quiet", &*reference]);
            Ok(show.run(settings.timeout).await?.status.success())
        };
        if exists().await? {
            return Ok(());
        }
        let head = self.head(settings).await?.ok_or(CommitError::NoCommit)?;
        // The empty value means that it must not exist yet.
        let reason = "branch: Created by towpath watch";
        let create = ["update-ref", "-m", reason, &reference, &head, ""];
        match self.run(settings, create).await {
            // Another watcher has created it meanwhile.
            Err(_) if exists().await? => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Git would not notice that the commit that a working tree has checked out changes.
    async fn check_not_checked_out(
        &self,
        settings: &CommitSettings,
        branch: &str,
    ) -> Result<(), CommitError> {
        let list = self.run(settings, ["worktree", "list", "--porcelain"]).await?;
        let list = String::from_utf8_lossy(&list).into_owned();
        let mut path = "";
        for line in list.lines() {
            path = line.strip_prefix("worktree ").unwrap_or(path);
            if line.strip_prefix("branch refs/heads/") == Some(branch) {
                let (branch, path) = (branch.to_owned(), path.to_owned());
                return Err(CommitError::BranchCheckedOut { branch, path });
            }
        }
        Ok(())
    }

    /// Adds the working tree of a session, unless an earlier run has done so.
    async fn open_worktree(
        &self,
        settings: &CommitSettings,
        branch: &str,
        directory: &Path,
        path: &Path,
    ) -> Result<(), CommitError> {
        let common = self.common(settings).await?;
        let resolved = resolve_links(path);
        let is_own = |entry: &PathBuf| {
            worktree_path(entry).is_some_and(|it| it == path || resolve_links(&it) == resolved)
        };
        let entry = worktree_entries(&common).into_iter().find(is_own);
        // This is how git marks a working tree that it has not finished.
        let lock = entry.as_ref().map(|entry| entry.join("locked")).filter(|lock| {
            std::fs::read_to_string(lock).is_ok_and(|reason| reason.trim() == "initializing")
        });
        if let Some(lock) = lock {
            let age = lock.metadata()?.modified()?.elapsed().unwrap_or_default();
            if age < UNFINISHED_WORKTREE {
                return Err(CommitError::Unfinished(path.display().to_string()));
            }
            self.remove_worktree(settings, path).await?;
        } else if entry.is_some() && !path.exists() {
            if !directory.exists() {
                return Err(CommitError::MissingWorktree(path.display().to_string()));
            }
            self.remove_worktree(settings, path).await?;
        } else if path.join(".git").exists() {
            return Ok(());
        }
        self.create_branch(settings, branch).await?;
        let add = ["worktree", "add", "--quiet", "--"].map(OsStr::new);
        let add = add.into_iter().chain([path.as_os_str(), OsStr::new(branch)]);
        self.run(settings, add.collect::<Vec<_>>()).await?;
        Ok(())
    }

    /// Removes a working tree that is locked or whose directory is missing.
    async fn remove_worktree(
        &self,
        settings: &CommitSettings,
        path: &Path,
    ) -> Result<(), CommitError> {
        let remove = ["worktree", "remove", "--force", "--force", "--"].map(OsStr::new);
        let remove = remove.into_iter().chain([path.as_os_str()]);
        self.run(settings, remove.collect::<Vec<_>>()).await?;
        Ok(())
    }

    /// Removes locks of git that can only have been left by a process that was killed.
    pub(super) fn remove_stale_locks(&self) {
        if let RepositoryKind::Branch { directory, .. } = &self.kind {
            directory.remove_stale_locks();
        }
    }

    /// Whether the commits of a session go here.
    pub(super) fn is_for(&self, other: Option<&AgentSessionId>) -> bool {
        match &self.kind {
            RepositoryKind::CheckedOut => true,
            RepositoryKind::Branch { session, .. } | RepositoryKind::Worktree { session } => {
                session.as_ref() == other
            }
        }
    }

    /// Whether files must be copied here before they are committed.
    pub(super) fn needs_copy(&self) -> bool {
        matches!(self.kind, RepositoryKind::Worktree { .. })
    }

    /// Whether there is an index that the user sees.
    pub(super) fn has_index(&self) -> bool {
        !matches!(self.kind, RepositoryKind::Branch { .. })
    }

    /// Git for this branch and working tree.
    pub(super) fn git(&self) -> Program {
        let git =
            without_git_variables(Program::git()).directory(&self.tree).env(LITERAL_PATHSPECS, "1");
        git.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.tree)
    }

    pub(super) async fn run<S: AsRef<OsStr>>(
        &self,
        settings: &CommitSettings,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Vec<u8>, ProgramError> {
        run_git(self.git(), settings, arguments).await
    }

    /// The commit that is checked out; `None` before the first one.
    pub(super) async fn head(
        &self,
        settings: &CommitSettings,
    ) -> Result<Option<String>, CommitError> {
        let git = self.git().args(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        let output = git.run(settings.timeout).await?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(output.status.success().then_some(id))
    }

    /// The operation that git is in the middle of.
    pub(super) fn operation_in_progress(&self) -> Option<&'static str> {
        OPERATIONS.iter().find(|(file, _)| self.git_dir.join(file).exists()).map(|(_, name)| *name)
    }

    /// Removes what is only needed while commits are made.
    pub(super) fn close(self) {
        if let RepositoryKind::Branch { directory, .. } = self.kind {
            directory.close();
        }
    }
}

async fn run_in<const N: usize>(
    git: Program,
    settings: &CommitSettings,
    arguments: [&str; N],
) -> Result<Vec<u8>, ProgramError> {
    run_git(without_git_variables(git), settings, arguments).await
}

pub(super) async fn run_git<S: AsRef<OsStr>>(
    git: Program,
    settings: &CommitSettings,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>, ProgramError> {
    let arguments: Vec<S> = arguments.into_iter().collect();
    let subcommand = arguments.first().map(|it| it.as_ref().to_string_lossy().into_owned());
    let name = format!("git {}", subcommand.unwrap_or_default());
    let git = git.max_output(MAX_OUTPUT).args(arguments).named(name);
    git.run_checked(settings.timeout).await
}

fn without_git_variables(git: Program) -> Program {
    GIT_VARIABLES.into_iter().fold(git, Program::without_env)
}

pub(super) async fn run_with_input(
    git: Program,
    settings: &CommitSettings,
    arguments: &[&str],
    stdin: Vec<u8>,
) -> Result<(), CommitError> {
    let name = format!("git {}", arguments[0]);
    git.args(arguments).named(name).stdin(stdin).run_checked(settings.timeout).await?;
    Ok(())
}
