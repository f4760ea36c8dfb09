//! What can be chosen: the model, the mode, how much is told.

use serde::Deserialize;
use view::telegram::{Mark, Text};
use wire::say::PermissionMode;

use super::{Said, cut, data, marked};

/// A model to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Model {
    /// What to choose it by.
    pub value: String,
    /// What it is called.
    #[serde(rename = "displayName", alias = "name")]
    pub name: String,
    /// What it is good for.
    pub description: String,
}

/// The models that an agent offers, from what it said it can do.
pub fn models_offered(abilities: &str) -> Vec<Model> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Abilities {
        models: Vec<Model>,
    }
    serde_json::from_str::<Abilities>(abilities).unwrap_or_default().models
}

/// The models to choose from.
pub fn models(choices: &[Model], current: Option<&str>) -> Said {
    let mut said = Said::default();
    match current {
        Some(current) => {
            said.text.push("The model is ");
            said.text.push_marked(Mark::Bold, &cut(current, 80));
            said.text.push(".");
        }
        None => said.text.push("The model is the agent’s default."),
    }
    if choices.is_empty() {
        said.text.append(&marked(" Choose another with `/model NAME`."));
        return said;
    }
    said.text.push(" Choose:");
    for model in choices.iter().filter(|it| !it.value.is_empty()) {
        let name = if model.name.is_empty() { &model.value } else { &model.name };
        said.text.push("\n• ");
        said.text.push_marked(Mark::Bold, &cut(name, 60));
        if !model.description.is_empty() {
            said.text.push(&format!(" – {}", cut(&model.description, 120)));
        }
        let tick = if current == Some(model.value.as_str()) { "✓ " } else { "" };
        let button = data::model(format!("{tick}{}", cut(name, 40)), &model.value);
        said.buttons.extend(button.map(|button| vec![button]));
    }
    said
}

/// The model is another one.
pub fn model_set(name: Option<&str>) -> Said {
    match name {
        Some(name) => format!("From here on with {}.", cut(name, 80)).into(),
        None => "From here on with the agent’s default model.".into(),
    }
}

/// Modes that are offered. The one that asks nothing at all has to be asked for by name.
const MODES: [PermissionMode; 5] = [
    PermissionMode::Default,
    PermissionMode::AcceptEdits,
    PermissionMode::Plan,
    PermissionMode::DontAsk,
    PermissionMode::Auto,
];

/// The modes to choose from.
pub fn modes(current: Option<&str>) -> Said {
    let mut said = Said::default();
    said.text.push("The mode is ");
    said.text.push_marked(Mark::Bold, current.map_or("Ask first", mode_name));
    said.text.push(". Choose:");
    listed(&mut said.text);
    for mode in MODES {
        let tick = if current == Some(mode.name()) { "✓ " } else { "" };
        let button = data::mode(format!("{tick}{}", short(mode)), mode.name());
        said.buttons.extend(button.map(|button| vec![button]));
    }
    said
}

fn listed(text: &mut Text) {
    for mode in MODES {
        text.push("\n• ");
        text.push_marked(Mark::Bold, short(mode));
        text.push(&format!(" – {}", meaning(mode)));
    }
}

/// The mode is another one.
pub fn mode_set(mode: PermissionMode) -> Said {
    let mut text = Text::plain("From here on: ");
    text.push_marked(Mark::Bold, short(mode));
    text.push(&format!(" – {}.", meaning(mode)));
    text.into()
}

/// There is no mode of that name.
pub fn no_such_mode(name: &str) -> Said {
    let mut said = modes(None);
    let mut text = Text::plain("I don’t know the mode ");
    text.push_marked(Mark::Code, &cut(name, 40));
    text.push(". These I know:");
    listed(&mut text);
    said.text = text;
    said
}

/// The mode of a name, as the CLI or a person would write it.
pub fn named_mode(name: &str) -> Option<PermissionMode> {
    let plain = |it: &str| it.to_lowercase().replace([' ', '-', '_'], "");
    let wanted = plain(name);
    PermissionMode::ALL.into_iter().find(|mode| {
        wanted == plain(mode.name())
            || wanted == plain(short(*mode))
            || alias(&wanted) == Some(*mode)
    })
}

fn alias(wanted: &str) -> Option<PermissionMode> {
    match wanted {
        "ask" | "normal" => Some(PermissionMode::Default),
        "edit" | "edits" => Some(PermissionMode::AcceptEdits),
        _ => None,
    }
}

/// A mode in words, by the CLI's name.
pub(super) fn mode_name(name: &str) -> &str {
    match PermissionMode::named(name) {
        Some(mode) => short(mode),
        None => name,
    }
}

fn short(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "Ask first",
        PermissionMode::AcceptEdits => "Accept edits",
        PermissionMode::Plan => "Plan",
        PermissionMode::DontAsk => "Don’t ask",
        PermissionMode::Auto => "Auto",
        PermissionMode::BypassPermissions => "Bypass permissions",
    }
}

fn meaning(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Default => "asks before it writes or runs something",
        PermissionMode::AcceptEdits => "edits files unasked",
        PermissionMode::Plan => "reads and plans only",
        PermissionMode::DontAsk => "never asks; what no rule allows is refused",
        PermissionMode::Auto => "decides itself what to ask",
        PermissionMode::BypassPermissions => "does everything unasked",
    }
}

const LEVELS: [&str; 3] = ["answers only", "what is said on the way too", "tools too"];

/// How much is told, and what there is to choose from.
pub fn verbosity(level: u8) -> Said {
    let mut said = Said::from("How much shall I tell?");
    let mut row = Vec::new();
    for (number, words) in (0..).zip(LEVELS) {
        said.text.push(&format!("\n{number} – {words}"));
        let tick = if number == level { "✓ " } else { "" };
        row.push(data::verbosity(format!("{tick}{number}"), number));
    }
    said.buttons.push(row);
    said
}

/// How much is told is another thing.
pub fn verbosity_set(level: u8) -> Said {
    let words = LEVELS.get(usize::from(level)).or(LEVELS.last()).copied().unwrap_or_default();
    format!("From here on: {words}.").into()
}
