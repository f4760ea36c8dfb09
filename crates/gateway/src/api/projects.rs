//! The projects that sessions work in: which directories belong to one repository, and their state.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use futures_util::future::join_all;
use project::git::{GitError, GitRepository};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::extract::QueryParams;
use super::sessions::resolve_directory;
use super::tag;
use super::worktrees::worktree_parent;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// How many directories are looked at: those of the most recently active sessions.
const MAX_DIRECTORIES: usize = 100;

/// How long the state of a directory is kept.
const FRESH: Duration = Duration::from_secs(4);

/// The directories of all sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProjectsResponse {
    /// Those of the most recently active sessions first.
    directories: Vec<ProjectDirectoryResponse>,
}

/// A directory in which sessions work.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ProjectDirectory)]
pub(super) struct ProjectDirectoryResponse {
    /// The directory, as sessions have it.
    cwd: String,
    /// What is the same for all directories of a repository, with all its working trees.
    project: String,
    /// The name of the project.
    name: String,
    /// Whether it is in a git repository.
    repository: bool,
    /// The branch that is checked out.
    branch: Option<String>,
    /// How many files and directories differ from the last commit.
    changes: usize,
    /// Whether it is in a working tree that is not the main one.
    worktree: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RepositoryQuery {
    /// A directory below a root.
    cwd: String,
}

/// The repository of a directory.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Repository)]
pub(super) struct RepositoryResponse {
    /// Nothing if it is in no repository in which sessions may work.
    branch: Option<String>,
    /// Where new working trees of its sessions are made; none if there can be none.
    worktrees: Option<String>,
}

/// What is known of directories, for a moment.
#[derive(Debug, Default)]
pub(crate) struct ProjectCache(Mutex<HashMap<PathBuf, (Instant, ProjectDirectoryResponse)>>);

#[utoipa::path(get, path = "/projects", tag = tag::SESSIONS, responses((status = 200, body = ProjectsResponse)))]
/// The directories in which sessions work, with the repositories that they belong to.
pub(super) async fn list(State(gateway): State<Gateway>) -> ApiResult<Json<ProjectsResponse>> {
    let mut records = gateway.sessions.journal().sessions().await?;
    records.sort_by_key(|it| std::cmp::Reverse(it.active));
    let mut seen = HashSet::new();
    let directories: Vec<PathBuf> = records
        .into_iter()
        .map(|it| it.directory)
        .filter(|it| seen.insert(it.clone()))
        .take(MAX_DIRECTORIES)
        .collect();
    gateway.projects.retain(&seen);
    let looked_at = directories.iter().map(|it| look_at(&gateway, it));
    let directories = join_all(looked_at).await;
    Ok(Json(ProjectsResponse { directories }))
}

#[utoipa::path(get, path = "/repository", tag = tag::SESSIONS, params(RepositoryQuery),
    responses((status = 200, body = RepositoryResponse)))]
/// The repository of a directory, for a new session in it.
pub(super) async fn repository(
    State(gateway): State<Gateway>,
    QueryParams(RepositoryQuery { cwd }): QueryParams<RepositoryQuery>,
) -> ApiResult<Json<RepositoryResponse>> {
    let directory = resolve_directory(&gateway, &cwd).await?;
    let _permit = gateway.git_reads.acquire().await.map_err(|it| Problem::failed(&it))?;
    let none = RepositoryResponse { branch: None, worktrees: None };
    let Ok(repository) = GitRepository::open(&directory).await else { return Ok(Json(none)) };
    let status = repository.summary().await?;
    // A working tree is made at a commit.
    let worktrees = match status.commit {
        Some(_) => worktree_parent(&gateway, &repository).await?,
        None => None,
    };
    let worktrees = worktrees.map(|it| it.to_string_lossy().into_owned());
    Ok(Json(RepositoryResponse { branch: status.branch, worktrees }))
}

impl ProjectCache {
    fn get(&self, directory: &Path) -> Option<ProjectDirectoryResponse> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, response) = known.get(directory)?;
        (at.elapsed() < FRESH).then(|| response.clone())
    }

    fn insert(&self, directory: PathBuf, response: ProjectDirectoryResponse) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(directory, (Instant::now(), response));
    }

    fn retain(&self, directories: &HashSet<PathBuf>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|it, _| directories.contains(it));
    }
}

/// A directory that is gone, or of which git refuses to say something, is a project of its own.
async fn look_at(gateway: &Gateway, directory: &Path) -> ProjectDirectoryResponse {
    if let Some(known) = gateway.projects.get(directory) {
        return known;
    }
    let cwd = directory.to_string_lossy().into_owned();
    let response = read_directory(gateway, directory, &cwd).await.ok().flatten();
    let response = response.unwrap_or_else(|| ProjectDirectoryResponse {
        project: cwd.clone(),
        name: name_of(directory),
        cwd,
        repository: false,
        branch: None,
        changes: 0,
        worktree: false,
    });
    gateway.projects.insert(directory.to_owned(), response.clone());
    response
}

async fn read_directory(
    gateway: &Gateway,
    directory: &Path,
    cwd: &str,
) -> Result<Option<ProjectDirectoryResponse>, GitError> {
    let Ok(resolved) = resolve_directory(gateway, cwd).await else { return Ok(None) };
    let Ok(_permit) = gateway.git_reads.acquire().await else { return Ok(None) };
    let repository = GitRepository::open(&resolved).await?;
    let common = repository.common_directory().await?;
    let status = repository.summary().await?;
    let main =
        if name_of(&common) == ".git" { common.parent().unwrap_or(&common) } else { &common };
    Ok(Some(ProjectDirectoryResponse {
        cwd: directory.to_string_lossy().into_owned(),
        project: common.to_string_lossy().into_owned(),
        name: name_of(main),
        repository: true,
        branch: status.branch,
        changes: status.files.len(),
        worktree: main != repository.top(),
    }))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
