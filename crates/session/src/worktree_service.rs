//! Working trees that are made for sessions of this machine when another machine asks for it, and removed with them.

use std::fmt;
use std::path::PathBuf;

use journal::SessionId;
use serde::{Deserialize, Serialize};

use crate::relay::RelayFuture;

/// When the working tree that was made for a session is removed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeRemoval {
    /// If nothing would be lost; otherwise the session stays too.
    IfClean,
    /// With everything that is only there.
    Always,
}

/// Makes and removes working trees for the sessions of this machine. Failures are texts for a person.
pub trait WorktreeService: fmt::Debug + Send + Sync {
    /// Makes a working tree of the repository of a directory, with a branch that is named after a text. Returns
    /// the directory in it that corresponds to the one asked for.
    fn create(&self, directory: PathBuf, about: String)
    -> RelayFuture<'_, Result<PathBuf, String>>;

    /// The working tree that was made for a session, if it may be removed with it.
    fn removable(
        &self,
        session: SessionId,
        removal: WorktreeRemoval,
    ) -> RelayFuture<'_, Result<PathBuf, String>>;

    /// Removes a working tree that was made for a session, given any directory in it, and its branch.
    fn remove(&self, directory: PathBuf) -> RelayFuture<'_, Result<(), String>>;
}
