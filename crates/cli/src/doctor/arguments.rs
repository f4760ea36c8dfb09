//! The arguments of `towpath doctor`.

use clap::Args;

use crate::settings::AgentChoice;

/// Say what is installed, what works, and what to do about the rest
///
/// Looks at the data directory and the journal, and starts the agent in an empty directory to see
/// whether it answers. No model is asked anything.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 all is well; 1 something is not; 2 could not look.

Examples:
  towpath doctor
  towpath doctor --claude ./node_modules/.bin/claude
  towpath doctor --json | jq '.checks[] | select(.good | not)'")]
pub(crate) struct DoctorOptions {
    #[command(flatten)]
    pub(crate) agent: AgentChoice,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// How long the agent may take to answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
}
