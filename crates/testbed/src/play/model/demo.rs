//! The demo: scripted replies that show every kind of message a host has to display.
//!
//! A reply depends on the request alone. Words in the newest prompt choose the script, and the
//! number of replies since that prompt chooses the step in it. Without such words, the script is a
//! tour of all the others.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::play::event::{ModelReply, ModelRequestNumber, PlayerInput};
use crate::scenario::ScenarioBlock;

const WELCOME: &str = "# Welcome to Towpath\n\nThis is the built-in **demo agent**. It needs no \
network, and all of its replies are scripted. The tour shows *every* kind of message once:\n\n1. text \
with `code` and [links](https://example.com)\n2. thinking, tool calls and their results\n3. \
permission requests, questions and plans\n\n```rust\nfn main() {\n    println!(\"Hello from \
Towpath\");\n}\n```\n\n> No model was involved in writing this.";

const SUMMARY: &str = "That is the end of the tour.\n\n| Feature | Shown |\n|---|---|\n| Text and \
thinking | ✓ |\n| Tool calls, diffs and colored output | ✓ |\n| Permission requests, questions and \
plans | ✓ |\n| Sub-agents and errors | ✓ |\n\nTo see one of them again, ask for it by name: `edit`, \
`bash`, `permission`, `question`, `plan`, `todo`, `agent`, `error`, `think`, `markdown`, `long`.";

/// Marks the prompt of the demo's sub-agent, which gets a script of its own.
const SUB_AGENT_MARK: &str = "demo-sub-agent";

/// The blocks of a reply, or of several replies one after another.
type DemoScript = Vec<Vec<ScenarioBlock>>;

/// The blocks of the reply to a request.
pub(super) fn reply(request: &Value, cwd: &Path) -> Vec<ScenarioBlock> {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let prompt = messages.iter().rposition(is_prompt).unwrap_or_default();
    let text = messages.get(prompt).map(prompt_text).unwrap_or_default().to_lowercase();
    let since_prompt = messages[prompt.min(messages.len())..].iter();
    let replies = since_prompt.filter(|message| message["role"] == "assistant").count();
    // A plan needs approval, so without a host that can approve it none is made.
    let can_plan = offers(request, "ExitPlanMode");
    let plan = can_plan.then(|| plan_file(request).unwrap_or("/nowhere/plan.md"));
    let is_offered = |block: &ScenarioBlock| match block {
        ScenarioBlock::Tool { name, .. } => offers(request, name),
        _ => true,
    };
    let file = DemoFile::choose(messages, prompt, cwd);
    let script = script(&text, &file, plan);
    let mut steps = script.into_iter().filter(|step| step.iter().all(is_offered));
    let last = || vec![text_block("Done. Ask for a `tour` to see everything.")];
    steps.nth(replies).unwrap_or_else(last)
}

/// The file that the demo writes and changes.
struct DemoFile {
    path: String,
    /// Whether the user refused to have it written, so there is nothing to change.
    is_refused: bool,
}

impl DemoFile {
    /// A file that exists can only be written if this conversation has read or written it, as in the
    /// CLI. One that another session left is passed over.
    fn choose(messages: &[Value], prompt: usize, cwd: &Path) -> Self {
        let calls = |messages: &[Value]| -> Vec<Value> {
            let blocks =
                messages.iter().flat_map(|it| it["content"].as_array().into_iter().flatten());
            blocks.filter(|it| it["type"] == "tool_use").cloned().collect()
        };
        let known = calls(messages);
        let is_free = |path: &String| {
            known.iter().any(|call| call["input"]["file_path"] == path.as_str())
                || !Path::new(path).exists()
        };
        let name = |number: u32| match number {
            1 => "towpath-demo.txt".to_owned(),
            _ => format!("towpath-demo-{number}.txt"),
        };
        let mut paths = (1..).map(|number| cwd.join(name(number)).display().to_string());
        let path = paths.find(is_free).unwrap_or_default();
        let since_prompt = &messages[prompt.min(messages.len())..];
        let is_written =
            |call: &&Value| call["name"] == "Write" && call["input"]["file_path"] == path.as_str();
        let written = calls(since_prompt).iter().find(is_written).map(|it| it["id"].clone());
        let results =
            since_prompt.iter().flat_map(|it| it["content"].as_array().into_iter().flatten());
        let is_refused = written.is_some_and(|id| {
            results.clone().any(|it| it["tool_use_id"] == id && it["is_error"] == true)
        });
        Self { path, is_refused }
    }
}

