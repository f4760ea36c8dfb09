//! Options as text, as people write them in a chat or in a form.

use serde_json::{Map, Value, json};

use super::SessionOptions;
use super::spec::{OptionKind, OptionSpec};
use super::value::OptionError;

impl OptionSpec {
    /// Reads a value as a person writes it. `default` takes the option back.
    pub fn parse(&self, text: &str) -> Result<Value, OptionError> {
        let text = text.trim();
        if text == "default" && self.name != "mode" {
            return Ok(Value::Null);
        }
        let value = match self.kind {
            OptionKind::Integer { .. } => {
                text.parse::<u32>().map_or_else(|_| json!(text), |it| json!(it))
            }
            OptionKind::Dollars => {
                let amount = text.strip_prefix('$').unwrap_or(text).parse::<f64>();
                // JSON has no infinite numbers.
                amount.ok().filter(|it| it.is_finite()).map_or_else(|| json!(text), |it| json!(it))
            }
            OptionKind::Switch { .. } => match text {
                "on" | "true" | "yes" => Value::Bool(true),
                "off" | "false" | "no" => Value::Bool(false),
                other => json!(other),
            },
            OptionKind::List | OptionKind::Directories => match json_of(text, '[') {
                Some(list) => list,
                None => json!(split_list(text)),
            },
            OptionKind::Variables => match json_of(text, '{') {
                Some(variables) => variables,
                None => self.parse_variables(text)?,
            },
            OptionKind::Mcp => json_of(text, '{').unwrap_or_else(|| json!(text)),
            OptionKind::Text { .. }
            | OptionKind::Choice(_)
            | OptionKind::Agent
            | OptionKind::Duration => json!(text),
        };
        let mut options = SessionOptions::default();
        options.set_value(self, &value)?;
        Ok(value)
    }

    /// Reads `NAME=VALUE` on each line.
    fn parse_variables(&self, text: &str) -> Result<Value, OptionError> {
        let mut variables = Map::new();
        for line in text.lines().filter(|it| !it.trim().is_empty()) {
            let (name, value) = line.split_once('=').ok_or_else(|| {
                OptionError::invalid(self, "expected NAME=VALUE, each on a line of its own")
            })?;
            variables.insert(name.trim().to_owned(), json!(value));
        }
        Ok(Value::Object(variables))
    }

    /// Writes a value as a person would write it.
    pub fn format(&self, value: &Value) -> String {
        match value {
            Value::Null => "default".to_owned(),
            Value::Bool(true) => "on".to_owned(),
            Value::Bool(false) => "off".to_owned(),
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                // A path with a comma would read as two.
                let plain = !items.iter().any(|it| split_list(it).len() != 1);
                if plain { items.join(", ") } else { value.to_string() }
            }
            Value::Object(variables) if self.kind == OptionKind::Variables => {
                let line = |(name, value): (&String, &Value)| {
                    format!("{name}={}", value.as_str().unwrap_or_default())
                };
                variables.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            other => other.to_string(),
        }
    }
}

/// The value as JSON, if it starts like it.
fn json_of(text: &str, start: char) -> Option<Value> {
    text.starts_with(start).then(|| serde_json::from_str(text).ok()).flatten()
}

/// Splits at commas and line breaks. A comma inside parentheses belongs to a rule.
fn split_list(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let parts = text.split(|it| {
        match it {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        it == '\n' || it == ',' && depth == 0
    });
    parts.map(str::trim).filter(|it| !it.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::OptionSpec;

    #[test]
    fn values_read_as_people_write_them() {
        for (name, text, value) in [
            ("model", " opus ", json!("opus")),
            ("mode", "default", json!("default")),
            ("model", "default", Value::Null),
            ("max_turns", "12", json!(12)),
            ("max_budget_usd", "$2.50", json!(2.5)),
            ("idle_timeout", "45m", json!("45m")),
            ("continue_after_cut", "on", json!(true)),
            ("session_persistence", "off", json!(false)),
            (
                "allowed_tools",
                "Read, Bash(git log, x)\nGrep",
                json!(["Read", "Bash(git log, x)", "Grep"]),
            ),
            ("extra_directories", "[\"/a, b\"]", json!(["/a, b"])),
            ("environment", "A=1\nB=x=y\n", json!({"A": "1", "B": "x=y"})),
            ("mcp_config", "{\"mcpServers\":{}}", json!({"mcpServers": {}})),
            ("mcp_config", "/etc/mcp.json", json!("/etc/mcp.json")),
        ] {
            let spec = OptionSpec::find(name).unwrap();
            let read = spec.parse(text).unwrap();
            assert_eq!(read, value, "{name}");
            assert_eq!(spec.parse(&spec.format(&read)), Ok(value), "{name}");
        }
        for (name, text) in [
            ("max_turns", "many"),
            ("max_budget_usd", "inf"),
            ("max_budget_usd", "NaN"),
            ("budget_usd", "NaN"),
            ("budget_usd", "-1"),
            ("budget_usd", "0"),
            ("budget_usd", "1e400"),
            ("continue_after_cut", "perhaps"),
            ("environment", "A"),
            ("effort", ""),
        ] {
            assert!(OptionSpec::find(name).unwrap().parse(text).is_err(), "{name} {text}");
        }
    }
}
