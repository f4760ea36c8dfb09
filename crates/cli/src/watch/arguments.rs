//! The arguments of `towpath watch`, and the settings that follow from them and the environment.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::watch::{
    ActionTrigger, CommandTarget, CommitSettings, CommitTarget, DirectoryTarget, HookSettings,
    HttpTarget, PatternError, RetryPolicy, Selection, StoreTarget, Target, TargetError,
    WatchSettings,
};
use clap::{Args, ValueEnum};
use wire::note::Trigger;

use super::change_actions::ChangeActionArgs;

/// The prefixes of the environment variables that configure object stores.
const STORE_VARIABLES: [&str; 3] = ["AWS_", "GOOGLE_", "AZURE_"];

/// The environment variable with the bearer token for web servers.
pub(super) const TOKEN_VARIABLE: &str = "TOWPATH_WATCH_TOKEN";

/// The default branch of a session's own working tree.
pub(super) const DEFAULT_BRANCH: &str = "towpath/{session}";

/// Copy a stream unchanged and act on every file the agent changes
///
/// Use it in a pipeline after an agent. Stdout is stdin, byte for byte, even if actions fail. When a
/// tool call has changed a file, the file is copied to every target, committed, or passed to a hook.
/// Failures are printed to stderr and written to the report; the stream continues.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 success; 1 a file could not be delivered; 2 could not start; 128 plus the number of the
signal that stopped it before the stream ended.

Targets: a directory; s3://BUCKET/PREFIX, gs:// or az://, configured with the vendor's environment
variables; http:// or https://, which uses PUT and DELETE, with `TOWPATH_WATCH_TOKEN` as bearer token.

Examples:
  claude -p 'fix it' --output-format stream-json --verbose | towpath watch --to ../copy
  … | towpath watch --to s3://backup/project --to https://files.example/p/ --report report.json
  … | towpath watch --commit                   # one commit per turn, only with the agent's files
  … | towpath watch --commit=change --branch   # on a separate branch per session
  … | towpath watch --scan --exec 'rsync -a \"$1\" host:project/\"$1\"'
  … | towpath watch --post ./my-hook | towpath inspect")]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) actions: ChangeActionArgs,
    /// The project directory [default: the agent's working directory, else the current directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,
    /// Join events that a terminal or a pretty-printer split into several lines
    #[arg(long)]
    pub(crate) rejoin: bool,
    /// Run a command at the end of each turn
    #[arg(
        long,
        visible_alias = "stop-hook",
        value_name = "COMMAND",
        help_heading = "Changed files"
    )]
    pub(crate) stop: Option<String>,
    /// The time limit of one copy, commit or hook
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
    /// How often to try a copy
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempts: u32,
    /// The time limit for all remaining work after the stream has ended
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub(crate) grace: u64,
    /// Write the result of every change to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print only errors
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print everything
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Use reads and writes instead of `tee(2)`, for comparison
    #[arg(long, hide = true)]
    pub(crate) copy: bool,
}

/// When to act on changes.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WatchTrigger {
    /// After each change
    Change,
    /// At the end of each turn
    Turn,
}

impl From<WatchTrigger> for Trigger {
    fn from(trigger: WatchTrigger) -> Self {
        match trigger {
            WatchTrigger::Change => Self::Change,
            WatchTrigger::Turn => Self::Turn,
        }
    }
}

impl From<WatchTrigger> for ActionTrigger {
    fn from(trigger: WatchTrigger) -> Self {
        match trigger {
            WatchTrigger::Change => Self::Change,
            WatchTrigger::Turn => Self::Turn,
        }
    }
}

/// Arguments that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchArgsError {
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("no such directory: `{}`", .0.display())]
    Project(PathBuf),
    #[error("the target is the project itself: `{}`", .0.display())]
    TargetIsProject(PathBuf),
    #[error("could not determine the current directory")]
    CurrentDirectory(#[source] io::Error),
}

impl WatchArgsError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Target(TargetError::Address(_)) => {
                Some("a target is a directory, or an address like `s3://bucket/prefix`")
            }
            Self::Target(TargetError::Store { .. }) => {
                Some("object stores are configured with variables such as `AWS_REGION`")
            }
            _ => None,
        }
    }
}

