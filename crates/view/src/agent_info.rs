//! What the agent says about itself when it starts: version, model, tools, MCP servers, ….
//!
//! Claude Code says it in the newest `system/init`, and before the first one in the reply to
//! `initialize`. Other agents say it in several messages, and call what can be chosen *options*. All of
//! it is bounded, because a single MCP server can announce thousands of tools.

use serde::{Deserialize, Serialize};
use wire::event::Init;
use wire::json::{Raw, Text};

use crate::agent_menu::AgentMenu;
use crate::item::is_false;
use crate::wording;

/// The agent that does not say its name.
pub(crate) const CLAUDE_CODE: &str = "Claude Code";

/// How many entries of a list are kept; the total is counted in any case.
const MAX_ENTRIES: usize = 2000;

/// How many bytes of names a list keeps.
const MAX_LIST_BYTES: usize = 64 << 10;

/// A longer name is cut.
const MAX_NAME_BYTES: usize = 200;

/// A longer path, model or other single value is cut.
const MAX_VALUE_BYTES: usize = 4 << 10;

/// The agent's own description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentInfo {
    /// The agent's name, as it writes it itself. Claude Code does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The version of the CLI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_style: Option<String>,
    /// Where the API key comes from: `ANTHROPIC_API_KEY`, `none`, ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_source: Option<String>,
    pub tools: BoundedList<String>,
    pub mcp_servers: BoundedList<McpServerStatus>,
    /// Names of the sub-agents that the model may start.
    pub agents: BoundedList<String>,
    pub skills: BoundedList<String>,
    pub plugins: BoundedList<String>,
    /// Slash commands, without the slash.
    pub commands: BoundedList<String>,
    /// The modes that it offers; Claude Code does not list them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<AgentMenu>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<AgentMenu>,
    /// How much the model may think.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub efforts: Option<AgentMenu>,
    /// Whatever else can be chosen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<AgentMenu>,
    /// Whether it says that a prompt can join a running turn.
    #[serde(skip_serializing_if = "is_false")]
    pub can_steer: bool,
}

/// The first entries of a list that may be very long, and how many it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundedList<T> {
    pub items: Vec<T>,
    /// Entries in all, including those that are not in `items`.
    pub total: u64,
}

/// An MCP server and whether the agent is connected to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServerStatus {
    pub name: String,
    /// As the CLI spells it: `connected`, `failed`, `needs-auth`, `pending`, `disabled`, ….
    pub status: String,
}

/// A line of the description for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFact {
    /// For example `tools`.
    pub label: &'static str,
    /// For example `22: Bash, Edit, …`.
    pub text: String,
}

impl<T> Default for BoundedList<T> {
    fn default() -> Self {
        Self { items: Vec::new(), total: 0 }
    }
}

impl<T> BoundedList<T> {
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    fn read(list: Raw<'_>, mut read: impl FnMut(Raw<'_>) -> Option<(T, usize)>) -> Self {
        let mut this = Self::default();
        let mut bytes = 0;
        for entry in list.items() {
            this.total += 1;
            if this.items.len() < MAX_ENTRIES
                && bytes < MAX_LIST_BYTES
                && let Some((entry, length)) = read(entry)
            {
                bytes += length;
                this.items.push(entry);
            }
        }
        this
    }
}

impl BoundedList<String> {
    /// Reads a list of names, or of objects that have one.
    pub(crate) fn names(list: Raw<'_>) -> Self {
        Self::read(list, |entry| {
            let name = name(entry)?;
            let length = name.len();
            Some((name, length))
        })
    }

    /// The first names, separated by commas, and the number of the rest.
    fn text(&self, max_names: usize) -> String {
        let names: Vec<&str> = self.items.iter().map(String::as_str).collect();
        listed(&names, self.total, max_names)
    }
}

impl BoundedList<McpServerStatus> {
    fn servers(list: Raw<'_>) -> Self {
        Self::read(list, |entry| {
            let status = entry.get("status").and_then(Raw::text);
            let server = McpServerStatus {
                name: name(entry)?,
                status: status.map(|it| cut(it, MAX_NAME_BYTES)).unwrap_or_default(),
            };
            let length = server.name.len() + server.status.len();
            Some((server, length))
        })
    }

