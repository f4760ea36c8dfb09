//! What the agent says about itself: its name, its commands, and what can be chosen.

use wire::acp::event::AcpResult;
use wire::json::{Raw, Text};

use crate::agent_info::{AgentInfo, BoundedList, short_value};
use crate::agent_menu::{AgentMenu, MenuCategory};
use crate::fold::{Fold, Visibility};
use crate::item::ItemId;

impl Fold {
    /// Changes the description, and what the head repeats of it.
    fn change_agent_info(&mut self, change: impl FnOnce(&mut AgentInfo)) -> Visibility {
        let mut agent = self.agent.value.clone().unwrap_or_default();
        change(&mut agent);
        if self.agent.value.as_ref() == Some(&agent) {
            return Visibility::Hidden;
        }
        let current = |menu: &Option<AgentMenu>| menu.as_ref().and_then(|it| it.current.clone());
        agent.mode = current(&agent.modes).or(agent.mode);
        agent.model = current(&agent.models).or(agent.model);
        let effort = current(&agent.efforts);
        let head = &self.head.value;
        let changed = (agent.mode.is_some() && agent.mode != head.mode)
            || (agent.model.is_some() && agent.model != head.model)
            || (agent.version.is_some() && agent.version != head.version)
            || (effort.is_some() && effort != head.effort);
        if changed {
            let rev = self.rev();
            let (mode, model, version) =
                (agent.mode.clone(), agent.model.clone(), agent.version.clone());
            self.head.change(rev, |head| {
                head.mode = mode.or(head.mode.take());
                head.model = model.or(head.model.take());
                head.version = version.or(head.version.take());
                head.effort = effort.or(head.effort.take());
            });
        }
        self.describe_agent(agent);
        Visibility::Visible
    }

    /// The answer to `initialize`, or to a request that opens or changes a session.
    pub(super) fn agent_described_itself(&mut self, result: &AcpResult<'_>) -> Visibility {
        match *result {
            AcpResult::Initialized { agent, meta, .. } => {
                let text = |key: &str| agent.and_then(|it| it.get(key)?.text()).map(short_value);
                let can_steer = meta
                    .and_then(|it| it.get("steering")?.get("supported")?.boolean())
                    .unwrap_or(false);
                self.change_agent_info(|info| {
                    let (name, version) = (text("name"), text("version"));
                    if info.name != name || info.version != version {
                        *info = AgentInfo::default();
                    }
                    (info.name, info.title, info.version) = (name, text("title"), version);
                    info.can_steer = can_steer;
                })
            }
            AcpResult::Session { modes, models, options, commands, .. } => {
                self.change_agent_info(|info| {
                    if let Some(modes) = modes.filter(|it| it.get("availableModes").is_some()) {
                        info.modes = Some(AgentMenu::modes(modes));
                    }
                    if let Some(models) = models.filter(|it| it.get("availableModels").is_some()) {
                        info.models = Some(AgentMenu::models(models));
                    }
                    if let Some(options) = options {
                        set_options(info, options);
                    }
                    if let Some(commands) = commands {
                        info.commands = BoundedList::names(commands);
                    }
                })
            }
            _ => Visibility::Hidden,
        }
    }

    pub(super) fn commands_changed(&mut self, commands: Raw<'_>) -> Visibility {
        self.change_agent_info(|info| info.commands = BoundedList::names(commands))
    }

    pub(super) fn mode_changed(&mut self, mode: Text<'_>) -> Visibility {
        self.change_agent_info(|info| {
            let mode = short_value(mode);
            if let Some(menu) = &mut info.modes {
                menu.current = Some(mode.clone());
            }
            info.mode = Some(mode);
        })
    }

    pub(super) fn options_changed(&mut self, options: Raw<'_>) -> Visibility {
        self.change_agent_info(|info| set_options(info, options))
    }

    /// The session's title, and what some agents say about their state outside the protocol.
    pub(super) fn session_info(
        &mut self,
        parent: Option<&ItemId>,
        title: Option<Text<'_>>,
        meta: Option<Raw<'_>>,
    ) -> Visibility {
        if parent.is_some() {
            return Visibility::Hidden;
        }
        let status = |(_, value): (Text<'_>, Raw<'_>)| {
            value.get("threadStatus")?.get("type")?.text().map(|it| it == "systemError")
        };
        if let Some(in_error) = meta.and_then(|meta| meta.fields().find_map(status)) {
            self.acp.in_error |= in_error;
        }
        let Some(title) = title.map(short_value).filter(|it| !it.is_empty()) else {
            return Visibility::Hidden;
        };
        // In a journal a title that is known may be a person's.
        let known = self.head.value.title.as_ref();
        if known == Some(&title) || (known.is_some() && self.turns.has_notes) {
            return Visibility::Hidden;
        }
        let rev = self.rev();
        self.head.change(rev, |head| head.title = Some(title));
        Visibility::Visible
    }
}

/// Options replace the older forms of modes and models.
fn set_options(info: &mut AgentInfo, options: Raw<'_>) {
    info.efforts = None;
    info.options.clear();
    for (category, menu) in AgentMenu::options(options) {
        match category {
            MenuCategory::Mode => info.modes = Some(menu),
            MenuCategory::Model => info.models = Some(menu),
            MenuCategory::Effort => info.efforts = Some(menu),
            MenuCategory::Other => info.options.push(menu),
        }
    }
}
