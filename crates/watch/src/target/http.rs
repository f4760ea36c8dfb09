//! A web server that accepts `PUT` and `DELETE`.
//!
//! The `ETag` of a file is sent back as `If-Match` with its next version, so that a change by another
//! client is not overwritten.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::stream;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH};
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode, Url};

use super::{PushError, TargetError};
use crate::files::SourceFile;
use crate::project::ProjectFile;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A web server.
#[derive(Debug)]
pub struct HttpTarget {
    client: Client,
    base: Url,
    token: Option<String>,
    name: String,
    tags: HashMap<ProjectFile, HeaderValue>,
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
        let chunks = stream::try_unfold(source, |mut source| async move {
            let chunk = source.chunk().await?;
            Ok::<_, std::io::Error>(chunk.map(|chunk| (chunk, source)))
        });
        let mut request = self
            .request(Method::PUT, file)?
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, length)
            .body(Body::wrap_stream(chunks));
        if let Some(tag) = self.tags.get(file) {
            request = request.header(IF_MATCH, tag);
        }
        let response = check_status(request.send().await.map_err(request_error)?)?;
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
        let response = request.send().await.map_err(request_error)?;
        self.tags.remove(file);
        match response.status() {
            // It is already deleted.
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(()),
            _ => check_status(response).map(drop),
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
                parts.push(part.ok_or_else(not_utf8)?);
            }
        }
        Ok(address)
    }
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
        StatusCode::PRECONDITION_FAILED => {
            Err(PushError::Permanent("the file was changed on the server".to_owned()))
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Err(PushError::Temporary(text))
        }
        status if status.is_server_error() => Err(PushError::Temporary(text)),
        _ => Err(PushError::Permanent(text)),
    }
}
