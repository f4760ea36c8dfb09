//! Extractors for bodies, paths and queries. What is wrong with them becomes a problem document.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::limits::{MAX_BODY_BYTES, STALLED_AFTER};
use crate::problem::Problem;
use crate::request_memory::{NoMemory, RequestMemory};

/// The largest body of a client that is not signed in.
pub(crate) const MAX_SIGN_IN_BYTES: usize = 4 << 10;

/// How much of a body that is too large is read and discarded at least.
const MIN_DISCARDED_BYTES: usize = 1 << 20;

const NO_MEMORY: &str = "too many large requests are being received; try again in a moment";

const TOO_SLOW: &str =
    "the body arrived too slowly while others needed the memory; try again in a moment";

/// How long a body may take to arrive, or to be discarded.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

/// The parameters in a request's path.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

/// The parameters in a request's query.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        read_json(request, MAX_BODY_BYTES).await.map(Self)
    }
}

/// Reads a JSON body of at most `max_bytes`.
pub(crate) async fn read_json<T: DeserializeOwned>(
    request: Request,
    max_bytes: usize,
) -> Result<T, Problem> {
    let is_json = |it: &str| {
        it.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
    };
    let media_type = request.headers().get(header::CONTENT_TYPE);
    if !media_type.and_then(|it| it.to_str().ok()).is_some_and(is_json) {
        // A form of another page cannot send this type without a preflight request.
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "not JSON",
            "send `content-type: application/json`",
        ));
    }
    let body = read_limited(request, max_bytes).await?;
    serde_json::from_slice(&body).map_err(|error| Problem::invalid(error.to_string()))
}

/// Reads a body of any bytes.
pub(crate) async fn read_bytes(request: Request, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    require_bytes(&request)?;
    read_limited(request, max_bytes).await
}

/// Refuses a request whose body is not said to be bytes. A form of another page cannot say that
/// without a preflight request.
pub(crate) fn require_bytes(request: &Request) -> Result<(), Problem> {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    if media_type.is_some_and(|it| it == "application/octet-stream") {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported-media-type",
        "not bytes",
        "send `content-type: application/octet-stream`",
    ))
}

/// Reads a body of at most `max_bytes`.
async fn read_limited(request: Request, max_bytes: usize) -> Result<Vec<u8>, Problem> {
    let length = request.headers().get(header::CONTENT_LENGTH);
    let length = length.and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    let declared_too_large = length.is_some_and(|it| it > max_bytes as u64);
    let memory = request.extensions().get::<RequestMemory>().cloned();
    let memory = memory.ok_or_else(|| Problem::unavailable(NO_MEMORY))?;
    let body = request.into_body();
    let too_large = || Problem::too_large(format!("the body may have at most {max_bytes} bytes"));
    if declared_too_large {
        let _ = timeout(BODY_TIMEOUT, discard(body.into_data_stream(), max_bytes)).await;
        return Err(too_large());
    }
    let body = timeout(BODY_TIMEOUT, read_body(body, max_bytes, &memory)).await;
    let body = body.map_err(|_| {
        let detail = "the body did not arrive in time";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "too slow", detail)
    })?;
    let body = body?.ok_or_else(too_large)?;
    memory.complete(body.len()).await.map_err(|NoMemory| Problem::unavailable(NO_MEMORY))?;
    Ok(body)
}

/// Reads a body; `None` if it is larger than `max_bytes`. A little more is read and discarded,
/// because a client that is disconnected while it writes does not see the response.
async fn read_body(
    body: Body,
    max_bytes: usize,
    memory: &RequestMemory,
) -> Result<Option<Vec<u8>>, Problem> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let chunk = tokio::select! {
            chunk = chunks.next() => chunk,
            () = memory.revoked() => return Err(Problem::unavailable(TOO_SLOW)),
        };
        let Some(chunk) = chunk else { return Ok(Some(bytes)) };
        let chunk = chunk.map_err(|_| Problem::invalid("the body is incomplete"))?;
        if bytes.len() + chunk.len() > max_bytes {
            drop(bytes);
            memory.free();
            discard(chunks, max_bytes).await;
            return Ok(None);
        }
        if memory.reserve(&mut bytes, chunk.len(), max_bytes).is_err() {
            drop(bytes);
            memory.free();
            discard(chunks, max_bytes).await;
            return Err(Problem::unavailable(NO_MEMORY));
        }
        bytes.extend_from_slice(&chunk);
        memory.advance(chunk.len());
    }
}

/// Reads the rest of a body that is refused, unless it is very long or does not come.
async fn discard(mut chunks: BodyDataStream, max_bytes: usize) {
    let mut left = 2 * max_bytes.max(MIN_DISCARDED_BYTES);
    while let Ok(Some(Ok(chunk))) = timeout(STALLED_AFTER, chunks.next()).await {
        match left.checked_sub(chunk.len()) {
            Some(less) => left = less,
            None => return,
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(params)) => Ok(Self(params)),
            Err(problem) => Err(Problem::invalid(problem.body_text())),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(problem) => Err(Problem::invalid(problem.body_text())),
        }
    }
}
