//! The arguments of `towpath sessions`.

use clap::{Args, Subcommand};

/// List, show, export, rename and delete sessions
///
/// An ID is `last`, the beginning of a session's own id, or of the id the CLI gave it.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Exit codes: 0 done; 1 not done because the person said no; 2 could not be done.

Examples:
  towpath sessions
  towpath sessions --json | jq -r '.[] | select(.status == \"waiting\").id'
  towpath sessions show last --full | less -R
  towpath sessions export 1f0c | towpath inspect
  towpath sessions delete 1f0c 77ab --yes"
)]
pub(crate) struct SessionsOptions {
    #[command(subcommand)]
    deed: Option<Deed>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What is to be done.
#[derive(Clone, Debug, Subcommand)]
pub(super) enum Deed {
    /// All of them, the last active first
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// One of them: where it stands, what was asked, who allowed what, what it used
    Show(ShowOptions),
    /// The agent's output, line by line as it came
    ///
    /// Deltas of messages that are complete are not kept; everything else is there, byte for byte.
    Export {
        /// Which session
        id: String,
        /// Towpath's own notes too, between the agent's lines
        #[arg(long)]
        all: bool,
    },
    /// Give one another name
    Rename {
        /// Which session
        id: String,
        /// The name
        name: String,
    },
    /// Delete some for good; their agents are ended first
    Delete {
        /// Which sessions
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Args, Clone, Debug)]
pub(super) struct ShowOptions {
    /// Which session
    pub(super) id: String,
    /// The whole conversation too, with everything in it
    #[arg(long, conflicts_with = "json")]
    pub(super) full: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl SessionsOptions {
    /// What is to be done; without a word, they are listed.
    pub(super) fn deed(&self) -> Deed {
        self.deed.clone().unwrap_or(Deed::List { json: self.json })
    }
}
