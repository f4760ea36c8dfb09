//! What answers requests: routes, the choice of a reply, and forwarding to a real API.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::scenario::{ClaudeVersion, ScenarioStreamFault};

use super::event::{ApiError, estimate_tokens};
use super::log::{ApiRequestKind, ApiRequestLog};
use super::recording::{ApiRecording, ApiUpstream};
use super::reply::{ApiIds, ApiReply, ApiReplyContent};
use super::request::ApiMessageRequest;
use super::script::{ApiClient, ApiReplyChoice, ApiResponder};
use super::server::ApiConnectionHandle;
use super::stream::{ApiAction, ApiDelivery, ApiGates};

/// The largest body that is read. The real API accepts 32 MB; a test of that limit should set it in a
/// scenario.
const MAX_BODY: usize = 128 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const CLI_USER_AGENT: &str = "claude-cli/";

/// The state that all requests share.
#[derive(Debug)]
pub(super) struct ApiState {
    pub(super) backend: ApiBackend,
    pub(super) log: ApiRequestLog,
    pub(super) gates: ApiGates,
    pub(super) ids: ApiIds,
    /// The reply to side requests of the CLI.
    pub(super) side_reply: Arc<ApiReply>,
    pub(super) stop: watch::Receiver<bool>,
}

/// Where replies come from.
#[derive(Debug)]
pub(super) enum ApiBackend {
    Model(Mutex<ApiResponder>),
    Upstream(ApiUpstream),
}

/// Handles a request.
pub(super) async fn handle(
    State(state): State<Arc<ApiState>>,
    ConnectInfo(connection): ConnectInfo<ApiConnectionHandle>,
    request: axum::extract::Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let id = state.ids.request();
    let mut response = if let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await {
        state.respond(parts, body, connection, &id).await
    } else {
        let message = "Request exceeds the maximum size";
        ApiError::new(413, "request_too_large", message).response(&id)
    };
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().entry(REQUEST_ID).or_insert(id);
    }
    response
}

impl ApiState {
    async fn respond(
        &self,
        parts: Parts,
        body: Bytes,
        connection: ApiConnectionHandle,
        id: &str,
    ) -> Response {
        if let ApiBackend::Upstream(upstream) = &self.backend {
            return self.forward(upstream, parts, body, id).await;
        }
        let route = ApiRoute::new(&parts.method, parts.uri.path());
        let result = match route {
            ApiRoute::Messages => {
                let (gates, stop) = (self.gates.clone(), self.stop.clone());
                let delivery = ApiDelivery { gates, stop, connection };
                return self.respond_to_message(parts, body, delivery, id).await;
            }
            ApiRoute::CountTokens => count_tokens(&body),
            ApiRoute::Models => Ok(model_list()),
            ApiRoute::Model(model) => model_details(model),
            ApiRoute::Hello => Ok(json!({"message": "hello"})),
            ApiRoute::Root => Ok(Value::Null),
            ApiRoute::WrongMethod => {
                Err(ApiError::new(405, "invalid_request_error", "Method Not Allowed"))
            }
            ApiRoute::Unknown => Err(ApiError::new(404, "not_found_error", "Not Found")),
        };
        let kind = if route == ApiRoute::CountTokens {
            ApiRequestKind::Count
        } else {
            ApiRequestKind::Other
        };
        match self.log(kind, parts, body).and(result) {
            Ok(Value::Null) => Response::new(Body::empty()),
            Ok(value) => json_response(value.to_string()),
            Err(error) => error.response(id),
        }
    }

    async fn respond_to_message(
        &self,
        parts: Parts,
        body: Bytes,
        mut delivery: ApiDelivery,
        id: &str,
    ) -> Response {
        let request = match ApiMessageRequest::parse(&body) {
            Ok(request) => request,
            Err(error) => {
                let logged = self.log(ApiRequestKind::Main, parts, body.clone());
                return logged.err().unwrap_or(error).response(id);
            }
        };
        let kind = request_kind(&request, &parts.headers);
        let choice = self.choose(&request, kind, &parts.headers);
        if let Err(error) = self.log(kind, parts, body.clone()) {
            return error.response(id);
        }
        let reply = &choice.reply;
        if let Some(name) = &reply.hold
            && delivery.wait_for_gate(name).await.is_err()
        {
            return timed_response(vec![ApiAction::Disconnect], delivery, JSON);
        }
        match &reply.content {
            ApiReplyContent::Error(error) => error.response(id),
            ApiReplyContent::Recording(recording) => replay(recording, delivery).await,
            ApiReplyContent::Message(message) => {
                let input_tokens = estimate_tokens(request.text_size(&body));
                let message_id = self.ids.message();
                if request.stream == Some(true) {
                    let actions = message.stream(&request, &message_id, input_tokens);
                    timed_response(actions, delivery, EVENTS)
                } else {
                    let whole = message.whole(&request, &message_id, input_tokens);
                    // A reply without blocks consists only of its fault, which therefore stays.
                    let without_fault = choice.without_fault && !message.is_empty();
                    let fault = message.fault.as_ref().filter(|_| !without_fault);
                    whole_response(whole, fault, delivery, id)
                }
            }
        }
    }

