//! MCP servers in a file: Claude Code reads it, other agents are told the servers themselves.

use tokio::io::AsyncReadExt as _;

use crate::options::SessionOptions;

/// The largest file that is read. A configuration is a few kilobytes.
const MAX_BYTES: u64 = 256 << 10;

/// Replaces the path of a file with MCP servers by what is in it. A file that cannot be read stays a
/// path, and the driver of the agent says so in the conversation.
pub(super) async fn take_in(options: &mut SessionOptions) {
    let Some(path) = options.mcp_config.as_deref().filter(|it| !it.trim_start().starts_with('{'))
    else {
        return;
    };
    // Claude Code is started in this directory, and so finds relative paths there too.
    let path = options.directory.join(path);
    let mut text = String::new();
    let Ok(file) = tokio::fs::File::open(path).await else { return };
    let is_read = file.take(MAX_BYTES + 1).read_to_string(&mut text).await.is_ok();
    if !is_read || text.len() as u64 > MAX_BYTES {
        return;
    }
    let servers: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    if let Some(servers) = servers.filter(|it| it["mcpServers"].is_object()) {
        options.mcp_config = Some(servers.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::take_in;
    use crate::options::SessionOptions;

    #[tokio::test]
    async fn a_file_is_replaced_by_its_content_if_it_has_servers() {
        let directory = tempfile::tempdir().unwrap();
        let servers = r#"{"mcpServers":{"files":{"command":"x"}}}"#;
        let huge = format!("{{\"mcpServers\":{{}}}}{}", " ".repeat(256 << 10));
        for (name, content) in [("good", servers), ("other", "[1]"), ("huge", &huge)] {
            std::fs::write(directory.path().join(name), content).unwrap();
        }
        for (config, expected) in [
            ("good", servers),
            ("other", "other"),
            ("huge", "huge"),
            ("missing", "missing"),
            ("/dev/zero", "/dev/zero"),
            (servers, servers),
        ] {
            let mut options = SessionOptions {
                directory: directory.path().to_owned(),
                mcp_config: Some(config.to_owned()),
                ..SessionOptions::default()
            };
            take_in(&mut options).await;
            assert_eq!(options.mcp_config.as_deref(), Some(expected));
        }
    }
}
