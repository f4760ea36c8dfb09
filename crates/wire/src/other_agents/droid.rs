//! The lines of `droid exec --output-format stream-json` that Claude Code does not write; its `init`
//! has the shape of Claude Code's.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, CallAction, TurnOutcome,
};
use super::tools::action;
use super::{Knowledge, LineSteps};
use crate::json::{ParseError, Raw};

pub(super) fn read<'a>(
    name: &str,
    line: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    match name {
        "message" => {
            let text = line.needed_text("text")?;
            match &*line.needed_text("role")? {
                "user" => out.push(AgentStep::Prompt(text)),
                "assistant" => {
                    out.push(AgentStep::Text(AgentText::whole(line.text("id")?, text)));
                }
                _ => return Ok(Knowledge::Unknown),
            }
        }
        "reasoning" => {
            let text = AgentText::whole(line.text("id")?, line.needed_text("text")?);
            out.push(AgentStep::Thinking(text));
        }
        "tool_call" => {
            let tool = line.text("toolName")?.or(line.text("toolId")?).unwrap_or_default();
            let parameters = line.any("parameters");
            out.push(AgentStep::Call(AgentCall {
                id: line.needed_text("id")?,
                action: parameters.map_or(CallAction::Other, |it| action(&tool, it)),
                input: Cow::Borrowed(parameters.map_or("{}", Raw::as_str)),
                tool,
            }));
        }
        "tool_result" => {
            let error = line.error("error");
            let value = line.any("value").map(Raw::readable);
            out.push(AgentStep::CallEnded(AgentCallEnd {
                id: line.needed_text("id")?,
                failed: line.flag("isError")?.unwrap_or(error.is_some()),
                output: value.or(error).unwrap_or_default(),
                diff: None,
            }));
        }
        "error" => out.push(AgentStep::Failure(line.needed_text("message")?)),
        "completion" => {
            let failed = line.flag("isError")?.or(line.flag("is_error")?) == Some(true);
            let outcome = if failed { TurnOutcome::Failed } else { TurnOutcome::Unstated };
            let text = line.text("finalText")?.filter(|_| failed);
            let mut end = AgentTurnEnd::new(outcome, text);
            end.duration_ms = line.count("durationMs")?;
            if let Some(usage) = line.object("usage")? {
                end.usage = Some(usage.usage([
                    "input_tokens",
                    "output_tokens",
                    "cache_read_input_tokens",
                    "cache_creation_input_tokens",
                ])?);
            }
            out.push(AgentStep::TurnEnded(end));
        }
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}
