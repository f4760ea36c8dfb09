//! Creating directories, renaming and deleting.

use axum::extract::State;
use axum::http::StatusCode;
use project::files::ProjectPath;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{with_files, write_access};
use crate::access::AuthenticatedClient;
use crate::api::extract::{JsonBody, PathParams, QueryParams};
use crate::api::tag;
use crate::gateway::Gateway;
use crate::problem::ApiResult;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateDirectoryRequest {
    /// Relative to the session's directory.
    path: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RenameFileRequest {
    /// Relative to the session's directory.
    path: String,
    /// The new path.
    to: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteFileQuery {
    /// Relative to the session's directory.
    path: String,
    /// Delete a directory with everything in it.
    #[serde(default)]
    recursive: bool,
}

#[utoipa::path(post, path = "/sessions/{id}/files/directories", tag = tag::FILES, params(("id" = Uuid, Path)), request_body = CreateDirectoryRequest,
    responses((status = 201, description = "created")))]
/// Creates a directory.
pub(in crate::api) async fn create_directory(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(CreateDirectoryRequest { path }): JsonBody<CreateDirectoryRequest>,
) -> ApiResult<StatusCode> {
    let access = write_access(&client);
    let create = move |files: &project::files::ProjectFiles| {
        files.create_directory(&ProjectPath::parse(&path)?, access)
    };
    with_files(&gateway, id, create).await?;
    Ok(StatusCode::CREATED)
}

#[utoipa::path(patch, path = "/sessions/{id}/files", tag = tag::FILES, params(("id" = Uuid, Path)), request_body = RenameFileRequest,
    responses((status = 204, description = "renamed")))]
/// Renames or moves a file or directory. Nothing is replaced.
pub(in crate::api) async fn rename(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(RenameFileRequest { path, to }): JsonBody<RenameFileRequest>,
) -> ApiResult<StatusCode> {
    let access = write_access(&client);
    let rename = move |files: &project::files::ProjectFiles| {
        files.rename(&ProjectPath::parse(&path)?, &ProjectPath::parse(&to)?, access)
    };
    with_files(&gateway, id, rename).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(delete, path = "/sessions/{id}/files", tag = tag::FILES, params(("id" = Uuid, Path), DeleteFileQuery),
    responses((status = 204, description = "deleted")))]
/// Deletes a file or directory.
pub(in crate::api) async fn delete(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    QueryParams(DeleteFileQuery { path, recursive }): QueryParams<DeleteFileQuery>,
) -> ApiResult<StatusCode> {
    let access = write_access(&client);
    let delete = move |files: &project::files::ProjectFiles| {
        files.delete(&ProjectPath::parse(&path)?, recursive, access)
    };
    with_files(&gateway, id, delete).await?;
    Ok(StatusCode::NO_CONTENT)
}
