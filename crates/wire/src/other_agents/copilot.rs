//! `copilot --output-format json` and its session files (`events.jsonl`), as 1.0.102 writes them.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, AgentUsage, CallAction,
    SessionFacts, TurnOutcome,
};
use super::tools::action;
use super::{Knowledge, LineSteps, unwrapped_json};
use crate::json::{ParseError, Raw, Shape};

/// Names that say nothing about the conversation, from captures of 1.0.102 and the published schema.
const OTHER_NAMES: &[&str] = &[
    "assistant.intent",
    "assistant.message_start",
    "assistant.reasoning_delta",
    "assistant.streaming_delta",
    "assistant.tool_call_delta",
    "assistant.turn_end",
    "command.completed",
    "command.execute",
    "command.queued",
    "commands.changed",
    "elicitation.completed",
    "elicitation.requested",
    "exit_plan_mode.completed",
    "exit_plan_mode.requested",
    "external_tool.completed",
    "external_tool.requested",
    "hook.end",
    "hook.start",
    "model.call_failure",
    "model.call_final_result",
    "model.call_finished",
    "model.call_start",
    "pending_messages.modified",
    "permission.completed",
    "permission.requested",
    "session.background_tasks_changed",
    "session.compaction_start",
    "session.context_changed",
    "session.custom_agents_updated",
    "session.extensions_loaded",
    "session.handoff",
    "session.mcp_server_status_changed",
    "session.mcp_servers_loaded",
    "session.mode_changed",
    "session.plan_changed",
    "session.skills_loaded",
    "session.snapshot_rewind",
    "session.task_complete",
    "session.title_changed",
    "session.truncation",
    "session.usage_info",
    "session.workspace_file_changed",
    "skill.invoked",
    "subagent.completed",
    "subagent.deselected",
    "subagent.failed",
    "subagent.selected",
    "subagent.started",
    "system.message",
    "system.notification",
    "tool.execution_partial_result",
    "tool.execution_progress",
    "tool.shell_output",
    "tool.user_requested",
    "user_input.completed",
    "user_input.requested",
];

pub(super) fn read<'a>(
    name: &str,
    line: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    if name == "result" {
        out.session = line.raw().get("sessionId").and_then(Raw::text);
        let failed = line.number("exitCode")?.is_some_and(|code| code != 0.0);
        let outcome = if failed { TurnOutcome::Failed } else { TurnOutcome::Unstated };
        out.push(AgentStep::TurnEnded(AgentTurnEnd::new(outcome, None)));
        return Ok(Knowledge::Known);
    }
    let data = line.needed_object("data")?;
    read_data(name, data, out).map_err(|error| error.under("data"))
}

fn read_data<'a>(
    name: &str,
    data: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    match name {
        "session.start" | "session.resume" => {
            out.session = data.raw().get("sessionId").and_then(Raw::text);
            let context = data.object("context")?;
            out.push(AgentStep::Session(SessionFacts {
                model: data.text("selectedModel")?,
                cwd: context.map_or(Ok(None), |context| context.text("cwd"))?,
                version: data.text("copilotVersion")?,
                new_process: false,
            }));
        }
        "session.model_change" | "session.tools_updated" => {
            let model = data.text("newModel")?.or(data.text("model")?);
            out.push(AgentStep::Session(SessionFacts { model, ..SessionFacts::default() }));
        }
        "user.message" => out.push(AgentStep::Prompt(data.needed_text("content")?)),
        "assistant.turn_start" => out.push(AgentStep::TurnStarted),
        "assistant.message" => message(data, out)?,
        "assistant.message_delta" => {
            let text = AgentText::delta(data.text("messageId")?, data.needed_text("deltaContent")?);
            out.push(AgentStep::Text(text));
        }
        "assistant.reasoning" => {
            let text = AgentText::whole(data.text("reasoningId")?, data.needed_text("content")?);
            out.push(AgentStep::Thinking(text));
        }
        "assistant.idle" | "session.idle" | "session.shutdown" => {
            out.push(AgentStep::TurnEnded(AgentTurnEnd::new(TurnOutcome::Unstated, None)));
        }
        "assistant.usage" => usage(data, out)?,
        "session.usage_record" => usage(data.needed_object("usage")?, out)?,
        "tool.execution_start" => {
            let (id, tool) = (data.needed_text("toolCallId")?, data.needed_text("toolName")?);
            out.push(AgentStep::Call(call(id, tool, data.any("arguments"))));
        }
        "tool.execution_complete" => call_ended(data, out)?,
        "session.error" => out.push(AgentStep::Failure(data.needed_text("message")?)),
        "session.warning" | "session.info" => {
            // What it says about files is in the calls as well.
            let text = data.text("message")?.filter(|_| !is_about_a_file(data));
            out.steps.extend(text.map(AgentStep::Notice));
        }
        "session.compaction_complete" => out.push(AgentStep::Compacted),
        "abort" => {
            let reason = data.text("reason")?.unwrap_or(Cow::Borrowed("aborted"));
            let end = AgentTurnEnd::new(TurnOutcome::Failed, Some(reason));
            out.push(AgentStep::TurnEnded(end));
        }
        name if OTHER_NAMES.contains(&name) => {}
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

fn is_about_a_file(data: ObjectFields<'_>) -> bool {
    data.text_if_string("infoType").is_some_and(|kind| kind.starts_with("file_"))
}

fn message<'a>(data: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    if let Some(text) = data.text("reasoningText")?.filter(|text| !text.is_empty()) {
        out.push(AgentStep::Thinking(AgentText::whole(None, text)));
    }
    if let Some(text) = data.text("content")?.filter(|text| !text.is_empty()) {
        out.push(AgentStep::Text(AgentText::whole(data.text("messageId")?, text)));
    }
    for request in data.objects("toolRequests")? {
        let (id, tool) = (request.needed_text("toolCallId")?, request.needed_text("name")?);
        out.push(AgentStep::Call(call(id, tool, request.any("arguments"))));
    }
    Ok(())
}

fn call<'a>(id: Cow<'a, str>, tool: Cow<'a, str>, arguments: Option<Raw<'a>>) -> AgentCall<'a> {
    AgentCall {
        id,
        action: arguments.map_or(CallAction::Other, |it| action(&tool, it)),
        input: arguments.map_or(Cow::Borrowed("{}"), unwrapped_json),
        tool,
    }
}

fn call_ended<'a>(data: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    let result = data.any("result").map(ObjectFields::new);
    let content = result.filter(|it| it.raw().shape() == Shape::Object);
    let text = |key: &str| content.and_then(|it| it.text_if_string(key));
    let error = data.error("error");
    let exit = data.object("shellExecution")?.and_then(|it| it.any("exitCode"));
    let exit_failed = exit.and_then(Raw::number).is_some_and(|code| code != 0.0);
    out.push(AgentStep::CallEnded(AgentCallEnd {
        id: data.needed_text("toolCallId")?,
        failed: data.flag("success")? != Some(true) || exit_failed,
        output: error.or_else(|| text("content")).unwrap_or_default(),
        diff: text("detailedContent").filter(|text| text.contains("\n@@ ")),
    }));
    Ok(())
}

fn usage<'a>(usage: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    let keys = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"];
    out.push(AgentStep::Usage(AgentUsage {
        usage: usage.usage_with_cache_in_input(keys)?,
        model: usage.text("model")?,
        // Its `cost` counts requests of the plan, not dollars.
        ..AgentUsage::default()
    }));
    Ok(())
}
