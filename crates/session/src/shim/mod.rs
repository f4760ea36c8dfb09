//! The shim: a small process between Towpath and one agent, so that Towpath may die.
//!
//! The shim is the same binary in a mode without a runtime ([`run_shim`]). It owns the agent's
//! pipes, appends what the agent prints to a *spool*, takes lines for its stdin over a Unix socket,
//! keeps its exit status, and ends whatever the agent started when the agent has ended. Towpath is
//! the shim's *owner* while it is connected; there is one at a time.
//!
//! ```text
//!            plan (stdin)                       stdin
//!  Towpath ───────────────► shim ───────────────────────► agent
//!     ▲  ◄── Unix socket ──► │  ◄── stdout, stderr ──────────┘
//!     └────── spool ◄────────┘
//! ```
//!
//! What holds, whoever dies:
//!
//! - Every byte the agent prints has an offset, counted from the start of its process (a [`Run`]). It
//!   is in the spool before an owner sees it, and stays there until an owner says it is
//!   [kept](Order::Kept). An owner attaches with the offset it has kept and misses nothing.
//! - Every line for the agent has a number, 1, 2, 3, …, and is written once: the shim ignores a
//!   number it has had and refuses one that would leave a gap.
//! - A slow owner costs disk reads, not memory: what it has not taken is read from the spool again.
//! - The shim never waits for the owner or the agent, so a signal or an end is obeyed at once
//!   however much is pending either way.
//! - A shim without an owner lets a turn finish, waits as long as its [`Plan`] says, and ends.
//! - What the agent started ends with it: by descent, or by the [`Marker`] in its environment.
//!
//! In a session's live directory lie `shim.json` (who runs), `shim.lock` (held while the shim
//! lives), `spool.RUN.BASE` (what the agent printed from offset `BASE` on), `exit.RUN.json`,
//! `stderr.RUN.tail`, the socket unless its path is too long for one, and `lock`, by which one
//! Towpath [owns](Ownership) the session.
//!
//! The modules of the shim itself are in `keeper`; the others are Towpath's side, or both sides'.

mod exit;
mod forget;
mod frame;
mod greeting;
mod keeper;
mod kin;
mod link;
mod news;
mod order;
mod ownership;
mod place;
mod plan;
mod remains;
mod spool;
mod start;
mod sweep;

pub use exit::Exit;
pub use forget::{forget, lives};
pub use greeting::{Greeting, Stdin, Terms, Version};
pub use keeper::run_shim;
pub use link::{AttachError, Link, Orders};
pub use news::{News, Trouble};
pub use order::{LONGEST_WRITE, Order, Signal};
pub use ownership::{Held, Ownership};
pub use plan::{Marker, Plan, Refusal, Run, socket_path};
pub use remains::{Remains, leaves, remains};
pub use start::{MODE, StartError, Started, start};
pub use sweep::{SweepError, Swept, sweep};
