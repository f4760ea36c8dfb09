//! Jobs that list and set what only the agent of a session has: its modes, its models, its options.

use journal::SessionId;
use session::{AgentProtocol, AgentSpec, Session};
use view::{AgentInfo, AgentMenu, MenuMatch};
use wire::note::{Actor, Setting};

use super::follower::fold_session;
use super::job::{JobContext, JobResult};
use crate::inbound::ChatCommand;
use crate::replies::{self, MenuUse};

impl JobContext {
    /// Runs a command about what can be chosen; none if the agent is Claude Code, which has other ways.
    pub(super) async fn choose_in_menu(
        &self,
        session: SessionId,
        command: &ChatCommand,
        by: &Actor,
    ) -> Option<JobResult> {
        let options = match self.stored_options(session).await {
            Ok(options) => options,
            Err(reply) => return Some(JobResult::reply(reply)),
        };
        let agents = &self.sessions.config().agents;
        let agent = options.agent.as_deref().and_then(|name| agents.find(name));
        let agent = agent.filter(|it| it.protocol == AgentProtocol::Acp)?;
        let info = match self.menus(session).await {
            Ok(info) => info,
            Err(failed) => return Some(failed),
        };
        let chosen = match command {
            ChatCommand::Mode(words) => (info.modes.as_ref(), MenuUse::Mode, words.as_deref()),
            ChatCommand::Model(words) => (info.models.as_ref(), MenuUse::Model, words.as_deref()),
            ChatCommand::AgentOptions(text) if text.trim().is_empty() => {
                return Some(JobResult::reply(replies::agent_options(&agent.title, &info)));
            }
            ChatCommand::AgentOptions(text) => match info.find_option(text) {
                Some((menu, rest)) => {
                    (Some(menu), MenuUse::Option, Some(rest).filter(|it| !it.is_empty()))
                }
                None => {
                    return Some(JobResult::reply(replies::no_agent_option(
                        text,
                        &agent.title,
                        &info,
                    )));
                }
            },
            _ => return None,
        };
        Some(self.choose(session, agent, &info, chosen, by).await)
    }

    async fn choose(
        &self,
        session: SessionId,
        agent: &AgentSpec,
        info: &AgentInfo,
        (menu, purpose, words): (Option<&AgentMenu>, MenuUse, Option<&str>),
        by: &Actor,
    ) -> JobResult {
        let menu = menu.filter(|it| !it.values.is_empty());
        let Some(menu) = menu else {
            return JobResult::reply(replies::no_menu(&agent.title, purpose));
        };
        let Some(words) = words else {
            let all = menu.values.iter().collect::<Vec<_>>();
            return JobResult::reply(replies::agent_menu(menu, purpose, &all));
        };
        let value = match menu.find(words) {
            MenuMatch::One(value) => value,
            MenuMatch::Several(found) => {
                return JobResult::reply(replies::agent_menu(menu, purpose, &found));
            }
            MenuMatch::Nothing => {
                return JobResult::reply(replies::no_menu_value(menu, purpose, words));
            }
        };
        let id = value.id.clone();
        let setting = match purpose {
            MenuUse::Mode => Setting::PermissionMode(id),
            MenuUse::Model => Setting::Model(Some(id)),
            MenuUse::Option if info.efforts.as_ref().is_some_and(|it| it.id == menu.id) => {
                Setting::Effort(id)
            }
            MenuUse::Option => Setting::AgentOption { id: menu.id.clone(), value: id },
        };
        let set = async |session: Session| session.set(setting, by.clone()).await;
        match self.with_session(session, set).await {
            Ok(()) => JobResult::reply(replies::menu_value_set(menu, value)),
            Err(error) => error.into(),
        }
    }

    /// What the agent offers. One that has not said it yet is started.
    async fn menus(&self, session: SessionId) -> Result<AgentInfo, JobResult> {
        let fold = async || {
            let document = fold_session(self.sessions.journal(), session).await;
            let document =
                document.map_err(|error| JobResult::reply(replies::open_failed(&error.into())))?;
            Ok(document.agent.unwrap_or_default())
        };
        let known: AgentInfo = fold().await?;
        if known.has_menus() {
            return Ok(known);
        }
        let wake = async |session: Session| session.wake().await;
        self.with_session(session, wake).await.map_err(JobResult::from)?;
        fold().await
    }

    /// The agents that are installed on this machine, without the one that is only for trying out.
    pub(super) async fn installed_agents(&self) -> Vec<AgentSpec> {
        if self.sessions.is_relayed() {
            // Which agents a worker has is not known here.
            return Vec::new();
        }
        let config = self.sessions.config();
        let (agents, environment) = (config.agents.clone(), config.environment.clone());
        let locate = move || {
            let real = agents.iter().filter(|it| it.name != "demo");
            real.filter(|it| it.locate(&environment).is_ok()).cloned().collect()
        };
        tokio::task::spawn_blocking(locate).await.unwrap_or_default()
    }
}
