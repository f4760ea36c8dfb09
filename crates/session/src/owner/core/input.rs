//! What can happen to an owner.

use journal::{Grant, OutboundLine, Seq};

use crate::command::SessionCommand;
use crate::machine::{AgentExit, CommandId};
use crate::shim::ShimEvent;

/// Something that happened to an owner.
#[derive(Debug)]
pub enum OwnerInput {
    /// The first input: take over what an earlier owner left.
    TakeOver,
    Command {
        id: CommandId,
        command: Box<SessionCommand>,
    },
    /// Stop driving the session.
    Leave,
    /// The shim reported something.
    Shim(ShimEvent),
    /// The connection to the shim ended without an exit.
    Disconnected,
    /// The result of [`OwnerEffect::Attach`](super::OwnerEffect::Attach).
    Attached(AttachOutcome),
    /// The result of [`OwnerEffect::Start`](super::OwnerEffect::Start).
    Started(StartOutcome),
    /// The next piece of the output that [`OwnerEffect::ReadLeftovers`](super::OwnerEffect::ReadLeftovers) asked for.
    Leftover {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// There is no more of it, and this is how the process ended.
    LeftoversEnd(AgentExit),
    /// The result of [`OwnerEffect::Write`](super::OwnerEffect::Write): the number of the session's last entry.
    Written(Result<Seq, WriteFailure>),
    /// The result of [`OwnerEffect::LoadGrants`](super::OwnerEffect::LoadGrants): all grants that have not expired, and those of the
    /// edited files that a symbolic link leads to.
    Grants {
        grants: Vec<Grant>,
        linked: Vec<String>,
    },
    /// The result of [`OwnerEffect::LoadDayCost`](super::OwnerEffect::LoadDayCost), in dollars.
    DayCost(f64),
    /// The result of [`OwnerEffect::LoadOutbound`](super::OwnerEffect::LoadOutbound).
    Outbound(Vec<OutboundLine>),
    /// Time passed.
    Tick,
}

/// What an attempt to attach to a shim found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachOutcome {
    /// It runs.
    Attached {
        /// The last line it has received.
        last_write: u64,
        /// Whether it answers pings.
        pings: bool,
    },
    /// It does not run.
    Gone,
}

/// What became of the start of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    /// It runs, and its shim is attached.
    Running {
        /// Whether the shim answers pings.
        pings: bool,
    },
    /// It has exited at once, and its shim with it.
    Exited,
    /// It was not started, for this reason.
    Failed(String),
}

/// Why a batch was not stored. It can be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    Full,
    Busy,
}
