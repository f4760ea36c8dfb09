//! Events in one format, whatever their dialect: the output of `--events`.
//!
//! The names are Towpath's own and do not change with the CLI's. Values that Towpath does not
//! interpret, such as the input of a tool or the content of a result, are copied unchanged.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use wire::event::{
    Block, Body, ControlRequestKind, ControlResponse, ControlResult, Delta, Event, Fault, Message,
    Record, Signal, Stream, System, TaskPhase, TurnEnded, Usage,
};
use wire::json::{Raw, Text};
use wire::other_agents::AgentStreamReader;
use wire::{Reading, RequestId, read};

use super::input::{InputLine, InputText};
use super::normalized_step;

/// Writes the events of a line, one JSON object per line. Noise is left out.
///
/// A line of another agent has an event for each of its steps.
pub(super) fn write(
    out: &mut impl Write,
    line: &InputLine<'_>,
    agent_stream: &mut AgentStreamReader,
) -> io::Result<()> {
    let InputText::Whole(bytes) = line.text else { return Ok(()) };
    for mut reading in read(bytes) {
        agent_stream.complete(&mut reading);
        let dialect = reading.dialect.name();
        let (kind, envelope, body) = match &reading.reading {
            Reading::Event(event) => {
                (event.kind, Some(&event.envelope), NormalizedBody::new(event))
            }
            Reading::Unknown(unknown) => {
                (unknown.kind, None, NormalizedBody::Unknown { raw: unknown.object })
            }
            Reading::Mismatch(mismatch) => {
                let body =
                    NormalizedBody::Mismatch { reason: &mismatch.reason, raw: mismatch.object };
                (mismatch.kind, None, body)
            }
            Reading::Noise(_) => continue,
        };
        let bodies = match reading.event().map(|event| &event.body) {
            Some(Body::OtherAgent(other)) => {
                let events = normalized_step::events(&other.steps).into_iter();
                events.map(NormalizedBody::Step).collect()
            }
            Some(Body::Acp(acp)) => {
                let events = normalized_step::events(&agent_stream.acp_steps(acp)).into_iter();
                events.map(NormalizedBody::Step).collect()
            }
            _ => vec![body],
        };
        for body in bodies {
            let event = NormalizedEvent {
                file: line.file,
                line: line.number,
                kind: kind.to_string(),
                dialect,
                session: envelope.and_then(|it| it.session_id),
                uuid: envelope.and_then(|it| it.uuid),
                parent: envelope.and_then(|it| it.parent_tool_use_id),
                body,
            };
            serde_json::to_writer(&mut *out, &event)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct NormalizedEvent<'a> {
    file: &'a str,
    line: u64,
    kind: String,
    dialect: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uuid: Option<Text<'a>>,
    /// The call whose sub-agent sent the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Text<'a>>,
    #[serde(flatten)]
    body: NormalizedBody<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum NormalizedBody<'a> {
    Init {
        model: Option<Text<'a>>,
        cwd: Option<Text<'a>>,
        version: Option<Text<'a>>,
        mode: Option<Text<'a>>,
    },
    Assistant(NormalizedMessage<'a>),
    User {
        replay: bool,
        synthetic: bool,
        #[serde(flatten)]
        content: NormalizedMessage<'a>,
    },
    MessageStarted(NormalizedMessage<'a>),
    BlockStarted {
        index: u64,
        block: NormalizedBlock<'a>,
    },
    Delta {
        index: u64,
        of: &'static str,
        text: Option<Text<'a>>,
    },
    BlockEnded {
        index: u64,
    },
    MessageEnding {
        stop_reason: Option<Text<'a>>,
        usage: Option<NormalizedUsage>,
    },
    MessageEnded,
    TurnEnded {
        failed: bool,
        subtype: Option<Text<'a>>,
        result: Option<Text<'a>>,
        stop_reason: Option<Text<'a>>,
        cost_usd: Option<f64>,
        usage: Option<NormalizedUsage>,
    },
    Asked {
        request: RequestId<'a>,
        subtype: Option<Text<'a>>,
        tool: Option<Text<'a>>,
        call: Option<Text<'a>>,
        input: Option<Raw<'a>>,
    },
    Answered {
        request: Option<RequestId<'a>>,
        error: Option<Text<'a>>,
        answer: Option<Raw<'a>>,
    },
    AskWithdrawn {
        request: RequestId<'a>,
    },
    Retrying {
        attempt: Option<u64>,
        delay_ms: Option<f64>,
        status: Option<u64>,
    },
    Compacted {
        trigger: Option<Text<'a>>,
        tokens_before: Option<u64>,
        tokens_after: Option<u64>,
    },
    State {
        state: Text<'a>,
    },
    Task {
        phase: &'static str,
        task: Option<Text<'a>>,
        call: Option<Text<'a>>,
        status: Option<Text<'a>>,
        text: Option<Text<'a>>,
    },
    Denied {
        tool: Option<Text<'a>>,
        call: Option<Text<'a>>,
        reason: Option<Text<'a>>,
    },
    Failed {
        name: Option<Text<'a>>,
        message: Option<Text<'a>>,
    },
    Notice {
        text: Option<Text<'a>>,
    },
    /// A known kind without a normalized form.
    Other,
    Unknown {
        raw: Raw<'a>,
    },
    Mismatch {
        reason: &'a str,
        raw: Raw<'a>,
    },
    /// A step of another agent, with its `event`.
    #[serde(untagged)]
    Step(Value),
}

/// A message, complete or partial.
#[derive(Serialize)]
struct NormalizedMessage<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Text<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Text<'a>>,
    blocks: Vec<NormalizedBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<NormalizedUsage>,
}

#[derive(Serialize)]
#[serde(tag = "block", rename_all = "snake_case")]
enum NormalizedBlock<'a> {
    Text { text: Text<'a> },
    Thinking { text: Text<'a> },
    Call { id: Option<Text<'a>>, tool: Text<'a>, input: Option<Raw<'a>> },
    Result { call: Option<Text<'a>>, failed: bool, content: Option<Raw<'a>> },
    Media { of: Text<'a>, source: Option<Raw<'a>> },
    Other { of: Text<'a> },
}

#[derive(Serialize)]
struct NormalizedUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

impl<'a> NormalizedBody<'a> {
    fn new(event: &Event<'a>) -> Self {
        match &event.body {
            Body::Init(init) => Self::Init {
                model: init.model,
                cwd: init.cwd,
                version: init.version,
                mode: init.permission_mode,
            },
            Body::Assistant(assistant) => {
                let error = assistant.error.and_then(|fault| fault.name.or(fault.message));
                Self::Assistant(NormalizedMessage::new(&assistant.message, error))
            }
            Body::User(user) => Self::User {
                replay: user.replay,
                synthetic: user.synthetic,
                content: NormalizedMessage::new(&user.message, None),
            },
            Body::Stream(stream) => Self::from_stream(stream),
            Body::TurnEnded(turn) => Self::from_turn(turn, event.kind.subtype),
            Body::System(system) => Self::from_system(system),
            Body::ControlRequest(asked) => {
                let (tool, call, input) = match &asked.request {
                    ControlRequestKind::CanUseTool(ask) => {
                        (Some(ask.tool_name), ask.tool_use_id, ask.input)
                    }
                    ControlRequestKind::HookCallback { tool_use_id, input, .. } => {
                        (None, *tool_use_id, *input)
                    }
                    ControlRequestKind::McpMessage { message, .. } => (None, None, *message),
                    ControlRequestKind::Other(request) => (None, None, Some(*request)),
                };
                let subtype = event.kind.subtype;
                Self::Asked { request: asked.request_id, subtype, tool, call, input }
            }
            Body::ControlResponse(ControlResponse { request_id, response }) => match response {
                ControlResult::Success(answer) => {
                    Self::Answered { request: *request_id, error: None, answer: *answer }
                }
                ControlResult::Error(error) => {
                    Self::Answered { request: *request_id, error: *error, answer: None }
                }
            },
            Body::ControlCancel(cancel) => Self::AskWithdrawn { request: cancel.request_id },
            Body::Signal(signal) => Self::from_signal(signal),
            Body::Record(Record::Title(text)) => Self::Notice { text: *text },
            Body::Record(_) | Body::Acp(_) | Body::OtherAgent(_) => Self::Other,
        }
    }

    fn from_stream(stream: &Stream<'a>) -> Self {
        match stream {
            Stream::MessageStart(message) => {
                Self::MessageStarted(NormalizedMessage::new(message, None))
            }
            Stream::BlockStart { index, block } => {
                Self::BlockStarted { index: *index, block: NormalizedBlock::new(*block) }
            }
            Stream::BlockDelta { index, delta } => {
                let (of, text) = match delta {
                    Delta::Text(text) => ("text", Some(*text)),
                    Delta::Thinking(text) => ("thinking", Some(*text)),
                    Delta::Signature(text) => ("signature", Some(*text)),
                    Delta::InputJson(text) => ("input", Some(*text)),
                    Delta::Known(_) | Delta::Other(_) => ("other", None),
                };
                Self::Delta { index: *index, of, text }
            }
            Stream::BlockStop { index } => Self::BlockEnded { index: *index },
            Stream::MessageDelta { stop_reason, usage } => Self::MessageEnding {
                stop_reason: *stop_reason,
                usage: usage.map(NormalizedUsage::from),
            },
            Stream::MessageStop => Self::MessageEnded,
            Stream::Ping => Self::Other,
            Stream::Error(fault) => Self::from_fault(*fault),
        }
    }

    fn from_turn(turn: &TurnEnded<'a>, subtype: Option<Text<'a>>) -> Self {
        Self::TurnEnded {
            failed: turn.failed(),
            subtype,
            result: turn.result,
            stop_reason: turn.stop_reason,
            cost_usd: turn.total_cost_usd,
            usage: turn.usage.map(NormalizedUsage::from),
        }
    }

    fn from_system(system: &System<'a>) -> Self {
        match system {
            System::ApiRetry(retry) => Self::Retrying {
                attempt: retry.attempt,
                delay_ms: retry.retry_delay_ms,
                status: retry.error_status,
            },
            System::CompactBoundary(boundary) => Self::Compacted {
                trigger: boundary.trigger,
                tokens_before: boundary.pre_tokens,
                tokens_after: boundary.post_tokens,
            },
            System::SessionState(session) => Self::State { state: session.state },
            System::Task(task) => Self::Task {
                phase: match task.phase {
                    TaskPhase::Started => "started",
                    TaskPhase::Progress => "progress",
                    TaskPhase::Updated => "updated",
                    TaskPhase::Notification => "ended",
                },
                task: task.task_id,
                call: task.tool_use_id,
                status: task.status,
                text: task.summary.or(task.description),
            },
            System::PermissionDenied(denied) => Self::Denied {
                tool: denied.tool_name,
                call: denied.tool_use_id,
                reason: denied.message,
            },
            System::Notice(notice) => Self::Notice { text: notice.text },
            System::Status(_) | System::ThinkingTokens(_) | System::Hook(_) | System::Other => {
                Self::Other
            }
        }
    }

    fn from_signal(signal: &Signal<'a>) -> Self {
        match signal {
            Signal::Error(fault) => Self::from_fault(*fault),
            Signal::ToolUseSummary(text) | Signal::PromptSuggestion(text) => {
                Self::Notice { text: *text }
            }
            Signal::PermissionPrompt(prompt) => Self::Notice { text: prompt.prompt },
            Signal::RateLimit(_)
            | Signal::ToolProgress(_)
            | Signal::CommandLifecycle(_)
            | Signal::ConversationReset(_)
            | Signal::Other => Self::Other,
        }
    }

    fn from_fault(fault: Fault<'a>) -> Self {
        Self::Failed { name: fault.name, message: fault.message }
    }
}

impl<'a> NormalizedMessage<'a> {
    fn new(message: &Message<'a>, error: Option<Text<'a>>) -> Self {
        Self {
            message: message.id,
            model: message.model,
            error,
            blocks: message.content.blocks().map(NormalizedBlock::new).collect(),
            usage: message.usage.map(NormalizedUsage::from),
        }
    }
}

impl<'a> NormalizedBlock<'a> {
    fn new(block: Block<'a>) -> Self {
        match block {
            Block::Text(text) => Self::Text { text },
            Block::Thinking(text) => Self::Thinking { text },
            Block::ToolUse(call) => Self::Call { id: call.id, tool: call.name, input: call.input },
            Block::ToolResult(result) => Self::Result {
                call: result.tool_use_id,
                failed: result.failed(),
                content: result.content,
            },
            Block::Media { name, source } => Self::Media { of: name, source },
            Block::Other(name) | Block::Unknown(name) => Self::Other { of: name },
        }
    }
}

impl From<Usage> for NormalizedUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input_tokens,
            output: usage.output_tokens,
            cache_read: usage.cache_read_input_tokens,
            cache_write: usage.cache_creation_input_tokens,
        }
    }
}
