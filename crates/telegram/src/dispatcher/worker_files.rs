//! Files in the project of a session that another machine drives: requests that this machine answers.

use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use journal::SessionId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use session::{
    ExchangeMode, ProjectBody, ProjectClient, ProjectRequest, ProjectRole, Sessions, safe_file_name,
};
use thiserror::Error;
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

/// The longest answer that is not the content of a file.
const MAX_ANSWER: usize = 1 << 20;

/// Why a request had no effect.
#[derive(Debug, Error)]
pub(super) enum WorkerFileError {
    #[error("the worker answered with status {0}")]
    Status(u16),
    #[error("{0}")]
    Failed(String),
}

/// The files of a session on another machine.
#[derive(Clone, Debug)]
pub(super) struct WorkerFiles {
    sessions: Sessions,
    session: SessionId,
    /// For whom they are used.
    user: String,
}

/// What is in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct ListedFile {
    pub(super) name: String,
    kind: String,
    link: bool,
    pub(super) size: u64,
    /// In milliseconds since 1970.
    pub(super) modified: u64,
}

/// The content of a request.
enum RequestContent {
    None,
    Json(serde_json::Value),
    Bytes(Vec<u8>),
}

impl ListedFile {
    pub(super) fn is_regular_file(&self) -> bool {
        self.kind == "file" && !self.link
    }
}

impl WorkerFiles {
    pub(super) fn new(sessions: Sessions, session: SessionId, user: String) -> Self {
        Self { sessions, session, user }
    }

    /// Stores a file where users' files are. Returns its path, relative to the session's directory.
    pub(super) async fn upload(
        &self,
        name: &str,
        content: Vec<u8>,
    ) -> Result<String, WorkerFileError> {
        #[derive(Deserialize)]
        struct StoredFile {
            path: String,
        }
        let query = [("name", &*safe_file_name(name))];
        let content = RequestContent::Bytes(content);
        let stored: StoredFile = self.ask("POST", "files", &query, content).await?;
        Ok(stored.path)
    }

    /// What is in a directory; nothing if there is none.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<ListedFile>, WorkerFileError> {
        #[derive(Deserialize)]
        struct FileList {
            entries: Vec<ListedFile>,
        }
        let query = [("path", path)];
        match self.ask("GET", "files/list", &query, RequestContent::None).await {
            Ok(FileList { entries }) => Ok(entries),
            Err(WorkerFileError::Status(404)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Copies a file of at most `limit` bytes to this machine.
    pub(super) async fn copy(
        &self,
        path: &str,
        to: &Path,
        limit: u64,
    ) -> Result<(), WorkerFileError> {
        let query = [("path", path)];
        let content = RequestContent::None;
        let mut pieces = self.request("GET", "files/content", &query, content).await?;
        let mut file = File::create(to).await.map_err(failed)?;
        let mut length = 0;
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(failed)?;
            length += piece.len() as u64;
            if length > limit {
                return Err(failed("the file has grown meanwhile"));
            }
            file.write_all(&piece).await.map_err(failed)?;
        }
        file.flush().await.map_err(failed)
    }

    /// Writes a file that is not there yet.
    pub(super) async fn create(&self, path: &str, content: &str) -> Result<(), WorkerFileError> {
        let content = RequestContent::Bytes(content.as_bytes().to_vec());
        self.act("PUT", "files/content", &[("path", path)], content).await
    }

    pub(super) async fn create_directory(&self, path: &str) -> Result<(), WorkerFileError> {
        let content = RequestContent::Json(json!({ "path": path }));
        self.act("POST", "files/directories", &[], content).await
    }

    /// Moves a file. Nothing is replaced.
    pub(super) async fn rename(&self, path: &str, to: &str) -> Result<(), WorkerFileError> {
        let content = RequestContent::Json(json!({ "path": path, "to": to }));
        self.act("PATCH", "files", &[], content).await
    }

    /// Makes a request whose answer says only that it was possible.
    async fn act(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        content: RequestContent,
    ) -> Result<(), WorkerFileError> {
        self.request(method, path, query, content).await.map(drop)
    }

    /// Makes a request whose answer is JSON.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        content: RequestContent,
    ) -> Result<T, WorkerFileError> {
        let mut pieces = self.request(method, path, query, content).await?;
        let mut answer = Vec::new();
        while let Some(piece) = pieces.next().await {
            answer.extend_from_slice(&piece.map_err(failed)?);
            if answer.len() > MAX_ANSWER {
                return Err(failed("the answer of the worker is too long"));
            }
        }
        serde_json::from_slice(&answer).map_err(failed)
    }

    /// Makes a request. Returns the content of the answer if it says that this was possible.
    async fn request(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        content: RequestContent,
    ) -> Result<ProjectBody, WorkerFileError> {
        let role = ProjectRole::Drive;
        let client = ProjectClient { name: self.user.clone(), role, shell: false };
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut headers = Vec::new();
        let content = match content {
            RequestContent::None => Vec::new(),
            RequestContent::Json(value) => {
                headers.push(header("content-type", "application/json"));
                value.to_string().into_bytes()
            }
            RequestContent::Bytes(bytes) => {
                headers.push(header("content-type", "application/octet-stream"));
                bytes
            }
        };
        if method == "PUT" {
            headers.push(header("if-none-match", "*"));
        }
        let request = ProjectRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: Some(encode_query(query)).filter(|it| !it.is_empty()),
            headers,
            client,
            mode: ExchangeMode::InTurn,
        };
        let body = Box::pin(stream::iter([Ok(Bytes::from(content))]));
        let answered = self.sessions.project(self.session, request, body).await;
        let answered = answered.ok_or_else(|| failed("no other machine drives the session"))?;
        let (response, pieces) = answered.map_err(failed)?;
        if (200..300).contains(&response.status) {
            return Ok(pieces);
        }
        Err(WorkerFileError::Status(response.status))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` gives it away")]
fn failed(error: impl ToString) -> WorkerFileError {
    WorkerFileError::Failed(error.to_string())
}

/// The query of a URL.
fn encode_query(fields: &[(&str, &str)]) -> String {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"-._~".contains(&it);
    let mut encoded = String::new();
    for (name, value) in fields {
        if !encoded.is_empty() {
            encoded.push('&');
        }
        encoded.push_str(name);
        encoded.push('=');
        for byte in value.bytes() {
            if is_plain(byte) {
                encoded.push(char::from(byte));
            } else {
                // Writing to a string does not fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::encode_query;

    #[test]
    fn a_value_cannot_add_to_the_query() {
        assert_eq!(encode_query(&[]), "");
        let encoded = encode_query(&[("path", "a b/c&d=ü"), ("name", "x")]);
        assert_eq!(encoded, "path=a%20b%2Fc%26d%3D%C3%BC&name=x");
    }
}
