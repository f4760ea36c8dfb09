//! `opencode run --format json`, as 1.18.33 writes it: parts of messages, each when it is finished.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, AgentUsage, CallAction,
    TurnOutcome,
};
use super::tools::action;
use super::{Knowledge, LineSteps};
use crate::event::Usage;
use crate::json::{ParseError, Raw};

pub(super) fn read<'a>(
    name: &str,
    line: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    if name == "error" {
        let error = line.error("error");
        out.push(AgentStep::TurnEnded(AgentTurnEnd::new(TurnOutcome::Failed, error)));
        return Ok(Knowledge::Known);
    }
    let part = line.needed_object("part")?;
    match name {
        "step_start" => out.push(AgentStep::TurnStarted),
        "text" | "reasoning" => {
            // Each part has its own id, and a part is written once.
            let text = AgentText::whole(part.text("id")?, part.needed_text("text")?);
            out.push(match name {
                "text" => AgentStep::Text(text),
                _ => AgentStep::Thinking(text),
            });
        }
        "tool_use" => tool(part, out)?,
        "step_finish" => finish(part, out)?,
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

fn tool<'a>(part: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    let (id, tool) = (part.needed_text("callID")?, part.needed_text("tool")?);
    let state = part.needed_object("state")?;
    let input = state.any("input");
    out.push(AgentStep::Call(AgentCall {
        id: id.clone(),
        action: input.map_or(CallAction::Other, |input| action(&tool, input)),
        input: Cow::Borrowed(input.map_or("{}", Raw::as_str)),
        tool,
    }));
    let status = state.needed_text("status").map_err(|error| error.under("state"))?;
    if matches!(&*status, "pending" | "running") {
        return Ok(());
    }
    let metadata = state.any("metadata").map(ObjectFields::new);
    // The tool reports a command that failed as completed, with its exit code.
    let exit = metadata.and_then(|it| it.any("exit")).and_then(Raw::number);
    let error = state.error("error");
    out.push(AgentStep::CallEnded(AgentCallEnd {
        id,
        failed: status != "completed" || exit.is_some_and(|code| code != 0.0),
        output: state.text("output")?.or(error).unwrap_or_default(),
        diff: metadata.and_then(|it| it.text_if_string("diff")),
    }));
    Ok(())
}

fn finish<'a>(part: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    if let Some(tokens) = part.object("tokens")? {
        let cache = tokens.object("cache")?;
        let cached = |key| cache.map_or(Ok(None), |cache| cache.count(key));
        let reasoning = tokens.count("reasoning")?.unwrap_or(0);
        out.push(AgentStep::Usage(AgentUsage {
            usage: Usage {
                input_tokens: tokens.count("input")?,
                output_tokens: tokens.count("output")?.map(|it| it.saturating_add(reasoning)),
                cache_read_input_tokens: cached("read")?,
                cache_creation_input_tokens: cached("write")?,
            },
            cost: part.number("cost")?,
            ..AgentUsage::default()
        }));
    }
    let outcome = match part.text("reason")?.as_deref() {
        // Its calls are made, and the model is asked again.
        Some("tool-calls") => return Ok(()),
        Some("stop" | "end_turn") => TurnOutcome::Completed,
        Some("error" | "content-filter" | "length") => TurnOutcome::Failed,
        _ => TurnOutcome::Unstated,
    };
    let reason = part.text("reason")?.filter(|_| outcome == TurnOutcome::Failed);
    out.push(AgentStep::TurnEnded(AgentTurnEnd::new(outcome, reason)));
    Ok(())
}
