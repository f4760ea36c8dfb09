//! Sessions: listing, creating, changing, forking, deleting.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use journal::{SessionId, SessionRecord, SessionStatus};
use serde::{Deserialize, Serialize};
use session::{
    AgentCatalog, AgentProtocol, CommandError, OPTIONS, OptionRole, Placement, SessionOptions,
    SessionSpec, WorktreeRemoval,
};
use utoipa::ToSchema;
use uuid::Uuid;
use view::wording;
use wire::note::{HoldReason, WatchChoice};
use wire::outgoing::PermissionMode;

use super::agents::SessionAgentResponse;
use super::extract::{JsonBody, PathParams, QueryParams};
use super::options::{
    OptionValues, authorize, authorize_bypass, confirm_bypass, new_options, require_admin,
    stored_values,
};
use super::prompts::PromptRequest;
use super::session_marks::SessionMarks;
use super::tag;
use super::watch::{WatchConfigBody, WatchSetting, WatchSettingBody};
use super::worktrees::{DeleteSessionQuery, NewWorktree, RemovableWorktree};
use crate::access::{AuthenticatedClient, Role};
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// The longest title, in characters.
const MAX_TITLE_CHARS: usize = 200;

/// A session in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionResponse {
    pub(crate) id: Uuid,
    /// Its title, or the first words of its first prompt.
    pub(crate) title: Option<String>,
    /// The agent's working directory.
    cwd: String,
    status: SessionStatusName,
    tier: SessionTier,
    /// The agent that works in it.
    agent: SessionAgentResponse,
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
    pub(crate) turn: u64,
    /// The agent's own session ids, oldest first.
    agent_ids: Vec<String>,
    /// How many requests wait for an answer.
    pub(crate) requests: usize,
    /// What a spent budget asks before queued prompts are sent: `$5.02 of $5.00 spent. Go on?`.
    pub(crate) budget_question: Option<String>,
    /// Why it cannot be used right now: its shim does not answer, its worker is away, or its data is damaged.
    problem: Option<String>,
    /// The machine that drives it; null if it is this one.
    pub(super) worker: Option<String>,
    /// Whether that machine is not connected.
    pub(super) worker_away: bool,
    /// Since when it is not connected, in milliseconds since 1970; null if that is not known.
    pub(super) worker_away_since: Option<u64>,
    /// Whether it is listed before all others.
    pub(super) pinned: bool,
    /// Whether it is listed only if someone asks for it.
    pub(super) archived: bool,
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
    agent: Option<String>,
    model: Option<String>,
    effort: Option<String>,
    permission_mode: Option<String>,
    watch: WatchChoice,
    restart_pending: bool,
    queue_hold: Option<HoldReason>,
}

impl SessionResponse {
    pub(crate) fn new(
        record: &SessionRecord,
        first_words: Option<&str>,
        requests: usize,
        problem: Option<String>,
        agents: &AgentCatalog,
    ) -> Self {
        let options: ListedOptions = serde_json::from_str(&record.options).unwrap_or_default();
        let budget_question = options.queue_hold.as_ref().and_then(wording::budget_question);
        let tier = match record.status {
            SessionStatus::Waiting => SessionTier::NeedsYou,
            _ if requests > 0 || budget_question.is_some() => SessionTier::NeedsYou,
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
            agent: SessionAgentResponse::new(agents, options.agent.as_deref()),
            model: options.model,
            mode: options.permission_mode,
            effort: options.effort,
            watch: match options.watch {
                WatchChoice::Own(config) => Some(WatchConfigBody::from(*config)),
                WatchChoice::Inherit | WatchChoice::Off => None,
            },
            created: record.created,
            active: record.active,
            last: record.last.0,
            turn: record.turn,
            agent_ids: record.agent_ids.clone(),
            requests,
            budget_question,
            problem,
            worker: None,
            worker_away: false,
            worker_away_since: None,
            pinned: false,
            archived: false,
        }
    }

    /// Whether it waits for a person.
    pub(crate) fn needs_person(&self) -> bool {
        self.tier == SessionTier::NeedsYou
    }

