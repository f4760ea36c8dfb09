//! What clients see of a repository.

use std::path::Path;

use project::git::{
    Branch, Commit, CommitFile, FileChangeKind, FileStatus, GitStatus, LinkedWorktree, RepoPath,
};
use serde::Serialize;
use utoipa::ToSchema;

/// How many changed files are listed.
const MAX_FILES: usize = 5000;

/// The state of a repository.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitStatus)]
pub(in crate::api) struct GitStatusResponse {
    /// The top directory of the working tree.
    top: String,
    /// None if `HEAD` is detached.
    branch: Option<String>,
    /// The id of the last commit; none in an empty repository.
    commit: Option<String>,
    upstream: Option<String>,
    /// Commits that the upstream branch does not have.
    ahead: u64,
    /// Commits that only the upstream branch has.
    behind: u64,
    /// The first changed files.
    files: Vec<GitFileResponse>,
    /// How many changed files there are, as far as they were counted.
    total: usize,
    /// The working tree, if it is not the main one of its repository.
    worktree: Option<GitWorktreeResponse>,
    /// A message for the next commit: what the last turn was asked to do.
    message: Option<String>,
}

/// A file that differs from the last commit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitFile)]
pub(in crate::api) struct GitFileResponse {
    /// Names the file in other requests.
    key: String,
    /// Its path to show, relative to the top.
    path: String,
    /// The key it had before it was renamed or copied.
    from: Option<String>,
    /// How the index differs from the last commit.
    staged: Option<GitFileState>,
    /// How the working tree differs from the index.
    unstaged: Option<GitFileState>,
    submodule: bool,
}

/// How a file differs.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::api) enum GitFileState {
    Modified,
    Added,
    Deleted,
    Renamed,
    Copied,
    TypeChanged,
    Untracked,
    Conflicted,
}

/// A working tree that is not the main one.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitWorktree)]
pub(in crate::api) struct GitWorktreeResponse {
    pub(in crate::api) path: String,
    /// The main working tree.
    pub(in crate::api) main: String,
    pub(in crate::api) branch: Option<String>,
}

/// What has changed in a file.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = GitDiff)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own for the page")]
pub(in crate::api) struct GitDiffResponse {
    pub(super) binary: bool,
    /// Whether the file is new.
    pub(super) added: bool,
    /// Whether the file is gone.
    pub(super) deleted: bool,
    /// The mode before, if it has changed.
    pub(super) old_mode: Option<String>,
    pub(super) new_mode: Option<String>,
    /// Lines that were added and removed, as far as the diff was read.
    pub(super) lines_added: usize,
    pub(super) lines_removed: usize,
    pub(super) hunks: Vec<GitHunkResponse>,
    /// How many hunks are left out, because the diff is too long.
    pub(super) hidden_hunks: usize,
    /// Whether the diff was too long to be read to its end.
    pub(super) cut: bool,
}

/// Adjacent lines that differ.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitHunk)]
pub(in crate::api) struct GitHunkResponse {
    /// Names the hunk in other requests; none if only the whole file can be changed.
    pub(super) id: Option<String>,
    /// What it is in: a function, for example.
    pub(super) heading: String,
    pub(super) old_start: usize,
    pub(super) new_start: usize,
    pub(super) added: usize,
    pub(super) removed: usize,
    /// Its first lines.
    pub(super) html: String,
}

/// Commits, the newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitLog)]
pub(in crate::api) struct GitLogResponse {
    commits: Vec<GitCommitResponse>,
    /// Whether there are older ones.
    more: bool,
}

/// A commit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitCommit)]
pub(in crate::api) struct GitCommitResponse {
    id: String,
    parents: Vec<String>,
    author: String,
    /// When it was written, in milliseconds since 1970.
    at: i64,
    /// Branches and tags that point to it.
    names: Vec<String>,
    /// The first line of its message.
    subject: String,
    /// The rest of its message.
    body: String,
}

/// A commit, and what it changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitCommitDetails)]
pub(in crate::api) struct GitCommitDetailsResponse {
    commit: GitCommitResponse,
    files: Vec<GitCommitFileResponse>,
    /// How many files it changed.
    total: usize,
}

