//! Hooks: programs that get the same JSON as the CLI's own hooks.
//!
//! They run one after the other, in the order of the stream, each with a time limit. They cannot stop
//! the agent, which has continued meanwhile. A failing hook is logged and counted.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::process::{Program, ProgramError};
use crate::report::LogLine;
use crate::stream_event::{AgentSessionId, Change};
use crate::workers::WorkerEvent;

/// How many calls may wait. Further ones are dropped and reported.
pub(crate) const MAX_WAITING: usize = 256;

/// The hooks to run.
#[derive(Clone, Debug)]
pub struct HookSettings {
    /// Run when a file is about to change.
    pub pre: Option<String>,
    /// Run when a file has changed.
    pub post: Option<String>,
    /// Run when a turn has ended.
    pub stop: Option<String>,
    /// GitButler's program, if its hooks should run.
    pub gitbutler: Option<PathBuf>,
    /// The time limit of one hook.
    pub timeout: Duration,
    /// The home directory, where the CLI stores its transcripts.
    pub home: Option<PathBuf>,
}

impl Default for HookSettings {
    fn default() -> Self {
        let timeout = Duration::from_mins(1);
        Self { pre: None, post: None, stop: None, gitbutler: None, timeout, home: None }
    }
}

impl HookSettings {
    pub(crate) fn any_for_tools(&self) -> bool {
        self.pre.is_some() || self.post.is_some() || self.gitbutler.is_some()
    }

    pub(crate) fn any(&self) -> bool {
        self.any_for_tools() || self.stop.is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum HookEvent {
    #[serde(rename = "PreToolUse")]
    Pre,
    #[serde(rename = "PostToolUse")]
    Post,
    Stop,
}

/// The state of the session that every hook gets.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookContext {
    pub(crate) session: Option<AgentSessionId>,
    pub(crate) cwd: PathBuf,
    pub(crate) permission_mode: Option<String>,
}

/// One call of the hooks.
#[derive(Debug)]
pub(crate) struct HookCall {
    pub(crate) event: HookEvent,
    pub(crate) context: HookContext,
    pub(crate) tool: Option<HookToolCall>,
}

/// The tool call that a hook is about.
#[derive(Debug)]
pub(crate) struct HookToolCall {
    pub(crate) change: Change,
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) response: Option<Box<RawValue>>,
}

/// The JSON on a hook's stdin, with the fields of CLI 2.1.325.
#[derive(Serialize)]
struct HookInput<'a> {
    session_id: String,
    transcript_path: String,
    cwd: String,
    permission_mode: &'a str,
    hook_event_name: HookEvent,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_hook_active: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_use_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_response: Option<&'a RawValue>,
}

/// The task that runs hooks.
pub(crate) struct HookWorker {
    pub(crate) settings: HookSettings,
    pub(crate) calls: mpsc::Receiver<HookCall>,
    pub(crate) done: mpsc::Sender<WorkerEvent>,
    pub(crate) log: mpsc::Sender<LogLine>,
}

impl HookWorker {
    /// Runs hooks until the channel is closed. Returns how many failed.
    pub(crate) async fn run(mut self) -> u64 {
        let mut failed = 0;
        if let Err(error) = self.probe_gitbutler().await {
            failed += 1;
            self.settings.gitbutler = None;
            let text = format!("GitButler's hooks are disabled: {error}");
            let _ = self.log.send(LogLine::Problem(text)).await;
        }
        while let Some(call) = self.calls.recv().await {
            for program in self.programs(&call) {
                if let Err(error) = program.run_checked(self.settings.timeout).await {
                    failed += 1;
                    let text = format!("hook: {error}");
                    let _ = self.log.send(LogLine::Problem(text)).await;
                }
            }
            let _ = self.done.send(WorkerEvent::HookFinished).await;
        }
        failed
    }

    /// Checks that the program has the hooks: GitButler removed them in May 2026.
    async fn probe_gitbutler(&self) -> Result<(), ProgramError> {
        let Some(but) = &self.settings.gitbutler else { return Ok(()) };
        let name = format!("{} claude pre-tool", but.display());
        let probe = Program::new(but).args(["claude", "pre-tool", "--help"]).named(name);
        probe.run_checked(self.settings.timeout).await.map(drop)
    }

    fn programs(&self, call: &HookCall) -> Vec<Program> {
        let HookCall { event, context, .. } = call;
        let settings = &self.settings;
        let (line, command) = match event {
            HookEvent::Pre => (&settings.pre, "pre-tool"),
            HookEvent::Post => (&settings.post, "post-tool"),
            HookEvent::Stop => (&settings.stop, "stop"),
        };
        let mut programs = Vec::new();
        if let Some(line) = line {
            programs.push(Program::shell(line, &[]).stdin(self.input(call, tool_input(call))));
        }
        if let Some(but) = &settings.gitbutler
            // It accepts only a UUID as session id.
            && context.session.as_ref().is_some_and(AgentSessionId::is_uuid)
        {
            let name = format!("{} claude {command}", but.display());
            let program = Program::new(but).args(["claude", command]).named(name);
            programs.push(program.stdin(self.input(call, tool_input_for_gitbutler(call))));
        }
        let cwd = &context.cwd;
        programs.into_iter().map(|program| program.directory(cwd)).collect()
    }

    fn input(&self, call: &HookCall, tool_input: Option<Box<RawValue>>) -> Vec<u8> {
        let HookCall { event, context, tool } = call;
        let session_id = context.session.as_ref().map(ToString::to_string);
        let session_id = session_id.unwrap_or_default();
        let cwd = context.cwd.to_string_lossy().into_owned();
        let input = HookInput {
            transcript_path: self.transcript(&cwd, &session_id),
            session_id,
            cwd,
            permission_mode: context.permission_mode.as_deref().unwrap_or("default"),
            hook_event_name: *event,
            stop_hook_active: (*event == HookEvent::Stop).then_some(false),
            tool_name: tool.as_ref().map(|tool| &*tool.change.tool),
            tool_input,
            tool_use_id: tool.as_ref().map(|tool| &*tool.change.call.0),
            tool_response: tool.as_ref().and_then(|tool| tool.response.as_deref()),
        };
        serde_json::to_vec(&input).unwrap_or_default()
    }

    /// The CLI's transcript of the session, in a folder that is named after the working directory.
    fn transcript(&self, cwd: &str, session: &str) -> String {
        let Some(home) = &self.settings.home else { return String::new() };
        let folder = cwd.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
        let file = home.join(".claude/projects").join(folder).join(format!("{session}.jsonl"));
        file.to_string_lossy().into_owned()
    }
}

/// The input of the tool, or only the path if the input was dropped.
fn tool_input(call: &HookCall) -> Option<Box<RawValue>> {
    let tool = call.tool.as_ref()?;
    tool.input.clone().or_else(|| path_input(&tool.change))
}

/// GitButler reads `file_path`, which `NotebookEdit` calls differently.
fn tool_input_for_gitbutler(call: &HookCall) -> Option<Box<RawValue>> {
    let tool = call.tool.as_ref()?;
    if tool.change.tool == "NotebookEdit" { path_input(&tool.change) } else { tool_input(call) }
}

fn path_input(change: &Change) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    struct PathInput<'a> {
        file_path: &'a str,
    }
    serde_json::value::to_raw_value(&PathInput { file_path: &change.path }).ok()
}
