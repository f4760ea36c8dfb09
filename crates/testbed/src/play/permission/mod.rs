//! Permissions: modes, rules, and the question to the host where neither decides.

mod decision;
mod rules;
mod shell;

pub(crate) use decision::{
    PermissionContext, PlayerPermissionDecision, PlayerPermissionQuestion, decide,
};
pub(crate) use rules::{PlayerRule, PlayerRules, RuleBehavior, RuleSource};

use std::path::PathBuf;

use serde_json::Value;

use crate::play::release::{PlayerBehavior, PlayerRelease};
use crate::play::texts;

/// A permission mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlayerMode {
    /// The host is asked before anything changes.
    #[default]
    Default,
    /// Files below the working directory may be edited.
    AcceptEdits,
    /// Nothing changes until a plan is approved.
    Plan,
    /// Whatever the host would be asked about is denied.
    DontAsk,
    /// Everything is allowed.
    Bypass,
    /// A classifier decides. The player has none and allows everything.
    Auto,
}

impl PlayerMode {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "default" | "manual" => Self::Default,
            "acceptEdits" => Self::AcceptEdits,
            "plan" => Self::Plan,
            "dontAsk" => Self::DontAsk,
            "bypassPermissions" => Self::Bypass,
            "auto" => Self::Auto,
            _ => return None,
        })
    }

    /// The protocol's name of the mode.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::Bypass => "bypassPermissions",
            Self::Auto => "auto",
        }
    }
}

/// The host's answer to a permission request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlayerPermissionAnswer {
    Allow {
        /// The input to run the tool with, if the host changed it.
        input: Option<Value>,
        updates: Vec<PlayerPermissionUpdate>,
    },
    Deny {
        /// The text for the model.
        message: String,
        /// Whether the user denied the call. Otherwise the answer was invalid.
        by_user: bool,
        /// Whether the turn ends as well.
        interrupt: bool,
    },
}

/// A change of the permissions that comes with an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlayerPermissionUpdate {
    AddRules(RuleBehavior, Vec<PlayerRule>, RuleDestination),
    SetMode(PlayerMode),
    /// More directories that tools may work in.
    AddDirectories(Vec<PathBuf>),
}

/// Where rules are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleDestination {
    /// In memory, until the session ends.
    Session,
    /// In the project's local settings.
    LocalSettings,
}

impl PlayerPermissionAnswer {
    /// Parses the `response` of a `control_response` line. An invalid answer is a denial.
    pub(crate) fn parse(response: &Value, release: PlayerRelease) -> Self {
        let deny = |message: String, by_user, interrupt| Self::Deny { message, by_user, interrupt };
        if response["subtype"] == "error" {
            let error = response["error"].as_str().unwrap_or_default();
            return deny(format!("Tool permission request failed: Error: {error}"), false, false);
        }
        let payload = &response["response"];
        let has_input = payload["updatedInput"].is_object();
        match payload["behavior"].as_str() {
            Some("allow") if !has_input && !release.has(PlayerBehavior::AllowsWithoutInput) => {
                deny(texts::INVALID_ANSWER.to_owned(), false, false)
            }
            Some("allow") => Self::Allow {
                input: has_input.then(|| payload["updatedInput"].clone()),
                updates: PlayerPermissionUpdate::parse_all(&payload["updatedPermissions"]),
            },
            Some("deny") => match payload["message"].as_str() {
                Some(message) => deny(message.to_owned(), true, payload["interrupt"] == true),
                None => deny(texts::INVALID_ANSWER.to_owned(), false, false),
            },
            _ => deny(texts::INVALID_ANSWER.to_owned(), false, false),
        }
    }
}

impl PlayerPermissionUpdate {
    /// Parses a list of updates and skips unknown ones.
    pub(crate) fn parse_all(updates: &Value) -> Vec<Self> {
        updates.as_array().into_iter().flatten().filter_map(Self::parse).collect()
    }

    fn parse(update: &Value) -> Option<Self> {
        let rules = || {
            let rules = update["rules"].as_array().into_iter().flatten();
            rules.filter_map(PlayerRule::from_update).collect::<Vec<_>>()
        };
        let behavior = || match update["behavior"].as_str() {
            Some("deny") => RuleBehavior::Deny,
            Some("ask") => RuleBehavior::Ask,
            _ => RuleBehavior::Allow,
        };
        let destination = match update["destination"].as_str() {
            Some("localSettings") => RuleDestination::LocalSettings,
            _ => RuleDestination::Session,
        };
        match update["type"].as_str()? {
            "addRules" => Some(Self::AddRules(behavior(), rules(), destination)),
            "setMode" => PlayerMode::from_name(update["mode"].as_str()?).map(Self::SetMode),
            "addDirectories" => {
                let directories = update["directories"].as_array().into_iter().flatten();
                let directories = directories.filter_map(Value::as_str).map(PathBuf::from);
                Some(Self::AddDirectories(directories.collect()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{PlayerPermissionAnswer, PlayerPermissionUpdate};
    use crate::play::permission::PlayerMode;
    use crate::play::release::PlayerRelease;

    fn parse(response: &serde_json::Value) -> PlayerPermissionAnswer {
        PlayerPermissionAnswer::parse(response, PlayerRelease::default())
    }

    #[test]
    fn an_answer_without_an_input_is_invalid_for_older_releases() {
        let answer = json!({"subtype": "success", "response": {"behavior": "allow"}});
        assert!(matches!(parse(&answer), PlayerPermissionAnswer::Allow { input: None, .. }));
        let older = PlayerPermissionAnswer::parse(&answer, "2.1.37".parse().unwrap());
        assert!(matches!(older, PlayerPermissionAnswer::Deny { by_user: false, .. }));
    }

    #[test]
    fn invalid_answers_are_denials() {
        for payload in [json!({"foo": 1}), json!({"behavior": "deny"}), json!(null)] {
            let answer = parse(&json!({"subtype": "success", "response": payload}));
            assert!(
                matches!(answer, PlayerPermissionAnswer::Deny { by_user: false, .. }),
                "{payload}"
            );
        }
        let error = parse(&json!({"subtype": "error", "error": "host crashed"}));
        let message = "Tool permission request failed: Error: host crashed".to_owned();
        assert_eq!(
            error,
            PlayerPermissionAnswer::Deny { message, by_user: false, interrupt: false }
        );
    }

    #[test]
    fn permission_updates_are_parsed() {
        let updates = PlayerPermissionUpdate::parse_all(&json!([
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"}, {"type": "?"},
        ]));
        assert_eq!(updates, [PlayerPermissionUpdate::SetMode(PlayerMode::AcceptEdits)]);
    }
}
