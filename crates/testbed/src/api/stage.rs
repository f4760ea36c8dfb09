//! Where a request meets its answer.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::scenario::{Trouble, Version};

use super::act::Act;
use super::answer::{Answer, Matter};
use super::catalogue;
use super::connection::Line;
use super::delivery::{self, Way};
use super::gate::Gates;
use super::ids::Ids;
use super::log::{Kind, Log};
use super::model::{Author, Client};
use super::recording::Recording;
use super::refusal::Refusal;
use super::request::Request;
use super::route::Route;
use super::script::Chosen;
use super::upstream::Upstream;
use super::usage::tokens;

/// The largest body that is read. The API itself takes 32 MB; whoever tests a limit wants to see it
/// from a scenario, not from here.
const LARGEST: usize = 128 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Everything a request meets.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) source: Source,
    pub(super) log: Log,
    pub(super) gates: Gates,
    pub(super) ids: Ids,
    pub(super) aside: Arc<Answer>,
    pub(super) stop: watch::Receiver<bool>,
}

/// Where answers come from.
#[derive(Debug)]
pub(super) enum Source {
    Model(Mutex<Author>),
    Upstream(Upstream),
}

/// Answers a request.
pub(super) async fn receive(
    State(stage): State<Arc<Stage>>,
    ConnectInfo(line): ConnectInfo<Line>,
    request: axum::extract::Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let id = stage.ids.request();
    let mut response = if let Ok(body) = axum::body::to_bytes(body, LARGEST).await {
        stage.respond(parts, body, line, &id).await
    } else {
        let message = "Request exceeds the maximum size";
        Refusal::new(413, "request_too_large", message).response(&id)
    };
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().entry(REQUEST_ID).or_insert(id);
    }
    response
}

impl Stage {
    async fn respond(&self, parts: Parts, body: Bytes, line: Line, id: &str) -> Response {
        let way = Way { gates: self.gates.clone(), stop: self.stop.clone(), line };
        if let Source::Upstream(upstream) = &self.source {
            return self.forward(upstream, parts, body, id).await;
        }
        let route = Route::of(&parts.method, parts.uri.path());
        let outcome = match route {
            Route::Messages => return self.message(parts, body, way, id).await,
            Route::CountTokens => count(&body),
            Route::Models => Ok(catalogue::page()),
            Route::Model(model) => catalogue::model(model),
            Route::Hello => Ok(json!({"message": "hello"})),
            Route::Root => Ok(Value::Null),
            Route::WrongMethod => {
                Err(Refusal::new(405, "invalid_request_error", "Method Not Allowed"))
            }
            Route::Unknown => Err(Refusal::new(404, "not_found_error", "Not Found")),
        };
        let kind = if route == Route::CountTokens { Kind::Count } else { Kind::Other };
        let outcome = self.kept(kind, parts, body).and(outcome);
        match outcome {
            Ok(Value::Null) => Response::new(Body::empty()),
            Ok(value) => as_json(value.to_string()),
            Err(refusal) => refusal.response(id),
        }
    }

    async fn message(&self, parts: Parts, body: Bytes, mut way: Way, id: &str) -> Response {
        let request = match Request::read(&body) {
            Ok(request) => request,
            Err(refusal) => {
                let outcome = self.kept(Kind::Main, parts, body.clone());
                return outcome.err().unwrap_or(refusal).response(id);
            }
        };
        let kind = kind(&request, &parts.headers);
        let chosen = self.choose(&request, kind, &parts.headers);
        if let Err(refusal) = self.kept(kind, parts, body.clone()) {
            return refusal.response(id);
        }
        let answer = &chosen.answer;
        if let Some(name) = &answer.hold
            && way.gate(name).await.is_err()
        {
            return delivered(vec![Act::Break], way, JSON);
        }
        match &answer.matter {
            Matter::Refusal(refusal) => refusal.response(id),
            Matter::Recording(recording) => replay(recording, way).await,
            Matter::Message(prepared) => {
                let input = tokens(request.legible(&body));
                let message = self.ids.message();
                if request.stream == Some(true) {
                    delivered(prepared.stream(&request, &message, input), way, EVENTS)
                } else {
                    let whole = prepared.whole(&request, &message, input);
                    // Spared, so that what could not be streamed can be said at all.
                    let spared = chosen.spared && !prepared.is_empty();
                    let trouble = prepared.trouble.as_ref().filter(|_| !spared);
                    at_once(whole, trouble, way, id)
                }
            }
        }
    }

