//! The working tree as a commit outside all branches, so that it can be restored on another machine.
//!
//! The commit is made with an index of its own: neither the user's index nor a branch changes. It has untracked
//! files and not ignored ones. Its parent is `HEAD`. No hook and no filter of the repository runs.

use std::path::Path;

use super::command::GitCommand;
use super::{GitError, GitRepository};

/// A commit of the whole working tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSnapshot {
    pub commit: String,
    pub tree: String,
    /// The commit that it is based on; none in a repository without commits.
    pub head: Option<String>,
    /// None if `HEAD` is detached.
    pub branch: Option<String>,
}

impl GitRepository {
    /// Makes a repository without commits.
    pub async fn init(directory: &Path) -> Result<Self, GitError> {
        let init = GitCommand::query(directory, "init").args(["--quiet", "--template="]);
        init.run().await?.checked()?;
        Self::open(directory).await
    }

    /// Records the working tree under a reference. `scratch` is a private directory for the index.
    pub async fn snapshot(
        &self,
        reference: &str,
        scratch: &Path,
    ) -> Result<TreeSnapshot, GitError> {
        let tree = self.write_tree(scratch).await?;
        let head = self.commit_of("HEAD").await?;
        let branch = self.query("symbolic-ref").args(["--quiet", "--short", "HEAD"]).run().await?;
        let name = text(&branch.stdout);
        let branch = Some(name).filter(|it| branch.status.success() && !it.is_empty());
        // The same tree on the same commit is the same snapshot.
        if let Some(commit) = self.commit_of(reference).await?
            && self.commit_of(&format!("{reference}^")).await? == head
            && self.tree_of(reference).await? == tree
        {
            return Ok(TreeSnapshot { commit, tree, head, branch });
        }
        let mut creation = self.query("commit-tree").args([&tree]);
        if let Some(head) = &head {
            creation = creation.args(["-p", head]);
        }
        for (who, value) in [("NAME", "Towpath"), ("EMAIL", "towpath@localhost")] {
            for role in ["AUTHOR", "COMMITTER"] {
                creation = creation.env(&format!("GIT_{role}_{who}"), value);
            }
        }
        let message = "The working tree of a Towpath session";
        let commit = text(&creation.args(["-m", message]).output().await?);
        self.query("update-ref").args([reference, &commit]).output().await?;
        Ok(TreeSnapshot { commit, tree, head, branch })
    }

    /// The tree that a snapshot would have.
    pub async fn write_tree(&self, scratch: &Path) -> Result<String, GitError> {
        let index = scratch.join("index");
        let own = self.query("rev-parse").args(["--path-format=absolute", "--git-path", "index"]);
        let own = super::command::printed_path(own.output().await?);
        // What is known about unchanged files saves reading them again. Without it this works too.
        let _ = tokio::fs::copy(own, &index).await;
        let add = self.read("add").await?.patient().env("GIT_INDEX_FILE", &index);
        add.args(["--all", "--", "."]).run().await?.checked()?;
        let write = self.query("write-tree").env("GIT_INDEX_FILE", &index).output().await;
        let _ = tokio::fs::remove_file(&index).await;
        Ok(text(&write?))
    }

    /// Writes a reference with everything it needs into a file.
    pub async fn write_bundle(&self, reference: &str, file: &Path) -> Result<(), GitError> {
        let bundle = self.query("bundle").patient().args(["create", "--quiet"]);
        bundle.args([file]).args([reference]).run().await?.checked()?;
        Ok(())
    }

    /// Takes in a file that [`write_bundle`](Self::write_bundle) has written.
    pub async fn read_bundle(
        &self,
        file: &Path,
        reference: &str,
        commit: &str,
    ) -> Result<(), GitError> {
        let unbundle = self.query("bundle").patient().args(["unbundle"]).args([file]);
        unbundle.run().await?.checked()?;
        self.query("update-ref").args([reference, commit]).output().await?;
        Ok(())
    }

    /// Makes the working tree that of a snapshot. `HEAD` must be what the snapshot is based on, and the working
    /// tree must be clean: files that differ otherwise are left, and this fails.
    pub async fn restore_snapshot(&self, reference: &str) -> Result<(), GitError> {
        if self.commit_of("HEAD").await?.is_none() {
            let both = self.read("read-tree").await?.patient();
            both.args(["-m", "-u", reference]).run().await?.checked()?;
            self.query("read-tree").args(["--empty"]).run().await?.checked()?;
            return Ok(());
        }
        let both = self.read("read-tree").await?.patient();
        both.args(["-m", "-u", "HEAD", reference]).run().await?.checked()?;
        // What differs from `HEAD` is not committed, as it was before.
        self.query("read-tree").args(["HEAD"]).run().await?.checked()?;
        Ok(())
    }

    /// Adds a working tree without a branch.
    pub async fn add_detached_worktree(&self, path: &Path, commit: &str) -> Result<(), GitError> {
        let add = self.read("worktree").await?.patient();
        let add = add.args(["add", "--quiet", "--detach", "--"]).args([path]).args([commit]);
        add.run().await?.checked()?;
        Ok(())
    }

    /// Puts a new branch at a commit and checks it out, in a repository without commits.
    pub async fn check_out_first(
        &self,
        branch: Option<&str>,
        commit: &str,
    ) -> Result<(), GitError> {
        if let Some(branch) = branch {
            super::check_branch_name(branch)?;
            let reference = format!("refs/heads/{branch}");
            self.query("update-ref").args([&reference, commit]).output().await?;
            let point = self.query("symbolic-ref").args(["HEAD", &reference]);
            point.run().await?.checked()?;
        } else {
            let point = self.query("update-ref").args(["--no-deref", "HEAD", commit]);
            point.output().await?;
        }
        let files = self.read("read-tree").await?.patient();
        files.args(["--reset", "-u", "HEAD"]).run().await?.checked()?;
        Ok(())
    }

    /// The commit of a name; none if there is none.
    pub async fn commit_of(&self, name: &str) -> Result<Option<String>, GitError> {
        let name = format!("{name}^{{commit}}");
        let found =
            self.query("rev-parse").args(["--quiet", "--verify", "--end-of-options", &name]);
        let found = found.run().await?;
        Ok(found.status.success().then(|| text(&found.stdout)))
    }

    async fn tree_of(&self, name: &str) -> Result<String, GitError> {
        let name = format!("{name}^{{tree}}");
        let found = self.query("rev-parse").args(["--verify", "--end-of-options", &name]);
        Ok(text(&found.output().await?))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}
