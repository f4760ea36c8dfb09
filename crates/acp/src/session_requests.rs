//! Requests about whole sessions: new ones, opening, copying, deleting, renaming.

use std::path::Path;
use std::sync::Arc;

use journal::{SessionId, SessionRecord};
use serde_json::{Map, Value, json};
use session::{OpenError, OptionSpec, Placement, SessionOptions, SessionSpec};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tracing::warn;
use uuid::Uuid;
use wire::acp::{
    AgentLine, ClientCall, McpServerSpec, McpTransport, RpcError, RpcId, SessionPlace,
};

use crate::attached::{AttachedSession, INPUT_QUEUE, SessionInput, SessionOpening};
use crate::config::AcpRole;
use crate::connection::{AttachedHandle, ConnectionShared};
use crate::session_link::SessionLink;
use crate::session_list;
use crate::translate::TranslationPhase;

/// Carries out a request. An error is its answer.
pub(crate) async fn perform(
    shared: &Arc<ConnectionShared>,
    rpc: &RpcId,
    call: ClientCall,
) -> Result<(), RpcError> {
    let line = match call {
        ClientCall::NewSession(place) => return new_session(shared, rpc, place).await,
        ClientCall::LoadSession { session, place } => {
            return open_session(shared, rpc, session, place, TranslationPhase::Replay).await;
        }
        ClientCall::ResumeSession { session, place, replay } => {
            let phase = if replay { TranslationPhase::Replay } else { TranslationPhase::Silent };
            return open_session(shared, rpc, session, place, phase).await;
        }
        ClientCall::ForkSession { session, place } => {
            return fork_session(shared, rpc, &session, place).await;
        }
        ClientCall::CloseSession { session } => {
            let input = SessionInput::Close { rpc: rpc.clone() };
            let closed = shared.input(&session, input).await;
            shared.forget(&session);
            return closed;
        }
        ClientCall::ListSessions { cwd, cursor } => {
            let (sessions, next) = session_list::list(shared.config(), cwd, cursor).await?;
            AgentLine::session_list(rpc, &sessions, next.as_deref())
        }
        ClientCall::DeleteSession { session } => {
            delete_session(shared, &session).await?;
            AgentLine::done(rpc)
        }
        ClientCall::SetTitle { session, title } => {
            let record = find_record(shared, &session).await?;
            let title = rename(shared, record.id, &title).await?;
            AgentLine::title_changed(rpc, &title)
        }
        ClientCall::SessionStatus { session } => {
            find_record(shared, &session).await?;
            AgentLine::status(rpc, shared.is_attached(&session))
        }
        _ => return Err(RpcError::internal("the request was not carried out")),
    };
    // A client that is gone does not wait for it.
    let _ = shared.send(line).await;
    Ok(())
}

async fn new_session(
    shared: &Arc<ConnectionShared>,
    rpc: &RpcId,
    place: SessionPlace,
) -> Result<(), RpcError> {
    let options = new_options(shared, place).await?;
    let spec = SessionSpec { options, ..SessionSpec::default() };
    create(shared, rpc, spec, Placement::default()).await
}

/// Creates a session and opens it for the client.
async fn create(
    shared: &Arc<ConnectionShared>,
    rpc: &RpcId,
    spec: SessionSpec,
    placement: Placement,
) -> Result<(), RpcError> {
    let options = spec.options.clone();
    let id =
        shared.config().sessions.store_at(spec, placement).await.map_err(|it| open_error(&it))?;
    let opening =
        SessionOpening { rpc: rpc.clone(), phase: TranslationPhase::Silent, is_new: true };
    attach(shared, id.to_string(), id, &options, opening).await
}

/// The options of a session that a client wants to have in a directory.
async fn new_options(
    shared: &ConnectionShared,
    place: SessionPlace,
) -> Result<SessionOptions, RpcError> {
    let config = shared.config().clone();
    let changes = place_options(shared, &place)?;
    let prepare = move || {
        let directory = config.roots.resolve(Path::new(&place.cwd)).ok_or_else(|| {
            let message = format!(
                "`cwd` must be an absolute path of an existing directory{}: {}",
                if config.roots.contains(Path::new("/")) { "" } else { " below a root" },
                place.cwd
            );
            RpcError::invalid_params(message).with_data(json!({ "cwd": place.cwd }))
        })?;
        let mut options = config.defaults.options(&directory).map_err(RpcError::invalid_params)?;
        options.directory = directory;
        let mut changes = changes;
        if let Some(own) = options.mcp_config.as_deref()
            && let Some(Value::Object(added)) = changes.get_mut("mcp_config")
        {
            add_servers(added, own);
        }
        for (name, value) in &changes {
            set_option(&mut options, name, value)?;
        }
        for directory in &mut options.extra_directories {
            let path = std::mem::take(directory);
            *directory = config.roots.resolve(&path).ok_or_else(|| missing_directory(&path))?;
        }
        Ok(options)
    };
    spawn_blocking(prepare).await.unwrap_or_else(|error| Err(RpcError::internal(error.to_string())))
}

