//! The shim: a small process between Towpath and one agent, so that Towpath can be restarted.
//!
//! The shim is the same binary in a mode without a runtime ([`run_shim`]). It owns the agent's
//! pipes, appends what the agent prints to a *spool*, receives lines for the agent's stdin over a
//! Unix socket, records the exit status, and kills everything the agent started when the agent has
//! exited. Towpath is the shim's *owner* while it is connected; there is one owner at a time.
//!
//! ```text
//!            config (stdin)                     stdin
//!  Towpath ───────────────► shim ───────────────────────► agent
//!     ▲  ◄── Unix socket ──► │  ◄── stdout, stderr ──────────┘
//!     └────── spool ◄────────┘
//! ```
//!
//! Guarantees, whichever process dies:
//!
//! - Every byte the agent prints has an offset, counted from the start of its process (a *run*). It
//!   is in the spool before an owner sees it, and stays there until an owner
//!   [acknowledges](ShimCommand::Acknowledge) it. An owner attaches with the offset it has stored
//!   and misses nothing.
//! - Every line for the agent has a number, 1, 2, 3, …, and is written once: the shim ignores a
//!   number it has seen and refuses one that would leave a gap.
//! - A slow owner costs disk reads, not memory: what it has not read is read from the spool again.
//! - The shim never waits for the owner or the agent, so it obeys a signal or a request to stop at
//!   once, however much is pending in either direction.
//! - A shim without an owner lets a turn finish, waits as long as its [`ShimConfig`] says, and
//!   stops the agent.
//! - What the agent started ends with it. It is found by descent, by the [`ProcessMarker`] in its
//!   environment, or on Linux by a limit that it inherits. If the shim is killed, the next owner
//!   finds and kills it.
//! - A shim that is terminated (`SIGTERM`) stops its agent and leaves within seconds, even if the
//!   disk is full or its owner does not read. It ignores `SIGHUP` and `SIGINT`.
//!
//! A session's live directory holds `shim.json` (which processes run), `shim.lock` (locked while
//! the shim runs), `spool.RUN.BASE` (the output from offset `BASE` on), `exit.RUN.json`,
//! `stderr.RUN.tail`, the socket unless its path would be too long, and `lock`, by which one
//! Towpath [owns](Ownership) the session.
//!
//! The shim process itself is in `supervisor`; the other modules are Towpath's side or shared.

mod connection;
mod launch;
mod leftovers;
mod live_directory;
mod process_tree;
mod protocol;
mod spool;
mod stop;
mod supervisor;

pub use connection::{AttachError, ShimCommandSender, ShimConnection};
pub use launch::{
    ExitStatus, LaunchError, MODE, ProcessMarker, RunId, ShimConfig, ShimPids, ShimStartError,
    socket_path, start_shim,
};
pub(crate) use launch::{LOADER_VARIABLES, MARKER_VARIABLE, fits_socket};
pub use leftovers::{
    Leftovers, ReapError, ReapReport, has_leftovers, is_running, read_leftovers, reap, remove_run,
};
pub(crate) use live_directory::private_directory;
pub use live_directory::{Ownership, OwnershipError};
pub use protocol::{
    AgentSignal, MAX_WRITE, ProtocolVersion, ShimCommand, ShimEvent, ShimHello, SpoolFailure,
    StdinState,
};
pub use stop::stop_everything;
pub use supervisor::run_shim;
