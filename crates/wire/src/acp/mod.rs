//! The Agent Client Protocol (ACP): what editors send to an agent, and what the agent sends back.
//!
//! [`event`] reads what agents say that Towpath drives. In everything else Towpath is the agent. Reading is total: a line is a [message](RpcMessage), or an error that says what
//! to answer. A known method with unexpected parameters is an error of its own, never an unknown method.
//!
//! There is one vocabulary for what an agent says, [`AcpUpdate`], which is shaped like version 2 of the
//! protocol: everything has an id, and what was sent can be replaced. Versions 1 and 2 are two ways to
//! write it, in [`AgentLine`].

mod client_call;
mod content;
pub mod event;
mod initialize;
mod line;
mod mcp_server;
mod request_key;
mod rpc;
mod session_setup;
mod update;
mod version;
mod write;

pub use client_call::{ClientCall, ConfigValue, IdleSteering, SessionPlace};
pub use content::PromptBlock;
pub use initialize::{ClientCapabilities, InitializeParams};
pub use line::{AgentLine, Elicitation, ElicitationField, PermissionAsk};
pub use mcp_server::{McpServerSpec, McpTransport};
pub use request_key::{request_key, rpc_id_of_key, split_request_key};
pub use rpc::{RpcError, RpcErrorCode, RpcId, RpcMessage, UnreadableMessage, read_message};
pub use session_setup::{SessionListing, SessionSetup};
pub use update::{
    AcpUpdate, CallContent, CallDiff, CallKind, CallStatus, ConfigCategory, ConfigOption,
    ConfigValueOption, NoticeSeverity, OfferedCommand, PermissionChoice, PermissionChoiceKind,
    PlanStep, SessionActivity, Speaker, StopReason, TokenUsage, ToolCallUpdate,
};
pub use version::AcpVersion;
