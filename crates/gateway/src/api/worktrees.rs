//! Working trees that sessions have for themselves: made with the session, removed with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use axum::Json;
use axum::extract::State;
use project::git::{GitRepository, LinkedWorktree, WorktreeLoss};
use serde::{Deserialize, Serialize};
use session::WorktreeRemoval;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::extract::PathParams;
use super::git;
use super::sessions::find_record;
use super::tag;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// What the branches of sessions begin with.
const BRANCH_PREFIX: &str = "towpath/";

/// Where working trees are, if the directory beside the repository is not below a root.
const INNER_DIRECTORY: &str = ".towpath/worktrees";

/// What the name of the directory beside the repository ends with.
const SIBLING_SUFFIX: &str = "-worktrees";

/// The longest name that is made from a prompt, in characters.
const MAX_SLUG_CHARS: usize = 40;

/// How many names are tried.
const MAX_ATTEMPTS: usize = 100;

/// What happens to the working tree of a session that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorktreeFate {
    /// It stays.
    #[default]
    Keep,
    /// It and its branch are removed, unless something would be lost.
    Remove,
    /// It and its branch are removed with everything that is only there.
    Discard,
}

impl WorktreeFate {
    /// None if it stays.
    pub(super) fn removal(self) -> Option<WorktreeRemoval> {
        match self {
            Self::Keep => None,
            Self::Remove => Some(WorktreeRemoval::IfClean),
            Self::Discard => Some(WorktreeRemoval::Always),
        }
    }
}

#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteSessionQuery {
    /// What happens to the session's own working tree.
    #[serde(default)]
    pub(super) worktree: WorktreeFate,
}

/// The working tree that was made for a session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionWorktree)]
pub(super) struct SessionWorktreeResponse {
    /// None if the session works in a directory that was there before.
    worktree: Option<OwnWorktreeResponse>,
}

/// A working tree, and what would be lost with it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OwnWorktree)]
pub(super) struct OwnWorktreeResponse {
    path: String,
    branch: String,
    /// Files that are not committed.
    files: usize,
    /// Commits that no other branch has.
    commits: usize,
}

#[utoipa::path(get, path = "/sessions/{id}/worktree", tag = tag::SESSIONS, params(("id" = Uuid, Path)),
    responses((status = 200, body = SessionWorktreeResponse)))]
/// The working tree that was made for a session, and what would be lost with it.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<SessionWorktreeResponse>> {
    find_record(&gateway, id).await?;
    let own = find_own(&gateway, id).await.ok().flatten();
    let Some((repository, own)) = own else {
        return Ok(Json(SessionWorktreeResponse { worktree: None }));
    };
    let loss = repository.worktree_loss(&own).await?;
    Ok(Json(SessionWorktreeResponse {
        worktree: Some(OwnWorktreeResponse {
            path: own.path.to_string_lossy().into_owned(),
            branch: own.branch.unwrap_or_default(),
            files: loss.files,
            commits: loss.commits,
        }),
    }))
}

/// A working tree that was just made.
#[derive(Debug)]
pub(crate) struct NewWorktree {
    main: GitRepository,
    worktree: LinkedWorktree,
    /// The directory in it that corresponds to the one that was asked for.
    pub(crate) directory: PathBuf,
}

impl NewWorktree {
    /// Makes a working tree of the repository of a directory, named after what the session is about.
    pub(crate) async fn create(
        gateway: &Gateway,
        directory: &Path,
        about: &str,
    ) -> ApiResult<Self> {
        let repository = git::open_at(gateway, &directory.to_string_lossy()).await?;
        let Some(parent) = worktree_parent(gateway, &repository).await? else {
            let detail = "there is no directory below a root of this server for a new working tree";
            return Err(Problem::conflict("no-worktree", detail));
        };
        if parent.ends_with(INNER_DIRECTORY) {
            let common = repository.common_directory().await?;
            let excluded = tokio::task::spawn_blocking(move || exclude_inner_directory(&common));
            let excluded = excluded.await.map_err(|it| Problem::failed(&it))?;
            excluded.map_err(|it| Problem::failed(&it))?;
        }
        let slug = slug(about);
        for attempt in 1..=MAX_ATTEMPTS {
            let name = if attempt == 1 { slug.clone() } else { format!("{slug}-{attempt}") };
            let (branch, path) = (format!("{BRANCH_PREFIX}{name}"), parent.join(&name));
            if repository.has_branch(&branch).await? || path.symlink_metadata().is_ok() {
                continue;
            }
            repository.add_worktree(&path, &branch).await?;
            let inner = directory.strip_prefix(repository.top()).unwrap_or(Path::new(""));
            let inner = path.join(inner);
            // A directory that is not committed is not there.
            let directory = if inner.is_dir() { inner } else { path.clone() };
            let main = repository.top().to_owned();
            let worktree = LinkedWorktree { path, main, branch: Some(branch) };
            return Ok(Self { main: repository, worktree, directory });
        }
        let detail = format!("there are already {MAX_ATTEMPTS} working trees with this name");
        Err(Problem::conflict("no-worktree", detail))
    }

    /// Removes it again, if its session could not be created.
    pub(super) async fn undo(self) {
        if let Err(error) = self.main.remove_worktree(&self.worktree).await {
            tracing::warn!(%error, path = %self.worktree.path.display(), "a working tree stays behind");
        }
    }
}