fn missing_directory(path: &Path) -> RpcError {
    let path = path.display();
    RpcError::invalid_params(format!("`additionalDirectories`: there is no directory `{path}`"))
}

fn set_option(options: &mut SessionOptions, name: &str, value: &Value) -> Result<(), RpcError> {
    let Some(spec) = OptionSpec::find(name) else { return Ok(()) };
    options.set_value(spec, value).map_err(|error| RpcError::invalid_params(error.to_string()))
}

/// The servers that the options of new sessions have, beside those of the client.
fn add_servers(added: &mut Map<String, Value>, own: &str) {
    let own = if own.trim_start().starts_with('{') {
        serde_json::from_str(own).ok()
    } else {
        std::fs::read(own).ok().and_then(|it| serde_json::from_slice(&it).ok())
    };
    let Some(Value::Object(mut own)) = own else { return };
    let Some(Value::Object(own)) = own.get_mut("mcpServers").map(Value::take) else { return };
    if let Some(Value::Object(servers)) = added.get_mut("mcpServers") {
        for (name, server) in own {
            servers.entry(name).or_insert(server);
        }
    }
}

/// The options that follow from what a client says about the place of a session.
fn place_options(
    shared: &ConnectionShared,
    place: &SessionPlace,
) -> Result<Map<String, Value>, RpcError> {
    let mut options = Map::new();
    if !place.additional_directories.is_empty() {
        options.insert("extra_directories".to_owned(), json!(place.additional_directories));
    }
    if !place.mcp_servers.is_empty() {
        if shared.config().role < AcpRole::Admin {
            let message = "this client may not add MCP servers, which run programs on the machine";
            return Err(RpcError::invalid_params(message));
        }
        let servers: Map<String, Value> = place.mcp_servers.iter().map(mcp_server).collect();
        options.insert("mcp_config".to_owned(), json!({ "mcpServers": servers }));
    }
    Ok(options)
}

/// An MCP server as the CLI's configuration has it.
fn mcp_server(server: &McpServerSpec) -> (String, Value) {
    let object = |pairs: &[(String, String)]| -> Value {
        let pairs = pairs.iter().map(|(name, value)| (name.clone(), json!(value)));
        Value::Object(pairs.collect())
    };
    let value = match &server.transport {
        McpTransport::Stdio { command, arguments, environment } => {
            json!({ "command": command, "args": arguments, "env": object(environment) })
        }
        McpTransport::Http { url, headers } => {
            json!({ "type": "http", "url": url, "headers": object(headers) })
        }
        McpTransport::Sse { url, headers } => {
            json!({ "type": "sse", "url": url, "headers": object(headers) })
        }
    };
    (server.name.clone(), value)
}

/// Opens a session for a client: one of the journal, or one that the CLI ran without Towpath.
async fn open_session(
    shared: &Arc<ConnectionShared>,
    rpc: &RpcId,
    name: String,
    place: SessionPlace,
    phase: TranslationPhase,
) -> Result<(), RpcError> {
    let opening = SessionOpening { rpc: rpc.clone(), phase, is_new: false };
    if shared.is_attached(&name) {
        return shared.input(&name, SessionInput::Reopen { opening }).await;
    }
    let changes = place_options(shared, &place)?;
    let (id, options) = match find_record(shared, &name).await {
        Ok(record) => {
            let options = stored_options(&record)?;
            (record.id, options)
        }
        Err(not_found) => import(shared, &name, place).await?.ok_or(not_found)?,
    };
    attach(shared, name, id, &options, opening).await?;
    change_place(shared, id, &options, changes).await;
    Ok(())
}

/// Gives the agent of an existing session the client's servers and directories, if it has others.
async fn change_place(
    shared: &ConnectionShared,
    id: SessionId,
    options: &SessionOptions,
    values: Map<String, Value>,
) {
    if values.is_empty() || shared.config().role < AcpRole::Drive {
        return;
    }
    let mut wanted = options.clone();
    let is_valid = values.iter().all(|(name, value)| set_option(&mut wanted, name, value).is_ok());
    if !is_valid || wanted == *options {
        return;
    }
    let changes = session::OptionChanges::new(&values);
    let (Ok(changes), Ok(session)) = (changes, shared.config().opener.open(id).await) else {
        return;
    };
    if let Err(error) = session.change_options(&changes, &shared.actor()).await {
        warn!(session = %id, %error, "a client's servers and directories were not taken over");
    }
}

/// Makes a session of one that the CLI ran without Towpath. It keeps its id.
async fn import(
    shared: &ConnectionShared,
    name: &str,
    place: SessionPlace,
) -> Result<Option<(SessionId, SessionOptions)>, RpcError> {
    let config = shared.config();
    let Ok(id) = name.parse::<Uuid>() else { return Ok(None) };
    if config.role < AcpRole::Drive {
        return Ok(None);
    }
    let found = config.sessions.find_transcripts(name, &config.roots).await;
    let Some((_, directory)) = found.into_iter().next() else { return Ok(None) };
    let cwd = directory.to_string_lossy().into_owned();
    let options = new_options(shared, SessionPlace { cwd, ..place }).await?;
    let spec = SessionSpec {
        id: Some(SessionId(id)),
        options: options.clone(),
        resume: Some(id.to_string()),
        ..SessionSpec::default()
    };
    let id = config.sessions.store(spec).await.map_err(|it| open_error(&it))?;
    Ok(Some((id, options)))
}

