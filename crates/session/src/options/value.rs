//! Options as JSON values: reading and setting one by its description.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use thiserror::Error;
use wire::outgoing::PermissionMode;

use super::spec::{OPTIONS, OptionKind, OptionSpec};
use super::{IdleTimeout, SessionOptions, checks};
use crate::catalog::AgentCatalog;

/// What is shown in place of a secret.
pub const MASK: &str = "•••";

/// The largest amount of money.
const MAX_DOLLARS: f64 = 1_000_000.0;

/// Why an option cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    #[error("there is no option `{name}`{}", did_you_mean(.similar))]
    Unknown { name: String, similar: Vec<&'static str> },
    #[error("`{option}`: {reason}")]
    Invalid { option: &'static str, reason: String },
    #[error("`{option}` can only be set when a session is created")]
    OnlyAtCreation { option: &'static str },
}

/// An [`OptionError`] on its way to another process, where the names are not static.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SentOptionError {
    Unknown { name: String },
    Invalid { option: String, reason: String },
    OnlyAtCreation { option: String },
}

impl Serialize for OptionError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SentOptionError::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for OptionError {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SentOptionError::deserialize(deserializer).map(Self::from)
    }
}

impl From<OptionError> for SentOptionError {
    fn from(error: OptionError) -> Self {
        match error {
            OptionError::Unknown { name, .. } => Self::Unknown { name },
            OptionError::Invalid { option, reason } => {
                Self::Invalid { option: option.to_owned(), reason }
            }
            OptionError::OnlyAtCreation { option } => {
                Self::OnlyAtCreation { option: option.to_owned() }
            }
        }
    }
}

impl From<SentOptionError> for OptionError {
    fn from(error: SentOptionError) -> Self {
        let unknown = |name| Self::Unknown { name, similar: Vec::new() };
        match error {
            SentOptionError::Unknown { name } => unknown(name),
            SentOptionError::Invalid { option, reason } => match OptionSpec::find(&option) {
                Some(spec) => Self::Invalid { option: spec.name, reason },
                None => unknown(option),
            },
            SentOptionError::OnlyAtCreation { option } => match OptionSpec::find(&option) {
                Some(spec) => Self::OnlyAtCreation { option: spec.name },
                None => unknown(option),
            },
        }
    }
}

fn did_you_mean(similar: &[&str]) -> String {
    match similar {
        [] => "; `towpath config --options` lists all".to_owned(),
        similar => format!("; did you mean `{}`?", similar.join("` or `")),
    }
}

impl OptionError {
    pub(super) fn unknown(name: &str) -> Self {
        Self::Unknown { name: checks::shorten(name), similar: OptionSpec::similar(name) }
    }

    pub(crate) fn invalid(spec: &OptionSpec, reason: impl Into<String>) -> Self {
        Self::Invalid { option: spec.name, reason: reason.into() }
    }
}

impl SessionOptions {
    /// The value of an option; null if it is not set.
    pub fn value(&self, spec: &OptionSpec) -> Value {
        let switch = |value: bool, default: bool| {
            if value == default { Value::Null } else { Value::Bool(value) }
        };
        let list = |items: &[String]| if items.is_empty() { Value::Null } else { json!(items) };
        match spec.name {
            "agent" => json!(self.agent),
            "model" => json!(self.model),
            "effort" => json!(self.effort),
            "mode" => {
                let own = self.agent_settings.get("mode").map(String::as_str);
                json!(own.or(self.permission_mode.map(PermissionMode::name)))
            }
            "fallback_model" => json!(self.fallback_model),
            "max_turns" => json!(self.max_turns),
            "max_budget_usd" => json!(self.max_budget_usd),
            "budget_usd" => json!(self.budget_usd),
            "append_system_prompt" => json!(self.append_system_prompt),
            "allowed_tools" => list(&self.allowed_tools),
            "disallowed_tools" => list(&self.disallowed_tools),
            "extra_directories" => {
                let paths = self.extra_directories.iter();
                let paths: Vec<_> = paths.map(|it| it.to_string_lossy().into_owned()).collect();
                list(&paths)
            }
            "mcp_config" => match &self.mcp_config {
                Some(text) if text.trim_start().starts_with('{') => {
                    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
                }
                other => json!(other),
            },
            "environment" if self.environment.is_empty() => Value::Null,
            "environment" => json!(self.environment),
            "idle_timeout" => json!(self.idle_timeout),
            "continue_after_cut" => switch(self.continue_after_cut, false),
            "session_persistence" => switch(!self.without_persistence, true),
            "delete_when_ended" => switch(self.delete_when_ended, false),
            _ => Value::Null,
        }
    }

