//! A real API behind this one: requests go there, and what comes back is kept as a scenario.
//!
//! The scenario grows while the conversation goes on: a `> user` line for every prompt, an
//! `api replay` line for every reply, and beside it one recording a reply. Keys pass through in the
//! headers of the request, and of those nothing is written down.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde_json::Value;

use super::recording::Tape;
use super::refusal::Refusal;
use super::request::Request;

/// The real API, and where its replies are kept.
#[derive(Debug)]
pub(super) struct Upstream {
    client: reqwest::Client,
    url: String,
    book: Mutex<Book>,
}

/// The scenario being written.
#[derive(Debug)]
struct Book {
    file: File,
    path: PathBuf,
    replies: usize,
    /// How the conversation began: a sub-agent's begins otherwise, and its prompts are no person's.
    beginning: Option<String>,
    /// The newest messages, which come again when a request is repeated.
    newest: Option<u64>,
}

/// A request on its way to the real API.
pub(super) struct Call(reqwest::RequestBuilder);

/// Headers that are about one connection, and one that would have the bytes come packed.
const OF_THE_CONNECTION: [header::HeaderName; 5] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::ACCEPT_ENCODING,
];

/// Headers of a response that a replay gives again. Those that name an account are not among them.
const REPLAYED: [&str; 4] = ["content-type", "request-id", "retry-after", "x-should-retry"];

impl Upstream {
    pub(super) fn new(url: &str, out: &Path) -> io::Result<Self> {
        let url = url.trim_end_matches('/');
        // The process has one provider of cryptography; `reqwest` brings none. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(io::Error::other)?;
        let mut file = File::create(out)?;
        // An address may hold a password, so only the host is named.
        let host = reqwest::Url::parse(url).map_err(io::Error::other)?;
        writeln!(file, "# A conversation with {}\n", host.host_str().unwrap_or("an API"))?;
        let path = out.to_owned();
        let book = Mutex::new(Book { file, path, replies: 0, beginning: None, newest: None });
        Ok(Self { client, url: url.to_owned(), book })
    }

    /// Writes the request into the scenario and begins the recording of its reply.
    pub(super) fn tape(&self, request: &Request<'_>) -> io::Result<Tape> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner).reply(request)
    }

    /// Prepares the request that goes upstream.
    pub(super) fn call(&self, parts: &Parts, body: Bytes) -> Call {
        let path = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        let mut headers = parts.headers.clone();
        for name in OF_THE_CONNECTION {
            headers.remove(name);
        }
        let url = format!("{}{path}", self.url);
        Call(self.client.request(parts.method.clone(), url).headers(headers).body(body))
    }
}

impl Book {
    fn reply(&mut self, request: &Request<'_>) -> io::Result<Tape> {
        self.replies += 1;
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{stem}.{}.jsonl", self.replies);
        if let Some(prompt) = self.prompt(request) {
            writeln!(self.file, "> user {}", Value::from(prompt))?;
        }
        writeln!(self.file, "api replay {}", Value::from(name.as_str()))?;
        Tape::new(&self.path.with_file_name(name))
    }

    /// What a person typed to bring this request about, if that is what did.
    fn prompt(&mut self, request: &Request<'_>) -> Option<String> {
        let fingerprint = request.fingerprint();
        let repeated = self.newest.replace(fingerprint) == Some(fingerprint);
        let first = request.first_prompt();
        let of_a_person = *self.beginning.get_or_insert_with(|| first.clone()) == first;
        let newest = request.newest();
        let typed = newest.results.is_empty() && !newest.typed.is_empty();
        (typed && of_a_person && !repeated).then_some(newest.typed)
    }
}

impl Call {
    /// Sends the request; what comes back is passed on piece by piece, and kept.
    pub(super) async fn answer(self, mut tape: Option<Tape>) -> Result<Response, Refusal> {
        let unreachable = |error: reqwest::Error| {
            let error = error.without_url();
            Refusal::new(502, "api_error", format!("could not reach the upstream: {error}"))
        };
        let upstream = self.0.send().await.map_err(unreachable)?;
        let (status, headers) = (upstream.status(), passed_on(upstream.headers()));
        if let Some(tape) = &mut tape {
            tape.head(status.as_u16(), replayed(&headers)).map_err(|error| lost(&error))?;
        }
        let pieces = upstream.bytes_stream();
        let body = Body::from_stream(stream::unfold(Some((pieces, tape)), async |state| {
            let (mut pieces, mut tape) = state?;
            let piece = pieces.next().await?;
            let kept = match (&mut tape, &piece) {
                (Some(tape), Ok(bytes)) => tape.piece(bytes),
                (Some(tape), Err(error)) => tape.cut(&error.to_string()),
                (None, _) => Ok(()),
            };
            let piece = piece.map_err(io::Error::other).and_then(|piece| kept.map(|()| piece));
            let state = piece.is_ok().then_some((pieces, tape));
            Some((piece, state))
        }));
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(status.as_u16()).unwrap_or(StatusCode::BAD_GATEWAY);
        *response.headers_mut() = headers;
        Ok(response)
    }
}

fn lost(error: &io::Error) -> Refusal {
    Refusal::new(500, "api_error", format!("could not write the reply down: {error}"))
}

fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
    headers
}

fn replayed(headers: &HeaderMap) -> Vec<(String, String)> {
    let pair =
        |name: &&str| Some(((*name).to_owned(), headers.get(*name)?.to_str().ok()?.to_owned()));
    REPLAYED.iter().filter_map(pair).collect()
}
