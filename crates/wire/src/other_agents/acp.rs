//! Messages of the Agent Client Protocol as steps, for those who only count calls and files.

use std::borrow::Cow;

use super::fields::ObjectFields;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, CallAction, ChangedFile,
    FileContent, SessionFacts, TextExtent, TurnOutcome,
};
use super::tools::action;
use crate::acp::event::{
    AcpCallBody, AcpEvent, AcpResult, AgentToolCall, AgentUpdate, ChunkAuthor,
};
use crate::json::{Raw, Shape, Text};

/// The steps of a message. The answer to a prompt that failed is not among them, because only its id
/// tells that it is one.
pub(super) fn steps<'a>(event: &AcpEvent<'a>) -> Vec<AgentStep<'a>> {
    match event {
        AcpEvent::Update { update, .. } => update_steps(update),
        AcpEvent::Call(call) => match &call.body {
            AcpCallBody::Permission { call: Some(call), .. } => call_steps(call),
            AcpCallBody::Prompt { content, .. } => {
                let texts = content.items().filter_map(|block| block.get("text")?.text());
                let texts: Vec<_> = texts.map(Text::decode).collect();
                vec![AgentStep::Prompt(Cow::Owned(texts.join("\n")))]
            }
            _ => Vec::new(),
        },
        AcpEvent::Response(response) => match &response.result {
            Ok(AcpResult::Initialized { agent, .. }) => {
                let version = agent.and_then(|it| ObjectFields::new(it).text_if_string("version"));
                vec![AgentStep::Session(SessionFacts { version, ..SessionFacts::default() })]
            }
            Ok(AcpResult::TurnEnded { stop_reason, usage, .. }) => {
                vec![AgentStep::TurnEnded(turn_end(*stop_reason, *usage))]
            }
            _ => Vec::new(),
        },
    }
}

fn update_steps<'a>(update: &AgentUpdate<'a>) -> Vec<AgentStep<'a>> {
    match update {
        AgentUpdate::Chunk { author, text, .. } => {
            let text = text.map(Text::decode);
            let extent = TextExtent::OnlyDelta;
            text_step(*author, AgentText { message: None, text: text.unwrap_or_default(), extent })
        }
        AgentUpdate::Message { author, message, content: Some(content) } => {
            let blocks = content.items().filter_map(|block| block.get("text")?.text());
            let text = blocks.map(Text::decode).collect::<Vec<_>>().join("\n");
            text_step(*author, AgentText::whole(Some(message.decode()), Cow::Owned(text)))
        }
        AgentUpdate::ToolCall(call) => call_steps(call),
        AgentUpdate::Compaction { status: Some(status), .. } if *status == *"completed" => {
            vec![AgentStep::Compacted]
        }
        AgentUpdate::State { state, stop_reason, usage, .. } if *state == *"idle" => {
            let end = stop_reason.map(|reason| turn_end(reason, *usage));
            end.map(AgentStep::TurnEnded).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// What the user wrote is in the prompt already.
fn text_step(author: ChunkAuthor, text: AgentText<'_>) -> Vec<AgentStep<'_>> {
    match author {
        ChunkAuthor::User => Vec::new(),
        ChunkAuthor::Agent => vec![AgentStep::Text(text)],
        ChunkAuthor::Thought => vec![AgentStep::Thinking(text)],
    }
}

fn call_steps<'a>(call: &AgentToolCall<'a>) -> Vec<AgentStep<'a>> {
    let id = call.id.decode();
    let tool = call.name.or(call.kind).map_or(Cow::Borrowed("tool"), Text::decode);
    let input = Cow::Borrowed(call.raw_input.map_or("{}", Raw::as_str));
    let action = call_action(call, &tool);
    let mut steps = vec![AgentStep::Call(AgentCall { id: id.clone(), tool, input, action })];
    let status = call.status.map(Text::decode);
    if let Some("completed" | "failed" | "cancelled") = status.as_deref() {
        let failed = status.as_deref() != Some("completed");
        steps.push(AgentStep::CallEnded(AgentCallEnd {
            id,
            output: call_output(call),
            failed,
            diff: None,
        }));
    }
    steps
}

fn call_action<'a>(call: &AgentToolCall<'a>, tool: &str) -> CallAction<'a> {
    let mut files: Vec<_> =
        call.content.into_iter().flat_map(Raw::items).flat_map(changed_files).collect();
    let locations = call.locations.into_iter().flat_map(Raw::items);
    let mut paths = locations.filter_map(|it| it.get("path")?.text()).map(Text::decode);
    match call.kind.map(Text::decode).as_deref() {
        Some("edit" | "delete" | "move") if files.is_empty() => {
            let deletes = call.kind.is_some_and(|kind| kind == *"delete");
            files = paths
                .map(|path| ChangedFile {
                    path,
                    change: if deletes { FileContent::Deleted } else { FileContent::Patched(None) },
                })
                .collect();
        }
        Some("execute") => {
            let command = call.raw_input.map(|input| action("bash", input));
            if let Some(run @ CallAction::Run { .. }) = command {
                return run;
            }
            return CallAction::Run { command: call.title.map(Text::decode).unwrap_or_default() };
        }
        Some("read") => {
            if let Some(path) = paths.next() {
                return CallAction::Read { path };
            }
        }
        _ => {}
    }
    if !files.is_empty() {
        return CallAction::Change(files);
    }
    call.raw_input.map_or(CallAction::Other, |input| action(tool, input))
}