    /// Sets an option; null takes it back. The value is checked: whatever this accepts can be passed
    /// to an agent.
    pub fn set_value(&mut self, spec: &OptionSpec, value: &Value) -> Result<(), OptionError> {
        let invalid = |reason: String| OptionError::invalid(spec, reason);
        let value = if value.is_null() { None } else { Some(value) };
        match spec.name {
            "agent" => self.agent = text(spec, value).map_err(invalid)?,
            "model" => self.model = text(spec, value).map_err(invalid)?,
            "effort" => self.effort = self.agent_word(spec, value).map_err(invalid)?,
            "mode" => {
                let name = self.agent_word(spec, value).map_err(invalid)?;
                self.permission_mode = name.as_deref().and_then(PermissionMode::named);
                match name.filter(|_| self.permission_mode.is_none()) {
                    Some(own) => self.agent_settings.insert("mode".to_owned(), own),
                    None => self.agent_settings.remove("mode"),
                };
            }
            "fallback_model" => self.fallback_model = text(spec, value).map_err(invalid)?,
            "max_turns" => self.max_turns = integer(spec, value).map_err(invalid)?,
            "max_budget_usd" => self.max_budget_usd = dollars(value).map_err(invalid)?,
            "budget_usd" => self.budget_usd = dollars(value).map_err(invalid)?,
            "append_system_prompt" => {
                self.append_system_prompt = text(spec, value).map_err(invalid)?;
            }
            "allowed_tools" => {
                self.allowed_tools = collected(value, checks::list).map_err(invalid)?;
            }
            "disallowed_tools" => {
                self.disallowed_tools = collected(value, checks::list).map_err(invalid)?;
            }
            "extra_directories" => {
                self.extra_directories = collected(value, checks::directories).map_err(invalid)?;
            }
            "mcp_config" => {
                self.mcp_config = value.map(checks::mcp).transpose().map_err(invalid)?;
            }
            "environment" => {
                self.environment = collected(value, checks::variables).map_err(invalid)?;
            }
            "idle_timeout" => self.idle_timeout = duration(value).map_err(invalid)?,
            "continue_after_cut" => {
                self.continue_after_cut = switch(spec, value).map_err(invalid)?;
            }
            "session_persistence" => {
                self.without_persistence = !switch(spec, value).map_err(invalid)?;
            }
            "delete_when_ended" => self.delete_when_ended = switch(spec, value).map_err(invalid)?,
            name => return Err(OptionError::unknown(name)),
        }
        Ok(())
    }

    /// One of the words of the table, or any if the agent says itself which ones it has. It is asked when
    /// it has been started, and one that it does not have is reported in the conversation.
    fn agent_word(
        &self,
        spec: &OptionSpec,
        value: Option<&Value>,
    ) -> Result<Option<String>, String> {
        let own = self.agent.as_deref().is_some_and(AgentCatalog::has_own_words);
        match value.and_then(Value::as_str) {
            Some(word) if own => checks::line(word).map(|it| Some(it.to_owned())),
            _ => text(spec, value),
        }
    }

    /// All options that are set.
    pub fn values(&self) -> Map<String, Value> {
        let values = OPTIONS.iter().map(|spec| (spec.name.to_owned(), self.value(spec)));
        values.filter(|(_, value)| !value.is_null()).collect()
    }

    /// All options that are set, without secrets.
    pub fn masked_values(&self) -> Map<String, Value> {
        let values = self.values().into_iter();
        values.map(|(name, value)| (name.clone(), mask(&name, value))).collect()
    }
}

/// The value of an option without secrets: the values of variables, and all of an MCP server but its
/// name.
pub(crate) fn mask(name: &str, mut value: Value) -> Value {
    let members = match name {
        "environment" => Some(&mut value),
        "mcp_config" => value.get_mut("mcpServers"),
        _ => return value,
    };
    if let Some(Value::Object(members)) = members {
        for (_, member) in members {
            *member = json!(MASK);
        }
    }
    if name == "mcp_config"
        && let Value::Object(all) = &mut value
    {
        all.retain(|key, _| key == "mcpServers");
    }
    value
}

