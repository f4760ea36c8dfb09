//! Sessions that the CLI ran, with or without Towpath, from the CLI's own session files.
//!
//! Only sessions that began below a root of the server are shown.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use session::Roots;
use tokio::task::spawn_blocking;
use transcripts::{CatalogEntry, RunningClis};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use view::Position;

use super::conversation::{ItemPageResponse, parse_position};
use super::extract::{PathParams, QueryParams};
use super::folded_transcripts::FoldedTranscript;
use super::large_body::large_json;
use super::tag;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// A session of the CLI.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Transcript)]
pub(super) struct TranscriptResponse {
    /// The CLI's id of the session. A new session with it as `resume` continues it.
    id: Uuid,
    /// The title that the user or the CLI gave it, or the beginning of its first prompt.
    title: Option<String>,
    /// The directory in which it began.
    cwd: String,
    /// The git branch at its end.
    branch: Option<String>,
    /// The model that answered last.
    model: Option<String>,
    /// When it was last written to, in milliseconds since 1970.
    modified: u64,
    /// The size of its file in bytes.
    size: u64,
    /// How many messages it has. Those of a large file are counted in the background.
    messages: Option<u64>,
    /// Dollars, if the CLI recorded them.
    cost: Option<f64>,
    /// How many tokens the model read and wrote for its last message.
    context: Option<u64>,
    /// A CLI outside Towpath seems to use it now. It can only be continued as a copy.
    in_terminal: bool,
    /// The session of this server that continues it.
    session: Option<Uuid>,
}

impl TranscriptResponse {
    /// An entity tag. It changes with everything that a client shows of the session.
    fn tag(&self) -> String {
        let Self { size, modified, in_terminal, session, .. } = self;
        let session = session.map(|it| it.simple().to_string()).unwrap_or_default();
        format!("\"{size}-{modified}-{in_terminal}-{session}\"")
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct TranscriptsQuery {
    /// Only sessions that began in this directory or below it.
    #[serde(default)]
    cwd: Option<String>,
    /// Leave out those that are sessions of this server.
    #[serde(default)]
    outside: bool,
    /// Only sessions after this one of an earlier page, as `modified.id`.
    #[serde(default)]
    after: Option<String>,
    #[serde(default = "default_limit")]
    #[param(minimum = 1, maximum = 500)]
    limit: usize,
}

fn default_limit() -> usize {
    100
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TranscriptsResponse {
    /// The newest first.
    transcripts: Vec<TranscriptResponse>,
    /// There are more after these.
    more: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct TranscriptItemsQuery {
    /// Only items before this position, `seq.rank`; the newest items by default.
    #[serde(default)]
    #[param(pattern = "^[0-9]{1,15}\\.[0-9]{1,9}$")]
    before: Option<String>,
    #[serde(default = "default_items")]
    #[param(minimum = 1, maximum = 200)]
    limit: usize,
}

fn default_items() -> usize {
    50
}

/// A part of a conversation of the CLI.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TranscriptPage)]
pub(super) struct TranscriptPageResponse {
    transcript: TranscriptResponse,
    page: ItemPageResponse,
}

#[utoipa::path(get, path = "/transcripts", tag = tag::TRANSCRIPTS, params(TranscriptsQuery),
    responses((status = 200, body = TranscriptsResponse)))]
/// Sessions of the CLI below the roots of this server, the newest first.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    QueryParams(query): QueryParams<TranscriptsQuery>,
) -> ApiResult<Json<TranscriptsResponse>> {
    if !(1..=500).contains(&query.limit) {
        return Err(Problem::invalid("`limit` must be between 1 and 500"));
    }
    let after = query.after.as_deref().map(parse_cursor).transpose()?;
    let known = known_conversations(&gateway).await?;
    let entries = gateway.sessions.list_transcripts().await;
    let roots = gateway.config.roots.clone();
    let select = move || select(&entries, &query, after, &known, &roots);
    let response = spawn_blocking(select).await.map_err(|it| Problem::failed(&it))?;
    Ok(Json(response))
}

#[utoipa::path(get, path = "/transcripts/{id}", tag = tag::TRANSCRIPTS,
    params(("id" = Uuid, Path), TranscriptItemsQuery),
    responses((status = 200, body = TranscriptPageResponse),
        (status = 304, description = "it is as `If-None-Match` says")))]
