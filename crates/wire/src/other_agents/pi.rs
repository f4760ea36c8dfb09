//! `pi --mode json` and its session files, as 0.73.1 writes them.
//!
//! The stream repeats every message several times: growing in `message_update`, whole in
//! `message_end`, and again at the end of the turn and of the run. Only `message_end` is taken.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, AgentUsage, CallAction,
    SessionFacts, TurnOutcome,
};
use super::tools::action;
use super::{Knowledge, LineSteps};
use crate::json::{ParseError, Raw, Shape};

/// Names that no other agent has, with or without steps.
pub(super) fn is_line(name: &str) -> bool {
    matches!(
        name,
        "agent_start"
            | "agent_end"
            | "turn_start"
            | "turn_end"
            | "message_update"
            | "message_end"
            | "tool_execution_start"
            | "tool_execution_update"
            | "tool_execution_end"
            | "auto_compaction_start"
            | "auto_compaction_end"
            | "compaction_start"
            | "compaction_end"
            | "auto_retry_start"
            | "auto_retry_end"
            | "queue_update"
            | "model_change"
            | "thinking_level_change"
            | "compaction"
            | "branch_summary"
            | "custom_message"
            | "session_info"
    )
}

/// The API of Claude has an event of that name, too. Its message has an id and a `type`.
pub(super) fn is_message_start(line: ObjectFields<'_>) -> bool {
    let message = line.any("message").map(ObjectFields::new);
    message.is_some_and(|it| it.is("timestamp", Shape::Number) && !it.has("type"))
}

pub(super) fn read<'a>(
    name: &str,
    line: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    match name {
        "session" => {
            out.session = line.raw().get("id").and_then(Raw::text);
            let facts = SessionFacts { cwd: line.text("cwd")?, ..SessionFacts::default() };
            out.push(AgentStep::Session(facts));
        }
        "model_change" => {
            let model = line.text("modelId")?;
            out.push(AgentStep::Session(SessionFacts { model, ..SessionFacts::default() }));
        }
        "agent_start" => out.push(AgentStep::TurnStarted),
        "agent_end" => {
            // With `willRetry` the same prompt is tried again.
            if line.flag("willRetry")? != Some(true) {
                out.push(AgentStep::TurnEnded(AgentTurnEnd::new(TurnOutcome::Unstated, None)));
            }
        }
        "message_update" => update(line, out)?,
        "message_end" => message(line.needed_object("message")?, out)?,
        // A line of a session file, which has no other sign of the end of a turn.
        "message" => {
            let body = line.needed_object("message")?;
            message(body, out)?;
            let ended = matches!(
                body.text("stopReason")?.as_deref(),
                Some("stop" | "length" | "error" | "aborted")
            );
            if ended && body.text("role")?.as_deref() == Some("assistant") {
                out.push(AgentStep::TurnEnded(AgentTurnEnd::new(TurnOutcome::Unstated, None)));
            }
        }
        "tool_execution_start" => {
            let (id, tool) = (line.needed_text("toolCallId")?, line.needed_text("toolName")?);
            out.push(AgentStep::Call(call(id, tool, line.any("args"))));
        }
        "tool_execution_end" => {
            let result = line.any("result").map(ObjectFields::new);
            let output = match result.filter(|it| it.raw().shape() == Shape::Object) {
                Some(result) => result.joined_text("content")?,
                None => line.any("result").map(Raw::readable).unwrap_or_default(),
            };
            out.push(AgentStep::CallEnded(AgentCallEnd {
                id: line.needed_text("toolCallId")?,
                failed: line.flag("isError")?.unwrap_or(false),
                output,
                diff: None,
            }));
        }
        "compaction" | "compaction_end" | "auto_compaction_end" => out.push(AgentStep::Compacted),
        "message_start" | "turn_start" | "turn_end" => {}
        name if is_line(name) => {}
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

/// A delta of the message that is being written. Its other content repeats all that came before.
fn update<'a>(line: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    let event = line.needed_object("assistantMessageEvent")?;
    let delta = |event: ObjectFields<'a>| -> Result<_, ParseError> {
        Ok(AgentText::delta(None, event.text("delta")?.unwrap_or_default()))
    };
    match out.inside(event.any("type")).as_deref() {
        Some("text_delta") => out.push(AgentStep::Text(delta(event)?)),
        Some("thinking_delta") => out.push(AgentStep::Thinking(delta(event)?)),
        _ => {}
    }
    Ok(())
}

fn message<'a>(message: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    match &*message.needed_text("role")? {
        "user" => out.push(AgentStep::Prompt(message.joined_text("content")?)),
        "assistant" => assistant(message, out)?,
        "toolResult" => {
            let details = message.any("details");
            out.push(AgentStep::CallEnded(AgentCallEnd {
                id: message.needed_text("toolCallId")?,
                output: message.joined_text("content")?,
                failed: message.flag("isError")?.unwrap_or(false),
                diff: details.and_then(|it| ObjectFields::new(it).text_if_string("patch")),
            }));
        }
        // A command of the user's own.
        "bashExecution" => {
            if let Some(command) = message.text("command")? {
                out.push(AgentStep::Notice(Cow::Owned(format!("$ {command}"))));
            }
        }
        _ => {}
    }
    Ok(())
}

fn assistant<'a>(message: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    for block in message.objects("content")? {
        match &*block.needed_text("type")? {
            "text" => {
                let text = block.text("text")?.unwrap_or_default();
                out.push(AgentStep::Text(AgentText::whole(None, text)));
            }
            "thinking" => {
                let text = block.text("thinking")?.unwrap_or_default();
                out.push(AgentStep::Thinking(AgentText::whole(None, text)));
            }
            "toolCall" => {
                let (id, tool) = (block.needed_text("id")?, block.needed_text("name")?);
                out.push(AgentStep::Call(call(id, tool, block.any("arguments"))));
            }
            _ => {}
        }
    }
    if let Some(usage) = message.object("usage")? {
        let cost = usage.object("cost")?;
        out.push(AgentStep::Usage(AgentUsage {
            usage: usage.usage(["input", "output", "cacheRead", "cacheWrite"])?,
            // Zero is what it writes for models without a price.
            cost: cost.map_or(Ok(None), |cost| cost.number("total"))?.filter(|&it| it > 0.0),
            model: message.text("model")?,
            ..AgentUsage::default()
        }));
    }
    if matches!(message.text("stopReason")?.as_deref(), Some("error" | "aborted")) {
        let error = message.text("errorMessage")?.or(message.text("stopReason")?);
        out.steps.extend(error.map(AgentStep::Failure));
    }
    Ok(())
}

fn call<'a>(id: Cow<'a, str>, tool: Cow<'a, str>, arguments: Option<Raw<'a>>) -> AgentCall<'a> {
    AgentCall {
        id,
        action: arguments.map_or(CallAction::Other, |it| action(&tool, it)),
        input: Cow::Borrowed(arguments.map_or("{}", Raw::as_str)),
        tool,
    }
}
