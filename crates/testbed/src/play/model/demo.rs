//! The demonstration: what a model would say to show every card that a host must draw.
//!
//! It is a function of the request alone. Which act is played depends on the words of the newest
//! prompt, where in the act on how often the model spoke since; without words that name one, all are
//! played as a tour.

use std::path::Path;

use serde_json::{Value, json};

use crate::scenario::Block;

const WELCOME: &str = "# A tour of the deck\n\nThis is **towpath play**, a stand-in that needs no \
network. It shows *every* kind of card once:\n\n1. text with `code` and [links](https://example.com)\n\
2. thoughts, tools and their results\n3. questions, plans and permissions\n\n```rust\nfn main() \
{\n    println!(\"hello from the towpath\");\n}\n```\n\n> Nothing here was written by a model.";

const TABLE: &str = "That was all of it.\n\n| Card | Seen |\n|---|---|\n| text, thoughts | ✓ |\n| \
tools, diffs, colours | ✓ |\n| permission, question, plan | ✓ |\n| sub-agent, error | ✓ |\n\nAsk for \
one of them by name: `edit`, `bash`, `permission`, `question`, `plan`, `todo`, `agent`, `error`, \
`think`, `markdown`, `long`.";

/// What the model says next.
pub(super) fn reply(request: &Value, cwd: &Path) -> Vec<Block> {
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let prompt = messages.iter().rposition(is_prompt).unwrap_or_default();
    let words = messages.get(prompt).map(words).unwrap_or_default().to_lowercase();
    let spoken = messages[prompt.min(messages.len())..].iter();
    let spoken = spoken.filter(|message| message["role"] == "assistant").count();
    // Without somebody to approve it, no plan is made, and none is written.
    let plans = offers(request, "ExitPlanMode");
    let plan = plans.then(|| plan_file(request).unwrap_or("/nowhere/plan.md"));
    let steps = act(&words, cwd, plan);
    let offered = |block: &Block| match block {
        Block::Tool { name, .. } => offers(request, name),
        _ => true,
    };
    let mut playable = steps.into_iter().filter(|step| step.iter().all(offered));
    let last = vec![Block::Text("Done. Ask for a `tour` to see everything.".to_owned())];
    playable.nth(spoken).unwrap_or(last)
}

fn is_prompt(message: &Value) -> bool {
    let blocks = message["content"].as_array().into_iter().flatten();
    message["role"] == "user"
        && message["content"].is_array()
        && !blocks.clone().any(|block| block["type"] == "tool_result")
        && blocks.into_iter().any(|block| block["type"] == "text")
}

fn words(message: &Value) -> String {
    let blocks = message["content"].as_array().into_iter().flatten();
    let texts = blocks.filter_map(|block| block["text"].as_str());
    texts.filter(|text| !text.starts_with("<system-reminder>")).collect::<Vec<_>>().join("\n")
}

fn offers(request: &Value, tool: &str) -> bool {
    let name = if tool == "Task" { "Agent" } else { tool };
    let tools = request["tools"].as_array().into_iter().flatten();
    tools.filter_map(|tool| tool["name"].as_str()).any(|it| it == name)
}

