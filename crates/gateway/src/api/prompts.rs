//! Prompts: sending, and changing those that wait.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use journal::{PromptRecord, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use wire::note::{Delivery, PromptState};
use wire::say::Image;

use super::problem::Answer;
use super::sent::{Named, Sent};
use super::{Person, Problem, tag};
use crate::gateway::Gateway;
use crate::visitor::Visitor;

/// The longest words of a prompt.
const WORDS: usize = 4 << 20;

/// Pictures a prompt may have.
const PICTURES: usize = 20;

/// A prompt to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPrompt {
    /// Its id, made by the sender: the same again is the same prompt.
    id: Uuid,
    /// The words.
    #[serde(default)]
    text: String,
    /// Pictures.
    #[serde(default)]
    images: Vec<SentImage>,
    /// When it may go to the agent: `queue`, after the running turn; `steer`, into it.
    #[serde(default)]
    #[schema(value_type = Option<DeliveryWord>)]
    delivery: Delivery,
}

/// When a prompt may go to the agent.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it describes `Delivery`, which knows nothing of descriptions")]
enum DeliveryWord {
    Queue,
    Steer,
}

/// A picture.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SentImage {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    media_type: String,
    /// Its bytes in base64.
    data: String,
}

/// Where a prompt stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Taken {
    id: Uuid,
    #[schema(value_type = String)]
    state: PromptState,
}

/// Prompts that are not done yet.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct PromptList {
    prompts: Vec<OpenPrompt>,
}

/// A prompt that is not done yet.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OpenPrompt {
    id: Uuid,
    text: String,
    #[schema(value_type = String)]
    delivery: Delivery,
    #[schema(value_type = String)]
    state: PromptState,
    by: Person,
    turn: Option<u64>,
    created: u64,
}

/// Other words for a prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    text: String,
}

/// Another place for a prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    /// In front of this one; to the end where nothing is said.
    #[serde(default)]
    before: Option<Uuid>,
}

impl NewPrompt {
    pub(super) fn of_words(text: String) -> Self {
        Self { id: Uuid::new_v4(), text, images: Vec::new(), delivery: Delivery::Queue }
    }

    pub(super) fn check(&self) -> Answer<()> {
        if self.text.len() > WORDS || self.images.len() > PICTURES {
            return Err(Problem::invalid("the prompt is too long, or has too many pictures"));
        }
        if self.text.trim().is_empty() && self.images.is_empty() {
            return Err(Problem::invalid("a prompt needs some text or an image"));
        }
        Ok(())
    }

    pub(super) fn into_prompt(self, by: &Visitor) -> Answer<session::machine::NewPrompt> {
        self.check()?;
        let images = self.images.iter().map(SentImage::read).collect::<Answer<_>>()?;
        Ok(session::machine::NewPrompt {
            id: self.id,
            text: self.text,
            images,
            delivery: self.delivery,
            by: by.actor(),
        })
    }
}

impl SentImage {
    fn read(&self) -> Answer<Image> {
        let bytes = BASE64_STANDARD.decode(&self.data);
        let bytes =
            bytes.map_err(|it| Problem::invalid(format!("a picture is not base64: {it}")))?;
        Image::declared(&bytes, &self.media_type).map_err(|it| Problem::invalid(it.to_string()))
    }
}

impl From<PromptRecord> for OpenPrompt {
    fn from(it: PromptRecord) -> Self {
        Self {
            id: it.id,
            text: it.text,
            delivery: it.delivery,
            state: it.state,
            by: it.by.into(),
            turn: it.turn,
            created: it.created,
        }
    }
}

#[utoipa::path(get, path = "/sessions/{id}/prompts", tag = tag::PROMPTS, params(("id" = Uuid, Path)),
    responses((status = 200, body = PromptList)))]
/// Prompts that are not done yet, in the order of the queue.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<PromptList>> {
    let prompts = gateway.sessions.journal().open_prompts(SessionId(id)).await?;
    Ok(Json(PromptList { prompts: prompts.into_iter().map(OpenPrompt::from).collect() }))
}

#[utoipa::path(post, path = "/sessions/{id}/prompts", tag = tag::PROMPTS, params(("id" = Uuid, Path)), request_body = NewPrompt,
    responses((status = 202, body = Taken)))]
/// Sends a prompt. The same id again is the same prompt, and no second turn.
pub(super) async fn send(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    Named(id): Named<Uuid>,
    Sent(new): Sent<NewPrompt>,
) -> Answer<(StatusCode, Json<Taken>)> {
    let prompt = new.into_prompt(&visitor)?;
    let session = gateway.sessions.open(SessionId(id)).await?;
    let id = prompt.id;
    let state = session.prompt(prompt).await?;
    Ok((StatusCode::ACCEPTED, Json(Taken { id, state })))
}

#[utoipa::path(patch, path = "/sessions/{id}/prompts/{prompt}", tag = tag::PROMPTS,
    params(("id" = Uuid, Path), ("prompt" = Uuid, Path)), request_body = Edit,
    responses((status = 204, description = "changed")))]
/// Changes the words of a prompt that waits.
pub(super) async fn edit(
    State(gateway): State<Gateway>,
    Named((id, prompt)): Named<(Uuid, Uuid)>,
    Sent(Edit { text }): Sent<Edit>,
) -> Answer<StatusCode> {
    if text.trim().is_empty() || text.len() > WORDS {
        return Err(Problem::invalid("the words are missing or too many"));
    }
    gateway.sessions.open(SessionId(id)).await?.edit_prompt(prompt, text).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(delete, path = "/sessions/{id}/prompts/{prompt}", tag = tag::PROMPTS,
    params(("id" = Uuid, Path), ("prompt" = Uuid, Path)),
    responses((status = 204, description = "taken back")))]
/// Takes a prompt back, unless the agent has begun with it.
pub(super) async fn remove(
    State(gateway): State<Gateway>,
    Named((id, prompt)): Named<(Uuid, Uuid)>,
) -> Answer<StatusCode> {
    gateway.sessions.open(SessionId(id)).await?.remove_prompt(prompt).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(post, path = "/sessions/{id}/prompts/{prompt}/move", tag = tag::PROMPTS,
    params(("id" = Uuid, Path), ("prompt" = Uuid, Path)), request_body = Move,
    responses((status = 204, description = "moved")))]
/// Puts a prompt that waits elsewhere in the queue.
pub(super) async fn shift(
    State(gateway): State<Gateway>,
    Named((id, prompt)): Named<(Uuid, Uuid)>,
    Sent(Move { before }): Sent<Move>,
) -> Answer<StatusCode> {
    gateway.sessions.open(SessionId(id)).await?.move_prompt(prompt, before).await?;
    Ok(StatusCode::NO_CONTENT)
}
