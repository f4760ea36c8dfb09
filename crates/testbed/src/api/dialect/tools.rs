//! Tool calls in the words of the client: a reply says what to do, the request which tool does that.
//!
//! A call is chosen by meaning (`shell`, `write`, `edit`, `read`, or another client's name for one of
//! them) and gets the argument names of the tool that the request offers.

use serde_json::{Map, Value, json};

use crate::scenario::ScenarioBlock;

/// What a tool does, and the names that clients give it, the preferred ones first.
const MEANINGS: &[(&str, &[&str])] = &[
    (
        SHELL,
        &[
            "bash",
            "shell",
            "run_shell_command",
            "exec_command",
            "shell_command",
            "run_command",
            "execute_command",
            "run_in_terminal",
            "local_shell",
            "execute",
        ],
    ),
    (WRITE, &["write", "write_file", "create", "create_file", "writefile", "apply_patch"]),
    (
        EDIT,
        &[
            "edit",
            "replace",
            "edit_file",
            "str_replace",
            "strreplacefile",
            "search_replace",
            "apply_patch",
        ],
    ),
    (READ, &["read", "read_file", "view", "readfile", "open_file"]),
];

const SHELL: &str = "shell";
const WRITE: &str = "write";
const EDIT: &str = "edit";
const READ: &str = "read";

/// Names of the same argument.
const ARGUMENTS: &[&[&str]] = &[
    &["command", "cmd", "script"],
    &["path", "file_path", "filePath", "absolute_path", "filename", "file", "target_file"],
    &["content", "contents", "file_text", "fileText", "text"],
    &["old", "old_string", "oldString", "old_str", "oldText"],
    &["new", "new_string", "newString", "new_str", "newText"],
    &["description", "title", "explanation"],
];

/// A tool that a request offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::api) struct OfferedTool {
    pub(in crate::api) name: String,
    /// The schema of its arguments.
    pub(in crate::api) schema: Value,
    /// The group that the tool belongs to, in the Responses API.
    pub(in crate::api) namespace: Option<String>,
    /// Whether its input is text instead of an object, in the Responses API.
    pub(in crate::api) is_custom: bool,
}

/// A tool call as it is sent.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::api) struct ApiToolCall {
    pub(in crate::api) id: String,
    pub(in crate::api) name: String,
    pub(in crate::api) namespace: Option<String>,
    pub(in crate::api) is_custom: bool,
    pub(in crate::api) input: Value,
}

/// Whether a name says what a call does instead of which tool it uses.
pub(in crate::api) fn is_meaning(name: &str) -> bool {
    MEANINGS.iter().any(|(meaning, _)| *meaning == name)
}

/// Finds the tool for a call and translates its arguments. `None` if the request offers none; the call
/// is then sent as it is. `cwd` is the client's directory, for relative paths.
pub(in crate::api) fn resolve<'a>(
    name: &str,
    input: &Value,
    offered: &'a [OfferedTool],
    cwd: Option<&str>,
) -> Option<(&'a OfferedTool, Value)> {
    let exact = offered.iter().find(|it| it.name == name);
    if let Some(tool) = exact
        && !is_meaning(name)
    {
        return Some((tool, input.clone()));
    }
    let lower = name.to_lowercase();
    let meaning = MEANINGS.iter().find(|(meaning, names)| {
        *meaning == lower || names.contains(&lower.as_str()) && lower != "apply_patch"
    });
    let Some((meaning, _)) = meaning else { return exact.map(|tool| (tool, input.clone())) };
    let input = with_paths(input, cwd);
    if let Some(tool) = find(meaning, offered) {
        let input = if tool.name.eq_ignore_ascii_case("apply_patch") {
            patch_input(meaning, &input, tool)
        } else {
            translate(&input, tool)
        };
        return Some((tool, input));
    }
    if let Some(tool) = offered.iter().find(|it| it.is_custom && it.name == "exec") {
        return Some((tool, json!({ "input": javascript(meaning, &input, tool)? })));
    }
    // An agent without such a tool uses its shell.
    let command = shell_command(meaning, &input)?;
    let tool = find(SHELL, offered)?;
    Some((tool, translate(&json!({ "command": command }), tool)))
}