    /// Whether its agent works, or waits for a person to go on.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.status, SessionStatusName::Running | SessionStatusName::Waiting)
    }

    /// Whether its agent could not be started.
    pub(crate) fn has_failed(&self) -> bool {
        self.status == SessionStatusName::Failed
    }
}

/// All sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionsResponse {
    sessions: Vec<SessionResponse>,
}

/// A session with its options.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionDetails)]
pub(super) struct SessionDetailsResponse {
    #[serde(flatten)]
    session: SessionResponse,
    /// The options that are set. Secrets are masked unless the client is an admin.
    options: OptionValues,
    /// Whether the agent is to be restarted for changed options, before its next turn.
    restart_pending: bool,
}

/// A new session. Every option is a field too.
#[derive(Debug, Deserialize, ToSchema)]
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
    /// A profile whose options come first; `none` for none. The default of the directory if there is
    /// none.
    #[serde(default)]
    profile: Option<String>,
    /// The CLI's id of a conversation to resume. What was said in it before is imported. If the CLI has
    /// it open elsewhere, the problem is `open-elsewhere`.
    #[serde(default)]
    resume: Option<String>,
    /// Continue in a copy of the resumed conversation, and leave the original unchanged.
    #[serde(default)]
    fork: bool,
    /// Whether it works in a new working tree of the directory's git repository, with a branch of its
    /// own.
    #[serde(default)]
    worktree: bool,
    /// What to do with files the agent changes; `null` for nothing, `"inherit"` or no value for the
    /// default of the server.
    #[serde(default)]
    #[schema(value_type = Option<WatchSettingBody>)]
    watch: WatchSetting,
    /// The machine of a fleet that it is to be on. Without it, the least loaded one with a free slot and
    /// the directory.
    #[serde(default)]
    worker: Option<String>,
    /// The pool of machines of a fleet that it is to be in.
    #[serde(default)]
    pool: Option<String>,
    /// What has no other name is an option.
    #[serde(flatten)]
    options: OptionValues,
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
    pub(super) id: Uuid,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangeSessionRequest {
    #[serde(default)]
    title: Option<String>,
    /// Options to change. Those the agent cannot be told restart it before its next turn.
    #[serde(default)]
    options: OptionValues,
    /// Whether the mode `bypassPermissions` is really meant. Without it the answer is the problem
    /// `needs-confirmation`, whose `detail` is to be shown to the user.
    #[serde(default)]
    confirm: bool,
    /// Whether to list it before all others.
    #[serde(default)]
    pinned: Option<bool>,
    /// Whether to list it only if someone asks for it.
    #[serde(default)]
    archived: Option<bool>,
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
    let watch = new.watch.authorize(&gateway, &client).await?;
    let mut placement = Placement { worker: new.worker, pool: new.pool, new_worktree: None };
    if !placement.is_free() && !gateway.sessions.is_relayed() {
        let detail = "this server drives its sessions itself; leave out `worker` and `pool`";
        return Err(Problem::invalid(detail));
    }
    let directory = resolve_directory(&gateway, &new.cwd).await?;
    let mut options =
        new_options(&gateway, &client, directory.clone(), new.profile, new.options).await?;
    if let Some(conversation) = &new.resume {
        super::transcripts::check_resumable(&gateway, conversation).await?;
        options.fork = new.fork;
    }
    let id = new.id.map(SessionId);
    let title = new.title.as_deref().map(check_title).transpose()?;
    let resume = new.resume.map(check_argument).transpose()?;
    // A repeated request makes no second working tree.
    let exists = match id {
        Some(id) => gateway.sessions.journal().session(id).await?.is_some(),
        None => false,
    };
    let mut worktree = None;
    if new.worktree && !exists {
        let about = title.as_deref().or_else(|| prompt.as_ref().map(|it| it.text.as_str()));
        let about = about.unwrap_or_default();
        if gateway.sessions.is_relayed() {
            // The repository is where the session will be.
            placement.new_worktree = Some(about.chars().take(MAX_TITLE_CHARS).collect());
        } else {
            let new = NewWorktree::create(&gateway, &directory, about).await?;
            options.directory.clone_from(&new.directory);
            worktree = Some(new);
        }
    }
    let creation = SessionSpec { id, title, options, resume };
    let (status, session) = match (gateway.sessions.create_at(creation, placement).await, id) {
        (Ok(session), _) => (StatusCode::CREATED, session),
        (Err(error), id) => {
            if let Some(worktree) = worktree {
                worktree.undo().await;
            }
            match (error, id) {
                (session::OpenError::Journal(journal::Error::SessionExists(_)), Some(id)) => {
                    (StatusCode::OK, gateway.sessions.open(id).await?)
                }
                (error, _) => return Err(error.into()),
            }
        }
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
    responses((status = 200, body = SessionDetailsResponse)))]
