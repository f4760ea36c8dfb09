//! What a host answers when it is asked about a call.

use std::path::PathBuf;

use serde_json::Value;

use super::mode::Mode;
use super::rules::{Behavior, Rule};
use crate::play::wording;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// It may run, perhaps with another input, and with changes to what is asked from now on.
    Allow {
        /// The input, where the host gave one.
        input: Option<Value>,
        /// The changes.
        updates: Vec<Update>,
    },
    /// It may not.
    Deny {
        /// What the model is told.
        message: String,
        /// Whether a person said so, and not a mistake.
        meant: bool,
        /// Whether the turn ends too.
        interrupt: bool,
    },
}

/// A change to what is asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Update {
    /// Rules more.
    Add(Behavior, Vec<Rule>, Destination),
    /// Rules less.
    Remove(Behavior, Vec<Rule>),
    /// Another mode.
    Mode(Mode),
    /// Directories more.
    Directories(Vec<PathBuf>),
}

/// How long a change lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// As long as the session.
    Session,
    /// It is written to the project's local settings.
    LocalSettings,
}

impl Answer {
    /// Reads the `response` of a `control_response` line.
    pub(crate) fn read(response: &Value) -> Self {
        let deny = |message: String, meant, interrupt| Self::Deny { message, meant, interrupt };
        if response["subtype"] == "error" {
            let error = response["error"].as_str().unwrap_or_default();
            return deny(format!("Tool permission request failed: Error: {error}"), false, false);
        }
        let payload = &response["response"];
        match payload["behavior"].as_str() {
            Some("allow") => Self::Allow {
                input: payload["updatedInput"].is_object().then(|| payload["updatedInput"].clone()),
                updates: Update::read_all(&payload["updatedPermissions"]),
            },
            Some("deny") => match payload["message"].as_str() {
                Some(message) => deny(message.to_owned(), true, payload["interrupt"] == true),
                None => deny(wording::MALFORMED.to_owned(), false, false),
            },
            _ => deny(wording::MALFORMED.to_owned(), false, false),
        }
    }
}

impl Update {
    /// Reads a list of changes; what is no change is left out.
    pub(crate) fn read_all(updates: &Value) -> Vec<Self> {
        updates.as_array().into_iter().flatten().filter_map(Self::read).collect()
    }

    fn read(update: &Value) -> Option<Self> {
        let rules = || {
            let rules = update["rules"].as_array().into_iter().flatten();
            rules.filter_map(Rule::from_update).collect::<Vec<_>>()
        };
        let behavior = || match update["behavior"].as_str() {
            Some("deny") => Behavior::Deny,
            Some("ask") => Behavior::Ask,
            _ => Behavior::Allow,
        };
        let destination = match update["destination"].as_str() {
            Some("localSettings") => Destination::LocalSettings,
            _ => Destination::Session,
        };
        match update["type"].as_str()? {
            "addRules" | "replaceRules" => Some(Self::Add(behavior(), rules(), destination)),
            "removeRules" => Some(Self::Remove(behavior(), rules())),
            "setMode" => Mode::named(update["mode"].as_str()?).map(Self::Mode),
            "addDirectories" => {
                let directories = update["directories"].as_array().into_iter().flatten();
                let directories = directories.filter_map(Value::as_str).map(PathBuf::from);
                Some(Self::Directories(directories.collect()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Answer, Update};
    use crate::play::permission::Mode;

    #[test]
    fn answers_without_sense_are_denials() {
        for payload in [json!({"foo": 1}), json!({"behavior": "deny"}), json!(null)] {
            let answer = Answer::read(&json!({"subtype": "success", "response": payload}));
            assert!(matches!(answer, Answer::Deny { meant: false, .. }), "{payload}");
        }
        let error = Answer::read(&json!({"subtype": "error", "error": "host crashed"}));
        let message = "Tool permission request failed: Error: host crashed".to_owned();
        assert_eq!(error, Answer::Deny { message, meant: false, interrupt: false });
    }

    #[test]
    fn changes_to_what_is_asked_are_read() {
        let updates = Update::read_all(&json!([
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"}, {"type": "?"},
        ]));
        assert_eq!(updates, [Update::Mode(Mode::AcceptEdits)]);
    }
}
