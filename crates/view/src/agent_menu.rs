//! What can be chosen for an agent: its modes, its models and its other options.

use serde::{Deserialize, Serialize};
use wire::json::Raw;

use crate::agent_info::cut;

/// How many values of a menu are kept. Some agents list the models of many providers.
const MAX_VALUES: usize = 1000;

/// How many menus are kept.
const MAX_MENUS: usize = 100;

const MAX_TEXT_BYTES: usize = 400;

/// Something that can be chosen, with its values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentMenu {
    /// The agent's id of it.
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The id of the value that is in effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    pub values: Vec<MenuValue>,
}

/// A value that can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MenuValue {
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// What the words of a person mean in a menu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MenuMatch<'a> {
    /// The id or the name of this value, or a part that only this one has.
    One(&'a MenuValue),
    /// A part of these.
    Several(Vec<&'a MenuValue>),
    Nothing,
}

/// What a menu is for, as the agent says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MenuCategory {
    Mode,
    Model,
    Effort,
    Other,
}

fn text(object: Raw<'_>, key: &str) -> Option<String> {
    Some(cut(object.get(key)?.text()?, MAX_TEXT_BYTES))
}

impl MenuValue {
    fn read(value: Raw<'_>, id: &str) -> Option<Self> {
        let id = text(value, id)?;
        let name = text(value, "name").unwrap_or_else(|| id.clone());
        Some(Self { id, name, description: text(value, "description") })
    }
}

impl AgentMenu {
    /// The name of a value, or its id if the menu does not have it.
    pub fn value_name<'a>(&'a self, id: &'a str) -> &'a str {
        self.values.iter().find(|value| value.id == id).map_or(id, |value| &value.name)
    }

