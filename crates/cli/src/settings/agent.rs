//! Which program is the agent.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use session::AgentProgram;

use super::Settings;

/// What the command line says about the agent.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AgentChoice {
    /// The agent: a path, or a name to look for in `PATH` [default: `TOWPATH_CLAUDE`, `claude`]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "demo")]
    pub(crate) claude: Option<OsString>,
    /// Use the built-in agent: no CLI, no key, no network
    #[arg(long)]
    pub(crate) demo: bool,
}

/// There is no agent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAgent {
    #[error("there is no agent `{}`", .0.display())]
    NotFound(OsString),
    #[error("the agent `{}` cannot be run", .0.display())]
    NotAProgram(PathBuf),
    #[error("this program could not be found again")]
    NoSelf(#[source] io::Error),
}

impl NoAgent {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound(_) => Some(
                "install it, set `TOWPATH_CLAUDE`, or try the built-in one with `--demo`"
                    .to_owned(),
            ),
            Self::NotAProgram(path) => Some(format!("is `{}` executable?", path.display())),
            Self::NoSelf(_) => None,
        }
    }
}

impl Settings {
    /// The agent that is meant; it is there and can be run, as far as its file tells.
    pub(crate) fn agent(&self, choice: &AgentChoice) -> Result<AgentProgram, NoAgent> {
        if choice.demo {
            let program = env::current_exe().map_err(NoAgent::NoSelf)?.into_os_string();
            return Ok(AgentProgram { program, arguments: vec!["play".into()] });
        }
        let named = choice.claude.as_deref().or(self.claude.as_deref());
        let program = self.find(named)?;
        Ok(AgentProgram { program: program.into_os_string(), arguments: Vec::new() })
    }

    fn find(&self, named: Option<&OsStr>) -> Result<PathBuf, NoAgent> {
        let name = named.unwrap_or(OsStr::new("claude"));
        let not_found = || NoAgent::NotFound(name.to_owned());
        if Path::new(name).components().count() > 1 {
            let path = std::path::absolute(name).map_err(|_| not_found())?;
            return match path.is_file() {
                true if is_executable(&path) => Ok(path),
                true => Err(NoAgent::NotAProgram(path)),
                false => Err(not_found()),
            };
        }
        let in_path = env::split_paths(&self.search_path).map(|place| place.join(name));
        // Where its own installers put it, if nobody told the shell.
        let usual = self.home.iter().filter(|_| named.is_none()).flat_map(|home| {
            [".local/bin/claude", ".claude/local/claude"].map(|place| home.join(place))
        });
        in_path.chain(usual).find(|path| is_executable(path)).ok_or_else(not_found)
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}