/// A file that a commit changed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitCommitFile)]
pub(in crate::api) struct GitCommitFileResponse {
    key: String,
    path: String,
    from: Option<String>,
    state: GitFileState,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitBranches)]
pub(in crate::api) struct GitBranchesResponse {
    branches: Vec<GitBranchResponse>,
}

/// A branch, here or at a remote repository.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitBranch)]
pub(in crate::api) struct GitBranchResponse {
    name: String,
    remote: bool,
    current: bool,
    upstream: Option<String>,
    /// When its last commit was made, in milliseconds since 1970.
    at: i64,
    subject: String,
    /// Whether a working tree has it checked out.
    checked_out: bool,
}

/// What git said about a change, and the state after it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GitChange)]
pub(in crate::api) struct GitChangeResponse {
    pub(super) said: String,
    pub(super) status: GitStatusResponse,
}

impl GitStatusResponse {
    pub(super) fn new(
        top: &Path,
        status: GitStatus,
        worktree: Option<LinkedWorktree>,
        message: Option<String>,
    ) -> Self {
        Self {
            top: top.to_string_lossy().into_owned(),
            branch: status.branch,
            commit: status.commit,
            upstream: status.upstream,
            ahead: status.ahead,
            behind: status.behind,
            total: status.files.len(),
            files: status.files.iter().take(MAX_FILES).map(GitFileResponse::from).collect(),
            worktree: worktree.map(GitWorktreeResponse::from),
            message,
        }
    }
}

impl From<LinkedWorktree> for GitWorktreeResponse {
    fn from(it: LinkedWorktree) -> Self {
        let text = |it: &Path| it.to_string_lossy().into_owned();
        Self { path: text(&it.path), main: text(&it.main), branch: it.branch }
    }
}

impl From<&FileStatus> for GitFileResponse {
    fn from(it: &FileStatus) -> Self {
        Self {
            key: it.path.key(),
            path: it.path.text(),
            from: it.from.as_ref().map(RepoPath::key),
            staged: it.staged.map(GitFileState::from),
            unstaged: it.unstaged.map(GitFileState::from),
            submodule: it.submodule,
        }
    }
}

impl From<FileChangeKind> for GitFileState {
    fn from(state: FileChangeKind) -> Self {
        match state {
            FileChangeKind::Modified => Self::Modified,
            FileChangeKind::Added => Self::Added,
            FileChangeKind::Deleted => Self::Deleted,
            FileChangeKind::Renamed => Self::Renamed,
            FileChangeKind::Copied => Self::Copied,
            FileChangeKind::TypeChanged => Self::TypeChanged,
            FileChangeKind::Untracked => Self::Untracked,
            FileChangeKind::Conflicted => Self::Conflicted,
        }
    }
}

impl From<Commit> for GitCommitResponse {
    fn from(it: Commit) -> Self {
        Self {
            id: it.id,
            parents: it.parents,
            author: it.author,
            at: it.at.saturating_mul(1000),
            names: it.names,
            subject: it.subject,
            body: it.body,
        }
    }
}

impl GitLogResponse {
    /// There are more if as many came as were wanted.
    pub(super) fn new(commits: Vec<Commit>, wanted: usize) -> Self {
        let more = commits.len() >= wanted;
        Self { commits: commits.into_iter().map(GitCommitResponse::from).collect(), more }
    }
}

impl GitCommitDetailsResponse {
    pub(super) fn new(commit: Commit, files: &[CommitFile]) -> Self {
        let file = |it: &CommitFile| GitCommitFileResponse {
            key: it.path.key(),
            path: it.path.text(),
            from: it.from.as_ref().map(RepoPath::key),
            state: it.state.into(),
        };
        Self {
            commit: commit.into(),
            total: files.len(),
            files: files.iter().take(MAX_FILES).map(file).collect(),
        }
    }
}

impl GitBranchesResponse {
    pub(super) fn new(branches: Vec<Branch>) -> Self {
        let branch = |it: Branch| GitBranchResponse {
            name: it.name,
            remote: it.remote,
            current: it.current,
            upstream: it.upstream,
            at: it.at.saturating_mul(1000),
            subject: it.subject,
            checked_out: it.checked_out,
        };
        Self { branches: branches.into_iter().map(branch).collect() }
    }
}
