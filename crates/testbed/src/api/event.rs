//! The JSON that the API sends: stream events, whole messages, token counts and errors.
//!
//! Fields are in the order in which the real API sends them.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::dialect::ApiDialect;

/// One event of a stream.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ApiEvent<'a> {
    MessageStart { message: ApiMessage<'a> },
    ContentBlockStart { index: usize, content_block: ApiContentBlock<'a> },
    Ping,
    ContentBlockDelta { index: usize, delta: ApiDelta<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: ApiStop<'a>, usage: ApiUsage<'a> },
    MessageStop,
    Error { error: ApiErrorDetail<'a> },
}

impl ApiEvent<'_> {
    /// Appends the event in the format of server-sent events.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(self.name().as_bytes());
        out.extend_from_slice(b"\ndata: ");
        write_json(self, out);
        out.extend_from_slice(b"\n\n");
    }

    fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::Ping => "ping",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Error { .. } => "error",
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum ApiDelta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

/// A content block: empty at the start of a stream, complete in a whole message.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ApiContentBlock<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
    #[serde(untagged)]
    Raw(&'a Value),
}

/// A message: empty at the start of a stream, or complete.
#[derive(Serialize)]
pub(super) struct ApiMessage<'a> {
    model: &'a str,
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    content: &'a RawValue,
    #[serde(flatten)]
    stop: ApiStop<'a>,
    usage: ApiUsage<'a>,
}

impl<'a> ApiMessage<'a> {
    pub(super) fn new(
        (model, id): (&'a str, &'a str),
        content: &'a RawValue,
        stop: ApiStop<'a>,
        usage: ApiUsage<'a>,
    ) -> Self {
        Self { model, id, kind: "message", role: "assistant", content, stop, usage }
    }
}

/// Why a message ended. Empty while it is being streamed.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct ApiStop<'a> {
    pub(super) stop_reason: Option<&'a str>,
    pub(super) stop_sequence: Option<&'a str>,
}

/// The `usage` object of a message.
///
/// Counts from the scenario replace the estimated ones, and its other keys are added.
pub(super) struct ApiUsage<'a> {
    pub(super) position: ApiUsagePosition,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) overrides: Option<&'a Map<String, Value>>,
}

/// Where the `usage` object appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiUsagePosition {
    /// In `message_start`, which counts one output token.
    Start,
    /// In `message_delta`, which has only the counts.
    End,
    /// In a message that is not streamed.
    Whole,
}

#[derive(Serialize)]
struct ApiCacheCreation {
    ephemeral_5m_input_tokens: u64,
    ephemeral_1h_input_tokens: u64,
}

const USAGE_FIELDS: [&str; 6] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cache_creation",
    "output_tokens",
    "service_tier",
];

impl Serialize for ApiUsage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for name in USAGE_FIELDS {
            match (name, self.overrides.and_then(|overrides| overrides.get(name))) {
                ("output_tokens", _) if self.position == ApiUsagePosition::Start => {
                    map.serialize_entry(name, &1)?;
                }
                (_, Some(value)) => map.serialize_entry(name, value)?,
                ("input_tokens", None) => map.serialize_entry(name, &self.input_tokens)?,
                ("output_tokens", None) => map.serialize_entry(name, &self.output_tokens)?,
                ("service_tier" | "cache_creation", None)
                    if self.position == ApiUsagePosition::End => {}
                ("service_tier", None) => map.serialize_entry(name, "standard")?,
                ("cache_creation", None) => map.serialize_entry(
                    name,
                    &ApiCacheCreation {
                        ephemeral_5m_input_tokens: 0,
                        ephemeral_1h_input_tokens: 0,
                    },
                )?,
                (_, None) => map.serialize_entry(name, &0)?,
            }
        }
        for (name, value) in self.overrides.into_iter().flatten() {
            if !USAGE_FIELDS.contains(&name.as_str()) {
                map.serialize_entry(name, value)?;
            }
        }
        map.end()
    }
}

/// Estimates the number of tokens: one for four bytes.
pub(super) fn estimate_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4).max(1)
}

/// The `error` object in events and error responses.
#[derive(Serialize)]
pub(super) struct ApiErrorDetail<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) message: &'a str,
}

/// An error response in the format of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: u16,
    pub(super) kind: String,
    pub(super) message: String,
    headers: Vec<(String, String)>,
}

#[derive(Serialize)]
struct ApiErrorBody<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: ApiErrorDetail<'a>,
    request_id: &'a str,
}

impl ApiError {
    pub(super) fn new(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, kind: kind.into(), message: message.into(), headers: Vec::new() }
    }

    pub(super) fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// The HTTP error that corresponds to an `error` event of this type.
    pub(super) fn from_event(kind: &str, message: &str) -> Self {
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
        let error = ApiErrorDetail { kind: &self.kind, message: &self.message };
        let mut body = Vec::with_capacity(160 + self.message.len());
        write_json(&ApiErrorBody { kind: "error", error, request_id }, &mut body);
        self.response_with(body)
    }

    /// The response in the format of another API.
    pub(super) fn response_in(&self, dialect: ApiDialect) -> Response {
        self.response_with(dialect.error_body(self).to_string().into_bytes())
    }

    fn response_with(&self, body: Vec<u8>) -> Response {
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

/// Appends a value as JSON.
pub(super) fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value).expect("text and numbers can be written to memory as JSON");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ApiUsage, ApiUsagePosition};

    #[test]
    fn counts_of_the_scenario_replace_the_estimated_ones() {
        let counts = json!({"cache_read_input_tokens": 900, "output_tokens": 7, "extra": {"a": 1}});
        let at = |position| {
            let overrides = counts.as_object();
            let usage = ApiUsage { position, input_tokens: 5, output_tokens: 3, overrides };
            serde_json::to_value(usage).unwrap()
        };
        let whole = json!({
            "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 900,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 7, "service_tier": "standard", "extra": {"a": 1},
        });
        assert_eq!(at(ApiUsagePosition::Whole), whole);
        assert_eq!(at(ApiUsagePosition::Start)["output_tokens"], 1);
        let end = json!({
            "input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 900,
            "output_tokens": 7, "extra": {"a": 1},
        });
        assert_eq!(at(ApiUsagePosition::End), end);
    }
}
