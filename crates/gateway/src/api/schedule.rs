//! Prompts that are sent later.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use journal::SessionId;
use serde::{Deserialize, Serialize};
use session::{NewSchedule, PromptSchedule, SessionOptions};
use utoipa::ToSchema;
use uuid::Uuid;

use super::extract::{JsonBody, PathParams};
use super::sessions::find_record;
use super::tag;
use crate::access::AuthenticatedClient;
use crate::gateway::Gateway;
use crate::problem::{ActorResponse, ApiResult};

/// A prompt that is to be sent later.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ScheduleRequest {
    /// Made by the sender. A schedule with a known id is not added again.
    id: Uuid,
    text: String,
    /// `at 2026-11-17 09:00`, `at 09:00`, `in 2h`, `every 30m`, `every day 09:00`, `weekdays 09:00` or
    /// `every monday 09:00`.
    when: String,
    /// The IANA name of the time zone in which that is meant; `UTC` if there is none.
    #[serde(default)]
    zone: Option<String>,
}

/// Prompts that are sent later, by their next time.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SchedulesResponse {
    schedules: Vec<ScheduleResponse>,
}

/// A prompt that is sent later.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Schedule)]
pub(super) struct ScheduleResponse {
    id: Uuid,
    text: String,
    /// In the same grammar, in full: `in 2h` becomes a time.
    when: String,
    zone: String,
    /// When it is sent next, in milliseconds since 1970.
    next: u64,
    by: ActorResponse,
    created: u64,
}

#[utoipa::path(get, path = "/sessions/{id}/schedules", tag = tag::PROMPTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = SchedulesResponse)))]
/// Lists the prompts of a session that are sent later.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<SchedulesResponse>> {
    let schedules = find(&gateway, id).await?;
    Ok(Json(SchedulesResponse { schedules: schedules.into_iter().map(Into::into).collect() }))
}

#[utoipa::path(post, path = "/sessions/{id}/schedules", tag = tag::PROMPTS, params(("id" = Uuid, Path)), request_body = ScheduleRequest,
    responses((status = 201, body = SchedulesResponse, description = "all schedules of the session")))]
/// Has a prompt sent later: once, or again and again.
pub(super) async fn add(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(ScheduleRequest { id: schedule, text, when, zone }): JsonBody<ScheduleRequest>,
) -> ApiResult<(StatusCode, Json<SchedulesResponse>)> {
    let zone = zone.unwrap_or_else(|| "UTC".to_owned());
    let new = NewSchedule { id: schedule, text, when, zone, by: client.actor() };
    gateway.sessions.open(SessionId(id)).await?.schedule(new).await?;
    let schedules = find(&gateway, id).await?.into_iter().map(Into::into).collect();
    Ok((StatusCode::CREATED, Json(SchedulesResponse { schedules })))
}

#[utoipa::path(delete, path = "/sessions/{id}/schedules/{schedule}", tag = tag::PROMPTS,
    params(("id" = Uuid, Path), ("schedule" = Uuid, Path)),
    responses((status = 204, description = "it is not sent any more")))]
/// Has a scheduled prompt not be sent any more.
pub(super) async fn remove(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams((id, schedule)): PathParams<(Uuid, Uuid)>,
) -> ApiResult<StatusCode> {
    let session = gateway.sessions.open(SessionId(id)).await?;
    session.remove_schedule(schedule, client.actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The schedules of a session. It is not opened for that: the journal has them.
async fn find(gateway: &Gateway, id: Uuid) -> ApiResult<Vec<PromptSchedule>> {
    let record = find_record(gateway, id).await?;
    let options = SessionOptions::from_json(&record.options, record.directory);
    let mut schedules = options.map(|it| it.schedules).unwrap_or_default();
    schedules.sort_by_key(|it| it.next);
    Ok(schedules)
}

impl From<PromptSchedule> for ScheduleResponse {
    fn from(it: PromptSchedule) -> Self {
        let PromptSchedule { id, text, when, zone, next, by, created, last: _ } = it;
        Self { id, text, when, zone, next, by: by.into(), created }
    }
}
