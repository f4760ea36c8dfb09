//! Errors in the Bot API's own words.

use serde_json::{Value, json};

/// A call that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `error_code`, and the status of the response.
    pub code: u16,
    /// `description`, with the prefix that belongs to the code.
    pub description: String,
    /// `parameters.retry_after`, in seconds.
    pub retry_after: Option<u64>,
}

impl Refusal {
    fn new(code: u16, description: impl Into<String>) -> Self {
        Self { code, description: description.into(), retry_after: None }
    }

    pub(super) fn bad(why: impl AsRef<str>) -> Self {
        Self::new(400, format!("Bad Request: {}", why.as_ref()))
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized")
    }

    pub(super) fn forbidden(why: &str) -> Self {
        Self::new(403, format!("Forbidden: {why}"))
    }

    pub(super) fn not_found() -> Self {
        Self::new(404, "Not Found")
    }

    pub(super) fn conflict(why: &str) -> Self {
        Self::new(409, format!("Conflict: {why}"))
    }

    pub(super) fn too_large() -> Self {
        Self::new(413, "Request Entity Too Large")
    }

    pub(super) fn too_many(seconds: u64) -> Self {
        let description = format!("Too Many Requests: retry after {seconds}");
        Self { retry_after: Some(seconds), ..Self::new(429, description) }
    }

    pub(super) fn internal(code: u16) -> Self {
        Self::new(code, "Internal Server Error")
    }

    pub(super) fn body(&self) -> Value {
        let mut body =
            json!({"ok": false, "error_code": self.code, "description": self.description});
        if let Some(seconds) = self.retry_after {
            body["parameters"] = json!({"retry_after": seconds});
        }
        body
    }
}