/// The files of a diff: one with its texts in version 1, any number in version 2.
fn changed_files(block: Raw<'_>) -> Vec<ChangedFile<'_>> {
    let block = ObjectFields::new(block);
    if block.text_if_string("type").as_deref() != Some("diff") {
        return Vec::new();
    }
    if let Some(path) = block.text_if_string("path") {
        let (before, after) = (block.text_if_string("oldText"), block.text_if_string("newText"));
        let change = match (before, after) {
            (Some(before), Some(after)) => FileContent::Replaced(vec![(before, after)]),
            (_, after) => FileContent::Written(after),
        };
        return vec![ChangedFile { path, change }];
    }
    let changes = block.any("changes").into_iter().flat_map(Raw::items).map(ObjectFields::new);
    changes
        .flat_map(|change| {
            let deleted = change.text_if_string("operation").as_deref() == Some("delete");
            let paths = ["path", "oldPath", "newPath"].map(|key| change.text_if_string(key));
            paths.into_iter().flatten().map(move |path| ChangedFile {
                path,
                change: if deleted { FileContent::Deleted } else { FileContent::Patched(None) },
            })
        })
        .collect()
}

fn call_output<'a>(call: &AgentToolCall<'a>) -> Cow<'a, str> {
    let blocks = call.content.into_iter().flat_map(Raw::items);
    let texts: Vec<_> = blocks
        .filter_map(|block| block.get("content")?.get("text")?.text())
        .map(Text::decode)
        .collect();
    if !texts.is_empty() {
        return Cow::Owned(texts.join("\n"));
    }
    let output = call.raw_output.filter(|it| it.shape() != Shape::Null);
    let inner = ["output", "content", "stdout"].iter().find_map(|key| output?.get(key)?.text());
    inner.map(Text::decode).or_else(|| output.map(Raw::readable)).unwrap_or_default()
}

fn turn_end<'a>(stop_reason: Text<'a>, usage: Option<Raw<'a>>) -> AgentTurnEnd<'a> {
    let reason = stop_reason.decode();
    let completed = matches!(&*reason, "end_turn" | "max_tokens" | "max_turn_requests");
    let outcome = if completed { TurnOutcome::Completed } else { TurnOutcome::Failed };
    let mut end = AgentTurnEnd::new(outcome, (!completed).then_some(reason));
    let keys = ["inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens"];
    end.usage = usage.and_then(|usage| ObjectFields::new(usage).usage(keys).ok());
    end
}
