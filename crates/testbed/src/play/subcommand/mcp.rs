//! `mcp list`, `get`, `add`, `add-json`, `remove` and `reset-project-choices`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::health::McpHealth;
use super::mcp_config::{McpConfigFiles, McpScope};
use super::{SubcommandOutput, unavailable, unknown_option};
use crate::play::mcp_connections::McpEndpoint;
use crate::play::settings::PlayerEnvironment;

/// What 2.1.325 says of servers in `.mcp.json`, which a person must approve first.
const PENDING: &str = "⏸ Pending approval (run `claude` to approve)";

pub(super) async fn run(
    command: &str,
    arguments: &[String],
    environment: &PlayerEnvironment,
) -> SubcommandOutput {
    let files = McpConfigFiles::new(environment);
    let outcome = match command {
        "list" => match unknown_option(arguments, &[]) {
            Some(error) => Ok(error),
            None => Ok(list(&files, environment).await),
        },
        "get" => get(&files, arguments, environment).await,
        "add" => add(&files, arguments),
        "add-json" => add_json(&files, arguments),
        "remove" => remove(&files, arguments),
        "reset-project-choices" => Ok(SubcommandOutput::printed(
            "Project-scoped (.mcp.json) server approvals and rejections stored for this project \
             have been reset.\n",
        )),
        _ => Ok(unavailable(&format!("mcp {command}"))),
    };
    outcome.unwrap_or_else(|error| SubcommandOutput::refused(format!("{error}\n")))
}

async fn list(files: &McpConfigFiles, environment: &PlayerEnvironment) -> SubcommandOutput {
    let servers = files.servers();
    if servers.is_empty() {
        return SubcommandOutput::printed(
            "No MCP servers configured. Use `claude mcp add` to add a server.\n",
        );
    }
    let mut text = "Checking MCP server health…\n\n".to_owned();
    for (scope, name, server) in servers {
        let place = if let Some(kind @ ("http" | "sse")) = server["type"].as_str() {
            format!("{} ({})", server["url"].as_str().unwrap_or_default(), kind.to_uppercase())
        } else {
            let command = server["command"].as_str().unwrap_or_default();
            format!("{command} {}", words(&server["args"]))
        };
        let state = if scope == McpScope::Project {
            PENDING.to_owned()
        } else {
            let health = McpHealth::check(&server, &environment.cwd).await;
            let issue = health.issue().map(|it| format!(" — {it}")).unwrap_or_default();
            format!("{}{issue}", health.status())
        };
        let _ = writeln!(text, "{name}: {place} - {state}");
    }
    SubcommandOutput::printed(text)
}

async fn get(
    files: &McpConfigFiles,
    arguments: &[String],
    environment: &PlayerEnvironment,
) -> Result<SubcommandOutput, String> {
    let parsed = McpArguments::parse(arguments)?;
    let [name, ..] = parsed.operands.as_slice() else { return Err(missing("name")) };
    // The server of the project wins over that of the user.
    let found = files.servers().into_iter().rev().find(|(_, it, _)| it == name);
    let Some((scope, name, server)) = found else { return Err(no_server(files, name)) };
    let mut text = format!("{name}:\n  Scope: {}\n", scope.description());
    if scope == McpScope::Project {
        let _ = writeln!(text, "  Status: {PENDING}");
    } else {
        let health = McpHealth::check(&server, &environment.cwd).await;
        let _ = writeln!(text, "  Status: {}", health.status());
        if let Some(issue) = health.issue() {
            let _ = writeln!(text, "  Issue: {issue}");
        }
    }
    let pairs = |text: &mut String, title: &str, separator: &str, pairs: &Value| {
        if let Some(pairs) = pairs.as_object() {
            let _ = writeln!(text, "  {title}:");
            for (name, value) in pairs {
                let _ =
                    writeln!(text, "    {name}{separator}{}", value.as_str().unwrap_or_default());
            }
        }
    };
    if let Some(kind @ ("http" | "sse")) = server["type"].as_str() {
        let url = server["url"].as_str().unwrap_or_default();
        let _ = writeln!(text, "  Type: {kind}\n  URL: {url}");
        pairs(&mut text, "Headers", ": ", &server["headers"]);
    } else {
        let command = server["command"].as_str().unwrap_or_default();
        let arguments = words(&server["args"]);
        let arguments = if arguments.is_empty() { arguments } else { format!(" {arguments}") };
        let _ = writeln!(text, "  Type: stdio\n  Command: {command}\n  Args:{arguments}");
        pairs(&mut text, "Environment", "=", &server["env"]);
    }
    let _ = writeln!(
        text,
        "\nTo remove this server, run: claude mcp remove {name} -s {}",
        scope.name()
    );
    Ok(SubcommandOutput::printed(text))
}

