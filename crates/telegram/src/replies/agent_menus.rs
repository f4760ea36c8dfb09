//! What only one agent has: its modes, its models and its options, with the ids that it gives them.

use session::AgentSpec;
use view::telegram::{FormattedText, TextFormat};
use view::{AgentInfo, AgentMenu, MenuValue};
use wire::consent::visible;

use super::{BUTTON_DATA_LIMIT, BotReply, formatted, shortened};
use crate::bot::{BotButton, BotKeyboard};

/// Values of a menu that are listed. Some agents list the models of many providers.
const VALUES: usize = 20;

/// Options that are listed, and the values of each that have a button.
const OPTIONS: usize = 12;
const OPTION_VALUES: usize = 6;

/// Agents that have a button.
const AGENTS: usize = 8;

/// What a menu of an agent is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MenuUse {
    Mode,
    Model,
    Option,
}

impl MenuUse {
    fn noun(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Option => "value",
        }
    }

    /// How a user writes the command that chooses in this menu.
    fn command(self, menu: &AgentMenu) -> String {
        match self {
            Self::Mode => "/mode".to_owned(),
            Self::Model => "/model".to_owned(),
            Self::Option => format!("/options {}", clean(&menu.id, 60)),
        }
    }
}

/// A menu with some or all of its values, each with a button that chooses it.
pub fn agent_menu(menu: &AgentMenu, purpose: MenuUse, values: &[&MenuValue]) -> BotReply {
    let mut reply = BotReply::default();
    push_current(&mut reply.text, menu);
    reply.text.push(&format!(" Choose a {}:", purpose.noun()));
    push_values(&mut reply, menu, purpose, values);
    reply
}

/// No value of the menu is what the user wrote.
pub fn no_menu_value(menu: &AgentMenu, purpose: MenuUse, words: &str) -> BotReply {
    let mut reply = BotReply::default();
    reply.text.push(&format!("There is no {} ", purpose.noun()));
    reply.text.push_formatted(TextFormat::Code, &clean(words, 60));
    reply.text.push(&format!(". Choose a {}:", purpose.noun()));
    let all: Vec<_> = menu.values.iter().collect();
    push_values(&mut reply, menu, purpose, &all);
    reply
}

pub fn menu_value_set(menu: &AgentMenu, value: &MenuValue) -> BotReply {
    let mut text = FormattedText::plain(&format!("{} set to ", clean(&menu.name, 60)));
    text.push_formatted(TextFormat::Bold, &clean(&value.name, 60));
    text.push(".");
    if let Some(description) = &value.description {
        text.push(&format!(" {}", clean(description, 200)));
    }
    text.into()
}

/// The agent has nothing to choose from.
pub fn no_menu(agent: &str, purpose: MenuUse) -> BotReply {
    let what = match purpose {
        MenuUse::Mode => "no modes",
        MenuUse::Model => "no models to choose from",
        MenuUse::Option => "no values for this option",
    };
    format!("{} has {what}.", clean(agent, 60)).into()
}

/// All options of an agent that are neither its mode nor its model.
pub fn agent_options(agent: &str, info: &AgentInfo) -> BotReply {
    let mut reply = BotReply::default();
    let agent = clean(agent, 60);
    let menus: Vec<&AgentMenu> = info.option_menus().collect();
    if menus.is_empty() {
        reply.text.push(&format!("{agent} has no options of its own."));
    } else {
        reply.text.push_formatted(TextFormat::Bold, &format!("Options of {agent}"));
    }
    for menu in menus.iter().take(OPTIONS) {
        reply.text.push("\n• ");
        push_current(&mut reply.text, menu);
        if let Some(description) = &menu.description {
            reply.text.push(&format!(" {}", clean(description, 120)));
        }
        let mut row = Vec::new();
        for value in menu.values.iter().take(OPTION_VALUES) {
            let label = format!("{}: {}", clean(&menu.name, 20), clean(&value.name, 20));
            row.extend(value_button(menu, MenuUse::Option, value, &label));
            if row.len() == 2 {
                reply.buttons.push(std::mem::take(&mut row));
            }
        }
        reply.buttons.extend((!row.is_empty()).then_some(row));
        if menu.values.len() > OPTION_VALUES {
            reply.text.append(&formatted(&format!(" `/options {}` has all.", clean(&menu.id, 60))));
        }
    }
    if menus.len() > OPTIONS {
        reply.text.push(&format!("\n… and {} more", menus.len() - OPTIONS));
    }
    reply.text.push("\n\nSee also /mode, /model and /set.");
    reply
}

/// The agent has no option like this.
pub fn no_agent_option(text: &str, agent: &str, info: &AgentInfo) -> BotReply {
    let mut reply = agent_options(agent, info);
    let mut text_before = FormattedText::plain("There is no option ");
    text_before.push_formatted(TextFormat::Code, &clean(text, 60));
    text_before.push(". ");
    text_before.append(&reply.text);
    reply.text = text_before;
    reply
}

/// Buttons that start a session with another agent.
pub fn agent_buttons(agents: &[AgentSpec], current: &str) -> BotKeyboard {
    let others = agents.iter().filter(|it| it.name != current).take(AGENTS);
    let buttons: Vec<BotButton> = others
        .map(|agent| BotButton {
            label: format!("With {}", clean(&agent.title, 30)),
            data: format!("a:{}", agent.name),
        })
        .filter(|it| it.data.len() <= BUTTON_DATA_LIMIT)
        .collect();
    buttons.chunks(2).map(<[BotButton]>::to_vec).collect()
}

fn push_current(text: &mut FormattedText, menu: &AgentMenu) {
    text.push(&clean(&menu.name, 60));
    if let Some(current) = &menu.current {
        text.push(": ");
        text.push_formatted(TextFormat::Bold, &clean(menu.value_name(current), 60));
    }
    text.push(".");
}

fn push_values(reply: &mut BotReply, menu: &AgentMenu, purpose: MenuUse, values: &[&MenuValue]) {
    for value in values.iter().take(VALUES) {
        reply.text.push("\n• ");
        reply.text.push_formatted(TextFormat::Bold, &clean(&value.name, 40));
        if let Some(description) = &value.description {
            reply.text.push(&format!(" – {}", clean(description, 90)));
        }
        let button = value_button(menu, purpose, value, &clean(&value.name, 40));
        reply.buttons.extend(button.map(|it| vec![it]));
    }
    if values.len() > VALUES {
        let (more, command) = (values.len() - VALUES, purpose.command(menu));
        reply.text.append(&formatted(&format!(
            "\n… and {more} more. To find one, use `{command}` with a part of its name."
        )));
    }
}

/// A button that chooses a value; none if its id is too long for a button.
fn value_button(
    menu: &AgentMenu,
    purpose: MenuUse,
    value: &MenuValue,
    label: &str,
) -> Option<BotButton> {
    let data = match purpose {
        MenuUse::Mode => format!("p:{}", value.id),
        MenuUse::Model => format!("m:{}", value.id),
        MenuUse::Option => format!("x:{}={}", menu.id, value.id),
    };
    let tick = if menu.current.as_ref() == Some(&value.id) { "✓ " } else { "" };
    let label = format!("{tick}{label}");
    (data.len() <= BUTTON_DATA_LIMIT && !value.id.is_empty()).then_some(BotButton { label, data })
}

/// Text of the agent in one line, without backticks, which would end code.
fn clean(text: &str, characters: usize) -> String {
    shortened(&visible(text), characters).replace('`', "'")
}
