//! `system` lines, including `init`: the state of the CLI.

use super::{EnvelopeFields, Fault, FieldOutcome};
use crate::json::{Cursor, ParseError, Raw, ShapeError, Text};
use crate::names;

/// A `system` line.
#[derive(Clone, Debug)]
pub enum System<'a> {
    /// `status`: the current activity of the CLI, or its new permission mode.
    Status(StatusUpdate<'a>),
    /// `compact_boundary`: the history before it was summarised.
    CompactBoundary(CompactBoundary<'a>),
    /// `api_retry`, and `api_error` in session files: a request to the API failed and will be
    /// retried.
    ApiRetry(ApiRetry<'a>),
    /// `session_state_changed`.
    SessionState(SessionState<'a>),
    /// `task_started`, `task_progress`, `task_updated`, `task_notification`.
    Task(Task<'a>),
    /// `thinking_tokens`: the number of thinking tokens so far.
    ThinkingTokens(ThinkingTokens),
    /// `permission_denied`: the CLI denied a call without asking the user.
    PermissionDenied(PermissionDenied<'a>),
    /// `hook_started`, `hook_progress`, `hook_response`.
    Hook(Hook<'a>),
    /// A text for the user: `informational`, `notification`, `local_command_output`, ….
    Notice(SystemNotice<'a>),
    /// A known subtype that Towpath does not interpret.
    Other,
}

/// The current activity of the CLI.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatusUpdate<'a> {
    /// `requesting`, `compacting` or absent.
    pub status: Option<Text<'a>>,
    /// The new permission mode.
    pub permission_mode: Option<Text<'a>>,
    /// The outcome of a compaction.
    pub compact_result: Option<Text<'a>>,
}

/// The history before this line was summarised.
#[derive(Clone, Copy, Debug, Default)]
pub struct CompactBoundary<'a> {
    /// `manual` or `auto`.
    pub trigger: Option<Text<'a>>,
    /// Context tokens before the compaction.
    pub pre_tokens: Option<u64>,
    /// Context tokens after the compaction.
    pub post_tokens: Option<u64>,
}

/// A request to the API failed and will be retried.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApiRetry<'a> {
    /// The failed attempt, starting at 1.
    pub attempt: Option<u64>,
    pub max_retries: Option<u64>,
    /// Milliseconds until the next attempt; may have a fraction in 2.1.197.
    pub retry_delay_ms: Option<f64>,
    /// The HTTP status, if there was a response.
    pub error_status: Option<u64>,
    pub error: Option<Fault<'a>>,
}

/// The state of the session.
#[derive(Clone, Copy, Debug)]
pub struct SessionState<'a> {
    /// `idle`, `running` or `requires_action`.
    pub state: Text<'a>,
}

/// An update about a task, which is a sub-agent or a background shell.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub phase: TaskPhase,
    pub task_id: Option<Text<'a>>,
    /// The call that started it.
    pub tool_use_id: Option<Text<'a>>,
    pub description: Option<Text<'a>>,
    /// `completed`, `failed`, `stopped`, `killed`, ….
    pub status: Option<Text<'a>>,
    pub summary: Option<Text<'a>>,
}

/// The phase of a [`Task`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskPhase {
    Started,
    Progress,
    Updated,
    /// The task ended, and the CLI informs the model.
    Notification,
}

/// The thinking tokens of the streaming message.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThinkingTokens {
    pub estimated_tokens: Option<u64>,
}

/// The CLI denied a call without asking the user.
#[derive(Clone, Copy, Debug, Default)]
pub struct PermissionDenied<'a> {
    pub tool_name: Option<Text<'a>>,
    pub tool_use_id: Option<Text<'a>>,
    /// The reason given to the model.
    pub message: Option<Text<'a>>,
}

/// An update about a hook.
#[derive(Clone, Copy, Debug)]
pub struct Hook<'a> {
    pub phase: HookPhase,
    /// The id of this run of the hook, the same on all of its lines.
    pub hook_id: Option<Text<'a>>,
    pub hook_name: Option<Text<'a>>,
    /// The event that triggered the hook.
    pub hook_event: Option<Text<'a>>,
    pub output: Option<Text<'a>>,
    pub exit_code: Option<f64>,
    /// `success`, `error` or `cancelled`.
    pub outcome: Option<Text<'a>>,
}

/// The phase of a [`Hook`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPhase {
    Started,
    Progress,
    Response,
}

/// A text for the user.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNotice<'a> {
    pub text: Option<Text<'a>>,
    /// `info`, `warning`, `high`, ….
    pub level: Option<Text<'a>>,
}

