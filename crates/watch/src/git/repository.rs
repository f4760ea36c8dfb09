//! The repository that a session's commits go to: the user's branch, one beside it, or a working
//! tree apart.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{CommitOccasion, CommitSettings, CommitTarget, Error};
use crate::process::{Program, ProgramError, path_from};
use crate::project::Project;
use crate::stream_event::AgentSessionId;

/// What git leaves in its directory while it is in the middle of something.
const UNDER_WAY: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

/// Variables that would lead git elsewhere.
const MISLEADING: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_PREFIX",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
];

/// Makes git take a path for nothing but a path.
pub(super) const LITERALLY: &str = "GIT_LITERAL_PATHSPECS";

/// A branch, and the files that are committed to it.
#[derive(Debug)]
pub(super) struct Repository {
    /// Where files are taken from.
    pub(super) tree: PathBuf,
    /// Where `HEAD` and the index are.
    pub(super) git_dir: PathBuf,
    /// The project, seen from the tree.
    pub(super) prefix: PathBuf,
    sort: RepositoryState,
}

#[derive(Debug)]
pub(super) enum RepositoryState {
    /// What the user has checked out, for all sessions.
    Users,
    /// A branch with no working tree of its own; git knows it as one without files.
    Branch { session: Option<AgentSessionId>, place: PathBuf },
    /// A working tree of its own.
    Worktree { session: Option<AgentSessionId> },
}

impl Repository {
    /// The repository that commits of this occasion go to.
    pub(super) async fn enter(
        project: &Project,
        settings: &CommitSettings,
        occasion: &CommitOccasion,
    ) -> Result<Self, Error> {
        let users = Self::around(project.root(), RepositoryState::Users, settings).await?;
        let session = occasion.session.clone();
        match &settings.place {
            CommitTarget::Here => Ok(users),
            CommitTarget::Branch(branch) => {
                let branch = occasion.branch(branch);
                let common = users.ask(settings, ["rev-parse", "--git-common-dir"]).await?;
                let common = users.tree.join(path_from(&common));
                let place = common.join("towpath").join(branch.replace('/', "-"));
                users.add_worktree(settings, &branch, &place, &["--no-checkout"]).await?;
                let git_dir = Program::new("git").directory(&place);
                let git_dir = run(git_dir, settings, ["rev-parse", "--absolute-git-dir"]).await?;
                let sort = RepositoryState::Branch { session, place };
                Ok(Self { git_dir: path_from(&git_dir).into(), sort, ..users })
            }
            CommitTarget::Worktree { below, branch } => {
                let branch = occasion.branch(branch);
                let below = std::path::absolute(below)?;
                let place = below.join(branch.replace('/', "-"));
                if !place.exists() {
                    users.add_worktree(settings, &branch, &place, &[]).await?;
                }
                let sort = RepositoryState::Worktree { session };
                let apart = Self::around(&place, sort, settings).await?;
                Ok(Self { prefix: users.prefix, ..apart })
            }
        }
    }

    /// The repository that a directory is part of.
    async fn around(
        directory: &Path,
        sort: RepositoryState,
        settings: &CommitSettings,
    ) -> Result<Self, Error> {
        let ask =
            |what| run(Program::new("git").directory(directory), settings, ["rev-parse", what]);
        let tree: PathBuf = path_from(&ask("--show-toplevel").await?).into();
        let git_dir = path_from(&ask("--absolute-git-dir").await?).into();
        let prefix = directory.strip_prefix(&tree).unwrap_or(Path::new("")).to_owned();
        Ok(Self { tree, git_dir, prefix, sort })
    }

