//! Recorded replies of a real API: reading them for `api replay FILE`, and making them by forwarding
//! requests to a real API.
//!
//! A recording is JSONL. Its first line is the head of the response, every further line a chunk of
//! the body, each with the microseconds since the previous line. A chunk is `text`, or `hex` if it is
//! not UTF-8; `cut` instead of a chunk means that the connection broke. Lines are written as the
//! chunks arrive, so a recording is complete whenever it is interrupted.
//!
//! While it forwards, [`ApiUpstream`] also writes a scenario: a `> user` line for every prompt and an
//! `api replay` line for every reply. API keys are forwarded in the headers and never written.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use super::event::ApiError;
use super::request::ApiMessageRequest;
use super::stream::ApiAction;

/// A recorded reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ApiRecording {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    /// The time until the head of the response.
    pub(super) delay: Duration,
    /// The body with its timing.
    pub(super) actions: Vec<ApiAction>,
}

/// A recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ApiRecordingError {
    #[error("could not read the recording `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` is not a recorded reply: line {line} is invalid", path.display())]
    Format {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        source: serde_json::Error,
    },
    #[error("the recording `{}` is empty", path.display())]
    Empty { path: PathBuf },
}

#[derive(Debug, Deserialize, Serialize)]
struct ApiRecordingHead {
    after_us: u64,
    status: u16,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Deserialize, Serialize)]
struct ApiRecordingLine {
    after_us: u64,
    #[serde(flatten)]
    chunk: ApiRecordingChunk,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum ApiRecordingChunk {
    Text(String),
    Hex(String),
    /// The connection broke, with this error.
    Cut(String),
}

impl ApiRecording {
    pub(super) fn load(path: &Path) -> Result<Self, ApiRecordingError> {
        let failed = |source| ApiRecordingError::Read { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ApiRecordingError> {
        let invalid =
            |line| move |source| ApiRecordingError::Format { path: path.to_owned(), line, source };
        let mut lines = text.lines().zip(1..);
        let Some((first, _)) = lines.next() else {
            return Err(ApiRecordingError::Empty { path: path.to_owned() });
        };
        let head: ApiRecordingHead = serde_json::from_str(first).map_err(invalid(1))?;
        let mut actions = Vec::new();
        for (line, number) in lines {
            let line: ApiRecordingLine = serde_json::from_str(line).map_err(invalid(number))?;
            actions.push(ApiAction::Pause(Duration::from_micros(line.after_us)));
            actions.push(match line.chunk {
                ApiRecordingChunk::Text(text) => ApiAction::Send(text.into()),
                ApiRecordingChunk::Hex(hex) => {
                    ApiAction::Send(from_hex(&hex).map_err(invalid(number))?)
                }
                ApiRecordingChunk::Cut(_) => ApiAction::Disconnect,
            });
        }
        let delay = Duration::from_micros(head.after_us);
        Ok(Self { status: head.status, headers: head.headers, delay, actions })
    }
}

/// Writes the recording of one reply.
#[derive(Debug)]
pub(super) struct ApiRecorder {
    file: File,
    latest: Instant,
}

impl ApiRecorder {
    fn new(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::create(path)?, latest: Instant::now() })
    }

    fn write_head(&mut self, status: u16, headers: Vec<(String, String)>) -> io::Result<()> {
        let after_us = self.elapsed();
        self.write_line(&ApiRecordingHead { after_us, status, headers })
    }

    fn write_chunk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let chunk = match std::str::from_utf8(bytes) {
            Ok(text) => ApiRecordingChunk::Text(text.to_owned()),
            Err(_) => ApiRecordingChunk::Hex(to_hex(bytes)),
        };
        let after_us = self.elapsed();
        self.write_line(&ApiRecordingLine { after_us, chunk })
    }

    fn write_cut(&mut self, error: &str) -> io::Result<()> {
        let after_us = self.elapsed();
        let chunk = ApiRecordingChunk::Cut(error.to_owned());
        self.write_line(&ApiRecordingLine { after_us, chunk })
    }

