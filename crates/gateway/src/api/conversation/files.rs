//! Files: those a turn or session changed, those in a working directory, and directories in which
//! a session may start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use session::WorkerPresence;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use view::diff::{Diff, DiffHunk, DiffLine, DiffSpan, LineChange};
use view::{CallState, Fold, ItemBody, ToolInput, Turn, html};

use super::{for_each_entry, subscribe};
use crate::api::extract::{PathParams, QueryParams};
use crate::api::large_body::large_json;
use crate::api::sessions::{find_record, resolve_directory};
use crate::api::tag;
use crate::gateway::Gateway;
use crate::limits::MAX_DIFF_BYTES;
use crate::live::push;
use crate::problem::{ApiResult, Problem};

/// How many directories are listed.
const MAX_DIRECTORIES: usize = 500;

/// How many matching files are returned.
const MAX_MATCHES: usize = 50;

/// How many files are searched.
const MAX_SEARCHED: usize = 20_000;

/// How much of a turn is kept while its diffs are made.
const TURN_FOLD_BYTES: usize = 16 << 20;

/// The files a turn changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TurnFilesResponse {
    files: Vec<FileDiff>,
}

/// A file a turn changed.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct FileDiff {
    /// As the model wrote it.
    path: String,
    /// How often it was changed.
    edits: usize,
    /// Lines added.
    added: usize,
    /// Lines removed.
    removed: usize,
    /// The diffs in order, as far as they are not too long.
    html: String,
}

/// The files a session changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionFilesResponse {
    /// The most recently changed one first.
    files: Vec<SessionFile>,
}

/// A file a session changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionFile {
    /// As the model wrote it.
    path: String,
    /// How often it was changed.
    edits: u32,
    /// The turns that changed it, in order.
    turns: Vec<u64>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSearchQuery {
    /// Letters that the path contains in this order.
    #[serde(default)]
    query: String,
}

/// Files in a working directory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileSearchResponse {
    /// Relative to the working directory, the best match first.
    paths: Vec<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DirectoriesQuery {
    /// A directory below a root; by default the roots themselves are listed.
    #[serde(default)]
    under: Option<String>,
}

/// Directories in which a session may start.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DirectoriesResponse {
    /// The directory that is listed.
    under: Option<String>,
    /// Its parent, unless it is a root.
    parent: Option<String>,
    directories: Vec<DirectoryEntry>,
}

/// A directory in which a session may start.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DirectoryEntry {
    path: String,
    name: String,
    /// Whether it is a git repository.
    repository: bool,
}

#[utoipa::path(get, path = "/sessions/{id}/changed", tag = tag::CONVERSATION, params(("id" = Uuid, Path)),
    responses((status = 200, body = SessionFilesResponse)))]
/// The files the session changed.
pub(super) async fn edited_in_session(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<SessionFilesResponse>> {
    let subscription = subscribe(&gateway, id).await?;
    let turns = subscription.with_document(|it| it.fold.conversation(0).turns);
    Ok(Json(SessionFilesResponse { files: files_of(&turns) }))
}

fn files_of(turns: &[Turn]) -> Vec<SessionFile> {
    let mut files: BTreeMap<&str, SessionFile> = BTreeMap::new();
    for (turn, file) in turns.iter().flat_map(|turn| turn.files.iter().map(move |it| (turn, it))) {
        let new = || SessionFile { path: file.path.clone(), edits: 0, turns: Vec::new() };
        let known = files.entry(&file.path).or_insert_with(new);
        known.edits += file.edits;
        known.turns.push(turn.number);
    }
    let mut files: Vec<_> = files.into_values().collect();
    files.sort_by_key(|it| std::cmp::Reverse(it.turns.last().copied()));
    files
}

#[utoipa::path(get, path = "/sessions/{id}/turns/{turn}/files", tag = tag::CONVERSATION,
    params(("id" = Uuid, Path), ("turn" = u64, Path)), responses((status = 200, body = TurnFilesResponse)))]
