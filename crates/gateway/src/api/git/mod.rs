//! The git repository that a session works in.
//!
//! All of it needs the role `drive`, reading too: a diff shows the content of files that the
//! conversation does not, and a client that may only watch sees what the conversation shows.

mod render;
mod responses;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use project::git::{DiffSide, GitError, GitRepository, HunkId, RepoPath};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;
use view::wording;

use self::render::render;
use self::responses::{
    GitBranchesResponse, GitChangeResponse, GitCommitDetailsResponse, GitDiffResponse,
    GitLogResponse, GitStatusResponse,
};
use super::extract::{JsonBody, PathParams, QueryParams};
use super::large_body::large_json;
use super::sessions::find_record;
use super::tag;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// How many paths one request may name.
const MAX_PATHS: usize = 10_000;

/// The longest message of a commit, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// How many commits are listed if the client does not say.
const DEFAULT_COMMITS: usize = 50;

/// How many bytes of a prompt are looked at for the message of a commit.
const PROMPT_BYTES: usize = 4 << 10;

pub(super) fn operations() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(status))
        .routes(routes!(diff))
        .routes(routes!(log))
        .routes(routes!(show_commit))
        .routes(routes!(branches))
        .routes(routes!(stage))
        .routes(routes!(unstage))
        .routes(routes!(discard))
        .routes(routes!(commit))
        .routes(routes!(switch))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct GitDiffQuery {
    /// The key of a file.
    path: String,
    /// The key that the file had before it was renamed.
    #[serde(default)]
    from: Option<String>,
    /// What is compared; ignored for a commit.
    #[serde(default)]
    #[param(inline)]
    side: GitSide,
    /// The id of a commit whose change is wanted.
    #[serde(default)]
    commit: Option<String>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::api) enum GitSide {
    /// The working tree with the index.
    #[default]
    Unstaged,
    /// The index with the last commit.
    Staged,
    /// The working tree with the last commit.
    Head,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct GitLogQuery {
    /// How many of the newest commits to leave out.
    #[serde(default)]
    #[param(maximum = 1_000_000)]
    skip: usize,
    /// At most 200.
    #[serde(default)]
    count: Option<usize>,
}

/// Whole files, or one hunk.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct GitChangeRequest {
    /// The keys of files.
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    hunk: Option<GitHunkRequest>,
}

/// A hunk of a file, as its diff names it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct GitHunkRequest {
    /// The key of the file.
    path: String,
    #[serde(default)]
    from: Option<String>,
    id: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct GitCommitRequest {
    message: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct GitSwitchRequest {
    branch: String,
    /// Whether it is a new branch, at the current commit.
    #[serde(default)]
    create: bool,
}

#[utoipa::path(get, path = "/sessions/{id}/git/status", tag = tag::GIT, params(("id" = Uuid, Path)),
    responses((status = 200, body = GitStatusResponse)))]
/// The branch, and the files that differ from the last commit.
pub(in crate::api) async fn status(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Response> {
    let repository = open(&gateway, id).await?;
    let status = read_status(&gateway, id, &repository).await?;
    large_json(&gateway, &status).await
}

#[utoipa::path(get, path = "/sessions/{id}/git/diff", tag = tag::GIT, params(("id" = Uuid, Path), GitDiffQuery),
    responses((status = 200, body = GitDiffResponse)))]
/// What has changed in a file.
pub(in crate::api) async fn diff(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(query): QueryParams<GitDiffQuery>,
) -> ApiResult<Response> {
    let path = RepoPath::from_key(&query.path)?;
    let from = query.from.as_deref().map(RepoPath::from_key).transpose()?;
    let repository = open(&gateway, id).await?;
    let _permit = gateway.git_reads.acquire().await.map_err(|it| Problem::failed(&it))?;
    let patches = match &query.commit {
        Some(commit) => repository.commit_diff(commit, &path, from.as_ref()).await?,
        None => repository.diff(&path, from.as_ref(), query.side.into()).await?,
    };
    let can_split = query.commit.is_none();
    let rendered = tokio::task::spawn_blocking(move || render(&patches, can_split)).await;
    large_json(&gateway, &rendered.map_err(|it| Problem::failed(&it))?).await
}

#[utoipa::path(get, path = "/sessions/{id}/git/log", tag = tag::GIT, params(("id" = Uuid, Path), GitLogQuery),
    responses((status = 200, body = GitLogResponse)))]
/// Commits, the newest first.
pub(in crate::api) async fn log(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(query): QueryParams<GitLogQuery>,
) -> ApiResult<Response> {
    let repository = open(&gateway, id).await?;
    let _permit = gateway.git_reads.acquire().await.map_err(|it| Problem::failed(&it))?;
    let count = query.count.unwrap_or(DEFAULT_COMMITS).clamp(1, 200);
    let commits = repository.log(query.skip.min(1_000_000), count).await?;
    large_json(&gateway, &GitLogResponse::new(commits, count)).await
}

