//! One call of the bot: its parameters, its outcome, and the error that the API answers with.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::header;
use axum::http::request::Parts;
use bytes::Bytes;
use multer::Multipart;
use serde_json::{Map, Value, json};

use super::state::{BotApiMessageId, BotApiThreadId};

/// A call of the bot, as the double logged it.
#[derive(Clone, Debug)]
pub struct BotApiCall {
    /// When the call arrived, on the API's clock since the start.
    pub at: Duration,
    /// The method, in the bot's spelling.
    pub method: String,
    /// The parameters. A file is represented by its name and size.
    pub params: Value,
    pub outcome: BotApiOutcome,
    /// Whether the bot received the outcome. A fault may have suppressed the response.
    pub answered: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BotApiOutcome {
    /// Not finished yet: a long poll, or a call that hangs.
    Pending,
    /// Carried out, with this `result`.
    Success(Value),
    /// Rejected with an error of the API.
    Failure(BotApiError),
    /// Not carried out because of a fault.
    Dropped,
}

/// An error in the Bot API's own wording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotApiError {
    /// `error_code`, which is also the HTTP status.
    pub code: u16,
    /// `description`, with the prefix that belongs to the code.
    pub description: String,
    /// `parameters.retry_after`, in seconds.
    pub retry_after: Option<u64>,
}

/// The parameters of a call, from its query, form, JSON or multipart body.
#[derive(Clone, Debug, Default)]
pub(crate) struct BotApiParams {
    fields: Map<String, Value>,
    uploads: Vec<BotApiUpload>,
}

/// A file in a multipart body.
#[derive(Clone, Debug)]
pub(crate) struct BotApiUpload {
    /// The name of the form field that holds the file.
    pub(crate) field: String,
    pub(crate) name: String,
    pub(crate) mime: Option<String>,
    pub(crate) bytes: Bytes,
}

impl BotApiCall {
    /// Whether the call is of this method. Telegram ignores the case of method names.
    pub fn is(&self, method: &str) -> bool {
        self.method.eq_ignore_ascii_case(method)
    }
}

impl BotApiError {
    fn new(code: u16, description: impl Into<String>) -> Self {
        Self { code, description: description.into(), retry_after: None }
    }

    pub(crate) fn bad_request(reason: impl AsRef<str>) -> Self {
        Self::new(400, format!("Bad Request: {}", reason.as_ref()))
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized")
    }

    pub(crate) fn forbidden(reason: &str) -> Self {
        Self::new(403, format!("Forbidden: {reason}"))
    }

    pub(crate) fn not_found() -> Self {
        Self::new(404, "Not Found")
    }

    pub(crate) fn conflict(reason: &str) -> Self {
        Self::new(409, format!("Conflict: {reason}"))
    }

    pub(crate) fn too_large() -> Self {
        Self::new(413, "Request Entity Too Large")
    }

    pub(crate) fn too_many_requests(seconds: u64) -> Self {
        let description = format!("Too Many Requests: retry after {seconds}");
        Self { retry_after: Some(seconds), ..Self::new(429, description) }
    }

    pub(crate) fn internal(code: u16) -> Self {
        Self::new(code, "Internal Server Error")
    }

    pub(crate) fn body(&self) -> Value {
        let mut body =
            json!({"ok": false, "error_code": self.code, "description": self.description});
        if let Some(seconds) = self.retry_after {
            body["parameters"] = json!({"retry_after": seconds});
        }
        body
    }
}

impl BotApiParams {
    pub(crate) async fn read(parts: &Parts, body: &Bytes) -> Result<Self, BotApiError> {
        let mut params = Self::default();
        params.add_form(parts.uri.query().unwrap_or_default().as_bytes());
        let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let content_type = content_type.unwrap_or_default();
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence.to_ascii_lowercase().as_str() {
            _ if body.is_empty() => {}
            "application/json" => match serde_json::from_slice(body) {
                Ok(Value::Object(fields)) => params.fields.extend(fields),
                _ => {
                    return Err(BotApiError::bad_request(
                        "can't parse request body as JSON object",
                    ));
                }
            },
            "multipart/form-data" => params
                .add_multipart(content_type, body)
                .await
                .map_err(|_| BotApiError::bad_request("can't parse multipart/form-data"))?,
            _ => params.add_form(body),
        }
        Ok(params)
    }

