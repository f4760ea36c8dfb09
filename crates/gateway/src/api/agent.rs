//! A session's agent: interrupting it, changing its settings, querying it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use journal::SessionId;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use session::AgentQuery;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use wire::note::{QueuePolicy, Rewind, Setting};

use super::extract::{JsonBody, PathParams, QueryParams};
use super::options::authorize_mode;
use super::sessions::{check_argument, find_record, is_acp, parse_mode};
use super::tag;
use super::watch::{WatchSetting, WatchSettingBody};
use crate::access::AuthenticatedClient;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InterruptRequest {
    #[serde(default)]
    queue: QueueAction,
    /// Whether queued prompts wait until the queue is resumed. A queue that is to be cleared is not
    /// held.
    #[serde(default)]
    hold_queue: bool,
}

/// What happens to queued prompts when a turn is interrupted.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum QueueAction {
    /// They run next.
    #[default]
    Keep,
    /// They are cancelled.
    Clear,
}

/// Settings to change; missing ones stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsRequest {
    /// `null` selects the default model.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    model: ModelSetting,
    /// The permission mode, as the CLI spells it.
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    effort: Option<String>,
    /// Options that only this agent has: values by the ids of its menus.
    #[serde(default)]
    agent_options: BTreeMap<String, String>,
    /// What to do with files the agent changes; `null` ends watching, `"inherit"` selects the default
    /// of the server.
    #[serde(default)]
    #[schema(value_type = Option<WatchSettingBody>)]
    watch: WatchSetting,
}

/// A model in a request. `null` and a missing field mean different things.
#[derive(Debug, Default)]
enum ModelSetting {
    #[default]
    Unchanged,
    Set(Option<String>),
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RewindRequest {
    /// Rewinds to the state before this prompt.
    prompt: Uuid,
    what: RewindScope,
}

/// What a rewind restores.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RewindScope {
    Files,
    Conversation,
    Both,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RewindQuery {
    /// The state before this prompt.
    prompt: Uuid,
}

/// What an agent offers.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = Abilities)]
pub(super) struct AgentAbilities {
    #[schema(required = true)]
    commands: Vec<SlashCommand>,
    #[schema(required = true)]
    models: Vec<ModelChoice>,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct SlashCommand {
    /// Without the slash.
    #[schema(required = true)]
    name: String,
    #[schema(required = true)]
    description: String,
    #[schema(required = true)]
    #[serde(alias = "argumentHint")]
    argument_hint: String,
}

#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(super) struct ModelChoice {
    /// The id to select it by.
    #[schema(required = true)]
    value: String,
    #[schema(required = true)]
    #[serde(alias = "displayName")]
    name: String,
    #[schema(required = true)]
    description: String,
}

#[utoipa::path(post, path = "/sessions/{id}/interrupt", tag = tag::AGENT, params(("id" = Uuid, Path)), request_body = InterruptRequest,
    responses((status = 202, description = "the interrupt was sent")))]
/// Interrupts the running turn.
pub(super) async fn interrupt(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(InterruptRequest { queue, hold_queue }): JsonBody<InterruptRequest>,
) -> ApiResult<StatusCode> {
    let queue = match queue {
        QueueAction::Keep if hold_queue => QueuePolicy::Hold,
        QueueAction::Keep => QueuePolicy::Keep,
        QueueAction::Clear => QueuePolicy::Clear,
    };
    gateway.sessions.open(SessionId(id)).await?.interrupt(queue, client.actor()).await?;
    Ok(StatusCode::ACCEPTED)
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeQuery {
    /// The limit of the spent budget that the user saw. If it is another one by now, someone else was
    /// faster, and nothing changes.
    limit: Option<f64>,
}

#[utoipa::path(post, path = "/sessions/{id}/queue/resume", tag = tag::PROMPTS, params(("id" = Uuid, Path), ResumeQuery),
    responses((status = 204, description = "queued prompts are sent")))]
/// Sends queued prompts again that an interrupt or a spent budget holds. If it is a budget, the same amount
/// is allowed again.
pub(super) async fn resume_queue(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    QueryParams(ResumeQuery { limit }): QueryParams<ResumeQuery>,
) -> ApiResult<StatusCode> {
    let session = gateway.sessions.open(SessionId(id)).await?;
    match limit {
        Some(limit) => session.raise_budget(limit, client.actor()).await?,
        None => session.resume_queue(client.actor()).await?,
    }
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(patch, path = "/sessions/{id}/settings", tag = tag::AGENT, params(("id" = Uuid, Path)), request_body = SettingsRequest,
    responses((status = 204, description = "changed")))]
