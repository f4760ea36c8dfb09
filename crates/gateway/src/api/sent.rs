//! What a client sent, taken apart; whatever is wrong with it is a problem document.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Problem;

/// The largest body: a prompt with several pictures.
const LARGEST: usize = 32 << 20;

/// The largest body of what may come from somebody who is not signed in.
pub(crate) const SMALL: usize = 4 << 10;

/// How much of a body that is too large is read at least.
const LEAST_THROWN_AWAY: usize = 64 << 10;

/// How long a body may take to arrive.
const PATIENCE: Duration = Duration::from_mins(1);

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Sent<T>(pub(crate) T);

/// What the path of a request names.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) T);

/// What the query of a request asks.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        read(request, LARGEST).await.map(Self)
    }
}

/// Reads a JSON body of at most so many bytes.
pub(crate) async fn read<T: DeserializeOwned>(request: Request, most: usize) -> Result<T, Problem> {
    let is_json = |it: &str| {
        it.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"))
    };
    let media_type = request.headers().get(header::CONTENT_TYPE);
    if !media_type.and_then(|it| it.to_str().ok()).is_some_and(is_json) {
        // A form of somebody else's page cannot send this type without asking us first.
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "not JSON",
            "send `content-type: application/json`",
        ));
    }
    let body = timeout(PATIENCE, gathered(request.into_body(), most)).await;
    let body = body.map_err(|_| {
        let detail = "the body did not arrive in time";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "too slow", detail)
    })?;
    let body = body?.ok_or_else(|| {
        let detail = format!("at most {most} bytes are taken");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "too large", detail)
    })?;
    serde_json::from_slice(&body).map_err(|error| Problem::invalid(error.to_string()))
}

/// A body of at most so many bytes; nothing where it is larger. A little more is read and thrown
/// away, because a client that is cut off while it writes does not see the answer.
async fn gathered(body: Body, most: usize) -> Result<Option<Vec<u8>>, Problem> {
    let mut pieces = body.into_data_stream();
    let (mut gathered, mut length) = (Vec::new(), 0_usize);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|_| Problem::invalid("the body broke off"))?;
        length += piece.len();
        if length <= most {
            gathered.extend_from_slice(&piece);
        } else if length > 2 * most.max(LEAST_THROWN_AWAY) {
            break;
        }
    }
    Ok((length <= most).then_some(gathered))
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(named)) => Ok(Self(named)),
            Err(problem) => Err(Problem::invalid(problem.body_text())),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(problem) => Err(Problem::invalid(problem.body_text())),
        }
    }
}
