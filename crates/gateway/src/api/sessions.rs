//! Sessions: listing, creating, naming, branching off, deleting.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;
use journal::{Batch, NewEntry, Origin, SessionId, SessionRecord};
use serde::{Deserialize, Serialize};
use session::{Creation, Options};
use utoipa::ToSchema;
use uuid::Uuid;
use wire::note::Note;
use wire::say::PermissionMode;

use super::problem::Answer;
use super::prompts::NewPrompt;
use super::sent::{Named, Sent};
use super::wish::{ShownWish, WatchSaid};
use super::{Problem, ShownSession, tag};
use crate::clock::now;
use crate::gateway::Gateway;
use crate::visitor::Visitor;

/// The longest name of a session.
const TITLE: usize = 200;

/// All sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionList {
    sessions: Vec<ShownSession>,
}

/// A session to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSession {
    /// Its id, made by the sender: the same again is the same session.
    #[serde(default)]
    id: Option<Uuid>,
    /// Where the agent works: an absolute path below one of the roots.
    cwd: String,
    /// Its name.
    #[serde(default)]
    title: Option<String>,
    /// The first prompt.
    #[serde(default)]
    prompt: Option<FirstPrompt>,
    /// The model; the CLI's default where nothing is said.
    #[serde(default)]
    model: Option<String>,
    /// How hard it thinks.
    #[serde(default)]
    effort: Option<String>,
    /// The permission mode, as the CLI spells it: `default`, `acceptEdits`, `plan`, ….
    #[serde(default)]
    mode: Option<String>,
    /// The conversation it takes up, by the CLI's id.
    #[serde(default)]
    resume: Option<String>,
    /// Tools the agent may use unasked.
    #[serde(default)]
    allowed_tools: Vec<String>,
    /// More directories it may work in, below one of the roots.
    #[serde(default)]
    extra_directories: Vec<String>,
    /// What is done with the files the agent changes.
    #[serde(default)]
    #[schema(value_type = Option<ShownWish>)]
    watch: WatchSaid,
}

/// A first prompt: its words, or all that a prompt has.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum FirstPrompt {
    /// The words.
    Words(String),
    /// A prompt with an id of its own.
    Whole(NewPrompt),
}

/// What a session is called by.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Created {
    /// Its id.
    id: Uuid,
}

/// A new name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Naming {
    /// The name.
    title: String,
}

/// A branch to be.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Branch {
    /// Its name; that of the session it branches off where nothing is said.
    #[serde(default)]
    title: Option<String>,
}

#[utoipa::path(get, path = "/sessions", tag = tag::SESSIONS, responses((status = 200, body = SessionList)))]
/// All sessions, the last active first.
pub(super) async fn list(State(gateway): State<Gateway>) -> Answer<Json<SessionList>> {
    Ok(Json(SessionList { sessions: gateway.lobby.look().await? }))
}

#[utoipa::path(post, path = "/sessions", tag = tag::SESSIONS, request_body = NewSession,
    responses((status = 201, body = Created), (status = 200, body = Created, description = "it was there already")))]
/// Creates a session.
pub(super) async fn create(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    Sent(new): Sent<NewSession>,
) -> Answer<(StatusCode, Json<Created>)> {
    let prompt = new.prompt.map(|prompt| match prompt {
        FirstPrompt::Words(text) => Ok(NewPrompt::of_words(text)),
        FirstPrompt::Whole(prompt) => prompt.check().map(|()| prompt),
    });
    let prompt = prompt.transpose()?.map(|it| it.into_prompt(&visitor)).transpose()?;
    let mode = new.mode.as_deref().map(mode).transpose()?;
    let wish = new.watch.setting(&gateway, &visitor).await?;
    let options = Options {
        directory: directory(&gateway, &new.cwd).await?,
        model: new.model.map(word).transpose()?,
        effort: new.effort.map(word).transpose()?,
        permission_mode: mode,
        allowed_tools: new.allowed_tools.into_iter().map(word).collect::<Answer<_>>()?,
        extra_directories: directories(&gateway, &new.extra_directories).await?,
        ..Options::default()
    };
    let id = new.id.map(SessionId);
    let creation = Creation {
        id,
        title: new.title.as_deref().map(title).transpose()?,
        options,
        resume: new.resume.map(word).transpose()?,
    };
    let (status, session) = match (gateway.sessions.create(creation).await, id) {
        (Ok(session), _) => (StatusCode::CREATED, session),
        (Err(session::OpenError::Journal(journal::Error::SessionExists(_))), Some(id)) => {
            (StatusCode::OK, gateway.sessions.open(id).await?)
        }
        (Err(error), _) => return Err(error.into()),
    };
    if let Some(wish) = wish.filter(|_| status == StatusCode::CREATED) {
        // Said like any other setting, so that the journal has who wished for it.
        session.set(wish, visitor.actor()).await?;
    }
    if let Some(prompt) = prompt {
        session.prompt(prompt).await?;
    }
    Ok((status, Json(Created { id: session.id().0 })))
}