/// Changes the agent's settings.
pub(super) async fn change_settings(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(new): JsonBody<SettingsRequest>,
) -> ApiResult<StatusCode> {
    let mut settings = Vec::new();
    if let ModelSetting::Set(model) = new.model {
        settings.push(Setting::Model(model.map(check_argument).transpose()?));
    }
    if let Some(name) = new.mode {
        let record = find_record(&gateway, id).await?;
        if is_acp(&gateway, &record) {
            // The agent says itself which modes it has, and refuses others.
            settings.push(Setting::PermissionMode(check_argument(name)?));
        } else {
            let mode = parse_mode(&name)?;
            authorize_mode(&gateway, &client, mode)?;
            settings.push(Setting::PermissionMode(mode.name().to_owned()));
        }
    }
    if let Some(effort) = new.effort {
        settings.push(Setting::Effort(check_argument(effort)?));
    }
    for (id, value) in new.agent_options {
        let (id, value) = (check_argument(id)?, check_argument(value)?);
        settings.push(Setting::AgentOption { id, value });
    }
    settings.extend(new.watch.authorize(&gateway, &client).await?);
    let session = gateway.sessions.open(SessionId(id)).await?;
    for setting in settings {
        session.set(setting, client.actor()).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(post, path = "/sessions/{id}/rewind", tag = tag::AGENT, params(("id" = Uuid, Path)), request_body = RewindRequest,
    responses((status = 204, description = "rewound")))]
/// Rewinds files, conversation or both to before a prompt.
pub(super) async fn rewind(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(RewindRequest { prompt, what }): JsonBody<RewindRequest>,
) -> ApiResult<StatusCode> {
    let what = match what {
        RewindScope::Files => Rewind::Files,
        RewindScope::Conversation => Rewind::Conversation,
        RewindScope::Both => Rewind::Both,
    };
    let session = gateway.sessions.open(SessionId(id)).await?;
    session.rewind(prompt, what, client.actor()).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(get, path = "/sessions/{id}/rewind", tag = tag::AGENT, params(("id" = Uuid, Path), RewindQuery),
    responses((status = 200, body = Object, description = "JSON of the agent")))]
/// What a rewind would restore. Needs a running agent.
pub(super) async fn preview_rewind(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(RewindQuery { prompt }): QueryParams<RewindQuery>,
) -> ApiResult<Json<Box<RawValue>>> {
    query(&gateway, id, AgentQuery::RewindPreview(prompt)).await
}

#[utoipa::path(get, path = "/sessions/{id}/context", tag = tag::AGENT, params(("id" = Uuid, Path)),
    responses((status = 200, body = Object, description = "JSON of the agent")))]
/// How the context window is used. Needs a running agent.
pub(super) async fn context(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<Box<RawValue>>> {
    query(&gateway, id, AgentQuery::Context).await
}

#[utoipa::path(get, path = "/sessions/{id}/changes", tag = tag::AGENT, params(("id" = Uuid, Path)),
    responses((status = 200, body = Object, description = "JSON of the agent")))]
/// Uncommitted changes in the working tree. Needs a running agent.
pub(super) async fn changes(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<Box<RawValue>>> {
    query(&gateway, id, AgentQuery::Changes).await
}

#[utoipa::path(post, path = "/sessions/{id}/wake", tag = tag::AGENT, params(("id" = Uuid, Path)),
    responses((status = 200, body = AgentAbilities)))]
/// Starts the agent if necessary, and returns what it offers.
pub(super) async fn wake(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<AgentAbilities>> {
    let session = gateway.sessions.open(SessionId(id)).await?;
    // What an earlier agent offered is no answer: the client may ask because that one has failed.
    let abilities = session.wake().await?;
    let abilities = abilities.and_then(|it| serde_json::from_str(&it).ok());
    Ok(Json(abilities.unwrap_or_default()))
}

#[utoipa::path(post, path = "/sessions/{id}/close", tag = tag::AGENT, params(("id" = Uuid, Path)),
    responses((status = 204, description = "stopped")))]
/// Stops the agent process. The next prompt starts it again.
pub(super) async fn close(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<StatusCode> {
    gateway.sessions.open(SessionId(id)).await?.close().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn query(
    gateway: &Gateway,
    id: Uuid,
    question: AgentQuery,
) -> ApiResult<Json<Box<RawValue>>> {
    find_record(gateway, id).await?;
    // Opening a session could start an agent for prompts that wait. Only a session that is open
    // already has a running agent.
    let open = gateway.sessions.open_sessions();
    let session = open.into_iter().find(|it| it.id() == SessionId(id));
    let payload = session.ok_or_else(Problem::no_agent)?.query(question).await?;
    let payload = payload.unwrap_or_else(|| "{}".to_owned());
    RawValue::from_string(payload).map(Json).map_err(|it| Problem::failed(&it))
}

impl<'de> Deserialize<'de> for ModelSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self::Set)
    }
}
