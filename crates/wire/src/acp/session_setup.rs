//! What a client is told when it opens or lists sessions.

use super::update::{ConfigOption, OfferedCommand};

/// The state of a session when it is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSetup {
    pub options: Vec<ConfigOption>,
    pub commands: Vec<OfferedCommand>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionListing {
    pub id: String,
    pub cwd: String,
    pub title: Option<String>,
    /// In RFC 3339.
    pub updated_at: Option<String>,
}
