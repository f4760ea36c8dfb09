//! Prompts: sending them, and changing queued ones.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use journal::{PromptRecord, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use wire::outgoing::Image;

use super::conversation::{DeliveryKind, PromptStateName};
use super::extract::{JsonBody, PathParams};
use super::tag;
use crate::access::AuthenticatedClient;
use crate::gateway::Gateway;
use crate::limits::{MAX_QUEUED_IMAGE_BYTES, MAX_QUEUED_TEXT_BYTES};
use crate::problem::{ActorResponse, ApiResult, Problem};

const MAX_TEXT_BYTES: usize = 4 << 20;

const MAX_IMAGES: usize = 20;

/// A new prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PromptRequest {
    /// Made by the sender. A prompt with a known id is not added again.
    id: Uuid,
    #[serde(default)]
    text: String,
    #[serde(default)]
    images: Vec<ImageRequest>,
    #[serde(default)]
    delivery: DeliveryKind,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageRequest {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    media_type: String,
    /// In base64.
    data: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SendPromptResponse {
    id: Uuid,
    state: PromptStateName,
}

/// Prompts that are not done yet.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PromptsResponse {
    prompts: Vec<PromptResponse>,
}

/// A prompt that is not done yet.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OpenPrompt)]
pub(super) struct PromptResponse {
    id: Uuid,
    text: String,
    delivery: DeliveryKind,
    state: PromptStateName,
    by: ActorResponse,
    turn: Option<u64>,
    created: u64,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EditPromptRequest {
    /// The new text.
    #[serde(default)]
    text: Option<String>,
    /// How to deliver it from now on.
    #[serde(default)]
    delivery: Option<DeliveryKind>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MovePromptRequest {
    /// The prompt to move it in front of; without one it moves to the end.
    #[serde(default)]
    before: Option<Uuid>,
}

impl PromptRequest {
    pub(super) fn from_text(text: String) -> Self {
        Self { id: Uuid::new_v4(), text, images: Vec::new(), delivery: DeliveryKind::Queue }
    }

    fn image_bytes(&self) -> usize {
        self.images.iter().map(|it| it.data.len()).sum()
    }

    pub(super) fn check(&self) -> ApiResult<()> {
        check_length(&self.text)?;
        if self.images.len() > MAX_IMAGES {
            let detail = format!("a prompt may have at most {MAX_IMAGES} images");
            return Err(Problem::invalid(detail));
        }
        if self.text.trim().is_empty() && self.images.is_empty() {
            return Err(Problem::invalid("a prompt needs text or an image"));
        }
        Ok(())
    }

    pub(super) fn into_prompt(self, by: &AuthenticatedClient) -> ApiResult<session::NewPrompt> {
        self.check()?;
        let images = self.images.iter().map(ImageRequest::decode).collect::<ApiResult<_>>()?;
        Ok(session::NewPrompt {
            id: self.id,
            text: self.text,
            images,
            delivery: self.delivery.into(),
            by: by.actor(),
        })
    }
}

fn check_length(text: &str) -> ApiResult<()> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Problem::too_large(format!(
            "the text of a prompt may have at most {} MiB, and this one has {}; put it into a file \
             and name the file",
            MAX_TEXT_BYTES >> 20,
            text.len().div_ceil(1 << 20)
        )));
    }
    Ok(())
}

impl ImageRequest {
    fn decode(&self) -> ApiResult<Image> {
        let bytes = BASE64_STANDARD.decode(&self.data);
        let bytes =
            bytes.map_err(|it| Problem::invalid(format!("an image is not valid base64: {it}")))?;
        Image::declared(&bytes, &self.media_type).map_err(|it| Problem::invalid(it.to_string()))
    }
}

impl From<PromptRecord> for PromptResponse {
    fn from(it: PromptRecord) -> Self {
        Self {
            id: it.id,
            text: it.text,
            delivery: it.delivery.into(),
            state: it.state.into(),
            by: it.by.into(),
            turn: it.turn,
            created: it.created,
        }
    }
}

#[utoipa::path(get, path = "/sessions/{id}/prompts", tag = tag::PROMPTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = PromptsResponse)))]
/// Prompts that are not done yet, in queue order.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<PromptsResponse>> {
    let prompts = gateway.sessions.journal().open_prompts(SessionId(id)).await?;
    Ok(Json(PromptsResponse { prompts: prompts.into_iter().map(PromptResponse::from).collect() }))
}