#[utoipa::path(get, path = "/sessions/{id}/git/commits/{commit}", tag = tag::GIT,
    params(("id" = Uuid, Path), ("commit" = String, Path)), responses((status = 200, body = GitCommitDetailsResponse)))]
/// A commit, and the files it changed compared with its first parent.
pub(in crate::api) async fn show_commit(
    State(gateway): State<Gateway>,
    PathParams((id, commit)): PathParams<(Uuid, String)>,
) -> ApiResult<Response> {
    let repository = open(&gateway, id).await?;
    let _permit = gateway.git_reads.acquire().await.map_err(|it| Problem::failed(&it))?;
    let (commit, files) = repository.show(&commit).await?;
    large_json(&gateway, &GitCommitDetailsResponse::new(commit, &files)).await
}

#[utoipa::path(get, path = "/sessions/{id}/git/branches", tag = tag::GIT, params(("id" = Uuid, Path)),
    responses((status = 200, body = GitBranchesResponse)))]
/// Branches, those with the newest commits first.
pub(in crate::api) async fn branches(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Response> {
    let repository = open(&gateway, id).await?;
    let _permit = gateway.git_reads.acquire().await.map_err(|it| Problem::failed(&it))?;
    large_json(&gateway, &GitBranchesResponse::new(repository.branches().await?)).await
}

#[utoipa::path(post, path = "/sessions/{id}/git/stage", tag = tag::GIT, params(("id" = Uuid, Path)), request_body = GitChangeRequest,
    responses((status = 200, body = GitChangeResponse)))]
/// Puts files or a hunk into the index.
pub(in crate::api) async fn stage(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<GitChangeRequest>,
) -> ApiResult<Response> {
    let (paths, hunk) = body.check()?;
    let work = async move |git: GitRepository| {
        git.stage(&paths).await?;
        if let Some(hunk) = hunk {
            git.stage_hunk(&hunk).await?;
        }
        Ok(String::new())
    };
    change(&gateway, id, work).await
}

#[utoipa::path(post, path = "/sessions/{id}/git/unstage", tag = tag::GIT, params(("id" = Uuid, Path)), request_body = GitChangeRequest,
    responses((status = 200, body = GitChangeResponse)))]
/// Takes files or a hunk out of the index.
pub(in crate::api) async fn unstage(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<GitChangeRequest>,
) -> ApiResult<Response> {
    let (paths, hunk) = body.check()?;
    let work = async move |git: GitRepository| {
        git.unstage(&paths).await?;
        if let Some(hunk) = hunk {
            git.unstage_hunk(&hunk).await?;
        }
        Ok(String::new())
    };
    change(&gateway, id, work).await
}

#[utoipa::path(post, path = "/sessions/{id}/git/discard", tag = tag::GIT, params(("id" = Uuid, Path)), request_body = GitChangeRequest,
    responses((status = 200, body = GitChangeResponse)))]
/// Puts files or a hunk back to what the index has. Files that git does not know are removed. This cannot
/// be undone.
pub(in crate::api) async fn discard(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<GitChangeRequest>,
) -> ApiResult<Response> {
    let (paths, hunk) = body.check()?;
    let work = async move |git: GitRepository| {
        git.discard(&paths).await?;
        if let Some(hunk) = hunk {
            git.discard_hunk(&hunk).await?;
        }
        Ok(String::new())
    };
    change(&gateway, id, work).await
}

#[utoipa::path(post, path = "/sessions/{id}/git/commit", tag = tag::GIT, params(("id" = Uuid, Path)), request_body = GitCommitRequest,
    responses((status = 200, body = GitChangeResponse)))]
/// Commits what is staged. The user's hooks run; if they refuse, the problem has their words.
pub(in crate::api) async fn commit(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    JsonBody(GitCommitRequest { message }): JsonBody<GitCommitRequest>,
) -> ApiResult<Response> {
    if message.trim().is_empty() || message.len() > MAX_MESSAGE_BYTES || message.contains('\0') {
        let detail = format!("a message has between 1 and {MAX_MESSAGE_BYTES} bytes");
        return Err(Problem::invalid(detail));
    }
    change(&gateway, id, async move |git: GitRepository| git.commit(&message).await).await
}

#[utoipa::path(post, path = "/sessions/{id}/git/switch", tag = tag::GIT, params(("id" = Uuid, Path)), request_body = GitSwitchRequest,
    responses((status = 200, body = GitChangeResponse)))]
/// Switches to a branch. Git refuses it if changes would be lost.
pub(in crate::api) async fn switch(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    JsonBody(GitSwitchRequest { branch, create }): JsonBody<GitSwitchRequest>,
) -> ApiResult<Response> {
    change(&gateway, id, async move |git: GitRepository| git.switch(&branch, create).await).await
}

