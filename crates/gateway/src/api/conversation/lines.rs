//! The journal's entries as they are: in pages, as a stream, and the images in them.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream::StreamExt as _;
use journal::{Entry, Seq, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use wire::outgoing::Image;

use super::item::is_false;
use super::line_stream::{LineFormat, LineStream, origin};
use super::whole_line::WholeLine;
use crate::access::AuthenticatedClient;
use crate::api::extract::{PathParams, QueryParams};
use crate::api::large_body::large_body;
use crate::api::sessions::find_record;
use crate::api::tag;
use crate::gateway::Gateway;
use crate::limits::MAX_LINE_BYTES;
use crate::problem::{ApiResult, Problem};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct LinesQuery {
    /// Only entries after this one.
    #[serde(default)]
    after: u64,
    #[serde(default = "default_limit")]
    #[param(minimum = 1, maximum = 1000)]
    limit: usize,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Only entries after this one. `Last-Event-ID` takes precedence.
    #[serde(default)]
    after: u64,
}

/// Entries of the journal.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LinePageResponse {
    lines: Vec<LineResponse>,
    /// There are more entries after these.
    more: bool,
}

/// An entry of the journal.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Line)]
pub(super) struct LineResponse {
    /// The number of the entry.
    seq: u64,
    /// When it was written, in milliseconds since 1970.
    at: u64,
    /// Who wrote it: `agent` or `towpath`.
    origin: &'static str,
    /// The exact text of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// Its bytes in base64, if they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// The line is too long to be given here; it can be requested by itself.
    #[serde(skip_serializing_if = "is_false")]
    omitted: bool,
    /// How many bytes it has, if it is omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
}

fn default_limit() -> usize {
    100
}

impl LineResponse {
    pub(super) fn new(entry: &Entry) -> Self {
        let (line, base64) = match std::str::from_utf8(&entry.bytes) {
            Ok(line) => (Some(line.to_owned()), None),
            Err(_) => (None, Some(BASE64_STANDARD.encode(&entry.bytes))),
        };
        let (seq, at, origin) = (entry.seq.0, entry.at, origin(entry.origin));
        Self { seq, at, origin, line, base64, omitted: false, bytes: None }
    }

    pub(super) fn omitted(entry: &Entry) -> Self {
        let (seq, at, origin) = (entry.seq.0, entry.at, origin(entry.origin));
        let bytes = Some(entry.bytes.len() + entry.omitted);
        Self { seq, at, origin, line: None, base64: None, omitted: true, bytes }
    }
}

#[utoipa::path(get, path = "/sessions/{id}/lines", tag = tag::JOURNAL, params(("id" = Uuid, Path), LinesQuery),
    responses((status = 200, body = LinePageResponse)))]
/// Entries of the journal.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(LinesQuery { after, limit }): QueryParams<LinesQuery>,
) -> ApiResult<Response> {
    if !(1..=1000).contains(&limit) {
        return Err(Problem::invalid("`limit` must be between 1 and 1000"));
    }
    let last = find_record(&gateway, id).await?.last;
    let format = LineFormat::Page { limit, last };
    let lines = LineStream::new(gateway, SessionId(id), Seq(after.min(last.0)), format);
    let body = Body::from_stream(lines.into_pieces());
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

#[utoipa::path(get, path = "/sessions/{id}/lines/{seq}", tag = tag::JOURNAL, params(("id" = Uuid, Path), ("seq" = u64, Path)),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>)))]
/// The bytes of an entry.
pub(super) async fn whole(
    State(gateway): State<Gateway>,
    PathParams((id, seq)): PathParams<(Uuid, u64)>,
) -> ApiResult<Response> {
    let line = WholeLine::find(gateway, SessionId(id), Seq(seq)).await?;
    let line = line.ok_or_else(|| Problem::not_found("line"))?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_LENGTH, HeaderValue::from(line.length())),
    ];
    Ok((headers, Body::from_stream(line.into_pieces())).into_response())
}

#[utoipa::path(get, path = "/sessions/{id}/lines/{seq}/pictures/{number}", tag = tag::JOURNAL,
    params(("id" = Uuid, Path), ("seq" = u64, Path), ("number" = usize, Path)),
    responses((status = 200, content_type = "image/png", body = Vec<u8>), (status = 200, content_type = "image/jpeg", body = Vec<u8>)))]
/// An image in an entry.
pub(super) async fn image(
    State(gateway): State<Gateway>,
    PathParams((id, seq, number)): PathParams<(Uuid, u64, usize)>,
) -> ApiResult<Response> {
    let missing = || Problem::not_found("image");
    let last = find_record(&gateway, id).await?.last;
    if seq == 0 || seq > last.0 {
        return Err(missing());
    }
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let journal = gateway.sessions.journal();
    let entries = journal.read_within(SessionId(id), Seq(seq - 1), 1, 1, MAX_LINE_BYTES).await?;
    let entry = entries.into_iter().next().filter(|it| it.seq.0 == seq).ok_or_else(missing)?;
    if entry.omitted > 0 {
        let detail = "the line with the image is too long; download the line";
        return Err(Problem::too_large(detail));
    }
    let line: Value = serde_json::from_slice(&entry.bytes).map_err(|_| missing())?;
    let mut images = Vec::new();
    collect_images(&line, &mut images);
    let data = images.get(number).ok_or_else(missing)?;
    let bytes = BASE64_STANDARD.decode(data).map_err(|_| missing())?;
    // The type is taken from the bytes and not from the line, so a browser gets only images.
    let media_type = Image::new(&bytes).map_err(|_| missing())?.media_type().name();
    let head = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable")),
    ];
    Ok((head, large_body(&gateway, Bytes::from(bytes)).await).into_response())
}

fn collect_images<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(object) => {
            let text = |key: &str| object.get(key).and_then(Value::as_str);
            if text("type") == Some("base64")
                && text("media_type").is_some_and(|it| it.starts_with("image/"))
                && let Some(data) = text("data")
            {
                found.push(data);
                return;
            }
            // `tool_use_result` repeats what the message contains.
            let parts = object
                .iter()
                .filter(|(key, _)| *key != "tool_use_result" && *key != "toolUseResult");
            parts.for_each(|(_, it)| collect_images(it, found));
        }
        Value::Array(list) => list.iter().for_each(|it| collect_images(it, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[utoipa::path(get, path = "/sessions/{id}/events", tag = tag::JOURNAL,
    params(("id" = Uuid, Path), EventsQuery, ("last-event-id" = Option<u64>, Header, description = "the last entry that was received")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
/// Streams every entry of the journal as server-sent events, until the client disconnects.
pub(super) async fn events(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    QueryParams(EventsQuery { after }): QueryParams<EventsQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    find_record(&gateway, id).await?;
    let after = match headers.get("last-event-id") {
        None => after,
        Some(last) => {
            let number = last.to_str().ok().and_then(|it| it.trim().parse().ok());
            number
                .ok_or_else(|| Problem::invalid("`Last-Event-ID` must be the number of an entry"))?
        }
    };
    let revoked = gateway.authorize_stream(&client).revoked();
    let after = Seq(after.min(1 << 40));
    let events = LineStream::new(gateway, SessionId(id), after, LineFormat::Events);
    let events = events.into_pieces().take_until(revoked);
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(events)).into_response())
}
