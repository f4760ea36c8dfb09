//! The prompts of a session, so that a person finds the place they look for.

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;
use view::OutlinePrompt;

use super::subscribe;
use crate::api::extract::PathParams;
use crate::api::large_body::json_body;
use crate::api::tag;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// A response has at most this many prompts, the newest ones.
const MAX_PROMPTS: usize = 5000;

/// What it takes from the pool to make a response: the prompts that are remembered, and their JSON.
const OUTLINE_LEASE: usize = 6 << 20;

/// The prompts of a session, in order.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Outline)]
pub(super) struct OutlineResponse {
    prompts: Vec<OutlinePromptResponse>,
    /// How many there are in all; only the newest ones are listed.
    total: usize,
}

/// A prompt of a person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OutlinePrompt)]
pub(super) struct OutlinePromptResponse {
    /// The place of its item in the conversation.
    position: (u64, u32),
    turn: u64,
    /// In milliseconds since 1970, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    /// Where its text begins, as one line.
    text: String,
}

#[utoipa::path(get, path = "/sessions/{id}/outline", tag = tag::CONVERSATION, params(("id" = Uuid, Path)),
    responses((status = 200, body = OutlineResponse)))]
/// All prompts of the conversation, each as one line.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Response> {
    let subscription = subscribe(&gateway, id).await?;
    let lease = gateway.memory.lease(OUTLINE_LEASE).await;
    let mut all = subscription.with_document(|it| it.fold.outline());
    let total = all.len();
    all.drain(..total.saturating_sub(MAX_PROMPTS));
    let prompts = all.into_iter().map(OutlinePromptResponse::from).collect();
    let json = serde_json::to_vec(&OutlineResponse { prompts, total });
    let json = Bytes::from(json.map_err(|it| Problem::failed(&it))?);
    drop(lease);
    Ok(json_body(&gateway, json).await)
}

impl From<OutlinePrompt> for OutlinePromptResponse {
    fn from(prompt: OutlinePrompt) -> Self {
        let position = (prompt.position.0, prompt.position.1);
        Self { position, turn: prompt.turn, at: prompt.at, text: prompt.text }
    }
}
