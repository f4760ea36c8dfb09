//! The arguments of `towpath acp`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::settings::{AgentArgs, DefaultAgentArgs};

/// Be an agent for editors: speak the Agent Client Protocol over stdin and stdout
///
/// Editors start this command as their agent. Every session is saved, goes on when the editor is closed
/// or killed, and can be opened again in any editor, in a terminal (`towpath run --resume`), in the
/// browser and in Telegram (`towpath serve`), also several of them at once. The list of sessions has
/// those that the CLI ran without Towpath too.
///
/// Versions 1 and 2 of the protocol are spoken; the editor chooses. Stdout carries the protocol only;
/// the log goes to stderr and to `logs/acp.log` in the data directory.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 the editor closed the connection; 2 could not start.

Examples:
  towpath acp                                # the command for an editor's settings
  towpath acp --demo                         # the built-in agent: no CLI, no key, no network
  towpath acp --root ~/src                   # sessions may work below ~/src only
  towpath acp --profile careful              # options of new sessions, see `towpath config`
  towpath acp --own-turns-only               # for editors that expect nothing but answers")]
pub(crate) struct AcpArgs {
    /// The agent: a path, or a name to look up in `PATH` [default: `TOWPATH_CLAUDE`, then `claude`]
    #[arg(long, value_name = "PROGRAM", conflicts_with = "demo")]
    claude: Option<OsString>,
    /// Agent of new sessions, by name (see `towpath agents`), or the path of a Claude Code
    #[arg(long, value_name = "NAME", conflicts_with_all = ["demo", "claude"])]
    pub(super) agent: Option<String>,
    /// Use the built-in agent: no CLI, no key, no network
    #[arg(long)]
    demo: bool,
    /// The data directory, with the journal [default: `TOWPATH_DATA`]
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// A directory below which sessions may work; repeatable [default: all directories]
    #[arg(long = "root", value_name = "DIR")]
    pub(super) roots: Vec<PathBuf>,
    /// The profile with the options of new sessions; `none` for none (see `towpath config`)
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// Report only the turns that this editor started, and not those of other clients
    #[arg(long)]
    pub(super) own_turns_only: bool,
}

impl AcpArgs {
    /// The program of sessions for which no agent is chosen.
    pub(super) fn program(&self) -> AgentArgs {
        let path = self.agent.as_ref().filter(|it| it.contains('/')).map(OsString::from);
        AgentArgs { claude: self.claude.clone().or(path), demo: self.demo }
    }

    /// The agent of new sessions.
    pub(super) fn default_agent(&self) -> DefaultAgentArgs {
        DefaultAgentArgs { name: self.agent.clone().filter(|it| !it.contains('/')) }
    }
}
