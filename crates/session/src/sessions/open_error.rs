//! Why a session could not be opened, created or deleted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use journal::SessionId;
use thiserror::Error;
use uuid::Uuid;

use crate::catalog::UnknownAgent;
use crate::owner::OwnerError;
use crate::shim::OwnershipError;

/// Why a session could not be opened, created or deleted.
#[derive(Clone, Debug, Error)]
pub enum OpenError {
    #[error("there is no session `{0}`")]
    NoSuchSession(SessionId),
    /// Another process drives it.
    #[error(transparent)]
    Owned(#[from] OwnershipError),
    #[error("the working directory `{path}` cannot be used")]
    Directory { path: PathBuf, source: Arc<io::Error> },
    #[error(transparent)]
    Agent(#[from] UnknownAgent),
    #[error(transparent)]
    Journal(#[from] journal::Error),
    /// What the journal has of the session is damaged. It can still be exported and deleted.
    #[error(
        "session `{id}` is damaged ({reason}); export it with `towpath sessions export`, then \
         delete it"
    )]
    Damaged { id: SessionId, reason: String },
    /// The session file of the conversation to resume could not be read.
    #[error("the session file `{path}` could not be read")]
    Transcript { path: PathBuf, source: Arc<io::Error> },
    /// The CLI has the conversation open, outside Towpath.
    #[error("the CLI has session `{conversation}` open in another terminal{}", describe_process(*.process))]
    OpenElsewhere { conversation: Uuid, process: Option<u32> },
    /// The shim runs and does not answer. The session is opened as soon as it does.
    #[error(
        "the process that runs this session's agent does not answer; the session can be used as \
         soon as it does"
    )]
    NotResponding,
    /// The agent that an earlier Towpath left could not be attached or its output not be read.
    #[error("the session could not be taken over")]
    Takeover(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// Another machine drives the session and could not do it, or cannot be reached, for this reason.
    #[error("{0}")]
    Relayed(String),
}

impl From<OwnerError> for OpenError {
    fn from(error: OwnerError) -> Self {
        match error {
            OwnerError::Journal(error) => Self::Journal(error),
            error => Self::Takeover(Arc::new(error)),
        }
    }
}

/// The process in an error.
fn describe_process(process: Option<u32>) -> String {
    process.map(|id| format!(" (process {id})")).unwrap_or_default()
}

/// An error with its causes on one line.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // A wrapper that is transparent repeats what it wraps.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
