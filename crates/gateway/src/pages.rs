//! The pages: the embedded files of `web/`, and the style sheets of what `view` renders.

use std::io::Write as _;
use std::path::{Component, Path};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::config::API_PREFIX;
use crate::gateway::Gateway;
use crate::problem::Problem;

/// The files of `web/` by name.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The style sheet of what `view` renders.
const VIEW_STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/view.css"));

/// Shown if the binary was built without `web/`.
const NO_PAGES: &str = "<!doctype html><meta charset=utf-8><title>Towpath</title>\
    <p>This server was built without its pages. Its API is at <code>/api/v1</code>.\n";

/// Serves everything that is not a route of the API.
pub(crate) async fn page(State(gateway): State<Gateway>, request: Request) -> Response {
    let path = request.uri().path();
    if path.starts_with(API_PREFIX) || path.starts_with("/api/") {
        return Problem::not_found("route").into_response();
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return method_not_allowed().await.into_response();
    }
    let name = path.trim_start_matches('/');
    let found = match name {
        "view.css" => Some(Bytes::from_static(VIEW_STYLE)),
        "colours.css" => Some(Bytes::from(view::html::colour_rules())),
        _ => file(&gateway, if name.is_empty() { "index.html" } else { name }).await,
    };
    // Paths without an extension, such as `/sessions/…`, are routes within the page.
    let (name, found) = match found {
        Some(found) => (name, Some(found)),
        None if name.contains('.') => (name, None),
        None => ("index.html", file(&gateway, "index.html").await),
    };
    let Some(body) = found else {
        if name.is_empty() || name == "index.html" {
            return ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], NO_PAGES)
                .into_response();
        }
        return Problem::not_found("page").into_response();
    };
    let media_type = media_type(name);
    let text = media_type.starts_with("text/") || media_type == "image/svg+xml";
    let gzip = text && accepts_gzip(request.headers());
    let tag = etag(&body, gzip);
    let known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|it| *it == tag);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::ETAG, tag),
    ];
    if known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else if gzip {
        (headers, [(header::CONTENT_ENCODING, "gzip")], compress(&body)).into_response()
    } else {
        (headers, body).into_response()
    }
}

/// The response to a method that a route does not have.
pub(crate) async fn method_not_allowed() -> Problem {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(status, "method", "method not allowed", "this route does not support that method")
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let all = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|it| it.to_str().ok());
    let mut words = all.flat_map(|it| it.split(',')).map(|it| it.replace(' ', ""));
    words.any(|it| matches!(it.split_once(";q=").unwrap_or((&it, "1")), ("gzip", weight) if weight.parse() != Ok(0.0)))
}

/// Not cached: pages are small, and a browser that has one sends its tag.
fn compress(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    // Writing to memory does not fail.
    written.unwrap_or_default().into()
}

async fn file(gateway: &Gateway, name: &str) -> Option<Bytes> {
    if let Some(directory) = &gateway.config.pages {
        // Only plain names, so that nothing outside the directory is served.
        let plain = Path::new(name).components().all(|it| matches!(it, Component::Normal(_)));
        let plain = plain && !name.split('/').any(|part| part.starts_with('.'));
        let path = plain.then(|| directory.join(name))?;
        return tokio::fs::read(path).await.ok().map(Bytes::from);
    }
    let found = FILES.iter().find(|(known, _)| *known == name).map(|it| it.1);
    found.map(Bytes::from_static)
}

/// The entity tag of a page. The compressed form has other bytes, and so another tag.
fn etag(body: &[u8], gzip: bool) -> HeaderValue {
    let text = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(body));
    let suffix = if gzip { "-gzip" } else { "" };
    HeaderValue::from_str(&format!("\"{text}{suffix}\""))
        .unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("html", |(_, ending)| ending) {
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "html" | "" => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::http::{HeaderMap, HeaderValue, header};

    use super::{accepts_gzip, compress};

    #[test]
    fn pages_are_compressed_for_clients_that_accept_it() {
        let check = |accepted: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            accepts_gzip(&headers)
        };
        assert!(check("gzip, deflate, br") && check("br;q=1.0, gzip;q=0.8"));
        assert!(
            !check("gzip;q=0") && !check("br") && !check("") && !accepts_gzip(&HeaderMap::new())
        );
        let body = "a page\n".repeat(100);
        let mut text = String::new();
        let compressed = compress(body.as_bytes());
        flate2::read::GzDecoder::new(&*compressed).read_to_string(&mut text).unwrap();
        assert!(text == body && compressed.len() < body.len() / 3);
    }
}
