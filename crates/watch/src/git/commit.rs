//! One commit of some files and nothing else.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::repository::{LITERAL_PATHSPECS, MAX_OUTPUT, Repository, run_git, run_with_input};
use super::staging::{self, IndexChange, Staging, index_info};
use super::{CommitContext, CommitError, CommitOutcome, CommitSettings};
use crate::files::FileLookup;
use crate::process::{Program, ProgramError};
use crate::project::{Project, ProjectFile};
use crate::target::DirectoryTarget;

/// How often to look whether another commit of ours is finished.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

impl Repository {
    /// Waits until no other commit of ours is being made here, by this process or another one.
    async fn lock(&self, settings: &CommitSettings) -> Result<File, CommitError> {
        let directory = File::open(&self.git_dir)?;
        let deadline = Instant::now() + settings.timeout;
        loop {
            match directory.try_lock() {
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    sleep(LOCK_INTERVAL).await;
                }
                Err(TryLockError::WouldBlock) => return Err(CommitError::Busy),
                // Some network file systems have no locks for directories.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(directory),
            }
        }
    }

    /// Commits the current state of these files and nothing else.
    pub(super) async fn commit(
        &self,
        settings: &CommitSettings,
        project: &Project,
        files: &[ProjectFile],
        context: &CommitContext,
    ) -> Result<CommitOutcome, CommitError> {
        if let Some(operation) = self.operation_in_progress() {
            return Err(CommitError::InProgress(operation));
        }
        let _lock = self.lock(settings).await?;
        if self.needs_copy() {
            for file in files {
                self.copy_file(project, file).await?;
            }
        }
        let mut staging = Staging::recover(&self.git_dir).await?;
        let outcome = self.attempt(settings, files, context, &mut staging).await;
        let settled = self.settle(settings, staging).await;
        let outcome = outcome?;
        settled?;
        Ok(outcome)
    }

    async fn attempt(
        &self,
        settings: &CommitSettings,
        files: &[ProjectFile],
        context: &CommitContext,
        staging: &mut Staging,
    ) -> Result<CommitOutcome, CommitError> {
        let head = self.head(settings).await?;
        let temporary = staging.temporary()?;
        let index = temporary.path().join("index");
        let git = || self.git().env("GIT_INDEX_FILE", &index);
        if let Some(head) = &head {
            // With a copy of the index git does not read files that have not changed. Without one it
            // reads all.
            let _ = copy_index(&self.git_dir.join("index"), &index).await;
            run_with_input(git(), settings, &["read-tree", "--reset", head], Vec::new()).await?;
        }
        let ignored = self.ignored(git(), settings, files).await?;
        let included: Vec<&ProjectFile> =
            files.iter().filter(|file| !ignored.contains(file)).collect();
        let paths: Vec<PathBuf> =
            included.iter().map(|file| self.prefix.join(&file.relative)).collect();
        if paths.is_empty() {
            return Ok(CommitOutcome { commit: None, ignored });
        }
        let update = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
        run_with_input(git(), settings, &update, joined(&paths)).await?;
        let changes = self.differences(git(), settings, head.as_deref()).await?;
        if changes.is_empty() {
            return Ok(CommitOutcome { commit: None, ignored });
        }
        if self.has_index() {
            let users = self.differences(self.git(), settings, head.as_deref()).await?;
            let staged = staging.select(&changes, &users).await?;
            self.update_index(settings, &staged).await?;
        }
        let names: Vec<&Path> = included.iter().map(|file| &*file.relative).collect();
        let message = context.message(&settings.message, &settings.trailers, &names);
        let mut commit = vec!["commit", "--quiet", "--file", "-"];
        if let Some(author) = &settings.author {
            commit.extend(["--author", author]);
        }
        let made = run_with_input(git(), settings, &commit, message.clone().into_bytes()).await;
        if let Err(error) = made {
            let moved = self.head(settings).await? != head;
            return Err(if moved { CommitError::Moved } else { error });
        }
        let id = self.check_parent(git(), settings, head.as_deref()).await?;
        let subject = message.lines().next().unwrap_or_default().to_owned();
        Ok(CommitOutcome { commit: Some((id, subject)), ignored })
    }

    /// Takes back the staged entries that were not committed.
    async fn settle(&self, settings: &CommitSettings, staging: Staging) -> Result<(), CommitError> {
        if !staging.is_empty() {
            let head = self.head(settings).await?;
            let differences = self.differences(self.git(), settings, head.as_deref()).await?;
            self.update_index(settings, &staging.unsettled(&differences)).await?;
        }
        staging.clear().await;
        Ok(())
    }

    /// Makes these changes in the index that the user sees.
    async fn update_index(
        &self,
        settings: &CommitSettings,
        changes: &[IndexChange],
    ) -> Result<(), CommitError> {
        if changes.is_empty() {
            return Ok(());
        }
        let update = ["update-index", "-z", "--index-info"];
        run_with_input(self.git(), settings, &update, index_info(changes)).await
    }

    /// Checks that the new commit follows the one that it was prepared from, and returns its short id.
    ///
    /// Git reads the parent when it commits. If another process has committed since the index was
    /// prepared, the new commit would revert what that one changed.
    async fn check_parent(
        &self,
        git: Program,
        settings: &CommitSettings,
        prepared_from: Option<&str>,
    ) -> Result<String, CommitError> {
        let format = "--format=%h %T %H %P";
        let show = ["show", "--no-patch", "--no-show-signature", format, "HEAD"];
        let shown = self.run(settings, show).await?;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        let mut fields = shown.split_whitespace();
        let [short, tree, id] = [(); 3].map(|()| fields.next().unwrap_or_default());
        let parent = fields.next();
        if parent == prepared_from {
            return Ok(short.to_owned());
        }
        let prepared = run_git(git, settings, ["write-tree"]).await?;
        if let Some(parent) = parent
            && String::from_utf8_lossy(&prepared).trim() == tree
        {
            let reason = "undo: another commit was made meanwhile";
            self.run(settings, ["update-ref", "-m", reason, "HEAD", parent, id]).await?;
            return Err(CommitError::Moved);
        }
        // Another process has already committed after it.
        Ok(short.to_owned())
    }

    /// Copies a file to the session's own working tree.
    async fn copy_file(&self, project: &Project, file: &ProjectFile) -> Result<(), CommitError> {
        let error = |it| CommitError::Copy(format!("{it:?}"));
        let target = DirectoryTarget::new(&self.tree.join(&self.prefix))?;
        match FileLookup::at(&project.absolute(file), None).await? {
            FileLookup::File(source) => {
                target.write(file, *source, async || true).await.map_err(error)
            }
            FileLookup::Missing => target.delete(file).await.map_err(error),
            FileLookup::NotRegular(_) => Ok(()),
        }
    }

    async fn ignored(
        &self,
        git: Program,
        settings: &CommitSettings,
        files: &[ProjectFile],
    ) -> Result<Vec<ProjectFile>, CommitError> {
        // It does not support literal paths, so a path must not start with pathspec magic.
        let path = |it: &ProjectFile| Path::new(".").join(&self.prefix).join(&it.relative);
        let paths: Vec<PathBuf> = files.iter().map(path).collect();
        let check = git
            .without_env(LITERAL_PATHSPECS)
            .max_output(MAX_OUTPUT)
            .args(["check-ignore", "-z", "--stdin"])
            .named("git check-ignore".to_owned());
        let output = check.stdin(joined(&paths)).run(settings.timeout).await?;
        if !matches!(output.status.code(), Some(0 | 1)) {
            let (status, message) = (output.status, output.message());
            let name = "git check-ignore".to_owned();
            return Err(ProgramError::Failed { name, status, message }.into());
        }
        let found = split(&output.stdout);
        Ok(files.iter().filter(|it| found.contains(&path(it))).cloned().collect())
    }

    /// The differences between a commit and an index.
    async fn differences(
        &self,
        git: Program,
        settings: &CommitSettings,
        head: Option<&str>,
    ) -> Result<Vec<IndexChange>, CommitError> {
        let nothing = match head {
            Some(_) => None,
            None => Some(self.run(settings, ["hash-object", "-t", "tree", "/dev/null"]).await?),
        };
        let nothing = nothing.map(|id| String::from_utf8_lossy(&id).trim().to_owned());
        let commit = head.or(nothing.as_deref()).unwrap_or_default();
        let compare = ["diff-index", "--cached", "--raw", "--no-renames", "-z", commit];
        Ok(staging::parse(&run_git(git, settings, compare).await?))
    }
}

/// Copies an index with its time. Git compares this time with those of files, to detect a file that was
/// changed without a change of its size so soon after the index that their times are the same.
async fn copy_index(from: &Path, to: &Path) -> io::Result<()> {
    let modified = tokio::fs::metadata(from).await?.modified()?;
    tokio::fs::copy(from, to).await?;
    File::options().write(true).open(to)?.set_modified(modified)
}

fn joined(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0])).collect()
}

fn split(output: &[u8]) -> Vec<PathBuf> {
    output.split(|&byte| byte == 0).filter(|it| !it.is_empty()).map(path).collect()
}

fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}
