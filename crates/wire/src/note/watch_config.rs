//! What Towpath does with the files a session's agent changes: copy, commit, run hooks.
//!
//! It is a setting like any other: recorded with who changed it and stored with the session. The
//! agent does not know about it. It holds no secrets; it names the environment variable of the
//! server that does.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How [`WatchChoice::Inherit`] is written.
const INHERIT: &str = "inherit";

/// What a session says about its watch configuration. As JSON it is `"inherit"`, `null` or a
/// configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WatchChoice {
    /// The default of the server applies, if it has one.
    #[default]
    Inherit,
    /// Nothing is done, whatever the default is.
    Off,
    /// The session has its own configuration.
    Own(Box<WatchConfig>),
}

/// What is done with changed files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchConfig {
    /// Where changed files are copied to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<WatchTarget>,
    /// When they are copied.
    pub every: Trigger,
    /// Whether to scan for files that shell commands changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub scan: bool,
    /// Only these files: names or paths with `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Not these files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Whether and how changes are committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitConfig>,
    /// Commands to run for changes.
    #[serde(skip_serializing_if = "HookConfig::is_none")]
    pub hooks: HookConfig,
}

/// A destination of changed files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WatchTarget {
    /// A directory that mirrors the project.
    Directory {
        /// The path with all symbolic links resolved.
        path: PathBuf,
    },
    /// A web server or an object store.
    Address {
        /// The URL, without credentials.
        url: String,
        /// The environment variable with a bearer token for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_variable: Option<String>,
    },
    /// A command for each file.
    Command {
        /// The command line for the shell. The path is `$1`.
        line: String,
    },
}

/// When changes are acted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// After each change.
    #[default]
    Change,
    /// At the end of a turn, all together.
    Turn,
}

/// How changes are committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitConfig {
    /// How many changes go into a commit.
    pub every: Trigger,
    /// A template for the message; none for the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Trailers of the message; none for the default ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trailers: Option<Vec<String>>,
    /// The author as `Name <address>`; none for the user's git identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// A template for a branch of the session's own; none for the branch that is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A directory below which the session gets a working tree of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<PathBuf>,
}

/// Hooks for changes, each a command line for the shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookConfig {
    /// Run when a file is about to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre: Option<String>,
    /// Run when a file has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<String>,
    /// Run when a turn has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Whether to call GitButler's hooks.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gitbutler: bool,
}

impl WatchChoice {
    pub fn is_inherit(&self) -> bool {
        *self == Self::Inherit
    }

    /// The configuration that applies, if any.
    pub fn resolve<'a>(&'a self, default: Option<&'a WatchConfig>) -> Option<&'a WatchConfig> {
        match self {
            Self::Inherit => default,
            Self::Off => None,
            Self::Own(config) => Some(config),
        }
    }
}

impl Serialize for WatchChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Inherit => serializer.serialize_str(INHERIT),
            Self::Off => serializer.serialize_none(),
            Self::Own(config) => config.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for WatchChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum WrittenChoice {
            Name(String),
            Own(Box<WatchConfig>),
        }
        match Option::<WrittenChoice>::deserialize(deserializer)? {
            None => Ok(Self::Off),
            Some(WrittenChoice::Own(config)) => Ok(Self::Own(config)),
            Some(WrittenChoice::Name(name)) if name == INHERIT => Ok(Self::Inherit),
            Some(WrittenChoice::Name(name)) => {
                let error = format!("`{name}` is no watch configuration; use `{INHERIT}` or null");
                Err(serde::de::Error::custom(error))
            }
        }
    }
}

impl Default for CommitConfig {
    fn default() -> Self {
        let every = Trigger::Turn;
        let (message, trailers, author, branch, worktree) = (None, None, None, None, None);
        Self { every, message, trailers, author, branch, worktree }
    }
}

impl HookConfig {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a hook runs before a file changes.
    pub fn runs_before_changes(&self) -> bool {
        self.pre.is_some() || self.gitbutler
    }
}

#[cfg(test)]
mod tests {
    use super::{CommitConfig, HookConfig, Trigger, WatchChoice, WatchConfig, WatchTarget};
    use crate::note::{Actor, Note, Setting};

    fn written(config: Option<WatchConfig>) -> String {
        let off = WatchChoice::Off;
        written_choice(config.map_or(off, |config| WatchChoice::Own(Box::new(config))))
    }

    fn written_choice(choice: WatchChoice) -> String {
        let by = Actor { name: "ann".to_owned(), via: "api".to_owned() };
        let setting = Setting::Watch(choice);
        let note = Note::SettingChanged { setting, by };
        let line = note.to_line();
        assert_eq!(Note::read(&line), Some(note));
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_config_reads_back_as_written_and_omits_defaults() {
        let config = WatchConfig {
            targets: vec![
                WatchTarget::Directory { path: "/copy".into() },
                WatchTarget::Address {
                    url: "https://files.example/p/".to_owned(),
                    token_variable: Some("FILES_TOKEN".to_owned()),
                },
                WatchTarget::Command { line: "echo \"$1\"".to_owned() },
            ],
            every: Trigger::Turn,
            scan: true,
            commit: Some(CommitConfig { branch: Some("b".to_owned()), ..CommitConfig::default() }),
            hooks: HookConfig { post: Some("./hook".to_owned()), ..HookConfig::default() },
            ..WatchConfig::default()
        };
        written(Some(config));
        let line = written(Some(WatchConfig::default()));
        assert!(line.contains(r#""value":{"every":"change"}"#), "{line}");
        let line = written(None);
        assert!(line.contains(r#""setting":"watch","value":null"#), "{line}");
        let line = written_choice(WatchChoice::Inherit);
        assert!(line.contains(r#""setting":"watch","value":"inherit""#), "{line}");
    }

    #[test]
    fn a_session_without_a_choice_inherits_and_a_choice_wins() {
        let default = WatchConfig { scan: true, ..WatchConfig::default() };
        let own = WatchChoice::Own(Box::default());
        assert_eq!(WatchChoice::Inherit.resolve(Some(&default)), Some(&default));
        assert_eq!(WatchChoice::Inherit.resolve(None), None);
        assert_eq!(WatchChoice::Off.resolve(Some(&default)), None);
        assert_eq!(own.resolve(Some(&default)), Some(&WatchConfig::default()));
        assert!(serde_json::from_str::<WatchChoice>(r#""outherit""#).is_err());
    }

    #[test]
    fn unknown_fields_of_a_later_version_are_ignored() {
        let config: WatchConfig =
            serde_json::from_str(r#"{"scan":true,"at":"noon","commit":{"sign":1}}"#).unwrap();
        let commit = Some(CommitConfig::default());
        assert_eq!(config, WatchConfig { scan: true, commit, ..WatchConfig::default() });
    }
}