/// The files a turn changed, with their diffs.
pub(super) async fn edited_in_turn(
    State(gateway): State<Gateway>,
    PathParams((id, turn)): PathParams<(Uuid, u64)>,
) -> ApiResult<Response> {
    let subscription = subscribe(&gateway, id).await?;
    let turns = subscription.with_document(|it| it.fold.conversation(0).turns);
    let at = turns.iter().position(|it| it.number == turn);
    let at = at.ok_or_else(|| Problem::not_found("turn"))?;
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let last = turns.get(at + 1).map_or(u64::MAX, |next| next.first.saturating_sub(1));
    let mut fold = Fold::with_budget(TURN_FOLD_BYTES);
    for_each_entry(&gateway, id, turns[at].first, last, |entry| push(&mut fold, entry)).await?;
    let mut files: BTreeMap<String, FileDiff> = BTreeMap::new();
    let mut bytes = 0;
    for item in fold.conversation(usize::MAX).items {
        let ItemBody::Call(call) = &item.body else { continue };
        let (path, content) = match call.tool_input() {
            ToolInput::Write { path, content } => (path, content),
            ToolInput::Edit { path, .. } => (path, String::new()),
            _ => continue,
        };
        if call.state != CallState::Done {
            continue;
        }
        let file = files.entry(path.clone()).or_default();
        file.edits += 1;
        // A new file has no diff; all its lines count as added.
        let diff =
            Diff::of(call).filter(|diff| !diff.is_empty()).unwrap_or_else(|| added_file(&content));
        file.added += diff.added;
        file.removed += diff.removed;
        if !diff.is_empty() && bytes < MAX_DIFF_BYTES {
            let before = file.html.len();
            html::diff(&diff, &mut file.html);
            bytes += file.html.len() - before;
        }
        file.path = path;
    }
    let files = TurnFilesResponse { files: files.into_values().collect() };
    large_json(&gateway, &files).await
}

/// A new file as a diff.
fn added_file(content: &str) -> Diff {
    let line = |(at, text): (usize, &str)| DiffLine {
        change: LineChange::Added,
        number: Some(at + 1),
        spans: vec![DiffSpan { text: text.to_owned(), changed: false }],
    };
    let lines: Vec<_> = content.lines().enumerate().map(line).collect();
    Diff { added: lines.len(), removed: 0, hunks: vec![DiffHunk { lines }] }
}

#[utoipa::path(get, path = "/sessions/{id}/files", tag = tag::CONVERSATION, params(("id" = Uuid, Path), FileSearchQuery),
    responses((status = 200, body = FileSearchResponse)))]
/// Files of the working directory whose paths contain the letters of `query` in order.
pub(super) async fn search(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(FileSearchQuery { query }): QueryParams<FileSearchQuery>,
) -> ApiResult<Json<FileSearchResponse>> {
    let directory = find_record(&gateway, id).await?.directory;
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let found = tokio::task::spawn_blocking(move || matching_files(&directory, &query)).await;
    Ok(Json(FileSearchResponse { paths: found.map_err(|it| Problem::failed(&it))? }))
}

#[utoipa::path(get, path = "/directories", tag = tag::SESSIONS, params(DirectoriesQuery),
    responses((status = 200, body = DirectoriesResponse)))]
/// Directories in which a session may start.
pub(super) async fn directories(
    State(gateway): State<Gateway>,
    QueryParams(DirectoriesQuery { under }): QueryParams<DirectoriesQuery>,
) -> ApiResult<Json<DirectoriesResponse>> {
    if gateway.sessions.is_relayed() {
        // The directories of this machine are none in which a session may start.
        return Ok(Json(directories_of_workers(&gateway, under).await));
    }
    let roots = gateway.config.roots.clone();
    let Some(under) = under.filter(|it| !it.is_empty()) else {
        let directories = roots.directories().iter().map(|it| DirectoryEntry::new(it)).collect();
        return Ok(Json(DirectoriesResponse { under: None, parent: None, directories }));
    };
    let under = resolve_directory(&gateway, &under).await?;
    let listed = tokio::task::spawn_blocking(move || {
        let parent = under.parent().filter(|it| roots.contains(it)).map(text);
        let directories = subdirectories(&under);
        DirectoriesResponse { under: Some(text(&under)), parent, directories }
    });
    listed.await.map(Json).map_err(|it| Problem::failed(&it))
}