    /// The servers with their status. Those that are not connected come first, because something
    /// has to be done about them.
    fn text(&self, max_names: usize) -> String {
        let (connected, others): (Vec<_>, Vec<_>) =
            self.items.iter().partition(|server| server.status == "connected");
        let words =
            others.into_iter().chain(connected).map(|server| match server.status.as_str() {
                "" => server.name.clone(),
                status => format!("{} ({status})", server.name),
            });
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        listed(&words, self.total, max_names)
    }
}

impl AgentInfo {
    /// Replaces what an `init` says; what it does not mention stays.
    pub fn apply_init(&mut self, init: &Init<'_>) {
        let version = init.version.map(|it| cut(it, MAX_VALUE_BYTES));
        if version.is_some() && self.version.is_some() && version != self.version {
            // Another version was started, which may not have what this one had.
            *self = Self::default();
        }
        let set = |slot: &mut Option<String>, value: Option<Text<'_>>| {
            if let Some(value) = value {
                *slot = Some(cut(value, MAX_VALUE_BYTES));
            }
        };
        set(&mut self.version, init.version);
        set(&mut self.model, init.model);
        set(&mut self.mode, init.permission_mode);
        set(&mut self.cwd, init.cwd);
        set(&mut self.output_style, init.output_style);
        set(&mut self.api_key_source, init.api_key_source);
        let names = |slot: &mut BoundedList<String>, list: Option<Raw<'_>>| {
            if let Some(list) = list {
                *slot = BoundedList::names(list);
            }
        };
        names(&mut self.tools, init.tools);
        names(&mut self.agents, init.agents);
        names(&mut self.skills, init.skills);
        names(&mut self.plugins, init.plugins);
        names(&mut self.commands, init.slash_commands);
        if let Some(servers) = init.mcp_servers {
            self.mcp_servers = BoundedList::servers(servers);
        }
    }

    /// What the payload of a control response says if it is the reply to `initialize`, which an
    /// agent sends before its first turn.
    pub(crate) fn of_initialize(payload: Raw<'_>) -> Option<Self> {
        let commands = payload.get("commands")?;
        let account = payload.get("account");
        // Other replies have `commands` too.
        if account.is_none() && payload.get("output_style").is_none() {
            return None;
        }
        let text = |value: Option<Raw<'_>>| {
            value.and_then(Raw::text).map(|text| cut(text, MAX_VALUE_BYTES))
        };
        let names = |key| payload.get(key).map(BoundedList::names).unwrap_or_default();
        Some(Self {
            version: text(payload.get("claude_code_version")),
            mode: text(payload.get("current_permission_mode")),
            output_style: text(payload.get("output_style")),
            api_key_source: text(account.and_then(|it| it.get("apiKeySource"))),
            commands: BoundedList::names(commands),
            agents: names("agents"),
            ..Self::default()
        })
    }

    /// Takes what this description lacks from an earlier one of the same version.
    pub(crate) fn keep_from(&mut self, earlier: &Self) {
        if self.version.is_some() && earlier.version.is_some() && self.version != earlier.version {
            return;
        }
        let keep = |slot: &mut Option<String>, value: &Option<String>| {
            if slot.is_none() {
                slot.clone_from(value);
            }
        };
        keep(&mut self.version, &earlier.version);
        keep(&mut self.model, &earlier.model);
        keep(&mut self.mode, &earlier.mode);
        keep(&mut self.cwd, &earlier.cwd);
        keep(&mut self.output_style, &earlier.output_style);
        keep(&mut self.api_key_source, &earlier.api_key_source);
        self.tools.clone_from(&earlier.tools);
        self.mcp_servers.clone_from(&earlier.mcp_servers);
        self.skills.clone_from(&earlier.skills);
        self.plugins.clone_from(&earlier.plugins);
        if self.agents.is_empty() {
            self.agents.clone_from(&earlier.agents);
        }
    }

    /// What people call it.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().or(self.name.as_deref()).unwrap_or(CLAUDE_CODE)
    }

    /// For example `Claude Code 2.1.325`.
    pub fn name_and_version(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.display_name()),
            None => self.display_name().to_owned(),
        }
    }

    /// The description in one line: version, model, mode, and how much there is of the rest.
    ///
    /// A server that is not connected is named, because its tools are missing.
    pub fn summary(&self) -> String {
        let mut words = Vec::new();
        if self.version.is_some() || self.name.is_some() {
            words.push(self.name_and_version());
        }
        let named = |menu: &Option<AgentMenu>, value: &Option<String>| {
            let name = menu.as_ref().zip(value.as_ref()).map(|(menu, id)| menu.value_name(id));
            name.map(str::to_owned).or_else(|| value.clone())
        };
        words.extend(named(&self.models, &self.model));
        words.extend(named(&self.modes, &self.mode));
        let mut counted = |total: u64, noun: &str| {
            if total > 0 {
                let plural = if total == 1 { "" } else { "s" };
                words.push(format!("{} {noun}{plural}", wording::grouped(total)));
            }
        };
        counted(self.tools.total, "tool");
        counted(self.mcp_servers.total, "MCP server");
        counted(self.plugins.total, "plugin");
        let broken =
            self.mcp_servers.items.iter().filter(|it| !matches!(&*it.status, "connected" | ""));
        words.extend(broken.take(3).map(|server| format!("{}: {}", server.name, server.status)));
        words.join(" · ")
    }

    /// Whether it has said what can be chosen.
    pub fn has_menus(&self) -> bool {
        let named = [&self.modes, &self.models, &self.efforts];
        named.into_iter().any(Option::is_some) || !self.options.is_empty()
    }

    /// What can be chosen beside the mode and the model.
    pub fn option_menus(&self) -> impl Iterator<Item = &AgentMenu> {
        self.efforts.iter().chain(&self.options)
    }

    /// The option that a text begins with, and the rest of the text. The longest name counts.
    pub fn find_option<'t>(&self, text: &'t str) -> Option<(&AgentMenu, &'t str)> {
        let text = text.trim();
        let found = self.option_menus().filter_map(|menu| Some((menu, menu.strip(text)?)));
        found.min_by_key(|(_, rest)| rest.len())
    }

    /// The description line by line, with at most `max_names` names of each list.
    pub fn facts(&self, max_names: usize) -> Vec<AgentFact> {
        let single = [
            ("agent", &self.title.clone().or_else(|| self.name.clone())),
            ("version", &self.version),
            ("model", &self.model),
            ("mode", &self.mode),
            ("directory", &self.cwd),
            ("output style", &self.output_style),
            ("API key", &self.api_key_source),
        ];
        let single = single.into_iter().filter_map(|(label, value)| Some((label, value.clone()?)));
        let lists = [
            ("tools", self.tools.text(max_names)),
            ("MCP servers", self.mcp_servers.text(max_names)),
            ("sub-agents", self.agents.text(max_names)),
            ("skills", self.skills.text(max_names)),
            ("plugins", self.plugins.text(max_names)),
            ("commands", self.commands.text(max_names)),
        ];
        let menus = [("modes", &self.modes), ("models", &self.models), ("efforts", &self.efforts)];
        let menus = menus.into_iter().filter_map(|(label, menu)| {
            let names: Vec<&str> =
                menu.as_ref()?.values.iter().map(|value| value.name.as_str()).collect();
            Some((label, listed(&names, names.len() as u64, max_names)))
        });
        let options: Vec<String> = self.options.iter().map(AgentMenu::text).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let options = ("options", listed(&options, options.len() as u64, max_names));
        let lists = lists.into_iter().chain(menus).chain([options]);
        let lists = lists.filter(|(_, text)| !text.is_empty());
        single.chain(lists).map(|(label, text)| AgentFact { label, text }).collect()
    }
}

/// `3: a, b, c`, or `10,000: a, b and 9,998 more`; empty for an empty list.
fn listed(names: &[&str], total: u64, max_names: usize) -> String {
    if total == 0 {
        return String::new();
    }
    let shown = &names[..names.len().min(max_names)];
    let rest = total.saturating_sub(shown.len() as u64);
    let mut out = wording::grouped(total);
    if !shown.is_empty() {
        out.push_str(": ");
        out.push_str(&shown.join(", "));
        if rest > 0 {
            out.push_str(" and ");
            out.push_str(&wording::grouped(rest));
            out.push_str(" more");
        }
    }
    out
}

fn name(entry: Raw<'_>) -> Option<String> {
    let text = entry.text().or_else(|| entry.get("name").and_then(Raw::text))?;
    Some(cut(text, MAX_NAME_BYTES))
}

/// A single value of the description.
pub(crate) fn short_value(text: Text<'_>) -> String {
    cut(text, MAX_VALUE_BYTES)
}

/// The text, cut to a number of bytes and without control characters.
pub(crate) fn cut(text: Text<'_>, bytes: usize) -> String {
    let text = text.decode();
    let kept = &text[..text.floor_char_boundary(bytes)];
    kept.chars().filter(|char| !char.is_control()).collect()
}
