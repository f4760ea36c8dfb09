//! The bytes of a file: reading them, in ranges too, and saving them.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, SeekFrom};

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use project::files::{ContentKind, MAX_EDIT_BYTES, ProjectPath, SaveCondition};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{FilePathQuery, with_files, write_access};
use crate::access::AuthenticatedClient;
use crate::api::extract::{PathParams, QueryParams, read_bytes};
use crate::api::tag;
use crate::gateway::Gateway;
use crate::limits::PIECE_BYTES;
use crate::problem::{ApiResult, Problem};

/// The policy of a file that a browser shows by itself: it is no part of our origin, and loads and
/// runs nothing.
pub(crate) const FILE_POLICY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// Browsers show no PDF in a sandbox. Its viewer is no part of our origin either.
pub(crate) const PDF_POLICY: &str = "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FileContentQuery {
    /// Relative to the session's directory.
    path: String,
    /// Always to be saved by the browser, even if it could show it.
    #[serde(default)]
    download: bool,
}

/// A file that was saved.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SavedFile)]
pub(super) struct SavedFileResponse {
    /// Identifies the new content, for the next `If-Match`.
    tag: String,
}

/// A part of a file, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRange {
    first: u64,
    length: u64,
}

/// What a `Range` header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedRange {
    Part(ByteRange),
    /// Nothing of the file.
    Outside,
    /// Something that servers may ignore.
    Ignored,
}

#[utoipa::path(get, path = "/sessions/{id}/files/content", tag = tag::FILES, params(("id" = Uuid, Path), FileContentQuery),
    responses((status = 200, body = String, content_type = "*/*"), (status = 206, description = "the range that was asked for"),
        (status = 304, description = "it is the content that `If-None-Match` names"), (status = 416, description = "there is no such range")))]
/// The bytes of a file, or a range of them.
pub(in crate::api) async fn read(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(FileContentQuery { path, download }): QueryParams<FileContentQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let opened = with_files(&gateway, id, move |files| {
        let file = files.open_file(&ProjectPath::parse(&path)?)?;
        let (kind, tag, size) = (file.kind()?, file.tag()?, file.size());
        Ok((file.into_file(), kind, tag, size))
    });
    let (file, kind, tag, size) = opened.await?;
    let tag = HeaderValue::try_from(format!("\"{tag}\"")).map_err(|it| Problem::failed(&it))?;
    let is_svg = name.to_ascii_lowercase().ends_with(".svg") && kind == ContentKind::Text;
    let (media_type, shown) = match kind {
        ContentKind::Image(media_type) => (media_type, true),
        ContentKind::Pdf => ("application/pdf", true),
        // Shown in an `img`, where it runs nothing, and else saved.
        ContentKind::Text if is_svg => ("image/svg+xml", false),
        ContentKind::Text => ("text/plain; charset=utf-8", false),
        ContentKind::Binary => ("application/octet-stream", false),
    };
    let policy = if kind == ContentKind::Pdf { PDF_POLICY } else { FILE_POLICY };
    let mut reply = HeaderMap::new();
    let mut set = |name: HeaderName, value: HeaderValue| reply.insert(name, value);
    set(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    set(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    set(header::CONTENT_DISPOSITION, disposition(&name, shown && !download)?);
    set(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    set(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    set(header::ETAG, tag.clone());
    if headers.get(header::IF_NONE_MATCH) == Some(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, reply).into_response());
    }
    let same = headers.get(header::IF_RANGE).is_none_or(|it| *it == tag);
    let range = headers.get(header::RANGE).filter(|_| same).and_then(|it| it.to_str().ok());
    let (status, range) = match range.map(|it| ByteRange::parse(it, size)) {
        Some(RequestedRange::Part(range)) => (StatusCode::PARTIAL_CONTENT, range),
        Some(RequestedRange::Outside) => {
            let status = StatusCode::RANGE_NOT_SATISFIABLE;
            let detail = format!("the file has {size} bytes");
            return Err(Problem::new(status, "range", "no such range", detail));
        }
        Some(RequestedRange::Ignored) | None => {
            (StatusCode::OK, ByteRange { first: 0, length: size })
        }
    };
    if status == StatusCode::PARTIAL_CONTENT {
        let last = range.first + range.length - 1;
        let value = format!("bytes {}-{last}/{size}", range.first);
        reply.insert(
            header::CONTENT_RANGE,
            HeaderValue::try_from(value).map_err(|it| Problem::failed(&it))?,
        );
    }
    reply.insert(header::CONTENT_LENGTH, HeaderValue::from(range.length));
    Ok((status, reply, body(file, range)).into_response())
}

#[utoipa::path(put, path = "/sessions/{id}/files/content", tag = tag::FILES,
    params(("id" = Uuid, Path), FilePathQuery,
        ("if-match" = Option<String>, Header, description = "The tag of the content that was read, in quotes"),
        ("if-none-match" = Option<String>, Header, description = "`*` to create a file")),
    request_body(content = String, content_type = "application/octet-stream"),
    responses((status = 200, body = SavedFileResponse), (status = 412, body = Problem, content_type = "application/problem+json", description = "the file has changed since"),
        (status = 428, body = Problem, content_type = "application/problem+json", description = "neither `If-Match` nor `If-None-Match` was sent")))]