/// A script that makes the call. With its newer models, Codex offers one tool that runs JavaScript, in
/// which its other tools are functions.
fn javascript(meaning: &str, input: &Value, tool: &OfferedTool) -> Option<String> {
    let (function, argument) = if meaning == EDIT {
        let patch = patch_input(meaning, input, tool);
        ("apply_patch", patch.as_object()?.values().next()?.clone())
    } else {
        let command = shell_command(meaning, input)?;
        let asks = json!({
            "cmd": command, "sandbox_permissions": "require_escalated",
            "justification": "May I do this?",
        });
        ("exec_command", asks)
    };
    Some(format!(
        "const result = await tools.{function}({argument});\ntext(result.output ?? result);\n"
    ))
}

fn find<'a>(meaning: &str, offered: &'a [OfferedTool]) -> Option<&'a OfferedTool> {
    let (_, names) = MEANINGS.iter().find(|it| it.0 == meaning)?;
    names.iter().find_map(|name| offered.iter().find(|it| it.name.eq_ignore_ascii_case(name)))
}

/// An argument under any of its names.
fn argument<'a>(input: &'a Value, name: &str) -> Option<&'a str> {
    let names = ARGUMENTS.iter().find(|it| it.contains(&name))?;
    names.iter().find_map(|name| input[*name].as_str())
}

/// Makes relative paths absolute, because most tools want that.
fn with_paths(input: &Value, cwd: Option<&str>) -> Value {
    let mut input = input.clone();
    let (Some(cwd), Some(fields)) = (cwd, input.as_object_mut()) else { return input };
    for (name, value) in fields {
        if let Some(path) = value.as_str().filter(|it| !it.starts_with('/'))
            && ARGUMENTS[1].contains(&name.as_str())
        {
            *value = json!(format!("{cwd}/{path}"));
        }
    }
    input
}

/// Gives arguments the names of a tool, and adds those that it requires.
fn translate(input: &Value, tool: &OfferedTool) -> Value {
    let Some(properties) = tool.schema["properties"].as_object().filter(|it| !it.is_empty()) else {
        return input.clone();
    };
    let mut result = Map::new();
    for (name, value) in input.as_object().into_iter().flatten() {
        let names = ARGUMENTS.iter().find(|it| it.contains(&name.as_str()));
        let same = |it: &&String| names.is_some_and(|names| names.contains(&it.as_str()));
        let found = properties.get_key_value(name).map(|it| it.0);
        let Some(name) = found.or_else(|| properties.keys().find(same)) else { continue };
        let is_array = properties[name]["type"] == "array";
        let value = match value.as_str() {
            Some(command) if is_array => json!(["bash", "-lc", command]),
            _ => value.clone(),
        };
        result.insert(name.clone(), value);
    }
    let required = tool.schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|it| it.iter().any(|it| it == name));
    for (name, schema) in properties {
        if result.contains_key(name) {
            continue;
        }
        let value = match name.as_str() {
            // Otherwise the command runs in a sandbox and no person is asked.
            "sandbox_permissions" => json!("require_escalated"),
            "justification" => json!("May I do this?"),
            _ if is_required(name) => example(schema),
            _ => continue,
        };
        result.insert(name.clone(), value);
    }
    Value::Object(result)
}

/// A value that fits a schema.
pub(in crate::api) fn example(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind.unwrap_or_default().to_lowercase().as_str() {
        "object" => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties.map(|(name, schema)| (name.clone(), example(schema))).collect()
        }
        "array" => json!([]),
        "boolean" => json!(false),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        "null" => Value::Null,
        _ => json!("from the stub"),
    }
}

