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
mod agent_message;
mod catalog;
mod cli_settings;
mod command;
mod config;
mod dialect;
pub mod host;
pub mod machine;
mod options;
pub mod owner;
mod placement;
pub mod profiles;
mod project_request;
mod prompt_gate;
mod relay;
mod remote;
mod roots;
mod schedule;
mod session;
mod sessions;
pub mod shim;
mod upload;
mod worktree_service;

pub use agent_event::{AgentEvent, HookCallback, PermissionRequest};
pub use agent_message::{AgentMessage, SettingKey};
pub use catalog::{
    AgentCatalog, AgentNotInstalled, AgentProtocol, AgentSpec, KilledGroup, LocatedAgent,
    UnknownAgent, VersionError,
};
pub use command::{
    AgentQuery, CommandError, CommandOutput, CommandResult, GrantScope, NewPrompt, PromptChange,
    RequestAnswer, RuleChoice, SessionCommand,
};
pub use config::{
    AgentProgram, HookRequest, SessionLimits, SessionsConfig, UnattendedLimits, WatchPolicy,
};
pub use options::{
    CliConversation, IdleTimeout, MASK, OPTIONS, OptionChanges, OptionEffect, OptionError,
    OptionKind, OptionRole, OptionSpec, SessionOptions, SessionSpending, UnreadableOptions,
    check_dollars,
};
pub use placement::{
    FleetConnection, LostConnection, OwningWorker, Placement, WorkerPresence, WorkerSummary,
};
pub use project_request::{
    ExchangeMode, ProjectAnswer, ProjectBody, ProjectClient, ProjectRequest, ProjectRole,
    ProjectService,
};
pub use prompt_gate::{GateFuture, PromptConfirmation, PromptGate};
pub use relay::{CommandRelay, RelayFuture};
pub use roots::Roots;
pub use schedule::{
    MAX_SCHEDULE_TEXT, MAX_SCHEDULES, NewSchedule, PromptSchedule, ScheduleError, ScheduleTimes,
};
pub use session::{Error, LeaveOutcome, Session};
pub use sessions::{OpenError, SessionSpec, Sessions, StoppedSession};
pub use upload::{append_file_paths, safe_file_name, store_upload};
pub use worktree_service::{WorktreeRemoval, WorktreeService};
