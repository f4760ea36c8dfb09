//! From a config to settings: what of it can be done here and now.
//!
//! The gateway has looked at a config when it was made. Since then the server may have got other roots,
//! and somebody may have put links where directories were, so directories are looked at again.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ::watch::{
    CommandTarget, CommitSettings, DirectoryTarget, ActionTrigger, HookSettings, HttpTarget, RetryPolicy,
    Selection, Settings, StoreTarget, Target,
};
use gateway::Roots;
use wire::note::{CommitConfig, Pace, WatchTarget, WatchConfig};

use crate::watch::{commit_place, store_options, token_in};

/// How long all that is left may take when somebody wishes for something else.
const AT_END: Duration = Duration::from_mins(1);

/// What can be done, and why the rest cannot.
pub(super) struct Plan {
    pub(super) settings: Settings,
    pub(super) problems: Vec<String>,
}

impl Plan {
    /// Nothing is done with any file.
    pub(super) fn nothing() -> Self {
        let settings = Settings {
            project: None,
            current_directory: PathBuf::from("/"),
            selection: Selection::default(),
            rejoin: false,
            scan: false,
            since: None,
            targets: Vec::new(),
            every: ActionTrigger::Change,
            retry: RetryPolicy { at_end: AT_END, ..RetryPolicy::default() },
            commit: None,
            hooks: HookSettings::default(),
        };
        Self { settings, problems: Vec::new() }
    }
}

/// What can be done of a config for a session that works in a directory. Blocks.
pub(super) fn plan(
    config: &WatchConfig,
    directory: PathBuf,
    roots: &Roots,
    since: Option<SystemTime>,
) -> Plan {
    let Plan { settings, mut problems } = Plan::nothing();
    let selection = match Selection::new(&config.include, &config.exclude) {
        Ok(selection) => selection,
        Err(error) => {
            // Without knowing which files are meant, none is.
            problems.push(error.to_string());
            return Plan { settings, problems };
        }
    };
    let mut targets = Vec::new();
    for target in &config.targets {
        match usable(target, &directory, roots, settings.retry.limit) {
            Ok(target) => targets.push(target),
            Err(problem) => problems.push(problem),
        }
    }
    let hooks = HookSettings {
        pre: config.hooks.pre.clone(),
        post: config.hooks.post.clone(),
        stop: config.hooks.stop.clone(),
        gitbutler: config.hooks.gitbutler.then(|| PathBuf::from("but")),
        home: std::env::home_dir(),
        ..HookSettings::default()
    };
    let settings = Settings {
        project: Some(directory.clone()),
        current_directory: directory,
        selection,
        scan: config.scan,
        since,
        targets,
        every: every(config.every),
        commit: config.commit.as_ref().map(commit),
        hooks,
        ..settings
    };
    Plan { settings, problems }
}

fn usable(
    target: &WatchTarget,
    project: &Path,
    roots: &Roots,
    limit: Duration,
) -> Result<Target, String> {
    match target {
        WatchTarget::Directory { path } => {
            if roots.resolve_new(path).as_ref() != Some(path) {
                return Err(format!("`{}` is no longer below a root", path.display()));
            }
            if path == project {
                return Err("the project cannot be its own target".to_owned());
            }
            Ok(Target::Directory(DirectoryTarget::confined(path.clone())))
        }
        WatchTarget::Address { url, token_variable } => {
            let token = match token_variable {
                Some(name) => {
                    let token = token_in(name);
                    Some(token.ok_or_else(|| format!("the variable `{name}` is not set"))?)
                }
                None => None,
            };
            let target = if url.starts_with("http://") || url.starts_with("https://") {
                HttpTarget::new(url, token).map(Target::Http)
            } else {
                StoreTarget::new(url, &store_options()).map(Target::Store)
            };
            target.map_err(|error| error.to_string())
        }
        WatchTarget::Command { line } => {
            Ok(Target::Command(CommandTarget::new(line.clone(), limit)))
        }
    }
}

fn commit(config: &CommitConfig) -> CommitSettings {
    let usual = CommitSettings::default();
    let place = commit_place(config.worktree.as_deref(), config.branch.as_deref());
    CommitSettings {
        every: every(config.every),
        message: config.message.clone().unwrap_or(usual.message),
        trailers: config.trailers.clone().unwrap_or(usual.trailers),
        author: config.author.clone(),
        place,
        limit: usual.limit,
    }
}

fn every(pace: Pace) -> ActionTrigger {
    match pace {
        Pace::Change => ActionTrigger::Change,
        Pace::Turn => ActionTrigger::Turn,
    }
}
