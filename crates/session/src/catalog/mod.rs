//! The agents that a session can be driven with, as data.
//!
//! Claude Code is driven over its own protocol; every other agent over the Agent Client Protocol. What
//! differs between the latter is either negotiated with the agent or written here. No other code asks
//! for the name of an agent.

mod built_in;
mod program;
mod version;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use program::{AgentNotInstalled, LocatedAgent};
pub use version::{KilledGroup, VersionError};

use crate::options::similar_words;

/// An agent that can be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// What a user chooses it by: `codex`.
    pub name: String,
    /// For people: `Codex`.
    pub title: String,
    pub protocol: AgentProtocol,
    /// The program and its arguments. For the CLI, the arguments of the session follow.
    pub command: Vec<String>,
    /// Variables to add to the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The mode that a new session is put into, because the agent's own default asks no person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// How to install it, as a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
    /// How to sign in, as a command or a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<String>,
    /// A colour for lists, as `#rrggbb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
}

/// How Towpath speaks with an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentProtocol {
    /// The headless protocol of Claude Code.
    StreamJson,
    /// The Agent Client Protocol.
    Acp,
}

/// All agents that can be started, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentCatalog {
    agents: Vec<AgentSpec>,
    /// The agent of new sessions for which none is chosen; the server's own program if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    default: Option<String>,
}

/// No agent has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no agent `{name}`; {}`towpath agents` lists all", did_you_mean(.similar))]
pub struct UnknownAgent {
    pub name: String,
    pub similar: Vec<String>,
}

fn did_you_mean(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        similar => format!("did you mean `{}`? ", similar.join("` or `")),
    }
}

impl Default for AgentCatalog {
    fn default() -> Self {
        Self::with(Vec::new())
    }
}

impl AgentCatalog {
    /// The built-in agents, with the user's own in addition or in place of those with the same name.
    pub fn with(own: Vec<AgentSpec>) -> Self {
        let mut this = Self { agents: built_in::all(), default: None };
        for agent in own {
            this.set(agent);
        }
        this
    }

    /// Adds an agent, or replaces the one with the same name.
    pub fn set(&mut self, agent: AgentSpec) {
        match self.agents.iter_mut().find(|known| known.name == agent.name) {
            Some(known) => *known = agent,
            None => self.agents.push(agent),
        }
    }

    pub fn find(&self, name: &str) -> Option<&AgentSpec> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    /// The agent with this name, or an error that names those that may be meant.
    pub fn get(&self, name: &str) -> Result<&AgentSpec, UnknownAgent> {
        self.find(name).ok_or_else(|| UnknownAgent {
            name: name
                .chars()
                .take(60)
                .map(|it| if it.is_control() { '\u{fffd}' } else { it })
                .collect(),
            similar: similar_words(name, self.agents.iter().map(|it| it.name.as_str())),
        })
    }

    /// The names of the agents that need no configuration.
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        built_in::names()
    }

    /// Whether an agent with this name, unless it is configured otherwise, says itself which modes and
    /// efforts it has.
    pub(crate) fn has_own_words(name: &str) -> bool {
        built_in::protocol(name) != Some(AgentProtocol::StreamJson)
    }

    pub fn iter(&self) -> impl Iterator<Item = &AgentSpec> {
        self.agents.iter()
    }

    /// The agent of new sessions for which none is chosen.
    pub fn default_agent(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// Sets the agent of new sessions for which none is chosen.
    pub fn set_default(&mut self, name: &str) -> Result<(), UnknownAgent> {
        self.default = Some(self.get(name)?.name.clone());
        Ok(())
    }

    /// What people call the agent of a session: its title in the catalog, or else the name itself.
    pub fn title<'a>(&'a self, agent: Option<&'a str>) -> &'a str {
        let name = agent.unwrap_or(built_in::CLAUDE);
        self.find(name).map_or(name, |it| it.title.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{AgentCatalog, AgentProtocol};

    #[test]
    fn every_built_in_agent_can_be_shown_installed_and_signed_in_to() {
        let catalog = AgentCatalog::default();
        let names: BTreeSet<_> = catalog.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), catalog.iter().count());
        for agent in catalog.iter() {
            let name = &agent.name;
            assert!(!agent.title.is_empty() && !agent.command.is_empty(), "{name}");
            assert!(agent.color.as_ref().is_some_and(|it| it.len() == 7), "{name}");
            let built_in = name == "demo";
            assert_eq!(agent.install.is_some() && agent.sign_in.is_some(), !built_in, "{name}");
        }
        for (name, command, mode) in [
            ("codex", "codex-acp", Some("workspace-write")),
            ("gemini", "gemini --acp", None),
            ("opencode", "opencode acp", None),
            ("copilot", "copilot --acp", None),
            ("qwen", "qwen --acp", Some("default")),
            ("vibe", "vibe-acp", Some("ask")),
        ] {
            let agent = catalog.find(name).unwrap();
            assert_eq!(agent.command.join(" "), command);
            assert_eq!(agent.mode.as_deref(), mode, "{name}");
            assert_eq!(agent.protocol, AgentProtocol::Acp);
        }
    }

    #[test]
    fn an_unknown_agent_is_refused_with_the_names_that_may_be_meant() {
        let catalog = AgentCatalog::default();
        let error = |name: &str| catalog.get(name).unwrap_err().to_string();
        assert_eq!(
            error("gemni"),
            "there is no agent `gemni`; did you mean `gemini`? `towpath agents` lists all"
        );
        assert!(error("open-code").contains("`opencode`"));
        assert!(error("x\u{1b}[2J").len() < 80);
        assert!(error(&"x".repeat(1_000_000)).len() < 200);
    }
}
