//! Staging, unstaging, discarding and committing.

use std::collections::HashSet;

use super::diff::DiffSide;
use super::patch::PatchHunk;
use super::path::{RepoPath, path_list};
use super::repository::said;
use super::{GitError, GitRepository};

/// How many paths a command gets as arguments; the system limits their size.
const MAX_ARGUMENTS: usize = 200;

/// Reads paths from the input, exactly as they are.
const PATHS_FROM_INPUT: [&str; 2] = ["--pathspec-from-file=-", "--pathspec-file-nul"];

/// A hunk of a file, as [`PatchHunk::id`] names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HunkId {
    pub path: RepoPath,
    /// The path of the file before it was renamed.
    pub from: Option<RepoPath>,
    pub id: String,
}

impl GitRepository {
    /// Puts files into the index as they are in the working tree, also those that are gone.
    pub async fn stage(&self, paths: &[RepoPath]) -> Result<(), GitError> {
        self.with_paths("add", &["--all"], paths).await
    }

    /// Puts files into the index as they are in the last commit.
    pub async fn unstage(&self, paths: &[RepoPath]) -> Result<(), GitError> {
        self.with_paths("reset", &["--quiet"], paths).await
    }

    /// Puts files into the working tree as they are in the index, and removes those that git does not
    /// know.
    pub async fn discard(&self, paths: &[RepoPath]) -> Result<(), GitError> {
        let mut unknown = HashSet::new();
        for some in paths.chunks(MAX_ARGUMENTS) {
            let listed =
                self.query("ls-files").args(["-z", "--others", "--exclude-standard", "--"]);
            let listed = listed.args(some.iter().map(RepoPath::as_path)).output().await?;
            let listed = listed.split(|byte| *byte == 0).map(RepoPath::from_git);
            unknown.extend(listed.filter(|it| some.contains(it)));
        }
        let (unknown, known): (Vec<_>, Vec<_>) =
            paths.iter().cloned().partition(|it| unknown.contains(it));
        self.with_paths("restore", &["--worktree"], &known).await?;
        for some in unknown.chunks(MAX_ARGUMENTS) {
            let clean = self.write("clean").literal_paths().args(["--force", "--quiet", "--"]);
            clean.args(some.iter().map(RepoPath::as_path)).run().await?.checked()?;
        }
        Ok(())
    }

    async fn with_paths(
        &self,
        what: &str,
        options: &[&str],
        paths: &[RepoPath],
    ) -> Result<(), GitError> {
        // Without a path these commands would mean everything.
        if paths.is_empty() {
            return Ok(());
        }
        let command = self.write(what).literal_paths().args(options).args(PATHS_FROM_INPUT);
        command.stdin(path_list(paths)).run().await?.checked()?;
        Ok(())
    }

    /// Puts one hunk of the working tree into the index.
    pub async fn stage_hunk(&self, hunk: &HunkId) -> Result<(), GitError> {
        let found = self.find_hunk(hunk, DiffSide::Unstaged).await?;
        let patch = found.as_patch(&hunk.path, found.old_start);
        self.apply(&["--cached"], patch).await
    }

    /// Takes one hunk out of the index.
    pub async fn unstage_hunk(&self, hunk: &HunkId) -> Result<(), GitError> {
        let found = self.find_hunk(hunk, DiffSide::Staged).await?;
        let patch = found.as_patch(&hunk.path, found.new_start);
        self.apply(&["--cached", "--reverse"], patch).await
    }

    /// Undoes one hunk in the working tree.
    pub async fn discard_hunk(&self, hunk: &HunkId) -> Result<(), GitError> {
        let found = self.find_hunk(hunk, DiffSide::Unstaged).await?;
        let patch = found.as_patch(&hunk.path, found.new_start);
        self.apply(&["--reverse"], patch).await
    }

    async fn find_hunk(&self, hunk: &HunkId, side: DiffSide) -> Result<PatchHunk, GitError> {
        let patches = self.diff(&hunk.path, hunk.from.as_ref(), side).await?;
        let [patch] = &patches[..] else { return Err(GitError::Changed) };
        let found = patch.hunks.iter().find(|it| it.id() == hunk.id);
        let found = found.filter(|_| patch.can_split()).ok_or(GitError::Changed)?;
        Ok(found.clone())
    }

    async fn apply(&self, options: &[&str], patch: Vec<u8>) -> Result<(), GitError> {
        let command = self.write("apply").args(["--whitespace=nowarn"]);
        command.args(options).args(["-"]).stdin(patch).run().await?.checked()?;
        Ok(())
    }

    /// Commits what is staged. Returns what git and its hooks said.
    pub async fn commit(&self, message: &str) -> Result<String, GitError> {
        if message.trim().is_empty() {
            return Err(GitError::Refused("a commit needs a message".to_owned()));
        }
        let command = self.write("commit").args(["--file=-"]).stdin(message.as_bytes().to_vec());
        let output = command.run().await?;
        let words = said(&output);
        output.checked()?;
        Ok(words)
    }
}