/// The input of `apply_patch`, which describes changes as text.
fn patch_input(meaning: &str, input: &Value, tool: &OfferedTool) -> Value {
    let text = |name| argument(input, name).unwrap_or_default();
    let lines = |prefix: &str, text: &str| -> String {
        text.lines().flat_map(|line| [prefix, line, "\n"]).collect()
    };
    let path = text("path");
    let change = if meaning == EDIT {
        let (old, new) = (lines("-", text("old")), lines("+", text("new")));
        format!("*** Update File: {path}\n@@\n{old}{new}")
    } else {
        format!("*** Add File: {path}\n{}", lines("+", text("content")))
    };
    let whole = format!("*** Begin Patch\n{change}*** End Patch");
    let properties = tool.schema["properties"].as_object();
    let name = properties.and_then(|it| it.keys().next()).map_or("input", String::as_str);
    json!({ name: whole })
}

/// A shell command that does the same as a call.
fn shell_command(meaning: &str, input: &Value) -> Option<String> {
    if meaning == SHELL {
        return argument(input, "command").map(str::to_owned);
    }
    let quote = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let path = quote(argument(input, "path")?);
    match meaning {
        WRITE => Some(format!("printf %s {} > {path}", quote(argument(input, "content")?))),
        READ => Some(format!("cat {path}")),
        _ => None,
    }
}

/// The blocks of a reply with the calls that the request offers.
pub(in crate::api) fn resolve_blocks(
    blocks: &[ScenarioBlock],
    offered: &[OfferedTool],
    cwd: Option<&str>,
) -> Vec<ScenarioBlock> {
    let resolve_block = |block: &ScenarioBlock| {
        if let ScenarioBlock::Tool { name, input, id } = block
            && let Some((tool, input)) = resolve(name, input, offered, cwd)
        {
            return ScenarioBlock::Tool { name: tool.name.clone(), input, id: id.clone() };
        }
        block.clone()
    };
    blocks.iter().map(resolve_block).collect()
}

