//! The agents that sessions can be driven with.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use session::{AgentCatalog, AgentProtocol, AgentSpec, LocatedAgent};
use tokio::task::JoinSet;
use utoipa::{IntoParams, ToSchema};

use super::extract::QueryParams;
use super::tag;
use crate::gateway::Gateway;
use crate::problem::{ApiResult, Problem};

/// How long a program may take to print its version. Those on Node need seconds on a busy machine.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// The versions of installed programs, by path and the time of their last change.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentVersions(Arc<Mutex<HashMap<PathBuf, KnownVersion>>>);

/// When a program was last changed, and the version that it printed then.
type KnownVersion = (SystemTime, Option<String>);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentsQuery {
    /// Whether to ask installed programs for their version, which can take seconds.
    #[serde(default)]
    versions: bool,
}

/// The agents that sessions can be driven with.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AgentsResponse {
    agents: Vec<AgentResponse>,
}

/// An agent that sessions can be driven with.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agent)]
pub(super) struct AgentResponse {
    /// What it is chosen by.
    name: String,
    /// For people.
    title: String,
    protocol: AgentProtocolName,
    installed: bool,
    /// Only if it was asked for, and the program says it.
    version: Option<String>,
    /// How to install it, as a command.
    install: Option<String>,
    /// How to sign in.
    sign_in: Option<String>,
    /// As `#rrggbb`.
    color: Option<String>,
    /// Whether new sessions get it if none is chosen.
    default: bool,
}

/// How Towpath speaks with an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = AgentProtocol)]
pub(super) enum AgentProtocolName {
    /// The headless protocol of Claude Code.
    StreamJson,
    /// The Agent Client Protocol.
    Acp,
}

/// The agent of a session, for lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionAgent)]
pub(crate) struct SessionAgentResponse {
    name: String,
    /// For people.
    title: String,
    /// As `#rrggbb`.
    color: Option<String>,
    /// Whether it is driven over the Agent Client Protocol. Such an agent says itself which modes and
    /// models it has, and cannot rewind.
    acp: bool,
}

impl SessionAgentResponse {
    /// The agent with a name; the default of sessions without one is Claude Code.
    pub(super) fn new(catalog: &AgentCatalog, name: Option<&str>) -> Self {
        let name = name.unwrap_or("claude");
        match catalog.find(name) {
            Some(agent) => Self {
                name: agent.name.clone(),
                title: agent.title.clone(),
                color: agent.color.clone(),
                acp: agent.protocol == AgentProtocol::Acp,
            },
            // It was removed from the configuration.
            None => Self { name: name.to_owned(), title: name.to_owned(), color: None, acp: true },
        }
    }
}

#[utoipa::path(get, path = "/agents", tag = tag::AGENT, params(AgentsQuery),
    responses((status = 200, body = AgentsResponse)))]
/// Agents that sessions can be driven with, and whether they are installed.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    QueryParams(query): QueryParams<AgentsQuery>,
) -> ApiResult<Json<AgentsResponse>> {
    let config = gateway.sessions.config();
    let (catalog, environment) = (config.agents.clone(), config.environment.clone());
    let located = tokio::task::spawn_blocking(move || {
        let locate = |agent: &AgentSpec| agent.locate(&environment).ok();
        catalog.iter().map(|agent| (agent.clone(), locate(agent))).collect::<Vec<_>>()
    });
    let located = located.await.map_err(|it| Problem::failed(&it))?;
    let mut versions = HashMap::new();
    if query.versions {
        let installed = located.iter().filter_map(|(_, it)| it.clone()).collect();
        versions = gateway.agent_versions.load(installed, &config.environment).await;
    }
    let default = config.agents.default_agent();
    let agents = located.into_iter().map(|(agent, found)| AgentResponse {
        default: default.map_or(agent.name == "claude", |it| it == agent.name),
        protocol: match agent.protocol {
            AgentProtocol::StreamJson => AgentProtocolName::StreamJson,
            AgentProtocol::Acp => AgentProtocolName::Acp,
        },
        installed: found.is_some(),
        version: found.and_then(|it| versions.get(&it.program).cloned().flatten()),
        name: agent.name,
        title: agent.title,
        install: agent.install,
        sign_in: agent.sign_in,
        color: agent.color,
    });
    Ok(Json(AgentsResponse { agents: agents.collect() }))
}

impl AgentVersions {
    /// The versions of programs. Those that have not changed are not asked again.
    async fn load(
        &self,
        programs: Vec<LocatedAgent>,
        environment: &[(OsString, OsString)],
    ) -> HashMap<PathBuf, Option<String>> {
        let mut asked = JoinSet::new();
        let mut versions = HashMap::new();
        for agent in programs {
            let changed = changed(&agent.program);
            if let Some((at, version)) = self.lock().get(&agent.program)
                && *at == changed
            {
                versions.insert(agent.program, version.clone());
                continue;
            }
            let environment = environment.to_vec();
            asked.spawn(async move {
                let version = agent.version(&environment, VERSION_TIMEOUT).await.ok();
                (agent.program, changed, version)
            });
        }
        while let Some(Ok((program, changed, version))) = asked.join_next().await {
            self.lock().insert(program.clone(), (changed, version.clone()));
            versions.insert(program, version);
        }
        versions
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, (SystemTime, Option<String>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn changed(program: &Path) -> SystemTime {
    let modified = program.metadata().and_then(|it| it.modified());
    modified.unwrap_or(SystemTime::UNIX_EPOCH)
}