impl WatchArgs {
    pub(super) fn settings(&self) -> Result<WatchSettings, WatchArgsError> {
        let current_directory = env::current_dir().map_err(WatchArgsError::CurrentDirectory)?;
        let timeout = Duration::from_secs(self.timeout);
        if let Some(project) = self.project.as_ref().filter(|it| !it.is_dir()) {
            return Err(WatchArgsError::Project(project.clone()));
        }
        let project = self.project.as_deref().unwrap_or(&current_directory);
        let mut targets = Vec::new();
        for address in &self.actions.to {
            targets.push(target(address, project)?);
        }
        for line in &self.actions.exec {
            targets.push(Target::Command(CommandTarget::new(line.clone(), timeout)));
        }
        Ok(WatchSettings {
            project: self.project.clone(),
            selection: Selection::new(&self.actions.include, &self.actions.exclude)?,
            rejoin: self.rejoin,
            scan: self.actions.scan,
            scan_since: None,
            targets,
            trigger: self.actions.every.into(),
            retry: RetryPolicy {
                attempts: self.attempts,
                timeout,
                grace: Duration::from_secs(self.grace),
                ..RetryPolicy::default()
            },
            commit: self.actions.commit.map(|trigger| self.commit_settings(trigger, timeout)),
            hooks: HookSettings {
                pre: self.actions.pre.clone(),
                post: self.actions.post.clone(),
                stop: self.stop.clone(),
                gitbutler: self.actions.gitbutler.then(|| PathBuf::from("but")),
                timeout,
                home: env::home_dir(),
                pre_by_agent: false,
            },
            current_directory,
        })
    }

    fn commit_settings(&self, trigger: WatchTrigger, timeout: Duration) -> CommitSettings {
        let defaults = CommitSettings::default();
        let trailers = if self.actions.no_trailers {
            Vec::new()
        } else if self.actions.trailer.is_empty() {
            defaults.trailers
        } else {
            self.actions.trailer.clone()
        };
        CommitSettings {
            trigger: trigger.into(),
            message: self.actions.message.clone().unwrap_or(defaults.message),
            trailers,
            author: self.actions.author.clone(),
            target: commit_target(self.actions.worktree.as_deref(), self.actions.branch.as_deref()),
            timeout,
        }
    }
}

fn target(address: &str, project: &Path) -> Result<Target, WatchArgsError> {
    match address.split_once("://") {
        Some(("http" | "https", _)) => {
            Ok(Target::Http(HttpTarget::new(address, token_in(TOKEN_VARIABLE))?))
        }
        Some(_) => Ok(Target::Store(StoreTarget::new(address, &store_options())?)),
        None => {
            let path = Path::new(address);
            let same = |a: &Path, b: &Path| {
                a.canonicalize().is_ok_and(|a| b.canonicalize().is_ok_and(|b| a == b))
            };
            if same(path, project) {
                return Err(WatchArgsError::TargetIsProject(path.to_owned()));
            }
            let target = DirectoryTarget::new(path).map_err(WatchArgsError::CurrentDirectory)?;
            Ok(Target::Directory(target))
        }
    }
}

/// The token in an environment variable.
#[expect(clippy::disallowed_methods, reason = "the binary reads the environment")]
pub(crate) fn token_in(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|token| !token.is_empty())
}

/// The configuration of object stores, from the environment variables of their vendors.
pub(crate) fn store_options() -> Vec<(String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| STORE_VARIABLES.iter().any(|prefix| name.starts_with(prefix)))
        .collect()
}

/// Where commits go. A working tree without a branch gets the default one.
pub(crate) fn commit_target(worktree: Option<&Path>, branch: Option<&str>) -> CommitTarget {
    match (worktree, branch) {
        (Some(directory), branch) => CommitTarget::Worktree {
            directory: directory.to_owned(),
            branch: branch.unwrap_or(DEFAULT_BRANCH).to_owned(),
        },
        (None, Some(branch)) => CommitTarget::Branch(branch.to_owned()),
        (None, None) => CommitTarget::CheckedOut,
    }
}
