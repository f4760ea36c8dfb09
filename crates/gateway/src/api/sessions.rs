//! Sessions: listing, creating, renaming, forking, deleting.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use journal::{Batch, NewEntry, Origin, SessionId, SessionRecord, SessionStatus};
use serde::{Deserialize, Serialize};
use session::{SessionOptions, SessionSpec};
use utoipa::ToSchema;
use uuid::Uuid;
use wire::note::{Note, WatchConfig};
use wire::outgoing::PermissionMode;

use super::extract::{JsonBody, PathParams};
use super::prompts::PromptRequest;
use super::tag;
use super::watch::{WatchConfigBody, WatchSetting};
use crate::access::AuthenticatedClient;
use crate::gateway::{Gateway, now};
use crate::problem::{ApiResult, Problem};

/// The longest title, in characters.
const MAX_TITLE_CHARS: usize = 200;

/// A session in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionResponse {
    pub(crate) id: Uuid,
    /// Its title, or the first words of its first prompt.
    pub(super) title: Option<String>,
    /// The agent's working directory.
    cwd: String,
    status: SessionStatusName,
    tier: SessionTier,
    /// The configured model.
    model: Option<String>,
    /// The configured permission mode.
    mode: Option<String>,
    /// The configured effort.
    effort: Option<String>,
    /// What is done with files the agent changes.
    watch: Option<WatchConfigBody>,
    /// When it was created, in milliseconds since 1970.
    created: u64,
    /// When it was last active.
    pub(crate) active: u64,
    /// The number of its last entry.
    pub(crate) last: u64,
    /// The number of its last turn.
    turn: u64,
    /// The agent's own session ids, oldest first.
    agent_ids: Vec<String>,
    /// How many requests wait for an answer.
    requests: usize,
    /// Why it cannot be used right now: its shim does not answer, or its data is damaged.
    problem: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SessionStatus)]
pub(crate) enum SessionStatusName {
    Idle,
    Running,
    Waiting,
    Dead,
    Failed,
}

/// The group of the list that a session is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SessionTier {
    /// It waits for a user.
    NeedsYou,
    Running,
    Idle,
}

/// The options of a session that the list contains.
#[derive(Deserialize, Default)]
#[serde(default)]
struct ListedOptions {
    model: Option<String>,
    effort: Option<String>,
    permission_mode: Option<String>,
    watch: Option<WatchConfig>,
}

impl SessionResponse {
    pub(crate) fn new(
        record: &SessionRecord,
        first_words: Option<&str>,
        requests: usize,
        problem: Option<String>,
    ) -> Self {
        let options: ListedOptions = serde_json::from_str(&record.options).unwrap_or_default();
        let tier = match record.status {
            SessionStatus::Waiting => SessionTier::NeedsYou,
            _ if requests > 0 => SessionTier::NeedsYou,
            SessionStatus::Running => SessionTier::Running,
            SessionStatus::Idle | SessionStatus::Dead | SessionStatus::Failed => SessionTier::Idle,
        };
        Self {
            id: record.id.0,
            title: record.title.clone().or_else(|| first_words.map(str::to_owned)),
            cwd: record.directory.to_string_lossy().into_owned(),
            status: match record.status {
                SessionStatus::Idle => SessionStatusName::Idle,
                SessionStatus::Running => SessionStatusName::Running,
                SessionStatus::Waiting => SessionStatusName::Waiting,
                SessionStatus::Dead => SessionStatusName::Dead,
                SessionStatus::Failed => SessionStatusName::Failed,
            },
            tier,
            model: options.model,
            mode: options.permission_mode,
            effort: options.effort,
            watch: options.watch.map(WatchConfigBody::from),
            created: record.created,
            active: record.active,
            last: record.last.0,
            turn: record.turn,
            agent_ids: record.agent_ids.clone(),
            requests,
            problem,
        }
    }
}

/// All sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionsResponse {
    sessions: Vec<SessionResponse>,
}