fn is_prompt(message: &Value) -> bool {
    let blocks = message["content"].as_array().into_iter().flatten();
    message["role"] == "user"
        && message["content"].is_array()
        && !blocks.clone().any(|block| block["type"] == "tool_result")
        && blocks.into_iter().any(|block| block["type"] == "text")
}

fn prompt_text(message: &Value) -> String {
    let blocks = message["content"].as_array().into_iter().flatten();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts.filter(|text| !text.starts_with("<system-reminder>")).collect::<Vec<_>>().join("\n")
}

fn offers(request: &Value, tool: &str) -> bool {
    let name = if tool == "Task" { "Agent" } else { tool };
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str()).any(|it| it == name)
}

/// The path of the plan file, which the system prompt names in plan mode.
fn plan_file(request: &Value) -> Option<&str> {
    let system = request["system"].as_array().into_iter().flatten();
    let mut texts = system.filter_map(|block| block["text"].as_str());
    texts.find_map(|text| text.split_once("Plan file: ").map(|(_, path)| path.trim()))
}

fn text_block(text: &str) -> ScenarioBlock {
    ScenarioBlock::Text(text.to_owned())
}

fn tool_call(name: &str, input: Value) -> ScenarioBlock {
    ScenarioBlock::Tool { name: name.to_owned(), input, id: None }
}

/// The script that a prompt asks for.
fn script(prompt: &str, file: &DemoFile, plan: Option<&str>) -> DemoScript {
    let has = |words: &[&str]| words.iter().any(|word| prompt.contains(word));
    if prompt.starts_with("<task-notification>") {
        let text = "The sub-agent in the background has finished, and I have read its report.";
        return vec![vec![text_block(text)]];
    }
    if has(&[SUB_AGENT_MARK]) {
        return sub_agent();
    }
    if has(&["tour", "everything", "every card"]) {
        return tour(file, plan);
    }
    let part = |mut steps: DemoScript| {
        steps.push(vec![text_block("That is what it looks like.")]);
        steps
    };
    match () {
        () if has(&["plan"]) => part(make_plan(plan)),
        () if has(&["question"]) => part(ask_questions()),
        () if has(&["permission", "write"]) => part(write_file(file)),
        () if has(&["edit", "diff"]) => part([write_file(file), edit_file(file)].concat()),
        () if has(&["agent", "helper"]) => part(start_sub_agent(true)),
        () if has(&["todo"]) => part((1..=3).flat_map(write_todos).collect()),
        () if has(&["error", "fail"]) => part(fail()),
        () if has(&["bash", "shell", "colour", "color"]) => part(print_colors()),
        () if has(&["think"]) => vec![vec![thinking(), text_block("I have thought about it.")]],
        () if has(&["markdown", "code", "table"]) => {
            vec![vec![text_block(WELCOME)], vec![text_block(SUMMARY)]]
        }
        () if has(&["long"]) => {
            vec![vec![text_block(&"This reply is long on purpose. ".repeat(400))]]
        }
        () => tour(file, plan),
    }
}

