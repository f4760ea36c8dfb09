//! The log of requests to the API.
//!
//! A request is logged before it is answered, so that a client with an answer can rely on the log.
//! API keys are redacted before anything is stored.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Uri};
use bytes::Bytes;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;

/// A request to the API.
#[derive(Clone, Debug)]
pub struct ApiRequestRecord {
    /// The number among all requests, counted from 1.
    pub number: usize,
    pub kind: ApiRequestKind,
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The headers, with keys and tokens redacted.
    pub headers: Vec<(String, String)>,
    /// The body: a string if it is not JSON, `null` if there is none.
    pub body: Value,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ApiRequestKind {
    /// A message of a conversation.
    Main,
    /// A message that the CLI requests for its own use, such as a title or a quota check.
    Side,
    /// A token count.
    Count,
    Other,
}

/// All requests so far.
#[derive(Debug)]
pub(super) struct ApiRequestLog {
    state: Mutex<ApiRequestLogState>,
    main_requests: watch::Sender<usize>,
}

#[derive(Debug)]
struct ApiRequestLogState {
    count: usize,
    entries: Option<Vec<ApiRequestLogEntry>>,
    file: Option<File>,
    line: Vec<u8>,
}

/// A request as it was received. It is converted to a record only when a test asks for it.
#[derive(Debug)]
struct ApiRequestLogEntry {
    number: usize,
    kind: ApiRequestKind,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl ApiRequestLog {
    /// A log that keeps requests in memory, writes them to a file, both or neither.
    pub(super) fn new(keep: bool, file: Option<&Path>) -> io::Result<Self> {
        let file = file.map(File::create).transpose()?;
        let entries = keep.then(Vec::new);
        let state = ApiRequestLogState { count: 0, entries, file, line: Vec::new() };
        Ok(Self { state: Mutex::new(state), main_requests: watch::Sender::new(0) })
    }

    pub(super) fn add(&self, kind: ApiRequestKind, parts: Parts, body: Bytes) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.count += 1;
        if state.entries.is_some() || state.file.is_some() {
            let mut headers = parts.headers;
            redact(&mut headers);
            let path = redacted_path(&parts.uri);
            let (number, method) = (state.count, parts.method);
            let entry = ApiRequestLogEntry { number, kind, method, path, headers, body };
            state.write(&entry)?;
            if let Some(entries) = &mut state.entries {
                entries.push(entry);
            }
        }
        if kind == ApiRequestKind::Main {
            self.main_requests.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    pub(super) fn requests(&self) -> Vec<ApiRequestRecord> {
        self.records(|_| true)
    }

    /// The n-th request of a conversation, counted from 1. Waits until it is made.
    pub(super) async fn main_request(&self, number: usize) -> Option<ApiRequestRecord> {
        // `self` owns the sender, so waiting cannot fail.
        let _ = self.main_requests.subscribe().wait_for(|count| *count >= number).await;
        let is_main = |kind| kind == ApiRequestKind::Main;
        self.records(is_main).into_iter().nth(number.checked_sub(1)?)
    }

    fn records(&self, filter: impl Fn(ApiRequestKind) -> bool) -> Vec<ApiRequestRecord> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = state.entries.iter().flatten();
        entries.filter(|entry| filter(entry.kind)).map(ApiRequestLogEntry::record).collect()
    }
}

impl ApiRequestLogState {
    fn write(&mut self, entry: &ApiRequestLogEntry) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.line.clear();
        serde_json::to_writer(&mut self.line, entry)?;
        self.line.push(b'\n');
        file.write_all(&self.line)
    }
}

impl ApiRequestLogEntry {
    fn record(&self) -> ApiRequestRecord {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = self.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        ApiRequestRecord {
            number: self.number,
            kind: self.kind,
            method: self.method.to_string(),
            path: self.path.clone(),
            headers: headers.collect(),
            body: self.body_value(),
        }
    }

    fn body_value(&self) -> Value {
        if self.body.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| String::from_utf8_lossy(&self.body).into())
    }
}

impl Serialize for ApiRequestLogEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("Request", 6)?;
        entry.serialize_field("number", &self.number)?;
        entry.serialize_field("kind", &self.kind)?;
        entry.serialize_field("method", self.method.as_str())?;
        entry.serialize_field("path", &self.path)?;
        entry.serialize_field("headers", &ApiRequestLogHeaders(&self.headers))?;
        // A body on one line is copied unchanged, which keeps its bytes and is cheap.
        let raw = (!self.body.contains(&b'\n'))
            .then(|| serde_json::from_slice::<&RawValue>(&self.body).ok())
            .flatten();
        match raw {
            Some(raw) => entry.serialize_field("body", raw)?,
            None => entry.serialize_field("body", &self.body_value())?,
        }
        entry.end()
    }
}

struct ApiRequestLogHeaders<'a>(&'a HeaderMap);

impl<'a> Serialize for ApiRequestLogHeaders<'a> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |value: &'a HeaderValue| String::from_utf8_lossy(value.as_bytes());
        serializer.collect_map(self.0.iter().map(|(name, value)| (name.as_str(), text(value))))
    }
}

/// Replaces the values of headers that hold credentials.
fn redact(headers: &mut HeaderMap) {
    const SECRET: [&str; 6] = [
        "x-api-key",
        "x-goog-api-key",
        "api-key",
        "authorization",
        "proxy-authorization",
        "cookie",
    ];
    for name in SECRET {
        // `insert` replaces every value of the header.
        if headers.contains_key(name) {
            headers.insert(name, HeaderValue::from_static("(redacted)"));
        }
    }
}

/// The path with its query. Gemini accepts its key there.
fn redacted_path(uri: &Uri) -> String {
    let Some(query) = uri.query() else { return uri.path().to_owned() };
    let redacted = |it| if str::starts_with(it, "key=") { "key=(redacted)" } else { it };
    let query: Vec<&str> = query.split('&').map(redacted).collect();
    format!("{}?{}", uri.path(), query.join("&"))
}