/// A new session.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateSessionRequest {
    /// Made by the sender. If a session with this id exists, it is returned.
    #[serde(default)]
    id: Option<Uuid>,
    /// The agent's working directory: an absolute path below one of the roots.
    cwd: String,
    #[serde(default)]
    pub(super) title: Option<String>,
    /// The first prompt.
    #[serde(default)]
    prompt: Option<FirstPrompt>,
    /// The CLI's default if there is none.
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    effort: Option<String>,
    /// The permission mode, as the CLI spells it: `default`, `acceptEdits`, `plan`, ….
    #[serde(default)]
    mode: Option<String>,
    /// The CLI's id of a conversation to resume.
    #[serde(default)]
    resume: Option<String>,
    /// Tools the agent may use without asking.
    #[serde(default)]
    allowed_tools: Vec<String>,
    /// Additional directories it may work in, below one of the roots.
    #[serde(default)]
    extra_directories: Vec<String>,
    /// What to do with files the agent changes.
    #[serde(default)]
    #[schema(value_type = Option<WatchConfigBody>)]
    watch: WatchSetting,
}

/// A first prompt: its text, or a whole prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum FirstPrompt {
    Text(String),
    Whole(PromptRequest),
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CreateSessionResponse {
    id: Uuid,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RenameRequest {
    title: String,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkRequest {
    /// The title of the original session if there is none.
    #[serde(default)]
    pub(super) title: Option<String>,
}

#[utoipa::path(get, path = "/sessions", tag = tag::SESSIONS, responses((status = 200, body = SessionsResponse)))]
/// All sessions, the most recently active first.
pub(super) async fn list(State(gateway): State<Gateway>) -> ApiResult<Json<SessionsResponse>> {
    Ok(Json(SessionsResponse { sessions: gateway.session_list.load().await? }))
}

#[utoipa::path(post, path = "/sessions", tag = tag::SESSIONS, request_body = CreateSessionRequest,
    responses((status = 201, body = CreateSessionResponse), (status = 200, body = CreateSessionResponse, description = "it exists already")))]
/// Creates a session.
pub(super) async fn create(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    JsonBody(new): JsonBody<CreateSessionRequest>,
) -> ApiResult<(StatusCode, Json<CreateSessionResponse>)> {
    let prompt = new.prompt.map(|prompt| match prompt {
        FirstPrompt::Text(text) => Ok(PromptRequest::from_text(text)),
        FirstPrompt::Whole(prompt) => prompt.check().map(|()| prompt),
    });
    let prompt = prompt.transpose()?.map(|it| it.into_prompt(&client)).transpose()?;
    let mode = new.mode.as_deref().map(parse_mode).transpose()?;
    let watch = new.watch.authorize(&gateway, &client).await?;
    let options = SessionOptions {
        directory: resolve_directory(&gateway, &new.cwd).await?,
        model: new.model.map(check_argument).transpose()?,
        effort: new.effort.map(check_argument).transpose()?,
        permission_mode: mode,
        allowed_tools: new
            .allowed_tools
            .into_iter()
            .map(check_argument)
            .collect::<ApiResult<_>>()?,
        extra_directories: resolve_directories(&gateway, &new.extra_directories).await?,
        ..SessionOptions::default()
    };
    let id = new.id.map(SessionId);
    let creation = SessionSpec {
        id,
        title: new.title.as_deref().map(check_title).transpose()?,
        options,
        resume: new.resume.map(check_argument).transpose()?,
    };
    let (status, session) = match (gateway.sessions.create(creation).await, id) {
        (Ok(session), _) => (StatusCode::CREATED, session),
        (Err(session::OpenError::Journal(journal::Error::SessionExists(_))), Some(id)) => {
            (StatusCode::OK, gateway.sessions.open(id).await?)
        }
        (Err(error), _) => return Err(error.into()),
    };
    if let Some(watch) = watch.filter(|_| status == StatusCode::CREATED) {
        // Set like any other setting, so that the journal records who did it.
        session.set(watch, client.actor()).await?;
    }
    if let Some(prompt) = prompt {
        session.prompt(prompt).await?;
    }
    Ok((status, Json(CreateSessionResponse { id: session.id().0 })))
}

#[utoipa::path(get, path = "/sessions/{id}", tag = tag::SESSIONS, params(("id" = Uuid, Path)),
    responses((status = 200, body = SessionResponse)))]
/// A session.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<SessionResponse>> {
    let session = gateway.session_list.load_one(SessionId(id)).await?;
    session.map(Json).ok_or_else(|| Problem::not_found("session"))
}

#[utoipa::path(patch, path = "/sessions/{id}", tag = tag::SESSIONS, params(("id" = Uuid, Path)), request_body = RenameRequest,
    responses((status = 200, body = SessionResponse)))]
