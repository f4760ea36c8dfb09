//! The MCP servers in the configuration files: `~/.claude.json` for a user and for one project of theirs,
//! and `.mcp.json` for everybody who works on a project.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::play::settings::PlayerEnvironment;

/// Whose a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum McpScope {
    Local,
    Project,
    User,
}

impl McpScope {
    /// The order in which 2.1.325 lists servers.
    pub(crate) const LISTED: [Self; 3] = [Self::User, Self::Project, Self::Local];

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "local" => Some(Self::Local),
            "project" => Some(Self::Project),
            "user" => Some(Self::User),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Project => "project",
            Self::User => "user",
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Local => "Local config (private to you in this project)",
            Self::Project => "Project config (shared via .mcp.json)",
            Self::User => "User config (available in all your projects)",
        }
    }
}

/// The configuration files of one working directory.
#[derive(Clone, Debug)]
pub(crate) struct McpConfigFiles {
    user_file: PathBuf,
    project_file: PathBuf,
    cwd: String,
}

impl McpConfigFiles {
    pub(crate) fn new(environment: &PlayerEnvironment) -> Self {
        Self {
            user_file: environment.home.join(".claude.json"),
            project_file: environment.cwd.join(".mcp.json"),
            cwd: environment.cwd.display().to_string(),
        }
    }

    /// All servers with their names, in the order in which they are listed.
    pub(crate) fn servers(&self) -> Vec<(McpScope, String, Value)> {
        let of = |scope| {
            let servers = self.read(scope);
            let servers = servers.as_object().cloned().unwrap_or_default();
            servers.into_iter().map(move |(name, server)| (scope, name, server))
        };
        McpScope::LISTED.into_iter().flat_map(of).collect()
    }

    /// The file of a scope, as 2.1.325 names it.
    pub(crate) fn describe(&self, scope: McpScope) -> String {
        match scope {
            McpScope::Local => format!("{} [project: {}]", self.user_file.display(), self.cwd),
            McpScope::Project => self.project_file.display().to_string(),
            McpScope::User => self.user_file.display().to_string(),
        }
    }

    pub(crate) fn add(&self, scope: McpScope, name: &str, server: Value) -> std::io::Result<()> {
        self.change(scope, |servers| servers[name] = server)
    }

    pub(crate) fn remove(&self, scope: McpScope, name: &str) -> std::io::Result<()> {
        self.change(scope, |servers| {
            if let Some(servers) = servers.as_object_mut() {
                servers.shift_remove(name);
            }
        })
    }

    fn path(&self, scope: McpScope) -> &Path {
        match scope {
            McpScope::Project => &self.project_file,
            McpScope::Local | McpScope::User => &self.user_file,
        }
    }

    fn read(&self, scope: McpScope) -> Value {
        let file = read(self.path(scope));
        match scope {
            McpScope::Local => file["projects"][&self.cwd]["mcpServers"].clone(),
            McpScope::Project | McpScope::User => file["mcpServers"].clone(),
        }
    }

    fn change(&self, scope: McpScope, change: impl FnOnce(&mut Value)) -> std::io::Result<()> {
        let path = self.path(scope);
        let mut file = read(path);
        let servers = match scope {
            McpScope::Local => &mut file["projects"][&self.cwd]["mcpServers"],
            McpScope::Project | McpScope::User => &mut file["mcpServers"],
        };
        if !servers.is_object() {
            *servers = json!({});
        }
        change(servers);
        std::fs::write(path, format!("{file:#}"))
    }
}

fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).unwrap_or_default();
    let parsed = serde_json::from_slice(&bytes).ok();
    parsed.filter(Value::is_object).unwrap_or_else(|| json!({}))
}