    /// The fields of an object within a call.
    pub(crate) fn of_object(object: &Value) -> Self {
        let fields = object.as_object().cloned().unwrap_or_default();
        Self { fields, uploads: Vec::new() }
    }

    fn add_form(&mut self, form: &[u8]) {
        for (name, value) in form_urlencoded::parse(form) {
            self.fields.insert(name.into_owned(), value.into_owned().into());
        }
    }

    async fn add_multipart(&mut self, content_type: &str, body: &Bytes) -> multer::Result<()> {
        let boundary = multer::parse_boundary(content_type)?;
        let body = body.clone();
        let stream = futures_util::stream::once(async move { Ok::<_, Infallible>(body) });
        let mut form = Multipart::new(stream, boundary);
        while let Some(part) = form.next_field().await? {
            let field = part.name().unwrap_or_default().to_owned();
            let file_name = part.file_name().map(ToOwned::to_owned);
            let mime = part.content_type().map(ToString::to_string);
            let bytes = part.bytes().await?;
            if let Some(name) = file_name {
                self.uploads.push(BotApiUpload { field, name, mime, bytes });
            } else {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.fields.insert(field, text.into());
            }
        }
        Ok(())
    }

    /// A value as text, empty if the parameter is missing.
    pub(crate) fn text(&self, name: &str) -> Cow<'_, str> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Cow::Borrowed(""),
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(other) => Cow::Owned(other.to_string()),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|it| !it.is_null())
    }

    /// A number. Like Telegram, this treats a value that is no number as a missing one.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.text(name).trim().parse().ok()
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name).to_ascii_lowercase().as_str(), "true" | "yes" | "1")
    }

    /// A JSON value, which may also be sent as a string that contains JSON.
    pub(crate) fn json(&self, name: &str) -> Result<Option<Value>, BotApiError> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(BotApiError::bad_request(format!("can't parse {name} JSON object"))),
            },
            Some(other) => Ok(Some(other.clone())),
        }
    }

    pub(crate) fn message_id(&self) -> Result<BotApiMessageId, BotApiError> {
        self.number("message_id")
            .filter(|id| *id > 0)
            .map(BotApiMessageId)
            .ok_or_else(|| BotApiError::bad_request("message identifier is not specified"))
    }

    pub(crate) fn thread_id(&self) -> Option<BotApiThreadId> {
        self.number("message_thread_id").filter(|id| *id != 0).map(BotApiThreadId)
    }

    pub(crate) fn upload(&self, field: &str) -> Option<&BotApiUpload> {
        self.uploads.iter().find(|it| it.field == field)
    }

    /// All parameters, for the log. A file is represented by its name and size.
    pub(crate) fn summary(&self) -> Value {
        let mut fields = self.fields.clone();
        for upload in &self.uploads {
            let file = json!({"file_name": upload.name, "size": upload.bytes.len()});
            fields.insert(upload.field.clone(), file);
        }
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use bytes::Bytes;

    use super::{BotApiError, BotApiParams};

    async fn read_form(body: &'static str) -> Result<BotApiParams, BotApiError> {
        let request = Request::builder().header("content-type", "multipart/form-data; boundary=x");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        BotApiParams::read(&parts, &Bytes::from(body)).await
    }

    #[tokio::test]
    async fn a_multipart_form_is_split_into_fields_and_files() {
        let params = read_form(
            "--x\r\nContent-Disposition: form-data; name=\"chat_id\"\r\n\r\n7\r\n--x\r\n\
             content-disposition: form-data; name=\"photo\"; filename=\"a b.png\"\r\n\
             Content-Type: image/png\r\n\r\n\r\n--y\r\n\r\n--x--\r\n",
        )
        .await
        .unwrap();
        assert_eq!(params.number("chat_id"), Some(7));
        assert!(params.upload("chat_id").is_none());
        let photo = params.upload("photo").unwrap();
        assert_eq!(
            (photo.name.as_str(), photo.mime.as_deref(), &photo.bytes[..]),
            ("a b.png", Some("image/png"), &b"\r\n--y\r\n"[..])
        );
    }

    #[tokio::test]
    async fn a_truncated_form_is_a_bad_request() {
        let form = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n7";
        let error = read_form(form).await.unwrap_err();
        assert_eq!(error.description, "Bad Request: can't parse multipart/form-data");
    }
}