/// A session with its options.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<SessionDetailsResponse>> {
    let session = gateway.session_list.load_one(SessionId(id)).await?;
    let session = session.ok_or_else(|| Problem::not_found("session"))?;
    let record = find_record(&gateway, id).await?;
    let options = stored_values(&record.options, client.role >= Role::Admin);
    let stored: ListedOptions = serde_json::from_str(&record.options).unwrap_or_default();
    Ok(Json(SessionDetailsResponse { session, options, restart_pending: stored.restart_pending }))
}

#[utoipa::path(patch, path = "/sessions/{id}", tag = tag::SESSIONS, params(("id" = Uuid, Path)), request_body = ChangeSessionRequest,
    responses((status = 200, body = SessionDetailsResponse)))]
/// Changes the title and the options of a session.
pub(super) async fn change(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(new): JsonBody<ChangeSessionRequest>,
) -> ApiResult<Json<SessionDetailsResponse>> {
    let ChangeSessionRequest { title, options, confirm, pinned, archived } = new;
    let title = title.as_deref().map(check_title).transpose()?;
    let changes = authorize(&gateway, &client, options).await?;
    if changes.wants_bypass() && !confirm {
        return Err(confirm_bypass());
    }
    find_record(&gateway, id).await?;
    if !changes.is_empty() {
        let session = gateway.sessions.open(SessionId(id)).await?;
        session.change_options(&changes, &client.actor()).await?;
    }
    if let Some(title) = title {
        rename(&gateway, id, title).await?;
    }
    if pinned.is_some() || archived.is_some() {
        let journal = gateway.sessions.journal();
        let marks = SessionMarks::load(journal).await?;
        let before = marks.get(&SessionId(id)).copied().unwrap_or_default();
        let marks = SessionMarks {
            pinned: pinned.unwrap_or(before.pinned),
            archived: archived.unwrap_or(before.archived),
        };
        marks.store(journal, SessionId(id)).await?;
    }
    show(State(gateway), client, PathParams(id)).await
}

async fn rename(gateway: &Gateway, id: Uuid, title: String) -> ApiResult<()> {
    gateway.sessions.rename(SessionId(id), title).await?;
    Ok(())
}

#[utoipa::path(delete, path = "/sessions/{id}", tag = tag::SESSIONS, params(("id" = Uuid, Path), DeleteSessionQuery),
    responses((status = 204, description = "deleted, and its agent stopped")))]
/// Deletes a session and stops its agent.
pub(super) async fn delete(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(DeleteSessionQuery { worktree }): QueryParams<DeleteSessionQuery>,
) -> ApiResult<StatusCode> {
    let worktree = delete_session(&gateway, id, worktree.removal()).await?;
    if let Some(terminals) = &gateway.terminals {
        terminals.close_session(id).await;
    }
    SessionMarks::default().store(gateway.sessions.journal(), SessionId(id)).await?;
    if let Some(worktree) = worktree {
        worktree.remove().await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes a session. Returns the working tree that is to be removed next.
async fn delete_session(
    gateway: &Gateway,
    id: Uuid,
    removal: Option<WorktreeRemoval>,
) -> ApiResult<Option<RemovableWorktree>> {
    let (sessions, session) = (&gateway.sessions, SessionId(id));
    let Some(removal) = removal else {
        sessions.delete(session).await?;
        return Ok(None);
    };
    if let Some(deleted) = sessions.delete_with_worktree(session, removal).await {
        // The machine that drove it removes its working tree.
        deleted?;
        return Ok(None);
    }
    let worktree = RemovableWorktree::of_session(gateway, id, removal).await?;
    sessions.delete(session).await?;
    Ok(Some(worktree))
}

#[utoipa::path(post, path = "/sessions/{id}/fork", tag = tag::SESSIONS, params(("id" = Uuid, Path)), request_body = ForkRequest,
    responses((status = 201, body = CreateSessionResponse)))]
