//! A web server that accepts `PUT` and `DELETE`.
//!
//! The `ETag` of a file is sent back as `If-Match` with its next version, so that a change by another
//! client is not overwritten. If a version was stored but the reply was lost, the server refuses the next
//! one. Then the target looks at what is stored there, and continues if it is what it has sent.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH};
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode, Url};
use sha2::{Digest as _, Sha256};

use super::{PushError, TargetError};
use crate::files::{FileVersion, SourceFile};
use crate::project::ProjectFile;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many versions of a file are remembered of which it is not known whether they were stored.
const MAX_UNCONFIRMED: usize = 16;

/// A web server.
#[derive(Debug)]
pub struct HttpTarget {
    client: Client,
    base: Url,
    token: Option<String>,
    name: String,
    tags: HashMap<ProjectFile, HeaderValue>,
    /// What was sent since the server last confirmed a version.
    unconfirmed: HashMap<ProjectFile, Vec<SentContent>>,
}

/// A version of a file that was sent, at least in part. Clones share the digest.
#[derive(Clone, Debug)]
struct SentContent {
    version: FileVersion,
    digest: Arc<Mutex<ContentDigest>>,
}

/// The digest of content that arrives in parts.
#[derive(Clone, Debug, Default)]
struct ContentDigest {
    hash: Sha256,
    length: u64,
}

/// What the server has stored after it refused a request.
enum StoredContent {
    /// Something that was sent before.
    Sent(SentContent),
    Other,
    Missing,
}

impl HttpTarget {
    /// The server at an address, with a bearer token if it needs one. Files go below the address.
    pub fn new(address: &str, token: Option<String>) -> Result<Self, TargetError> {
        let error = || TargetError::Address(address.to_owned());
        let base = Url::parse(address).map_err(|_| error())?;
        if base.cannot_be_a_base() || base.host_str().is_none() {
            return Err(error());
        }
        // `reqwest` is built without a provider of cryptography. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(TargetError::Client)?;
        let name = without_secrets(&base);
        let (tags, unconfirmed) = (HashMap::new(), HashMap::new());
        Ok(Self { client, base, token, name, tags, unconfirmed })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn write(
        &mut self,
        file: &ProjectFile,
        source: SourceFile,
    ) -> Result<(), PushError> {
        let version = source.version();
        let sent = SentContent { version, digest: Arc::default() };
        let unconfirmed = self.unconfirmed.entry(file.clone()).or_default();
        unconfirmed.drain(..unconfirmed.len().saturating_sub(MAX_UNCONFIRMED - 1));
        unconfirmed.push(sent.clone());
        let chunks = stream::try_unfold((source, sent), |(mut source, sent)| async move {
            let chunk = source.chunk().await?;
            if let Some(chunk) = &chunk {
                sent.digest().update(chunk);
            }
            Ok::<_, std::io::Error>(chunk.map(|chunk| (chunk, (source, sent))))
        });
        let request = self
            .request(Method::PUT, file)?
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, version.length)
            .body(Body::wrap_stream(chunks));
        let response = self.with_tag(request, file).send().await.map_err(request_error)?;
        if response.status() == StatusCode::PRECONDITION_FAILED {
            return match self.look_up(file).await? {
                // This version arrived before.
                StoredContent::Sent(sent) if sent.version == version => {
                    self.unconfirmed.remove(file);
                    Ok(())
                }
                StoredContent::Sent(_) => {
                    let reason = "an earlier version had arrived, although its reply was lost";
                    Err(PushError::Temporary(reason.to_owned()))
                }
                StoredContent::Other | StoredContent::Missing => Err(conflict()),
            };
        }
        let response = check_status(response)?;
        self.unconfirmed.remove(file);
        self.set_tag(file, &response);
        Ok(())
    }

    pub(super) async fn delete(&mut self, file: &ProjectFile) -> Result<(), PushError> {
        // A tag is learned at most once, so this ends.
        for _ in 0..2 {
            let request = self.request(Method::DELETE, file)?;
            let response = self.with_tag(request, file).send().await.map_err(request_error)?;
            match response.status() {
                // It is already deleted.
                StatusCode::NOT_FOUND | StatusCode::GONE => {}
                StatusCode::PRECONDITION_FAILED => match self.look_up(file).await? {
                    StoredContent::Sent(_) => continue,
                    StoredContent::Missing => {}
                    StoredContent::Other => return Err(conflict()),
                },
                _ => drop(check_status(response)?),
            }
            self.tags.remove(file);
            self.unconfirmed.remove(file);
            return Ok(());
        }
        Err(conflict())
    }

