//! What a call says, whichever way it was sent: query, form, JSON or multipart.

use std::borrow::Cow;

use axum::http::header;
use axum::http::request::Parts;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::ids::{MessageId, ThreadId};
use super::multipart;
use super::refusal::Refusal;

/// The parameters of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Params {
    fields: Map<String, Value>,
    uploads: Vec<Upload>,
}

/// A file sent along with a call.
#[derive(Clone, Debug)]
pub(super) struct Upload {
    /// The field it came in.
    pub(super) field: String,
    pub(super) name: String,
    pub(super) mime: Option<String>,
    pub(super) bytes: Bytes,
}

impl Params {
    pub(super) fn read(parts: &Parts, body: &Bytes) -> Result<Self, Refusal> {
        let mut params = Self::default();
        params.form(parts.uri.query().unwrap_or_default().as_bytes());
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let kind = kind.unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            _ if body.is_empty() => {}
            "application/json" => match serde_json::from_slice(body) {
                Ok(Value::Object(fields)) => params.fields.extend(fields),
                _ => return Err(Refusal::bad("can't parse request body as JSON object")),
            },
            "multipart/form-data" => {
                let parts = multipart::parts(kind, body)
                    .ok_or_else(|| Refusal::bad("can't parse multipart/form-data"))?;
                for part in parts {
                    params.part(part);
                }
            }
            _ => params.form(body),
        }
        Ok(params)
    }

    /// The fields of an object within a call.
    pub(super) fn of(object: &Value) -> Self {
        let fields = object.as_object().cloned().unwrap_or_default();
        Self { fields, uploads: Vec::new() }
    }

    fn form(&mut self, form: &[u8]) {
        for (name, value) in form_urlencoded::parse(form) {
            self.fields.insert(name.into_owned(), value.into_owned().into());
        }
    }

    fn part(&mut self, part: multipart::Part) {
        if let Some(name) = part.file {
            let (field, mime, bytes) = (part.name, part.mime, part.bytes);
            self.uploads.push(Upload { field, name, mime, bytes });
        } else {
            let text = String::from_utf8_lossy(&part.bytes).into_owned();
            self.fields.insert(part.name, text.into());
        }
    }

    /// A value as text; empty where there is none.
    pub(super) fn text(&self, name: &str) -> Cow<'_, str> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Cow::Borrowed(""),
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(other) => Cow::Owned(other.to_string()),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.get(name).is_some_and(|it| !it.is_null())
    }

    /// A number; none where there is none or it is something else, as the real server has it.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.text(name).trim().parse().ok()
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.text(name).to_ascii_lowercase().as_str(), "true" | "yes" | "1")
    }

    /// A value that is JSON, also where it came as a string.
    pub(super) fn json(&self, name: &str) -> Result<Option<Value>, Refusal> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => match serde_json::from_str(text) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(Refusal::bad(format!("can't parse {name} JSON object"))),
            },
            Some(other) => Ok(Some(other.clone())),
        }
    }

    pub(super) fn message(&self) -> Result<MessageId, Refusal> {
        self.number("message_id")
            .filter(|id| *id > 0)
            .map(MessageId)
            .ok_or_else(|| Refusal::bad("message identifier is not specified"))
    }

    pub(super) fn thread(&self) -> Option<ThreadId> {
        self.number("message_thread_id").filter(|id| *id != 0).map(ThreadId)
    }

    pub(super) fn upload(&self, field: &str) -> Option<&Upload> {
        self.uploads.iter().find(|it| it.field == field)
    }

    /// All of it, for the log: files by their name and size.
    pub(super) fn summary(&self) -> Value {
        let mut fields = self.fields.clone();
        for upload in &self.uploads {
            let file = json!({"file_name": upload.name, "size": upload.bytes.len()});
            fields.insert(upload.field.clone(), file);
        }
        Value::Object(fields)
    }
}
