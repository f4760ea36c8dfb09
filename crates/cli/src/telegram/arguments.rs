//! What can be said to `towpath telegram`.

use std::path::PathBuf;

use clap::Args;

use super::BotChoice;
use crate::settings::AgentChoice;

/// Your agents in Telegram
///
/// Runs a bot whose chats, and topics of groups, are sessions: what you write is a prompt, what the
/// agent asks is a card with buttons, what it answers is a message. The bot's token comes from
/// `TOWPATH_TELEGRAM_TOKEN`. Ended by SIGTERM or Ctrl-C it leaves running agents alone: whoever runs
/// on the same data next picks them up where they are.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 ended; 2 could not start, or cannot go on.

Examples:
  export TOWPATH_TELEGRAM_TOKEN=123456789:AAF…         # from @BotFather
  towpath telegram --demo --allow 4711                 # no CLI, no key
  towpath telegram --root ~/src --allow 4711 --allow 4712
  towpath telegram                                     # nobody: but your number is in the log
  towpath serve --telegram --allow 4711                # in the browser and in Telegram at once")]
pub(crate) struct TelegramOptions {
    /// Where the journal is [default: `TOWPATH_DATA`]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// A directory below which sessions may work; may be given several times [default: here]
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) bot: BotChoice,
    #[command(flatten)]
    pub(crate) agent: AgentChoice,
    /// Print `{"bot","pid"}` on stdout when ready
    #[arg(long)]
    pub(crate) json: bool,
}
