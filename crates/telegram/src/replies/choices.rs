//! What users can choose: the model, the permission mode, the verbosity.

use serde::Deserialize;
use view::telegram::{FormattedText, TextFormat};
use wire::consent::{MODES, ModeDescription, describe_mode};
use wire::outgoing::PermissionMode;

use super::{BotReply, formatted, mode_button, model_button, shortened, verbosity_button};

/// A model that the agent offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OfferedModel {
    pub value: String,
    #[serde(rename = "displayName", alias = "name")]
    pub name: String,
    pub description: String,
}

/// The models in the abilities that an agent reports.
pub fn offered_models(abilities: &str) -> Vec<OfferedModel> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct ModelAbilities {
        models: Vec<OfferedModel>,
    }
    serde_json::from_str::<ModelAbilities>(abilities).unwrap_or_default().models
}

pub fn models(offered: &[OfferedModel], current: Option<&str>) -> BotReply {
    let mut reply = BotReply::default();
    match current {
        Some(current) => {
            reply.text.push("The model is ");
            reply.text.push_formatted(TextFormat::Bold, &shortened(current, 80));
            reply.text.push(".");
        }
        None => reply.text.push("The model is the agent’s default."),
    }
    if offered.is_empty() {
        reply.text.append(&formatted(" To change it, use `/model NAME`."));
        return reply;
    }
    reply.text.push(" Choose a model:");
    for model in offered.iter().filter(|it| !it.value.is_empty()) {
        let name = if model.name.is_empty() { &model.value } else { &model.name };
        reply.text.push("\n• ");
        reply.text.push_formatted(TextFormat::Bold, &shortened(name, 60));
        if !model.description.is_empty() {
            reply.text.push(&format!(" – {}", shortened(&model.description, 120)));
        }
        let tick = if current == Some(model.value.as_str()) { "✓ " } else { "" };
        let button = model_button(format!("{tick}{}", shortened(name, 40)), &model.value);
        reply.buttons.extend(button.map(|button| vec![button]));
    }
    reply
}

pub fn model_set(name: Option<&str>) -> BotReply {
    match name {
        Some(name) => format!("Model set to {}.", shortened(name, 80)).into(),
        None => "Model set to the agent’s default.".into(),
    }
}

/// The modes that have a button. A user who wants the agent to ask nothing must write its name.
fn offered_modes() -> impl Iterator<Item = ModeDescription> {
    MODES.into_iter().filter(|it| it.mode != PermissionMode::BypassPermissions)
}

pub fn modes(current: Option<&str>) -> BotReply {
    let mut reply = BotReply::default();
    reply.text.push("The mode is ");
    let default = describe_mode(PermissionMode::Default).label;
    reply.text.push_formatted(TextFormat::Bold, current.map_or(default, mode_label));
    reply.text.push(". Choose a mode:");
    push_modes(&mut reply.text);
    for ModeDescription { mode, label, .. } in offered_modes() {
        let tick = if current == Some(mode.name()) { "✓ " } else { "" };
        reply.buttons.push(vec![mode_button(format!("{tick}{label}"), mode.name())]);
    }
    reply
}

fn push_modes(text: &mut FormattedText) {
    for ModeDescription { label, description, .. } in offered_modes() {
        text.push("\n• ");
        text.push_formatted(TextFormat::Bold, label);
        text.push(&format!(" – {description}"));
    }
}

pub fn mode_set(mode: PermissionMode) -> BotReply {
    let ModeDescription { label, description, .. } = describe_mode(mode);
    let mut text = FormattedText::plain("Mode set to ");
    text.push_formatted(TextFormat::Bold, label);
    text.push(&format!(". {description}."));
    text.into()
}

pub fn unknown_mode(name: &str) -> BotReply {
    let mut reply = modes(None);
    let mut text = FormattedText::plain("Unknown mode ");
    text.push_formatted(TextFormat::Code, &shortened(name, 40));
    text.push(". Choose a mode:");
    push_modes(&mut text);
    reply.text = text;
    reply
}

/// Finds a mode by the CLI's name, its label, or a name that users are likely to write.
pub fn find_mode(name: &str) -> Option<PermissionMode> {
    let plain = |it: &str| it.to_lowercase().replace([' ', '-', '_', '’', '\''], "");
    let name = plain(name);
    match name.as_str() {
        "normal" => return Some(PermissionMode::Default),
        "edit" | "edits" => return Some(PermissionMode::AcceptEdits),
        _ => {}
    }
    let mut modes = PermissionMode::ALL.into_iter();
    modes.find(|it| name == plain(it.name()) || name == plain(describe_mode(*it).label))
}

/// The label of a mode, by the CLI's name.
pub(super) fn mode_label(name: &str) -> &str {
    match PermissionMode::named(name) {
        Some(mode) => describe_mode(mode).label,
        None => name,
    }
}

const LEVELS: [&str; 3] =
    ["answers only", "answers and messages between tool calls", "tool calls as well"];

pub fn verbosity(level: u8) -> BotReply {
    let mut reply = BotReply::from("How much should be posted here?");
    let mut row = Vec::new();
    for (number, description) in (0..).zip(LEVELS) {
        reply.text.push(&format!("\n{number} – {description}"));
        let tick = if number == level { "✓ " } else { "" };
        row.push(verbosity_button(format!("{tick}{number}"), number));
    }
    reply.buttons.push(row);
    reply
}

pub fn verbosity_set(level: u8) -> BotReply {
    let description = LEVELS.get(usize::from(level)).or(LEVELS.last()).copied();
    format!("Verbosity set to {level}: {}.", description.unwrap_or_default()).into()
}