    /// Reads what the server has stored. If it was sent from here, its tag is used from now on.
    async fn look_up(&mut self, file: &ProjectFile) -> Result<StoredContent, PushError> {
        let mut response = self.request(Method::GET, file)?.send().await.map_err(request_error)?;
        if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::GONE) {
            return Ok(StoredContent::Missing);
        }
        let is_success = response.status().is_success();
        let unconfirmed = self.unconfirmed.get(file).cloned().unwrap_or_default();
        let longest = unconfirmed.iter().map(|it| it.digest().length).max().unwrap_or_default();
        let mut stored = ContentDigest::default();
        // A server that does not allow to read a file may still store it.
        while is_success && let Some(chunk) = response.chunk().await.map_err(request_error)? {
            stored.update(&chunk);
            if stored.length > longest {
                return Ok(StoredContent::Other);
            }
        }
        let sent = unconfirmed.into_iter().rfind(|it| it.digest().is_same(&stored));
        let Some(sent) = sent.filter(|_| is_success) else { return Ok(StoredContent::Other) };
        self.set_tag(file, &response);
        Ok(StoredContent::Sent(sent))
    }

    fn with_tag(&self, request: RequestBuilder, file: &ProjectFile) -> RequestBuilder {
        match self.tags.get(file) {
            Some(tag) => request.header(IF_MATCH, tag),
            None => request,
        }
    }

    fn set_tag(&mut self, file: &ProjectFile, response: &Response) {
        // A weak tag never matches.
        let tag = response.headers().get(ETAG).filter(|it| !it.as_bytes().starts_with(b"W/"));
        match tag {
            Some(tag) => self.tags.insert(file.clone(), tag.clone()),
            None => self.tags.remove(file),
        };
    }

    fn request(&self, method: Method, file: &ProjectFile) -> Result<RequestBuilder, PushError> {
        let request = self.client.request(method, self.address(file)?);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        })
    }

    fn address(&self, file: &ProjectFile) -> Result<Url, PushError> {
        let mut address = self.base.clone();
        if let Ok(mut parts) = address.path_segments_mut() {
            parts.pop_if_empty();
            for part in file.relative.components() {
                let part = part.as_os_str().to_str();
                parts.push(part.ok_or_else(not_utf8)?);
            }
        }
        Ok(address)
    }
}

impl SentContent {
    fn digest(&self) -> MutexGuard<'_, ContentDigest> {
        self.digest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContentDigest {
    fn update(&mut self, bytes: &Bytes) {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
    }

    fn is_same(&self, other: &Self) -> bool {
        self.length == other.length && self.hash.clone().finalize() == other.hash.clone().finalize()
    }
}

fn conflict() -> PushError {
    PushError::Permanent("the file was changed on the server".to_owned())
}

pub(super) fn not_utf8() -> PushError {
    PushError::Permanent("the file name is not UTF-8".to_owned())
}

/// The address without credentials, query and fragment, which may hold secrets.
pub(super) fn without_secrets(address: &Url) -> String {
    let mut plain = address.clone();
    // These calls fail only for an address without a host.
    let _ = plain.set_password(None);
    let _ = plain.set_username("");
    plain.set_query(None);
    plain.set_fragment(None);
    plain.into()
}

fn request_error(error: reqwest::Error) -> PushError {
    // The text of the error contains the address, which may hold a secret.
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(|it| format!(": {it}"));
    PushError::Temporary(format!("{error}{}", cause.unwrap_or_default()))
}

fn check_status(response: Response) -> Result<Response, PushError> {
    let status = response.status();
    let text = format!("the server answered {status}");
    match status {
        status if status.is_success() => Ok(response),
        StatusCode::PRECONDITION_FAILED => Err(conflict()),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Err(PushError::Temporary(text))
        }
        status if status.is_server_error() => Err(PushError::Temporary(text)),
        _ => Err(PushError::Permanent(text)),
    }
}
