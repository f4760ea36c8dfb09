//! What goes over an owner's socket: one JSON object per line.
//!
//! The owner first sends an [`OwnerGreeting`]. Then the client sends requests, each with a number,
//! and the owner answers each with the same number, in any order. An owner that does not know a
//! request answers that it does not.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::command::{CommandError, CommandOutput, SessionCommand};
use crate::session::Error;

/// The version of this protocol. Both sides must have the same.
pub(super) const VERSION: u32 = 1;

/// The longest line. A prompt of the greatest length the agent takes fits even if every character
/// of it is escaped.
pub(super) const MAX_LINE: usize = 512 << 20;

/// The first line of an owner.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OwnerGreeting {
    pub(super) version: u32,
    pub(super) pid: u32,
}

/// A request as it is read. What it asks for is read separately, so that an unknown request can be
/// answered by its number.
#[derive(Deserialize)]
pub(super) struct NumberedRequest<'a> {
    pub(super) number: u64,
    #[serde(borrow)]
    pub(super) request: &'a RawValue,
}

/// A request as it is written.
#[derive(Serialize)]
pub(super) struct OutgoingOwnerRequest<'a> {
    pub(super) number: u64,
    pub(super) request: OwnerRequest<'a>,
}

/// What a client asks of the owner of a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OwnerRequest<'a> {
    Command(Cow<'a, SessionCommand>),
    /// Delete the session.
    Delete,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NumberedResult {
    pub(super) number: u64,
    pub(super) result: Result<CommandOutput, RemoteFailure>,
}

/// Why a request had no effect, as the owner reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RemoteFailure {
    Refused(CommandError),
    NotStored,
    /// The owner is releasing the session. The next owner carries the command out.
    Closed,
    /// Anything else, in words.
    Failed(String),
}

impl From<Error> for RemoteFailure {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(error) => Self::Refused(error),
            Error::NotStored => Self::NotStored,
            Error::Closed => Self::Closed,
            error @ (Error::Journal(_) | Error::Remote(_)) => Self::Failed(error.to_string()),
        }
    }
}

impl From<RemoteFailure> for Error {
    fn from(failure: RemoteFailure) -> Self {
        match failure {
            RemoteFailure::Refused(error) => Self::Refused(error),
            RemoteFailure::NotStored => Self::NotStored,
            RemoteFailure::Closed => Self::Closed,
            RemoteFailure::Failed(reason) => Self::Remote(reason),
        }
    }
}

/// A value as a line.
pub(crate) fn to_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("plain data serialises");
    line.push(b'\n');
    line
}
