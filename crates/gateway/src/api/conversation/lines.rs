//! The journal's entries as they are: in pages, as a stream, and the images in them.

use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use journal::{Entry, Follower, Origin, Seq, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use wire::outgoing::Image;

use crate::access::AuthenticatedClient;
use crate::api::extract::{PathParams, QueryParams};
use crate::api::sessions::find_record;
use crate::api::tag;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// How often an idle stream sends a comment, so that both sides notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

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
}

fn default_limit() -> usize {
    100
}

impl From<&Entry> for LineResponse {
    fn from(entry: &Entry) -> Self {
        let (line, base64) = match std::str::from_utf8(&entry.bytes) {
            Ok(line) => (Some(line.to_owned()), None),
            Err(_) => (None, Some(BASE64_STANDARD.encode(&entry.bytes))),
        };
        Self { seq: entry.seq.0, at: entry.at, origin: origin(entry), line, base64 }
    }
}

fn origin(entry: &Entry) -> &'static str {
    match entry.origin {
        Origin::Agent => "agent",
        Origin::Towpath => "towpath",
    }
}

#[utoipa::path(get, path = "/sessions/{id}/lines", tag = tag::JOURNAL, params(("id" = Uuid, Path), LinesQuery),
    responses((status = 200, body = LinePageResponse)))]
/// Entries of the journal.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(LinesQuery { after, limit }): QueryParams<LinesQuery>,
) -> ApiResult<Json<LinePageResponse>> {
    if !(1..=1000).contains(&limit) {
        return Err(Problem::invalid("`limit` must be between 1 and 1000"));
    }
    let last = find_record(&gateway, id).await?.last;
    let after = Seq(after.min(last.0));
    let entries = gateway.sessions.journal().read(SessionId(id), after, limit).await?;
    let more = entries.last().is_some_and(|it| it.seq < last) && entries.len() == limit;
    Ok(Json(LinePageResponse { lines: entries.iter().map(LineResponse::from).collect(), more }))
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
    let entries = gateway.sessions.journal().read(SessionId(id), Seq(seq - 1), 1).await?;
    let entry = entries.into_iter().next().filter(|it| it.seq.0 == seq).ok_or_else(missing)?;
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
    Ok((head, Bytes::from(bytes)).into_response())
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
) -> ApiResult<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    find_record(&gateway, id).await?;
    let after = match headers.get("last-event-id") {
        None => after,
        Some(last) => {
            let number = last.to_str().ok().and_then(|it| it.trim().parse().ok());
            number
                .ok_or_else(|| Problem::invalid("`Last-Event-ID` must be the number of an entry"))?
        }
    };
    let follower = gateway.sessions.journal().follow(SessionId(id), Seq(after.min(1 << 40)));
    let keep_alive = KeepAlive::new().interval(HEARTBEAT);
    let events = event_stream(follower).take_until(gateway.authorize_stream(&client).revoked());
    Ok(Sse::new(events).keep_alive(keep_alive))
}

fn event_stream(follower: Follower) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((follower, Vec::new().into_iter()), async |(mut follower, mut ready)| {
        loop {
            let next: Option<Entry> = ready.next();
            if let Some(entry) = next {
                return Some((Ok(event(&entry)), (follower, ready)));
            }
            // An error is a deleted session or a server that stops. The stream ends.
            ready = follower.next().await.ok()?.into_iter();
        }
    })
}

fn event(entry: &Entry) -> Event {
    let data = serde_json::to_string(&LineResponse::from(entry)).unwrap_or_default();
    Event::default().id(entry.seq.to_string()).event(origin(entry)).data(data)
}