/// Changes the repository, and answers with what git said and the new status.
///
/// It goes on if the client goes away: git would leave its locks behind.
async fn change<F>(
    gateway: &Gateway,
    id: Uuid,
    work: impl FnOnce(GitRepository) -> F,
) -> ApiResult<Response>
where
    F: Future<Output = Result<String, GitError>> + Send + 'static,
{
    let repository = open(gateway, id).await?;
    let (own, work) = (gateway.clone(), work(repository.clone()));
    let task = tokio::spawn(async move {
        let _permit = own.git_changes.acquire().await.map_err(|it| Problem::failed(&it))?;
        work.await.map_err(Problem::from)
    });
    let said = task.await.map_err(|it| Problem::failed(&it))??;
    let status = read_status(gateway, id, &repository).await?;
    large_json(gateway, &GitChangeResponse { said, status }).await
}

/// Opens the repository of a session.
pub(in crate::api) async fn open(gateway: &Gateway, id: Uuid) -> ApiResult<GitRepository> {
    let directory = find_record(gateway, id).await?.directory;
    open_at(gateway, &directory.to_string_lossy()).await
}

/// Opens the repository of a directory, which must be below a root with its whole working tree.
pub(in crate::api) async fn open_at(gateway: &Gateway, path: &str) -> ApiResult<GitRepository> {
    let directory = super::sessions::resolve_directory(gateway, path).await?;
    let repository = GitRepository::open(&directory).await?;
    let (roots, top) = (gateway.config.roots.clone(), repository.top().to_owned());
    let inside = tokio::task::spawn_blocking(move || roots.resolve(&top).is_some()).await;
    if inside.map_err(|it| Problem::failed(&it))? {
        return Ok(repository);
    }
    let detail = "the working tree of this repository is not below a root of this server; add its top \
                  directory with `--root`";
    Err(Problem::new(StatusCode::FORBIDDEN, "outside-roots", "directory not allowed", detail))
}

async fn read_status(
    gateway: &Gateway,
    id: Uuid,
    repository: &GitRepository,
) -> ApiResult<GitStatusResponse> {
    let _permit = gateway.git_reads.acquire().await.map_err(|it| Problem::failed(&it))?;
    let status = repository.status().await?;
    let worktree = repository.linked_worktree().await?;
    let message = suggested_message(gateway, id).await?;
    Ok(GitStatusResponse::new(repository.top(), status, worktree, message))
}

/// What the last turn was asked to do.
async fn suggested_message(gateway: &Gateway, id: Uuid) -> ApiResult<Option<String>> {
    let prompts = gateway.sessions.journal().prompts(journal::SessionId(id)).await?;
    let last = prompts.iter().filter(|it| it.turn.is_some()).max_by_key(|it| it.created);
    Ok(last.and_then(|it| {
        let end = it.text.floor_char_boundary(PROMPT_BYTES);
        wording::title(&it.text[..end])
    }))
}

impl GitChangeRequest {
    fn check(self) -> ApiResult<(Vec<RepoPath>, Option<HunkId>)> {
        if self.paths.len() > MAX_PATHS {
            return Err(Problem::invalid(format!("name at most {MAX_PATHS} files")));
        }
        if self.paths.is_empty() == self.hunk.is_none() {
            return Err(Problem::invalid("name either `paths` or a `hunk`"));
        }
        let paths = self.paths.iter().map(|it| RepoPath::from_key(it)).collect::<Result<_, _>>()?;
        let hunk = self.hunk.map(|it| {
            let from = it.from.as_deref().map(RepoPath::from_key).transpose()?;
            Ok::<_, GitError>(HunkId { path: RepoPath::from_key(&it.path)?, from, id: it.id })
        });
        Ok((paths, hunk.transpose()?))
    }
}

impl From<GitSide> for DiffSide {
    fn from(side: GitSide) -> Self {
        match side {
            GitSide::Unstaged => Self::Unstaged,
            GitSide::Staged => Self::Staged,
            GitSide::Head => Self::Head,
        }
    }
}

impl From<GitError> for Problem {
    fn from(error: GitError) -> Self {
        let detail = error.to_string();
        match error {
            GitError::Missing => Self::conflict("no-git", detail),
            GitError::NoRepository => Self::conflict("no-repository", detail),
            GitError::Refused(_) | GitError::Timeout { .. } => {
                Self::conflict("git-refused", detail)
            }
            GitError::TooLong { .. } => Self::too_large(detail),
            GitError::InvalidPath(_) | GitError::InvalidBranch(_) | GitError::InvalidCommit(_) => {
                Self::invalid(detail)
            }
            GitError::Changed | GitError::File { .. } => Self::conflict("changed", detail),
            error @ GitError::Run { .. } => Self::failed(&error),
        }
    }
}
