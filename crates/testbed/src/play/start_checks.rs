//! What 2.1.325 refuses before a session starts because of files or of the user: the exit code is 1.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::play::args::{PlayerArgs, PlayerStartError};
use crate::play::settings::PlayerEnvironment;

/// Checks the arguments that depend on the environment, and reads the prompts in files.
pub(crate) fn check_start(
    args: &mut PlayerArgs,
    environment: &PlayerEnvironment,
) -> Result<(), PlayerStartError> {
    let bypasses = args.skip_permissions
        || args.allow_skip_permissions
        || args.permission_mode.as_deref() == Some("bypassPermissions");
    if bypasses && environment.root && !environment.sandbox {
        return Err(PlayerStartError(
            "--dangerously-skip-permissions cannot be used with root/sudo privileges for security \
             reasons"
                .to_owned(),
        ));
    }
    if let Some(given) = &args.settings
        && !is_object(given)
    {
        let path = find(environment, given);
        if !path.is_file() {
            let path = path.display();
            return Err(PlayerStartError(format!("Error: Settings file not found: {path}")));
        }
    }
    let problems = args.mcp.iter().filter_map(|config| mcp_problem(config, environment));
    let problems: Vec<String> = problems.collect();
    if !problems.is_empty() {
        let problems = problems.join("\n");
        return Err(PlayerStartError(format!("Error: Invalid MCP configuration:\n{problems}")));
    }
    if let Some(file) = args.system_prompt_file.take() {
        args.system_prompt = Some(read_prompt("System prompt", &file, environment)?);
    }
    if let Some(file) = args.append_system_prompt_file.take() {
        args.append_system_prompt = Some(read_prompt("Append system prompt", &file, environment)?);
    }
    Ok(())
}

fn find(environment: &PlayerEnvironment, file: &str) -> PathBuf {
    environment.cwd.join(file)
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object())
}

/// What is wrong with a value of `--mcp-config`. Wrong entries of servers are no reason to refuse it.
fn mcp_problem(config: &str, environment: &PlayerEnvironment) -> Option<String> {
    let value = if let Ok(value) = serde_json::from_str::<Value>(config) {
        value
    } else {
        let path = find(environment, config);
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Some(format!("MCP config file not found: {}", path.display()));
        };
        let Ok(value) = serde_json::from_str(&text) else {
            return Some("MCP config is not a valid JSON".to_owned());
        };
        value
    };
    if !value.is_object() {
        return Some(format!("Invalid input: expected object, received {}", kind(&value)));
    }
    let servers = value.get("mcpServers");
    if servers.is_some_and(Value::is_object) {
        return None;
    }
    let kind = servers.map_or("undefined", kind);
    Some(format!("mcpServers: Invalid input: expected record, received {kind}"))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn read_prompt(
    what: &str,
    file: &str,
    environment: &PlayerEnvironment,
) -> Result<String, PlayerStartError> {
    let path = find(environment, file);
    let not_found =
        |path: &Path| PlayerStartError(format!("Error: {what} file not found: {}", path.display()));
    std::fs::read_to_string(&path).map_err(|_| not_found(&path))
}
