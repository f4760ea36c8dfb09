//! The repository that a session's commits go to, and one commit in it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use super::{CommitContext, CommitError, CommitOutcome, CommitSettings, CommitTarget};
use crate::files::FileLookup;
use crate::process::{Program, ProgramError, path_from};
use crate::project::{Project, ProjectFile};
use crate::stream_event::AgentSessionId;
use crate::target::DirectoryTarget;

/// How many paths are passed on one command line, whose length is limited.
const PATHS_PER_CALL: usize = 200;

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
const LITERAL_PATHSPECS: &str = "GIT_LITERAL_PATHSPECS";

/// A branch, and the working tree whose files are committed to it.
#[derive(Debug)]
pub(super) struct Repository {
    /// The working tree.
    tree: PathBuf,
    /// The directory with `HEAD` and the index.
    git_dir: PathBuf,
    /// The path of the project in the working tree.
    prefix: PathBuf,
    kind: RepositoryKind,
}

#[derive(Debug)]
enum RepositoryKind {
    /// The branch that the user has checked out, for all sessions.
    CheckedOut,
    /// A branch of the session's own. For git it has a working tree without files, at `path`.
    Branch { session: Option<AgentSessionId>, path: PathBuf },
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
                let common = users.run(settings, ["rev-parse", "--git-common-dir"]).await?;
                let common = users.tree.join(path_from(&common));
                let path = common.join("towpath").join(branch.replace('/', "-"));
                users.add_worktree(settings, &branch, &path, &["--no-checkout"]).await?;
                let git_dir = Program::new("git").directory(&path);
                let git_dir =
                    run_in(git_dir, settings, ["rev-parse", "--absolute-git-dir"]).await?;
                let kind = RepositoryKind::Branch { session, path };
                Ok(Self { git_dir: path_from(&git_dir).into(), kind, ..users })
            }
            CommitTarget::Worktree { directory, branch } => {
                let branch = context.branch(branch);
                let directory = std::path::absolute(directory)?;
                let path = directory.join(branch.replace('/', "-"));
                if !path.exists() {
                    users.add_worktree(settings, &branch, &path, &[]).await?;
                }
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
        let query = |option| {
            run_in(Program::new("git").directory(directory), settings, ["rev-parse", option])
        };
        let tree: PathBuf = path_from(&query("--show-toplevel").await?).into();
        let git_dir = path_from(&query("--absolute-git-dir").await?).into();
        let prefix = directory.strip_prefix(&tree).unwrap_or(Path::new("")).to_owned();
        Ok(Self { tree, git_dir, prefix, kind })
    }

    async fn add_worktree(
        &self,
        settings: &CommitSettings,
        branch: &str,
        path: &Path,
        options: &[&str],
    ) -> Result<(), CommitError> {
        if self.head(settings).await?.is_none() {
            return Err(CommitError::NoCommit);
        }
        // A worktree that an earlier run left behind would block its branch.
        self.run(settings, ["worktree", "prune"]).await?;
        let reference = format!("refs/heads/{branch}");
        let show = self.git().args(["show-ref", "--verify", "--quiet", &*reference]);
        let exists = show.run(settings.timeout).await?.status.success();
        let mut add: Vec<&OsStr> = ["worktree", "add", "--quiet"].map(OsStr::new).to_vec();
        add.extend(options.iter().map(OsStr::new));
        let branch = OsStr::new(branch);
        if exists {
            add.extend([path.as_os_str(), branch]);
        } else {
            add.extend([OsStr::new("-b"), branch, path.as_os_str(), OsStr::new("HEAD")]);
        }
        self.run(settings, add).await?;
        Ok(())
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
    fn needs_copy(&self) -> bool {
        matches!(self.kind, RepositoryKind::Worktree { .. })
    }

    /// Whether there is an index that the user sees.
    fn has_index(&self) -> bool {
        !matches!(self.kind, RepositoryKind::Branch { .. })
    }

    /// Git for this branch and working tree.
    fn git(&self) -> Program {
        let git = without_git_variables(Program::new("git"))
            .directory(&self.tree)
            .env(LITERAL_PATHSPECS, "1");
        git.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.tree)
    }

    async fn run<S: AsRef<OsStr>>(
        &self,
        settings: &CommitSettings,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Vec<u8>, ProgramError> {
        run_git(self.git(), settings, arguments).await
    }

    /// The commit that is checked out; `None` before the first one.
    async fn head(&self, settings: &CommitSettings) -> Result<Option<String>, CommitError> {
        let git = self.git().args(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        let output = git.run(settings.timeout).await?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(output.status.success().then_some(id))
    }

    /// The operation that git is in the middle of.
    fn operation_in_progress(&self) -> Option<&'static str> {
        OPERATIONS.iter().find(|(file, _)| self.git_dir.join(file).exists()).map(|(_, name)| *name)
    }

    /// Removes the worktree without files, which git would otherwise list.
    pub(super) async fn close(self, settings: &CommitSettings) {
        if let RepositoryKind::Branch { path, .. } = &self.kind {
            let remove = [OsStr::new("worktree"), "remove".as_ref(), "--force".as_ref()];
            let git = without_git_variables(Program::new("git")).directory(&self.tree);
            let git = git.args(remove).args([path]);
            // If this fails, the next run or git prunes it.
            let _ = git.run_checked(settings.timeout).await;
            if let Some(folder) = path.parent() {
                // This fails if other sessions use it.
                let _ = tokio::fs::remove_dir(folder).await;
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
        if self.needs_copy() {
            for file in files {
                self.copy_file(project, file).await?;
            }
        }
        let head = self.head(settings).await?;
        let temporary = tempfile::Builder::new().prefix("towpath-").tempdir_in(&self.git_dir)?;
        let index = temporary.path().join("index");
        let git = || self.git().env("GIT_INDEX_FILE", &index);
        if let Some(head) = &head {
            // With a copy of the index git does not read files that have not changed.
            let _ = tokio::fs::copy(self.git_dir.join("index"), &index).await;
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
        if !self.has_difference(git(), settings, head.as_deref()).await? {
            return Ok(CommitOutcome { commit: None, ignored });
        }
        let unstaged = self.unstaged(settings, head.as_deref(), &paths).await?;
        let names: Vec<&Path> = included.iter().map(|file| &*file.relative).collect();
        let message = context.message(&settings.message, &settings.trailers, &names);
        let mut commit = vec!["commit", "--quiet", "--file", "-"];
        if let Some(author) = &settings.author {
            commit.extend(["--author", author]);
        }
        run_with_input(git(), settings, &commit, message.clone().into_bytes()).await?;
        let id = self.run(settings, ["rev-parse", "--short", "HEAD"]).await?;
        if self.has_index() && !unstaged.is_empty() {
            let reset =
                ["reset", "--quiet", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul"];
            run_with_input(self.git(), settings, &reset, joined(&unstaged)).await?;
        }
        let id = String::from_utf8_lossy(&id).trim().to_owned();
        let subject = message.lines().next().unwrap_or_default().to_owned();
        Ok(CommitOutcome { commit: Some((id, subject)), ignored })
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

    async fn has_difference(
        &self,
        git: Program,
        settings: &CommitSettings,
        head: Option<&str>,
    ) -> Result<bool, CommitError> {
        let Some(head) = head else { return Ok(true) };
        let compare = git.args(["diff-index", "--cached", "--quiet", head]);
        Ok(!compare.run(settings.timeout).await?.status.success())
    }

    /// The files whose entry in the user's index equals the last commit.
    async fn unstaged(
        &self,
        settings: &CommitSettings,
        head: Option<&str>,
        paths: &[PathBuf],
    ) -> Result<Vec<PathBuf>, CommitError> {
        if !self.has_index() {
            return Ok(Vec::new());
        }
        let mut unstaged = Vec::new();
        for paths in paths.chunks(PATHS_PER_CALL) {
            let list = |first: &[&str]| {
                let options = first.iter().map(OsString::from).chain([OsString::from("--")]);
                options.chain(paths.iter().map(OsString::from)).collect::<Vec<OsString>>()
            };
            let staged = self.run(settings, list(&["ls-files", "--stage", "-z"])).await?;
            let committed = match head {
                Some(head) => self.run(settings, list(&["ls-tree", "-z", head])).await?,
                None => Vec::new(),
            };
            // The fields before the tab are `mode id stage` and `mode type id`.
            let (staged, committed) = (blobs(&staged, 0, 1), blobs(&committed, 0, 2));
            let same = |it: &&PathBuf| staged.get(*it) == committed.get(*it);
            unstaged.extend(paths.iter().filter(same).cloned());
        }
        Ok(unstaged)
    }
}

async fn run_in<const N: usize>(
    git: Program,
    settings: &CommitSettings,
    arguments: [&str; N],
) -> Result<Vec<u8>, ProgramError> {
    run_git(without_git_variables(git), settings, arguments).await
}

async fn run_git<S: AsRef<OsStr>>(
    git: Program,
    settings: &CommitSettings,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>, ProgramError> {
    let arguments: Vec<S> = arguments.into_iter().collect();
    let subcommand = arguments.first().map(|it| it.as_ref().to_string_lossy().into_owned());
    let name = format!("git {}", subcommand.unwrap_or_default());
    git.args(arguments).named(name).run_checked(settings.timeout).await
}

fn without_git_variables(git: Program) -> Program {
    GIT_VARIABLES.into_iter().fold(git, Program::without_env)
}

async fn run_with_input(
    git: Program,
    settings: &CommitSettings,
    arguments: &[&str],
    stdin: Vec<u8>,
) -> Result<(), CommitError> {
    let name = format!("git {}", arguments[0]);
    git.args(arguments).named(name).stdin(stdin).run_checked(settings.timeout).await?;
    Ok(())
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

/// The mode and id of each path in a list. `mode` and `id` are the indexes of their fields.
fn blobs(output: &[u8], mode: usize, id: usize) -> HashMap<PathBuf, (Vec<u8>, Vec<u8>)> {
    let entries = output.split(|&byte| byte == 0).filter_map(|entry| {
        let tab = entry.iter().position(|&byte| byte == b'\t')?;
        let fields: Vec<&[u8]> = entry[..tab].split(|&byte| byte == b' ').collect();
        let field = |n: usize| fields.get(n).map(|it| it.to_vec());
        Some((path(&entry[tab + 1..]), (field(mode)?, field(id)?)))
    });
    entries.collect()
}
