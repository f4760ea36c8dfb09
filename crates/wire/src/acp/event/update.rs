//! What an agent reports about a session.

use super::read::FieldSet;
use super::tool_call::AgentToolCall;
use crate::json::{Cursor, ParseError, Raw, ShapeError, Text};

/// A change of a session that an agent reports.
#[derive(Clone, Debug)]
pub enum AgentUpdate<'a> {
    /// Text or other content to be added to a message. Without an id, it continues the message before
    /// unless anything else came in between.
    Chunk {
        author: ChunkAuthor,
        message: Option<Text<'a>>,
        content: Raw<'a>,
        /// The `text` of the content, if it has one.
        text: Option<Text<'a>>,
    },
    /// A whole message, in place of what was sent of it before. The content is a block or a list.
    Message {
        author: ChunkAuthor,
        message: Text<'a>,
        content: Option<Raw<'a>>,
    },
    /// A new or changed tool call. Which of both cannot be told from the line.
    ToolCall(Box<AgentToolCall<'a>>),
    /// Content to be added to a tool call.
    ToolCallContent {
        call: Text<'a>,
        content: Raw<'a>,
    },
    /// The whole to-do list.
    Plan {
        entries: Raw<'a>,
    },
    /// The to-do list is gone.
    PlanRemoved,
    /// All slash commands.
    Commands(Raw<'a>),
    /// The mode that is in effect now.
    Mode(Text<'a>),
    /// All configuration options.
    Options(Raw<'a>),
    Info {
        title: Option<Text<'a>>,
    },
    Usage {
        /// Tokens in the context.
        used: Option<u64>,
        /// The size of the context.
        size: Option<u64>,
        /// What the session has cost so far, with its currency.
        cost: Option<Raw<'a>>,
    },
    /// A message for the user.
    Notice {
        severity: Option<Text<'a>>,
        title: Option<Text<'a>>,
        description: Option<Text<'a>>,
    },
    /// The history is being summarised, or was.
    Compaction {
        id: Option<Text<'a>>,
        status: Option<Text<'a>>,
        summary: Option<Raw<'a>>,
    },
    /// A part of the summary of a compaction.
    CompactionSummary {
        id: Option<Text<'a>>,
        content: Raw<'a>,
    },
    /// What the session does now (version 2).
    State {
        /// `running`, `requires_action` or `idle`.
        state: Text<'a>,
        stop_reason: Option<Text<'a>>,
        usage: Option<Raw<'a>>,
        error: Option<Raw<'a>>,
    },
    /// A new or changed terminal (version 2).
    Terminal {
        id: Text<'a>,
        command: Option<Text<'a>>,
        /// All of the output so far.
        output: Option<Raw<'a>>,
        exit_status: Option<Raw<'a>>,
    },
    /// Output of a terminal, in base64 (version 2).
    TerminalOutput {
        id: Text<'a>,
        data: Option<Raw<'a>>,
    },
    /// A sub-agent with a session of its own.
    SubAgent {
        session: Text<'a>,
        title: Option<Text<'a>>,
        description: Option<Text<'a>>,
        state: Option<Raw<'a>>,
    },
    /// A message between an agent and a sub-agent.
    SessionMessage {
        sender: Option<Text<'a>>,
        recipient: Option<Text<'a>>,
        content: Option<Raw<'a>>,
    },
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkAuthor {
    User,
    Agent,
    /// The agent thinks.
    Thought,
}

/// The fields of an update in the order of the line. Their kind may come last.
#[derive(Default)]
pub(super) struct UpdateFields<'a> {
    pub(super) kind: Option<Text<'a>>,
    pub(super) meta: Option<Raw<'a>>,
    fields: FieldSet<'a>,
}

impl<'a> UpdateFields<'a> {
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        cursor.fields(|cursor, key| {
            match key {
                "sessionUpdate" => this.kind = Some(cursor.value()?.text()?),
                "_meta" => this.meta = cursor.value()?.optional_raw(),
                _ => this.fields.take(cursor, key)?,
            }
            Ok(())
        })?;
        Ok(this)
    }

    /// The update; `None` if its kind is not known.
    pub(super) fn update(self) -> Result<Option<AgentUpdate<'a>>, ParseError> {
        let kind = self.kind.ok_or_else(|| ShapeError::missing("sessionUpdate"))?;
        let (fields, meta) = (&self.fields, self.meta);
        let content = || fields.content.ok_or_else(|| ShapeError::missing("content"));
        let chunk = |author| {
            let message = fields.message_id;
            let content = content()?;
            let text = content.get("text").and_then(Raw::text);
            Ok::<_, ParseError>(AgentUpdate::Chunk { author, message, content, text })
        };
        let message = |author| {
            let id = fields.message_id.ok_or_else(|| ShapeError::missing("messageId"))?;
            Ok::<_, ParseError>(AgentUpdate::Message {
                author,
                message: id,
                content: fields.content,
            })
        };
        let call = || fields.tool_call_id.ok_or_else(|| ShapeError::missing("toolCallId"));
        let terminal = || fields.terminal_id.ok_or_else(|| ShapeError::missing("terminalId"));
        Ok(Some(match &*kind.decode() {
            "user_message_chunk" => chunk(ChunkAuthor::User)?,
            "agent_message_chunk" => chunk(ChunkAuthor::Agent)?,
            "agent_thought_chunk" => chunk(ChunkAuthor::Thought)?,
            "user_message" => message(ChunkAuthor::User)?,
            "agent_message" => message(ChunkAuthor::Agent)?,
            "agent_thought" => message(ChunkAuthor::Thought)?,
            "tool_call" | "tool_call_update" => {
                AgentUpdate::ToolCall(Box::new(AgentToolCall::of(fields, call()?, meta)))
            }
            "tool_call_content_chunk" => {
                AgentUpdate::ToolCallContent { call: call()?, content: content()? }
            }
            "plan" | "plan_update" => {
                let plan = fields.entries.or_else(|| fields.plan?.get("entries"));
                AgentUpdate::Plan { entries: plan.ok_or_else(|| ShapeError::missing("entries"))? }
            }
            "plan_removed" => AgentUpdate::PlanRemoved,
            "available_commands_update" => AgentUpdate::Commands(
                fields.commands.ok_or_else(|| ShapeError::missing("availableCommands"))?,
            ),
            "current_mode_update" => AgentUpdate::Mode(
                fields.mode_id.ok_or_else(|| ShapeError::missing("currentModeId"))?,
            ),
            "config_option_update" => AgentUpdate::Options(
                fields.config_options.ok_or_else(|| ShapeError::missing("configOptions"))?,
            ),
            "session_info_update" => AgentUpdate::Info { title: fields.title },
            "usage_update" => {
                AgentUpdate::Usage { used: fields.used, size: fields.size, cost: fields.cost }
            }
            "notice" => AgentUpdate::Notice {
                severity: fields.severity,
                title: fields.title,
                description: fields.description,
            },
            "compaction_update" => AgentUpdate::Compaction {
                id: fields.compaction_id,
                status: fields.status,
                summary: fields.summary,
            },
            "compaction_summary_chunk" => {
                AgentUpdate::CompactionSummary { id: fields.compaction_id, content: content()? }
            }
            "state_update" => AgentUpdate::State {
                state: fields
                    .state
                    .and_then(Raw::text)
                    .ok_or_else(|| ShapeError::missing("state"))?,
                stop_reason: fields.stop_reason,
                usage: fields.usage,
                error: fields.error,
            },
            "terminal_update" => AgentUpdate::Terminal {
                id: terminal()?,
                command: fields.command,
                output: fields.output,
                exit_status: fields.exit_status,
            },
            "terminal_output_chunk" => {
                let data = fields.data.or(fields.output).or(fields.content);
                AgentUpdate::TerminalOutput { id: terminal()?, data }
            }
            "subagent_update" => AgentUpdate::SubAgent {
                session: fields.session_id.ok_or_else(|| ShapeError::missing("sessionId"))?,
                title: fields.title,
                description: fields.description,
                state: fields.state,
            },
            "session_message" | "session_message_chunk" => AgentUpdate::SessionMessage {
                sender: fields.sender,
                recipient: fields.recipient,
                content: fields.content,
            },
            _ => return Ok(None),
        }))
    }
}
