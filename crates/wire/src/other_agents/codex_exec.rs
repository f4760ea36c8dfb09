//! `codex exec --json`: threads, turns and items, as 0.166.0 writes them.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, CallAction, ChangedFile,
    FileContent, SessionFacts, TurnOutcome,
};
use super::tools::{is_shell, todos};
use super::{Knowledge, LineSteps};
use crate::json::ParseError;

pub(super) fn is_line(name: &str) -> bool {
    matches!(
        name,
        "thread.started"
            | "turn.started"
            | "turn.completed"
            | "turn.failed"
            | "item.started"
            | "item.updated"
            | "item.completed"
    )
}

pub(super) fn read<'a>(
    name: &str,
    line: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    match name {
        "thread.started" => {
            line.needed_text("thread_id")?;
            out.session = line.raw().get("thread_id").and_then(crate::json::Raw::text);
            let facts = SessionFacts { new_process: true, ..SessionFacts::default() };
            out.push(AgentStep::Session(facts));
        }
        "turn.started" => out.push(AgentStep::TurnStarted),
        "turn.completed" => {
            let usage = match line.object("usage")? {
                Some(usage) => Some(usage.usage_with_cache_in_input([
                    "input_tokens",
                    "output_tokens",
                    "cached_input_tokens",
                    "cache_write_input_tokens",
                ])?),
                None => None,
            };
            let end = AgentTurnEnd::new(TurnOutcome::Completed, None);
            out.push(AgentStep::TurnEnded(AgentTurnEnd { usage, ..end }));
        }
        "turn.failed" => {
            let error = line.error("error");
            out.push(AgentStep::TurnEnded(AgentTurnEnd::new(TurnOutcome::Failed, error)));
        }
        _ => return item(name == "item.completed", line.needed_object("item")?, out),
    }
    Ok(Knowledge::Known)
}

fn item<'a>(
    completed: bool,
    item: ObjectFields<'a>,
    out: &mut LineSteps<'a>,
) -> Result<Knowledge, ParseError> {
    // The first releases called it `item_type`.
    let kind = item.any("type").or(item.any("item_type"));
    let Some(kind) = out.inside(kind) else {
        return item.needed_text("type").map(|_| Knowledge::Unknown);
    };
    let id = || item.needed_text("id");
    match &*kind {
        // The text is whole in the last line of the item.
        "agent_message" | "assistant_message" if completed => {
            let text = AgentText::whole(item.text("id")?, item.needed_text("text")?);
            out.push(AgentStep::Text(text));
        }
        "reasoning" if completed => {
            let text = AgentText::whole(item.text("id")?, item.needed_text("text")?);
            out.push(AgentStep::Thinking(text));
        }
        "agent_message" | "assistant_message" | "reasoning" => {}
        "command_execution" => {
            let written = item.needed_text("command")?;
            let action = CallAction::Run { command: script_of(written) };
            push_call(item, id()?, "command_execution", action, out);
            if completed {
                let exit_code = item.number("exit_code")?;
                let output = item.text("aggregated_output")?.unwrap_or_default();
                let failed = !is_completed(item)? || exit_code.is_some_and(|code| code != 0.0);
                push_end(id()?, output, failed, out);
            }
        }
        "file_change" => {
            let action = CallAction::Change(changes(item)?);
            push_call(item, id()?, "file_change", action, out);
            if completed {
                push_end(id()?, Cow::Borrowed(""), !is_completed(item)?, out);
            }
        }
        "mcp_tool_call" => {
            let (server, tool) = (item.text("server")?, item.needed_text("tool")?);
            let tool = match server {
                Some(server) => Cow::Owned(format!("{server}.{tool}")),
                None => tool,
            };
            let input = item.any("arguments").map_or("{}", crate::json::Raw::as_str);
            out.push(AgentStep::Call(AgentCall {
                id: id()?,
                tool,
                input: Cow::Borrowed(input),
                action: CallAction::Other,
            }));
            if completed {
                let error = item.error("error");
                let failed = error.is_some() || !is_completed(item)?;
                let result = item.object("result")?;
                let output = match result {
                    Some(result) => result.joined_text("content")?,
                    None => Cow::Borrowed(""),
                };
                push_end(id()?, error.unwrap_or(output), failed, out);
            }
        }
        "web_search" => {
            let query = item.text("query")?.unwrap_or_default();
            push_call(item, id()?, "web_search", CallAction::SearchWeb { query }, out);
            if completed {
                push_end(id()?, Cow::Borrowed(""), false, out);
            }
        }
        "todo_list" => {
            let list = todos(item.raw()).unwrap_or_default();
            // Every state of the list is a call of its own, for each has an end.
            let done = list.iter().filter(|todo| todo.state == "completed").count();
            let state: Cow<'a, str> = Cow::Owned(format!("{}/{done}/{}", id()?, list.len()));
            push_call(item, state.clone(), "todo_list", CallAction::Track(list), out);
            push_end(state, Cow::Borrowed(""), false, out);
        }
        "collab_tool_call" | "image_generation" | "image_view" | "dynamic_tool_call" => {
            push_call(item, id()?, "", CallAction::Other, out);
            if completed {
                push_end(id()?, Cow::Borrowed(""), !is_completed(item)?, out);
            }
        }
        // A warning; a turn that fails says so itself.
        "error" => out.push(AgentStep::Notice(item.needed_text("message")?)),
        _ => return Ok(Knowledge::Unknown),
    }
    Ok(Knowledge::Known)
}