fn add(files: &McpConfigFiles, arguments: &[String]) -> Result<SubcommandOutput, String> {
    let parsed = McpArguments::parse(arguments)?;
    let (name, place) = match parsed.operands.as_slice() {
        [] => return Err(missing("name")),
        [_] => return Err(missing("commandOrUrl")),
        [name, place, ..] => (name, place),
    };
    check_name(name)?;
    let (server, what) = match parsed.transport.as_deref().unwrap_or("stdio") {
        "stdio" => {
            let rest = &parsed.operands[2..];
            let environment = environment(&parsed.environment)?;
            let server =
                json!({ "type": "stdio", "command": place, "args": rest, "env": environment });
            (server, format!("stdio MCP server {name} with command: {place} {}", rest.join(" ")))
        }
        kind @ ("sse" | "http" | "streamable-http") => {
            let kind = if kind == "sse" { "sse" } else { "http" };
            let mut server = json!({ "type": kind, "url": place });
            let mut what = format!("{} MCP server {name} with URL: {place}", kind.to_uppercase());
            if !parsed.headers.is_empty() {
                server["headers"] = headers(&parsed.headers)?;
                what = format!(
                    "{what} to {} config\nHeaders: {:#}",
                    parsed.scope()?.name(),
                    server["headers"]
                );
            }
            (server, what)
        }
        other => {
            return Err(format!(
                "Invalid transport type: {other}. Must be one of: stdio, sse, http (or \
                 streamable-http)"
            ));
        }
    };
    let scope = parsed.scope()?;
    check_free(files, scope, name)?;
    files.add(scope, name, server).map_err(|error| error.to_string())?;
    let to = if parsed.headers.is_empty() {
        format!(" to {} config", scope.name())
    } else {
        String::new()
    };
    let file = files.describe(scope);
    Ok(SubcommandOutput::printed(format!("Added {what}{to}\nFile modified: {file}\n")))
}

fn add_json(files: &McpConfigFiles, arguments: &[String]) -> Result<SubcommandOutput, String> {
    let parsed = McpArguments::parse(arguments)?;
    let (name, text) = match parsed.operands.as_slice() {
        [] => return Err(missing("name")),
        [_] => return Err(missing("json")),
        [name, text, ..] => (name, text),
    };
    check_name(name)?;
    let server: Option<Value> = serde_json::from_str(text).ok();
    let server = server.filter(|server| McpEndpoint::parse(server).is_some());
    let Some(server) = server else {
        return Err("Invalid configuration: : Invalid input".to_owned());
    };
    let scope = parsed.scope()?;
    check_free(files, scope, name)?;
    let kind = server["type"].as_str().unwrap_or("stdio").to_owned();
    files.add(scope, name, server).map_err(|error| error.to_string())?;
    let scope = scope.name();
    Ok(SubcommandOutput::printed(format!("Added {kind} MCP server {name} to {scope} config\n")))
}

fn remove(files: &McpConfigFiles, arguments: &[String]) -> Result<SubcommandOutput, String> {
    let parsed = McpArguments::parse(arguments)?;
    let [name, ..] = parsed.operands.as_slice() else { return Err(missing("name")) };
    let servers = files.servers();
    let in_scope = |scope| servers.iter().any(|(it, other, _)| *it == scope && other == name);
    let scopes = [McpScope::Local, McpScope::Project, McpScope::User];
    let found: Vec<McpScope> = match &parsed.scope {
        Some(_) => {
            let scope = parsed.scope()?;
            if !in_scope(scope) {
                return Err(format!("No MCP server named \"{name}\" in {} scope", scope.name()));
            }
            vec![scope]
        }
        None => scopes.into_iter().filter(|scope| in_scope(*scope)).collect(),
    };
    let scope = match found.as_slice() {
        [] => return Err(no_server(files, name)),
        [scope] => *scope,
        several => {
            let mut text = format!("MCP server \"{name}\" exists in multiple scopes:\n");
            for scope in several {
                let _ = writeln!(text, "  - {} ({})", scope.description(), files.describe(*scope));
            }
            text.push_str("\nTo remove from a specific scope, use:");
            for scope in several {
                let _ = write!(text, "\n  claude mcp remove {name} -s {}", scope.name());
            }
            return Err(text);
        }
    };
    files.remove(scope, name).map_err(|error| error.to_string())?;
    Ok(SubcommandOutput::printed(format!(
        "Removed MCP server \"{name}\" from {} config\nFile modified: {}\n",
        scope.name(),
        files.describe(scope)
    )))
}