#[utoipa::path(get, path = "/sessions/{id}", tag = tag::SESSIONS, params(("id" = Uuid, Path)),
    responses((status = 200, body = ShownSession)))]
/// A session.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<ShownSession>> {
    let session = gateway.lobby.look_at(SessionId(id)).await?;
    session.map(Json).ok_or_else(|| Problem::not_found("session"))
}

#[utoipa::path(patch, path = "/sessions/{id}", tag = tag::SESSIONS, params(("id" = Uuid, Path)), request_body = Naming,
    responses((status = 200, body = ShownSession)))]
/// Gives a session a name.
pub(super) async fn rename(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
    Sent(Naming { title: name }): Sent<Naming>,
) -> Answer<Json<ShownSession>> {
    let name = title(&name)?;
    let note = Note::Named { title: name.clone() }.to_line();
    let mut batch = Batch { at: now(), ..Batch::default() };
    batch.entries =
        vec![NewEntry { origin: Origin::Towpath, bytes: Bytes::from(note), transient: false }];
    batch.change.title = Some(name);
    gateway.sessions.journal().write(SessionId(id), batch).await?;
    show(State(gateway), Named(id)).await
}

#[utoipa::path(delete, path = "/sessions/{id}", tag = tag::SESSIONS, params(("id" = Uuid, Path)),
    responses((status = 204, description = "it is no more, and neither is its agent")))]
/// Deletes a session for good.
pub(super) async fn delete(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<StatusCode> {
    gateway.sessions.delete(SessionId(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[utoipa::path(post, path = "/sessions/{id}/fork", tag = tag::SESSIONS, params(("id" = Uuid, Path)), request_body = Branch,
    responses((status = 201, body = Created)))]
/// Branches off the conversation of a session.
pub(super) async fn fork(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
    Sent(branch): Sent<Branch>,
) -> Answer<(StatusCode, Json<Created>)> {
    let record = record(&gateway, id).await?;
    let Some(resume) = record.agent_ids.last().cloned() else {
        return Err(Problem::conflict("conflict", "there is no conversation to branch off yet"));
    };
    let options: Options = serde_json::from_str(&record.options).unwrap_or_default();
    // What is done with changed files was wished for that session, by somebody who might.
    let options = Options { directory: record.directory, fork: true, watch: None, ..options };
    let title = branch.title.as_deref().map(title).transpose()?.or(record.title);
    let creation = Creation { id: None, title, options, resume: Some(resume) };
    let session = gateway.sessions.create(creation).await?;
    Ok((StatusCode::CREATED, Json(Created { id: session.id().0 })))
}

/// The record of a session.
pub(super) async fn record(gateway: &Gateway, id: Uuid) -> Answer<SessionRecord> {
    let record = gateway.sessions.journal().session(SessionId(id)).await?;
    record.ok_or_else(|| Problem::not_found("session"))
}

/// A permission mode by its name.
pub(super) fn mode(name: &str) -> Answer<PermissionMode> {
    PermissionMode::named(name).ok_or_else(|| {
        let all = PermissionMode::ALL.map(PermissionMode::name).join("`, `");
        Problem::invalid(format!("there is no mode `{name}`, but `{all}`"))
    })
}

/// A word that goes to the agent's command line. One that begins with a dash would be an option.
pub(super) fn word(word: String) -> Answer<String> {
    let fits = !word.is_empty() && word.len() <= 400 && !word.starts_with('-');
    if fits && !word.chars().any(char::is_control) {
        return Ok(word);
    }
    Err(Problem::invalid("a name is empty, too long, or begins with a dash"))
}

fn title(title: &str) -> Answer<String> {
    let title = title.trim();
    if title.is_empty() || title.chars().count() > TITLE {
        return Err(Problem::invalid(format!("a name has between 1 and {TITLE} characters")));
    }
    Ok(title.to_owned())
}

/// A directory a session may work in.
pub(super) async fn directory(gateway: &Gateway, path: &str) -> Answer<PathBuf> {
    let (roots, path) = (gateway.config.roots.clone(), PathBuf::from(path));
    let resolved = tokio::task::spawn_blocking(move || roots.resolve(&path)).await;
    let resolved = resolved.map_err(|it| Problem::failed(&it))?;
    resolved.ok_or_else(|| {
        let detail = "there is no such directory below a root of this server; `--root` adds one";
        Problem::new(StatusCode::FORBIDDEN, "outside-roots", "not a directory to work in", detail)
    })
}

async fn directories(gateway: &Gateway, paths: &[String]) -> Answer<Vec<PathBuf>> {
    let mut resolved = Vec::new();
    for path in paths {
        resolved.push(directory(gateway, path).await?);
    }
    Ok(resolved)
}
