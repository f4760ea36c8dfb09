//! What a session needs besides its journal to go on elsewhere: the agent's own files and the working tree.
//!
//! The bus carries it as objects of the session, replaced at the end of every turn. What is in it is
//! decided by the implementation of [`SessionFiles`].

use std::fmt;
use std::future::Future;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::pin::Pin;

use bytes::Bytes;
use journal::{SessionId, SessionRecord};

use crate::bus::{Bus, BusError};

/// What an operation on files returns.
pub type FilesFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Saves and restores the files of sessions.
pub trait SessionFiles: fmt::Debug + Send + Sync {
    /// Reads the files of a session that works on this machine. `stored_tree` is the version of the working tree
    /// that the servers have.
    fn save(
        &self,
        session: SessionRecord,
        stored_tree: Option<String>,
    ) -> FilesFuture<'_, SavedFiles>;

    /// Puts the files of a session that another machine has saved where this machine's agent finds them.
    /// Nothing that is not the session's is overwritten.
    fn restore(&self, session: SessionRecord, saved: FileParts) -> FilesFuture<'_, RestoredFiles>;
}

/// The parts of the files of a session that exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileParts {
    /// The agent's own record of the conversation.
    pub transcript: Option<Bytes>,
    /// The working tree.
    pub tree: Option<Bytes>,
}

/// The files of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedFiles {
    /// A part that is none does not exist, or the servers have it.
    pub parts: FileParts,
    /// Names what the working tree contains; none if there is none, or it could not be saved.
    pub tree_version: Option<String>,
    /// What could not be saved, for the people in the conversation.
    pub problems: Vec<String>,
}

/// Where a session goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredFiles {
    /// The working directory on this machine.
    pub directory: PathBuf,
    /// What the people in the conversation must know.
    pub problems: Vec<String>,
}

/// The largest part of the files of a session, compressed or not.
const MAX_PART: usize = 256 << 20;

const COMPRESSION_LEVEL: i32 = 3;

/// The names of the objects with the parts of a session.
fn object_names(session: SessionId) -> [String; 2] {
    ["transcript", "tree"].map(|part| format!("files/{session}/{part}"))
}

/// The name of the object that says which turn the parts belong to.
fn turn_name(session: SessionId) -> String {
    format!("files/{session}/turn")
}

/// What became of storing the parts of a session.
#[derive(Debug, Default)]
pub(crate) struct StoreOutcome {
    /// What cannot be stored, for a person.
    pub(crate) problems: Vec<String>,
    /// What was not stored because the servers cannot be reached.
    pub(crate) unreachable: Vec<String>,
}

/// Stores the parts that there are, and which turn they belong to.
pub(crate) async fn store(
    bus: &dyn Bus,
    session: SessionId,
    turn: u64,
    parts: FileParts,
) -> StoreOutcome {
    let mut outcome = StoreOutcome::default();
    let whats = ["The agent's record of the conversation", "The working tree"];
    let parts = [parts.transcript, parts.tree];
    for ((name, what), part) in object_names(session).into_iter().zip(whats).zip(parts) {
        let Some(part) = part else { continue };
        if part.len() > MAX_PART {
            let size = part.len() >> 20;
            let words = format!("{what} is too large ({size} MB) to be saved for another machine");
            outcome.problems.push(words);
            continue;
        }
        let compressed =
            tokio::task::spawn_blocking(move || zstd::bulk::compress(&part, COMPRESSION_LEVEL));
        let words = |error: &dyn fmt::Display| {
            format!("{what} could not be saved for another machine: {error}")
        };
        match compressed.await {
            Ok(Ok(compressed)) => match bus.put_object(&name, compressed.into()).await {
                Ok(()) => {}
                Err(error @ (BusError::Unavailable(_) | BusError::Unsure(_))) => {
                    outcome.unreachable.push(words(&error));
                }
                Err(error) => outcome.problems.push(words(&error)),
            },
            Ok(Err(error)) => outcome.problems.push(words(&error)),
            Err(error) => outcome.problems.push(words(&error)),
        }
    }
    if outcome.problems.is_empty() && outcome.unreachable.is_empty() {
        let stored = bus.put_object(&turn_name(session), turn.to_string().into()).await;
        if let Err(error) = stored {
            outcome.unreachable.push(format!(
                "What was saved of the session may look older to another machine: {error}"
            ));
        }
    }
    outcome
}

/// Loads the parts that there are, and says what could not be loaded, or is older than the last turn.
pub(crate) async fn load(
    bus: &dyn Bus,
    session: SessionId,
    last_turn: u64,
) -> (FileParts, Vec<String>) {
    let mut problems = Vec::new();
    let mut parts = [None, None];
    for (name, part) in object_names(session).into_iter().zip(&mut parts) {
        match bus.get_object(&name).await {
            Ok(Some(compressed)) => match decompress(&compressed) {
                Ok(content) => *part = Some(content),
                Err(error) => {
                    problems.push(format!("What was saved of the session cannot be read: {error}"));
                }
            },
            Ok(None) => {}
            Err(error) => {
                problems.push(format!("What was saved of the session cannot be read: {error}"));
            }
        }
    }
    // What an earlier version has saved does not say it.
    if let Ok(Some(turn)) = bus.get_object(&turn_name(session)).await
        && let Some(turn) = std::str::from_utf8(&turn).ok().and_then(|it| it.parse::<u64>().ok())
        && turn < last_turn
    {
        problems.push(format!(
            "The working tree and the agent's record of the conversation are those after turn {turn}: what was \
             changed up to turn {last_turn} had not been saved for other machines"
        ));
    }
    let [transcript, tree] = parts;
    (FileParts { transcript, tree }, problems)
}

/// Takes no more memory than a part may have.
fn decompress(compressed: &[u8]) -> io::Result<Bytes> {
    let decoder = zstd::stream::read::Decoder::new(compressed)?;
    let mut content = Vec::new();
    decoder.take(MAX_PART as u64 + 1).read_to_end(&mut content)?;
    if content.len() > MAX_PART {
        return Err(io::Error::other("it is too large"));
    }
    Ok(content.into())
}