fn tour(file: &DemoFile, plan: Option<&str>) -> DemoScript {
    let mut steps = vec![vec![thinking(), text_block(WELCOME)]];
    steps[0].extend(write_todos(1).concat());
    steps.extend(print_colors());
    steps.extend(write_file(file));
    steps.extend(edit_file(file));
    steps.extend(write_todos(2));
    steps.extend(ask_questions());
    steps.extend(make_plan(plan));
    steps.extend(start_sub_agent(false));
    steps.extend(fail());
    steps.extend(write_todos(3));
    steps.push(vec![text_block(SUMMARY)]);
    steps
}

fn thinking() -> ScenarioBlock {
    let text =
        "The user wants to see what I can do. I will start with text and then call some tools.";
    ScenarioBlock::Thinking(text.to_owned())
}

/// The to-do list, of which this many are done.
fn write_todos(done: usize) -> DemoScript {
    let texts = [
        ("Introduce the demo", "Introducing the demo"),
        ("Show tool calls", "Showing tool calls"),
        ("Show questions", "Showing questions"),
    ];
    let todos = texts.iter().enumerate().map(|(number, (content, active))| {
        let status = match number {
            number if number < done => "completed",
            number if number == done => "in_progress",
            _ => "pending",
        };
        json!({ "content": content, "activeForm": active, "status": status })
    });
    let todos: Vec<Value> = todos.collect();
    vec![vec![tool_call("TodoWrite", json!({ "todos": todos }))]]
}

fn print_colors() -> DemoScript {
    let command = r"printf '\033[32m✓ 12 passed\033[0m  \033[31m✗ 1 failed\033[0m\n\033[1;34mblue and bold\033[0m\n'";
    let input = json!({ "command": command, "description": "Print colored text" });
    vec![vec![text_block("Here is a command with colored output."), tool_call("Bash", input)]]
}

fn write_file(file: &DemoFile) -> DemoScript {
    let input = json!({ "file_path": file.path, "content": "one\ntwo\nthree\n" });
    let text = "Now I will write a file. This needs your permission.";
    vec![vec![text_block(text), tool_call("Write", input)]]
}

fn edit_file(file: &DemoFile) -> DemoScript {
    if file.is_refused {
        return Vec::new();
    }
    let path = &file.path;
    let input =
        json!({ "file_path": path, "old_string": "two", "new_string": "2\ntwo and a half" });
    vec![vec![tool_call("Read", json!({ "file_path": path }))], vec![tool_call("Edit", input)]]
}

fn ask_questions() -> DemoScript {
    let option = |label: &str, text: &str| json!({ "label": label, "description": text });
    let input = json!({ "questions": [
        {
            "question": "Which database should I use?", "header": "Database", "multiSelect": false,
            "options": [option("SQLite", "a single file"), option("PostgreSQL", "a server")],
        },
        {
            "question": "What else should I add?", "header": "Extras", "multiSelect": true,
            "options": [
                option("Tests", "for the new code"), option("Docs", "a page in the manual"),
                option("Logging", "of every query"),
            ],
        },
    ] });
    vec![vec![tool_call("AskUserQuestion", input)]]
}

fn make_plan(file: Option<&str>) -> DemoScript {
    let plan = "# Plan\n\n1. Create the tables\n2. Write the queries\n3. Add tests\n";
    let Some(path) = file else { return Vec::new() };
    vec![
        vec![text_block("I will make a plan first."), tool_call("EnterPlanMode", json!({}))],
        vec![tool_call("Write", json!({ "file_path": path, "content": plan }))],
        vec![tool_call("ExitPlanMode", json!({ "plan": plan }))],
    ]
}

fn start_sub_agent(background: bool) -> DemoScript {
    let input = json!({
        "description": "Count the files",
        "prompt": format!("{SUB_AGENT_MARK}: count the files in this directory"),
        "subagent_type": "general-purpose", "run_in_background": background,
    });
    vec![vec![text_block("A sub-agent will do the next step."), tool_call("Task", input)]]
}

fn sub_agent() -> DemoScript {
    let input = json!({ "command": "ls | wc -l", "description": "Count files" });
    vec![
        vec![text_block("I will count the files."), tool_call("Bash", input)],
        vec![text_block("I have counted the files in this directory.")],
    ]
}