    fn choose(
        &self,
        request: &ApiMessageRequest<'_>,
        kind: ApiRequestKind,
        headers: &HeaderMap,
    ) -> ApiReplyChoice {
        match &self.backend {
            ApiBackend::Model(responder) if kind == ApiRequestKind::Main => {
                let mut responder = responder.lock().unwrap_or_else(PoisonError::into_inner);
                responder.choose(request, client(headers), &self.ids)
            }
            _ => ApiReplyChoice { reply: Arc::clone(&self.side_reply), without_fault: false },
        }
    }

    async fn forward(
        &self,
        upstream: &ApiUpstream,
        parts: Parts,
        body: Bytes,
        id: &str,
    ) -> Response {
        let route = ApiRoute::new(&parts.method, parts.uri.path());
        let request = match route {
            ApiRoute::Messages => ApiMessageRequest::parse(&body).ok(),
            _ => None,
        };
        let kind = match (&request, route) {
            (Some(request), _) => request_kind(request, &parts.headers),
            (None, ApiRoute::CountTokens) => ApiRequestKind::Count,
            (None, _) => ApiRequestKind::Other,
        };
        let main_request = request.as_ref().filter(|_| kind == ApiRequestKind::Main);
        let recorder = match main_request.map(|request| upstream.record(request)).transpose() {
            Ok(recorder) => recorder,
            Err(error) => return log_error(&error).response(id),
        };
        let request = upstream.request(&parts, body.clone());
        if let Err(error) = self.log(kind, parts, body.clone()) {
            return error.response(id);
        }
        request.send(recorder).await.unwrap_or_else(|error| error.response(id))
    }

    fn log(&self, kind: ApiRequestKind, parts: Parts, body: Bytes) -> Result<(), ApiError> {
        self.log.add(kind, parts, body).map_err(|error| log_error(&error))
    }
}

fn log_error(error: &std::io::Error) -> ApiError {
    ApiError::new(500, "api_error", format!("could not log the request: {error}"))
}

fn count_tokens(body: &[u8]) -> Result<Value, ApiError> {
    let request = ApiMessageRequest::parse_for_count(body)?;
    Ok(json!({"input_tokens": estimate_tokens(request.text_size(body))}))
}

/// Only the CLI makes side requests. All requests of other clients belong to the conversation.
fn request_kind(request: &ApiMessageRequest<'_>, headers: &HeaderMap) -> ApiRequestKind {
    let agent = headers.get(header::USER_AGENT);
    let is_cli = agent.is_some_and(|it| it.as_bytes().starts_with(CLI_USER_AGENT.as_bytes()));
    if is_cli && request.is_side_request() { ApiRequestKind::Side } else { ApiRequestKind::Main }
}

fn client(headers: &HeaderMap) -> ApiClient<'_> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let agent = text(header::USER_AGENT.as_str()).and_then(|it| it.strip_prefix(CLI_USER_AGENT));
    let version = agent.and_then(|it| it.split_whitespace().next()?.parse::<ClaudeVersion>().ok());
    ApiClient { version, session: text("x-claude-code-session-id") }
}

/// A message without streaming, or the fault that replaces it.
fn whole_response(
    whole: Bytes,
    fault: Option<&ScenarioStreamFault>,
    delivery: ApiDelivery,
    id: &str,
) -> Response {
    let half = || ApiAction::Send(whole.slice(..whole.len() / 2));
    let respond = |actions| timed_response(actions, delivery, JSON);
    match fault {
        None => json_response(whole),
        Some(ScenarioStreamFault::SseError { kind, message }) => {
            ApiError::from_event(kind, message).response(id)
        }
        Some(ScenarioStreamFault::Disconnect) => respond(vec![half(), ApiAction::Disconnect]),
        Some(ScenarioStreamFault::Truncate) => respond(vec![half()]),
        Some(ScenarioStreamFault::Stall) => respond(vec![half(), ApiAction::Stall]),
        Some(ScenarioStreamFault::Garbage) => json_response("<html>this is not a message</html>"),
    }
}