    /// The microseconds since the previous line.
    fn elapsed(&mut self) -> u64 {
        let now = Instant::now();
        let elapsed = now.duration_since(std::mem::replace(&mut self.latest, now));
        u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
    }

    fn write_line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes)
    }
}

/// A real API, and the scenario that is written from its replies.
#[derive(Debug)]
pub(super) struct ApiUpstream {
    client: reqwest::Client,
    url: String,
    scenario: Mutex<ApiScenarioWriter>,
}

/// The scenario being written.
#[derive(Debug)]
struct ApiScenarioWriter {
    file: File,
    path: PathBuf,
    replies: usize,
    /// The first prompt of the conversation. The conversation of a sub-agent has another one, and no
    /// user has typed its prompts.
    first_prompt: Option<String>,
    /// The fingerprint of the latest messages, to detect a repeated request.
    latest: Option<u64>,
}

/// A request to the real API.
pub(super) struct ApiUpstreamRequest(reqwest::RequestBuilder);

/// Headers that concern a single connection, and one that would compress the body.
const CONNECTION_HEADERS: [header::HeaderName; 5] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
];

/// The response headers that are recorded. Headers that identify an account are not among them.
const RECORDED_HEADERS: [&str; 4] = ["content-type", "request-id", "retry-after", "x-should-retry"];

impl ApiUpstream {
    pub(super) fn new(url: &str, out: &Path) -> io::Result<Self> {
        let url = url.trim_end_matches('/');
        // `reqwest` is built without a provider of cryptography. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(io::Error::other)?;
        let mut file = File::create(out)?;
        // The URL may contain a password, so the title has only the host.
        let host = reqwest::Url::parse(url).map_err(io::Error::other)?;
        writeln!(file, "# A conversation with {}\n", host.host_str().unwrap_or("an API"))?;
        let path = out.to_owned();
        let scenario =
            ApiScenarioWriter { file, path, replies: 0, first_prompt: None, latest: None };
        Ok(Self { client, url: url.to_owned(), scenario: Mutex::new(scenario) })
    }

    /// Adds a request to the scenario and starts the recording of its reply.
    pub(super) fn record(&self, request: &ApiMessageRequest<'_>) -> io::Result<ApiRecorder> {
        self.scenario.lock().unwrap_or_else(PoisonError::into_inner).add(request)
    }

    /// Prepares the request to the real API.
    pub(super) fn request(&self, parts: &Parts, body: Bytes) -> ApiUpstreamRequest {
        let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        let headers = without_connection_headers(&parts.headers);
        let url = format!("{}{path}", self.url);
        let request = self.client.request(parts.method.clone(), url);
        ApiUpstreamRequest(request.headers(headers).body(body))
    }
}

impl ApiScenarioWriter {
    fn add(&mut self, request: &ApiMessageRequest<'_>) -> io::Result<ApiRecorder> {
        self.replies += 1;
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{stem}.{}.jsonl", self.replies);
        if let Some(prompt) = self.user_prompt(request) {
            writeln!(self.file, "> user {}", Value::from(prompt))?;
        }
        writeln!(self.file, "api replay {}", Value::from(name.as_str()))?;
        ApiRecorder::new(&self.path.with_file_name(name))
    }

    /// The prompt of the user that caused this request, if there is one.
    fn user_prompt(&mut self, request: &ApiMessageRequest<'_>) -> Option<String> {
        let fingerprint = request.fingerprint();
        let is_repeated = self.latest.replace(fingerprint) == Some(fingerprint);
        let first = request.first_prompt();
        let is_main = *self.first_prompt.get_or_insert_with(|| first.clone()) == first;
        let latest = request.latest_message();
        let is_prompt = latest.results.is_empty() && !latest.text.is_empty();
        (is_prompt && is_main && !is_repeated).then_some(latest.text)
    }
}

