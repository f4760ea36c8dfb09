//! Bodies that are made as a whole, sent in pieces.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;

use crate::gateway::Gateway;
use crate::limits::{PIECE_BYTES, SMALL_BYTES};
use crate::memory_pool::{Leased, MemoryLease};
use crate::problem::{ApiResult, Problem};

/// The client took nothing for so long that its memory was given to another one.
#[derive(Debug, thiserror::Error)]
#[error("the client takes nothing")]
struct Stalled;

/// A body in memory of the pool. If its client stalls while another one waits for memory, the
/// response ends too early.
pub(super) async fn large_body(gateway: &Gateway, body: Bytes) -> Body {
    if body.len() <= SMALL_BYTES {
        return Body::from(body);
    }
    let lease = gateway.memory.lease(body.len()).await;
    leased_body(lease, body)
}

/// A response with a value that may be long, as JSON.
pub(super) async fn large_json(gateway: &Gateway, value: &impl Serialize) -> ApiResult<Response> {
    let json = serde_json::to_vec(value).map_err(|it| Problem::failed(&it))?;
    Ok(json_body(gateway, json.into()).await)
}

/// A response with JSON that may be long.
pub(super) async fn json_body(gateway: &Gateway, json: Bytes) -> Response {
    let body = large_body(gateway, json).await;
    let json = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, json)], body).into_response()
}

fn leased_body(lease: MemoryLease, body: Bytes) -> Body {
    let leased = lease.send(body);
    let pieces = stream::try_unfold((leased, 0), async |(leased, offset): (Leased<Bytes>, _)| {
        let piece = leased.with(|bytes| {
            let end = bytes.len().min(offset + PIECE_BYTES);
            Bytes::copy_from_slice(&bytes[offset..end])
        });
        let piece = piece.ok_or(Stalled)?;
        let next = offset + piece.len();
        Ok::<_, Stalled>((!piece.is_empty()).then_some((piece, (leased, next))))
    });
    Body::from_stream(pieces)
}