    fn choose(&self, request: &Request<'_>, kind: Kind, headers: &HeaderMap) -> Chosen {
        match &self.source {
            Source::Model(model) if kind == Kind::Main => {
                let mut author = model.lock().unwrap_or_else(PoisonError::into_inner);
                author.answer(request, client(headers), &self.ids)
            }
            _ => Chosen { answer: Arc::clone(&self.aside), spared: false },
        }
    }

    async fn forward(&self, upstream: &Upstream, parts: Parts, body: Bytes, id: &str) -> Response {
        let route = Route::of(&parts.method, parts.uri.path());
        let request = match route {
            Route::Messages => Request::read(&body).ok(),
            _ => None,
        };
        let kind = match (&request, route) {
            (Some(request), _) => kind(request, &parts.headers),
            (None, Route::CountTokens) => Kind::Count,
            (None, _) => Kind::Other,
        };
        let recorded = request.as_ref().filter(|_| kind == Kind::Main);
        let tape = match recorded.map(|request| upstream.tape(request)).transpose() {
            Ok(tape) => tape,
            Err(error) => return could_not_keep(&error).response(id),
        };
        let call = upstream.call(&parts, body.clone());
        if let Err(refusal) = self.kept(kind, parts, body.clone()) {
            return refusal.response(id);
        }
        call.answer(tape).await.unwrap_or_else(|refusal| refusal.response(id))
    }

    fn kept(&self, kind: Kind, parts: Parts, body: Bytes) -> Result<(), Refusal> {
        self.log.add(kind, parts, body).map_err(|error| could_not_keep(&error))
    }
}

fn could_not_keep(error: &std::io::Error) -> Refusal {
    Refusal::new(500, "api_error", format!("could not write the request down: {error}"))
}

fn count(body: &[u8]) -> Result<Value, Refusal> {
    let request = Request::read_countable(body)?;
    Ok(json!({"input_tokens": tokens(request.legible(body))}))
}

/// Only the CLI asks on the side; for any other client every request is the conversation.
fn kind(request: &Request<'_>, headers: &HeaderMap) -> Kind {
    let of_cli = headers.get(header::USER_AGENT).is_some_and(|it| it.as_bytes().starts_with(CLI));
    if of_cli && request.is_aside() { Kind::Side } else { Kind::Main }
}

const CLI: &[u8] = b"claude-cli/";

fn client(headers: &HeaderMap) -> Client<'_> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let agent = text(header::USER_AGENT.as_str()).and_then(|it| it.strip_prefix("claude-cli/"));
    let version = agent.and_then(|it| it.split_whitespace().next()?.parse::<Version>().ok());
    Client { version, session: text("x-claude-code-session-id") }
}

/// A message in one piece, or what goes wrong with it.
fn at_once(whole: Bytes, trouble: Option<&Trouble>, way: Way, id: &str) -> Response {
    let half = || Act::Send(whole.slice(..whole.len() / 2));
    match trouble {
        None => as_json(whole),
        Some(Trouble::SseError { kind, message }) => Refusal::of_kind(kind, message).response(id),
        Some(Trouble::Disconnect) => delivered(vec![half(), Act::Break], way, JSON),
        Some(Trouble::Truncate) => delivered(vec![half()], way, JSON),
        Some(Trouble::Stall) => delivered(vec![half(), Act::Stall], way, JSON),
        Some(Trouble::Garbage) => as_json("<html>this is no message</html>"),
    }
}

async fn replay(recording: &Recording, way: Way) -> Response {
    tokio::time::sleep(recording.wait).await;
    let mut response = Response::new(delivery::body(recording.acts.clone(), way));
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

fn delivered(acts: Vec<Act>, way: Way, content_type: HeaderValue) -> Response {
    let mut response = Response::new(delivery::body(acts, way));
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

fn as_json(body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}
