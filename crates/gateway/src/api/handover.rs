//! Continuing a conversation with another agent.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use journal::SessionId;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;
use view::handover::summarize;

use super::conversation::subscribe;
use super::extract::{JsonBody, PathParams};
use super::prompts::PromptRequest;
use super::sessions::{CreateSessionResponse, find_record, resolve_directory, session_agent};
use super::tag;
use crate::access::AuthenticatedClient;
use crate::gateway::Gateway;
use crate::problem::ApiResult;

/// How much the agent is told of the conversation so far.
const SUMMARY_BYTES: usize = 8 << 10;

/// How many of the newest items are summarized.
const MAX_ITEMS: usize = 2000;

/// What the agent does if nothing else is asked.
const NO_TASK: &str = "Say in a sentence or two where things stand, and wait for the user.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HandoverRequest {
    /// The name of the agent that continues.
    agent: String,
    /// What it is asked to do. The summary comes before it.
    #[serde(default)]
    prompt: Option<String>,
}

#[utoipa::path(post, path = "/sessions/{id}/handover", tag = tag::SESSIONS, params(("id" = Uuid, Path)), request_body = HandoverRequest,
    responses((status = 201, body = CreateSessionResponse)))]
/// Creates a session in which another agent continues, with a summary of the conversation.
pub(super) async fn hand_over(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<HandoverRequest>,
) -> ApiResult<(StatusCode, Json<CreateSessionResponse>)> {
    let record = find_record(&gateway, id).await?;
    // The roots may have changed since the session was created.
    resolve_directory(&gateway, &record.directory.to_string_lossy()).await?;
    let agents = &gateway.sessions.config().agents;
    let earlier = session_agent(&record);
    let earlier = agents.title(earlier.as_deref());
    let subscription = subscribe(&gateway, id).await?;
    let summary = subscription
        .with_document(|it| summarize(&it.fold.conversation(MAX_ITEMS), earlier, SUMMARY_BYTES));
    let listed = gateway.session_list.load_one(SessionId(id)).await?;
    let title = listed.and_then(|it| it.title);
    let task = body.prompt.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let text = format!("{summary}\n{}", task.unwrap_or(NO_TASK));
    let prompt = PromptRequest::from_text(text).into_prompt(&client)?;
    let session = gateway.sessions.hand_over(&record, title.as_deref(), &body.agent).await?;
    session.prompt(prompt).await?;
    Ok((StatusCode::CREATED, Json(CreateSessionResponse { id: session.id().0 })))
}
