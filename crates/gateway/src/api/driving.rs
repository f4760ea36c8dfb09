//! A session's agent: stopping it, changing its settings, asking it about itself.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use journal::SessionId;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use session::machine::Query;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use wire::note::{QueueFate, Rewind, Setting};

use super::problem::Answer;
use super::sent::{Asked, Named, Sent};
use super::sessions::{mode, word};
use super::wish::{ShownWish, WatchSaid};
use super::{Problem, tag};
use crate::gateway::Gateway;
use crate::visitor::Visitor;

/// What becomes of the prompts that wait.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Interrupt {
    /// `keep` or `clear`.
    #[serde(default)]
    queue: FateWord,
}

/// What becomes of the prompts that wait when a turn is stopped.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FateWord {
    /// They stay and run next.
    #[default]
    Keep,
    /// They are cancelled.
    Clear,
}

/// Settings to change; what is not said stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSettings {
    /// The model; `null` is the default one.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    model: ModelWish,
    /// The permission mode, as the CLI spells it.
    #[serde(default)]
    mode: Option<String>,
    /// How hard the model thinks.
    #[serde(default)]
    effort: Option<String>,
    /// What is done with the files the agent changes; `null` is nothing any more.
    #[serde(default)]
    #[schema(value_type = Option<ShownWish>)]
    watch: WatchSaid,
}

/// What is said of the model. `null` and nothing are not the same.
#[derive(Debug, Default)]
enum ModelWish {
    #[default]
    Unsaid,
    Said(Option<String>),
}

/// Where to go back to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GoBack {
    /// To before this prompt.
    prompt: Uuid,
    /// What goes back.
    what: RewindWord,
}

/// What a rewind puts back.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RewindWord {
    /// Files only.
    Files,
    /// The conversation only.
    Conversation,
    /// Both.
    Both,
}

/// Which rewind to look at.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Preview {
    /// To before this prompt.
    prompt: Uuid,
}

/// What an agent can do.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct Abilities {
    /// Commands that begin with a slash.
    commands: Vec<SlashCommand>,
    /// Models to choose from.
    models: Vec<ModelChoice>,
}

/// A command that begins with a slash.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct SlashCommand {
    /// What it is called, without the slash.
    name: String,
    /// What it does.
    description: String,
    /// What may follow it.
    #[serde(alias = "argumentHint")]
    argument_hint: String,
}

/// A model to choose.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct ModelChoice {
    /// What to choose it by.
    value: String,
    /// What it is called.
    #[serde(alias = "displayName")]
    name: String,
    /// What it is good for.
    description: String,
}

#[utoipa::path(post, path = "/sessions/{id}/interrupt", tag = tag::DRIVING, params(("id" = Uuid, Path)), request_body = Interrupt,
    responses((status = 202, description = "on its way")))]
/// Stops the running turn.
pub(super) async fn interrupt(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    Named(id): Named<Uuid>,
    Sent(Interrupt { queue }): Sent<Interrupt>,
) -> Answer<StatusCode> {
    let queue = match queue {
        FateWord::Keep => QueueFate::Keep,
        FateWord::Clear => QueueFate::Clear,
    };
    gateway.sessions.open(SessionId(id)).await?.interrupt(queue, visitor.actor()).await?;
    Ok(StatusCode::ACCEPTED)
}

#[utoipa::path(patch, path = "/sessions/{id}/settings", tag = tag::DRIVING, params(("id" = Uuid, Path)), request_body = NewSettings,
    responses((status = 204, description = "changed")))]
/// Changes settings of the agent, for now and later.
pub(super) async fn set(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    Named(id): Named<Uuid>,
    Sent(new): Sent<NewSettings>,
) -> Answer<StatusCode> {
    let mut settings = Vec::new();
    if let ModelWish::Said(model) = new.model {
        settings.push(Setting::Model(model.map(word).transpose()?));
    }
    if let Some(name) = new.mode {
        settings.push(Setting::PermissionMode(mode(&name)?.name().to_owned()));
    }
    if let Some(effort) = new.effort {
        settings.push(Setting::Effort(word(effort)?));
    }
    settings.extend(new.watch.setting(&gateway, &visitor).await?);
    let session = gateway.sessions.open(SessionId(id)).await?;
    for setting in settings {
        session.set(setting, visitor.actor()).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(post, path = "/sessions/{id}/rewind", tag = tag::DRIVING, params(("id" = Uuid, Path)), request_body = GoBack,
    responses((status = 204, description = "done")))]
/// Goes back to before a prompt.
pub(super) async fn rewind(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    Named(id): Named<Uuid>,
    Sent(GoBack { prompt, what }): Sent<GoBack>,
) -> Answer<StatusCode> {
    let what = match what {
        RewindWord::Files => Rewind::Files,
        RewindWord::Conversation => Rewind::Conversation,
        RewindWord::Both => Rewind::Both,
    };
    let session = gateway.sessions.open(SessionId(id)).await?;
    session.rewind(prompt, what, visitor.actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(get, path = "/sessions/{id}/rewind", tag = tag::DRIVING, params(("id" = Uuid, Path), Preview),
    responses((status = 200, body = Object, description = "in the agent's words")))]
/// What a rewind would put back.
pub(super) async fn preview(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
    Asked(Preview { prompt }): Asked<Preview>,
) -> Answer<Json<Box<RawValue>>> {
    ask(&gateway, id, Query::RewindPreview(prompt)).await
}

#[utoipa::path(get, path = "/sessions/{id}/context", tag = tag::DRIVING, params(("id" = Uuid, Path)),
    responses((status = 200, body = Object, description = "in the agent's words")))]
/// How full the context is.
pub(super) async fn context(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<Box<RawValue>>> {
    ask(&gateway, id, Query::Context).await
}

#[utoipa::path(get, path = "/sessions/{id}/changes", tag = tag::DRIVING, params(("id" = Uuid, Path)),
    responses((status = 200, body = Object, description = "in the agent's words")))]
/// What changed in the working tree.
pub(super) async fn changes(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<Box<RawValue>>> {
    ask(&gateway, id, Query::Changes).await
}

#[utoipa::path(post, path = "/sessions/{id}/wake", tag = tag::DRIVING, params(("id" = Uuid, Path)),
    responses((status = 200, body = Abilities)))]
/// Has an agent ready, and says what it can do.
pub(super) async fn wake(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<Abilities>> {
    let session = gateway.sessions.open(SessionId(id)).await?;
    let abilities = match session.abilities().await? {
        Some(abilities) => Some(abilities),
        None => session.wake().await?,
    };
    let abilities = abilities.and_then(|it| serde_json::from_str(&it).ok());
    Ok(Json(abilities.unwrap_or_default()))
}

#[utoipa::path(post, path = "/sessions/{id}/close", tag = tag::DRIVING, params(("id" = Uuid, Path)),
    responses((status = 204, description = "ended")))]
/// Ends the agent's process. The session stays, and the next prompt starts another.
pub(super) async fn close(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<StatusCode> {
    gateway.sessions.open(SessionId(id)).await?.close().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn ask(gateway: &Gateway, id: Uuid, query: Query) -> Answer<Json<Box<RawValue>>> {
    let payload = gateway.sessions.open(SessionId(id)).await?.query(query).await?;
    let payload = payload.unwrap_or_else(|| "{}".to_owned());
    RawValue::from_string(payload).map(Json).map_err(|it| Problem::failed(&it))
}

impl<'de> Deserialize<'de> for ModelWish {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self::Said)
    }
}