/// Whether the item did what it was meant to do. A state that is not known here did not.
fn is_completed(item: ObjectFields<'_>) -> Result<bool, ParseError> {
    Ok(item.text("status")?.is_none_or(|status| status == "completed"))
}

fn push_call<'a>(
    item: ObjectFields<'a>,
    id: Cow<'a, str>,
    tool: &'static str,
    action: CallAction<'a>,
    out: &mut LineSteps<'a>,
) {
    let tool = if tool.is_empty() {
        item.text_if_string("tool").or(item.text_if_string("type")).unwrap_or_default()
    } else {
        Cow::Borrowed(tool)
    };
    let input = Cow::Borrowed(item.raw().as_str());
    out.push(AgentStep::Call(AgentCall { id, tool, input, action }));
}

fn push_end<'a>(id: Cow<'a, str>, output: Cow<'a, str>, failed: bool, out: &mut LineSteps<'a>) {
    out.push(AgentStep::CallEnded(AgentCallEnd { id, output, failed, diff: None }));
}

fn changes(item: ObjectFields<'_>) -> Result<Vec<ChangedFile<'_>>, ParseError> {
    let mut files = Vec::new();
    for change in item.objects("changes")? {
        let kind = change.text("kind")?;
        files.push(ChangedFile {
            path: change.needed_text("path").map_err(|error| error.under("changes"))?,
            change: match kind.as_deref() {
                Some("add") => FileContent::Written(None),
                Some("delete") => FileContent::Deleted,
                _ => FileContent::Patched(None),
            },
        });
    }
    Ok(files)
}

/// The script of a command that is given to a shell, as in `/bin/bash -lc 'make test'`.
pub(super) fn script_of(command: Cow<'_, str>) -> Cow<'_, str> {
    let mut words = command.splitn(3, ' ');
    let (Some(shell), Some("-lc" | "-c"), Some(script)) =
        (words.next(), words.next(), words.next())
    else {
        return command;
    };
    if !is_shell(shell) {
        return command;
    }
    let inside = |quote: char| script.strip_prefix(quote)?.strip_suffix(quote);
    if let Some(inside) = inside('\'') {
        return Cow::Owned(inside.replace(r"'\''", "'"));
    }
    if let Some(inside) = inside('"') {
        return Cow::Owned(inside.replace("\\\"", "\"").replace("\\$", "$").replace("\\\\", "\\"));
    }
    Cow::Owned(script.to_owned())
}

#[cfg(test)]
mod tests {
    use super::script_of;

    #[test]
    fn what_a_shell_runs_is_the_command() {
        for (command, script) in [
            ("/bin/bash -lc 'echo hi; ls'", "echo hi; ls"),
            ("bash -lc ls", "ls"),
            (r#"zsh -c "echo \"\$HOME\"""#, r#"echo "$HOME""#),
            (r"bash -lc 'it'\''s'", "it's"),
            ("make -lc 'x'", "make -lc 'x'"),
            ("ls", "ls"),
        ] {
            assert_eq!(script_of(command.into()), script);
        }
    }
}