/// The plan's file, of which the session tells while it plans.
fn plan_file(request: &Value) -> Option<&str> {
    let system = request["system"].as_array().into_iter().flatten();
    let mut texts = system.filter_map(|block| block["text"].as_str());
    texts.find_map(|text| text.split_once("Plan file: ").map(|(_, path)| path.trim()))
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn call(name: &str, input: Value) -> Block {
    Block::Tool { name: name.to_owned(), input, id: None }
}

/// The steps of the act that some words ask for.
fn act(words: &str, cwd: &Path, plan: Option<&str>) -> Vec<Vec<Block>> {
    let has = |names: &[&str]| names.iter().any(|name| words.contains(name));
    let file = cwd.join("towpath-demo.txt").display().to_string();
    if words.starts_with("<task-notification>") {
        return vec![vec![text("The helper in the background is done; I have read its report.")]];
    }
    if has(&["demo-helper"]) {
        return helper();
    }
    if has(&["tour", "everything", "every card"]) {
        return tour(&file, plan);
    }
    let done = |mut steps: Vec<Vec<Block>>| {
        steps.push(vec![text("That is what it looks like.")]);
        steps
    };
    match () {
        () if has(&["plan"]) => done(planning(plan)),
        () if has(&["question"]) => done(question()),
        () if has(&["permission", "write"]) => done(writing(&file)),
        () if has(&["edit", "diff"]) => done([writing(&file), editing(&file)].concat()),
        () if has(&["agent", "helper"]) => done(delegating(true)),
        () if has(&["todo"]) => done(todos()),
        () if has(&["error", "fail"]) => done(failing()),
        () if has(&["bash", "shell", "colour", "color"]) => done(colours()),
        () if has(&["think"]) => vec![vec![thought(), text("I have thought about it.")]],
        () if has(&["markdown", "code", "table"]) => vec![vec![text(WELCOME)], vec![text(TABLE)]],
        () if has(&["long"]) => vec![vec![text(&"The river is long and slow. ".repeat(400))]],
        () => tour(&file, plan),
    }
}

fn tour(file: &str, plan: Option<&str>) -> Vec<Vec<Block>> {
    let mut steps = vec![vec![thought(), text(WELCOME)]];
    steps[0].extend(todos().concat());
    steps.extend(colours());
    steps.extend(writing(file));
    steps.extend(editing(file));
    steps.extend(question());
    steps.extend(planning(plan));
    steps.extend(delegating(false));
    steps.extend(failing());
    steps.push(vec![text(TABLE)]);
    steps
}

fn thought() -> Block {
    Block::Thinking("They want to see everything once. First the words, then the tools.".to_owned())
}

fn todos() -> Vec<Vec<Block>> {
    let todo = |content: &str, active: &str, status: &str| json!({ "content": content, "activeForm": active, "status": status });
    let todos = json!({ "todos": [
        todo("Show text", "Showing text", "completed"),
        todo("Show tools", "Showing tools", "in_progress"),
        todo("Show questions", "Showing questions", "pending"),
    ] });
    vec![vec![call("TodoWrite", todos)]]
}

fn colours() -> Vec<Vec<Block>> {
    let command = r"printf '\033[32m✓ 12 passed\033[0m  \033[31m✗ 1 failed\033[0m\n\033[1;34mblue and bold\033[0m\n'";
    vec![vec![
        text("Now a command with colours."),
        call("Bash", json!({ "command": command, "description": "Print colours" })),
    ]]
}

fn writing(file: &str) -> Vec<Vec<Block>> {
    let content = "one\ntwo\nthree\n";
    vec![vec![
        text("This writes a file, and asks first."),
        call("Write", json!({ "file_path": file, "content": content })),
    ]]
}

fn editing(file: &str) -> Vec<Vec<Block>> {
    let input =
        json!({ "file_path": file, "old_string": "two", "new_string": "2\ntwo and a half" });
    vec![vec![call("Read", json!({ "file_path": file }))], vec![call("Edit", input)]]
}

fn question() -> Vec<Vec<Block>> {
    let option = |label: &str, about: &str| json!({ "label": label, "description": about });
    let input = json!({ "questions": [
        {
            "question": "Which way shall we go?", "header": "Way", "multiSelect": false,
            "options": [option("Upstream", "towards the source"), option("Downstream", "with the flow")],
        },
        {
            "question": "What shall we take?", "header": "Luggage", "multiSelect": true,
            "options": [option("Rope", "long"), option("Tea", "hot"), option("Map", "old")],
        },
    ] });
    vec![vec![call("AskUserQuestion", input)]]
}

fn planning(file: Option<&str>) -> Vec<Vec<Block>> {
    let plan = "# Plan\n\n1. Look at the lock\n2. Open the gates\n3. Go on\n";
    let Some(path) = file else { return Vec::new() };
    vec![
        vec![text("Let us make a plan."), call("EnterPlanMode", json!({}))],
        vec![call("Write", json!({ "file_path": path, "content": plan }))],
        vec![call("ExitPlanMode", json!({ "plan": plan }))],
    ]
}

fn delegating(background: bool) -> Vec<Vec<Block>> {
    let input = json!({
        "description": "Count the files", "prompt": "demo-helper: count the files here",
        "subagent_type": "general-purpose", "run_in_background": background,
    });
    vec![vec![text("A helper does this."), call("Task", input)]]
}

fn helper() -> Vec<Vec<Block>> {
    let input = json!({ "command": "ls | wc -l", "description": "Count files" });
    vec![
        vec![text("I count the files."), call("Bash", input)],
        vec![text("I counted the files here.")],
    ]
}

fn failing() -> Vec<Vec<Block>> {
    let input =
        json!({ "command": "ls ./no-such-folder", "description": "List what is not there" });
    vec![vec![text("This one fails."), call("Bash", input)]]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::{Block, reply};

    fn request(messages: &Value, tools: &[&str]) -> Value {
        let tools: Vec<Value> = tools.iter().map(|name| json!({ "name": name })).collect();
        json!({ "messages": messages, "tools": tools })
    }

    fn tools(blocks: &[Block]) -> Vec<&str> {
        let calls = blocks.iter().filter_map(|block| match block {
            Block::Tool { name, .. } => Some(name.as_str()),
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn words_choose_the_act_and_the_place_in_it_is_how_often_the_model_spoke() {
        let prompt =
            json!({"role": "user", "content": [{"type": "text", "text": "ask a question"}]});
        let call = json!({"role": "assistant", "content": []});
        let result = json!({"role": "user", "content": [{"type": "tool_result"}]});
        let first = reply(&request(&json!([prompt]), &["AskUserQuestion"]), Path::new("/"));
        assert_eq!(tools(&first), ["AskUserQuestion"]);
        let second =
            reply(&request(&json!([prompt, call, result]), &["AskUserQuestion"]), Path::new("/"));
        assert!(matches!(&second[..], [Block::Text(_)]));
    }

    #[test]
    fn steps_with_tools_that_are_not_offered_are_left_out() {
        let prompt = json!([{"role": "user", "content": [{"type": "text", "text": "tour"}]}]);
        let blocks = reply(&request(&prompt, &["Bash"]), Path::new("/"));
        assert_eq!(tools(&blocks), ["Bash"]);
    }
}
