//! From options and environment to settings.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::watch::{
    BadPattern, BadTarget, CommandTarget, CommitPlace, CommitSettings, DirectoryTarget, ActionTrigger,
    HookSettings, HttpTarget, RetryPolicy, Selection, Settings, StoreTarget, Target,
};

use super::arguments::{WatchOptions, When};

/// The beginnings of variables that object stores are told their keys and places by.
const STORES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// The variable with the bearer token for web servers.
const TOKEN: &str = "TOWPATH_WATCH_TOKEN";

/// The branch where a working tree is asked for and none is named.
const BRANCH: &str = "towpath/{session}";

/// Options that cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    #[error(transparent)]
    Target(#[from] BadTarget),
    #[error("there is no directory `{}`", .0.display())]
    Project(PathBuf),
    #[error("the project cannot be its own target: `{}`", .0.display())]
    TargetIsProject(PathBuf),
    #[error("the current directory cannot be told")]
    CurrentDirectory(#[source] io::Error),
}

impl Unusable {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Target(BadTarget::Address(_)) => {
                Some("a target is a directory, or an address like `s3://bucket/prefix`")
            }
            Self::Target(BadTarget::Store { .. }) => {
                Some("stores are set up with their own variables, as `AWS_REGION`")
            }
            _ => None,
        }
    }
}

pub(super) fn settings(options: &WatchOptions) -> Result<Settings, Unusable> {
    let current_directory = env::current_dir().map_err(Unusable::CurrentDirectory)?;
    let limit = Duration::from_secs(options.timeout);
    if let Some(project) = options.project.as_ref().filter(|it| !it.is_dir()) {
        return Err(Unusable::Project(project.clone()));
    }
    let project = options.project.as_deref().unwrap_or(&current_directory);
    let mut targets = Vec::new();
    for word in &options.to {
        targets.push(target(word, project)?);
    }
    for line in &options.exec {
        targets.push(Target::Command(CommandTarget::new(line.clone(), limit)));
    }
    Ok(Settings {
        project: options.project.clone(),
        selection: Selection::new(&options.include, &options.exclude)?,
        rejoin: options.rejoin,
        scan: options.scan,
        since: None,
        targets,
        every: options.every.into(),
        retry: RetryPolicy {
            attempts: options.attempts,
            limit,
            at_end: Duration::from_secs(options.grace),
            ..RetryPolicy::default()
        },
        commit: options.commit.map(|every| commit(options, every, limit)),
        hooks: HookSettings {
            pre: options.pre.clone(),
            post: options.post.clone(),
            stop: options.stop.clone(),
            gitbutler: options.gitbutler.then(|| PathBuf::from("but")),
            limit,
            home: env::home_dir(),
        },
        current_directory,
    })
}

fn target(word: &str, project: &Path) -> Result<Target, Unusable> {
    match word.split_once("://") {
        Some(("http" | "https", _)) => Ok(Target::Http(HttpTarget::new(word, token_in(TOKEN))?)),
        Some(_) => Ok(Target::Store(StoreTarget::new(word, &store_options())?)),
        None => {
            let path = Path::new(word);
            let same = |a: &Path, b: &Path| {
                a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
            };
            if same(path, project) {
                return Err(Unusable::TargetIsProject(path.to_owned()));
            }
            let target = DirectoryTarget::new(path).map_err(Unusable::CurrentDirectory)?;
            Ok(Target::Directory(target))
        }
    }
}

/// The token that a variable holds.
#[expect(clippy::disallowed_methods, reason = "the binary reads the environment")]
pub(crate) fn token_in(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|token| !token.is_empty())
}

/// Keys and places of object stores, as the vendors' own programs find them.
pub(crate) fn store_options() -> Vec<(String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| STORES.iter().any(|store| name.starts_with(store)))
        .collect()
}

fn commit(options: &WatchOptions, every: When, limit: Duration) -> CommitSettings {
    let defaults = CommitSettings::default();
    let trailers = if options.no_trailers {
        Vec::new()
    } else if options.trailer.is_empty() {
        defaults.trailers
    } else {
        options.trailer.clone()
    };
    let place = commit_place(options.worktree.as_deref(), options.branch.as_deref());
    CommitSettings {
        every: every.into(),
        message: options.message.clone().unwrap_or(defaults.message),
        trailers,
        author: options.author.clone(),
        place,
        limit,
    }
}

impl From<When> for ActionTrigger {
    fn from(when: When) -> Self {
        match when {
            When::Change => Self::Change,
            When::Turn => Self::Turn,
        }
    }
}

/// Where commits go, by what was said of it.
pub(crate) fn commit_place(worktree: Option<&Path>, branch: Option<&str>) -> CommitPlace {
    match (worktree, branch) {
        (Some(below), branch) => CommitPlace::Worktree {
            below: below.to_owned(),
            branch: branch.unwrap_or(BRANCH).to_owned(),
        },
        (None, Some(branch)) => CommitPlace::Branch(branch.to_owned()),
        (None, None) => CommitPlace::Here,
    }
}