/// A working tree that was made for a session and may be removed once that is deleted.
#[derive(Debug)]
pub(crate) struct RemovableWorktree {
    main: GitRepository,
    worktree: LinkedWorktree,
}

impl RemovableWorktree {
    /// The one of a session.
    pub(crate) async fn of_session(
        gateway: &Gateway,
        id: Uuid,
        removal: WorktreeRemoval,
    ) -> ApiResult<Self> {
        let (repository, worktree) = find_own(gateway, id).await?.ok_or_else(no_worktree)?;
        let all = gateway.sessions.journal().sessions().await?;
        if all.iter().any(|it| it.id.0 != id && it.directory.starts_with(&worktree.path)) {
            let detail = "another session works in this working tree; delete that one first";
            return Err(Problem::conflict("worktree-in-use", detail));
        }
        let loss = repository.worktree_loss(&worktree).await?;
        if removal == WorktreeRemoval::IfClean && loss != WorktreeLoss::default() {
            let detail = format!(
                "{} files that are not committed and {} commits that no other branch has would be lost",
                loss.files, loss.commits
            );
            return Err(Problem::conflict("worktree-not-clean", detail));
        }
        Self::new(gateway, worktree).await
    }

    /// The one with a directory, of a session that is gone or was never stored.
    pub(crate) async fn at(gateway: &Gateway, directory: &Path) -> ApiResult<Self> {
        let repository = git::open_at(gateway, &directory.to_string_lossy()).await?;
        let worktree = own_worktree(&repository).await?.ok_or_else(no_worktree)?;
        Self::new(gateway, worktree).await
    }

    async fn new(gateway: &Gateway, worktree: LinkedWorktree) -> ApiResult<Self> {
        let main = git::open_at(gateway, &worktree.main.to_string_lossy()).await?;
        Ok(Self { main, worktree })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.worktree.path
    }

    pub(crate) async fn remove(self) -> ApiResult<()> {
        Ok(self.main.remove_worktree(&self.worktree).await?)
    }
}

fn no_worktree() -> Problem {
    Problem::conflict("no-worktree", "no working tree was made for this session")
}

/// The working tree of a session, if it was made for one.
async fn find_own(
    gateway: &Gateway,
    id: Uuid,
) -> ApiResult<Option<(GitRepository, LinkedWorktree)>> {
    let repository = git::open(gateway, id).await?;
    let own = own_worktree(&repository).await?;
    Ok(own.map(|worktree| (repository, worktree)))
}

/// The working tree of a repository, if it was made for a session.
async fn own_worktree(repository: &GitRepository) -> ApiResult<Option<LinkedWorktree>> {
    let Some(worktree) = repository.linked_worktree().await? else { return Ok(None) };
    let is_own = worktree.branch.as_ref().is_some_and(|it| it.starts_with(BRANCH_PREFIX))
        && worktree.path.parent().is_some_and(|parent| {
            parent == sibling_directory(&worktree.main)
                || parent == worktree.main.join(INNER_DIRECTORY)
        });
    Ok(is_own.then_some(worktree))
}

/// The directory for new working trees of a repository: beside it if that is below a root, otherwise
/// in it.
pub(super) async fn worktree_parent(
    gateway: &Gateway,
    repository: &GitRepository,
) -> ApiResult<Option<PathBuf>> {
    let linked = repository.linked_worktree().await?;
    let main = linked.map_or_else(|| repository.top().to_owned(), |it| it.main);
    let roots = gateway.config.roots.clone();
    let find = move || {
        let choices = [sibling_directory(&main), main.join(INNER_DIRECTORY)];
        // A link in its place could lead anywhere.
        choices.into_iter().find(|it| roots.resolve_new(it).as_ref() == Some(it))
    };
    tokio::task::spawn_blocking(find).await.map_err(|it| Problem::failed(&it))
}

fn sibling_directory(main: &Path) -> PathBuf {
    let mut name = main.file_name().unwrap_or_default().to_owned();
    name.push(SIBLING_SUFFIX);
    main.with_file_name(name)
}

/// Working trees in the repository are not files of it.
fn exclude_inner_directory(common: &Path) -> io::Result<()> {
    const LINE: &str = "/.towpath/";
    let info = common.join("info");
    fs::create_dir_all(&info)?;
    let path = info.join("exclude");
    let mut text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if text.lines().any(|it| it.trim() == LINE) {
        return Ok(());
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(LINE);
    text.push('\n');
    fs::write(path, text)
}

/// A name for a branch and a directory: the first words of a text.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars() {
        if slug.len() >= MAX_SLUG_CHARS {
            break;
        }
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') && !matches!(character, '\'' | '’') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "session".to_owned() } else { slug.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn names_are_made_of_what_people_wrote() {
        for (text, name) in [
            ("Fix the cart's total", "fix-the-carts-total"),
            ("  --force ../../etc; rm -rf ~", "force-etc-rm-rf"),
            ("修复", "session"),
            ("", "session"),
            ("Größe", "gr-e"),
        ] {
            assert_eq!(slug(text), name);
        }
        assert!(slug(&"long ".repeat(100)).len() <= 40);
    }
}