async fn fork_session(
    shared: &Arc<ConnectionShared>,
    rpc: &RpcId,
    name: &str,
    place: SessionPlace,
) -> Result<(), RpcError> {
    let record = find_record(shared, name).await?;
    let resume = record.agent_ids.last().cloned();
    let resume = resume.ok_or_else(|| {
        RpcError::invalid_params("nothing was said in the session yet, so there is nothing to copy")
    })?;
    let mut options = stored_options(&record)?.for_fork().map_err(RpcError::invalid_params)?;
    for (name, value) in &place_options(shared, &place)? {
        set_option(&mut options, name, value)?;
    }
    let title = record.title.clone();
    let spec = SessionSpec { id: None, title, options, resume: Some(resume) };
    // The agent's own files of the conversation are where it was.
    let worker = shared.config().sessions.worker(record.id).map(|it| it.name);
    create(shared, rpc, spec, Placement { worker, ..Placement::default() }).await
}

/// Deletes a session, or takes one that the CLI ran without Towpath from the list.
async fn delete_session(shared: &ConnectionShared, name: &str) -> Result<(), RpcError> {
    let config = shared.config();
    let ids = match find_record(shared, name).await {
        Ok(record) => {
            shared.forget(name);
            config.sessions.delete(record.id).await.map_err(|it| open_error(&it))?;
            record.agent_ids.into_iter().chain([record.id.to_string()]).collect()
        }
        Err(not_found) => {
            let found = match name.parse::<Uuid>() {
                Ok(_) => config.sessions.find_transcripts(name, &config.roots).await,
                Err(_) => Vec::new(),
            };
            if found.is_empty() {
                return Err(not_found);
            }
            vec![name.to_owned()]
        }
    };
    let hidden = session_list::hide(config, ids).await;
    hidden.map_err(|error| RpcError::internal(error.to_string()))
}

/// Starts the task of a session, which answers the request.
async fn attach(
    shared: &Arc<ConnectionShared>,
    name: String,
    id: SessionId,
    options: &SessionOptions,
    opening: SessionOpening,
) -> Result<(), RpcError> {
    let opener = Arc::clone(&shared.config().opener);
    let link = match shared.config().role {
        AcpRole::Watch => SessionLink::unopened(opener, id),
        _ => SessionLink::open(opener, id).await.map_err(|it| open_error(&it))?,
    };
    let (inputs, received) = mpsc::channel(INPUT_QUEUE);
    let attached = AttachedSession::new(Arc::clone(shared), name.clone(), link, options, received);
    let task = tokio::spawn(attached.run(opening));
    shared.attach(name, AttachedHandle { inputs, task });
    Ok(())
}

/// The record of a session that the client may know: by Towpath's id or the CLI's.
async fn find_record(shared: &ConnectionShared, name: &str) -> Result<SessionRecord, RpcError> {
    let config = shared.config();
    let journal = config.sessions.journal();
    let failed = |error: journal::Error| RpcError::internal(error.to_string());
    let found = match name.parse::<Uuid>() {
        Ok(id) => journal.session(SessionId(id)).await.map_err(failed)?,
        Err(_) => None,
    };
    let found = if found.is_some() {
        found
    } else {
        let all = journal.sessions().await.map_err(failed)?;
        all.into_iter().find(|record| record.agent_ids.iter().any(|it| it == name))
    };
    found
        .filter(|record| config.roots.contains(&record.directory))
        .ok_or_else(|| RpcError::session_not_found(name))
}

fn stored_options(record: &SessionRecord) -> Result<SessionOptions, RpcError> {
    SessionOptions::from_json(&record.options, record.directory.clone()).map_err(|it| {
        let reason = it.reason;
        RpcError::internal(format!("the stored options of the session cannot be read: {reason}"))
    })
}

async fn rename(shared: &ConnectionShared, id: SessionId, title: &str) -> Result<String, RpcError> {
    let title = title.trim().to_owned();
    if title.is_empty() || title.len() > 400 || title.chars().any(char::is_control) {
        return Err(RpcError::invalid_params("a title is one line of at most 400 bytes"));
    }
    let written = shared.config().sessions.rename(id, title.clone()).await;
    written.map_err(|error| RpcError::internal(error.to_string()))?;
    Ok(title)
}

fn open_error(error: &OpenError) -> RpcError {
    match error {
        OpenError::NoSuchSession(id) => RpcError::session_not_found(&id.to_string()),
        OpenError::Directory { .. } | OpenError::Agent(_) => {
            RpcError::invalid_params(error.to_string())
        }
        _ => RpcError::internal(describe(error)),
    }
}

/// An error with its causes.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
