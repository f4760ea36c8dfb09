//! What gateways ask workers, and what workers answer: JSON over the bus.

use bytes::Bytes;
use journal::SessionId;
use serde::{Deserialize, Serialize};
use session::{
    CommandError, CommandOutput, OpenError, SessionCommand, SessionOptions, SessionSpec,
    WorktreeRemoval,
};
use thiserror::Error;
use uuid::Uuid;

use crate::exchange::{ProjectStep, StepReply};

/// The version of the questions. A worker refuses later ones.
const VERSION: u32 = 2;

/// The version of questions that say nothing about working trees. Workers that know no later one answer them.
const FIRST_VERSION: u32 = 1;

/// A question with its version.
#[derive(Debug, Serialize, Deserialize)]
struct VersionedQuestion<T> {
    version: u32,
    question: T,
}

/// What a gateway asks of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerQuestion {
    /// Create a session. The asker has made its id, so the same question again is the same session.
    Create {
        id: SessionId,
        title: Option<String>,
        options: Box<SessionOptions>,
        resume: Option<String>,
        /// In a new working tree, named after this text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        new_worktree: Option<String>,
    },
    /// Carry out a command.
    Command { session: SessionId, command: Box<SessionCommand> },
    /// Change the title of a session.
    Rename { session: SessionId, title: String },
    /// Delete a session, and perhaps the working tree that was made for it.
    Delete {
        session: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worktree: Option<WorktreeRemoval>,
    },
    /// Revoke a grant.
    RevokeGrant { grant: Uuid },
    /// Take a session over from the worker that owns it. If that one is connected, it gives the session away.
    TakeOver { session: SessionId },
    /// Give a session away: interrupt its turn, end its agent, ship everything.
    Release { session: SessionId },
    /// What another worker had still recorded of a session that this one has taken over.
    Tail { session: SessionId, worker: String, epoch: u64, text: String },
    /// Someone looks at these sessions, for the next moments.
    Watched { sessions: Vec<SessionId> },
    /// A step of a request about the project of a session. Its answer is a `StepReply`.
    Project(ProjectStep),
    /// The question is too large for a message and is in this object.
    Object { name: String },
}

/// The answer of a worker.
pub type WorkerAnswer = Result<CommandOutput, WorkerFailure>;

/// Why a question had no effect, as the worker says.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerFailure {
    #[error(transparent)]
    Refused(CommandError),
    #[error("the disk of the worker is full: the command was not carried out")]
    NotStored,
    #[error("the session is closed")]
    Closed,
    #[error("there is no session `{0}`")]
    NoSuchSession(SessionId),
    #[error("session `{0}` already exists")]
    SessionExists(SessionId),
    /// Another worker has taken the session over.
    #[error("worker `{owner}` has taken the session over; try again")]
    NotOwner { owner: String },
    /// The session is being given to another worker.
    #[error("the session is being moved to another worker; try again")]
    Moving,
    /// Another worker may have it.
    #[error("worker `{worker}` has no directory `{directory}` in which sessions may work")]
    NoDirectory { worker: String, directory: String },
    /// Anything else, in words.
    #[error("{0}")]
    Failed(String),
}

impl WorkerQuestion {
    pub fn create(id: SessionId, spec: SessionSpec, new_worktree: Option<String>) -> Self {
        let SessionSpec { id: _, title, options, resume } = spec;
        Self::Create { id, title, options: Box::new(options), resume, new_worktree }
    }

    pub fn encode(&self) -> Bytes {
        encode(&VersionedQuestion { version: self.version(), question: self })
    }

