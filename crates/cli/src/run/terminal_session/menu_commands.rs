//! The commands `/mode`, `/model` and `/options`: what the agent offers, and choosing it.
//!
//! Claude Code has the modes that Towpath knows. Every other agent says itself what can be chosen, and the
//! ids are its own.

use std::time::Duration;

use serde::Deserialize;
use tokio::time::timeout;
use view::ansi::TextStyle;
use view::terminal::StyledLine;
use view::{AgentInfo, AgentMenu, MenuMatch, MenuValue};
use wire::consent::{self, MODES, describe_mode};
use wire::note::Setting;
use wire::outgoing::PermissionMode;

use super::TerminalSession;
use crate::run::RunError;

/// Values that are listed. Some agents list the models of many providers.
const LISTED: usize = 30;

/// How long the screen waits for the agent to take a setting.
const SET_TIMEOUT: Duration = Duration::from_secs(5);

/// A command about what can be chosen, with what the user wrote behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) enum MenuCommand {
    Mode(String),
    Model(String),
    Options(String),
}

impl MenuCommand {
    /// Reads a command; none if the text is for the agent.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim().to_owned();
        match name {
            "/mode" => Some(Self::Mode(rest)),
            "/model" => Some(Self::Model(rest)),
            "/options" => Some(Self::Options(rest)),
            _ => None,
        }
    }

    /// The text for the agent: two slashes are one, so that the agent's own commands can be used.
    pub(super) fn unescape(text: String) -> String {
        let escaped = text.strip_prefix('/').filter(|it| Self::parse(it).is_some());
        escaped.map(str::to_owned).unwrap_or(text)
    }

    fn words(&self) -> &str {
        match self {
            Self::Mode(words) | Self::Model(words) | Self::Options(words) => words,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Mode(_) => "/mode",
            Self::Model(_) => "/model",
            Self::Options(_) => "/options",
        }
    }
}