/// Creates a session that continues from another session's conversation.
pub(super) async fn fork(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    JsonBody(body): JsonBody<ForkRequest>,
) -> ApiResult<(StatusCode, Json<CreateSessionResponse>)> {
    let record = find_record(&gateway, id).await?;
    let Some(resume) = record.agent_ids.last().cloned() else {
        return Err(Problem::conflict("conflict", "there is no conversation to fork yet"));
    };
    // Defaults in place of unreadable options would lose the limits of the session.
    let options = SessionOptions::from_json(&record.options, record.directory)
        .map_err(|it| CommandError::UnreadableOptions(it.reason))?;
    let options = options.for_fork().map_err(|reason| Problem::conflict("conflict", reason))?;
    authorize_copy(&gateway, &client, &options)?;
    let title = body.title.as_deref().map(check_title).transpose()?.or(record.title);
    let creation = SessionSpec { id: None, title, options, resume: Some(resume) };
    // The agent's own files of the conversation are where it was.
    let worker = gateway.sessions.worker(SessionId(id)).map(|it| it.name);
    let placement = Placement { worker, ..Placement::default() };
    let session = gateway.sessions.create_at(creation, placement).await?;
    Ok((StatusCode::CREATED, Json(CreateSessionResponse { id: session.id().0 })))
}

pub(super) async fn find_record(gateway: &Gateway, id: Uuid) -> ApiResult<SessionRecord> {
    let record = gateway.sessions.journal().session(SessionId(id)).await?;
    record.ok_or_else(|| Problem::not_found("session"))
}

/// The agent that was chosen for a session.
pub(super) fn session_agent(record: &SessionRecord) -> Option<String> {
    let options: ListedOptions = serde_json::from_str(&record.options).unwrap_or_default();
    options.agent
}

/// Whether the agent of a session is driven over the Agent Client Protocol.
pub(super) fn is_acp(gateway: &Gateway, record: &SessionRecord) -> bool {
    let agents = &gateway.sessions.config().agents;
    let agent = session_agent(record).and_then(|name| agents.find(&name));
    agent.is_some_and(|it| it.protocol == AgentProtocol::Acp)
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
    if gateway.sessions.is_relayed() {
        // The machine that drives the session knows its own directories, and has its own roots.
        return Ok(PathBuf::from(path));
    }
    let (roots, path) = (gateway.config.roots.clone(), PathBuf::from(path));
    let resolved = tokio::task::spawn_blocking(move || roots.resolve(&path)).await;
    let resolved = resolved.map_err(|it| Problem::failed(&it))?;
    resolved.ok_or_else(|| {
        let detail =
            "there is no such directory below a root of this server; add a root with `--root`";
        Problem::new(StatusCode::FORBIDDEN, "outside-roots", "directory not allowed", detail)
    })
}

/// Refuses a copy of options that the client could not set itself.
fn authorize_copy(
    gateway: &Gateway,
    client: &AuthenticatedClient,
    options: &SessionOptions,
) -> ApiResult<()> {
    if options.permission_mode == Some(PermissionMode::BypassPermissions) {
        authorize_bypass(gateway, client)?;
    }
    let admin = OPTIONS.iter().filter(|it| it.role == OptionRole::Admin);
    for spec in admin.filter(|spec| !options.value(spec).is_null()) {
        require_admin(client, &format!("copying a session with `{}`", spec.name))?;
    }
    Ok(())
}