/// Saves a file that is still what was read, or creates one.
pub(in crate::api) async fn save(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    QueryParams(FilePathQuery { path }): QueryParams<FilePathQuery>,
    request: Request,
) -> ApiResult<Json<SavedFileResponse>> {
    let condition = condition(request.headers())?;
    let content =
        read_bytes(request, usize::try_from(MAX_EDIT_BYTES).unwrap_or(usize::MAX)).await?;
    let access = write_access(&client);
    let saved = with_files(&gateway, id, move |files| {
        files.save(&ProjectPath::parse(&path)?, &content, &condition, access)
    });
    Ok(Json(SavedFileResponse { tag: saved.await? }))
}

fn condition(headers: &HeaderMap) -> ApiResult<SaveCondition> {
    let text = |name| headers.get(name).and_then(|it: &HeaderValue| it.to_str().ok());
    match (text(header::IF_MATCH), text(header::IF_NONE_MATCH)) {
        (None, Some("*")) => Ok(SaveCondition::New),
        (Some(tag), None) => {
            let tag = tag.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            let tag = tag.ok_or_else(|| Problem::invalid("`If-Match` is one tag in quotes"))?;
            Ok(SaveCondition::Unchanged(tag.to_owned()))
        }
        _ => {
            let detail =
                "send `If-Match` with the tag that was read, or `If-None-Match: *` for a new file";
            let status = StatusCode::PRECONDITION_REQUIRED;
            Err(Problem::new(status, "no-condition", "no condition", detail))
        }
    }
}

/// The header that names a file, which may have any characters in its name.
fn disposition(name: &str, shown: bool) -> ApiResult<HeaderValue> {
    let kind = if shown { "inline" } else { "attachment" };
    let plain = |it: char| if it.is_ascii_graphic() && !"\"\\%".contains(it) { it } else { '_' };
    let fallback: String = name.chars().map(plain).collect();
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    let value = format!("{kind}; filename=\"{fallback}\"; filename*=UTF-8''{encoded}");
    HeaderValue::try_from(value).map_err(|it| Problem::failed(&it))
}

impl ByteRange {
    /// Reads a `Range` header.
    fn parse(text: &str, size: u64) -> RequestedRange {
        match Self::bounds(text, size) {
            None => RequestedRange::Ignored,
            Some((first, end)) if first < end => {
                RequestedRange::Part(Self { first, length: end - first })
            }
            Some(_) => RequestedRange::Outside,
        }
    }

    /// The first byte, and the one after the last.
    fn bounds(text: &str, size: u64) -> Option<(u64, u64)> {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        let number = |it: &str| it.trim().parse::<u64>().ok();
        Some(match (first.trim(), last.trim()) {
            ("", last) => (size.saturating_sub(number(last)?), size),
            (first, "") => (number(first)?, size),
            (first, last) => (number(first)?, number(last)?.saturating_add(1).min(size)),
        })
    }
}

/// Reads a range of a file while the client takes it. A file that became shorter ends the connection.
fn body(file: File, range: ByteRange) -> Body {
    let file = tokio::fs::File::from_std(file);
    let pieces =
        stream::try_unfold((file, range, true), async |(mut file, mut range, is_start)| {
            if range.length == 0 {
                return Ok::<_, io::Error>(None);
            }
            if is_start {
                file.seek(SeekFrom::Start(range.first)).await?;
            }
            let mut piece =
                vec![0; PIECE_BYTES.min(usize::try_from(range.length).unwrap_or(usize::MAX))];
            let length = file.read(&mut piece).await?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            piece.truncate(length);
            range.length -= length as u64;
            Ok(Some((Bytes::from(piece), (file, range, false))))
        });
    Body::from_stream(pieces)
}

#[cfg(test)]
mod tests {
    use super::{ByteRange, RequestedRange, disposition};
    use RequestedRange::{Ignored, Outside};

    #[test]
    fn ranges_are_read_as_the_standard_says() {
        let range = |first, length| RequestedRange::Part(ByteRange { first, length });
        for (text, expected) in [
            ("bytes=0-0", range(0, 1)),
            ("bytes=2-4", range(2, 3)),
            ("bytes=5-", range(5, 5)),
            ("bytes=-3", range(7, 3)),
            ("bytes=-30", range(0, 10)),
            ("bytes=8-99", range(8, 2)),
            ("bytes=10-", Outside),
            ("bytes=-0", Outside),
            ("bytes=4-2", Outside),
            ("bytes=0-18446744073709551615", range(0, 10)),
            ("bytes=a-b", Ignored),
            ("bytes=0-1,3-4", Ignored),
            ("lines=0-1", Ignored),
        ] {
            assert_eq!(ByteRange::parse(text, 10), expected, "{text}");
        }
    }

    #[test]
    fn a_name_cannot_add_headers() {
        let value = disposition("a\r\nset-cookie: x\"; \u{202e}é.html", false).unwrap();
        assert_eq!(
            value.to_str().unwrap(),
            "attachment; filename=\"a__set-cookie:_x_;___.html\"; filename*=UTF-8''a%0D%0Aset-cookie%3A%20x%22%3B%20%E2%80%AE%C3%A9.html"
        );
    }
}
