//! Requests of the host to the agent.
//!
//! A field is required if the CLI needs it: for example, a `rewind_conversation` without its target
//! makes 2.1.197 hang. A CLI that does not know a request responds with an error, or not at all in
//! versions up to 2.1.37, so every request needs a timeout.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{JsonObject, PermissionMode};

/// A request to the agent, by its `subtype`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum OutgoingRequest {
    /// The first request: registers hooks and MCP servers. The response lists models and commands
    /// and shows that the CLI is ready.
    Initialize(Box<Initialize>),
    /// Ends the running turn; the process continues.
    Interrupt {
        /// Whether to cancel queued prompts too (since 2.1.325; earlier versions ignore it).
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        cancel_queued: bool,
    },
    /// Changes the permission mode.
    SetPermissionMode { mode: PermissionMode },
    /// Changes the model, starting with the next request to the API.
    SetModel {
        /// `None` selects the default model.
        model: Option<String>,
    },
    /// Limits the number of thinking tokens.
    SetMaxThinkingTokens {
        /// `None` removes the limit.
        max_thinking_tokens: Option<u64>,
    },
    /// Changes settings of this process, for example `{"effortLevel":"low"}`.
    ApplyFlagSettings { settings: JsonObject },
    /// Changes stored settings.
    UpdateSettings { source: SettingsSource, settings: JsonObject },
    /// Cancels a queued prompt.
    CancelAsyncMessage { message_uuid: String },
    /// Restores files to their state before a prompt.
    RewindFiles {
        user_message_id: String,
        /// Whether to report the changes without making them.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dry_run: bool,
    },
    /// Removes a prompt and everything after it from the conversation.
    RewindConversation { target_message_uuid: String },
    /// The status of each MCP server.
    McpStatus {},
    /// Replaces the MCP servers.
    McpSetServers {
        /// Configurations by server name.
        servers: JsonObject,
    },
    /// Reconnects to an MCP server.
    McpReconnect {
        #[serde(rename = "serverName")]
        server_name: String,
    },
    /// Enables or disables an MCP server.
    McpToggle {
        #[serde(rename = "serverName")]
        server_name: String,
        enabled: bool,
    },
    /// Calls an MCP tool.
    McpCall { tool: String, arguments: JsonObject },
    /// Reads an MCP resource.
    McpReadResource {
        #[serde(rename = "serverName")]
        server_name: String,
        uri: String,
    },
    /// Starts the sign-in to an MCP server.
    McpAuthenticate {
        #[serde(rename = "serverName")]
        server_name: String,
    },
    /// Signs out of an MCP server.
    McpClearAuth {
        #[serde(rename = "serverName")]
        server_name: String,
    },
    /// The usage of the context window.
    GetContextUsage {},
    /// The cost of the session.
    GetSessionCost {},
    /// The usage of the plan's limits.
    GetUsage {},
    /// The version of the CLI.
    GetBinaryVersion {},
    /// The effective settings.
    GetSettings {},
    /// The status of the session.
    GetStatus {},
    /// The plan, in plan mode.
    GetPlan {},
    /// The changes in the working tree.
    GetWorkspaceDiff {},
    /// The output of a task.
    GetTaskOutput { task_id: String },
    /// The active hooks.
    GetHooksListing {},
    /// The available models.
    ListModels {},
    /// The active permission rules.
    ListPermissionRules {},
    /// The conversation as text.
    ExportConversation {},
    /// Files whose names match the user's input.
    FileSuggestions { query: String },
    /// Reads a file in the same way as the agent.
    ReadFile { path: String },
    /// Marks a file as read, so that the agent may edit it.
    SeedReadState {
        path: String,
        /// The modification time, in milliseconds since 1970.
        mtime: u64,
    },
    /// Adds a repository to the session.
    RegisterRepoRoot { directory: String },
    /// Reloads plugins.
    ReloadPlugins {},
    /// Reloads skills.
    ReloadSkills {},
    /// Reloads output styles.
    ReloadOutputStyles {},
    /// Names the session.
    RenameSession { title: String },
    /// Generates a name for the session.
    GenerateSessionTitle {
        /// A description of the session's subject.
        description: String,
    },
    /// Stops a task.
    StopTask { task_id: String },
    /// Moves running calls to the background.
    BackgroundTasks {
        /// `None` moves all running calls.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_use_id: Option<String>,
    },
    /// Asks a question outside the conversation.
    SideQuestion { question: String },
    /// Reports whether the session has viewers.
    SetHasSubscribers { has_subscribers: bool },
    /// Ends the process cleanly.
    EndSession {},
}

/// The host's features and configuration.
#[expect(clippy::struct_excessive_bools, reason = "the protocol has these switches")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialize {
    /// The hooks that run in the host, by hook event. From 2.1.325 on, a later request replaces them;
    /// earlier versions only accept the first one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<HookEventName, Vec<HookMatcher>>,
    /// Names of MCP servers that run in the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sdk_mcp_servers: Vec<String>,
    /// Sub-agents by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<JsonObject>,
    /// Replaces the CLI's system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Is appended to the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// The JSON schema of the final answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<JsonObject>,
    /// Whether to suggest the next prompt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompt_suggestions: bool,
    /// Whether to summarise the progress of sub-agents.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub agent_progress_summaries: bool,
    /// Whether to forward the messages of sub-agents.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forward_subagent_text: bool,
    /// Whether background agents continue after an interrupt (since 2.1.325).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub per_task_stop_affordance: bool,
    /// The session's name (since 2.1.325).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Dialogs that the host can show (since 2.1.325).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_dialog_kinds: Vec<String>,
}

/// When a hook runs, as the CLI spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum HookEventName {
    /// Before a tool runs. The CLI waits for the answer, which may deny the call.
    PreToolUse,
}

/// Hooks in the host for some of the tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookMatcher {
    /// Names of tools, separated by `|`; `None` means all tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<String>,
    /// Each becomes a `hook_callback` request with this id.
    pub hook_callback_ids: Vec<String>,
    /// After how many seconds the CLI gives up. It then does not run the tool.
    pub timeout: u32,
}

/// The settings file to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SettingsSource {
    /// This user's settings for the project.
    LocalSettings,
    /// This user's settings for all projects.
    UserSettings,
}
