//! Modes and config options of the player's sessions.

use serde_json::{Value, json};

/// An option that every session has.
struct PlayedOption {
    id: &'static str,
    name: &'static str,
    category: &'static str,
    /// Ids and names of the values. Without values it is a switch.
    values: &'static [(&'static str, &'static str)],
}

const OPTIONS: &[PlayedOption] = &[
    PlayedOption { id: "mode", name: "Mode", category: "mode", values: MODES },
    PlayedOption {
        id: "model",
        name: "Model",
        category: "model",
        values: &[("scripted", "Scripted"), ("scripted-large", "Scripted, large")],
    },
    PlayedOption {
        id: "effort",
        name: "Effort",
        category: "thought_level",
        values: &[("low", "Low"), ("high", "High")],
    },
    PlayedOption { id: "fast", name: "Fast mode", category: "model_config", values: &[] },
];

/// `ask` asks before every call, `auto` never, and `plan` makes no changes.
const MODES: &[(&str, &str)] = &[("ask", "Ask"), ("auto", "Auto"), ("plan", "Plan")];

/// The options of one session: what was changed.
#[derive(Clone, Debug)]
pub(crate) struct PlayedOptions {
    changed: Value,
}

impl PlayedOptions {
    pub(crate) fn new(changed: Value) -> Self {
        let changed = if changed.is_object() { changed } else { json!({}) };
        Self { changed }
    }

    pub(crate) fn changed(&self) -> &Value {
        &self.changed
    }

    pub(crate) fn mode(&self) -> &str {
        self.changed["mode"].as_str().unwrap_or(MODES[0].0)
    }

    /// Sets an option. The error says why the value is not possible.
    pub(crate) fn set(&mut self, id: &str, value: &Value) -> Result<(), String> {
        let option = OPTIONS.iter().find(|it| it.id == id);
        let values = option.ok_or_else(|| format!("there is no option `{id}`"))?.values;
        let possible = match value.as_str() {
            Some(value) => values.iter().any(|it| it.0 == value),
            None => values.is_empty() && value.is_boolean(),
        };
        if !possible {
            return Err(format!("{value} is no value of `{id}`"));
        }
        self.changed[id] = value.clone();
        Ok(())
    }

    pub(crate) fn modes(&self) -> Value {
        let modes: Vec<Value> =
            MODES.iter().map(|(id, name)| json!({ "id": id, "name": name })).collect();
        json!({ "currentModeId": self.mode(), "availableModes": modes })
    }

    pub(crate) fn to_json(&self) -> Value {
        OPTIONS
            .iter()
            .map(|PlayedOption { id, name, category, values }| {
                let changed = self.changed.get(*id).cloned();
                let mut option = json!({ "id": id, "name": name, "category": category });
                if let Some((first, _)) = values.first() {
                    let values = values.iter();
                    let values: Vec<Value> =
                        values.map(|(id, name)| json!({ "value": id, "name": name })).collect();
                    option["type"] = json!("select");
                    option["currentValue"] = changed.unwrap_or_else(|| json!(first));
                    option["options"] = json!(values);
                } else {
                    option["type"] = json!("boolean");
                    option["currentValue"] = changed.unwrap_or_else(|| json!(false));
                }
                option
            })
            .collect()
    }

    /// What the answers to `session/new`, `load` and `resume` have in common.
    pub(crate) fn setup(&self) -> Value {
        json!({ "modes": self.modes(), "configOptions": self.to_json() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::PlayedOptions;

    #[test]
    fn only_values_that_were_offered_are_accepted() {
        let mut options = PlayedOptions::new(json!({}));
        assert_eq!(options.mode(), "ask");
        options.set("mode", &json!("auto")).expect("a mode");
        options.set("fast", &json!(true)).expect("a switch");
        assert_eq!(options.modes()["currentModeId"], "auto");
        assert_eq!(options.to_json()[3]["currentValue"], true);
        assert!(options.set("mode", &json!("yolo")).is_err());
        assert!(options.set("fast", &json!("yes")).is_err());
        assert!(options.set("wibble", &json!("yes")).is_err());
    }
}