/// What was said in a session of the CLI: its newest items, or older ones.
///
/// The response has an `ETag` of the whole session. A client that shows a session that is still
/// written asks again with `If-None-Match`, which costs little if nothing was added.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(TranscriptItemsQuery { before, limit }): QueryParams<TranscriptItemsQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    if !(1..=200).contains(&limit) {
        return Err(Problem::invalid("`limit` must be between 1 and 200"));
    }
    let position = match before {
        Some(text) => parse_position(&text)?,
        None => Position(u64::MAX, u32::MAX),
    };
    let not_found = || Problem::not_found("transcript");
    let entry = gateway.sessions.transcript(id).await.ok_or_else(not_found)?;
    let known = known_conversations(&gateway).await?;
    let roots = gateway.config.roots.clone();
    let described = entry.clone();
    let describe = move || {
        let directory = RootFilter::new(&roots).resolve(&described)?;
        Some(describe(&described, &directory, &known, &RunningClis::find()))
    };
    let transcript = spawn_blocking(describe).await.map_err(|it| Problem::failed(&it))?;
    let transcript = transcript.ok_or_else(not_found)?;
    let tag = transcript.tag();
    let tag = HeaderValue::from_str(&tag).map_err(|it| Problem::failed(&it))?;
    if headers.get(header::IF_NONE_MATCH) == Some(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let folded = gateway.folded_transcripts.get(&entry.file);
    let earlier = gateway.folded_transcripts.earlier(&entry.file);
    let cwd = transcript.cwd.clone();
    let read = move || -> std::io::Result<(Arc<FoldedTranscript>, ItemPageResponse)> {
        let folded = match folded {
            Some(folded) => folded,
            None => Arc::new(FoldedTranscript::read(&entry.file, earlier.as_deref())?),
        };
        let (items, turns, more) = folded.items(position, limit)?;
        let page = ItemPageResponse::new(&items, turns, more, Some(&cwd));
        Ok((folded, page))
    };
    let read = spawn_blocking(read).await.map_err(|it| Problem::failed(&it))?;
    let (folded, page) = read.map_err(|it| Problem::failed(&it))?;
    gateway.folded_transcripts.put(folded);
    let mut response = large_json(&gateway, &TranscriptPageResponse { transcript, page }).await?;
    response.headers_mut().insert(header::ETAG, tag);
    Ok(response)
}

/// Checks that what was said in a conversation may be shown: its session began below a root.
pub(super) async fn check_resumable(gateway: &Gateway, conversation: &str) -> ApiResult<()> {
    if gateway.sessions.may_resume(conversation, &gateway.config.roots).await {
        Ok(())
    } else {
        Err(Problem::not_found("conversation"))
    }
}

/// The sessions of this server by the CLI's ids.
async fn known_conversations(gateway: &Gateway) -> ApiResult<HashMap<Uuid, Uuid>> {
    let records = gateway.sessions.journal().sessions().await?;
    // The most recently active one comes first and stays.
    let ids = records.iter().rev().flat_map(|record| {
        // A session that was just created gives the CLI its own id.
        let ids = record.agent_ids.iter().filter_map(|id| id.parse().ok());
        ids.chain([record.id.0]).map(|id| (id, record.id.0))
    });
    Ok(ids.collect())
}

/// Selects a page of the list. Reads directories.
fn select(
    entries: &[CatalogEntry],
    query: &TranscriptsQuery,
    after: Option<(u64, Uuid)>,
    known: &HashMap<Uuid, Uuid>,
    roots: &Roots,
) -> TranscriptsResponse {
    let mut filter = RootFilter::new(roots);
    let wanted = query.cwd.as_deref().map(PathBuf::from);
    let wanted = wanted.map(|path| path.canonicalize().unwrap_or(path));
    let is_after = |entry: &&CatalogEntry| {
        after.is_none_or(|(modified, id)| {
            let position = (entry.file.modified, entry.file.id);
            position < (modified, id)
        })
    };
    let mut sorted: Vec<&CatalogEntry> = entries.iter().filter(is_after).collect();
    sorted.sort_by_key(|entry| std::cmp::Reverse((entry.file.modified, entry.file.id)));
    let processes = RunningClis::find();
    let mut transcripts = Vec::new();
    for entry in sorted {
        if query.outside && known.contains_key(&entry.file.id) {
            continue;
        }
        let Some(directory) = filter.resolve(entry) else { continue };
        if wanted.as_deref().is_some_and(|wanted| !directory.starts_with(wanted)) {
            continue;
        }
        if transcripts.len() == query.limit {
            return TranscriptsResponse { transcripts, more: true };
        }
        transcripts.push(describe(entry, &directory, known, &processes));
    }
    TranscriptsResponse { transcripts, more: false }
}

/// Resolves the directories of sessions, each one once.
struct RootFilter<'a> {
    roots: &'a Roots,
    resolved: HashMap<PathBuf, Option<PathBuf>>,
}

impl<'a> RootFilter<'a> {
    fn new(roots: &'a Roots) -> Self {
        Self { roots, resolved: HashMap::new() }
    }

    /// The directory of a session, if it exists and lies below a root.
    fn resolve(&mut self, entry: &CatalogEntry) -> Option<PathBuf> {
        let directory = entry.summary.directory.as_ref()?;
        if let Some(known) = self.resolved.get(directory) {
            return known.clone();
        }
        let resolved = self.roots.resolve(directory);
        self.resolved.insert(directory.clone(), resolved.clone());
        resolved
    }
}

fn describe(
    entry: &CatalogEntry,
    directory: &Path,
    known: &HashMap<Uuid, Uuid>,
    processes: &RunningClis,
) -> TranscriptResponse {
    let CatalogEntry { file, summary } = entry;
    TranscriptResponse {
        id: file.id,
        title: summary.title.clone(),
        cwd: directory.to_string_lossy().into_owned(),
        branch: summary.branch.clone(),
        model: summary.model.clone(),
        modified: file.modified,
        size: file.size,
        messages: summary.messages,
        cost: summary.cost,
        context: summary.context,
        in_terminal: processes.writer_of(file, directory).is_some(),
        session: known.get(&file.id).copied(),
    }
}

fn parse_cursor(text: &str) -> ApiResult<(u64, Uuid)> {
    let parts = text.split_once('.');
    let parts = parts.and_then(|(time, id)| Some((time.parse().ok()?, id.parse().ok()?)));
    parts.ok_or_else(|| Problem::invalid("`after` has the form `modified.id`"))
}
