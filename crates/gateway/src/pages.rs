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

use crate::access::PartOfPage;
use crate::config::API_PREFIX;
use crate::gateway::Gateway;
use crate::problem::Problem;

/// A file of `web/`: its name, its bytes, and those of a text a second time, as compressed as Brotli can.
type EmbeddedFile = (&'static str, &'static [u8], Option<&'static [u8]>);

const FILES: &[EmbeddedFile] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The style sheet of what `view` renders, plain and compressed.
const VIEW_STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/view.css"));
const SMALL_VIEW_STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/view.css.br"));

const SERVICE_WORKER: &str = "sw.js";

/// How much of a hash tells files apart.
const TAG_BYTES: usize = 16;

/// Shown if the binary was built without `web/`.
const NO_PAGES: &str = "<!doctype html><meta charset=utf-8><title>Towpath</title>\
    <p>This server was built without its pages. Its API is at <code>/api/v1</code>.\n";

/// A file that is served.
struct ServedFile {
    plain: Bytes,
    /// The same, compressed with Brotli.
    brotli: Option<Bytes>,
}

impl ServedFile {
    fn embedded(plain: &'static [u8], brotli: Option<&'static [u8]>) -> Self {
        Self { plain: Bytes::from_static(plain), brotli: brotli.map(Bytes::from_static) }
    }

    fn plain(plain: impl Into<Bytes>) -> Self {
        Self { plain: plain.into(), brotli: None }
    }
}

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
        "view.css" => Some(ServedFile::embedded(VIEW_STYLE, Some(SMALL_VIEW_STYLE))),
        "colours.css" => Some(ServedFile::plain(view::html::colour_rules())),
        _ => file(&gateway, if name.is_empty() { "index.html" } else { name }).await,
    };
    // Paths without an extension, such as `/sessions/…`, are routes within the page.
    let (name, found) = match found {
        Some(found) => (name, Some(found)),
        None if name.contains('.') => (name, None),
        None => ("index.html", file(&gateway, "index.html").await),
    };
    let Some(ServedFile { plain, brotli }) = found else {
        if name.is_empty() || name == "index.html" {
            return ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], NO_PAGES)
                .into_response();
        }
        return Problem::not_found("page").into_response();
    };
    let media_type = media_type(name);
    let text = media_type.starts_with("text/") || media_type == "image/svg+xml";
    let brotli = brotli.filter(|_| accepts(request.headers(), "br"));
    let encoding = match brotli {
        Some(_) => "br",
        None if text && accepts(request.headers(), "gzip") => "gzip",
        None => "",
    };
    let tag = etag(&plain, encoding);
    let known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|it| *it == tag);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::VARY, HeaderValue::from_static("accept-encoding")),
        (header::ETAG, tag),
    ];
    let mut response = if known {
        (StatusCode::NOT_MODIFIED, headers).into_response()
    } else if encoding.is_empty() {
        (headers, plain).into_response()
    } else {
        let body = brotli.unwrap_or_else(|| compress(&plain));
        (headers, [(header::CONTENT_ENCODING, encoding)], body).into_response()
    };
    if is_part_of_page(name) {
        response.extensions_mut().insert(PartOfPage);
    }
    response
}

/// Whether a file is only ever loaded by a document. A worker has policies like one.
fn is_part_of_page(name: &str) -> bool {
    matches!(name.rsplit_once('.'), Some((_, "css" | "js"))) && name != SERVICE_WORKER
}

/// The response to a method that a route does not have.
pub(crate) async fn method_not_allowed() -> Problem {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(status, "method", "method not allowed", "this route does not support that method")
}

/// Whether a client accepts an encoding.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    let all = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|it| it.to_str().ok());
    let mut words = all.flat_map(|it| it.split(',')).map(|it| it.replace(' ', ""));
    words.any(|it| {
        let (name, weight) = it.split_once(";q=").unwrap_or((&it, "1"));
        name == encoding && weight.parse() != Ok(0.0)
    })
}

/// Not cached: pages are small, and a browser that has one sends its tag.
fn compress(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    // Writing to memory does not fail.
    written.unwrap_or_default().into()
}

async fn file(gateway: &Gateway, name: &str) -> Option<ServedFile> {
    if let Some(directory) = &gateway.config.pages {
        // Only plain names, so that nothing outside the directory is served.
        let plain = Path::new(name).components().all(|it| matches!(it, Component::Normal(_)));
        let plain = plain && !name.split('/').any(|part| part.starts_with('.'));
        let path = plain.then(|| directory.join(name))?;
        return tokio::fs::read(path).await.ok().map(ServedFile::plain);
    }
    let found = FILES.iter().find(|(known, ..)| *known == name);
    found.map(|(_, plain, brotli)| ServedFile::embedded(plain, *brotli))
}

/// The entity tag of a page. A compressed form has other bytes, and so another tag.
fn etag(body: &[u8], encoding: &str) -> HeaderValue {
    let text = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(body)[..TAG_BYTES]);
    let separator = if encoding.is_empty() { "" } else { "-" };
    HeaderValue::from_str(&format!("\"{text}{separator}{encoding}\""))
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

    use super::{FILES, accepts, compress};

    #[test]
    fn pages_are_compressed_for_clients_that_accept_it() {
        let check = |accepted: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            ["br", "gzip"].map(|encoding| accepts(&headers, encoding))
        };
        assert_eq!(check("gzip, deflate, br"), [true, true]);
        assert_eq!(check("br;q=1.0, gzip;q=0.8"), [true, true]);
        assert_eq!(check("gzip;q=0, br"), [true, false]);
        assert_eq!(check("br;q=0, gzip"), [false, true]);
        assert_eq!(check(""), [false, false]);
        assert!(!accepts(&HeaderMap::new(), "gzip"));
        let body = "a page\n".repeat(100);
        let mut text = String::new();
        let compressed = compress(body.as_bytes());
        flate2::read::GzDecoder::new(&*compressed).read_to_string(&mut text).unwrap();
        assert!(text == body && compressed.len() < body.len() / 3);
    }

    #[test]
    fn scripts_are_embedded_compressed_and_images_are_not() {
        let find = |name: &str| FILES.iter().find(|(known, ..)| *known == name).unwrap();
        let (_, script, small) = find("js/main.js");
        let small = small.unwrap();
        assert!(!small.is_empty() && small.len() < script.len());
        assert!(find("icons/apple-touch-icon.png").2.is_none());
    }
}