    async fn add_worktree(
        &self,
        settings: &CommitSettings,
        branch: &str,
        place: &Path,
        options: &[&str],
    ) -> Result<(), Error> {
        if self.head(settings).await?.is_none() {
            return Err(Error::Unborn);
        }
        // One that was left behind would be in the way of its branch.
        self.ask(settings, ["worktree", "prune"]).await?;
        let known = format!("refs/heads/{branch}");
        let known = self.git().args(["show-ref", "--verify", "--quiet", &*known]);
        let known = known.run(settings.limit).await?.status.success();
        let mut add: Vec<&OsStr> = ["worktree", "add", "--quiet"].map(OsStr::new).to_vec();
        add.extend(options.iter().map(OsStr::new));
        let branch = OsStr::new(branch);
        if known {
            add.extend([place.as_os_str(), branch]);
        } else {
            add.extend([OsStr::new("-b"), branch, place.as_os_str(), OsStr::new("HEAD")]);
        }
        self.ask(settings, add).await?;
        Ok(())
    }

    /// Whether commits of the session go here.
    pub(super) fn is_for(&self, wanted: Option<&AgentSessionId>) -> bool {
        match &self.sort {
            RepositoryState::Users => true,
            RepositoryState::Branch { session, .. } | RepositoryState::Worktree { session } => {
                session.as_ref() == wanted
            }
        }
    }

    /// Whether the files are copied here before they are committed.
    pub(super) fn is_apart(&self) -> bool {
        matches!(self.sort, RepositoryState::Worktree { .. })
    }

    /// Whether there is an index that somebody looks at.
    pub(super) fn has_index(&self) -> bool {
        !matches!(self.sort, RepositoryState::Branch { .. })
    }

    /// Git, on this branch and these files.
    pub(super) fn git(&self) -> Program {
        let git = clean(Program::new("git")).directory(&self.tree).env(LITERALLY, "1");
        git.env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.tree)
    }

    pub(super) async fn ask<S: AsRef<OsStr>>(
        &self,
        settings: &CommitSettings,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Vec<u8>, ProgramError> {
        run_program(self.git(), settings, arguments).await
    }

    /// The commit that is checked out; nothing before the first.
    pub(super) async fn head(&self, settings: &CommitSettings) -> Result<Option<String>, Error> {
        let git = self.git().args(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        let run = git.run(settings.limit).await?;
        let id = String::from_utf8_lossy(&run.stdout).trim().to_owned();
        Ok(run.status.success().then_some(id))
    }

    /// What git is in the middle of.
    pub(super) fn under_way(&self) -> Option<&'static str> {
        UNDER_WAY.iter().find(|(file, _)| self.git_dir.join(file).exists()).map(|(_, what)| *what)
    }

    /// Takes away what git would otherwise keep a note of.
    pub(super) async fn leave(self, settings: &CommitSettings) {
        if let RepositoryState::Branch { place, .. } = &self.sort {
            let remove = [OsStr::new("worktree"), "remove".as_ref(), "--force".as_ref()];
            let git = clean(Program::new("git")).directory(&self.tree);
            let git = git.args(remove).args([place]);
            // What is left is pruned by the next of us, or by git.
            let _ = git.succeed(settings.limit).await;
            if let Some(folder) = place.parent() {
                // Others may still have theirs in it.
                let _ = tokio::fs::remove_dir(folder).await;
            }
        }
    }
}

async fn run<const N: usize>(
    git: Program,
    settings: &CommitSettings,
    arguments: [&str; N],
) -> Result<Vec<u8>, ProgramError> {
    run_program(clean(git), settings, arguments).await
}

async fn run_program<S: AsRef<OsStr>>(
    git: Program,
    settings: &CommitSettings,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>, ProgramError> {
    let arguments: Vec<S> = arguments.into_iter().collect();
    let word = arguments.first().map(|it| it.as_ref().to_string_lossy().into_owned());
    let name = format!("git {}", word.unwrap_or_default());
    git.args(arguments).called(name).succeed(settings.limit).await
}

/// Without what the surroundings may say about another repository.
fn clean(git: Program) -> Program {
    MISLEADING.into_iter().fold(git, Program::without_env)
}
