//! A file as the page shows it: coloured lines, a Markdown preview, a diff.

use ::view::diff::Diff;
use ::view::html;
use axum::extract::{Request, State};
use axum::response::Response;
use project::files::{
    ContentKind, LineEnding, MAX_EDIT_BYTES, ProjectPath, Protection, RegularFile, WriteAccess,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{FilePathQuery, with_files, write_access};
use crate::access::AuthenticatedClient;
use crate::api::extract::{PathParams, QueryParams, read_bytes};
use crate::api::large_body::large_json;
use crate::api::tag;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// How much of a text is shown at first, and how much more at a time.
const FIRST_BYTES: usize = 256 << 10;
const MORE_BYTES: usize = 1 << 20;

/// How many characters of a line are shown.
const MAX_LINE_CHARS: usize = 4000;

/// The largest Markdown text with a preview.
const MAX_PREVIEW_BYTES: u64 = 512 << 10;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FileViewQuery {
    /// Relative to the session's directory.
    path: String,
    /// The `next` of the part before.
    #[serde(default)]
    offset: u64,
    /// A preview of Markdown in place of the lines.
    #[serde(default)]
    preview: bool,
}

/// A file as it is shown.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FileView)]
pub(super) struct FileViewResponse {
    kind: FileViewKind,
    /// In bytes.
    size: u64,
    /// When it was last written, in milliseconds since 1970.
    modified: u64,
    /// Identifies the content, for `If-Match`.
    tag: String,
    /// The lines as HTML.
    lines: Vec<String>,
    /// The offset of the next part; `null` at the end.
    next: Option<u64>,
    /// The whole text as HTML, if a preview was asked for and is possible.
    preview: Option<String>,
    /// Whether there is a preview.
    has_preview: bool,
    /// Why it cannot be edited; `null` if it can.
    read_only: Option<String>,
    line_ending: LineEndingName,
}

#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileViewKind {
    Text,
    Image,
    Pdf,
    Binary,
}

/// How the lines of a text end.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum LineEndingName {
    Lf,
    Crlf,
    Mixed,
}

/// The difference between a file and another text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FileComparison)]
pub(super) struct FileComparisonResponse {
    /// From the file to the text, as HTML.
    html: String,
    added: usize,
    removed: usize,
    /// Identifies the content of the file, for `If-Match`; `null` if it is gone.
    tag: Option<String>,
}

#[utoipa::path(get, path = "/sessions/{id}/files/view", tag = tag::FILES, params(("id" = Uuid, Path), FileViewQuery),
    responses((status = 200, body = FileViewResponse)))]
/// A file as it is shown: its coloured lines in parts, or a preview.
pub(in crate::api) async fn show(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    PathParams(id): PathParams<Uuid>,
    QueryParams(query): QueryParams<FileViewQuery>,
) -> ApiResult<Response> {
    let access = write_access(&client);
    let view = with_files(&gateway, id, move |files| {
        let path = ProjectPath::parse(&query.path)?;
        let protection = files.protection(&path);
        FileViewResponse::new(&files.open_file(&path)?, &query, protection, access)
    });
    large_json(&gateway, &view.await?).await
}

#[utoipa::path(post, path = "/sessions/{id}/files/compare", tag = tag::FILES, params(("id" = Uuid, Path), FilePathQuery),
    request_body(content = String, content_type = "application/octet-stream"), responses((status = 200, body = FileComparisonResponse)))]
