//! What the host may ask of the agent.
//!
//! Fields are required where the CLI needs them: a `rewind_conversation` without its target, for
//! one, wedges 2.1.197 for good. A version that does not know a request answers with an error, and
//! up to 2.1.37 not at all, so every request needs a deadline.

use serde::Serialize;

use super::{JsonObject, PermissionMode};

/// A request to the agent, by its `subtype`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub enum OutgoingRequest {
    /// First of all: registers hooks and servers, tells models and commands, proves readiness.
    Initialize(Box<Initialize>),
    /// Ends the running turn; the process lives on.
    Interrupt {
        /// Whether prompts that wait are dropped too (2.1.325; earlier ones ignore it).
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        cancel_queued: bool,
    },
    /// Changes the permission mode.
    SetPermissionMode {
        /// The mode.
        mode: PermissionMode,
    },
    /// Changes the model from the next request on.
    SetModel {
        /// The model; the default one where nothing is said.
        model: Option<String>,
    },
    /// Limits thinking.
    SetMaxThinkingTokens {
        /// The limit; none where nothing is said.
        max_thinking_tokens: Option<u64>,
    },
    /// Changes settings for this process, as in `{"effortLevel":"low"}`.
    ApplyFlagSettings {
        /// The settings.
        settings: JsonObject,
    },
    /// Changes settings for good.
    UpdateSettings {
        /// Which settings.
        source: SettingsSource,
        /// The settings.
        settings: JsonObject,
    },
    /// Takes back a prompt that still waits.
    CancelAsyncMessage {
        /// The prompt's id.
        message_uuid: String,
    },
    /// Puts files back to where they were before a prompt.
    RewindFiles {
        /// The prompt's id.
        user_message_id: String,
        /// Whether to say only what would happen.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        dry_run: bool,
    },
    /// Forgets a prompt and all that came after it.
    RewindConversation {
        /// The prompt's id.
        target_message_uuid: String,
    },
    /// What each MCP server is up to.
    McpStatus {},
    /// Replaces the MCP servers.
    McpSetServers {
        /// Their configuration by name.
        servers: JsonObject,
    },
    /// Connects to an MCP server again.
    McpReconnect {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
    },
    /// Switches an MCP server on or off.
    McpToggle {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
        /// On or off.
        enabled: bool,
    },
    /// Calls an MCP tool.
    McpCall {
        /// The tool.
        tool: String,
        /// What it is given.
        arguments: JsonObject,
    },
    /// Reads an MCP resource.
    McpReadResource {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
        /// The resource.
        uri: String,
    },
    /// Begins the sign-in of an MCP server.
    McpAuthenticate {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
    },
    /// Forgets the sign-in of an MCP server.
    McpClearAuth {
        /// The server.
        #[serde(rename = "serverName")]
        server_name: String,
    },
    /// How full the context is.
    GetContextUsage {},
    /// What the session has cost.
    GetSessionCost {},
    /// How much of the plan is used.
    GetUsage {},
    /// The version of the CLI.
    GetBinaryVersion {},
    /// The settings in force.
    GetSettings {},
    /// Where the session stands.
    GetStatus {},
    /// The plan, in plan mode.
    GetPlan {},
    /// What changed in the working tree.
    GetWorkspaceDiff {},
    /// What a task printed.
    GetTaskOutput {
        /// The task.
        task_id: String,
    },
    /// The hooks in force.
    GetHooksListing {},
    /// The models on offer.
    ListModels {},
    /// The permission rules in force.
    ListPermissionRules {},
    /// The conversation as text.
    ExportConversation {},
    /// Files whose names are like what was typed.
    FileSuggestions {
        /// What was typed.
        query: String,
    },
    /// Reads a file as the agent would.
    ReadFile {
        /// The file.
        path: String,
    },
    /// Says that the host has read a file, so that the agent may edit it.
    SeedReadState {
        /// The file.
        path: String,
        /// When it was last changed, in milliseconds since 1970.
        mtime: u64,
    },
    /// Adds a repository to the session.
    RegisterRepoRoot {
        /// Its directory.
        directory: String,
    },
    /// Loads plugins again.
    ReloadPlugins {},
    /// Loads skills again.
    ReloadSkills {},
    /// Loads output styles again.
    ReloadOutputStyles {},
    /// Names the session.
    RenameSession {
        /// The name.
        title: String,
    },
    /// Has the session named.
    GenerateSessionTitle {
        /// What it is about.
        description: String,
    },
    /// Ends a task.
    StopTask {
        /// The task.
        task_id: String,
    },
    /// Sends running calls to the background.
    BackgroundTasks {
        /// Only this one.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_use_id: Option<String>,
    },
    /// Asks something beside the conversation.
    SideQuestion {
        /// The question.
        question: String,
    },
    /// Says whether anybody watches.
    SetHasSubscribers {
        /// Whether.
        has_subscribers: bool,
    },
    /// Ends the process cleanly.
    EndSession {},
}

/// What the host brings along.
#[expect(clippy::struct_excessive_bools, reason = "the protocol has these switches")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialize {
    /// Matchers and callback ids by hook event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<JsonObject>,
    /// MCP servers that live with the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sdk_mcp_servers: Vec<String>,
    /// Sub-agents by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<JsonObject>,
    /// A system prompt instead of the CLI's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// More of a system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// The shape the final answer must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<JsonObject>,
    /// Whether to suggest what to ask next.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prompt_suggestions: bool,
    /// Whether to sum up what sub-agents do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub agent_progress_summaries: bool,
    /// Whether to pass on what sub-agents say.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forward_subagent_text: bool,
    /// Whether an interrupt spares background agents (2.1.325).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub per_task_stop_affordance: bool,
    /// The session's name (2.1.325).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Dialogs the host can show (2.1.325).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub supported_dialog_kinds: Vec<String>,
}

/// Which settings are changed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SettingsSource {
    /// The project's, for this person.
    LocalSettings,
    /// This person's, everywhere.
    UserSettings,
}
