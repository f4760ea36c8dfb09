//! A process, as far as it says whose it is.

use serde::{Deserialize, Serialize};

/// A process that runs. One that only waits to be buried does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::shim) struct Process {
    pub(in crate::shim) id: i32,
    pub(in crate::shim) parent: i32,
    /// Whether the marker is in its environment.
    pub(in crate::shim) marked: bool,
    pub(in crate::shim) born: Born,
}

/// When a process was born, in the system's own words, which boot included where it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::shim) struct Born(pub(super) String);

#[cfg(test)]
impl Born {
    pub(super) fn unknown() -> Self {
        Self(String::new())
    }
}