impl TerminalSession<'_> {
    /// Runs a command, now or when the agent has said what it offers.
    pub(super) async fn run_menu(&mut self, command: MenuCommand) -> Result<(), RunError> {
        if !self.is_acp {
            return self.run_claude_menu(command).await;
        }
        let info = self.document.conversation.agent.clone().unwrap_or_default();
        if info.has_menus() {
            return self.run_agent_menu(&command, &info).await;
        }
        self.hint = Some("the agent is started to say what it offers …".to_owned());
        self.waiting_menu = Some(command);
        let session = self.session.clone();
        // If it does not start, the conversation says why.
        tokio::spawn(async move { drop(session.wake().await) });
        Ok(())
    }

    /// Runs the command that waits, if the agent has said what it offers.
    pub(super) async fn run_waiting_menu(&mut self) -> Result<(), RunError> {
        let agent = self.document.conversation.agent.as_ref();
        let Some(info) = agent.filter(|it| it.has_menus()).filter(|_| self.waiting_menu.is_some())
        else {
            return Ok(());
        };
        let info = info.clone();
        let Some(command) = self.waiting_menu.take() else { return Ok(()) };
        self.hint = None;
        self.run_agent_menu(&command, &info).await
    }

    async fn run_agent_menu(
        &mut self,
        command: &MenuCommand,
        info: &AgentInfo,
    ) -> Result<(), RunError> {
        let (menu, words) = match command {
            MenuCommand::Mode(words) => (info.modes.as_ref(), words.as_str()),
            MenuCommand::Model(words) => (info.models.as_ref(), words.as_str()),
            MenuCommand::Options(words) if words.is_empty() => {
                let menus: Vec<&AgentMenu> = info.option_menus().collect();
                if menus.is_empty() {
                    self.hint = Some("this agent has no options of its own".to_owned());
                }
                let lines = menus.into_iter().flat_map(|menu| {
                    menu_lines(menu, &menu.values.iter().collect::<Vec<_>>(), "/options")
                });
                return self.print(&lines.collect::<Vec<_>>());
            }
            MenuCommand::Options(words) => {
                let Some((menu, rest)) = info.find_option(words) else {
                    self.hint = Some("there is no such option; /options lists all".to_owned());
                    return Ok(());
                };
                (Some(menu), rest)
            }
        };
        let Some(menu) = menu.filter(|it| !it.values.is_empty()) else {
            self.hint = Some("this agent offers nothing to choose from here".to_owned());
            return Ok(());
        };
        let all: Vec<&MenuValue> = menu.values.iter().collect();
        let value = match menu.find(words) {
            _ if words.is_empty() => return self.print(&menu_lines(menu, &all, command.name())),
            MenuMatch::One(value) => value.id.clone(),
            MenuMatch::Several(found) => {
                return self.print(&menu_lines(menu, &found, command.name()));
            }
            MenuMatch::Nothing => {
                self.hint = Some(format!("`{}` is none of these", shorten(words)));
                return self.print(&menu_lines(menu, &all, command.name()));
            }
        };
        let setting = match command {
            MenuCommand::Mode(_) => Setting::PermissionMode(value),
            MenuCommand::Model(_) => Setting::Model(Some(value)),
            MenuCommand::Options(_) if info.efforts.as_ref().is_some_and(|it| it.id == menu.id) => {
                Setting::Effort(value)
            }
            MenuCommand::Options(_) => Setting::AgentOption { id: menu.id.clone(), value },
        };
        self.set(setting).await;
        Ok(())
    }

    async fn run_claude_menu(&mut self, command: MenuCommand) -> Result<(), RunError> {
        let menu = match &command {
            MenuCommand::Mode(_) => modes(self.document.conversation.head.mode.as_deref()),
            MenuCommand::Model(_) => {
                let abilities = self.session.capabilities().await.ok().flatten();
                let current = self.document.conversation.head.model.clone();
                models(abilities.as_deref().unwrap_or_default(), current)
            }
            MenuCommand::Options(_) => {
                let text = "Claude Code has no options of its own; see `towpath run --help`";
                self.hint = Some(text.to_owned());
                return Ok(());
            }
        };
        let words = command.words();
        let all: Vec<&MenuValue> = menu.values.iter().collect();
        if words.is_empty() {
            if all.is_empty() {
                let text = "the agent says which models it has when it runs; /model NAME sets one";
                self.hint = Some(text.to_owned());
            }
            return self.print(&menu_lines(&menu, &all, command.name()));
        }
        let found = match menu.find(words) {
            MenuMatch::One(value) => Some(value.id.clone()),
            _ => None,
        };
        match (&command, found) {
            (MenuCommand::Mode(_), Some(mode)) => self.set(Setting::PermissionMode(mode)).await,
            (MenuCommand::Mode(_), None) => {
                self.hint = Some(format!("`{}` is none of these", shorten(words)));
                return self.print(&menu_lines(&menu, &all, command.name()));
            }
            // Models have more names than are listed.
            (_, found) => {
                let model = found.unwrap_or_else(|| words.to_owned());
                let model = (model != "default").then_some(model);
                self.set(Setting::Model(model)).await;
            }
        }
        Ok(())
    }

    /// Sets something. The conversation shows who set it.
    async fn set(&mut self, setting: Setting) {
        let set = self.session.set(setting, self.by.clone());
        self.hint = match timeout(SET_TIMEOUT, set).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the agent has not answered yet".to_owned()),
        };
    }

    fn print(&mut self, lines: &[StyledLine]) -> Result<(), RunError> {
        let lines: Vec<StyledLine> =
            lines.iter().map(|line| line.clone().cut(self.screen.width)).collect();
        self.printer.print_lines(&lines, &self.document).map_err(RunError::Write)
    }
}

/// A menu as lines: the ids that can be written, the names, and which one is in effect.
fn menu_lines(menu: &AgentMenu, values: &[&MenuValue], command: &str) -> Vec<StyledLine> {
    let bold = TextStyle::PLAIN.bold();
    let mut lines = vec![StyledLine::of(bold, &format!("  {}", visible(&menu.name)))];
    let shown = &values[..values.len().min(LISTED)];
    let widest = shown.iter().map(|it| it.id.chars().count()).max().unwrap_or(0).min(40);
    for value in shown {
        let sign = if menu.current.as_ref() == Some(&value.id) { "●" } else { " " };
        let id = visible(&value.id);
        let mut line =
            StyledLine::of(TextStyle::PLAIN.in_colour(6), &format!("  {sign} {id:<widest$}"));
        let about = value.description.as_deref().map(|it| format!(" – {}", visible(it)));
        let about = format!("  {}{}", visible(&value.name), about.unwrap_or_default());
        line.push(TextStyle::PLAIN.dim(), &about);
        lines.push(line);
    }
    let option =
        if command == "/options" { format!(" {}", visible(&menu.id)) } else { String::new() };
    let how = match values.len().saturating_sub(LISTED) {
        0 => format!("  {command}{option} NAME chooses one"),
        more => format!("  … and {more} more; {command}{option} WORDS lists fewer"),
    };
    lines.push(StyledLine::of(TextStyle::PLAIN.dim(), &how));
    lines
}

