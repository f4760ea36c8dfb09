//! Codex's session files (`rollout-….jsonl`): envelopes with a `payload`, as 0.166.0 writes them, and
//! the bare items of the releases before August 2025.
//!
//! A rollout says most things twice, as an item of the model's API and as an event for the user. Of
//! prompts the event is taken, because the item of that name also holds what Codex adds for the
//! model; of everything else the item, with the facts that only the event has.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, AgentUsage, CallAction,
    ChangedFile, FileContent, SessionFacts, TurnOutcome, UsageScope,
};
use super::tools::action;
use super::{Knowledge, LineSteps, unwrapped_json};
use crate::json::{ParseError, Raw, Shape};

/// Events that say nothing about the conversation, or nothing that an item does not say.
const OTHER_EVENTS: &[&str] = &[
    "agent_message",
    "agent_reasoning",
    "agent_reasoning_raw_content",
    "agent_reasoning_section_break",
    "apply_patch_approval_request",
    "background_event",
    "collab_agent_interaction_begin",
    "collab_agent_interaction_end",
    "collab_agent_spawn_begin",
    "collab_agent_spawn_end",
    "collab_close_begin",
    "collab_close_end",
    "collab_waiting_begin",
    "collab_waiting_end",
    "deprecation_notice",
    "entered_review_mode",
    "exec_approval_request",
    "exec_command_begin",
    "exec_command_output_delta",
    "exited_review_mode",
    "guardian_assessment",
    "hook_completed",
    "hook_started",
    "image_generation_begin",
    "image_generation_end",
    "item_started",
    "mcp_tool_call_begin",
    "model_reroute",
    "plan_update",
    "request_user_input",
    "session_configured",
    "shutdown_complete",
    "sub_agent_activity",
    "thread_goal_updated",
    "thread_name_updated",
    "thread_rolled_back",
    "thread_settings_applied",
    "turn_diff",
    "undo_completed",
    "undo_started",
    "view_image_tool_call",
    "web_search_begin",
    "web_search_end",
];

pub(super) fn is_line(name: &str) -> bool {
    matches!(
        name,
        "session_meta"
            | "response_item"
            | "event_msg"
            | "turn_context"
            | "compacted"
            | "world_state"
            | "token_usage_record"
            | "inter_agent_communication"
            | "inter_agent_communication_metadata"
    )
}

/// Items that older files have without an envelope.
pub(super) fn is_bare_item(name: &str) -> bool {
    matches!(
        name,
        "function_call"
            | "function_call_output"
            | "custom_tool_call"
            | "custom_tool_call_output"
            | "local_shell_call"
            | "web_search_call"
            | "ghost_snapshot"
    )
}

pub(super) fn read<'a>(
    name: &str,
    line: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    if !is_line(name) {
        return item(name, line, ItemOrigin::Bare, out);
    }
    let payload = line.needed_object("payload")?;
    let under = |error: ParseError| error.under("payload");
    match name {
        "session_meta" => session(payload, out).map_err(under)?,
        "turn_context" => {
            let facts = SessionFacts {
                model: payload.text("model").map_err(under)?,
                cwd: payload.text("cwd").map_err(under)?,
                ..SessionFacts::default()
            };
            out.push(AgentStep::Session(facts));
        }
        "response_item" => {
            let kind = out.inside(payload.any("type"));
            let kind = kind.map_or_else(|| payload.needed_text("type"), Ok).map_err(under)?;
            return item(&kind, payload, ItemOrigin::Envelope, out).map_err(under);
        }
        "event_msg" => {
            let kind = out.inside(payload.any("type"));
            let kind = kind.map_or_else(|| payload.needed_text("type"), Ok).map_err(under)?;
            return event(&kind, payload, out).map_err(under);
        }
        "compacted" => out.push(AgentStep::Compacted),
        _ => {}
    }
    Ok(Knowledge::Known)
}

fn session<'a>(payload: ObjectFields<'a>, out: &mut LineSteps<'a>) -> Result<(), ParseError> {
    out.session = payload.raw().get("id").and_then(Raw::text);
    out.push(AgentStep::Session(SessionFacts {
        cwd: payload.text("cwd")?,
        version: payload.text("cli_version")?,
        ..SessionFacts::default()
    }));
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemOrigin {
    Envelope,
    /// There are no events beside it.
    Bare,
}

