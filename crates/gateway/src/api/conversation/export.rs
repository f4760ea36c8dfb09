//! A session as one HTML file that opens offline, for passing on.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use journal::{Entry, Seq, SessionId};
use serde::Deserialize;
use tokio::task::spawn_blocking;
use utoipa::IntoParams;
use uuid::Uuid;
use view::ViewDocument;
use view::html::{CspNonce, ExportOptions, HtmlExport};

use super::read_entries;
use crate::api::extract::{PathParams, QueryParams};
use crate::api::sessions::find_record;
use crate::api::tag;
use crate::gateway::Gateway;
use crate::limits::PIECE_BYTES;
use crate::problem::{ApiResult, Problem};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportQuery {
    /// Whether it has what tools printed and what was in the files that they read.
    #[serde(default = "with_output")]
    output: bool,
}

fn with_output() -> bool {
    true
}

#[utoipa::path(get, path = "/sessions/{id}/export", tag = tag::CONVERSATION, params(("id" = Uuid, Path), ExportQuery),
    responses((status = 200, content_type = "text/html", body = String)))]
/// The whole conversation as one HTML file that opens offline.
pub(super) async fn download(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(ExportQuery { output }): QueryParams<ExportQuery>,
) -> ApiResult<Response> {
    let last = find_record(&gateway, id).await?.last;
    // Exports wait for each other first, so that they leave others a turn.
    let export = gateway.exports.acquire().await.map_err(|it| Problem::failed(&it))?;
    let permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let mut page = spawn_blocking(move || PageInProgress::new(!output))
        .await
        .map_err(|it| Problem::failed(&it))??;
    let mut after = Seq(0);
    // What is added meanwhile is left out, so that this ends.
    while after < last {
        let entries = read_entries(gateway.sessions.journal(), SessionId(id), after).await?;
        let Some(end) = entries.last().map(|it| it.seq) else { break };
        after = end;
        page = spawn_blocking(move || page.add(&entries))
            .await
            .map_err(|it| Problem::failed(&it))??;
    }
    let nonce = CspNonce(Uuid::new_v4().as_u128());
    let parts =
        spawn_blocking(move || page.finish(nonce)).await.map_err(|it| Problem::failed(&it))??;
    drop((permit, export));
    let name = format!("attachment; filename=\"session-{}.html\"", &id.to_string()[..8]);
    let name = HeaderValue::from_str(&name).map_err(|it| Problem::failed(&it))?;
    let head = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::CONTENT_DISPOSITION, name),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((head, Body::from_stream(pieces(parts))).into_response())
}

/// A page that is being made. All of it blocks.
struct PageInProgress {
    document: ViewDocument,
    export: HtmlExport<BufWriter<File>>,
}

impl PageInProgress {
    fn new(without_output: bool) -> ApiResult<Self> {
        let file = tempfile::tempfile().map_err(|it| Problem::failed(&it))?;
        let options = ExportOptions { full: false, without_output };
        let export = HtmlExport::new(options, BufWriter::new(file));
        Ok(Self { document: ViewDocument::new(false), export })
    }

    fn add(mut self, entries: &[Entry]) -> ApiResult<Self> {
        for entry in entries {
            self.document.push_recorded(entry.line());
            self.export.update(&mut self.document).map_err(|it| Problem::failed(&it))?;
        }
        Ok(self)
    }

    fn finish(mut self, nonce: CspNonce) -> ApiResult<PageParts> {
        let finished = self.export.finish(&mut self.document);
        finished.map_err(|it| Problem::failed(&it))?;
        let (top, turns, foot) = self.export.into_parts(&self.document, nonce);
        let mut turns = turns.into_inner().map_err(|it| Problem::failed(it.error()))?;
        turns.rewind().map_err(|it| Problem::failed(&it))?;
        Ok(PageParts { top: Some(top), turns: Some(turns), foot: Some(foot) })
    }
}

/// A page that is being sent.
struct PageParts {
    top: Option<String>,
    turns: Option<File>,
    foot: Option<String>,
}

impl PageParts {
    /// The next piece; empty at the end. Blocks.
    fn next_piece(&mut self) -> io::Result<Bytes> {
        if let Some(top) = self.top.take() {
            return Ok(top.into());
        }
        if let Some(turns) = &mut self.turns {
            let mut piece = vec![0; PIECE_BYTES];
            let length = turns.read(&mut piece)?;
            if length > 0 {
                piece.truncate(length);
                return Ok(piece.into());
            }
            self.turns = None;
        }
        Ok(self.foot.take().unwrap_or_default().into())
    }
}

fn pieces(parts: PageParts) -> impl stream::Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(parts, async |mut parts| {
        let read = spawn_blocking(move || parts.next_piece().map(|piece| (piece, parts)));
        let (piece, parts) = read.await.map_err(io::Error::other)??;
        Ok((!piece.is_empty()).then_some((piece, parts)))
    })
}
