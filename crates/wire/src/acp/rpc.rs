//! JSON-RPC 2.0 messages, one per line.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use thiserror::Error;

use crate::json::{Raw, Shape};

/// The id of a request, exactly as its sender wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RpcId(Box<str>);

/// A message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum RpcMessage<'a> {
    Request {
        id: RpcId,
        method: Cow<'a, str>,
        params: Option<Raw<'a>>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<Raw<'a>>,
    },
    /// The answer to a request of the agent.
    Response {
        id: RpcId,
        result: Result<Raw<'a>, RpcError>,
    },
}

/// An error as JSON-RPC has it.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{message}")]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    /// Details for programs.
    pub data: Option<Value>,
}

/// The codes that JSON-RPC and the protocol define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RpcErrorCode {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    /// The session is not known, or the client has not opened it.
    ResourceNotFound,
}

/// A line that is no message, and the error to answer it with.
#[derive(Clone, Debug, PartialEq)]
pub struct UnreadableMessage {
    /// `null` unless the line has an id that can be read.
    pub id: RpcId,
    pub error: RpcError,
}

impl RpcErrorCode {
    pub const fn number(self) -> i64 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::ResourceNotFound => -32002,
        }
    }
}

impl RpcError {
    pub fn new(code: RpcErrorCode, message: impl Into<String>) -> Self {
        Self { code: code.number(), message: message.into(), data: None }
    }

    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(RpcErrorCode::InvalidParams, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(RpcErrorCode::Internal, message)
    }

    pub fn method_not_found(method: &str) -> Self {
        let message = format!("there is no method `{method}`");
        Self::new(RpcErrorCode::MethodNotFound, message).with_data(json!({ "method": method }))
    }

    pub fn session_not_found(session: &str) -> Self {
        let message = format!("there is no session `{session}`, or it was not opened");
        let data = json!({ "sessionId": session });
        Self::new(RpcErrorCode::ResourceNotFound, message).with_data(data)
    }
}

impl RpcId {
    pub fn null() -> Self {
        Self("null".into())
    }

    /// The id of a request of the agent.
    pub fn number(number: u64) -> Self {
        Self(number.to_string().into())
    }

    /// The number, if the id is one that [`number`](Self::number) could have made.
    pub fn as_number(&self) -> Option<u64> {
        self.0.parse().ok()
    }

    /// Its JSON.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An id is a string, a number or null.
    pub fn of(raw: Raw<'_>) -> Option<Self> {
        let is_id = matches!(raw.shape(), Shape::String | Shape::Number | Shape::Null);
        is_id.then(|| Self(raw.as_str().into()))
    }
}

impl Serialize for RpcId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Reads a line.
pub fn read_message(line: &[u8]) -> Result<RpcMessage<'_>, UnreadableMessage> {
    let unreadable =
        |id, code, message: &str| UnreadableMessage { id, error: RpcError::new(code, message) };
    let parsed = std::str::from_utf8(line).ok().and_then(Raw::parse);
    let Some(message) = parsed else {
        return Err(unreadable(RpcId::null(), RpcErrorCode::Parse, "the line is not JSON"));
    };
    let invalid = |id, message| Err(unreadable(id, RpcErrorCode::InvalidRequest, message));
    if message.shape() != Shape::Object {
        return invalid(
            RpcId::null(),
            "the line is not a JSON-RPC object; batches are not supported",
        );
    }
    let (mut id, mut method, mut params, mut result, mut error) = (None, None, None, None, None);
    let mut is_rpc = false;
    for (key, value) in message.fields() {
        match &*key.decode() {
            "jsonrpc" => is_rpc = value.text().is_some_and(|it| it == "2.0"),
            "id" => id = Some(value),
            "method" => method = Some(value),
            "params" => params = Some(value),
            "result" => result = Some(value),
            "error" => error = Some(value),
            _ => {}
        }
    }
    let Some(id) = id.map_or(Some(None), |it| RpcId::of(it).map(Some)) else {
        return invalid(RpcId::null(), "the id is not a string, a number or null");
    };
    let known_id = || id.clone().unwrap_or_else(RpcId::null);
    if !is_rpc {
        return invalid(known_id(), "the line has no `\"jsonrpc\": \"2.0\"`");
    }
    let params = params.filter(|it| it.shape() != Shape::Null);
    if params.is_some_and(|it| it.shape() != Shape::Object) {
        return Err(unreadable(
            known_id(),
            RpcErrorCode::InvalidParams,
            "`params` is not an object",
        ));
    }
    match (method, id, result, error) {
        (Some(method), id, None, None) => {
            let Some(method) = method.text() else {
                return invalid(id.unwrap_or_else(RpcId::null), "`method` is not a string");
            };
            let method = method.decode();
            Ok(match id {
                Some(id) => RpcMessage::Request { id, method, params },
                None => RpcMessage::Notification { method, params },
            })
        }
        (None, Some(id), Some(result), None) => Ok(RpcMessage::Response { id, result: Ok(result) }),
        (None, Some(id), None, Some(error)) => {
            Ok(RpcMessage::Response { id, result: Err(read_error(error)) })
        }
        (_, id, ..) => {
            invalid(id.unwrap_or_else(RpcId::null), "the line is neither a request nor a response")
        }
    }
}

