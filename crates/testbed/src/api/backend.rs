//! What answers requests: routes, the choice of a reply, and forwarding to a real API.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::scenario::{AgentVersion, ScenarioBlock, ScenarioReply, ScenarioStreamFault};

use super::batches::{ApiBatchCall, ApiBatchResponse, ApiBatchRoute, ApiBatches};
use super::dialect::tools::{self, OfferedTool};
use super::dialect::{ApiDialect, ApiDialectReply};
use super::event::{ApiError, estimate_tokens};
use super::log::{ApiRequestKind, ApiRequestLog};
use super::mcp_server::ApiMcpServer;
use super::models::{
    check_model, gemini_model, gemini_models, model_details, model_list, openai_models,
};
use super::recording::{ApiRecording, ApiUpstream};
use super::reply::{ApiIds, ApiReply, ApiReplyContent};
use super::request::ApiMessageRequest;
use super::route::ApiRoute;
use super::script::{ApiClient, ApiReplyChoice, ApiResponder};
use super::server::ApiConnectionHandle;
use super::stream::{ApiAction, ApiDelivery, ApiGates};

/// The largest body that is read. The real API accepts 32 MB; a test of that limit should set it in a
/// scenario.
const MAX_BODY: usize = 128 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_LINES: HeaderValue = HeaderValue::from_static("application/x-jsonl");
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
    pub(super) mcp_server: ApiMcpServer,
    pub(super) batches: ApiBatches,
    pub(super) refuse_unknown_models: bool,
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
        if let Some(response) = self.mcp_server.respond(&parts, &body, &self.stop) {
            return response;
        }
        let uri = parts.uri.clone();
        let route = ApiRoute::new(&parts.method, uri.path());
        let is_openai = is_openai(&parts.headers);
        let (gates, stop) = (self.gates.clone(), self.stop.clone());
        let delivery = ApiDelivery { gates, stop, connection };
        let result = match route {
            ApiRoute::Messages => return self.respond_to_message(parts, body, delivery, id).await,
            ApiRoute::Dialect(dialect) => {
                return self.respond_in(dialect, parts, body, delivery).await;
            }
            ApiRoute::Batch(route) => return self.respond_to_batch(route, parts, &body, id),
            ApiRoute::CountTokens => count_tokens(&body),
            ApiRoute::GeminiCount => Ok(json!({"totalTokens": estimate_tokens(body.len())})),
            ApiRoute::Models if is_openai => Ok(openai_models()),
            ApiRoute::Models => Ok(model_list()),
            ApiRoute::Model(model) => model_details(model),
            ApiRoute::OpenAiModels => Ok(openai_models()),
            ApiRoute::GeminiModels => Ok(gemini_models()),
            ApiRoute::GeminiModel(model) => Ok(gemini_model(model)),
            ApiRoute::Hello => Ok(json!({"message": "hello"})),
            ApiRoute::Root => Ok(Value::Null),
            ApiRoute::WrongMethod => {
                Err(ApiError::new(405, "invalid_request_error", "Method Not Allowed"))
            }
            ApiRoute::Unknown => Err(ApiError::new(404, "not_found_error", "Not Found")),
        };
        let kind = if matches!(route, ApiRoute::CountTokens | ApiRoute::GeminiCount) {
            ApiRequestKind::Count
        } else {
            ApiRequestKind::Other
        };
        match self.log(kind, parts, body).and(result) {
            Ok(Value::Null) => Response::new(Body::empty()),
            Ok(value) => json_response(value.to_string()),
            Err(error) => match ApiDialect::guess(uri.path(), is_openai) {
                Some(dialect) => error.response_in(dialect),
                None => error.response(id),
            },
        }
    }

    /// Responds in another API.
    async fn respond_in(
        &self,
        dialect: ApiDialect,
        parts: Parts,
        body: Bytes,
        mut delivery: ApiDelivery,
    ) -> Response {
        let failed = |error: &ApiError| error.response_in(dialect);
        let value: Value = match serde_json::from_slice(&body) {
            Ok(value) => value,
            Err(error) => {
                let error = ApiError::invalid_request(format!("The body is not JSON: {error}"));
                return failed(&self.log(ApiRequestKind::Main, parts, body).err().unwrap_or(error));
            }
        };
        let translated = dialect.translate(&value, &parts.uri);
        let messages = translated.body();
        let request = match ApiMessageRequest::parse(&messages) {
            Ok(request) => request,
            Err(error) => {
                return failed(&self.log(ApiRequestKind::Main, parts, body).err().unwrap_or(error));
            }
        };
        let for_itself = translated.tools.is_empty() || translated.schema.is_some();
        let is_side = is_other_agent(&parts.headers) && for_itself || request.is_title_request();
        let kind = if is_side { ApiRequestKind::Side } else { ApiRequestKind::Main };
        let choice = self.choose(&request, &messages, kind, &parts.headers);
        if let Err(error) = self.log(kind, parts, body.clone()) {
            return failed(&error);
        }
        let reply = &choice.reply;
        if let Some(name) = &reply.hold
            && delivery.wait_for_gate(name).await.is_err()
        {
            return timed_response(vec![ApiAction::Disconnect], delivery, JSON);
        }
        match &reply.content {
            ApiReplyContent::Error(error) => failed(error),
            ApiReplyContent::Recording(recording) => replay(recording, delivery).await,
            ApiReplyContent::Message(message) => {
                let cwd = tools::working_directory(&body);
                let tokens = estimate_tokens(request.text_size(&body));
                let (source, cwd) = (&reply.source, cwd.as_deref());
                let reply = ApiDialectReply::new(source, &translated, cwd, &self.ids, tokens);
                if translated.stream {
                    let content_type = if translated.as_events { EVENTS } else { JSON };
                    return timed_response(dialect.stream(&reply).actions, delivery, content_type);
                }
                let whole = Bytes::from(dialect.whole(&reply).to_string());
                let fault = message.fault.as_ref().filter(|_| !choice.without_fault);
                whole_response(whole, fault, delivery, failed)
            }
        }
    }

    async fn respond_to_message(
        &self,
        parts: Parts,
        body: Bytes,
        mut delivery: ApiDelivery,
        id: &str,
    ) -> Response {
        let request = ApiMessageRequest::parse(&body);
        let checked = request.and_then(|it| self.check(&it).map(|()| it));
        let request = match checked {
            Ok(request) => request,
            Err(error) => {
                let logged = self.log(ApiRequestKind::Main, parts, body.clone());
                return logged.err().unwrap_or(error).response(id);
            }
        };
        let kind = request_kind(&request, &parts.headers);
        let choice = self.choose(&request, &body, kind, &parts.headers);
        if let Err(error) = self.log(kind, parts, body.clone()) {
            return error.response(id);
        }
        let reply = &self.with_offered_tools(choice.reply, &request, &body);
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
                    whole_response(whole, fault, delivery, |error| error.response(id))
                }
            }
        }
    }

    /// Refuses what the API refuses although it can be parsed.
    fn check(&self, request: &ApiMessageRequest<'_>) -> Result<(), ApiError> {
        if self.refuse_unknown_models {
            check_model(&request.model)?;
        }
        request.check_tool_results()
    }

    /// Answers a request about message batches.
    fn respond_to_batch(
        &self,
        route: ApiBatchRoute<'_>,
        parts: Parts,
        body: &Bytes,
        id: &str,
    ) -> Response {
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let base_url = format!("http://{}", host.unwrap_or("localhost"));
        let (headers, uri) = (parts.headers.clone(), parts.uri.clone());
        if let Err(error) = self.log(ApiRequestKind::Other, parts, body.clone()) {
            return error.response(id);
        }
        let new_id = self.ids.id("msgbatch");
        let call = ApiBatchCall {
            route,
            query: uri.query().unwrap_or_default(),
            body,
            base_url: &base_url,
            new_id: &new_id,
        };
        match self.batches.respond(&call, |params| self.batch_result(params, &headers)) {
            Ok(ApiBatchResponse::Json(value)) => json_response(value.to_string()),
            Ok(ApiBatchResponse::Lines(lines)) => {
                let mut response = Response::new(Body::from(lines));
                response.headers_mut().insert(header::CONTENT_TYPE, JSON_LINES);
                response
            }
            Err(error) => error.response(id),
        }
    }

    /// The `result` of one request of a batch. Its reply is sent at once, and the stream faults of a
    /// scenario are errors.
    fn batch_result(&self, params: &Value, headers: &HeaderMap) -> Value {
        let failed = |error: &ApiError| {
            let error = json!({ "type": error.kind, "message": error.message });
            let error =
                json!({ "type": "error", "error": error, "request_id": self.ids.request() });
            json!({ "type": "errored", "error": error })
        };
        let body = params.to_string().into_bytes();
        let request = ApiMessageRequest::parse(&body);
        let request = match request.and_then(|it| self.check(&it).map(|()| it)) {
            Ok(request) => request,
            Err(error) => return failed(&error),
        };
        let choice = self.choose(&request, &body, ApiRequestKind::Main, headers);
        let reply = self.with_offered_tools(choice.reply, &request, &body);
        let broken = || ApiError::new(500, "api_error", "Internal server error");
        match &reply.content {
            ApiReplyContent::Error(error) => failed(error),
            ApiReplyContent::Recording(_) => failed(&broken()),
            ApiReplyContent::Message(message) => match &message.fault {
                Some(ScenarioStreamFault::SseError { kind, message }) => {
                    failed(&ApiError::from_event(kind, message))
                }
                Some(_) => failed(&broken()),
                None => {
                    let tokens = estimate_tokens(request.text_size(&body));
                    let whole = message.whole(&request, &self.ids.message(), tokens);
                    let message: Value = serde_json::from_slice(&whole).unwrap_or_default();
                    json!({ "type": "succeeded", "message": message })
                }
            },
        }
    }

    /// The reply with the tools that the request offers.
    fn with_offered_tools(
        &self,
        reply: Arc<ApiReply>,
        request: &ApiMessageRequest<'_>,
        body: &[u8],
    ) -> Arc<ApiReply> {
        let is_offered = |block: &ScenarioBlock| match block {
            ScenarioBlock::Tool { name, .. } => request.offers(name) && !tools::is_meaning(name),
            _ => true,
        };
        let is_message = matches!(reply.content, ApiReplyContent::Message(_));
        if !is_message || reply.source.blocks.iter().all(is_offered) {
            return reply;
        }
        let Ok(value) = serde_json::from_slice::<Value>(body) else { return reply };
        let offered = value["tools"].as_array().into_iter().flatten().map(|tool| OfferedTool {
            name: tool["name"].as_str().unwrap_or_default().to_owned(),
            schema: tool["input_schema"].clone(),
            ..OfferedTool::default()
        });
        let (offered, cwd) = (offered.collect::<Vec<_>>(), tools::working_directory(body));
        let blocks = tools::resolve_blocks(&reply.source.blocks, &offered, cwd.as_deref());
        let source = ScenarioReply { blocks, ..reply.source.clone() };
        Arc::new(ApiReply::prepare(&source, &self.ids))
    }

    fn choose(
        &self,
        request: &ApiMessageRequest<'_>,
        body: &[u8],
        kind: ApiRequestKind,
        headers: &HeaderMap,
    ) -> ApiReplyChoice {
        match &self.backend {
            ApiBackend::Model(responder) if kind == ApiRequestKind::Main => {
                let mut responder = responder.lock().unwrap_or_else(PoisonError::into_inner);
                responder.choose(request, body, client(headers), &self.ids)
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

/// The CLI makes side requests, and opencode makes one for a title. All requests of other clients belong
/// to the conversation.
fn request_kind(request: &ApiMessageRequest<'_>, headers: &HeaderMap) -> ApiRequestKind {
    let agent = headers.get(header::USER_AGENT);
    let is_cli = agent.is_some_and(|it| it.as_bytes().starts_with(CLI_USER_AGENT.as_bytes()));
    let is_side = is_cli && request.is_side_request() || request.is_title_request();
    if is_side { ApiRequestKind::Side } else { ApiRequestKind::Main }
}

/// Whether a client of the list of models speaks `OpenAI`'s API.
fn is_openai(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION)
        && !headers.contains_key("anthropic-version")
        && !headers.contains_key("x-api-key")
}

/// Whether this is an agent that also makes requests for its own use, such as for a title. Those have
/// no tools, or want a reply in JSON.
fn is_other_agent(headers: &HeaderMap) -> bool {
    const AGENTS: [&str; 6] = ["codex", "opencode", "geminicli", "copilot", "qwen", "vibe"];
    let agent = headers.get(header::USER_AGENT).and_then(|it| it.to_str().ok());
    let agent = agent.unwrap_or_default().to_lowercase();
    AGENTS.iter().any(|it| agent.contains(it))
}

fn client(headers: &HeaderMap) -> ApiClient<'_> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let agent = text(header::USER_AGENT.as_str()).and_then(|it| it.strip_prefix(CLI_USER_AGENT));
    let version = agent.and_then(|it| it.split_whitespace().next()?.parse::<AgentVersion>().ok());
    ApiClient { version, session: text("x-claude-code-session-id") }
}

/// A message without streaming, or the fault that replaces it.
fn whole_response(
    whole: Bytes,
    fault: Option<&ScenarioStreamFault>,
    delivery: ApiDelivery,
    failed: impl FnOnce(&ApiError) -> Response,
) -> Response {
    let half = || ApiAction::Send(whole.slice(..whole.len() / 2));
    let respond = |actions| timed_response(actions, delivery, JSON);
    match fault {
        None => json_response(whole),
        Some(ScenarioStreamFault::SseError { kind, message }) => {
            failed(&ApiError::from_event(kind, message))
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
