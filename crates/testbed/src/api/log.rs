//! What the API was asked, kept for whoever looks at it later.
//!
//! A request is kept before it is answered, so whoever has an answer finds the request. Keys are
//! blotted out on the way in: nothing here ever holds one.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
use bytes::Bytes;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::watch;

/// A request to the API.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// Which it was of all requests, from 1 on.
    pub number: usize,
    /// What it was for.
    pub kind: Kind,
    /// `POST`
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The headers; keys and tokens are blotted out.
    pub headers: Vec<(String, String)>,
    /// The body; a string where it is no JSON, `null` where there is none.
    pub body: Value,
}

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A message of a conversation.
    Main,
    /// A message the CLI wants for itself: a title, a quota probe.
    Side,
    /// A count of tokens.
    Count,
    /// Anything else.
    Other,
}

/// All requests so far.
#[derive(Debug)]
pub(super) struct Log {
    book: Mutex<Book>,
    mains: watch::Sender<usize>,
}

#[derive(Debug)]
struct Book {
    count: usize,
    kept: Option<Vec<Entry>>,
    file: Option<File>,
    line: Vec<u8>,
}

#[derive(Debug)]
struct Entry {
    number: usize,
    kind: Kind,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Log {
    /// A log that keeps requests in memory or not, and in a file or not.
    pub(super) fn new(keep: bool, file: Option<&Path>) -> io::Result<Self> {
        let file = file.map(File::create).transpose()?;
        let kept = keep.then(Vec::new);
        let book = Mutex::new(Book { count: 0, kept, file, line: Vec::new() });
        Ok(Self { book, mains: watch::Sender::new(0) })
    }

    pub(super) fn add(&self, kind: Kind, parts: Parts, body: Bytes) -> io::Result<()> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.count += 1;
        if book.kept.is_some() || book.file.is_some() {
            let mut headers = parts.headers;
            blot(&mut headers);
            let path = parts.uri.path_and_query().map_or("/", |it| it.as_str()).to_owned();
            let (number, method) = (book.count, parts.method);
            let entry = Entry { number, kind, method, path, headers, body };
            book.write(&entry)?;
            if let Some(kept) = &mut book.kept {
                kept.push(entry);
            }
        }
        if kind == Kind::Main {
            self.mains.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.read(|_| true)
    }

    /// The n-th request of a conversation, from 1 on; waits until it is there.
    pub(super) async fn main_request(&self, number: usize) -> Option<RecordedRequest> {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.mains.subscribe().wait_for(|count| *count >= number).await;
        self.read(|kind| kind == Kind::Main).into_iter().nth(number.checked_sub(1)?)
    }

    fn read(&self, wanted: impl Fn(Kind) -> bool) -> Vec<RecordedRequest> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = book.kept.iter().flatten();
        entries.filter(|entry| wanted(entry.kind)).map(Entry::read).collect()
    }
}

impl Book {
    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.line.clear();
        serde_json::to_writer(&mut self.line, entry)?;
        self.line.push(b'\n');
        file.write_all(&self.line)
    }
}

impl Entry {
    fn read(&self) -> RecordedRequest {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = self.headers.iter().map(|(name, value)| (name.to_string(), text(value)));
        RecordedRequest {
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

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("Request", 6)?;
        entry.serialize_field("number", &self.number)?;
        entry.serialize_field("kind", &self.kind)?;
        entry.serialize_field("method", self.method.as_str())?;
        entry.serialize_field("path", &self.path)?;
        entry.serialize_field("headers", &Headers(&self.headers))?;
        // A body on one line is copied as it stands, which keeps its bytes and costs nothing.
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

struct Headers<'a>(&'a HeaderMap);

impl<'a> Serialize for Headers<'a> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = |value: &'a HeaderValue| String::from_utf8_lossy(value.as_bytes());
        serializer.collect_map(self.0.iter().map(|(name, value)| (name.as_str(), text(value))))
    }
}

/// Blots out what lets someone in.
fn blot(headers: &mut HeaderMap) {
    const SECRET: [&str; 4] = ["x-api-key", "authorization", "proxy-authorization", "cookie"];
    for name in SECRET {
        // `insert` replaces every value of the name.
        if headers.contains_key(name) {
            headers.insert(name, HeaderValue::from_static("(redacted)"));
        }
    }
}