impl ApiUpstreamRequest {
    /// Sends the request, and forwards and records the response chunk by chunk.
    pub(super) async fn send(
        self,
        mut recorder: Option<ApiRecorder>,
    ) -> Result<Response, ApiError> {
        let unreachable = |error: reqwest::Error| {
            let error = error.without_url();
            ApiError::new(502, "api_error", format!("could not reach the upstream API: {error}"))
        };
        let upstream = self.0.send().await.map_err(unreachable)?;
        let (status, headers) = (upstream.status(), without_connection_headers(upstream.headers()));
        if let Some(recorder) = &mut recorder {
            recorder.write_head(status.as_u16(), recorded_headers(&headers)).map_err(|error| {
                ApiError::new(500, "api_error", format!("could not record the reply: {error}"))
            })?;
        }
        let chunks = upstream.bytes_stream();
        let body = Body::from_stream(stream::unfold(Some((chunks, recorder)), async |state| {
            let (mut chunks, mut recorder) = state?;
            let chunk = chunks.next().await?;
            let written = match (&mut recorder, &chunk) {
                (Some(recorder), Ok(bytes)) => recorder.write_chunk(bytes),
                (Some(recorder), Err(error)) => recorder.write_cut(&error.to_string()),
                (None, _) => Ok(()),
            };
            let chunk = chunk.map_err(io::Error::other).and_then(|chunk| written.map(|()| chunk));
            let state = chunk.is_ok().then_some((chunks, recorder));
            Some((chunk, state))
        }));
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
        *response.headers_mut() = headers;
        Ok(response)
    }
}

fn without_connection_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in CONNECTION_HEADERS {
        headers.remove(name);
    }
    headers
}

fn recorded_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let pair =
        |name: &&str| Some(((*name).to_owned(), headers.get(*name)?.to_str().ok()?.to_owned()));
    RECORDED_HEADERS.iter().filter_map(pair).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut hex = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

fn from_hex(hex: &str) -> Result<Bytes, serde_json::Error> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let pair = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(pair).collect();
    let invalid = || serde::de::Error::custom("`hex` must consist of pairs of hexadecimal digits");
    bytes.map(Bytes::from).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{ApiAction, ApiRecorder, ApiRecording};

    #[tokio::test(start_paused = true)]
    async fn a_recording_has_the_same_bytes_and_timing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        let mut recorder = ApiRecorder::new(&path).unwrap();
        tokio::time::advance(Duration::from_millis(20)).await;
        recorder.write_head(200, headers.clone()).unwrap();
        tokio::time::advance(Duration::from_millis(7)).await;
        recorder.write_chunk("event: ä\n\n".as_bytes()).unwrap();
        recorder.write_chunk(b"\xc3").unwrap();
        recorder.write_cut("reset").unwrap();
        let pause = |millis| ApiAction::Pause(Duration::from_millis(millis));
        let actions = vec![
            pause(7),
            ApiAction::Send("event: ä\n\n".into()),
            pause(0),
            ApiAction::Send(b"\xc3"[..].into()),
            pause(0),
            ApiAction::Disconnect,
        ];
        let delay = Duration::from_millis(20);
        let expected = ApiRecording { status: 200, headers, delay, actions };
        assert_eq!(ApiRecording::load(&path).unwrap(), expected);
    }

    #[test]
    fn an_invalid_recording_is_rejected_with_its_line() {
        let parse = |text: &str| ApiRecording::parse(text, Path::new("x")).unwrap_err().to_string();
        let head = r#"{"after_us":0,"status":200,"headers":[]}"#;
        assert_eq!(parse(""), "the recording `x` is empty");
        assert_eq!(parse("{}"), "`x` is not a recorded reply: line 1 is invalid");
        for line in [r#"{"after_us":1}"#, r#"{"after_us":1,"hex":"abc"}"#, "?"] {
            let text = format!("{head}\n{line}\n");
            assert_eq!(parse(&text), "`x` is not a recorded reply: line 2 is invalid", "{line}");
        }
    }
}