/// The directory that a client works in, which its prompt names in one way or another.
pub(in crate::api) fn working_directory(body: &[u8]) -> Option<String> {
    const MARKS: [&str; 5] =
        ["<cwd>", "orking directory: ", "in the directory: ", "orking directory is ", "cwd: "];
    let text = String::from_utf8_lossy(body);
    MARKS.iter().find_map(|mark| {
        let places = text.match_indices(mark).map(|(at, _)| &text[at + mark.len()..]);
        places.map(|rest| rest.trim_start_matches(['`', '*'])).find_map(|rest| {
            let end = rest.find(['"', '\\', '<', '\n', '`', ',']).unwrap_or(rest.len());
            let path = rest[..end].trim_end_matches(['.', ' ']);
            (path.starts_with('/') && path.len() > 1).then(|| path.to_owned())
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{OfferedTool, example, resolve, working_directory};

    fn tool(name: &str, properties: &Value, required: &[&str]) -> OfferedTool {
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        OfferedTool { name: name.to_owned(), schema, ..OfferedTool::default() }
    }

    fn string() -> Value {
        json!({ "type": "string" })
    }

    /// Tools of real agents.
    fn agents() -> Vec<(&'static str, Vec<OfferedTool>)> {
        let string = string();
        let patch = OfferedTool { is_custom: true, ..tool("apply_patch", &json!({}), &[]) };
        vec![
            (
                "opencode",
                vec![
                    tool(
                        "bash",
                        &json!({"command": string, "description": string}),
                        &["command", "description"],
                    ),
                    tool("write", &json!({"content": string, "filePath": string}), &["filePath"]),
                    tool(
                        "edit",
                        &json!({"filePath": string, "oldString": string, "newString": string}),
                        &[],
                    ),
                    tool("read", &json!({"filePath": string}), &[]),
                ],
            ),
            (
                "gemini",
                vec![
                    tool(
                        "run_shell_command",
                        &json!({"command": string, "is_background": {"type": "boolean"}}),
                        &["command", "is_background"],
                    ),
                    tool("write_file", &json!({"file_path": string, "content": string}), &[]),
                    tool(
                        "replace",
                        &json!({"file_path": string, "old_string": string, "new_string": string}),
                        &[],
                    ),
                    tool("read_file", &json!({"file_path": string}), &[]),
                ],
            ),
            (
                "codex",
                vec![
                    tool(
                        "exec_command",
                        &json!({"cmd": string, "sandbox_permissions": string, "justification": string}),
                        &["cmd"],
                    ),
                    patch,
                ],
            ),
            ("none", vec![]),
            (
                "codex with JavaScript",
                vec![OfferedTool { is_custom: true, ..tool("exec", &json!({}), &[]) }],
            ),
        ]
    }

    /// The name and the input of a call for each agent.
    fn calls(name: &str, input: &Value) -> Vec<String> {
        let agents = agents();
        let call = |(agent, tools): &(&str, Vec<OfferedTool>)| match resolve(
            name,
            input,
            tools,
            Some("/p"),
        ) {
            Some((tool, input)) => format!("{agent}: {} {input}", tool.name),
            None => format!("{agent}: -"),
        };
        agents.iter().map(call).collect()
    }

    #[test]
    fn a_call_by_meaning_uses_the_tool_that_is_offered_with_its_argument_names() {
        assert_eq!(
            calls("shell", &json!({"command": "ls"})),
            [
                r#"opencode: bash {"command":"ls","description":"from the stub"}"#,
                r#"gemini: run_shell_command {"command":"ls","is_background":false}"#,
                r#"codex: exec_command {"cmd":"ls","sandbox_permissions":"require_escalated","justification":"May I do this?"}"#,
                "none: -",
                r#"codex with JavaScript: exec {"input":"const result = await tools.exec_command({\"cmd\":\"ls\",\"sandbox_permissions\":\"require_escalated\",\"justification\":\"May I do this?\"});\ntext(result.output ?? result);\n"}"#,
            ]
        );
        assert_eq!(
            calls("write", &json!({"path": "a", "content": "x\ny\n"}))[..4],
            [
                r#"opencode: write {"filePath":"/p/a","content":"x\ny\n"}"#,
                r#"gemini: write_file {"file_path":"/p/a","content":"x\ny\n"}"#,
                r#"codex: apply_patch {"input":"*** Begin Patch\n*** Add File: /p/a\n+x\n+y\n*** End Patch"}"#,
                "none: -",
            ]
        );
        assert_eq!(
            calls("Edit", &json!({"file_path": "/a", "old_string": "x", "new_string": "y"}))[..4],
            [
                r#"opencode: edit {"filePath":"/a","oldString":"x","newString":"y"}"#,
                r#"gemini: replace {"file_path":"/a","old_string":"x","new_string":"y"}"#,
                r#"codex: apply_patch {"input":"*** Begin Patch\n*** Update File: /a\n@@\n-x\n+y\n*** End Patch"}"#,
                "none: -",
            ]
        );
        assert!(
            calls("read", &json!({"path": "it's"}))[2].contains(r#""cmd":"cat '/p/it'\\''s'""#)
        );
    }

    #[test]
    fn an_exact_name_is_sent_as_it_is() {
        let input = json!({"cmd": "ls", "wibble": 1});
        assert_eq!(calls("exec_command", &input)[2], format!("codex: exec_command {input}"));
        assert_eq!(calls("Wibble", &input)[0], "opencode: -");
        // A command that is an array of words, as old agents have it.
        let array = tool("shell", &json!({"command": {"type": "array"}}), &["command"]);
        let offered = [array];
        let call = resolve("shell", &json!({"command": "ls"}), &offered, None).expect("a call");
        assert_eq!(call.1, json!({"command": ["bash", "-lc", "ls"]}));
    }

    #[test]
    fn the_directory_of_a_client_is_found_in_its_prompt() {
        let cases = [
            (r#"{"a":"<cwd>/home/x</cwd>"}"#, Some("/home/x")),
            (r#"{"a":"Working directory: /tmp/a b\nIs it"}"#, Some("/tmp/a b")),
            (r#"{"a":"working in the directory: /w/x.y\n"}"#, Some("/w/x.y")),
            (r#"{"a":"the working directory: unknown"}"#, None),
        ];
        for (body, expected) in cases {
            assert_eq!(working_directory(body.as_bytes()).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn an_example_fits_its_schema() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "enum": ["x", "y"]}, "b": {"type": "INTEGER"},
            "c": {"type": ["array", "null"]}, "d": {"type": "boolean"},
        }});
        assert_eq!(example(&schema), json!({"a": "x", "b": 1, "c": [], "d": false}));
    }
}