/// An item of the API's input or output.
fn item<'a>(
    kind: &str,
    item: ObjectFields<'a>,
    origin: ItemOrigin,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    match kind {
        "message" => {
            let role = item.needed_text("role")?;
            let text = item.joined_text("content")?;
            match &*role {
                "assistant" => out.push(AgentStep::Text(AgentText::whole(None, text))),
                "user" if origin == ItemOrigin::Bare && !is_context(&text) => {
                    out.push(AgentStep::Prompt(text));
                }
                _ => {}
            }
        }
        "reasoning" => {
            let mut text = item.joined_text("summary")?;
            if text.is_empty() {
                text = item.joined_text("content")?;
            }
            // Usually only its encrypted form is stored.
            if !text.is_empty() {
                out.push(AgentStep::Thinking(AgentText::whole(None, text)));
            }
        }
        "function_call" | "custom_tool_call" => {
            let key = if kind == "function_call" { "arguments" } else { "input" };
            let tool = item.needed_text("name")?;
            let input = item.any(key);
            let json = input.map_or(Cow::Borrowed("{}"), unwrapped_json);
            let action = owned_action(&tool, &json);
            let id = item.needed_text("call_id")?;
            out.push(AgentStep::Call(AgentCall { id, tool, input: json, action }));
        }
        "local_shell_call" => {
            let input = item.any("action");
            let id = item.text("call_id")?.or(item.text("id")?).unwrap_or_default();
            out.push(AgentStep::Call(AgentCall {
                id,
                tool: Cow::Borrowed("local_shell"),
                input: Cow::Borrowed(input.map_or("{}", Raw::as_str)),
                action: input.map_or(CallAction::Other, |it| action("local_shell", it)),
            }));
        }
        "function_call_output" | "custom_tool_call_output" => {
            let id = item.needed_text("call_id")?;
            let (output, failed) = call_output(item)?;
            out.push(AgentStep::CallEnded(AgentCallEnd { id, output, failed, diff: None }));
        }
        "web_search_call" => {
            let query = item.object("action")?.map_or(Ok(None), |it| it.text("query"))?;
            if let (Some(id), Some(query)) = (item.text("id")?, query) {
                let input = Cow::Borrowed(item.raw().as_str());
                let action = CallAction::SearchWeb { query };
                let tool = Cow::Borrowed("web_search");
                out.push(AgentStep::Call(AgentCall { id: id.clone(), tool, input, action }));
                let output = Cow::Borrowed("");
                out.push(AgentStep::CallEnded(AgentCallEnd {
                    id,
                    output,
                    failed: false,
                    diff: None,
                }));
            }
        }
        "ghost_snapshot"
        | "compaction"
        | "compaction_summary"
        | "context_compaction"
        | "compaction_trigger"
        | "image_generation_call"
        | "tool_search_call"
        | "tool_search_output"
        | "agent_message"
        | "other" => {}
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

/// What Codex adds for the model at the start of a session.
fn is_context(text: &str) -> bool {
    let text = text.trim_start();
    ["<environment_context>", "<user_instructions>", "# AGENTS.md", "<INSTRUCTIONS>"]
        .iter()
        .any(|start| text.starts_with(start))
}

/// What a call does; its input was written inside a string, so nothing can be borrowed from the line.
fn owned_action(tool: &str, input: &str) -> CallAction<'static> {
    let Some(input) = Raw::parse(input) else { return CallAction::Other };
    match action(tool, input) {
        CallAction::Run { command } => CallAction::Run { command: owned(command) },
        CallAction::Change(files) => CallAction::Change(
            files
                .into_iter()
                .map(|file| ChangedFile {
                    path: owned(file.path),
                    change: match file.change {
                        FileContent::Written(text) => FileContent::Written(text.map(owned)),
                        FileContent::Replaced(texts) => FileContent::Replaced(
                            texts.into_iter().map(|(a, b)| (owned(a), owned(b))).collect(),
                        ),
                        FileContent::Patched(diff) => FileContent::Patched(diff.map(owned)),
                        FileContent::Deleted => FileContent::Deleted,
                    },
                })
                .collect(),
        ),
        CallAction::Read { path } => CallAction::Read { path: owned(path) },
        CallAction::Search { pattern, path } => {
            CallAction::Search { pattern: owned(pattern), path: path.map(owned) }
        }
        CallAction::Fetch { url } => CallAction::Fetch { url: owned(url) },
        CallAction::SearchWeb { query } => CallAction::SearchWeb { query: owned(query) },
        CallAction::Track(todos) => CallAction::Track(
            todos
                .into_iter()
                .map(|todo| super::AgentTodo { text: owned(todo.text), state: todo.state })
                .collect(),
        ),
        CallAction::Other => CallAction::Other,
    }
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

/// The output of a call and whether it failed: text, which may be JSON with an exit code, or parts.
fn call_output(item: ObjectFields<'_>) -> Result<(Cow<'_, str>, bool), ParseError> {
    let output = item.any("output");
    if let Some(object) = output.filter(|it| it.shape() == Shape::Object).map(ObjectFields::new) {
        let failed = object.flag("success")? == Some(false);
        return Ok((object.joined_text("content")?, failed));
    }
    let text = item.joined_text("output")?;
    let inner = Raw::parse(&text).and_then(|it| {
        let output = it.get("output")?.text()?.decode().into_owned();
        let code = it.get("metadata").and_then(|it| it.get("exit_code")).and_then(Raw::number);
        Some((output, code.is_some_and(|code| code != 0.0)))
    });
    Ok(if let Some((output, failed)) = inner {
        (Cow::Owned(output), failed)
    } else {
        let failed = says_failure(&text);
        (text, failed)
    })
}

/// Whether the head of an output reports a failure. Codex writes it in words for the model.
fn says_failure(text: &str) -> bool {
    let head = || text.lines().take(6);
    let code = |line: &str| {
        let number = line
            .strip_prefix("Process exited with code ")
            .or_else(|| line.strip_prefix("Exit code: "))?;
        number.trim().parse::<i64>().ok()
    };
    let exit = head().take_while(|line| !line.is_empty()).filter_map(code).last();
    exit.is_some_and(|code| code != 0)
        || head().next().is_some_and(|line| {
            line.starts_with("Script failed")
                || line.starts_with("exec_command failed")
                || line.starts_with("execution error")
                || line.starts_with("apply_patch verification failed")
                || line.starts_with("approval policy is")
                || line.starts_with("unsupported call")
                || line.contains("rejected by user")
        })
}

/// An event for the user.
fn event<'a>(
    kind: &str,
    event: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    match kind {
        "task_started" | "turn_started" => out.push(AgentStep::TurnStarted),
        "task_complete" | "turn_complete" => {
            let error = event.error("error");
            let failed = error.is_some();
            let outcome = if failed { TurnOutcome::Failed } else { TurnOutcome::Unstated };
            let mut end = AgentTurnEnd::new(outcome, error);
            end.duration_ms = event.count("duration_ms")?;
            out.push(AgentStep::TurnEnded(end));
        }
        "turn_aborted" => {
            let reason = event.text("reason")?.unwrap_or(Cow::Borrowed("aborted"));
            let end = AgentTurnEnd::new(TurnOutcome::Failed, Some(reason));
            out.push(AgentStep::TurnEnded(end));
        }
        "user_message" => {
            let text = event.needed_text("message")?;
            out.push(AgentStep::Prompt(text));
        }
        "item_completed" => return completed_item(event.needed_object("item")?, out),
        "token_count" => {
            let total = event.object("info")?.map_or(Ok(None), |it| it.object("total_token_usage"));
            if let Some(total) = total? {
                let keys = [
                    "input_tokens",
                    "output_tokens",
                    "cached_input_tokens",
                    "cache_write_input_tokens",
                ];
                out.push(AgentStep::Usage(AgentUsage {
                    usage: total.usage_with_cache_in_input(keys)?,
                    scope: UsageScope::Session,
                    ..AgentUsage::default()
                }));
            }
        }
        "exec_command_end" => {
            let output = event.text("aggregated_output")?.or(event.text("stdout")?);
            let failed = event.number("exit_code")?.is_some_and(|code| code != 0.0);
            end(event.needed_text("call_id")?, output.unwrap_or_default(), failed, out);
        }
        "patch_apply_begin" | "patch_apply_end" => {
            let id = event.needed_text("call_id")?;
            if event.has("changes") {
                push_changes(id.clone(), event, out)?;
            }
            if kind == "patch_apply_end" {
                let failed = event.flag("success")? != Some(true);
                let keys = if failed { ["stderr", "stdout"] } else { ["stdout", "stderr"] };
                let output = event.text(keys[0])?.filter(|it| !it.is_empty());
                end(id, output.or(event.text(keys[1])?).unwrap_or_default(), failed, out);
            }
        }
        "mcp_tool_call_end" => {
            let result = event.any("result");
            let failed = result.is_some_and(|it| it.get("Err").is_some());
            let content = result.and_then(|it| it.get("Ok")).map(ObjectFields::new);
            let output = match content {
                Some(content) => content.joined_text("content")?,
                None => event.error("result").unwrap_or_default(),
            };
            end(event.needed_text("call_id")?, output, failed, out);
        }
        "error" => out.push(AgentStep::Failure(event.needed_text("message")?)),
        "warning" | "stream_error" => {
            out.push(AgentStep::Notice(event.text("message")?.unwrap_or_default()));
        }
        "context_compacted" => out.push(AgentStep::Compacted),
        kind if OTHER_EVENTS.contains(&kind) => {}
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

fn end<'a>(id: Cow<'a, str>, output: Cow<'a, str>, failed: bool, out: &mut LineSteps<'a>) {
    out.push(AgentStep::CallEnded(AgentCallEnd { id, output, failed, diff: None }));
}

/// An item of the turn, as releases of 2026 write it in place of single events.
fn completed_item<'a>(
    item: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    let id = || item.needed_text("id");
    let succeeded = |status: Option<Cow<'_, str>>| status.is_none_or(|it| it == "completed");
    match &*item.needed_text("type")? {
        "UserMessage" => out.push(AgentStep::Prompt(item.joined_text("content")?)),
        "CommandExecution" => {
            let output = item.text("aggregated_output")?.unwrap_or_default();
            let exit_failed = item.number("exit_code")?.is_some_and(|code| code != 0.0);
            end(id()?, output, exit_failed || !succeeded(item.text("status")?), out);
        }
        "FileChange" => {
            let id = id()?;
            push_changes(id.clone(), item, out)?;
            let output = item.text("stdout")?.unwrap_or_default();
            end(id, output, !succeeded(item.text("status")?), out);
        }
        // The items of the model's API say the same.
        "AgentMessage"
        | "Reasoning"
        | "McpToolCall"
        | "WebSearch"
        | "Plan"
        | "ImageView"
        | "ImageGeneration"
        | "ContextCompaction"
        | "HookPrompt"
        | "CollabAgentToolCall"
        | "DynamicToolCall"
        | "EnteredReviewMode"
        | "ExitedReviewMode"
        | "SubAgentActivity" => {}
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

/// A call of `apply_patch` with the files that the event lists.
fn push_changes<'a>(
    id: Cow<'a, str>,
    event: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<(), ParseError> {
    let mut files = Vec::new();
    if let Some(changes) = event.object("changes")? {
        for (path, change) in changes.raw().fields() {
            let change = ObjectFields::new(change);
            let moved = change.text_if_string("move_path");
            let content = match change.text_if_string("type").as_deref() {
                Some("add") => FileContent::Written(change.text_if_string("content")),
                Some("delete") => FileContent::Deleted,
                _ => FileContent::Patched(change.text_if_string("unified_diff")),
            };
            files.push(ChangedFile { path: path.decode(), change: content });
            if let Some(path) = moved {
                files.push(ChangedFile { path, change: FileContent::Patched(None) });
            }
        }
    }
    out.push(AgentStep::Call(AgentCall {
        id,
        tool: Cow::Borrowed("apply_patch"),
        input: Cow::Borrowed(event.any("changes").map_or("{}", Raw::as_str)),
        action: CallAction::Change(files),
    }));
    Ok(())
}