async fn replay(recording: &ApiRecording, delivery: ApiDelivery) -> Response {
    tokio::time::sleep(recording.delay).await;
    let mut response = Response::new(delivery.body(recording.actions.clone()));
    if let Ok(status) = StatusCode::from_u16(recording.status) {
        *response.status_mut() = status;
    }
    for (name, value) in &recording.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

fn timed_response(
    actions: Vec<ApiAction>,
    delivery: ApiDelivery,
    content_type: HeaderValue,
) -> Response {
    let mut response = Response::new(delivery.body(actions));
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

fn json_response(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// What a method and a path request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApiRoute<'a> {
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`
    Model(&'a str),
    /// `GET /api/hello`, with which the CLI tests its connection. 2.1.325 sends `HEAD`.
    Hello,
    /// `HEAD /`, which 2.1.197 sends to open a connection early.
    Root,
    /// A path of the API with another method.
    WrongMethod,
    Unknown,
}

impl<'a> ApiRoute<'a> {
    fn new(method: &Method, path: &'a str) -> Self {
        let (expected, route) = match path {
            "/v1/messages" => (Method::POST, Self::Messages),
            "/v1/messages/count_tokens" => (Method::POST, Self::CountTokens),
            "/v1/models" => (Method::GET, Self::Models),
            "/api/hello" => (Method::GET, Self::Hello),
            "/" => (Method::HEAD, Self::Root),
            _ => match path.strip_prefix("/v1/models/") {
                Some(id) if !id.is_empty() => (Method::GET, Self::Model(id)),
                _ => return Self::Unknown,
            },
        };
        // Every path with `GET` also accepts `HEAD`.
        let is_head = *method == Method::HEAD && expected == Method::GET;
        match route {
            _ if *method == expected || is_head => route,
            Self::Root => Self::Unknown,
            _ => Self::WrongMethod,
        }
    }
}

const MODELS: &[(&str, &str, &str)] = &[
    ("claude-opus-5-5", "Claude Opus 5.5", "2026-08-04T00:00:00Z"),
    ("claude-sonnet-5", "Claude Sonnet 5", "2026-02-10T00:00:00Z"),
    ("claude-haiku-4-5-20251001", "Claude Haiku 4.5", "2025-10-15T00:00:00Z"),
    ("claude-sonnet-4-5-20250929", "Claude Sonnet 4.5", "2025-09-29T00:00:00Z"),
];

/// All models on one page.
fn model_list() -> Value {
    let entry = |(id, name, created): &(&str, &str, &str)| model_entry(id, name, created);
    json!({
        "data": MODELS.iter().map(entry).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": MODELS.first().map(|it| it.0),
        "last_id": MODELS.last().map(|it| it.0),
    })
}

/// One model. Every name that starts with `claude-` is accepted, because clients may know newer
/// models than this list.
fn model_details(id: &str) -> Result<Value, ApiError> {
    match MODELS.iter().find(|it| it.0 == id) {
        Some((id, name, created)) => Ok(model_entry(id, name, created)),
        None if id.starts_with("claude-") => Ok(model_entry(id, id, "2026-01-01T00:00:00Z")),
        None => Err(ApiError::new(404, "not_found_error", format!("model: {id}"))),
    }
}

fn model_entry(id: &str, name: &str, created: &str) -> Value {
    json!({"type": "model", "id": id, "display_name": name, "created_at": created})
}

#[cfg(test)]
mod tests {
    use axum::http::Method;

    use super::ApiRoute;

    #[test]
    fn methods_and_paths_select_the_routes_of_the_api() {
        let cases = [
            (Method::POST, "/v1/messages", ApiRoute::Messages),
            (Method::GET, "/v1/messages", ApiRoute::WrongMethod),
            (Method::POST, "/v1/messages/count_tokens", ApiRoute::CountTokens),
            (Method::GET, "/v1/models", ApiRoute::Models),
            (Method::GET, "/v1/models/claude-x", ApiRoute::Model("claude-x")),
            (Method::GET, "/v1/models/", ApiRoute::Unknown),
            (Method::GET, "/api/hello", ApiRoute::Hello),
            (Method::HEAD, "/api/hello", ApiRoute::Hello),
            (Method::POST, "/api/hello", ApiRoute::WrongMethod),
            (Method::HEAD, "/", ApiRoute::Root),
            (Method::GET, "/", ApiRoute::Unknown),
            (Method::POST, "/v1/complete", ApiRoute::Unknown),
        ];
        for (method, path, route) in cases {
            assert_eq!(ApiRoute::new(&method, path), route, "{method} {path}");
        }
    }
}
