//! Receiving files of any size, piece by piece.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use futures_util::StreamExt as _;
use project::files::{FileUpload, ProjectPath};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{with_files, write_access};
use crate::access::AuthenticatedClient;
use crate::api::extract::{PathParams, QueryParams, require_bytes};
use crate::api::tag;
use crate::gateway::Gateway;
use crate::limits::{MAX_UPLOAD_BYTES, UPLOAD_STALLED_AFTER};
use crate::problem::{ApiResult, Problem};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct UploadQuery {
    /// The name of the file.
    name: String,
    /// Relative to the session's directory, empty for that itself. Without one the file goes to
    /// `.towpath/files`, which git ignores.
    #[serde(default)]
    directory: Option<String>,
}

/// A file that was received.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UploadedFile)]
pub(super) struct UploadedFileResponse {
    /// Relative to the session's directory. Its name has a number if there was such a file already.
    path: String,
}

#[utoipa::path(post, path = "/sessions/{id}/files", tag = tag::FILES, params(("id" = Uuid, Path), UploadQuery),
    request_body(content = String, content_type = "application/octet-stream"), responses((status = 201, body = UploadedFileResponse)))]
/// Receives a file. It never replaces another one.
pub(in crate::api) async fn upload(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    QueryParams(UploadQuery { name, directory }): QueryParams<UploadQuery>,
    request: Request,
) -> ApiResult<(StatusCode, Json<UploadedFileResponse>)> {
    require_bytes(&request)?;
    let permit = gateway.uploads.try_acquire();
    let _permit = permit.map_err(|_| Problem::unavailable("too many files are being received"))?;
    let length = request.headers().get(header::CONTENT_LENGTH);
    let announced = length.and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let access = write_access(&client);
    let begin = with_files(&gateway, id, move |files| {
        let directory = match directory {
            Some(directory) => ProjectPath::parse(&directory)?,
            None => files.create_upload_directory()?,
        };
        let name = ProjectPath::parse(&name)?;
        let name = name.name().filter(|_| name.parent().is_root()).unwrap_or_default();
        files.begin_upload(&directory.join(name), announced, MAX_UPLOAD_BYTES, access)
    });
    let mut upload = begin.await?;
    let mut pieces = request.into_body().into_data_stream();
    loop {
        let piece = timeout(UPLOAD_STALLED_AFTER, pieces.next()).await.map_err(|_| too_slow())?;
        let Some(piece) = piece else { break };
        let piece = piece.map_err(|_| Problem::invalid("the file is incomplete"))?;
        upload = blocking(move || {
            upload.write(&piece)?;
            Ok(upload)
        })
        .await?;
    }
    let path = blocking(move || FileUpload::finish(upload)).await?;
    Ok((StatusCode::CREATED, Json(UploadedFileResponse { path: path.to_string() })))
}

async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, project::files::FileError> + Send + 'static,
) -> ApiResult<T> {
    let done = tokio::task::spawn_blocking(act).await.map_err(|it| Problem::failed(&it))?;
    Ok(done?)
}

fn too_slow() -> Problem {
    let detail = "the file stopped arriving";
    Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "too slow", detail)
}
