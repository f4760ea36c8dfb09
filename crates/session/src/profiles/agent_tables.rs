//! The user's own agents in the configuration file.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;

use super::config_error::ConfigError;
use super::toml_file::TomlFile;
use super::visible::is_invisible;
use crate::catalog::{AgentCatalog, AgentProtocol, AgentSpec};
use crate::options::check_variables;

/// The longest name of an agent, and the longest text of a table.
const MAX_NAME: usize = 64;
const MAX_TEXT: usize = 400;

/// Agents by name, with the places in the file.
pub(super) type AgentTables = BTreeMap<Spanned<String>, AgentTable>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AgentTable {
    command: Option<Spanned<CommandText>>,
    #[serde(alias = "environment")]
    env: Option<Spanned<BTreeMap<String, String>>>,
    mode: Option<Spanned<String>>,
    title: Option<Spanned<String>>,
    #[serde(alias = "colour")]
    color: Option<Spanned<String>>,
    install: Option<Spanned<String>>,
    sign_in: Option<Spanned<String>>,
    protocol: Option<AgentProtocol>,
}

/// A command as words, or as one text with spaces between the words.
#[derive(Deserialize)]
#[serde(untagged)]
enum CommandText {
    Words(Vec<String>),
    Text(String),
}

impl TomlFile<'_> {
    /// Checks the agents. What a table leaves out comes from the built-in agent with that name.
    pub(super) fn agents(&self, tables: AgentTables) -> Result<Vec<AgentSpec>, ConfigError> {
        let built_in = AgentCatalog::default();
        let mut agents = Vec::new();
        for (name, table) in tables {
            let is_name = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-';
            let written = name.get_ref();
            if written.is_empty() || written.len() > MAX_NAME || !written.chars().all(is_name) {
                let message = "the name of an agent has small letters, digits and `-`";
                return Err(self.fail(name.span(), message));
            }
            agents.push(self.agent(&name, table, built_in.find(written))?);
        }
        Ok(agents)
    }

    fn agent(
        &self,
        name: &Spanned<String>,
        table: AgentTable,
        base: Option<&AgentSpec>,
    ) -> Result<AgentSpec, ConfigError> {
        let mut agent = base.cloned().unwrap_or_else(|| AgentSpec {
            name: name.get_ref().clone(),
            title: name.get_ref().clone(),
            protocol: AgentProtocol::Acp,
            command: Vec::new(),
            environment: BTreeMap::new(),
            mode: None,
            install: None,
            sign_in: None,
            color: None,
        });
        if let Some(command) = table.command {
            agent.command = self.command(command)?;
        } else if agent.command.is_empty() {
            let message = format!(
                "the agent `{}` has no command; write `command = \"PROGRAM ARGUMENT …\"`",
                name.get_ref()
            );
            return Err(self.fail(name.span(), message));
        }
        if let Some(variables) = table.env {
            check_variables(variables.get_ref())
                .map_err(|reason| self.fail(variables.span(), reason))?;
            agent.environment = variables.into_inner();
        }
        if let Some(title) = table.title {
            agent.title = self.line(title)?;
        }
        for (field, text) in [
            (&mut agent.mode, table.mode),
            (&mut agent.install, table.install),
            (&mut agent.sign_in, table.sign_in),
        ] {
            if let Some(text) = text {
                *field = Some(self.line(text)?);
            }
        }
        if let Some(color) = table.color {
            let digits = color.get_ref().strip_prefix('#').unwrap_or_default();
            if digits.len() != 6 || !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
                let message = "a colour is `#` with six hexadecimal digits, as `#10a37f`";
                return Err(self.fail(color.span(), message));
            }
            agent.color = Some(color.into_inner().to_ascii_lowercase());
        }
        agent.protocol = table.protocol.unwrap_or(agent.protocol);
        Ok(agent)
    }

    fn command(&self, command: Spanned<CommandText>) -> Result<Vec<String>, ConfigError> {
        let place = command.span();
        let mut words = match command.into_inner() {
            CommandText::Words(words) => words,
            CommandText::Text(text) if text.contains(['"', '\'', '\\']) => {
                let message =
                    "write a command with quotes as a list: `[\"PROGRAM\", \"ARGUMENT\"]`";
                return Err(self.fail(place, message));
            }
            CommandText::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
        };
        let hides = |it: char| it.is_control() || is_invisible(it);
        if words.first().is_none_or(String::is_empty) || words.iter().any(|it| it.contains(hides)) {
            let message = "a command is a program and its arguments, without control characters";
            return Err(self.fail(place, message));
        }
        if words[0].contains('/') {
            words[0] = self.absolute(&words[0]);
        }
        Ok(words)
    }

    fn line(&self, text: Spanned<String>) -> Result<String, ConfigError> {
        let place = text.span();
        let text = text.into_inner();
        let hides = |it: char| it.is_control() || is_invisible(it);
        if text.trim().is_empty() || text.len() > MAX_TEXT || text.contains(hides) {
            return Err(self.fail(place, "expected a line of text"));
        }
        Ok(text)
    }

    fn fail(&self, place: Range<usize>, message: impl Into<String>) -> ConfigError {
        ConfigError::at(self.path, self.text, Some(place), message)
    }
}
