//! The files of a session's directory: listing, showing, reading, saving, receiving.
//!
//! Reading needs the role `drive` too: a conversation shows what the agent read, but not every file
//! with a password in it.

mod change;
mod content;
mod upload;
mod view;

use std::path::Path;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use project::files::{
    DirectoryItem, DirectoryPage, FileError, ItemType, ProjectFiles, ProjectPath, WriteAccess,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

pub(crate) use content::{FILE_POLICY, PDF_POLICY};

use super::extract::{PathParams, QueryParams};
use super::large_body::large_json;
use super::sessions::find_record;
use super::tag;
use crate::access::{AuthenticatedClient, Role};
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// How many entries a page of a directory may have.
const MAX_LISTED: usize = 2000;

pub(super) fn operations() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(view::show))
        .routes(routes!(view::compare))
        .routes(routes!(content::read, content::save))
        .routes(routes!(upload::upload, change::rename, change::delete))
        .routes(routes!(change::create_directory))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFilesQuery {
    /// The directory, relative to the session's; its own without one.
    #[serde(default)]
    path: String,
    /// The `more` of the page before.
    #[serde(default)]
    after: Option<String>,
    /// At most 2000.
    #[serde(default)]
    limit: Option<usize>,
}

/// A path. Bytes that are not UTF-8 are `\xNN` in it, and a backslash is `\\`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FilePathQuery {
    /// Relative to the session's directory.
    path: String,
}

/// A part of the content of a directory: directories first, then by name.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FileList)]
pub(super) struct FileListResponse {
    entries: Vec<FileEntryResponse>,
    /// How many there are in all, as far as they were counted.
    total: usize,
    /// Where the next page starts; `null` if there is none.
    more: Option<String>,
}

/// A file or directory.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FileEntry)]
pub(super) struct FileEntryResponse {
    /// Bytes that are not UTF-8 are `\xNN`, and a backslash is `\\`.
    name: String,
    kind: FileEntryKind,
    /// Whether it is a symbolic link; the kind is that of what it leads to.
    link: bool,
    /// In bytes.
    size: u64,
    /// When it was last written, in milliseconds since 1970.
    modified: u64,
    /// Whether git ignores it.
    ignored: bool,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileEntryKind {
    Directory,
    File,
    /// What cannot be read: a pipe, a device, or a link that leads nowhere or out of the directory.
    Other,
}

#[utoipa::path(get, path = "/sessions/{id}/files/list", tag = tag::FILES, params(("id" = Uuid, Path), ListFilesQuery),
    responses((status = 200, body = FileListResponse)))]
/// What is in a directory.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(ListFilesQuery { path, after, limit }): QueryParams<ListFilesQuery>,
) -> ApiResult<Response> {
    let limit = limit.unwrap_or(MAX_LISTED);
    if !(1..=MAX_LISTED).contains(&limit) {
        return Err(Problem::invalid(format!("`limit` is between 1 and {MAX_LISTED}")));
    }
    let page = with_files(&gateway, id, move |files| {
        files.list(&ProjectPath::parse(&path)?, after.as_deref(), limit)
    });
    let DirectoryPage { items, total, more } = page.await?;
    let entries = items.into_iter().map(FileEntryResponse::from).collect();
    large_json(&gateway, &FileListResponse { entries, total, more }).await
}

impl From<DirectoryItem> for FileEntryResponse {
    fn from(item: DirectoryItem) -> Self {
        Self {
            name: item.name,
            kind: match item.item_type {
                ItemType::Directory => FileEntryKind::Directory,
                ItemType::File => FileEntryKind::File,
                ItemType::Other => FileEntryKind::Other,
            },
            link: item.is_link,
            size: item.size,
            modified: item.modified,
            ignored: item.is_ignored,
        }
    }
}

/// Does something with the files of a session, on a thread that may block.
async fn with_files<T: Send + 'static>(
    gateway: &Gateway,
    id: Uuid,
    act: impl FnOnce(&ProjectFiles) -> Result<T, FileError> + Send + 'static,
) -> ApiResult<T> {
    let _permit = gateway.file_operations.acquire().await.map_err(|it| Problem::failed(&it))?;
    let directory = find_record(gateway, id).await?.directory;
    let roots = gateway.config.roots.clone();
    let done = tokio::task::spawn_blocking(move || {
        // The roots may be others than when the session was created.
        let Some(directory) = roots.resolve(&directory) else { return Err(outside(&directory)) };
        let files = ProjectFiles::open(&directory)?;
        Ok(act(&files)?)
    });
    done.await.map_err(|it| Problem::failed(&it))?
}

pub(super) fn outside(directory: &Path) -> Problem {
    let directory = directory.display();
    let detail = format!(
        "the session's directory {directory} is gone, or not below a root of this server; add one with `--root`"
    );
    Problem::new(StatusCode::FORBIDDEN, "outside-roots", "directory not allowed", detail)
}

/// What a client may write.
fn write_access(client: &AuthenticatedClient) -> WriteAccess {
    if client.role >= Role::Admin { WriteAccess::Admin } else { WriteAccess::Ordinary }
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        let detail = error.to_string();
        let new = |status, kind: &str, title: &str| Self::new(status, kind, title, detail.clone());
        match error {
            FileError::InvalidPath(_) | FileError::InvalidName(_) => Self::invalid(detail),
            FileError::NotFound => new(StatusCode::NOT_FOUND, "not-found", "not found"),
            FileError::Outside => new(StatusCode::FORBIDDEN, "outside", "outside the directory"),
            FileError::NotAFile | FileError::NotADirectory => {
                new(StatusCode::CONFLICT, "wrong-kind", "not possible with this")
            }
            FileError::NotEmpty => new(StatusCode::CONFLICT, "not-empty", "not empty"),
            FileError::Exists => new(StatusCode::CONFLICT, "exists", "exists already"),
            FileError::TooLarge(_) => Self::too_large(detail),
            FileError::Changed => {
                new(StatusCode::PRECONDITION_FAILED, "changed", "changed meanwhile")
            }
            FileError::Git | FileError::NeedsAdmin => {
                new(StatusCode::FORBIDDEN, "protected", "protected file")
            }
            FileError::NoSpace => {
                new(StatusCode::INSUFFICIENT_STORAGE, "unavailable", "the disk is full")
            }
            FileError::Denied => new(StatusCode::FORBIDDEN, "denied", "not permitted"),
            FileError::Io(_) => Self::failed(&error),
        }
    }
}