/// The roots of the workers that are connected. What is below them is not known here.
async fn directories_of_workers(gateway: &Gateway, under: Option<String>) -> DirectoriesResponse {
    let under = under.filter(|it| !it.is_empty());
    let mut roots = BTreeSet::new();
    if under.is_none() {
        let workers = gateway.sessions.workers().await.into_iter();
        let connected = workers.filter(|it| it.presence == WorkerPresence::Connected);
        roots.extend(connected.flat_map(|it| it.roots));
    }
    let entry = |path: &PathBuf| {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        DirectoryEntry { path: text(path), name, repository: false }
    };
    DirectoriesResponse { under, parent: None, directories: roots.iter().map(entry).collect() }
}

fn subdirectories(under: &Path) -> Vec<DirectoryEntry> {
    let entries = fs::read_dir(under).into_iter().flatten().flatten();
    let plain = entries.filter(|it| !it.file_name().to_string_lossy().starts_with('.'));
    // A symbolic link may lead outside the roots, so only real directories are listed.
    let mut paths: Vec<PathBuf> =
        plain.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).map(|it| it.path()).collect();
    paths.sort();
    paths.truncate(MAX_DIRECTORIES);
    paths.iter().map(|it| DirectoryEntry::new(it)).collect()
}

impl DirectoryEntry {
    fn new(path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self { path: text(path), name, repository: path.join(".git").exists() }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn matching_files(directory: &Path, query: &str) -> Vec<String> {
    let query = query.to_lowercase();
    let walk = ignore::WalkBuilder::new(directory).max_depth(Some(16)).build();
    let files = walk
        .flatten()
        .take(MAX_SEARCHED)
        .filter(|it| it.file_type().is_some_and(|it| it.is_file()));
    let paths = files.filter_map(|it| it.path().strip_prefix(directory).ok().map(text));
    let mut scored: Vec<_> =
        paths.filter_map(|path| Some((match_rank(&path.to_lowercase(), &query)?, path))).collect();
    scored.sort();
    scored.into_iter().take(MAX_MATCHES).map(|(_, path)| path).collect()
}

/// The lower, the better the match; `None` if a letter of the query is missing.
fn match_rank(path: &str, query: &str) -> Option<(u8, usize)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.starts_with(query) {
        return Some((0, path.len()));
    }
    if name.contains(query) {
        return Some((1, path.len()));
    }
    if path.contains(query) {
        return Some((2, path.len()));
    }
    let mut letters = path.chars();
    query.chars().all(|wanted| letters.any(|it| it == wanted)).then_some((3, path.len()))
}

#[cfg(test)]
mod tests {
    use view::{FileEdits, Turn};

    use super::{files_of, match_rank};

    #[test]
    fn files_are_merged_over_turns_with_the_most_recently_changed_first() {
        let turn = |number, files: &[(&str, u32)]| {
            let mut turn: Turn = serde_json::from_value(serde_json::json!({
                "number": number, "rev": 1, "first": 1,
                "tokens": { "input": 0, "output": 0, "cache_read": 0, "cache_write": 0 },
            }))
            .unwrap();
            let touched =
                |(path, times): &(&str, u32)| FileEdits { path: (*path).to_owned(), edits: *times };
            turn.files = files.iter().map(touched).collect();
            turn
        };
        let turns = [turn(1, &[("a", 2), ("b", 1)]), turn(3, &[("a", 1)]), turn(4, &[("c", 1)])];
        let files = files_of(&turns);
        let listed: Vec<_> = files.iter().map(|it| (&*it.path, it.edits, &*it.turns)).collect();
        assert_eq!(listed, [("c", 1, &[4][..]), ("a", 3, &[1, 3]), ("b", 1, &[1])]);
    }

    #[test]
    fn a_file_name_that_starts_with_the_query_ranks_first() {
        let mut paths = ["src/domain.rs", "main/x.rs", "src/main.rs", "my/artin.rs", "other.rs"];
        paths.sort_by_key(|it| match_rank(it, "main").unwrap_or((9, 0)));
        assert_eq!(paths[..3], ["src/main.rs", "src/domain.rs", "main/x.rs"]);
        assert_eq!(match_rank("other.rs", "main"), None);
        assert!(match_rank("my/artin.rs", "main").is_some());
    }
}
