//! A result of a check of the servers.

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingSeverity {
    Good,
    /// It could not be found out.
    Unknown,
    /// Nothing is lost, but something does not work as it should.
    Warning,
    /// Acknowledged messages may be lost, or the fleet does not work.
    Refused,
}

/// A result of a check: what was found, and what to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SetupFinding {
    /// What was checked.
    pub name: String,
    pub severity: FindingSeverity,
    pub text: String,
    /// The line to change, or the command to run.
    pub hint: Option<String>,
}

impl SetupFinding {
    pub(super) fn good(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), severity: FindingSeverity::Good, text: text.into(), hint: None }
    }

    pub(super) fn new(
        severity: FindingSeverity,
        name: impl Into<String>,
        text: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { name: name.into(), severity, text: text.into(), hint: Some(hint.into()) }
    }
}
