//! The lines of `cursor-agent --output-format stream-json` that Claude Code does not write. Its other
//! lines have the shape of Claude Code's; see [`super::AgentStreamReader`].

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{AgentCall, AgentCallEnd, AgentStep, AgentText, CallAction, TextExtent};
use super::tools::action;
use super::{Knowledge, LineSteps, unwrapped_json};
use crate::json::{ParseError, Raw, Shape, ShapeError};

pub(super) fn read<'a>(
    name: &str,
    line: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    let subtype = line.needed_text("subtype")?;
    match (name, &*subtype) {
        ("thinking", "delta") => {
            let text = line.needed_text("text")?;
            let extent = TextExtent::OnlyDelta;
            out.push(AgentStep::Thinking(AgentText { message: None, text, extent }));
        }
        ("thinking", "completed") | ("interaction_query", "request" | "response") => {}
        ("tool_call", "started" | "completed") => {
            let id = line.needed_text("call_id")?;
            let call = tool_call(line.needed_object("tool_call")?)
                .map_err(|error| error.under("tool_call"))?;
            let CursorCall { tool, args, result } = call;
            let input = args.map_or(Cow::Borrowed("{}"), unwrapped_json);
            out.push(AgentStep::Call(AgentCall {
                id: id.clone(),
                action: args.map_or(CallAction::Other, |args| action_of(&tool, args)),
                tool: Cow::Owned(tool),
                input,
            }));
            if subtype == "completed" {
                out.push(AgentStep::CallEnded(call_end(id, result)));
            }
        }
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

/// A call: its tool is the name of the only field that ends in `ToolCall`.
struct CursorCall<'a> {
    tool: String,
    args: Option<Raw<'a>>,
    result: Option<Raw<'a>>,
}

fn tool_call(call: ObjectFields<'_>) -> Result<CursorCall<'_>, ParseError> {
    for (key, body) in call.raw().fields() {
        let key = key.decode();
        if body.shape() != Shape::Object {
            continue;
        }
        if let Some(tool) = key.strip_suffix("ToolCall") {
            let (args, result) = (body.get("args"), body.get("result"));
            return Ok(CursorCall { tool: tool.to_owned(), args, result });
        }
        if key == "function" {
            let function = ObjectFields::new(body);
            let tool = function.needed_text("name")?.into_owned();
            let result = body.get("result").or_else(|| call.any("result"));
            return Ok(CursorCall { tool, args: function.any("arguments"), result });
        }
    }
    Err(ShapeError::missing("…ToolCall"))
}

fn action_of<'a>(tool: &str, args: Raw<'a>) -> CallAction<'a> {
    match tool {
        "webSearch" => action("websearch", args),
        "webFetch" => action("webfetch", args),
        tool => action(tool, args),
    }
}

fn call_end<'a>(id: Cow<'a, str>, result: Option<Raw<'a>>) -> AgentCallEnd<'a> {
    let success = result.and_then(|it| it.get("success"));
    let exit = success.and_then(|it| it.get("exitCode")).and_then(Raw::number);
    // Everything but `success` is a failure: `error`, `failure`, `rejected`, `timeout`, ….
    let other = result
        .filter(|_| success.is_none())
        .and_then(|it| it.fields().next().map(|(_, value)| value));
    let body = success.or(other).map(ObjectFields::new);
    let text = |key: &str| body.and_then(|it| it.text_if_string(key)).filter(|it| !it.is_empty());
    let mut output =
        ["content", "stdout", "interleavedOutput", "errorMessage", "message", "reason"]
            .iter()
            .find_map(|key| text(key));
    if let Some(errors) = text("stderr") {
        let output = output.get_or_insert_default().to_mut();
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        output.push_str(&errors);
    }
    AgentCallEnd {
        id,
        output: output.unwrap_or_default(),
        failed: success.is_none() || exit.is_some_and(|code| code != 0.0),
        diff: ["diffString", "diff", "unifiedDiff"].iter().find_map(|key| text(key)),
    }
}
