//! The journal itself: its lines, as pages and as a stream, and the pictures in them.

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
use wire::say::Image;

use super::problem::Answer;
use super::sent::{Asked, Named};
use super::sessions::record;
use super::{Problem, tag};
use crate::gateway::Gateway;
use crate::visitor::Visitor;

/// How often a stream says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Which lines are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct After {
    /// Those after this entry.
    #[serde(default)]
    after: u64,
    /// How many at most.
    #[serde(default = "some")]
    #[param(minimum = 1, maximum = 1000)]
    limit: usize,
}

/// Where a stream begins.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct From {
    /// After this entry; `Last-Event-ID` says the same and comes first.
    #[serde(default)]
    after: u64,
}

/// Entries of the journal.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LinePage {
    lines: Vec<ShownLine>,
    /// Whether there are more after them.
    more: bool,
}

/// An entry of the journal.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ShownLine {
    /// Its number.
    seq: u64,
    /// When it was written down, in milliseconds since 1970.
    at: u64,
    /// Who wrote it: `agent` or `towpath`.
    origin: &'static str,
    /// The line, exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    /// Its bytes in base64, where they are no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

fn some() -> usize {
    100
}

impl ShownLine {
    fn of(entry: &Entry) -> Self {
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

#[utoipa::path(get, path = "/sessions/{id}/lines", tag = tag::JOURNAL, params(("id" = Uuid, Path), After),
    responses((status = 200, body = LinePage)))]
/// Entries of the journal as they are.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    Named(id): Named<Uuid>,
    Asked(After { after, limit }): Asked<After>,
) -> Answer<Json<LinePage>> {
    if !(1..=1000).contains(&limit) {
        return Err(Problem::invalid("`limit` is between 1 and 1000"));
    }
    let last = record(&gateway, id).await?.last;
    let after = Seq(after.min(last.0));
    let entries = gateway.sessions.journal().read(SessionId(id), after, limit).await?;
    let more = entries.last().is_some_and(|it| it.seq < last) && entries.len() == limit;
    Ok(Json(LinePage { lines: entries.iter().map(ShownLine::of).collect(), more }))
}

#[utoipa::path(get, path = "/sessions/{id}/lines/{seq}/pictures/{number}", tag = tag::JOURNAL,
    params(("id" = Uuid, Path), ("seq" = u64, Path), ("number" = usize, Path)),
    responses((status = 200, content_type = "image/png", body = Vec<u8>), (status = 200, content_type = "image/jpeg", body = Vec<u8>)))]
/// A picture in an entry.
pub(super) async fn picture(
    State(gateway): State<Gateway>,
    Named((id, seq, number)): Named<(Uuid, u64, usize)>,
) -> Answer<Response> {
    let missing = || Problem::not_found("picture");
    let last = record(&gateway, id).await?.last;
    if seq == 0 || seq > last.0 {
        return Err(missing());
    }
    let entries = gateway.sessions.journal().read(SessionId(id), Seq(seq - 1), 1).await?;
    let entry = entries.into_iter().next().filter(|it| it.seq.0 == seq).ok_or_else(missing)?;
    let line: Value = serde_json::from_slice(&entry.bytes).map_err(|_| missing())?;
    let mut pictures = Vec::new();
    collect(&line, &mut pictures);
    let data = pictures.get(number).ok_or_else(missing)?;
    let bytes = BASE64_STANDARD.decode(data).map_err(|_| missing())?;
    // Its type is what its bytes are, whatever the line says: nothing else is handed to a browser.
    let media_type = Image::new(&bytes).map_err(|_| missing())?.media_type().name();
    let head = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable")),
    ];
    Ok((head, Bytes::from(bytes)).into_response())
}

fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
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
            // The tool's own account of its result repeats what the message has.
            let parts = object
                .iter()
                .filter(|(key, _)| *key != "tool_use_result" && *key != "toolUseResult");
            parts.for_each(|(_, it)| collect(it, found));
        }
        Value::Array(list) => list.iter().for_each(|it| collect(it, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[utoipa::path(get, path = "/sessions/{id}/events", tag = tag::JOURNAL,
    params(("id" = Uuid, Path), From, ("last-event-id" = Option<u64>, Header, description = "after this entry")),
    responses((status = 200, content_type = "text/event-stream", body = String)))]
/// Every entry of the journal, as server-sent events; does not end by itself.
pub(super) async fn events(
    State(gateway): State<Gateway>,
    visitor: Visitor,
    Named(id): Named<Uuid>,
    Asked(From { after }): Asked<From>,
    headers: HeaderMap,
) -> Answer<Sse<impl Stream<Item = Result<Event, Infallible>>>> {
    record(&gateway, id).await?;
    let after = match headers.get("last-event-id") {
        None => after,
        Some(last) => {
            let number = last.to_str().ok().and_then(|it| it.trim().parse().ok());
            number.ok_or_else(|| Problem::invalid("`Last-Event-ID` is the number of an entry"))?
        }
    };
    let follower = gateway.sessions.journal().follow(SessionId(id), Seq(after.min(1 << 40)));
    let comment = KeepAlive::new().interval(HEARTBEAT);
    let events = stream(follower).take_until(gateway.pass(&visitor).lapsed());
    Ok(Sse::new(events).keep_alive(comment))
}

fn stream(follower: Follower) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold((follower, Vec::new().into_iter()), async |(mut follower, mut ready)| {
        loop {
            let next: Option<Entry> = ready.next();
            if let Some(entry) = next {
                return Some((Ok(event(&entry)), (follower, ready)));
            }
            // The session is gone, or the server is going: the stream ends.
            ready = follower.next().await.ok()?.into_iter();
        }
    })
}

fn event(entry: &Entry) -> Event {
    let data = serde_json::to_string(&ShownLine::of(entry)).unwrap_or_default();
    Event::default().id(entry.seq.to_string()).event(origin(entry)).data(data)
}
