//! What was found, one line for each thing that was looked at.

use std::io::{self, Write as _};

use serde_json::{Value, json};

/// All that was found.
#[derive(Debug, Default)]
pub(super) struct Checkup {
    pub(super) findings: Vec<(&'static str, Finding)>,
}

/// How one thing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// As it should be.
    Good(String),
    /// Not so, and what to do about it.
    Bad {
        /// What is wrong.
        text: String,
        /// What to do.
        hint: String,
    },
}

impl Finding {
    pub(super) fn good(text: impl Into<String>) -> Self {
        Self::Good(text.into())
    }

    pub(super) fn bad(text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Bad { text: text.into(), hint: hint.into() }
    }

    pub(super) fn is_good(&self) -> bool {
        matches!(self, Self::Good(_))
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Good(text) | Self::Bad { text, .. } => text,
        }
    }

    pub(super) fn hint(&self) -> Option<&str> {
        match self {
            Self::Good(_) => None,
            Self::Bad { hint, .. } => Some(hint),
        }
    }
}

impl Checkup {
    pub(super) fn add(&mut self, name: &'static str, finding: Finding) {
        self.findings.push((name, finding));
    }

    pub(super) fn is_sound(&self) -> bool {
        self.findings.iter().all(|(_, finding)| finding.is_good())
    }

    pub(super) fn write_json(&self) -> io::Result<()> {
        let check = |(name, finding): &(&str, Finding)| -> Value {
            json!({
                "name": name,
                "good": finding.is_good(),
                "text": finding.text(),
                "hint": finding.hint(),
            })
        };
        let checks: Vec<Value> = self.findings.iter().map(check).collect();
        let whole = json!({ "good": self.is_sound(), "checks": checks });
        writeln!(io::stdout().lock(), "{whole:#}")
    }
}

/// An error and its causes, on one line.
pub(super) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
