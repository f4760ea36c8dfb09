//! Driving one agent: the turn machine, the task that owns the session, the shim that owns the
//! process.
//!
//! ```text
//!  a Session (handle) ── commands ─►  owner ── Input ─►  Machine (pure)
//!  Journal ◄── batches ────────────────┤  ◄── Effect ──────┘
//!  Journal ── follow ─► anybody        │
//!                                      └── orders ─►  shim ── stdin ─►  agent
//!                                      ◄── output ─── spool ◄── stdout ──┘
//! ```
//!
//! [`Sessions`] has one owner task for each session it drives. Whatever happens to a session becomes
//! an [`Input`](machine::Input) of its [`Machine`](machine::Machine), and what that decides is in the
//! journal before any of it leaves the process. The [`shim`] outlives Towpath: whoever comes next
//! attaches to it exactly where the journal ends.
//!
//! Deliberately absent: anything shown to anybody. Whoever wants to see follows the journal.

mod gather;
mod grant;
mod handle;
mod heard;
mod home;
pub mod machine;
mod options;
mod owner;
mod roots;
mod sessions;
pub mod shim;
mod upload;

pub use handle::{Error, Session};
pub use heard::{Asked, Ended, Heard};
pub use home::{AgentProgram, Alone, Home};
pub use options::{Conversation, Options};
pub use roots::Roots;
pub use sessions::{Creation, OpenError, Sessions};
pub use upload::{keep_file, with_files};
