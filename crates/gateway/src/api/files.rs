//! Files: those a turn changed, those in a working directory, and directories to begin in.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use view::diff::{Diff, DiffLine, Hunk, LineChange, Piece};
use view::{Body, CallState, Fold, Subject, Turn, html};

use super::items::{each, seat};
use super::problem::Answer;
use super::sent::{Asked, Named};
use super::sessions::{directory, record};
use super::{Problem, tag};
use crate::gateway::Gateway;
use crate::room::push;

/// How many directories are suggested.
const DIRECTORIES: usize = 500;

/// How many files are suggested,
const FILES: usize = 50;

/// of how many that are looked at.
const LOOKED_AT: usize = 20_000;

/// Files a turn changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChangedFiles {
    files: Vec<ChangedFile>,
}

/// A file a turn changed.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(super) struct ChangedFile {
    /// Its path as the model wrote it.
    path: String,
    /// How often it was changed.
    times: usize,
    /// Lines that came.
    added: usize,
    /// Lines that went.
    removed: usize,
    /// The changes in their order.
    html: String,
}

/// Files a session changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TouchedFiles {
    /// The one that was changed last comes first.
    files: Vec<TouchedFile>,
}

/// A file a session changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TouchedFile {
    /// Its path as the model wrote it.
    path: String,
    /// How often it was changed.
    times: u32,
    /// The turns that did, in their order.
    turns: Vec<u64>,
}

/// What to look for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Like {
    /// Letters the path has in this order.
    #[serde(default)]
    like: String,
}

/// Files in a working directory.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FoundFiles {
    /// Paths from the working directory on, the most alike first.
    paths: Vec<String>,
}

/// Where to look.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Under {
    /// A directory below a root; the roots themselves where nothing is said.
    #[serde(default)]
    under: Option<String>,
}

/// Directories a session may begin in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Directories {
    /// Where they lie.
    under: Option<String>,
    /// What that lies in, where it is no root.
    parent: Option<String>,
    #[serde(rename = "directories")]
    list: Vec<Directory>,
}

/// A directory a session may begin in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Directory {
    path: String,
    name: String,
    /// Whether it is a git repository.
    project: bool,
}

#[utoipa::path(get, path = "/sessions/{id}/changed", tag = tag::CONVERSATION, params(("id" = Uuid, Path)),
    responses((status = 200, body = TouchedFiles)))]
/// What the session changed, from its first turn on.
pub(super) async fn touched(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
) -> Answer<Json<TouchedFiles>> {
    let turns = seat(&gateway, id).await?.with_stage(|it| it.fold().conversation(0).turns);
    Ok(Json(TouchedFiles { files: touched_in(&turns) }))
}

fn touched_in(turns: &[Turn]) -> Vec<TouchedFile> {
    let mut files: BTreeMap<&str, TouchedFile> = BTreeMap::new();
    for (turn, file) in turns.iter().flat_map(|turn| turn.files.iter().map(move |it| (turn, it))) {
        let path = || TouchedFile { path: file.path.clone(), times: 0, turns: Vec::new() };
        let known = files.entry(&file.path).or_insert_with(path);
        known.times += file.times;
        known.turns.push(turn.number);
    }
    let mut files: Vec<_> = files.into_values().collect();
    files.sort_by_key(|it| std::cmp::Reverse(it.turns.last().copied()));
    files
}

#[utoipa::path(get, path = "/sessions/{id}/turns/{turn}/files", tag = tag::CONVERSATION,
    params(("id" = Uuid, Path), ("turn" = u64, Path)), responses((status = 200, body = ChangedFiles)))]
/// What a turn changed.
pub(super) async fn changed(
    State(gateway): State<Gateway>,
    Named((id, turn)): Named<(Uuid, u64)>,
) -> Answer<Json<ChangedFiles>> {
    let turns = seat(&gateway, id).await?.with_stage(|it| it.fold().conversation(0).turns);
    let at = turns.iter().position(|it| it.number == turn);
    let at = at.ok_or_else(|| Problem::not_found("turn"))?;
    let last = turns.get(at + 1).map_or(u64::MAX, |next| next.first.saturating_sub(1));
    let mut fold = Fold::new();
    each(&gateway, id, turns[at].first, last, |entry| push(&mut fold, entry)).await?;
    let mut files: BTreeMap<String, ChangedFile> = BTreeMap::new();
    for item in fold.conversation(usize::MAX).items {
        let Body::Call(call) = &item.body else { continue };
        let (path, content) = match call.subject() {
            Subject::Write { path, content } => (path, content),
            Subject::Edit { path, .. } => (path, String::new()),
            _ => continue,
        };
        if call.state != CallState::Done {
            continue;
        }
        let file = files.entry(path.clone()).or_default();
        file.times += 1;
        // A file that is new differs from nothing, and all its lines have numbers.
        let diff = Diff::of(call).filter(|diff| !diff.is_empty()).unwrap_or_else(|| new(&content));
        file.added += diff.added;
        file.removed += diff.removed;
        if !diff.is_empty() {
            html::diff(&diff, &mut file.html);
        }
        file.path = path;
    }
    Ok(Json(ChangedFiles { files: files.into_values().collect() }))
}

/// A file that came into being, as a change.
fn new(content: &str) -> Diff {
    let line = |(at, text): (usize, &str)| DiffLine {
        change: LineChange::Added,
        number: Some(at + 1),
        pieces: vec![Piece { text: text.to_owned(), marked: false }],
    };
    let lines: Vec<_> = content.lines().enumerate().map(line).collect();
    Diff { added: lines.len(), removed: 0, hunks: vec![Hunk { lines }] }
}

