//! Error responses, as problem documents (RFC 9457).
//!
//! An unexpected error is logged in full where it is turned into a problem. The client learns only
//! that it happened.

use std::fmt::Write as _;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use journal::Resolution;
use serde::{Deserialize, Serialize};
use session::{CommandError, OpenError};
use tracing::error;
use utoipa::ToSchema;
use wire::note::{Actor, Outcome};

use crate::access::TokenStoreError;
use crate::api::PromptStateName;

/// Why a request failed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Problem {
    /// The kind of problem, as a URI that never changes.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The kind of problem, in words.
    pub(crate) title: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// What happened in this case.
    pub(crate) detail: String,
    /// How the request was resolved, if another client answered it first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resolution: Option<Box<ResolutionResponse>>,
    /// The state of the prompt, if it is not queued any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<PromptStateName>,
}

/// How a request was resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Resolution)]
pub(crate) struct ResolutionResponse {
    pub(crate) outcome: OutcomeName,
    pub(crate) by: Option<ActorResponse>,
    /// The reason that was given.
    pub(crate) message: Option<String>,
    /// In milliseconds since 1970.
    pub(crate) at: u64,
}

/// How a request can be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Outcome)]
pub(crate) enum OutcomeName {
    Allowed,
    AllowedAndRemembered,
    Denied,
    /// Denied because no answer came in time.
    Expired,
    /// The agent withdrew it, or is gone.
    Withdrawn,
}

/// Who did something, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Actor)]
pub(crate) struct ActorResponse {
    pub(crate) name: String,
    /// `terminal`, `browser`, `telegram`, `api` or `rule`.
    pub(crate) via: String,
}

/// The result of a handler.
pub(crate) type ApiResult<T> = Result<T, Problem>;

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
        let detail = "open the link that `towpath serve` printed, or send an access token";
        Self::new(StatusCode::UNAUTHORIZED, "not-signed-in", "not signed in", detail)
    }

    pub(crate) fn forbidden(detail: &str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "not allowed", detail)
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "not found", format!("no such {what}"))
    }

    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", "invalid request", detail)
    }

    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "too large", detail)
    }

    /// The server has no memory left for the request.
    pub(crate) fn unavailable(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "busy", detail)
    }

    /// The document of a session cannot be made. The reason is in the log already.
    pub(crate) fn unreadable(detail: &str) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "internal error", detail)
    }

    /// The queue of a session is full.
    pub(crate) fn queue_full(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "queue-full", "the queue is full", detail)
    }

    /// Reading needs a running agent, and starts none.
    pub(crate) fn no_agent() -> Self {
        let detail = "no agent is running; `POST …/wake` starts it";
        Self::conflict("no-agent", detail)
    }

    pub(crate) fn conflict(kind: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, "not possible now", detail)
    }

    /// An unexpected error, which is logged here.
    pub(crate) fn failed(source: &dyn std::error::Error) -> Self {
        let mut causes = String::new();
        let mut cause = source.source();
        while let Some(it) = cause {
            let _ = write!(causes, ": {it}");
            cause = it.source();
        }
        error!(error = %source, %causes, "a request failed");
        let detail = "see the server's log";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "internal error", detail)
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
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            // The rest of a very long body is not read, so the connection cannot be used again.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            // The access check adds where the log is.
            response.extensions_mut().insert(self);
        }
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
        }
        response
    }
}

impl From<&Resolution> for ResolutionResponse {
    fn from(it: &Resolution) -> Self {
        Self {
            outcome: it.outcome.into(),
            by: it.by.clone().map(ActorResponse::from),
            message: it.message.clone(),
            at: it.at,
        }
    }
}

impl From<Outcome> for OutcomeName {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Allowed => Self::Allowed,
            Outcome::AllowedAndRemembered => Self::AllowedAndRemembered,
            Outcome::Denied => Self::Denied,
            Outcome::Expired => Self::Expired,
            Outcome::Withdrawn => Self::Withdrawn,
        }
    }
}

impl From<Actor> for ActorResponse {
    fn from(Actor { name, via }: Actor) -> Self {
        Self { name, via }
    }
}

impl From<journal::Error> for Problem {
    fn from(error: journal::Error) -> Self {
        match error {
            journal::Error::NoSuchSession(_) | journal::Error::Gone => Self::not_found("session"),
            journal::Error::DamagedSession { .. } => Self::conflict("damaged", error.to_string()),
            journal::Error::SessionExists(_) => Self::conflict("conflict", error.to_string()),
            error => Self::failed(&error),
        }
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NoSuchSession(_) => Self::not_found("session"),
            OpenError::Owned(held) => Self::conflict("busy", held.to_string()),
            OpenError::Directory { .. } | OpenError::Damaged { .. } => {
                Self::conflict("conflict", error.to_string())
            }
            OpenError::Agent(unknown) => Self::invalid(unknown.to_string()),
            OpenError::Journal(error) => error.into(),
            OpenError::NotResponding => Self::conflict("agent-silent", error.to_string()),
            OpenError::Relayed(reason) => Self::conflict("worker", reason),
            OpenError::OpenElsewhere { .. } => Self::conflict("open-elsewhere", error.to_string()),
            error @ (OpenError::Takeover(_) | OpenError::Transcript { .. }) => Self::failed(&error),
        }
    }
}

impl From<session::Error> for Problem {
    fn from(error: session::Error) -> Self {
        match error {
            session::Error::Refused(refusal) => refusal.into(),
            session::Error::Closed | session::Error::Remote(_) => {
                Self::conflict("busy", error.to_string())
            }
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

impl From<CommandError> for Problem {
    fn from(refusal: CommandError) -> Self {
        let detail = refusal.to_string();
        match refusal {
            CommandError::NoSuchPrompt => Self::not_found("prompt"),
            CommandError::NoSuchRequest => Self::not_found("request"),
            CommandError::EmptyPrompt
            | CommandError::Invalid(_)
            | CommandError::InvalidOption(_) => Self::invalid(detail),
            CommandError::NotWaiting(state) => {
                Self { state: Some(state.into()), ..Self::conflict("not-waiting", detail) }
            }
            CommandError::AlreadyResolved(resolution) => {
                let resolution = Some(Box::new(ResolutionResponse::from(&*resolution)));
                Self { resolution, ..Self::conflict("resolved", detail) }
            }
            CommandError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "too large", detail)
            }
            CommandError::UnreadableOptions(_) => Self::conflict("unreadable-options", detail),
            CommandError::NoSuchSchedule => Self::not_found("scheduled prompt"),
            CommandError::Busy => Self::conflict("busy", detail),
            CommandError::NoAgent => Self::no_agent(),
            CommandError::RefusedByAgent(_) => Self::conflict("agent-refused", detail),
            CommandError::NoAnswer | CommandError::AgentGone => {
                Self::conflict("agent-silent", detail)
            }
        }
    }
}

impl From<TokenStoreError> for Problem {
    fn from(error: TokenStoreError) -> Self {
        match error {
            TokenStoreError::InvalidName(_) | TokenStoreError::ShellForWatcher => {
                Self::invalid(error.to_string())
            }
            error => Self::failed(&error),
        }
    }
}