/// The arguments of a command about MCP servers.
#[derive(Debug, Default)]
struct McpArguments {
    operands: Vec<String>,
    scope: Option<String>,
    transport: Option<String>,
    environment: Vec<String>,
    headers: Vec<String>,
}

impl McpArguments {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut parsed = Self::default();
        let mut words = arguments.iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                parsed.operands.extend(words.by_ref().cloned());
                break;
            }
            if !word.starts_with('-') || word.len() == 1 {
                parsed.operands.push(word.clone());
                continue;
            }
            let (flag, inline) = match word.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            let list = match flag {
                "-s" | "--scope" | "-t" | "--transport" => None,
                "-e" | "--env" => Some(&mut parsed.environment),
                "-H" | "--header" => Some(&mut parsed.headers),
                _ => return Err(format!("error: unknown option '{word}'")),
            };
            let Some(value) = inline.or_else(|| words.next().cloned()) else {
                return Err(format!("error: option '{flag}' argument missing"));
            };
            match list {
                Some(list) => {
                    list.push(value);
                    // Such an option takes every word up to the next option.
                    while let Some(word) = words.next_if(|it| !it.starts_with('-')) {
                        list.push(word.clone());
                    }
                }
                None if flag.ends_with("-s") || flag == "--scope" => parsed.scope = Some(value),
                None => parsed.transport = Some(value),
            }
        }
        Ok(parsed)
    }

    fn scope(&self) -> Result<McpScope, String> {
        let name = self.scope.as_deref().unwrap_or("local");
        McpScope::from_name(name).ok_or_else(|| {
            format!(
                "Invalid scope: {name}. Must be one of: local, user, project, dynamic, enterprise, \
                 claudeai, managed, agent"
            )
        })
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.chars().all(|it| it.is_ascii_alphanumeric() || it == '-' || it == '_') {
        return Ok(());
    }
    Err(format!(
        "Invalid name {name}. Names can only contain letters, numbers, hyphens, and underscores."
    ))
}

fn check_free(files: &McpConfigFiles, scope: McpScope, name: &str) -> Result<(), String> {
    if files.servers().iter().any(|(it, other, _)| *it == scope && other == name) {
        return Err(format!("MCP server {name} already exists in {} config", scope.name()));
    }
    Ok(())
}

fn environment(values: &[String]) -> Result<Value, String> {
    let mut environment = json!({});
    for value in values {
        let Some((name, value)) = value.split_once('=') else {
            return Err(format!(
                "Invalid environment variable format: {value}, environment variables should be \
                 added as: -e KEY1=value1 -e KEY2=value2"
            ));
        };
        environment[name] = value.into();
    }
    Ok(environment)
}

fn headers(values: &[String]) -> Result<Value, String> {
    let mut headers = json!({});
    for value in values {
        let Some((name, value)) = value.split_once(':') else {
            return Err(format!(
                "Invalid header format: \"{value}\". Expected format: \"Header-Name: value\""
            ));
        };
        headers[name.trim()] = value.trim().into();
    }
    Ok(headers)
}

fn words(values: &Value) -> String {
    let values = values.as_array().into_iter().flatten().filter_map(Value::as_str);
    values.collect::<Vec<_>>().join(" ")
}

fn missing(argument: &str) -> String {
    format!("error: missing required argument '{argument}'")
}

fn no_server(files: &McpConfigFiles, name: &str) -> String {
    let servers = files.servers();
    let names: Vec<&str> = servers.iter().map(|(_, name, _)| name.as_str()).collect();
    if names.is_empty() {
        return format!("No MCP server named \"{name}\". Run `claude mcp add` to add one.");
    }
    format!("No MCP server named \"{name}\". Configured servers: {}", names.join(", "))
}
