//! A web server that takes `PUT` and `DELETE`.
//!
//! The tag that the server gave a file is sent back with its next version, so that what somebody
//! else put there in the meantime is not overwritten.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::stream;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH};
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode, Url};

use super::{BadTarget, PushError};
use crate::project::ProjectFile;
use crate::source_file::SourceFile;

const CONNECTING: Duration = Duration::from_secs(10);

/// The server.
#[derive(Debug)]
pub struct HttpTarget {
    client: Client,
    base: Url,
    token: Option<String>,
    name: String,
    tags: HashMap<ProjectFile, HeaderValue>,
}

impl HttpTarget {
    /// The server below whose address files are put, with a token where it wants one.
    pub fn new(address: &str, token: Option<String>) -> Result<Self, BadTarget> {
        let bad = || BadTarget::Address(address.to_owned());
        let base = Url::parse(address).map_err(|_| bad())?;
        if base.cannot_be_a_base() || base.host_str().is_none() {
            return Err(bad());
        }
        let client =
            Client::builder().connect_timeout(CONNECTING).build().map_err(BadTarget::Client)?;
        let name = shown(&base);
        Ok(Self { client, base, token, name, tags: HashMap::new() })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn write(
        &mut self,
        file: &ProjectFile,
        source: SourceFile,
    ) -> Result<(), PushError> {
        let length = source.version().length;
        let pieces = stream::try_unfold(source, |mut source| async move {
            let piece = source.piece().await?;
            Ok::<_, std::io::Error>(piece.map(|piece| (piece, source)))
        });
        let mut request = self
            .request(Method::PUT, file)?
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, length)
            .body(Body::wrap_stream(pieces));
        if let Some(tag) = self.tags.get(file) {
            request = request.header(IF_MATCH, tag);
        }
        let response = judged(request.send().await.map_err(unreachable)?)?;
        match response.headers().get(ETAG) {
            Some(tag) => self.tags.insert(file.clone(), tag.clone()),
            None => self.tags.remove(file),
        };
        Ok(())
    }

    pub(super) async fn delete(&mut self, file: &ProjectFile) -> Result<(), PushError> {
        let mut request = self.request(Method::DELETE, file)?;
        if let Some(tag) = self.tags.get(file) {
            request = request.header(IF_MATCH, tag);
        }
        let response = request.send().await.map_err(unreachable)?;
        self.tags.remove(file);
        match response.status() {
            // What is not there need not be deleted.
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(()),
            _ => judged(response).map(drop),
        }
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
                parts.push(part.ok_or_else(not_text)?);
            }
        }
        Ok(address)
    }
}

pub(super) fn not_text() -> PushError {
    PushError::Permanent("its name is not UTF-8".to_owned())
}

/// The address without what may be secret.
pub(super) fn shown(address: &Url) -> String {
    let mut shown = address.clone();
    // Neither fails on an address that has a host.
    let _ = shown.set_password(None);
    let _ = shown.set_username("");
    shown.set_query(None);
    shown.set_fragment(None);
    shown.into()
}

fn unreachable(error: reqwest::Error) -> PushError {
    // The error's own text names the address, which may hold a secret.
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(|it| format!(": {it}"));
    PushError::Temporary(format!("{error}{}", cause.unwrap_or_default()))
}

/// What the server made of it.
fn judged(response: Response) -> Result<Response, PushError> {
    let status = response.status();
    let text = format!("the server answered {status}");
    match status {
        status if status.is_success() => Ok(response),
        StatusCode::PRECONDITION_FAILED => {
            Err(PushError::Permanent("somebody else changed it there".to_owned()))
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Err(PushError::Temporary(text))
        }
        status if status.is_server_error() => Err(PushError::Temporary(text)),
        _ => Err(PushError::Permanent(text)),
    }
}
