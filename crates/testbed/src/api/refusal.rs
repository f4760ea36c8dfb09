//! Errors in the API's own shape.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;

use super::event::{Problem, write_json};

/// A request that gets an error for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    status: u16,
    kind: String,
    message: String,
    headers: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Shape<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: Problem<'a>,
    request_id: &'a str,
}

impl Refusal {
    pub(super) fn new(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, kind: kind.into(), message: message.into(), headers: Vec::new() }
    }

    /// A request that makes no sense.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// The error that would have been an `error` event, had it come before the stream began.
    pub(super) fn of_kind(kind: &str, message: &str) -> Self {
        let status = match kind {
            "invalid_request_error" => 400,
            "authentication_error" => 401,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" => 429,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => 500,
        };
        Self::new(status, kind, message)
    }

    pub(super) fn with_headers(self, headers: &[(String, String)]) -> Self {
        Self { headers: headers.to_vec(), ..self }
    }

    pub(super) fn response(&self, request_id: &str) -> Response {
        let error = Problem { kind: &self.kind, message: &self.message };
        let mut body = Vec::with_capacity(160 + self.message.len());
        write_json(&Shape { kind: "error", error, request_id }, &mut body);
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in &self.headers {
            let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
            if let (Ok(name), Ok(value)) = pair {
                headers.insert(name, value);
            }
        }
        response
    }
}