#[utoipa::path(post, path = "/sessions/{id}/prompts", tag = tag::PROMPTS, params(("id" = Uuid, Path)), request_body = PromptRequest,
    responses((status = 202, body = SendPromptResponse)))]
/// Sends a prompt. Sending the same id again does not start a second turn.
pub(super) async fn send(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(new): JsonBody<PromptRequest>,
) -> ApiResult<(StatusCode, Json<SendPromptResponse>)> {
    check_queue(&gateway, SessionId(id), &new).await?;
    let prompt = new.into_prompt(&client)?;
    let session = gateway.sessions.open(SessionId(id)).await?;
    let id = prompt.id;
    let state = session.prompt(prompt).await?;
    Ok((StatusCode::ACCEPTED, Json(SendPromptResponse { id, state: state.into() })))
}

/// Refuses a prompt if too much waits already. One that is alone always fits.
async fn check_queue(
    gateway: &Gateway,
    session: SessionId,
    prompt: &PromptRequest,
) -> ApiResult<()> {
    let queued = gateway.sessions.journal().open_prompts(session).await?;
    if queued.iter().any(|it| it.id == prompt.id) {
        // It is not added again.
        return Ok(());
    }
    let text = queued.iter().map(|it| it.text.len()).sum::<usize>();
    let images = queued.iter().filter_map(|it| it.content.as_ref()).map(String::len).sum::<usize>();
    let is_full = text + prompt.text.len() > MAX_QUEUED_TEXT_BYTES
        || images + prompt.image_bytes() > MAX_QUEUED_IMAGE_BYTES;
    if !queued.is_empty() && is_full {
        return Err(Problem::queue_full(format!(
            "at most {} MiB of text and {} MiB of images may wait for the agent; send this prompt \
             later",
            MAX_QUEUED_TEXT_BYTES >> 20,
            MAX_QUEUED_IMAGE_BYTES >> 20
        )));
    }
    Ok(())
}

#[utoipa::path(patch, path = "/sessions/{id}/prompts/{prompt}", tag = tag::PROMPTS,
    params(("id" = Uuid, Path), ("prompt" = Uuid, Path)), request_body = EditPromptRequest,
    responses((status = 204, description = "changed")))]
/// Changes the text of a queued prompt, or how it is delivered: `steer` sends it into the running turn.
pub(super) async fn edit(
    State(gateway): State<Gateway>,
    PathParams((id, prompt)): PathParams<(Uuid, Uuid)>,
    JsonBody(EditPromptRequest { text, delivery }): JsonBody<EditPromptRequest>,
) -> ApiResult<StatusCode> {
    if text.is_none() && delivery.is_none() {
        return Err(Problem::invalid("send a `text` or a `delivery`"));
    }
    if let Some(text) = &text {
        check_length(text)?;
        if text.trim().is_empty() {
            return Err(Problem::invalid("the text is empty"));
        }
    }
    let session = gateway.sessions.open(SessionId(id)).await?;
    let change = session::PromptChange { text, delivery: delivery.map(Into::into) };
    session.change_prompt(prompt, change).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(delete, path = "/sessions/{id}/prompts/{prompt}", tag = tag::PROMPTS,
    params(("id" = Uuid, Path), ("prompt" = Uuid, Path)),
    responses((status = 204, description = "removed")))]
/// Removes a prompt, unless the agent has started with it.
pub(super) async fn remove(
    State(gateway): State<Gateway>,
    PathParams((id, prompt)): PathParams<(Uuid, Uuid)>,
) -> ApiResult<StatusCode> {
    gateway.sessions.open(SessionId(id)).await?.remove_prompt(prompt).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(post, path = "/sessions/{id}/prompts/{prompt}/move", tag = tag::PROMPTS,
    params(("id" = Uuid, Path), ("prompt" = Uuid, Path)), request_body = MovePromptRequest,
    responses((status = 204, description = "moved")))]
/// Moves a prompt in the queue.
pub(super) async fn reorder(
    State(gateway): State<Gateway>,
    PathParams((id, prompt)): PathParams<(Uuid, Uuid)>,
    JsonBody(MovePromptRequest { before }): JsonBody<MovePromptRequest>,
) -> ApiResult<StatusCode> {
    gateway.sessions.open(SessionId(id)).await?.move_prompt(prompt, before).await?;
    Ok(StatusCode::NO_CONTENT)
}
