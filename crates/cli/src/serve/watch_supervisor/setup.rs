//! Turns a watch configuration into settings.
//!
//! The gateway checked the configuration when it was set. Since then the server may have been started
//! with other roots, and directories may have been replaced by symbolic links, so directories are
//! checked again.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ::watch::{
    ActionTrigger, CommandTarget, CommitSettings, DirectoryTarget, HookSettings, HttpTarget,
    RetryPolicy, Selection, StoreTarget, Target, WatchSettings,
};
use gateway::Roots;
use journal::SessionId;
use wire::note::{CommitConfig, Trigger, WatchConfig, WatchTarget};

use crate::watch::{commit_target, store_options, token_in};

/// The time limit for all remaining work when the configuration changes.
const GRACE: Duration = Duration::from_mins(1);

/// A session, and what is done with its files.
pub(super) struct WatchedSession {
    pub(super) id: SessionId,
    pub(super) directory: PathBuf,
    pub(super) config: WatchConfig,
    /// The directories that sessions may use. None if the person who started the server has written
    /// the configuration, who may use any.
    pub(super) roots: Option<Roots>,
}

/// The usable part of a configuration, and why other parts are not usable.
pub(super) struct WatchSetup {
    pub(super) settings: WatchSettings,
    pub(super) problems: Vec<String>,
}

impl WatchSetup {
    /// Sets up the configuration of a session. This blocks.
    pub(super) fn new(watched: WatchedSession, scan_since: Option<SystemTime>) -> Self {
        let WatchedSession { id, directory, config, roots } = watched;
        let Self { settings, mut problems } = Self::without_actions();
        let selection = match Selection::new(&config.include, &config.exclude) {
            Ok(selection) => selection,
            Err(error) => {
                // Without a valid selection no file is acted on.
                problems.push(error.to_string());
                return Self { settings, problems };
            }
        };
        let mut targets = Vec::new();
        for config in &config.targets {
            let timeout = settings.retry.timeout;
            match target(&expand(config, id, &directory), &directory, roots.as_ref(), timeout) {
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
            // The agent calls them through the session.
            pre_by_agent: true,
            ..HookSettings::default()
        };
        let settings = WatchSettings {
            project: Some(directory.clone()),
            current_directory: directory,
            selection,
            scan: config.scan,
            scan_since,
            targets,
            trigger: trigger(config.every),
            commit: config.commit.as_ref().map(commit_settings),
            hooks,
            ..settings
        };
        Self { settings, problems }
    }

    /// Settings that act on no file.
    pub(super) fn without_actions() -> Self {
        let settings = WatchSettings {
            project: None,
            current_directory: PathBuf::from("/"),
            selection: Selection::default(),
            rejoin: false,
            scan: false,
            scan_since: None,
            targets: Vec::new(),
            trigger: ActionTrigger::Change,
            retry: RetryPolicy { grace: GRACE, ..RetryPolicy::default() },
            commit: None,
            hooks: HookSettings::default(),
        };
        Self { settings, problems: Vec::new() }
    }
}

/// Replaces the placeholders in the path of a directory and in an address.
fn expand(target: &WatchTarget, session: SessionId, project: &Path) -> WatchTarget {
    let name = project.file_name().unwrap_or_default().to_string_lossy();
    let expand =
        |text: &str| text.replace("{session}", &session.to_string()).replace("{project}", &name);
    match target {
        WatchTarget::Directory { path } => match path.to_str() {
            Some(text) => WatchTarget::Directory { path: expand(text).into() },
            None => target.clone(),
        },
        WatchTarget::Address { url, token_variable } => {
            WatchTarget::Address { url: expand(url), token_variable: token_variable.clone() }
        }
        WatchTarget::Command { .. } => target.clone(),
    }
}

fn target(
    config: &WatchTarget,
    project: &Path,
    roots: Option<&Roots>,
    timeout: Duration,
) -> Result<Target, String> {
    match config {
        WatchTarget::Directory { path } => {
            if roots.is_some_and(|roots| roots.resolve_new(path).as_ref() != Some(path)) {
                return Err(format!(
                    "the target `{}` is outside the server's roots",
                    path.display()
                ));
            }
            if path == project {
                return Err("the target is the project itself".to_owned());
            }
            let target = match roots {
                Some(_) => DirectoryTarget::confined(path.clone()),
                None => DirectoryTarget::new(path).map_err(|error| error.to_string())?,
            };
            Ok(Target::Directory(target))
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
            Ok(Target::Command(CommandTarget::new(line.clone(), timeout)))
        }
    }
}

fn commit_settings(config: &CommitConfig) -> CommitSettings {
    let defaults = CommitSettings::default();
    CommitSettings {
        trigger: trigger(config.every),
        message: config.message.clone().unwrap_or(defaults.message),
        trailers: config.trailers.clone().unwrap_or(defaults.trailers),
        author: config.author.clone(),
        target: commit_target(config.worktree.as_deref(), config.branch.as_deref()),
        timeout: defaults.timeout,
    }
}

fn trigger(trigger: Trigger) -> ActionTrigger {
    match trigger {
        Trigger::Change => ActionTrigger::Change,
        Trigger::Turn => ActionTrigger::Turn,
    }
}
