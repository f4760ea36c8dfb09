//! Changes of several options at once, checked before anything happens.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use wire::note::Setting;
use wire::outgoing::PermissionMode;

use super::SessionOptions;
use super::spec::{OptionEffect, OptionKind, OptionRole, OptionSpec};
use super::value::{OptionError, mask};
use crate::roots::Roots;

/// The name of the option that chooses the agent.
const AGENT_OPTION: &str = "agent";

/// Changed options with their new values; null takes one back. Names and values are valid.
#[derive(Clone, Debug, Default)]
pub struct OptionChanges(Vec<(&'static OptionSpec, Value)>);

impl OptionChanges {
    /// Checks the names and values of options.
    pub fn new(values: &Map<String, Value>) -> Result<Self, OptionError> {
        let mut changes = Self::default();
        // The agent decides which values others may have.
        let (agent, others): (Vec<_>, Vec<_>) =
            values.iter().partition(|(name, _)| *name == AGENT_OPTION);
        for (name, value) in agent.into_iter().chain(others) {
            let spec = OptionSpec::find(name).ok_or_else(|| OptionError::unknown(name))?;
            changes.set(spec, value.clone())?;
        }
        Ok(changes)
    }

    /// Adds a change, or replaces that of the same option. Values that only one agent has are accepted
    /// behind the change that chooses this agent.
    pub fn set(&mut self, spec: &'static OptionSpec, value: Value) -> Result<(), OptionError> {
        self.set_for(None, spec, value)
    }

    /// Adds a change like [`set`](Self::set), to a session with this agent.
    pub fn set_for(
        &mut self,
        agent: Option<&str>,
        spec: &'static OptionSpec,
        value: Value,
    ) -> Result<(), OptionError> {
        let chosen = self.0.iter().find(|(spec, _)| spec.name == AGENT_OPTION);
        let chosen = chosen.and_then(|(_, name)| name.as_str()).or(agent).map(str::to_owned);
        SessionOptions { agent: chosen, ..SessionOptions::default() }.set_value(spec, &value)?;
        self.0.retain(|(other, _)| other.name != spec.name);
        self.0.push((spec, value));
        Ok(())
    }

    /// Adds changes, which replace those of the same options.
    pub fn extend(&mut self, later: Self) {
        self.0.retain(|(spec, _)| !later.0.iter().any(|(other, _)| other.name == spec.name));
        self.0.extend(later.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static OptionSpec, &Value)> {
        self.0.iter().map(|(spec, value)| (*spec, value))
    }

    /// The options that need the role `admin`, even to take them back.
    pub fn admin_options(&self) -> impl Iterator<Item = &'static str> {
        let bypasses = self.wants_bypass();
        let needs_admin = move |(spec, _): &&(&'static OptionSpec, Value)| {
            spec.role == OptionRole::Admin || bypasses && spec.name == "mode"
        };
        self.0.iter().filter(needs_admin).map(|(spec, _)| spec.name)
    }

    /// Whether the agent would no longer ask for anything.
    pub fn wants_bypass(&self) -> bool {
        let bypass = PermissionMode::BypassPermissions.name();
        self.0.iter().any(|(spec, value)| spec.name == "mode" && value == bypass)
    }

    /// Replaces directories by what they lead to, if that is below the roots. Blocks.
    pub fn resolve_directories(&mut self, roots: &Roots) -> Result<(), OptionError> {
        for (spec, value) in &mut self.0 {
            let Value::Array(paths) = value else { continue };
            if spec.kind != OptionKind::Directories {
                continue;
            }
            for path in paths {
                let text = path.as_str().unwrap_or_default();
                let resolved = roots.resolve(Path::new(text)).ok_or_else(|| {
                    let reason = "there is no such directory below a root of this server; add a \
                                  root with `--root`";
                    OptionError::invalid(spec, reason)
                })?;
                *path = json!(resolved.to_string_lossy());
            }
        }
        Ok(())
    }

    /// Applies the changes to the options of a new session.
    pub fn apply(&self, options: &mut SessionOptions) -> Result<(), OptionError> {
        let is_agent = |it: &&(&OptionSpec, Value)| it.0.name == AGENT_OPTION;
        let (agent, others): (Vec<_>, Vec<_>) = self.0.iter().partition(is_agent);
        let mut ordered = agent.into_iter().chain(others);
        ordered.try_for_each(|(spec, value)| options.set_value(spec, value))
    }

    /// The settings that bring a session from its options to the changed ones. Those the agent can be
    /// told come first; what needs another process is one setting, so that there is one restart.
    pub fn settings(&self, current: &SessionOptions) -> Result<Vec<Setting>, OptionError> {
        let (mut settings, mut others) = (Vec::new(), BTreeMap::new());
        for (spec, value) in &self.0 {
            if current.value(spec) == *value {
                continue;
            }
            if spec.effect == OptionEffect::Creation {
                return Err(OptionError::OnlyAtCreation { option: spec.name });
            }
            match (spec.name, value) {
                ("model", value) => {
                    settings.push(Setting::Model(value.as_str().map(str::to_owned)));
                }
                ("effort", Value::String(effort)) => settings.push(Setting::Effort(effort.clone())),
                // The CLI takes up this mode only when it starts.
                ("mode", Value::String(mode)) if !self.wants_bypass() => {
                    settings.push(Setting::PermissionMode(mode.clone()));
                }
                (name, value) => {
                    others.insert(name.to_owned(), value.clone());
                }
            }
        }
        if !others.is_empty() {
            settings.push(Setting::Options(others));
        }
        Ok(settings)
    }
}

/// Whether a process must be started for changed options. Model, effort and mode are told to a
/// running one if they can be.
pub(crate) fn needs_restart(values: &BTreeMap<String, Value>) -> bool {
    values.keys().any(|name| {
        let told = ["model", "effort", "mode"].contains(&name.as_str());
        told || OptionSpec::find(name).is_some_and(|it| it.effect == OptionEffect::Restart)
    })
}

/// A setting as it is written into the conversation, which everyone can read.
pub(crate) fn without_secrets(setting: Setting) -> Setting {
    let Setting::Options(values) = setting else { return setting };
    let masked = values.into_iter().map(|(name, value)| {
        let value = mask(&name, value);
        (name, value)
    });
    Setting::Options(masked.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wire::note::Setting;

    use super::{OptionChanges, without_secrets};
    use crate::options::{OptionError, SessionOptions};

    fn changes(values: &Value) -> Result<OptionChanges, OptionError> {
        OptionChanges::new(values.as_object().unwrap())
    }

    #[test]
    fn only_what_differs_becomes_a_setting_and_the_rest_is_one() {
        let current = SessionOptions { max_turns: Some(3), ..SessionOptions::default() };
        let new = json!({"model": "opus", "max_turns": 3, "fallback_model": "sonnet", "effort": null,
            "environment": {"KEY": "secret"}});
        let settings = changes(&new).unwrap().settings(&current).unwrap();
        let [Setting::Model(Some(_)), Setting::Options(others)] = &settings[..] else {
            panic!("{settings:?}")
        };
        assert_eq!(others.keys().collect::<Vec<_>>(), ["environment", "fallback_model"]);
        let shown = without_secrets(settings[1].clone());
        assert!(!format!("{shown:?}").contains("secret"));
        let bypass = changes(&json!({"mode": "bypassPermissions"})).unwrap();
        assert!(matches!(bypass.settings(&current).unwrap()[..], [Setting::Options(_)]));
    }

    #[test]
    fn the_agent_decides_which_values_are_possible_wherever_it_is_written() {
        let own =
            changes(&json!({"mode": "read-only", "effort": "minimal", "agent": "codex"})).unwrap();
        let mut options = SessionOptions::default();
        own.apply(&mut options).unwrap();
        assert_eq!(options.agent_settings["mode"], "read-only");
        assert!(changes(&json!({"mode": "read-only"})).is_err());
        assert!(changes(&json!({"mode": "read-only", "agent": "claude"})).is_err());
        // The agent of a profile is applied before its mode too, whatever was written first.
        let mut later = changes(&json!({"mode": "plan"})).unwrap();
        later.extend(changes(&json!({"agent": "codex"})).unwrap());
        later.apply(&mut options).unwrap();
        assert!(options.agent_settings.is_empty());
    }

    #[test]
    fn what_needs_an_admin_is_named() {
        let names = |values: &Value| changes(values).unwrap().admin_options().collect::<Vec<_>>();
        assert_eq!(
            names(&json!({"environment": {}, "mode": "plan", "model": "x"})),
            ["environment"]
        );
        assert_eq!(names(&json!({"mode": "bypassPermissions"})), ["mode"]);
        assert_eq!(names(&json!({"mcp_config": null, "mode": null})), ["mcp_config"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_what_was_meant() {
        let error = changes(&json!({"maxturns": 3})).unwrap_err().to_string();
        assert_eq!(error, "there is no option `maxturns`; did you mean `max_turns`?");
    }
}
