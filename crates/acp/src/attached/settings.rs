//! What a client can choose in a session: the mode, the model, the effort and the commands. Pure.

use serde::Deserialize;
use session::{OptionKind, OptionSpec, SessionOptions};
use view::{AgentInfo, ConversationHead};
use wire::acp::{ConfigCategory, ConfigOption, ConfigValueOption, OfferedCommand, SessionSetup};
use wire::consent;
use wire::note::{Note, Setting};
use wire::outgoing::PermissionMode;

/// The value that stands for what the agent chooses itself.
pub(crate) const DEFAULT: &str = "default";

/// The settings of a session as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct SettingsState {
    model: Option<String>,
    effort: Option<String>,
    mode: Option<String>,
    offers: AgentOffers,
    may_bypass: bool,
}

/// What an agent offers, in the answer to `initialize`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AgentOffers {
    commands: Vec<CommandOffer>,
    models: Vec<ModelOffer>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CommandOffer {
    name: String,
    description: String,
    #[serde(rename = "argumentHint")]
    argument_hint: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelOffer {
    value: String,
    #[serde(rename = "displayName", alias = "name")]
    name: String,
    description: Option<String>,
}

impl SettingsState {
    pub(crate) fn new(options: &SessionOptions, may_bypass: bool) -> Self {
        Self {
            model: options.model.clone(),
            effort: options.effort.clone(),
            mode: options.permission_mode.map(|it| it.name().to_owned()),
            offers: AgentOffers::default(),
            may_bypass,
        }
    }

    /// The agent answered `initialize`; unreadable answers offer nothing.
    pub(crate) fn set_offers(&mut self, capabilities: &str) {
        self.offers = serde_json::from_str(capabilities).unwrap_or_default();
    }

    pub(crate) fn observe(&mut self, note: &Note) {
        let Note::SettingChanged { setting, .. } = note else { return };
        match setting {
            Setting::Model(model) => self.model.clone_from(model),
            Setting::Effort(effort) => self.effort = Some(effort.clone()),
            Setting::PermissionMode(mode) => self.mode = Some(mode.clone()),
            Setting::Options(values) => {
                let text = |name: &str| Some(values.get(name)?.as_str().map(str::to_owned));
                for (name, slot) in [
                    ("model", &mut self.model),
                    ("effort", &mut self.effort),
                    ("mode", &mut self.mode),
                ] {
                    if let Some(value) = text(name) {
                        *slot = value;
                    }
                }
            }
            Setting::Watch(_) | Setting::AgentOption { .. } => {}
        }
    }

    /// What a client is told.
    pub(crate) fn setup(&self, head: &ConversationHead, agent: Option<&AgentInfo>) -> SessionSetup {
        let mut options = vec![self.mode_option(head)];
        options.extend(self.model_option());
        options.extend(self.effort_option());
        SessionSetup { options, commands: self.commands(agent) }
    }

    fn mode_option(&self, head: &ConversationHead) -> ConfigOption {
        // The agent reports its mode, which a plan changes too.
        let current = head.mode.as_ref().or(self.mode.as_ref()).cloned();
        let current = current.unwrap_or_else(|| PermissionMode::Default.name().to_owned());
        let offered = consent::MODES.into_iter().filter(|it| {
            let is_bypass = it.mode == PermissionMode::BypassPermissions;
            !is_bypass || self.may_bypass || current == it.mode.name()
        });
        let values = offered.map(|it| ConfigValueOption {
            value: it.mode.name().to_owned(),
            name: it.label.to_owned(),
            description: Some(it.description.to_owned()),
        });
        ConfigOption {
            id: "mode",
            name: "Mode",
            description: "What the agent may do without asking",
            category: ConfigCategory::Mode,
            values: with_current(values.collect(), &current),
            current,
        }
    }

    fn model_option(&self) -> Option<ConfigOption> {
        if self.offers.models.is_empty() && self.model.is_none() {
            return None;
        }
        let current = self.model.clone().unwrap_or_else(|| DEFAULT.to_owned());
        let values = self.offers.models.iter().filter(|it| !it.value.is_empty()).map(|it| {
            let name = if it.name.is_empty() { &it.value } else { &it.name };
            ConfigValueOption {
                value: it.value.clone(),
                name: name.clone(),
                description: it.description.clone(),
            }
        });
        Some(ConfigOption {
            id: "model",
            name: "Model",
            description: "The model that answers",
            category: ConfigCategory::Model,
            values: with_current(values.collect(), &current),
            current,
        })
    }

    fn effort_option(&self) -> Option<ConfigOption> {
        let OptionKind::Choice(words) = OptionSpec::find("effort")?.kind else { return None };
        let current = self.effort.clone().unwrap_or_else(|| DEFAULT.to_owned());
        let words = [DEFAULT].iter().chain(words);
        let values = words.map(|word| ConfigValueOption {
            value: (*word).to_owned(),
            name: capitalized(word),
            description: None,
        });
        Some(ConfigOption {
            id: "effort",
            name: "Effort",
            description: "How hard the model thinks",
            category: ConfigCategory::ThoughtLevel,
            values: with_current(values.collect(), &current),
            current,
        })
    }

    /// The commands that the agent described, or else those that it only named.
    fn commands(&self, agent: Option<&AgentInfo>) -> Vec<OfferedCommand> {
        if self.offers.commands.is_empty() {
            let named = agent.map(|it| it.commands.items.as_slice()).unwrap_or_default();
            let command = |name: &String| OfferedCommand {
                name: name.clone(),
                description: format!("/{name}"),
                hint: None,
            };
            return named.iter().map(command).collect();
        }
        let described = self.offers.commands.iter().filter(|it| !it.name.is_empty());
        let command = |it: &CommandOffer| OfferedCommand {
            name: it.name.clone(),
            description: first_line(&it.description),
            hint: it.argument_hint.clone().filter(|it| !it.is_empty()),
        };
        described.map(command).collect()
    }
}

/// A list of commands has to fit into one line, and descriptions may be pages long.
fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line[..line.floor_char_boundary(240)].to_owned()
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    let first = characters.next().map(|it| it.to_ascii_uppercase());
    first.into_iter().chain(characters).collect()
}

