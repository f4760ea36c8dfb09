//! Full-text search over all sessions below the roots of the server.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use search::{FoundSession, SearchRequest, SearchResult, SearchRole, SearchScope};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::extract::QueryParams;
use super::tag;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchParams {
    /// What to look for. All words must be in a message; the last one may go on. What is in quotes must
    /// be there as written. Case and diacritics do not matter.
    q: String,
    /// Only sessions in this directory or below it.
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default = "default_limit")]
    #[param(minimum = 1, maximum = 100)]
    limit: usize,
    /// Only results after those of an earlier page, whose `more` this is.
    #[serde(default)]
    after: Option<String>,
}

fn default_limit() -> usize {
    30
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SearchResponse {
    /// What people said comes before what tools printed; among equals the newest is first.
    results: Vec<SearchResultResponse>,
    /// For `after`, if there are more. A page may have fewer results than `limit` although there are
    /// more.
    more: Option<String>,
    /// How many sessions are indexed, if not all are.
    indexing: Option<IndexProgressResponse>,
}

/// A message, or a call of a tool, that contains what was looked for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SearchResult)]
pub(super) struct SearchResultResponse {
    /// The session of this server.
    session: Option<Uuid>,
    /// The session of the CLI, if it is not one of this server.
    transcript: Option<Uuid>,
    title: Option<String>,
    /// The directory of the session.
    cwd: String,
    /// In milliseconds since 1970.
    at: Option<u64>,
    role: SearchRoleName,
    /// The last item of the session that is not behind this position, `seq.rank`, is the one that was
    /// found. As `before`, it gives a page that ends with that item.
    position: Option<String>,
    /// A part of the text in one line, with what was found marked. It is not HTML.
    snippet: Vec<SnippetPartResponse>,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SearchRole)]
pub(super) enum SearchRoleName {
    User,
    Assistant,
    /// What a tool was called with, or what it returned.
    Tool,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SnippetPart)]
pub(super) struct SnippetPartResponse {
    text: String,
    r#match: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = IndexProgress)]
pub(super) struct IndexProgressResponse {
    done: usize,
    total: usize,
}

#[utoipa::path(get, path = "/search", tag = tag::SESSIONS, params(SearchParams),
    responses((status = 200, body = SearchResponse)))]
/// Searches what was said in all sessions below the roots of this server, and in those of the CLI.
pub(super) async fn find(
    State(gateway): State<Gateway>,
    QueryParams(SearchParams { q, cwd, limit, after }): QueryParams<SearchParams>,
) -> ApiResult<Json<SearchResponse>> {
    if !(1..=100).contains(&limit) {
        return Err(Problem::invalid("`limit` must be between 1 and 100"));
    }
    let after = after.map(|it| it.parse()).transpose();
    let after = after.map_err(|_| Problem::invalid("`after` is the `more` of an earlier page"))?;
    let roots = Some(gateway.config.roots.clone());
    let scope = SearchScope { roots, directory: cwd.map(PathBuf::from) };
    let request = SearchRequest { text: q, scope, limit, after };
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let page = gateway.search.find(request).await.map_err(|it| Problem::failed(&it))?;
    Ok(Json(SearchResponse {
        results: page.results.into_iter().map(SearchResultResponse::new).collect(),
        more: page.more.map(|it| it.to_string()),
        indexing: page.progress.map(|it| IndexProgressResponse { done: it.done, total: it.total }),
    }))
}

impl SearchResultResponse {
    fn new(result: SearchResult) -> Self {
        let (session, transcript) = match result.session {
            FoundSession::Own(id) => (Some(id.0), None),
            FoundSession::OfCli(id) => (None, Some(id)),
        };
        let (seq, rank) = result.position;
        let parts = result.snippet.into_iter();
        let part =
            |it: search::SnippetPart| SnippetPartResponse { text: it.text, r#match: it.is_match };
        Self {
            session,
            transcript,
            title: result.title,
            cwd: result.directory.to_string_lossy().into_owned(),
            at: Some(result.at),
            role: match result.role {
                SearchRole::User => SearchRoleName::User,
                SearchRole::Assistant => SearchRoleName::Assistant,
                SearchRole::Tool => SearchRoleName::Tool,
            },
            position: Some(format!("{seq}.{rank}")),
            snippet: parts.map(part).collect(),
        }
    }
}
