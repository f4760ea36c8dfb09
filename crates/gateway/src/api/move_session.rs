//! Moving a session to another machine of the fleet.

use axum::extract::State;
use axum::http::StatusCode;
use journal::SessionId;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::extract::{JsonBody, PathParams};
use super::sessions::find_record;
use super::tag;
use crate::gateway::Gateway;
use crate::problem::ApiResult;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MoveRequest {
    /// The name of the worker that takes the session over.
    to: String,
}

#[utoipa::path(post, path = "/sessions/{id}/move", tag = tag::SESSIONS, params(("id" = Uuid, Path)), request_body = MoveRequest,
    responses((status = 204)))]
/// Moves a session of a fleet to another worker, or takes it over from one that is away.
///
/// A running turn is interrupted. Prompts in the queue stay and go on with the new worker.
pub(super) async fn move_session(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<MoveRequest>,
) -> ApiResult<StatusCode> {
    find_record(&gateway, id).await?;
    gateway.sessions.move_to(SessionId(id), body.to).await?;
    Ok(StatusCode::NO_CONTENT)
}