    /// The first version that has everything in this question.
    fn version(&self) -> u32 {
        match self {
            Self::Create { new_worktree: Some(_), .. } | Self::Delete { worktree: Some(_), .. } => {
                VERSION
            }
            _ => FIRST_VERSION,
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, WorkerFailure> {
        let failed = |error: serde_json::Error| {
            WorkerFailure::Failed(format!("the worker does not know this question ({error})"))
        };
        let VersionedQuestion { version, question } =
            serde_json::from_slice::<VersionedQuestion<&serde_json::value::RawValue>>(bytes)
                .map_err(failed)?;
        if !(FIRST_VERSION..=VERSION).contains(&version) {
            let text =
                format!("the worker does not know version {version} of questions; update it");
            return Err(WorkerFailure::Failed(text));
        }
        serde_json::from_str(question.get()).map_err(failed)
    }
}

/// An answer as bytes.
pub fn encode_answer(answer: &WorkerAnswer) -> Bytes {
    encode(answer)
}

/// Reads an answer. One that cannot be read is a failure.
pub fn decode_answer(bytes: &[u8]) -> WorkerAnswer {
    serde_json::from_slice(bytes).unwrap_or_else(|error| {
        Err(WorkerFailure::Failed(format!("the answer of the worker cannot be read ({error})")))
    })
}

/// The reply to a step of an exchange as bytes.
pub(crate) fn encode_reply(reply: &Result<StepReply, WorkerFailure>) -> Bytes {
    encode(reply)
}

/// Reads such a reply. One that cannot be read is a failure.
pub(crate) fn decode_reply(bytes: &[u8]) -> Result<StepReply, WorkerFailure> {
    serde_json::from_slice(bytes).unwrap_or_else(|error| {
        Err(WorkerFailure::Failed(format!("the answer of the worker cannot be read ({error})")))
    })
}

impl From<session::Error> for WorkerFailure {
    fn from(error: session::Error) -> Self {
        match error {
            session::Error::Refused(error) => Self::Refused(error),
            session::Error::NotStored => Self::NotStored,
            session::Error::Closed => Self::Closed,
            error @ (session::Error::Journal(_) | session::Error::Remote(_)) => {
                Self::Failed(error.to_string())
            }
        }
    }
}

impl From<OpenError> for WorkerFailure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::NoSuchSession(id) => Self::NoSuchSession(id),
            OpenError::Journal(journal::Error::SessionExists(id)) => Self::SessionExists(id),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<WorkerFailure> for session::Error {
    fn from(failure: WorkerFailure) -> Self {
        match failure {
            WorkerFailure::Refused(error) => Self::Refused(error),
            WorkerFailure::NotStored => Self::NotStored,
            failure => Self::Remote(failure.to_string()),
        }
    }
}

impl From<WorkerFailure> for OpenError {
    fn from(failure: WorkerFailure) -> Self {
        match failure {
            WorkerFailure::NoSuchSession(id) => Self::NoSuchSession(id),
            WorkerFailure::SessionExists(id) => Self::Journal(journal::Error::SessionExists(id)),
            failure => Self::Relayed(failure.to_string()),
        }
    }
}

fn encode(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("plain data serialises").into()
}

#[cfg(test)]
mod tests {
    use journal::SessionId;
    use session::{SessionCommand, SessionSpec, WorktreeRemoval};
    use uuid::Uuid;

    use super::{WorkerFailure, WorkerQuestion, decode_answer, encode_answer};

    #[test]
    fn questions_and_answers_survive_the_way_and_others_are_failures() {
        let session = SessionId(Uuid::from_u128(1));
        for question in [
            WorkerQuestion::create(session, SessionSpec::default(), None),
            WorkerQuestion::create(session, SessionSpec::default(), Some("fix it".to_owned())),
            WorkerQuestion::Delete { session, worktree: None },
            WorkerQuestion::Delete { session, worktree: Some(WorktreeRemoval::IfClean) },
            WorkerQuestion::Command { session, command: Box::new(SessionCommand::Wake) },
            WorkerQuestion::TakeOver { session },
            WorkerQuestion::Release { session },
            WorkerQuestion::Watched { sessions: vec![session] },
            WorkerQuestion::Object { name: "n".to_owned() },
        ] {
            assert_eq!(WorkerQuestion::decode(&question.encode()), Ok(question));
        }
        let later = br#"{"version":3,"question":{"anything":1}}"#;
        let refused = WorkerQuestion::decode(later).unwrap_err();
        assert!(refused.to_string().contains("version 3"), "{refused}");
        for bytes in [&b"{"[..], b"", br#"{"version":1,"question":{"fly":1}}"#] {
            assert!(matches!(WorkerQuestion::decode(bytes), Err(WorkerFailure::Failed(_))));
        }
        // A worker that does not know working trees must refuse the question, not leave them out.
        let version = |question: WorkerQuestion| {
            let value: serde_json::Value = serde_json::from_slice(&question.encode()).unwrap();
            value["version"].as_u64()
        };
        assert_eq!(version(WorkerQuestion::Delete { session, worktree: None }), Some(1));
        let worktree = Some(WorktreeRemoval::Always);
        assert_eq!(version(WorkerQuestion::Delete { session, worktree }), Some(2));
        let in_worktree = Some("about".to_owned());
        let spec = SessionSpec::default();
        assert_eq!(version(WorkerQuestion::create(session, spec, in_worktree)), Some(2));
        let answer = Err(WorkerFailure::NotOwner { owner: "w".to_owned() });
        assert_eq!(decode_answer(&encode_answer(&answer)), answer);
        assert!(matches!(decode_answer(b"?"), Err(WorkerFailure::Failed(_))));
    }
}
