//! Answers that say no, as problem documents (RFC 9457).
//!
//! What a client may know and what only the log may are two things: an unexpected failure is logged
//! in full where it is turned into a problem, and the client learns that it happened.

use std::fmt::Write as _;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use journal::Resolution;
use serde::{Deserialize, Serialize};
use session::OpenError;
use session::machine::Refusal;
use tracing::error;
use utoipa::ToSchema;
use wire::note::{Outcome, PromptState};

use super::Person;
use crate::access::KeyringError;

/// Why something was not done.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What sort of problem, as an address that never changes.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What it was in this case.
    pub detail: String,
    /// What came of the request that was answered, where somebody was faster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Box<ShownResolution>>,
    /// Where the prompt stands, where it waits no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub state: Option<PromptState>,
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShownResolution {
    /// The answer, or why there is none.
    #[schema(value_type = String)]
    pub outcome: Outcome,
    /// Who gave it.
    pub by: Option<Person>,
    /// What was said with it.
    pub message: Option<String>,
    /// When, in milliseconds since 1970.
    pub at: u64,
}

/// What handlers return.
pub(crate) type Answer<T> = Result<T, Problem>;

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        kind: &str,
        title: &str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind: format!("about:towpath#{kind}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            resolution: None,
            state: None,
        }
    }

    pub(crate) fn not_signed_in() -> Self {
        let detail = "open the link that `towpath serve` printed, or send a token";
        Self::new(StatusCode::UNAUTHORIZED, "not-signed-in", "not signed in", detail)
    }

    pub(crate) fn forbidden(detail: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "not allowed", detail)
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not-found",
            "not found",
            format!("there is no such {what}"),
        )
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", "not understood", detail)
    }

    pub(crate) fn conflict(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, "not possible now", detail)
    }

    /// Something that should not happen; logged here.
    pub(crate) fn failed(source: &dyn std::error::Error) -> Self {
        let mut causes = String::new();
        let mut cause = source.source();
        while let Some(it) = cause {
            let _ = write!(causes, ": {it}");
            cause = it.source();
        }
        error!(error = %source, %causes, "a request failed");
        let detail = "the server's log says more";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "something went wrong", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

impl From<&Resolution> for ShownResolution {
    fn from(it: &Resolution) -> Self {
        Self {
            outcome: it.outcome,
            by: it.by.clone().map(Person::from),
            message: it.message.clone(),
            at: it.at,
        }
    }
}

impl From<journal::Error> for Problem {
    fn from(error: journal::Error) -> Self {
        match error {
            journal::Error::NoSuchSession(_) | journal::Error::Gone => Self::not_found("session"),
            journal::Error::SessionExists(_) => Self::conflict("conflict", error.to_string()),
            error => Self::failed(&error),
        }
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NoSuchSession(_) => Self::not_found("session"),
            OpenError::Held(held) => Self::conflict("busy", held.to_string()),
            OpenError::Directory { .. } => Self::conflict("conflict", error.to_string()),
            OpenError::Journal(error) => error.into(),
            error @ OpenError::TakeOver(_) => Self::failed(&error),
        }
    }
}

impl From<session::Error> for Problem {
    fn from(error: session::Error) -> Self {
        match error {
            session::Error::Refused(refusal) => refusal.into(),
            session::Error::Closed => Self::conflict("busy", error.to_string()),
            session::Error::Journal(error) => error.into(),
            session::Error::NotStored => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "unavailable",
                "the disk is full",
                error.to_string(),
            ),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            Refusal::NoSuchPrompt => Self::not_found("prompt"),
            Refusal::NoSuchRequest => Self::not_found("request"),
            Refusal::EmptyPrompt | Refusal::UnfitAnswer(_) => Self::invalid(detail),
            Refusal::NotWaiting(state) => {
                Self { state: Some(state), ..Self::conflict("not-waiting", detail) }
            }
            Refusal::AlreadyResolved(resolution) => {
                let resolution = Some(Box::new(ShownResolution::from(&*resolution)));
                Self { resolution, ..Self::conflict("resolved", detail) }
            }
            Refusal::Busy => Self::conflict("busy", detail),
            Refusal::ByAgent(_) => Self::conflict("agent-refused", detail),
            Refusal::NoAnswer | Refusal::AgentGone => Self::conflict("agent-silent", detail),
        }
    }
}

impl From<KeyringError> for Problem {
    fn from(error: KeyringError) -> Self {
        match error {
            KeyringError::BadName(_) => Self::invalid(error.to_string()),
            error => Self::failed(&error),
        }
    }
}