#[utoipa::path(get, path = "/sessions/{id}/files", tag = tag::CONVERSATION, params(("id" = Uuid, Path), Like),
    responses((status = 200, body = FoundFiles)))]
/// Files of the working directory whose paths have these letters, in this order.
pub(super) async fn find(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
    Asked(Like { like }): Asked<Like>,
) -> Answer<Json<FoundFiles>> {
    let directory = record(&gateway, id).await?.directory;
    let _one_of_few = gateway.heavy.acquire().await.map_err(|it| Problem::failed(&it))?;
    let found = tokio::task::spawn_blocking(move || matching(&directory, &like)).await;
    Ok(Json(FoundFiles { paths: found.map_err(|it| Problem::failed(&it))? }))
}

#[utoipa::path(get, path = "/directories", tag = tag::SESSIONS, params(Under),
    responses((status = 200, body = Directories)))]
/// Directories a session may begin in.
pub(super) async fn directories(
    State(gateway): State<Gateway>,
    Asked(Under { under }): Asked<Under>,
) -> Answer<Json<Directories>> {
    let roots = gateway.config.roots.clone();
    let Some(under) = under.filter(|it| !it.is_empty()) else {
        let list = roots.directories().iter().map(|it| Directory::at(it)).collect();
        return Ok(Json(Directories { under: None, parent: None, list }));
    };
    let under = directory(&gateway, &under).await?;
    let listed = tokio::task::spawn_blocking(move || {
        let parent = under.parent().filter(|it| roots.have(it)).map(text);
        Directories { under: Some(text(&under)), parent, list: below(&under) }
    });
    listed.await.map(Json).map_err(|it| Problem::failed(&it))
}

fn below(under: &Path) -> Vec<Directory> {
    let entries = fs::read_dir(under).into_iter().flatten().flatten();
    let plain = entries.filter(|it| !it.file_name().to_string_lossy().starts_with('.'));
    // A link may lead out, so only real directories are offered.
    let mut paths: Vec<PathBuf> =
        plain.filter(|it| it.file_type().is_ok_and(|it| it.is_dir())).map(|it| it.path()).collect();
    paths.sort();
    paths.truncate(DIRECTORIES);
    paths.iter().map(|it| Directory::at(it)).collect()
}

impl Directory {
    fn at(path: &Path) -> Self {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Self { path: text(path), name, project: path.join(".git").exists() }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn matching(directory: &Path, like: &str) -> Vec<String> {
    let like = like.to_lowercase();
    let walk = ignore::WalkBuilder::new(directory).max_depth(Some(16)).build();
    let files =
        walk.flatten().take(LOOKED_AT).filter(|it| it.file_type().is_some_and(|it| it.is_file()));
    let paths = files.filter_map(|it| it.path().strip_prefix(directory).ok().map(text));
    let mut scored: Vec<_> =
        paths.filter_map(|path| Some((likeness(&path.to_lowercase(), &like)?, path))).collect();
    scored.sort();
    scored.into_iter().take(FILES).map(|(_, path)| path).collect()
}

/// How far a path is from what is looked for; nothing where it has not all of its letters.
fn likeness(path: &str, like: &str) -> Option<(u8, usize)> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.starts_with(like) {
        return Some((0, path.len()));
    }
    if name.contains(like) {
        return Some((1, path.len()));
    }
    if path.contains(like) {
        return Some((2, path.len()));
    }
    let mut letters = path.chars();
    like.chars().all(|wanted| letters.any(|it| it == wanted)).then_some((3, path.len()))
}

#[cfg(test)]
mod tests {
    use view::{FileTouched, Turn};

    use super::{likeness, touched_in};

    #[test]
    fn files_of_several_turns_are_one_each_and_the_last_changed_comes_first() {
        let turn = |number, files: &[(&str, u32)]| {
            let mut turn: Turn = serde_json::from_value(serde_json::json!({
                "number": number, "rev": 1, "first": 1,
                "tokens": { "input": 0, "output": 0, "cache_read": 0, "cache_write": 0 },
            }))
            .unwrap();
            let touched = |(path, times): &(&str, u32)| FileTouched {
                path: (*path).to_owned(),
                times: *times,
            };
            turn.files = files.iter().map(touched).collect();
            turn
        };
        let turns = [turn(1, &[("a", 2), ("b", 1)]), turn(3, &[("a", 1)]), turn(4, &[("c", 1)])];
        let files = touched_in(&turns);
        let told: Vec<_> = files.iter().map(|it| (&*it.path, it.times, &*it.turns)).collect();
        assert_eq!(told, [("c", 1, &[4][..]), ("a", 3, &[1, 3]), ("b", 1, &[1])]);
    }

    #[test]
    fn a_name_that_begins_so_is_most_alike() {
        let mut paths = ["src/domain.rs", "main/x.rs", "src/main.rs", "my/artin.rs", "other.rs"];
        paths.sort_by_key(|it| likeness(it, "main").unwrap_or((9, 0)));
        assert_eq!(paths[..3], ["src/main.rs", "src/domain.rs", "main/x.rs"]);
        assert_eq!(likeness("other.rs", "main"), None);
        assert!(likeness("my/artin.rs", "main").is_some());
    }
}
