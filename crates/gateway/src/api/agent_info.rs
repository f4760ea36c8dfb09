//! What a session's agent says about itself.

use std::path::PathBuf;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;
use uuid::Uuid;
use view::{AgentInfo, AgentMenu, BoundedList, McpServerStatus, MenuValue};

use super::conversation::subscribe;
use super::extract::PathParams;
use super::sessions::find_record;
use super::tag;
use crate::agent_files::{AgentFiles, HookFile, NamedFile};
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// What an agent says about itself. All lists are empty before it started for the first time.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentInfo)]
pub(super) struct AgentInfoResponse {
    /// Its name, as it writes it itself; Claude Code does not.
    name: Option<String>,
    /// Its name for people.
    title: Option<String>,
    /// The version of the CLI.
    version: Option<String>,
    model: Option<String>,
    /// The permission mode.
    mode: Option<String>,
    /// The working directory.
    cwd: Option<String>,
    output_style: Option<String>,
    /// Where the API key comes from: `ANTHROPIC_API_KEY`, `none`, ….
    api_key_source: Option<String>,
    tools: NameListResponse,
    mcp_servers: McpServerListResponse,
    /// Sub-agents that the model may start.
    agents: NameListResponse,
    skills: NameListResponse,
    plugins: NameListResponse,
    /// Slash commands, without the slash.
    commands: NameListResponse,
    /// The modes that can be chosen; none if the agent does not say.
    modes: Option<MenuResponse>,
    /// The models that can be chosen.
    models: Option<MenuResponse>,
    /// How much the model may think.
    efforts: Option<MenuResponse>,
    /// Whatever else can be chosen.
    options: Vec<MenuResponse>,
    /// Whether it says that a prompt can join a running turn.
    can_steer: bool,
}

/// Something that can be chosen in a running session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentMenu)]
pub(super) struct MenuResponse {
    /// The agent's id of it.
    id: String,
    name: String,
    description: Option<String>,
    /// The id of the value in effect.
    current: Option<String>,
    values: Vec<MenuValueResponse>,
}

/// A value that can be chosen.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MenuValue)]
pub(super) struct MenuValueResponse {
    id: String,
    name: String,
    description: Option<String>,
}

/// The first names of a list, at most 2000.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NameList)]
pub(super) struct NameListResponse {
    items: Vec<String>,
    /// How many there are in all.
    total: u64,
}

/// The first MCP servers, at most 2000.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = McpServerList)]
pub(super) struct McpServerListResponse {
    items: Vec<McpServerResponse>,
    /// How many there are in all.
    total: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = McpServer)]
pub(super) struct McpServerResponse {
    name: String,
    /// As the CLI spells it: `connected`, `failed`, `needs-auth`, `pending`, ….
    status: String,
}

#[utoipa::path(get, path = "/sessions/{id}/agent", tag = tag::CONVERSATION, params(("id" = Uuid, Path)),
    responses((status = 200, body = AgentInfoResponse)))]
/// What the agent says about itself: version, tools, MCP servers, commands. Needs no running agent.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<AgentInfoResponse>> {
    let subscription = subscribe(&gateway, id).await?;
    let agent = subscription.with_document(|it| it.fold.agent().cloned());
    Ok(Json(agent.unwrap_or_default().into()))
}

/// What files of the project and of the user add to the CLI. Nothing here says whether it uses them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentFiles)]
pub(super) struct AgentFilesResponse {
    hooks: Vec<HookFileResponse>,
    agents: Vec<NamedFileResponse>,
    skills: Vec<NamedFileResponse>,
    mcp_servers: Vec<NamedFileResponse>,
    /// Files that could not be read, with the reason.
    problems: Vec<String>,
}

/// A command that the CLI runs at some event.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookFile)]
pub(super) struct HookFileResponse {
    /// `PreToolUse`, `Stop`, ….
    event: String,
    /// For which tools, if not for all.
    matcher: Option<String>,
    command: String,
    /// Where it is written.
    file: String,
}

/// A sub-agent, a skill or an MCP server.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NamedFile)]
pub(super) struct NamedFileResponse {
    name: String,
    /// What it says about itself; of a server, how it is reached.
    description: Option<String>,
    /// Where it is written.
    file: String,
}

#[utoipa::path(get, path = "/sessions/{id}/agent/files", tag = tag::CONVERSATION, params(("id" = Uuid, Path)),
    responses((status = 200, body = AgentFilesResponse)))]
/// Hooks, sub-agents, skills and MCP servers that files of the project and of the user add to the CLI.
pub(super) async fn files(
    State(gateway): State<Gateway>,
    PathParams(id): PathParams<Uuid>,
) -> ApiResult<Json<AgentFilesResponse>> {
    let project = find_record(&gateway, id).await?.directory;
    let directory = gateway.sessions.transcripts();
    // The session files are in `projects` of the user's directory.
    let user = directory.and_then(|it| it.root().parent().map(PathBuf::from));
    let _permit = gateway.expensive.acquire().await.map_err(|it| Problem::failed(&it))?;
    let read = spawn_blocking(move || AgentFiles::read(&project, user.as_deref())).await;
    Ok(Json(read.map_err(|it| Problem::failed(&it))?.into()))
}

impl From<AgentFiles> for AgentFilesResponse {
    fn from(files: AgentFiles) -> Self {
        let named =
            |NamedFile { name, description, file }| NamedFileResponse { name, description, file };
        let hook = |HookFile { event, matcher, command, file }| HookFileResponse {
            event,
            matcher,
            command,
            file,
        };
        Self {
            hooks: files.hooks.into_iter().map(hook).collect(),
            agents: files.agents.into_iter().map(named).collect(),
            skills: files.skills.into_iter().map(named).collect(),
            mcp_servers: files.servers.into_iter().map(named).collect(),
            problems: files.problems,
        }
    }
}

impl From<AgentInfo> for AgentInfoResponse {
    fn from(agent: AgentInfo) -> Self {
        Self {
            name: agent.name,
            title: agent.title,
            version: agent.version,
            model: agent.model,
            mode: agent.mode,
            cwd: agent.cwd,
            output_style: agent.output_style,
            api_key_source: agent.api_key_source,
            tools: agent.tools.into(),
            mcp_servers: agent.mcp_servers.into(),
            agents: agent.agents.into(),
            skills: agent.skills.into(),
            plugins: agent.plugins.into(),
            commands: agent.commands.into(),
            modes: agent.modes.map(MenuResponse::from),
            models: agent.models.map(MenuResponse::from),
            efforts: agent.efforts.map(MenuResponse::from),
            options: agent.options.into_iter().map(MenuResponse::from).collect(),
            can_steer: agent.can_steer,
        }
    }
}

impl From<AgentMenu> for MenuResponse {
    fn from(menu: AgentMenu) -> Self {
        let value = |it: MenuValue| MenuValueResponse {
            id: it.id,
            name: it.name,
            description: it.description,
        };
        Self {
            id: menu.id,
            name: menu.name,
            description: menu.description,
            current: menu.current,
            values: menu.values.into_iter().map(value).collect(),
        }
    }
}

impl From<BoundedList<String>> for NameListResponse {
    fn from(BoundedList { items, total }: BoundedList<String>) -> Self {
        Self { items, total }
    }
}

impl From<BoundedList<McpServerStatus>> for McpServerListResponse {
    fn from(BoundedList { items, total }: BoundedList<McpServerStatus>) -> Self {
        let item = |McpServerStatus { name, status }| McpServerResponse { name, status };
        Self { items: items.into_iter().map(item).collect(), total }
    }
}
