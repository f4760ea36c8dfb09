//! The git repository of a directory, through the git command.
//!
//! [`GitRepository`] is the handle. What it reads comes from the formats that git keeps stable for
//! programs, and every byte sequence is read without a panic. What it changes is done with the user's git:
//! hooks and configuration apply, and git's own words say why something is refused.
//!
//! Reading is safe in a repository of a stranger: no program that its configuration names is started,
//! and no lock is taken. See [`command`](self) for how.

mod branches;
mod changes;
mod command;
mod diff;
mod error;
mod history;
mod patch;
mod path;
mod remote;
mod repository;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod worktree;

pub use branches::{Branch, check_branch_name};
pub use changes::HunkId;
pub use command::SECRET_VARIABLES;
pub use diff::DiffSide;
pub use error::GitError;
pub use history::{Commit, CommitFile};
pub use patch::{FilePatch, PatchHunk};
pub use path::RepoPath;
pub use repository::GitRepository;
pub use snapshot::TreeSnapshot;
pub use status::{FileChangeKind, FileStatus, GitStatus};
pub use worktree::{LinkedWorktree, WorktreeLoss};
