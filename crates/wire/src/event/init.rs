//! The line that opens a turn.

use super::{Taken, Top};
use crate::json::{Cursor, Raw, Text, Trouble};

/// What the agent says of itself as a turn begins. Claude Code repeats it for every turn.
#[derive(Clone, Debug, Default)]
pub struct Init<'a> {
    /// The working directory.
    pub cwd: Option<Text<'a>>,
    /// The model.
    pub model: Option<Text<'a>>,
    /// `default`, `acceptEdits`, `plan`, `bypassPermissions`, …
    pub permission_mode: Option<Text<'a>>,
    /// The version of the CLI, from 2.x on.
    pub version: Option<Text<'a>>,
    /// Names of the tools on offer.
    pub tools: Option<Raw<'a>>,
    /// Names of the slash commands.
    pub slash_commands: Option<Raw<'a>>,
    /// Names of the sub-agents.
    pub agents: Option<Raw<'a>>,
    /// `{name, status}` of each MCP server.
    pub mcp_servers: Option<Raw<'a>>,
    /// What this version can do beyond its predecessors, from 2.1.325 on.
    pub capabilities: Option<Raw<'a>>,
}

impl<'a> Init<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>, top: &mut Top<'a>) -> Result<Self, Trouble> {
        let mut this = Self::default();
        top.walk(cursor, |cursor, key| {
            match key {
                "cwd" => this.cwd = cursor.value()?.optional_text()?,
                "model" => this.model = cursor.value()?.optional_text()?,
                "permissionMode" => this.permission_mode = cursor.value()?.optional_text()?,
                "claude_code_version" => this.version = cursor.value()?.optional_text()?,
                "tools" => this.tools = cursor.value()?.optional_array()?,
                "slash_commands" => this.slash_commands = cursor.value()?.optional_array()?,
                "agents" => this.agents = cursor.value()?.optional_array()?,
                "mcp_servers" => this.mcp_servers = cursor.value()?.optional_array()?,
                "capabilities" => this.capabilities = cursor.value()?.optional_raw(),
                _ => return Ok(Taken::No),
            }
            Ok(Taken::Yes)
        })?;
        Ok(this)
    }
}