    /// Finds the value that a person means: by its id, by its name, or by a part of them.
    pub fn find(&self, words: &str) -> MenuMatch<'_> {
        let words = words.trim();
        let lower = words.to_lowercase();
        let named = |value: &&MenuValue| {
            value.id.to_lowercase() == lower || value.name.to_lowercase() == lower
        };
        let exact = self.values.iter().find(|value| value.id == words);
        if let Some(value) = exact.or_else(|| self.values.iter().find(named)) {
            return MenuMatch::One(value);
        }
        let contains = |value: &&MenuValue| {
            let found = |text: &str| text.to_lowercase().contains(&lower);
            found(&value.id) || found(&value.name)
        };
        let found: Vec<&MenuValue> = self.values.iter().filter(contains).collect();
        match found.as_slice() {
            [] => MenuMatch::Nothing,
            [only] => MenuMatch::One(only),
            _ => MenuMatch::Several(found),
        }
    }

    /// What follows the id or the name of the menu in a text such as `effort high` or `effort=high`.
    pub(crate) fn strip<'t>(&self, text: &'t str) -> Option<&'t str> {
        let after = |name: &str| {
            let (start, rest) = text.split_at_checked(name.len())?;
            let ends = rest.is_empty() || rest.starts_with('=') || rest.starts_with(' ');
            let rest = rest.trim_start();
            (ends && !name.is_empty() && start.eq_ignore_ascii_case(name))
                .then(|| rest.strip_prefix('=').unwrap_or(rest).trim())
        };
        let found = [after(&self.id), after(&self.name)].into_iter().flatten();
        found.min_by_key(|rest| rest.len())
    }

    /// For example `Effort: High`.
    pub fn text(&self) -> String {
        match &self.current {
            Some(current) => format!("{}: {}", self.name, self.value_name(current)),
            None => self.name.clone(),
        }
    }

    /// The modes in the older form: `{"currentModeId", "availableModes"}`.
    pub(crate) fn modes(modes: Raw<'_>) -> Self {
        Self::old_form(modes, ["mode", "Mode", "currentModeId", "availableModes", "id"])
    }

    /// The models in the older form: `{"currentModelId", "availableModels"}`.
    pub(crate) fn models(models: Raw<'_>) -> Self {
        Self::old_form(models, ["model", "Model", "currentModelId", "availableModels", "modelId"])
    }

    fn old_form(object: Raw<'_>, [id, name, current, list, key]: [&str; 5]) -> Self {
        let values = object.get(list).into_iter().flat_map(Raw::items);
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            description: None,
            current: text(object, current),
            values: values.filter_map(|it| MenuValue::read(it, key)).take(MAX_VALUES).collect(),
        }
    }

    /// All configuration options of an agent, with what they are for.
    pub(crate) fn options(options: Raw<'_>) -> Vec<(MenuCategory, Self)> {
        options.items().filter_map(Self::option).take(MAX_MENUS).collect()
    }

    fn option(option: Raw<'_>) -> Option<(MenuCategory, Self)> {
        // Version 1 and version 2 name it differently.
        let id = text(option, "id").or_else(|| text(option, "configId"))?;
        let category = match text(option, "category").as_deref() {
            Some("mode") => MenuCategory::Mode,
            Some("model") => MenuCategory::Model,
            Some("thought_level") => MenuCategory::Effort,
            _ => MenuCategory::Other,
        };
        let current = option.get("currentValue");
        let (values, current) = match current.and_then(Raw::boolean) {
            Some(value) => (Self::switch(), Some(value.to_string())),
            None => (
                Self::values(option.get("options")),
                current.and_then(Raw::text).map(|it| cut(it, MAX_TEXT_BYTES)),
            ),
        };
        let name = text(option, "name").unwrap_or_else(|| id.clone());
        let description = text(option, "description");
        Some((category, Self { id, name, description, current, values }))
    }

    fn switch() -> Vec<MenuValue> {
        let value = |id: &str, name: &str| MenuValue {
            id: id.to_owned(),
            name: name.to_owned(),
            description: None,
        };
        vec![value("true", "On"), value("false", "Off")]
    }

    /// Values, which may be in groups.
    fn values(options: Option<Raw<'_>>) -> Vec<MenuValue> {
        let mut values = Vec::new();
        for entry in options.into_iter().flat_map(Raw::items) {
            let group = entry.get("options").into_iter().flat_map(Raw::items);
            let found = [entry].into_iter().chain(group);
            values.extend(found.filter_map(|it| MenuValue::read(it, "value")));
            if values.len() >= MAX_VALUES {
                values.truncate(MAX_VALUES);
                break;
            }
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::{AgentMenu, MenuMatch, MenuValue};
    use crate::AgentInfo;

    fn menu(id: &str, name: &str, values: &[(&str, &str)]) -> AgentMenu {
        let value = |(id, name): &(&str, &str)| MenuValue {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            description: None,
        };
        AgentMenu {
            id: id.to_owned(),
            name: name.to_owned(),
            values: values.iter().map(value).collect(),
            ..AgentMenu::default()
        }
    }

    #[test]
    fn a_value_is_found_by_its_id_its_name_or_a_part_of_them() {
        let values =
            [("gpt-5", "GPT 5"), ("gpt-5-mini", "GPT 5 mini"), ("o4", "Older"), ("O4", "X")];
        let menu = menu("model", "Model", &values);
        for (words, id) in [
            ("gpt-5", "gpt-5"),
            ("gpt 5", "gpt-5"),
            ("MINI", "gpt-5-mini"),
            ("O4", "O4"),
            (" o4 ", "o4"),
        ] {
            assert_eq!(
                menu.find(words),
                MenuMatch::One(menu.values.iter().find(|it| it.id == id).unwrap())
            );
        }
        assert_eq!(menu.find("gpt"), MenuMatch::Several(menu.values.iter().take(2).collect()));
        assert_eq!(menu.find("claude"), MenuMatch::Nothing);
    }

    #[test]
    fn an_option_is_found_at_the_beginning_of_a_text() {
        let info = AgentInfo {
            efforts: Some(menu("reasoning", "Reasoning Effort", &[])),
            options: vec![menu("fast", "Fast mode", &[]), menu("fast_mode", "Faster é", &[])],
            ..AgentInfo::default()
        };
        for (text, id, rest) in [
            ("fast true", "fast", "true"),
            ("fast=true", "fast", "true"),
            ("FAST", "fast", ""),
            ("fast_mode = on", "fast_mode", "on"),
            ("Fast mode on", "fast", "on"),
            ("reasoning effort high", "reasoning", "high"),
            ("Faster é x", "fast_mode", "x"),
        ] {
            let (menu, found) = info.find_option(text).unwrap();
            assert_eq!((menu.id.as_str(), found), (id, rest), "{text}");
        }
        for text in ["", "fa", "fastest x", "é", "mode ask"] {
            assert_eq!(info.find_option(text), None, "{text}");
        }
    }
}
