//! What a person allowed beforehand.

use std::path::PathBuf;

use uuid::Uuid;
use wire::note::Actor;

use crate::id::SessionId;

/// A permission that holds for more than one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its id.
    pub id: Uuid,
    /// The session it holds in; everywhere where none is named. It ends with the session.
    pub session: Option<SessionId>,
    /// The working directory it holds in.
    pub directory: Option<PathBuf>,
    /// The tool it allows.
    pub tool: String,
    /// What the tool must be given; anything where nothing is said.
    pub pattern: Option<String>,
    /// When it ends, in milliseconds since 1970.
    pub until: Option<u64>,
    /// Who gave it.
    pub by: Actor,
    /// When.
    pub created: u64,
}
