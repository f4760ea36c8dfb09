//! An MCP server over HTTP beside the API, so that scenarios have one without a program of their own.
//!
//! It has one tool, `add`. `/mcp` answers each message in its response, and `/sse` sends the answers
//! as events of one long response.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

/// Events that wait for a client. More are dropped with the client.
const WAITING_EVENTS: usize = 64;

/// The server and its open streams of events.
#[derive(Debug, Default)]
pub(super) struct ApiMcpServer {
    streams: Mutex<BTreeMap<u64, mpsc::Sender<Bytes>>>,
}

impl ApiMcpServer {
    /// Responds if the path is one of this server.
    pub(super) fn respond(
        &self,
        parts: &Parts,
        body: &[u8],
        stop: &watch::Receiver<bool>,
    ) -> Option<Response> {
        let is_post = parts.method == Method::POST;
        match parts.uri.path() {
            "/mcp" if is_post => Some(match answer(body) {
                Some(answer) => response("application/json", Body::from(answer.to_string())),
                None => accepted(),
            }),
            // There are no unsolicited messages.
            "/mcp" => Some(with_status(StatusCode::METHOD_NOT_ALLOWED)),
            "/sse" if parts.method == Method::GET => Some(self.open(stop.clone())),
            path => {
                let id = path.strip_prefix("/sse/").filter(|_| is_post)?.parse().ok()?;
                Some(self.post(id, body))
            }
        }
    }

    /// Opens a stream of events. The first names the path for messages.
    fn open(&self, stop: watch::Receiver<bool>) -> Response {
        let (sender, events) = mpsc::channel(WAITING_EVENTS);
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let id = streams.last_key_value().map_or(1, |(last, _)| last + 1);
        streams.insert(id, sender);
        let first = Bytes::from(format!("event: endpoint\ndata: /sse/{id}\n\n"));
        let events = stream::unfold(
            (Some(first), events, stop),
            |(first, mut events, mut stop)| async move {
                let event = if let Some(first) = first {
                    first
                } else {
                    tokio::select! {
                        event = events.recv() => event?,
                        _ = stop.wait_for(|stop| *stop) => return None,
                    }
                };
                Some((Ok::<_, Infallible>(event), (None, events, stop)))
            },
        );
        response("text/event-stream", Body::from_stream(events))
    }

    fn post(&self, id: u64, body: &[u8]) -> Response {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = streams.get(&id) else { return with_status(StatusCode::NOT_FOUND) };
        if let Some(answer) = answer(body) {
            let event = Bytes::from(format!("event: message\ndata: {answer}\n\n"));
            if sender.try_send(event).is_err() {
                streams.remove(&id);
            }
        }
        accepted()
    }
}

fn with_status(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn accepted() -> Response {
    with_status(StatusCode::ACCEPTED)
}

fn response(content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let value = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

/// The answer to a request; a notification has none.
fn answer(body: &[u8]) -> Option<Value> {
    let message: Value = serde_json::from_slice(body).ok()?;
    let id = message.get("id")?;
    let number = |name: &str| message["params"]["arguments"][name].as_i64().unwrap_or_default();
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": "calculator", "version": "1" },
        }),
        "tools/list" => {
            let number = json!({ "type": "integer" });
            let properties = json!({ "a": number, "b": number });
            json!({ "tools": [{
                "name": "add", "description": "Adds two numbers",
                "inputSchema": { "type": "object", "properties": properties },
            }] })
        }
        "tools/call" => {
            let sum = number("a").saturating_add(number("b")).to_string();
            json!({ "content": [{ "type": "text", "text": sum }] })
        }
        "ping" => json!({}),
        method => {
            let error = json!({ "code": -32601, "message": format!("no method `{method}`") });
            return Some(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    };
    Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}
