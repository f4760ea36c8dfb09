//! Extractors for bodies, paths and queries. What is wrong with them becomes a problem document.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::problem::Problem;

/// The largest body: a prompt with several images.
const MAX_BODY_BYTES: usize = 32 << 20;

/// The largest body of a client that is not signed in.
pub(crate) const MAX_SIGN_IN_BYTES: usize = 4 << 10;

/// How much of a body that is too large is read and discarded at least.
const MIN_DISCARDED_BYTES: usize = 64 << 10;

/// How long a body may take to arrive.
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
    let body = timeout(BODY_TIMEOUT, read_body(request.into_body(), max_bytes)).await;
    let body = body.map_err(|_| {
        let detail = "the body did not arrive in time";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "too slow", detail)
    })?;
    let body = body?.ok_or_else(|| {
        Problem::too_large(format!("the body may have at most {max_bytes} bytes"))
    })?;
    serde_json::from_slice(&body).map_err(|error| Problem::invalid(error.to_string()))
}

/// Reads a body; `None` if it is larger than `max_bytes`. A little more is read and discarded,
/// because a client that is disconnected while it writes does not see the response.
async fn read_body(body: Body, max_bytes: usize) -> Result<Option<Vec<u8>>, Problem> {
    let mut chunks = body.into_data_stream();
    let (mut bytes, mut length) = (Vec::new(), 0_usize);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Problem::invalid("the body is incomplete"))?;
        length += chunk.len();
        if length <= max_bytes {
            bytes.extend_from_slice(&chunk);
        } else if length > 2 * max_bytes.max(MIN_DISCARDED_BYTES) {
            break;
        }
    }
    Ok((length <= max_bytes).then_some(bytes))
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