fn text(spec: &OptionSpec, value: Option<&Value>) -> Result<Option<String>, String> {
    let Some(value) = value else { return Ok(None) };
    let text = value.as_str().ok_or("expected a text")?;
    let checked = match spec.kind {
        OptionKind::Text { multiline: true } => checks::multiline(text)?,
        OptionKind::Agent => checks::agent_name(text)?,
        OptionKind::Choice(words) => {
            let known = words.iter().find(|it| **it == text);
            known.ok_or_else(|| {
                let text = checks::shorten(text);
                format!("`{text}` is none of `{}`", words.join("`, `"))
            })?
        }
        _ => checks::line(text)?,
    };
    Ok(Some(checked.to_owned()))
}

fn integer(spec: &OptionSpec, value: Option<&Value>) -> Result<Option<u32>, String> {
    let Some(value) = value else { return Ok(None) };
    let OptionKind::Integer { min, max } = spec.kind else { return Ok(None) };
    let number = value.as_u64().and_then(|it| u32::try_from(it).ok());
    let number = number.filter(|it| (min..=max).contains(it));
    number.map(Some).ok_or_else(|| format!("expected a whole number from {min} to {max}"))
}

fn dollars(value: Option<&Value>) -> Result<Option<f64>, String> {
    let Some(value) = value else { return Ok(None) };
    check_dollars(value.as_f64().unwrap_or(0.0)).map(Some)
}

/// Refuses what is no amount of money that someone may spend.
pub fn check_dollars(amount: f64) -> Result<f64, String> {
    let is_amount = amount > 0.0 && amount <= MAX_DOLLARS;
    let refusal = || format!("expected an amount above 0, at most {MAX_DOLLARS}");
    is_amount.then_some(amount).ok_or_else(refusal)
}

fn duration(value: Option<&Value>) -> Result<Option<IdleTimeout>, String> {
    let Some(value) = value else { return Ok(None) };
    let text = value.as_str().ok_or("expected a text as `30m` or `never`")?;
    text.parse().map(Some).map_err(str::to_owned)
}

fn switch(spec: &OptionSpec, value: Option<&Value>) -> Result<bool, String> {
    let OptionKind::Switch { default } = spec.kind else { return Ok(false) };
    match value {
        None => Ok(default),
        Some(value) => value.as_bool().ok_or_else(|| "expected `true` or `false`".to_owned()),
    }
}

