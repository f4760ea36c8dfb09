//! What is to be done with the files a session's agent changes.
//!
//! A wish is a setting like others: journalled with who made it, kept with the session, and without
//! any effect on the agent. It holds no secret: where one is needed it names the variable of the
//! server's environment that has it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is to be done with changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WatchWish {
    /// Where changed files go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<WatchTarget>,
    /// When they go.
    pub every: Pace,
    /// Whether to look for what commands of the shell changed, too.
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
    pub commit: Option<CommitWish>,
    /// Programs to tell of changes.
    #[serde(skip_serializing_if = "HookWish::is_none")]
    pub hooks: HookWish,
}

/// A place that changed files are brought to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WatchTarget {
    /// A directory that is kept like the project.
    Directory {
        /// Where it is, with every link followed.
        path: PathBuf,
    },
    /// A web server or an object store.
    Address {
        /// Where it is, without a secret in it.
        url: String,
        /// The variable with a bearer token for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token_variable: Option<String>,
    },
    /// A command for each file.
    Command {
        /// The line for the shell; it finds the path as `$1`.
        line: String,
    },
}

/// How many changes go together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Each by itself.
    #[default]
    Change,
    /// Those of a turn, when it is over.
    Turn,
}

/// How changes are committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommitWish {
    /// How many go into a commit.
    pub every: Pace,
    /// The message, a template; the usual one where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Lines below it; the usual ones where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trailers: Option<Vec<String>>,
    /// The author, as `Name <address>`; the user where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// A branch of the session's own, a template; what is checked out where nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A directory below which the session gets a working tree of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<PathBuf>,
}

/// Programs to tell of changes, each a line for the shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookWish {
    /// Run when a file is about to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre: Option<String>,
    /// Run when a file has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post: Option<String>,
    /// Run when a turn is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// Whether GitButler's hooks are run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gitbutler: bool,
}

impl Default for CommitWish {
    fn default() -> Self {
        let every = Pace::Turn;
        let (message, trailers, author, branch, worktree) = (None, None, None, None, None);
        Self { every, message, trailers, author, branch, worktree }
    }
}

impl HookWish {
    /// Whether nobody is told.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{CommitWish, HookWish, Pace, WatchTarget, WatchWish};
    use crate::note::{Actor, Note, Setting};

    fn written(wish: Option<WatchWish>) -> String {
        let by = Actor { name: "ann".to_owned(), via: "api".to_owned() };
        let setting = Setting::Watch(wish.map(Box::new));
        let note = Note::SettingChanged { setting, by };
        let line = note.to_line();
        assert_eq!(Note::read(&line), Some(note));
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_wish_reads_back_as_it_was_written_and_says_only_what_was_said() {
        let wish = WatchWish {
            targets: vec![
                WatchTarget::Directory { path: "/copy".into() },
                WatchTarget::Address {
                    url: "https://files.example/p/".to_owned(),
                    token_variable: Some("FILES_TOKEN".to_owned()),
                },
                WatchTarget::Command { line: "echo \"$1\"".to_owned() },
            ],
            every: Pace::Turn,
            scan: true,
            commit: Some(CommitWish { branch: Some("b".to_owned()), ..CommitWish::default() }),
            hooks: HookWish { post: Some("./hook".to_owned()), ..HookWish::default() },
            ..WatchWish::default()
        };
        written(Some(wish));
        let line = written(Some(WatchWish::default()));
        assert!(line.contains(r#""value":{"every":"change"}"#), "{line}");
        let line = written(None);
        assert!(line.contains(r#""setting":"watch","value":null"#), "{line}");
    }

    #[test]
    fn a_wish_of_a_later_version_is_read_as_far_as_it_is_known() {
        let wish: WatchWish =
            serde_json::from_str(r#"{"scan":true,"at":"noon","commit":{"sign":1}}"#).unwrap();
        let commit = Some(CommitWish::default());
        assert_eq!(wish, WatchWish { scan: true, commit, ..WatchWish::default() });
    }
}