fn fail() -> DemoScript {
    let input =
        json!({ "command": "ls ./no-such-folder", "description": "List a missing directory" });
    vec![vec![text_block("The next command fails."), tool_call("Bash", input)]]
}

/// Sends blocks as the events of a stream, a few characters at a time.
pub(super) async fn stream(
    blocks: Vec<ScenarioBlock>,
    model: Value,
    number: ModelRequestNumber,
    pace: Duration,
    inputs: mpsc::Sender<PlayerInput>,
) {
    let id = |prefix: &str| format!("{prefix}_{}", uuid::Uuid::new_v4().simple());
    let started = ModelReply::Started(Some(id("req")));
    if inputs.send(PlayerInput::Model(number, started)).await.is_err() {
        return;
    }
    for event in events(&blocks, &model, &id("msg")) {
        if event["type"] == "content_block_delta" {
            tokio::time::sleep(pace).await;
        }
        if inputs.send(PlayerInput::Model(number, ModelReply::Event(event))).await.is_err() {
            return;
        }
    }
    drop(inputs.send(PlayerInput::Model(number, ModelReply::Ended)).await);
}

/// The events of a message with these blocks.
fn events(blocks: &[ScenarioBlock], model: &Value, id: &str) -> Vec<Value> {
    let usage = json!({
        "input_tokens": 40, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 1200,
        "output_tokens": 1,
    });
    let mut events = vec![json!({
        "type": "message_start",
        "message": {
            "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": usage,
        },
    })];
    let mut length = 0;
    for (index, block) in blocks.iter().enumerate() {
        let (start, deltas) = deltas(block);
        length += deltas.iter().map(|delta| delta.to_string().len()).sum::<usize>();
        events
            .push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        let delta =
            |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        events.extend(deltas.into_iter().map(delta));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let calls = blocks.iter().any(|block| matches!(block, ScenarioBlock::Tool { .. }));
    let stop = if calls { "tool_use" } else { "end_turn" };
    events.push(json!({
        "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null },
        "usage": { "output_tokens": length / 20 + 1 },
    }));
    events.push(json!({ "type": "message_stop" }));
    events
}

/// The start of a block and its deltas.
fn deltas(block: &ScenarioBlock) -> (Value, Vec<Value>) {
    match block {
        ScenarioBlock::Text(text) => {
            let delta = |part: String| json!({ "type": "text_delta", "text": part });
            (json!({ "type": "text", "text": "" }), chunks(text).into_iter().map(delta).collect())
        }
        ScenarioBlock::Thinking(text) => {
            let delta = |part: String| json!({ "type": "thinking_delta", "thinking": part });
            let mut deltas: Vec<Value> = chunks(text).into_iter().map(delta).collect();
            deltas.push(json!({ "type": "signature_delta", "signature": "cGxheQ==" }));
            (json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas)
        }
        ScenarioBlock::Tool { name, input, id } => {
            let new_id = || format!("toolu_{}", uuid::Uuid::new_v4().simple());
            let id = id.clone().unwrap_or_else(new_id);
            let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
            let delta = |part: String| json!({ "type": "input_json_delta", "partial_json": part });
            (start, chunks(&input.to_string()).into_iter().map(delta).collect())
        }
        ScenarioBlock::Raw(block) => (block.clone(), Vec::new()),
    }
}

/// Splits a text into chunks of twelve characters.
fn chunks(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(12).map(|chunk| chunk.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::{ScenarioBlock, reply};

    fn request(messages: &Value, tools: &[&str]) -> Value {
        let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name })).collect();
        json!({ "messages": messages, "tools": tools })
    }

    fn tools(blocks: &[ScenarioBlock]) -> Vec<&str> {
        let calls = blocks.iter().filter_map(|block| match block {
            ScenarioBlock::Tool { name, .. } => Some(name.as_str()),
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn words_choose_the_script_and_the_number_of_replies_the_step() {
        let prompt =
            json!({"role": "user", "content": [{"type": "text", "text": "ask a question"}]});
        let call = json!({"role": "assistant", "content": []});
        let result = json!({"role": "user", "content": [{"type": "tool_result"}]});
        let first = reply(&request(&json!([prompt]), &["AskUserQuestion"]), Path::new("/"));
        assert_eq!(tools(&first), ["AskUserQuestion"]);
        let second =
            reply(&request(&json!([prompt, call, result]), &["AskUserQuestion"]), Path::new("/"));
        assert!(matches!(&second[..], [ScenarioBlock::Text(_)]));
    }

    const EVERY_TOOL: [&str; 8] =
        ["TodoWrite", "Bash", "Write", "Read", "Edit", "AskUserQuestion", "Agent", "ExitPlanMode"];

    /// All calls of a conversation, whose results say whether they failed.
    fn play(prompt: &str, cwd: &Path, fails: impl Fn(&str) -> bool) -> Vec<(String, Value)> {
        let mut messages =
            vec![json!({"role": "user", "content": [{"type": "text", "text": prompt}]})];
        let mut calls = Vec::new();
        loop {
            let blocks = reply(&request(&json!(messages), &EVERY_TOOL), cwd);
            let (mut uses, mut results) = (Vec::new(), Vec::new());
            for block in blocks {
                let ScenarioBlock::Tool { name, input, .. } = block else { continue };
                let id = format!("call-{}", calls.len());
                uses.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
                results.push(
                    json!({"type": "tool_result", "tool_use_id": id, "is_error": fails(&name)}),
                );
                calls.push((name, input));
            }
            if uses.is_empty() {
                return calls;
            }
            messages.push(json!({"role": "assistant", "content": uses}));
            messages.push(json!({"role": "user", "content": results}));
        }
    }

    #[test]
    fn the_list_of_tasks_is_finished_at_the_end() {
        for prompt in ["tour", "todo"] {
            let calls = play(prompt, Path::new("/nowhere"), |_| false);
            let lists: Vec<_> = calls.iter().filter(|(name, _)| name == "TodoWrite").collect();
            let open = |list: &Value| {
                let todos = list["todos"].as_array().expect("a list");
                todos.iter().filter(|it| it["status"] != "completed").count()
            };
            let open: Vec<usize> = lists.iter().map(|(_, list)| open(list)).collect();
            assert_eq!(open, [2, 1, 0], "{prompt}");
        }
    }

    #[test]
    fn a_file_of_another_session_is_left_alone_and_a_refused_one_is_not_changed() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("towpath-demo.txt"), "of another").expect("a file");
        let paths = |calls: &[(String, Value)]| -> Vec<(String, String)> {
            let named = calls.iter().filter(|(_, input)| !input["file_path"].is_null());
            let name = |input: &Value| {
                let path = input["file_path"].as_str().expect("a path").to_owned();
                path.rsplit('/').next().expect("a name").to_owned()
            };
            named.map(|(tool, input)| (tool.clone(), name(input))).collect()
        };
        let call = |tool: &str, name: &str| (tool.to_owned(), name.to_owned());
        let second = "towpath-demo-2.txt";
        let edit = play("edit", directory.path(), |_| false);
        assert_eq!(
            paths(&edit),
            [call("Write", second), call("Read", second), call("Edit", second)]
        );
        let refused = play("edit", directory.path(), |tool| tool == "Write");
        assert_eq!(paths(&refused), [call("Write", second)]);
    }

    #[test]
    fn steps_with_tools_that_are_not_offered_are_left_out() {
        let prompt = json!([{"role": "user", "content": [{"type": "text", "text": "tour"}]}]);
        let blocks = reply(&request(&prompt, &["Bash"]), Path::new("/"));
        assert_eq!(tools(&blocks), ["Bash"]);
    }
}
