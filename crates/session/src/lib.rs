//! Driving one agent: the session machine, the task that owns a session, and the shim process
//! that owns the agent process.
//!
//! ```text
//!  Session (handle) ── SessionCommand ─►  owner ── Input ─►  Machine (pure)
//!  Journal ◄── batches ────────────────────┤  ◄── Effect ──────┘
//!  Journal ── follow ─► clients            │
//!                                          └── ShimCommand ─►  shim ── stdin ─►  agent
//!                                          ◄── ShimEvent ───── spool ◄── stdout ──┘
//! ```
//!
//! [`Sessions`] has one owner task for each session that this process drives. Everything that
//! happens to a session becomes an [`Input`](machine::Input) of its
//! [`Machine`](machine::Machine), and the machine's decisions are in the journal before any of them
//! leaves the process. The [`shim`] outlives Towpath: the next Towpath attaches to it exactly where
//! the journal ends.
//!
//! Deliberately absent: anything that a user sees. Clients follow the journal.

mod agent_event;
mod command;
mod config;
pub mod machine;
mod options;
pub mod owner;
mod roots;
mod session;
mod sessions;
pub mod shim;
mod upload;

pub use agent_event::{AgentEvent, PermissionRequest};
pub use command::{
    AgentQuery, CommandError, CommandOutput, CommandResult, GrantScope, NewPrompt, RequestAnswer,
    RuleChoice, SessionCommand,
};
pub use config::{AgentProgram, SessionLimits, SessionsConfig, UnattendedLimits};
pub use options::{CliConversation, SessionOptions, UnreadableOptions};
pub use roots::Roots;
pub use session::{Error, LeaveOutcome, Session};
pub use sessions::{OpenError, SessionSpec, Sessions, StoppedSession};
pub use upload::{append_file_paths, store_upload};
