//! Working trees of a repository beside the main one.

use std::path::{Path, PathBuf};

use super::branches::check_branch_name;
use super::command::printed_path;
use super::{GitError, GitRepository};

/// A working tree that is not the main one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedWorktree {
    pub path: PathBuf,
    /// The main working tree.
    pub main: PathBuf,
    /// None if `HEAD` is detached.
    pub branch: Option<String>,
}

/// What would be lost with a working tree and its branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorktreeLoss {
    /// Files that are not committed.
    pub files: usize,
    /// Commits that no other branch has.
    pub commits: usize,
}

impl GitRepository {
    /// Adds a working tree with a new branch at the current commit.
    pub async fn add_worktree(&self, path: &Path, branch: &str) -> Result<(), GitError> {
        check_branch_name(branch)?;
        if !path.is_absolute() {
            return Err(GitError::InvalidPath(path.to_string_lossy().into_owned()));
        }
        let command = self.write("worktree").args(["add", "--quiet", "--no-track", "-b", branch]);
        command.args(["--"]).args([path]).args(["HEAD"]).run().await?.checked()?;
        Ok(())
    }

    /// Whether there is a branch here.
    pub async fn has_branch(&self, name: &str) -> Result<bool, GitError> {
        check_branch_name(name)?;
        let command = self.query("show-ref").args(["--verify", "--quiet"]);
        let found = command.args([format!("refs/heads/{name}")]).run().await?;
        Ok(found.status.success())
    }

    /// The working tree of this handle, if it is not the main one.
    pub async fn linked_worktree(&self) -> Result<Option<LinkedWorktree>, GitError> {
        let own = self.query("rev-parse").args(["--absolute-git-dir"]).output().await?;
        let common = self.common_directory().await?;
        let own = printed_path(own);
        if own == common || !own.starts_with(common.join("worktrees")) {
            return Ok(None);
        }
        let list = self.query("worktree").args(["list", "--porcelain", "-z"]).output().await?;
        let first =
            list.split(|byte| *byte == 0).next().and_then(|it| it.strip_prefix(b"worktree "));
        let Some(main) = first else { return Ok(None) };
        let branch = self.query("symbolic-ref").args(["--quiet", "--short", "HEAD"]).run().await?;
        let name = String::from_utf8_lossy(&branch.stdout).trim().to_owned();
        let branch = Some(name).filter(|it| branch.status.success() && !it.is_empty());
        let main = printed_path(main.to_vec());
        Ok(Some(LinkedWorktree { path: self.top().to_owned(), main, branch }))
    }

    /// What would be lost if the working tree of this handle and its branch were removed.
    pub async fn worktree_loss(&self, worktree: &LinkedWorktree) -> Result<WorktreeLoss, GitError> {
        let files = self.status().await?.files.len();
        let mut commits = 0;
        if let Some(branch) = &worktree.branch {
            check_branch_name(branch)?;
            let excluded = format!("--exclude={branch}");
            let own = format!("refs/heads/{branch}");
            let command = self.query("rev-list").args(["--count", &own, "--not", &excluded]);
            let count = command.args(["--branches", "--remotes", "--tags"]).output().await?;
            commits = String::from_utf8_lossy(&count).trim().parse().unwrap_or(0);
        }
        Ok(WorktreeLoss { files, commits })
    }

    /// Removes a working tree and its branch with everything in them. The handle is of the main one.
    pub async fn remove_worktree(&self, worktree: &LinkedWorktree) -> Result<(), GitError> {
        let remove = self.write("worktree").args(["remove", "--force", "--"]);
        remove.args([&worktree.path]).run().await?.checked()?;
        if let Some(branch) = &worktree.branch {
            check_branch_name(branch)?;
            let delete =
                self.write("branch").args(["--delete", "--force", "--quiet", "--", branch]);
            delete.run().await?.checked()?;
        }
        Ok(())
    }
}
