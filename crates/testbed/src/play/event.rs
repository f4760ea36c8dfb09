//! What happens to a session, and what a session asks for in return.
//!
//! A [`PlayerInput`] goes into the session and [`PlayerEffect`]s come out. The session has no other
//! connection to the outside.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::play::mcp_connections::McpEndpoint;

/// The number of a request to the model. It is never reused.
pub(crate) type ModelRequestNumber = u64;

/// An event that the session reacts to.
#[derive(Clone, Debug)]
pub(crate) enum PlayerInput {
    Stdin(PlayerStdinLine),
    StdinClosed,
    /// Part of the reply to a request to the model.
    Model(ModelRequestNumber, ModelReply),
    /// The preconditions of a call were checked.
    Inspected {
        call: String,
        inspection: CallInspection,
    },
    ToolDone {
        call: String,
        outcome: ToolOutcome,
    },
    /// A background shell command ended; it has no exit code if it was killed.
    TaskEnded {
        task: String,
        code: Option<i32>,
    },
    /// A shell command of the host ended.
    HostShellDone {
        output: Value,
    },
    HookDone {
        id: String,
        output: HookCommandOutput,
    },
    /// Files were restored, or the restore was simulated.
    FilesRewound {
        /// The id of the control request.
        request: Value,
        response: Value,
    },
    /// Files were looked at for the host.
    FilesQueried {
        /// The id of the control request.
        request: Value,
        answer: Result<Value, String>,
    },
    /// An MCP server outside the host has sent a message.
    McpLine {
        server: String,
        message: Value,
    },
    /// The connection to such a server has ended, or could not be made.
    McpExited {
        server: String,
        error: String,
    },
    Timer(PlayerTimer),
    /// SIGINT
    Interrupted,
    /// SIGTERM
    Terminated,
}

/// A line of stdin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlayerStdinLine {
    /// A `user` line.
    Prompt(Map<String, Value>),
    ControlRequest {
        /// The id as the host wrote it. It may be missing or no string.
        id: Value,
        request: Value,
    },
    /// The whole `control_response` line.
    ControlResponse(Value),
    /// An `assistant` or `system` line, which is added to the history unchanged.
    HistoryMessage(Map<String, Value>),
    /// A `bash_command` line: a shell command that runs without the model.
    ShellCommand(Map<String, Value>),
    Ignored,
    /// A line that ends the process, with the text for stderr.
    Invalid(String),
}

/// Part of the reply to a request to the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ModelReply {
    /// The response headers arrived, with the API's id of the request if they had one.
    Started(Option<String>),
    /// An event of the stream.
    Event(Value),
    /// A whole message, if the request did not ask for a stream.
    Message(Value),
    Ended,
    Failed(ModelFailure),
}

/// Why a request to the model failed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ModelFailure {
    /// The HTTP status, if there was a response.
    pub(crate) status: Option<u16>,
    /// The type of the API's error, such as `overloaded_error`, or a name of our own.
    pub(crate) kind: Option<String>,
    pub(crate) message: String,
    /// The API's id of the request.
    pub(crate) request_id: Option<String>,
    /// The delay that the API asked for, in milliseconds.
    pub(crate) retry_after: Option<u64>,
    /// Whether no connection could be made.
    pub(crate) refused: bool,
}

/// Whether the preconditions of a call hold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallInspection {
    Valid,
    /// The call cannot succeed, with the text for the model.
    Invalid(String),
    /// The plan that `ExitPlanMode` presents; there is no text if no plan was written.
    Plan {
        text: Option<String>,
        path: String,
    },
}

/// The outcome of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolOutcome {
    /// What the model reads: a text or blocks.
    pub(crate) content: Value,
    pub(crate) error_flag: ToolErrorFlag,
    /// The `tool_use_result`, which only the host reads.
    pub(crate) report: Value,
}

/// The `is_error` of a result. Most tools leave it out when they succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolErrorFlag {
    Error,
    Success,
    Absent,
}

impl ToolOutcome {
    /// A success without an `is_error` field.
    pub(crate) fn plain(content: impl Into<Value>, report: Value) -> Self {
        Self { content: content.into(), error_flag: ToolErrorFlag::Absent, report }
    }

    /// The tool failed.
    pub(crate) fn failure(text: &str) -> Self {
        let report = format!("Error: {text}");
        Self { content: text.into(), error_flag: ToolErrorFlag::Error, report: report.into() }
    }

    /// The call was wrong, and the tool did not run.
    pub(crate) fn invalid_call(text: &str) -> Self {
        let content = format!("<tool_use_error>{text}</tool_use_error>");
        let report = format!("Error: {}", text.strip_prefix("Error: ").unwrap_or(text));
        Self { content: content.into(), error_flag: ToolErrorFlag::Error, report: report.into() }
    }
}

/// What a host asks about the files of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostFileQuery {
    /// The entries of a directory.
    Suggestions(String),
    /// What is in a file.
    Contents {
        path: String,
        /// The most bytes.
        max: Option<usize>,
    },
}

/// What a hook command printed and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HookCommandOutput {
    /// There is none after a timeout.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// An action that the session asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlayerEffect {
    /// Writes a line to stdout.
    Print(Value),
    /// Writes a line to stderr.
    PrintError(String),
    /// Appends a line to a session's transcript.
    Record {
        session: String,
        entry: Value,
    },
    RequestModel {
        number: ModelRequestNumber,
        body: Value,
    },
    CancelRequest(ModelRequestNumber),
    /// Checks the preconditions of a call before permission is asked for.
    Inspect(ToolInvocation),
    RunTool(ToolInvocation),
    /// Stops the tool of a call.
    StopTool(String),
    /// Lets the running commands outlive the process.
    LeaveTools,
    /// Starts a shell command as a background task.
    RunInBackground {
        invocation: ToolInvocation,
        task: String,
    },
    KillTask(String),
    StartTimer {
        timer: PlayerTimer,
        after: Duration,
    },
    /// Runs a shell command of the host.
    RunHostShell {
        command: String,
    },
    /// Runs a hook of the settings files.
    RunHook {
        id: String,
        command: String,
        input: Value,
        timeout: Duration,
    },
    /// Connects to an MCP server outside the host.
    StartMcpServer {
        server: String,
        endpoint: McpEndpoint,
    },
    /// Writes a message to it.
    WriteMcpServer {
        server: String,
        message: Value,
    },
    /// Looks at files for the host.
    QueryFiles {
        /// The id of the control request.
        request: Value,
        query: HostFileQuery,
    },
    /// Restores files to their state before a prompt.
    RewindFiles {
        /// The id of the control request.
        request: Value,
        prompt: String,
        /// Whether only to report what would change.
        dry_run: bool,
    },
    /// Attributes the file changes that follow to a prompt.
    Checkpoint(String),
    /// Adds permission rules to the project's local settings.
    SaveRules(Value),
    /// Ends the process once all output is written.
    Exit(u8),
}

/// A tool call to be carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ToolInvocation {
    /// The id of the call.
    pub(crate) call: String,
    pub(crate) tool: String,
    pub(crate) input: Value,
}

/// What a timer of the session is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PlayerTimer {
    /// The next attempt of a failed request.
    Retry(ModelRequestNumber),
    /// The timeout of a hook of the host, by the id of the request to it.
    Hook(String),
}
