//! `gemini -o stream-json`, as 0.61.0 writes it.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, SessionFacts, TextExtent,
    TurnOutcome,
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
        "init" => {
            let facts = SessionFacts { model: line.text("model")?, ..SessionFacts::default() };
            out.push(AgentStep::Session(facts));
        }
        "message" => {
            let text = line.needed_text("content")?;
            match &*line.needed_text("role")? {
                "user" => out.push(AgentStep::Prompt(text)),
                "assistant" => {
                    let extent = match line.flag("delta")? {
                        Some(true) => TextExtent::OnlyDelta,
                        _ => TextExtent::Whole,
                    };
                    out.push(AgentStep::Text(AgentText { message: None, text, extent }));
                }
                _ => return Ok(Knowledge::Unknown),
            }
        }
        "tool_use" => {
            let tool = line.needed_text("tool_name")?;
            let parameters = line.any("parameters");
            out.push(AgentStep::Call(AgentCall {
                id: line.needed_text("tool_id")?,
                action: parameters.map_or(super::CallAction::Other, |it| action(&tool, it)),
                input: Cow::Borrowed(parameters.map_or("{}", Raw::as_str)),
                tool,
            }));
        }
        "tool_result" => {
            let error = line.error("error");
            let succeeded = line.needed_text("status")? == "success";
            let output = line.text("output")?.or_else(|| error.clone()).unwrap_or_default();
            out.push(AgentStep::CallEnded(AgentCallEnd {
                id: line.needed_text("tool_id")?,
                output,
                failed: !succeeded || error.is_some(),
                diff: None,
            }));
        }
        "error" => {
            let message = line.needed_text("message")?;
            out.push(match line.text("severity")?.as_deref() {
                Some("warning" | "info") => AgentStep::Notice(message),
                _ => AgentStep::Failure(message),
            });
        }
        "result" => out.push(AgentStep::TurnEnded(turn_end(line)?)),
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

fn turn_end(line: ObjectFields<'_>) -> Result<AgentTurnEnd<'_>, ParseError> {
    let error = line.error("error");
    let succeeded = line.needed_text("status")? == "success" && error.is_none();
    let outcome = if succeeded { TurnOutcome::Completed } else { TurnOutcome::Failed };
    let mut end = AgentTurnEnd::new(outcome, error);
    if let Some(stats) = line.object("stats")? {
        end.usage = Some(stats.usage_with_cache_in_input([
            "input_tokens",
            "output_tokens",
            "cached",
            "cache_write",
        ])?);
        end.duration_ms = stats.count("duration_ms")?;
    }
    Ok(end)
}