/// The current value is always among the values.
fn with_current(mut values: Vec<ConfigValueOption>, current: &str) -> Vec<ConfigValueOption> {
    if !values.iter().any(|it| it.value == current) {
        let name = if current == DEFAULT { "Default" } else { current };
        let current = ConfigValueOption {
            value: current.to_owned(),
            name: name.to_owned(),
            description: None,
        };
        values.insert(0, current);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::SettingsState;
    use session::SessionOptions;
    use view::ConversationHead;
    use wire::note::{Actor, Note, Setting};

    #[test]
    fn settings_follow_the_notes_and_the_agent() {
        let mut state = SettingsState::new(&SessionOptions::default(), false);
        state.set_offers(
            r#"{"commands":[{"name":"review","description":"Review\nmore","argumentHint":"[pr]"}],
                "models":[{"value":"default","displayName":"Default"},{"value":"opus"}]}"#,
        );
        let by = Actor { name: "ann".to_owned(), via: "zed".to_owned() };
        let model = Setting::Model(Some("haiku".to_owned()));
        state.observe(&Note::SettingChanged { setting: model, by });
        let head = ConversationHead { mode: Some("plan".to_owned()), ..Default::default() };
        let setup = state.setup(&head, None);
        let current: Vec<&str> = setup.options.iter().map(|it| it.current.as_str()).collect();
        assert_eq!(current, ["plan", "haiku", "default"]);
        for option in &setup.options {
            assert!(option.values.iter().any(|it| it.value == option.current), "{option:?}");
        }
        assert!(!setup.options[0].values.iter().any(|it| it.value == "bypassPermissions"));
        assert_eq!(setup.commands[0].description, "Review");
        assert_eq!(setup.commands[0].hint.as_deref(), Some("[pr]"));
    }
}
