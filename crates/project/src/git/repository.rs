//! The handle to a repository.

use std::path::{Path, PathBuf};

use super::GitError;
use super::command::{GitCommand, GitOutput, printed_path};

/// A repository with a working tree.
#[derive(Clone, Debug)]
pub struct GitRepository {
    /// The top directory of the working tree.
    top: PathBuf,
}

impl GitRepository {
    /// Opens the repository that contains a directory.
    ///
    /// Its working tree can be anywhere: the configuration of a repository decides that. The caller must
    /// check [`top`](Self::top) before anything else is done.
    pub async fn open(directory: &Path) -> Result<Self, GitError> {
        let top = GitCommand::query(directory, "rev-parse").args(["--show-toplevel"]).run().await?;
        if top.status.success() {
            return Ok(Self { top: printed_path(top.stdout) });
        }
        let words = top.words();
        if words.contains("not a git repository") {
            return Err(GitError::NoRepository);
        }
        Err(GitError::Refused(words))
    }

    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Git's directory that all working trees of the repository share.
    pub async fn common_directory(&self) -> Result<PathBuf, GitError> {
        let arguments = ["--path-format=absolute", "--git-common-dir"];
        Ok(printed_path(self.query("rev-parse").args(arguments).output().await?))
    }

    pub(super) async fn read(&self, what: &str) -> Result<GitCommand, GitError> {
        GitCommand::read(&self.top, what).await
    }

    pub(super) fn query(&self, what: &str) -> GitCommand {
        GitCommand::query(&self.top, what)
    }

    pub(super) fn write(&self, what: &str) -> GitCommand {
        GitCommand::write(&self.top, what)
    }

    /// Whether there is a commit.
    pub(super) async fn has_commit(&self) -> Result<bool, GitError> {
        let head = self.query("rev-parse").args(["--quiet", "--verify", "HEAD^{commit}"]);
        Ok(head.run().await?.status.success())
    }
}

/// What git and its hooks said about something that worked.
pub(super) fn said(output: &GitOutput) -> String {
    if output.stdout.is_empty() && output.stderr.is_empty() {
        return String::new();
    }
    output.words()
}