impl<'a> System<'a> {
    /// Reads a `system` line; `None` if its subtype is unknown.
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Option<Self>, ParseError> {
        let subtype = top.kind.subtype.ok_or_else(|| ShapeError::missing("subtype"))?;
        let this = match &*subtype.decode() {
            "status" => Self::Status(StatusUpdate::read(cursor, top)?),
            "compact_boundary" => Self::CompactBoundary(CompactBoundary::read(cursor, top)?),
            "api_retry" | "api_error" => Self::ApiRetry(ApiRetry::read(cursor, top)?),
            "session_state_changed" => Self::SessionState(SessionState::read(cursor, top)?),
            "task_started" => Self::Task(Task::read(cursor, top, TaskPhase::Started)?),
            "task_progress" => Self::Task(Task::read(cursor, top, TaskPhase::Progress)?),
            "task_updated" => Self::Task(Task::read(cursor, top, TaskPhase::Updated)?),
            "task_notification" => Self::Task(Task::read(cursor, top, TaskPhase::Notification)?),
            "thinking_tokens" => Self::ThinkingTokens(ThinkingTokens::read(cursor, top)?),
            "permission_denied" => Self::PermissionDenied(PermissionDenied::read(cursor, top)?),
            "hook_started" => Self::Hook(Hook::read(cursor, top, HookPhase::Started)?),
            "hook_progress" => Self::Hook(Hook::read(cursor, top, HookPhase::Progress)?),
            "hook_response" => Self::Hook(Hook::read(cursor, top, HookPhase::Response)?),
            "informational"
            | "notification"
            | "local_command_output"
            | "local_command"
            | "model_fallback"
            | "model_consent_fallback"
            | "model_refusal_fallback"
            | "model_refusal_no_fallback" => Self::Notice(SystemNotice::read(cursor, top)?),
            name if names::SYSTEM.contains(&name) => {
                top.walk(cursor, |_, _| Ok(FieldOutcome::No))?;
                Self::Other
            }
            _ => {
                top.pass(cursor)?;
                return Ok(None);
            }
        };
        Ok(Some(this))
    }
}

impl<'a> StatusUpdate<'a> {
    fn read(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        walk_fields!(top, cursor, {
            "status" => this.status, optional_text;
            "permissionMode" => this.permission_mode, optional_text;
            "compact_result" => this.compact_result, optional_text;
        })?;
        Ok(this)
    }
}

