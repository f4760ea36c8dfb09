//! What an owner has to do.

use journal::{Batch, Seq};

use crate::command::CommandOutput;
use crate::config::HookRequest;
use crate::machine::CommandId;
use crate::options::CliConversation;
use crate::session::{Error, LeaveOutcome};
use crate::shim::ShimCommand;

/// Something to be done for an owner.
#[derive(Debug)]
pub enum OwnerEffect {
    /// Store a batch.
    Write(Box<Batch>),
    /// Load the grants, and find out which of the files that the agent wants to edit are behind a
    /// symbolic link.
    LoadGrants {
        edited: Vec<String>,
    },
    /// Load what all sessions have cost on a day, in days since 1970.
    LoadDayCost {
        day: u64,
    },
    /// Load the stored lines for the agent.
    LoadOutbound,
    /// Send a command to the attached shim. It may be lost with the connection.
    Send(ShimCommand),
    Reply(CommandId, Result<CommandOutput, Error>),
    Start {
        run: u64,
        conversation: CliConversation,
    },
    /// Attach to the shim of a run, to receive its output from an offset on.
    Attach {
        run: u64,
        from: u64,
    },
    /// Read the output of a run whose shim is gone.
    ReadLeftovers {
        run: u64,
        from: u64,
    },
    /// Close the connection: the process has exited.
    Disconnect,
    /// Remove the files of a run, whose output is in the journal.
    RemoveRun(u64),
    /// Let the journal drop what only served streaming, up to an entry.
    Compact(Seq),
    /// Run a hook. Its answer is a command.
    RunHook(Box<HookRequest>),
    /// Nothing more is to be done.
    Leave(LeaveOutcome),
}