fn collected<T: Default>(
    value: Option<&Value>,
    check: fn(&Value) -> Result<T, String>,
) -> Result<T, String> {
    value.map_or_else(|| Ok(T::default()), check)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::spec::OPTIONS;
    use super::{OptionSpec, SessionOptions};

    /// A value for every option that is not its default.
    fn examples() -> Value {
        json!({
            "agent": "codex", "model": "opus", "effort": "high", "mode": "dontAsk", "fallback_model": "sonnet",
            "max_turns": 7, "max_budget_usd": 2.5, "budget_usd": 5.5,
            "append_system_prompt": "- be brief\n- be kind",
            "allowed_tools": ["Read", "Bash(git:*)"], "disallowed_tools": ["WebSearch"],
            "extra_directories": ["/srv/data"],
            "mcp_config": {"mcpServers": {"files": {"command": "x", "env": {"KEY": "secret"}}}},
            "environment": {"TOKEN": "secret"}, "idle_timeout": "1h30m", "continue_after_cut": true,
            "session_persistence": false, "delete_when_ended": true,
        })
    }

    fn all_set() -> SessionOptions {
        let mut options = SessionOptions::default();
        for spec in OPTIONS {
            options.set_value(spec, &examples()[spec.name]).unwrap();
        }
        options
    }

    #[test]
    fn every_option_is_set_read_stored_and_taken_back() {
        let mut options = all_set();
        for spec in OPTIONS {
            assert_eq!(options.value(spec), examples()[spec.name], "{}", spec.name);
        }
        let stored = SessionOptions::from_json(&options.to_json(), options.directory.clone());
        assert_eq!(stored.as_ref(), Ok(&options));
        for spec in OPTIONS {
            options.set_value(spec, &Value::Null).unwrap();
        }
        assert_eq!(options, SessionOptions::default());
        assert!(options.values().is_empty());
    }

    #[test]
    fn modes_and_efforts_of_other_agents_are_words_that_only_they_know() {
        let (mode, effort) =
            (OptionSpec::find("mode").unwrap(), OptionSpec::find("effort").unwrap());
        for agent in [None, Some("claude"), Some("demo")] {
            let agent = agent.map(str::to_owned);
            let mut options = SessionOptions { agent, ..SessionOptions::default() };
            assert!(options.set_value(mode, &json!("read-only")).is_err());
            assert!(options.set_value(effort, &json!("minimal")).is_err());
        }
        for agent in ["codex", "mine"] {
            let agent = Some(agent.to_owned());
            let mut options = SessionOptions { agent, ..SessionOptions::default() };
            options.set_value(mode, &json!("read-only")).unwrap();
            options.set_value(effort, &json!("minimal")).unwrap();
            assert_eq!(options.value(mode), "read-only");
            assert_eq!(options.value(effort), "minimal");
            for odd in
                [json!("--x"), json!(""), json!(7), json!("a\u{1b}b"), json!("x".repeat(1 << 20))]
            {
                assert!(options.set_value(mode, &odd).is_err(), "{odd}");
            }
            options.set_value(mode, &json!("plan")).unwrap();
            assert_eq!(options.value(mode), "plan");
            assert!(options.agent_settings.is_empty());
        }
    }

    #[test]
    fn secrets_are_masked_wherever_they_are() {
        let masked = Value::Object(all_set().masked_values());
        assert!(!masked.to_string().contains("secret"), "{masked}");
        assert_eq!(masked["environment"], json!({"TOKEN": "•••"}));
        assert_eq!(masked["mcp_config"], json!({"mcpServers": {"files": "•••"}}));
    }

    #[test]
    fn what_could_harm_the_command_line_or_the_environment_is_refused() {
        let long = "x".repeat(200_000);
        let many: Vec<String> = (0..1000).map(|it| format!("Tool{it}")).collect();
        for (name, value) in [
            ("model", json!("--dangerously-skip-permissions")),
            ("model", json!("a\u{1b}[2Jb")),
            ("model", json!("")),
            ("agent", json!("")),
            ("agent", json!("../x")),
            ("agent", json!(long)),
            ("model", json!(long)),
            ("model", json!(7)),
            ("effort", json!("enormous")),
            ("mode", json!("yolo")),
            ("max_turns", json!(0)),
            ("max_turns", json!(-1)),
            ("max_turns", json!(1e9)),
            ("max_turns", json!("3")),
            ("max_budget_usd", json!(0)),
            ("max_budget_usd", json!(1e300)),
            ("budget_usd", json!(0)),
            ("budget_usd", json!(-0.01)),
            ("budget_usd", json!(1e300)),
            ("budget_usd", json!("5")),
            ("append_system_prompt", json!("a\0b")),
            ("append_system_prompt", json!(long)),
            ("allowed_tools", json!("Read")),
            ("allowed_tools", json!(["--x"])),
            ("allowed_tools", json!(many)),
            ("extra_directories", json!(["relative"])),
            ("mcp_config", json!({"servers": {}})),
            ("mcp_config", json!("{broken")),
            ("mcp_config", json!("-x")),
            ("environment", json!({"CLAUDE_CODE_ENTRYPOINT": "x"})),
            ("environment", json!({"CLAUDECODE": "1"})),
            ("environment", json!({"TOWPATH_AGENT": "x"})),
            ("environment", json!({"A=B": "x"})),
            ("environment", json!({"": "x"})),
            ("environment", json!({"A": "x\0"})),
            ("environment", json!({"A": long})),
            ("environment", json!({"A": 1})),
            ("idle_timeout", json!("soon")),
            ("continue_after_cut", json!("yes")),
        ] {
            let spec = OptionSpec::find(name).unwrap();
            let mut options = SessionOptions::default();
            let error = options.set_value(spec, &value).expect_err(name).to_string();
            assert!(error.starts_with(&format!("`{name}`: ")), "{error}");
            assert!(error.len() < 400 && !error.contains(char::is_control), "{error}");
            assert_eq!(options, SessionOptions::default(), "{name}");
        }
    }
}
