//! MCP servers that a client wants the agent to use.

use super::client_call::Params;
use super::rpc::RpcError;

/// An MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerSpec {
    pub name: String,
    pub transport: McpTransport,
}

/// How the agent reaches an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpTransport {
    Stdio {
        command: String,
        arguments: Vec<String>,
        environment: Vec<(String, String)>,
    },
    Http {
        url: String,
        headers: Vec<(String, String)>,
    },
    /// Server-sent events, which only version 1 has.
    Sse {
        url: String,
        headers: Vec<(String, String)>,
    },
}

impl McpServerSpec {
    pub(super) fn read(server: &Params<'_>) -> Result<Self, RpcError> {
        let name = server.text("name")?;
        let remote = || Ok((server.text("url")?, pairs(server, "headers")?));
        let transport = match server.optional_text("type")?.as_deref() {
            None | Some("stdio") => McpTransport::Stdio {
                command: server.text("command")?,
                arguments: server.texts("args")?,
                environment: pairs(server, "env")?,
            },
            Some("http") => {
                let (url, headers) = remote()?;
                McpTransport::Http { url, headers }
            }
            Some("sse") => {
                let (url, headers) = remote()?;
                McpTransport::Sse { url, headers }
            }
            Some(other) => {
                let message = format!("the MCP server `{name}` has the unknown type `{other}`");
                return Err(RpcError::invalid_params(message));
            }
        };
        Ok(Self { name, transport })
    }
}

fn pairs(server: &Params<'_>, key: &'static str) -> Result<Vec<(String, String)>, RpcError> {
    let read = |it: Params<'_>| Ok((it.text("name")?, it.text("value")?));
    server.objects(key)?.into_iter().map(read).collect()
}
