//! Requests about the project of a session that another machine drives: its files, its git repository and its
//! terminals.
//!
//! They are HTTP requests without the connection: the machine that serves a client passes one on, and the machine
//! with the files answers it with the code that answers its own clients. Bodies are streams, so that neither
//! side ever has more than a piece of a long file in memory.

use std::fmt;
use std::io;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use journal::SessionId;
use serde::{Deserialize, Serialize};

use crate::relay::RelayFuture;

/// The content of a request or a response, piece by piece.
pub type ProjectBody = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// What a client asks of the project of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectRequest {
    pub method: String,
    /// The path below the session, such as `git/status`.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    pub client: ProjectClient,
    #[serde(default, skip_serializing_if = "ExchangeMode::is_in_turn")]
    pub mode: ExchangeMode,
}

/// In which order the content of a request and that of its answer are passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangeMode {
    /// The request first, then the answer.
    #[default]
    InTurn,
    /// The answer begins at once, and then both go on at the same time, each as it comes. The request ends with
    /// its answer.
    BothWays,
}

/// The client for whom a request is passed on. Who it is was checked before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectClient {
    pub name: String,
    pub role: ProjectRole,
    /// Whether it may have a shell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
}

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProjectRole {
    /// See the names of files.
    Watch,
    /// Read and change files, and use git.
    Drive,
    /// Also change files that can run programs.
    Admin,
}

/// The answer to a request, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectAnswer {
    pub status: u16,
    /// Names in lower case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

/// Answers requests about the projects of this machine's sessions.
pub trait ProjectService: fmt::Debug + Send + Sync {
    /// Answers a request about the project of a session, which is this machine's. Everything that can be wrong
    /// with a request is a response too.
    fn answer(
        &self,
        session: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> RelayFuture<'_, (ProjectAnswer, ProjectBody)>;

    /// Ends what runs for clients in a session that is not this machine's any more: its terminals.
    fn release(&self, session: SessionId) -> RelayFuture<'_, ()>;
}

impl ExchangeMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
    fn is_in_turn(&self) -> bool {
        *self == Self::InTurn
    }
}