/// An error in any shape is an error.
#[expect(clippy::cast_possible_truncation, reason = "codes are small")]
fn read_error(error: Raw<'_>) -> RpcError {
    let code = error.get("code").and_then(Raw::number).map_or(0, |it| it as i64);
    let message = error.get("message").and_then(Raw::text);
    let message = message.map_or_else(|| error.as_str().to_owned(), |it| it.decode().into_owned());
    RpcError { code, message, data: None }
}

#[cfg(test)]
mod tests {
    use super::{RpcId, RpcMessage, read_message};

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        let line =
            br#"{"jsonrpc":"2.0","id":"a\u0062","method":"session/new","params":{"cwd":"/"}}"#;
        let Ok(RpcMessage::Request { id, method, params }) = read_message(line) else { panic!() };
        assert_eq!((id.as_str(), &*method), (r#""a\u0062""#, "session/new"));
        assert_eq!(params.unwrap().as_str(), r#"{"cwd":"/"}"#);
        let line = br#"{"jsonrpc":"2.0","method":"session/cancel","params":null}"#;
        assert!(matches!(read_message(line), Ok(RpcMessage::Notification { params: None, .. })));
        let line = br#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
        let Ok(RpcMessage::Response { id, result }) = read_message(line) else { panic!() };
        assert_eq!((id, result.is_ok()), (RpcId::number(7), true));
        let line = br#"{"jsonrpc":"2.0","id":7,"error":{"code":-32800,"message":"no"}}"#;
        let Ok(RpcMessage::Response { result, .. }) = read_message(line) else { panic!() };
        assert_eq!(result.unwrap_err().code, -32800);
    }

    #[test]
    fn an_unreadable_line_says_what_to_answer() {
        for (line, code, id) in [
            ("", -32700, "null"),
            ("this is no json", -32700, "null"),
            ("{\"jsonrpc\":\"2.0\"", -32700, "null"),
            ("[]", -32600, "null"),
            ("7", -32600, "null"),
            (r#"{"not":"json-rpc"}"#, -32600, "null"),
            (r#"{"jsonrpc":"1.0","id":3,"method":"x"}"#, -32600, "3"),
            (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600, "null"),
            (r#"{"jsonrpc":"2.0","id":3,"method":4}"#, -32600, "3"),
            (r#"{"jsonrpc":"2.0","id":3}"#, -32600, "3"),
            (r#"{"jsonrpc":"2.0","id":3,"result":1,"error":{}}"#, -32600, "3"),
            (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":[1]}"#, -32602, "3"),
        ] {
            let error = read_message(line.as_bytes()).unwrap_err();
            assert_eq!((error.error.code, error.id.as_str()), (code, id), "{line}");
        }
        assert_eq!(read_message(b"\xff").unwrap_err().error.code, -32700);
    }
}