/// Compares a file with a text that someone else would save over it.
pub(in crate::api) async fn compare(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
    QueryParams(FilePathQuery { path }): QueryParams<FilePathQuery>,
    request: Request,
) -> ApiResult<Response> {
    let other = read_bytes(request, usize::try_from(MAX_EDIT_BYTES).unwrap_or(usize::MAX)).await?;
    let other = String::from_utf8(other).map_err(|_| Problem::invalid("the body is not UTF-8"))?;
    let compared = with_files(&gateway, id, move |files| {
        let file = match files.open_file(&ProjectPath::parse(&path)?) {
            Err(project::files::FileError::NotFound) => None,
            file => Some(file?),
        };
        let content = file.as_ref().map(|it| it.read(MAX_EDIT_BYTES)).transpose()?;
        let text = String::from_utf8_lossy(content.as_deref().unwrap_or_default());
        let tag = file.as_ref().map(RegularFile::tag).transpose()?;
        let diff = Diff::between(&text, &other);
        let mut rendered = String::new();
        html::diff(&diff, &mut rendered);
        let Diff { added, removed, .. } = diff;
        Ok(FileComparisonResponse { html: rendered, added, removed, tag })
    });
    large_json(&gateway, &compared.await?).await
}

impl FileViewResponse {
    fn new(
        file: &RegularFile,
        query: &FileViewQuery,
        protection: Option<Protection>,
        access: WriteAccess,
    ) -> Result<Self, project::files::FileError> {
        let kind = file.kind()?;
        let name = query.path.rsplit('/').next().unwrap_or_default();
        let language = name.rsplit_once('.').map_or(name, |(_, ending)| ending);
        let is_markdown =
            ["md", "markdown", "mdx"].iter().any(|it| it.eq_ignore_ascii_case(language));
        let mut view = Self {
            kind: match kind {
                ContentKind::Text => FileViewKind::Text,
                ContentKind::Image(_) => FileViewKind::Image,
                ContentKind::Pdf => FileViewKind::Pdf,
                ContentKind::Binary => FileViewKind::Binary,
            },
            size: file.size(),
            modified: file.modified(),
            tag: file.tag()?,
            lines: Vec::new(),
            next: None,
            preview: None,
            has_preview: is_markdown && file.size() <= MAX_PREVIEW_BYTES,
            read_only: read_only(protection, access).map(str::to_owned),
            line_ending: LineEndingName::Lf,
        };
        if kind != ContentKind::Text {
            view.has_preview = false;
            view.read_only = Some("It is no text.".to_owned());
            return Ok(view);
        }
        if file.size() > MAX_EDIT_BYTES {
            view.read_only = Some("It is larger than 2 MB.".to_owned());
        } else {
            let content = file.read(MAX_EDIT_BYTES)?;
            match str::from_utf8(&content) {
                Ok(text) => view.line_ending = LineEnding::of(text).into(),
                Err(_) => view.read_only = Some("It is not UTF-8.".to_owned()),
            }
        }
        if query.preview && view.has_preview {
            let content = file.read(MAX_PREVIEW_BYTES)?;
            view.preview = Some(html::markdown(&String::from_utf8_lossy(&content)));
            return Ok(view);
        }
        let max_bytes = if query.offset == 0 { FIRST_BYTES } else { MORE_BYTES };
        let part = file.text_part(query.offset, max_bytes)?;
        // A part from the middle starts in an unknown state of the grammar.
        let is_whole = query.offset == 0 && part.next.is_none();
        let language = if is_whole { language } else { "" };
        view.lines = html::code_lines(&part.text, language, MAX_LINE_CHARS);
        if part.omitted > 0
            && let Some(last) = view.lines.last_mut()
        {
            last.push_str("<span class=\"line-rest\"> … ");
            last.push_str(&part.omitted.to_string());
            last.push_str(" more bytes</span>");
        }
        view.next = part.next;
        Ok(view)
    }
}

fn read_only(protection: Option<Protection>, access: WriteAccess) -> Option<&'static str> {
    match (protection, access) {
        (Some(Protection::Git), _) => Some("Only git changes what is below `.git`."),
        (Some(Protection::Agent), WriteAccess::Ordinary) => {
            Some("The agent runs commands that it names, so only an admin may change it.")
        }
        _ => None,
    }
}

impl From<LineEnding> for LineEndingName {
    fn from(ending: LineEnding) -> Self {
        match ending {
            LineEnding::Lf => Self::Lf,
            LineEnding::Crlf => Self::Crlf,
            LineEnding::Mixed => Self::Mixed,
        }
    }
}