/// Renames a session.
pub(super) async fn rename(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    JsonBody(RenameRequest { title }): JsonBody<RenameRequest>,
) -> ApiResult<Json<SessionResponse>> {
    let title = check_title(&title)?;
    let note = Note::TitleChanged { title: title.clone() }.to_line();
    let mut batch = Batch { at: now(), ..Batch::default() };
    batch.entries =
        vec![NewEntry { origin: Origin::Towpath, bytes: Bytes::from(note), transient: false }];
    batch.change.title = Some(title);
    gateway.sessions.journal().write(SessionId(id), batch).await?;
    show(State(gateway), PathParams(id)).await
}

#[utoipa::path(delete, path = "/sessions/{id}", tag = tag::SESSIONS, params(("id" = Uuid, Path)),
    responses((status = 204, description = "deleted, and its agent stopped")))]
/// Deletes a session and stops its agent.
pub(super) async fn delete(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<StatusCode> {
    gateway.sessions.delete(SessionId(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(post, path = "/sessions/{id}/fork", tag = tag::SESSIONS, params(("id" = Uuid, Path)), request_body = ForkRequest,
    responses((status = 201, body = CreateSessionResponse)))]
/// Creates a session that continues from another session's conversation.
pub(super) async fn fork(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<ForkRequest>,
) -> ApiResult<(StatusCode, Json<CreateSessionResponse>)> {
    let record = find_record(&gateway, id).await?;
    let Some(resume) = record.agent_ids.last().cloned() else {
        return Err(Problem::conflict("conflict", "there is no conversation to fork yet"));
    };
    let options: SessionOptions = serde_json::from_str(&record.options).unwrap_or_default();
    // The watch configuration was authorized for the original session only.
    let options =
        SessionOptions { directory: record.directory, fork: true, watch: None, ..options };
    let title = body.title.as_deref().map(check_title).transpose()?.or(record.title);
    let creation = SessionSpec { id: None, title, options, resume: Some(resume) };
    let session = gateway.sessions.create(creation).await?;
    Ok((StatusCode::CREATED, Json(CreateSessionResponse { id: session.id().0 })))
}

pub(super) async fn find_record(gateway: &Gateway, id: Uuid) -> ApiResult<SessionRecord> {
    let record = gateway.sessions.journal().session(SessionId(id)).await?;
    record.ok_or_else(|| Problem::not_found("session"))
}

pub(super) fn parse_mode(name: &str) -> ApiResult<PermissionMode> {
    PermissionMode::named(name).ok_or_else(|| {
        let all = PermissionMode::ALL.map(PermissionMode::name).join("`, `");
        Problem::invalid(format!("there is no mode `{name}`; use one of `{all}`"))
    })
}

/// Checks a value for the agent's command line. One that starts with a dash would be an option.
pub(super) fn check_argument(value: String) -> ApiResult<String> {
    let fits = !value.is_empty() && value.len() <= 400 && !value.starts_with('-');
    if fits && !value.chars().any(char::is_control) {
        return Ok(value);
    }
    Err(Problem::invalid("a value is empty, too long, or starts with a dash"))
}

fn check_title(title: &str) -> ApiResult<String> {
    let title = title.trim();
    if title.is_empty() || title.chars().count() > MAX_TITLE_CHARS {
        return Err(Problem::invalid(format!(
            "a title has between 1 and {MAX_TITLE_CHARS} characters"
        )));
    }
    Ok(title.to_owned())
}

/// Resolves a directory in which a session may work.
pub(super) async fn resolve_directory(gateway: &Gateway, path: &str) -> ApiResult<PathBuf> {
    let (roots, path) = (gateway.config.roots.clone(), PathBuf::from(path));
    let resolved = tokio::task::spawn_blocking(move || roots.resolve(&path)).await;
    let resolved = resolved.map_err(|it| Problem::failed(&it))?;
    resolved.ok_or_else(|| {
        let detail =
            "there is no such directory below a root of this server; add a root with `--root`";
        Problem::new(StatusCode::FORBIDDEN, "outside-roots", "directory not allowed", detail)
    })
}

async fn resolve_directories(gateway: &Gateway, paths: &[String]) -> ApiResult<Vec<PathBuf>> {
    let mut resolved = Vec::new();
    for path in paths {
        resolved.push(resolve_directory(gateway, path).await?);
    }
    Ok(resolved)
}