impl<'a> CompactBoundary<'a> {
    fn read(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        top.walk(cursor, |cursor, key| {
            match key {
                "compact_metadata" | "compactMetadata" => cursor.fields(|cursor, key| {
                    match key {
                        "trigger" => this.trigger = cursor.value()?.optional_text()?,
                        "pre_tokens" | "preTokens" => {
                            this.pre_tokens = cursor.value()?.optional_count()?;
                        }
                        "post_tokens" | "postTokens" => {
                            this.post_tokens = cursor.value()?.optional_count()?;
                        }
                        _ => cursor.skip()?,
                    }
                    Ok(())
                })?,
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        Ok(this)
    }
}

impl<'a> ApiRetry<'a> {
    fn read(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        top.walk(cursor, |cursor, key| {
            match key {
                "attempt" | "retryAttempt" | "retry_attempt" => {
                    this.attempt = cursor.value()?.optional_count()?;
                }
                "max_retries" | "maxRetries" => {
                    this.max_retries = cursor.value()?.optional_count()?;
                }
                "retry_delay_ms" | "retryInMs" | "retry_in_ms" => {
                    this.retry_delay_ms = cursor.value()?.optional_number()?;
                }
                "error_status" => this.error_status = cursor.value()?.optional_count()?,
                "error" => this.error = Fault::read(cursor)?,
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        Ok(this)
    }
}

impl<'a> SessionState<'a> {
    fn read(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut state = None;
        top.walk(cursor, |cursor, key| {
            if !matches!(key, "state" | "session_state") {
                return Ok(FieldOutcome::No);
            }
            state = Some(cursor.value()?.text()?);
            Ok(FieldOutcome::Yes)
        })?;
        Ok(Self { state: state.ok_or_else(|| ShapeError::missing("state"))? })
    }
}

impl<'a> Task<'a> {
    fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
        phase: TaskPhase,
    ) -> Result<Self, ParseError> {
        let mut this = Self {
            phase,
            task_id: None,
            tool_use_id: None,
            description: None,
            status: None,
            summary: None,
        };
        top.walk(cursor, |cursor, key| {
            let field = match key {
                "task_id" => &mut this.task_id,
                "tool_use_id" => &mut this.tool_use_id,
                "description" => &mut this.description,
                "status" => &mut this.status,
                "summary" => &mut this.summary,
                "patch" => {
                    let patch = cursor.value()?.optional_object()?;
                    this.status = patch.and_then(|it| it.get("status")).and_then(Raw::text);
                    return Ok(FieldOutcome::Yes);
                }
                _ => return Ok(FieldOutcome::No),
            };
            *field = cursor.value()?.optional_text()?;
            Ok(FieldOutcome::Yes)
        })?;
        Ok(this)
    }
}

impl ThinkingTokens {
    fn read<'a>(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        walk_fields!(top, cursor, {
            "estimated_tokens" => this.estimated_tokens, optional_count;
        })?;
        Ok(this)
    }
}

impl<'a> PermissionDenied<'a> {
    fn read(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        walk_fields!(top, cursor, {
            "tool_name" => this.tool_name, optional_text;
            "tool_use_id" => this.tool_use_id, optional_text;
            "message" => this.message, optional_text;
        })?;
        Ok(this)
    }
}

impl<'a> Hook<'a> {
    fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
        phase: HookPhase,
    ) -> Result<Self, ParseError> {
        let mut this = Self {
            phase,
            hook_id: None,
            hook_name: None,
            hook_event: None,
            output: None,
            exit_code: None,
            outcome: None,
        };
        top.walk(cursor, |cursor, key| {
            let field = match key {
                "hook_id" => &mut this.hook_id,
                "hook_name" => &mut this.hook_name,
                "hook_event" => &mut this.hook_event,
                "output" => &mut this.output,
                "outcome" => &mut this.outcome,
                "exit_code" => {
                    this.exit_code = cursor.value()?.optional_number()?;
                    return Ok(FieldOutcome::Yes);
                }
                _ => return Ok(FieldOutcome::No),
            };
            *field = cursor.value()?.optional_text()?;
            Ok(FieldOutcome::Yes)
        })?;
        Ok(this)
    }
}

impl<'a> SystemNotice<'a> {
    fn read(cursor: &mut Cursor<'a>, top: &mut EnvelopeFields<'a>) -> Result<Self, ParseError> {
        let mut this = Self::default();
        walk_fields!(top, cursor, {
            "content" | "text" => this.text, optional_text;
            "level" | "priority" => this.level, optional_text;
        })?;
        Ok(this)
    }
}

/// The configuration of the agent at the start of a turn. Claude Code repeats it for every turn.
#[derive(Clone, Debug, Default)]
pub struct Init<'a> {
    pub cwd: Option<Text<'a>>,
    pub model: Option<Text<'a>>,
    /// `default`, `acceptEdits`, `plan`, `bypassPermissions`, …
    pub permission_mode: Option<Text<'a>>,
    /// The version of the CLI, since 2.x.
    pub version: Option<Text<'a>>,
    /// Names of the available tools.
    pub tools: Option<Raw<'a>>,
    /// Names of the slash commands.
    pub slash_commands: Option<Raw<'a>>,
    /// Names of the sub-agents.
    pub agents: Option<Raw<'a>>,
    /// `{name, status}` of each MCP server.
    pub mcp_servers: Option<Raw<'a>>,
    /// Features that this version supports, since 2.1.325.
    pub capabilities: Option<Raw<'a>>,
    /// Names of the skills, since 2.0.
    pub skills: Option<Raw<'a>>,
    /// `{name, path}` of each plugin, since 2.0.
    pub plugins: Option<Raw<'a>>,
    /// The name of the output style.
    pub output_style: Option<Text<'a>>,
    /// Where the API key comes from.
    pub api_key_source: Option<Text<'a>>,
}

impl<'a> Init<'a> {
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        top: &mut EnvelopeFields<'a>,
    ) -> Result<Self, ParseError> {
        let mut this = Self::default();
        let mut unexpected = Vec::new();
        top.walk(cursor, |cursor, key| {
            /// Reads a field that nothing is decided on: an odd shape of it must not hide the rest.
            macro_rules! lenient {
                ($read:ident) => {
                    cursor.lenient(key, &mut unexpected, |cursor| cursor.value()?.$read())?
                };
            }
            match key {
                "cwd" => this.cwd = cursor.value()?.optional_text()?,
                "model" => this.model = cursor.value()?.optional_text()?,
                "permissionMode" => this.permission_mode = cursor.value()?.optional_text()?,
                "claude_code_version" => this.version = cursor.value()?.optional_text()?,
                "tools" => this.tools = cursor.value()?.optional_array()?,
                "slash_commands" => this.slash_commands = cursor.value()?.optional_array()?,
                "agents" => this.agents = cursor.value()?.optional_array()?,
                "mcp_servers" => this.mcp_servers = cursor.value()?.optional_array()?,
                "capabilities" => this.capabilities = cursor.value()?.optional_raw(),
                "skills" => this.skills = lenient!(optional_array),
                "plugins" => this.plugins = lenient!(optional_array),
                "output_style" => this.output_style = lenient!(optional_text),
                "apiKeySource" => this.api_key_source = lenient!(optional_text),
                _ => return Ok(FieldOutcome::No),
            }
            Ok(FieldOutcome::Yes)
        })?;
        top.unexpected.append(&mut unexpected);
        Ok(this)
    }
}
