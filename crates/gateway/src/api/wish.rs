//! What is to be done with the files an agent changes, as it is sent.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use wire::note::{CommitWish, HookWish, Pace, WatchTarget, WatchWish};

/// What is said of the watching. `null` and nothing are not the same.
#[derive(Debug, Default)]
pub(super) enum WatchSaid {
    #[default]
    Unsaid,
    Said(Option<Box<ShownWish>>),
}

/// What is done with files the agent changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownWish {
    /// Where changed files go.
    #[serde(default)]
    pub targets: Vec<ShownTarget>,
    /// When they go.
    #[serde(default)]
    pub every: ShownPace,
    /// Whether to look for what commands of the shell changed, too.
    #[serde(default)]
    pub scan: bool,
    /// Only these files: names or paths with `*`.
    #[serde(default)]
    pub include: Vec<String>,
    /// Not these files.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Whether and how changes are committed.
    #[serde(default)]
    pub commit: Option<ShownCommit>,
    /// Programs to tell of changes; for administrators.
    #[serde(default)]
    pub hooks: ShownHooks,
}

/// Where changed files go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ShownTarget {
    /// A directory that is kept like the project, below a root of the server.
    Directory {
        /// An absolute path.
        path: String,
    },
    /// A web server or an object store; for administrators.
    Address {
        /// `https://…`, `s3://…`, …, without a secret in it.
        url: String,
        /// The variable of the server's environment with a bearer token for it.
        #[serde(default)]
        token_variable: Option<String>,
    },
    /// A command for each file; for administrators.
    Command {
        /// A line for the shell; it finds the path as `$1`.
        line: String,
    },
}

/// How many changes go together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShownPace {
    /// Each by itself.
    #[default]
    Change,
    /// Those of a turn, when it is over.
    Turn,
}

/// How changes are committed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ShownCommit {
    /// How many go into a commit.
    #[serde(default = "turn")]
    pub every: ShownPace,
    /// The message, with `{summary}`, `{prompt}`, `{session}`, `{files}`, `{tool}` and `{count}`
    /// filled in.
    #[serde(default)]
    pub message: Option<String>,
    /// Lines below it.
    #[serde(default)]
    pub trailers: Option<Vec<String>>,
    /// The author, as `Name <address>`.
    #[serde(default)]
    pub author: Option<String>,
    /// A branch of the session's own, with `{session}` filled in.
    #[serde(default)]
    pub branch: Option<String>,
    /// A directory below which the session gets a working tree of its own.
    #[serde(default)]
    pub worktree: Option<String>,
}

/// Programs to tell of changes, each a line for the shell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShownHooks {
    /// Run when a file is about to change.
    pub pre: Option<String>,
    /// Run when a file has changed.
    pub post: Option<String>,
    /// Run when a turn is over.
    pub stop: Option<String>,
    /// Whether GitButler's hooks are run.
    pub gitbutler: bool,
}

fn turn() -> ShownPace {
    ShownPace::Turn
}

impl<'de> Deserialize<'de> for WatchSaid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self::Said)
    }
}

impl From<ShownPace> for Pace {
    fn from(pace: ShownPace) -> Self {
        match pace {
            ShownPace::Change => Self::Change,
            ShownPace::Turn => Self::Turn,
        }
    }
}

impl From<Pace> for ShownPace {
    fn from(pace: Pace) -> Self {
        match pace {
            Pace::Change => Self::Change,
            Pace::Turn => Self::Turn,
        }
    }
}

impl From<WatchWish> for ShownWish {
    fn from(wish: WatchWish) -> Self {
        let shown = |path: PathBuf| path.to_string_lossy().into_owned();
        let target = |target| match target {
            WatchTarget::Directory { path } => ShownTarget::Directory { path: shown(path) },
            WatchTarget::Address { url, token_variable } => {
                ShownTarget::Address { url, token_variable }
            }
            WatchTarget::Command { line } => ShownTarget::Command { line },
        };
        let commit = |it: CommitWish| ShownCommit {
            every: it.every.into(),
            message: it.message,
            trailers: it.trailers,
            author: it.author,
            branch: it.branch,
            worktree: it.worktree.map(shown),
        };
        let HookWish { pre, post, stop, gitbutler } = wish.hooks;
        Self {
            targets: wish.targets.into_iter().map(target).collect(),
            every: wish.every.into(),
            scan: wish.scan,
            include: wish.include,
            exclude: wish.exclude,
            commit: wish.commit.map(commit),
            hooks: ShownHooks { pre, post, stop, gitbutler },
        }
    }
}