/// The modes of Claude Code. The one that asks nothing is only chosen when a run is started.
fn modes(current: Option<&str>) -> AgentMenu {
    let offered = MODES.into_iter().filter(|it| it.mode != PermissionMode::BypassPermissions);
    let value = |mode: PermissionMode| {
        let about = describe_mode(mode);
        MenuValue {
            id: mode.name().to_owned(),
            name: about.label.to_owned(),
            description: Some(about.description.to_owned()),
        }
    };
    AgentMenu {
        id: "mode".to_owned(),
        name: "Mode".to_owned(),
        description: None,
        current: Some(current.unwrap_or(PermissionMode::Default.name()).to_owned()),
        values: offered.map(|it| value(it.mode)).collect(),
    }
}

/// The models in what Claude Code says about itself.
fn models(abilities: &str, current: Option<String>) -> AgentMenu {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ClaudeAbilities {
        models: Vec<ClaudeModel>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ClaudeModel {
        value: String,
        #[serde(rename = "displayName", alias = "name")]
        name: String,
        description: String,
    }
    let abilities = serde_json::from_str::<ClaudeAbilities>(abilities).unwrap_or_default();
    let value = |it: ClaudeModel| MenuValue {
        name: if it.name.is_empty() { it.value.clone() } else { it.name },
        id: it.value,
        description: Some(it.description).filter(|it| !it.is_empty()),
    };
    AgentMenu {
        id: "model".to_owned(),
        name: "Model".to_owned(),
        description: None,
        current,
        values: abilities.models.into_iter().map(value).collect(),
    }
}

fn shorten(words: &str) -> String {
    visible(words).chars().take(40).collect()
}

/// Text of the agent in one line, with characters that could confuse made visible.
fn visible(text: &str) -> String {
    consent::visible(text).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use view::{AgentMenu, MenuValue};

    use super::{MenuCommand, menu_lines, models};

    #[test]
    fn only_these_commands_are_not_for_the_agent() {
        let words = |text: &str| text.to_owned();
        for (text, command) in [
            ("/mode", Some(MenuCommand::Mode(words("")))),
            (" /model  gpt 5\n", Some(MenuCommand::Model(words("gpt 5")))),
            ("/options fast on", Some(MenuCommand::Options(words("fast on")))),
            ("/modes", None),
            ("/compact", None),
            ("//mode", None),
            ("mode", None),
        ] {
            assert_eq!(MenuCommand::parse(text), command, "{text}");
        }
        assert_eq!(MenuCommand::unescape(words("//model x")), "/model x");
        for other in ["//compact", "// a comment", "/review"] {
            assert_eq!(MenuCommand::unescape(words(other)), other);
        }
    }

    #[test]
    fn a_huge_menu_is_cut_and_says_how_to_find_the_rest() {
        let value = |number: usize| MenuValue {
            id: format!("provider/model-{number}"),
            name: "x\u{1b}[2J\n".repeat(100),
            description: Some("y".repeat(10_000)),
        };
        let menu = AgentMenu {
            id: "model".to_owned(),
            name: "Model".to_owned(),
            current: Some("provider/model-3".to_owned()),
            values: (0..1000).map(value).collect(),
            ..AgentMenu::default()
        };
        let lines = menu_lines(&menu, &menu.values.iter().collect::<Vec<_>>(), "/model");
        assert_eq!(lines.len(), 32);
        assert!(lines[4].text().starts_with("  ● provider/model-3"), "{}", lines[4].text());
        assert!(lines[31].text().contains("and 970 more"), "{}", lines[31].text());
        assert!(lines.iter().all(|it| !it.text().contains(['\u{1b}', '\n'])));
    }

    #[test]
    fn the_models_of_claude_code_are_read_whatever_else_it_says() {
        let menu =
            models(r#"{"commands":[1],"models":[{"value":"opus","displayName":"Opus"}]}"#, None);
        assert_eq!((menu.values[0].id.as_str(), menu.values[0].name.as_str()), ("opus", "Opus"));
        assert!(models("nonsense", None).values.is_empty());
    }
}
