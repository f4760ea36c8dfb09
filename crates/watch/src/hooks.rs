//! Programs that are told of changes, as the CLI tells its own hooks.
//!
//! They run one after the other, in the order of the stream, each for a limited time. They cannot
//! stop the agent, which has gone on: a hook that fails is spoken of and nothing else.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::log_line::LogLine;
use crate::process::{Program, ProgramError};
use crate::stream_event::{AgentSessionId, Change};
use crate::workers::WorkerEvent;

/// How many may wait to be told. One more is not told, which is spoken of.
pub(crate) const WAITING: usize = 256;

/// Who is told of what.
#[derive(Clone, Debug)]
pub struct HookSettings {
    /// CommandRun when a change is announced.
    pub pre: Option<String>,
    /// CommandRun when a file has changed.
    pub post: Option<String>,
    /// CommandRun when a turn is over.
    pub stop: Option<String>,
    /// GitButler's program, if its hooks are to be run.
    pub gitbutler: Option<PathBuf>,
    /// How long one may run.
    pub limit: Duration,
    /// The home directory, below which the CLI keeps its transcripts.
    pub home: Option<PathBuf>,
}

impl Default for HookSettings {
    fn default() -> Self {
        let limit = Duration::from_mins(1);
        Self { pre: None, post: None, stop: None, gitbutler: None, limit, home: None }
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

/// When a hook is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum HookMoment {
    #[serde(rename = "PreToolUse")]
    Pre,
    #[serde(rename = "PostToolUse")]
    Post,
    Stop,
}

/// What hooks are told about where and for whom the agent works.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookContext {
    pub(crate) session: Option<AgentSessionId>,
    pub(crate) cwd: PathBuf,
    pub(crate) permission_mode: Option<String>,
}

/// What a hook is told.
#[derive(Debug)]
pub(crate) struct HookCall {
    pub(crate) moment: HookMoment,
    pub(crate) circumstances: HookContext,
    pub(crate) tool: Option<HookToolCall>,
}

/// The call it is about.
#[derive(Debug)]
pub(crate) struct HookToolCall {
    pub(crate) change: Change,
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) response: Option<Box<RawValue>>,
}

/// The JSON on a hook's stdin, field by field as 2.1.325 writes it.
#[derive(Serialize)]
struct HookInput<'a> {
    session_id: String,
    transcript_path: String,
    cwd: String,
    permission_mode: &'a str,
    hook_event_name: HookMoment,
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
pub(crate) struct Hooks {
    pub(crate) settings: HookSettings,
    pub(crate) calls: mpsc::Receiver<HookCall>,
    pub(crate) done: mpsc::Sender<WorkerEvent>,
    pub(crate) log: mpsc::Sender<LogLine>,
}

impl Hooks {
    /// Runs until nobody has anything to tell; how many failed.
    pub(crate) async fn run(mut self) -> u64 {
        let mut failed = 0;
        if let Err(error) = self.probe_gitbutler().await {
            failed += 1;
            self.settings.gitbutler = None;
            let what = format!("GitButler's hooks are not run: {error}");
            let _ = self.log.send(LogLine::Problem(what)).await;
        }
        while let Some(call) = self.calls.recv().await {
            for program in self.programs(&call) {
                if let Err(error) = program.succeed(self.settings.limit).await {
                    failed += 1;
                    let what = format!("hook: {error}");
                    let _ = self.log.send(LogLine::Problem(what)).await;
                }
            }
            let _ = self.done.send(WorkerEvent::HookRun).await;
        }
        failed
    }

    /// GitButler took these hooks out of its program in May 2026; one that lacks them is told once.
    async fn probe_gitbutler(&self) -> Result<(), ProgramError> {
        let Some(but) = &self.settings.gitbutler else { return Ok(()) };
        let name = format!("{} claude pre-tool", but.display());
        let probe = Program::new(but).args(["claude", "pre-tool", "--help"]).called(name);
        probe.succeed(self.settings.limit).await.map(drop)
    }

    fn programs(&self, call: &HookCall) -> Vec<Program> {
        let HookCall { moment, circumstances, .. } = call;
        let settings = &self.settings;
        let (line, butler) = match moment {
            HookMoment::Pre => (&settings.pre, "pre-tool"),
            HookMoment::Post => (&settings.post, "post-tool"),
            HookMoment::Stop => (&settings.stop, "stop"),
        };
        let mut programs = Vec::new();
        if let Some(line) = line {
            programs.push(Program::shell(line, &[]).stdin(self.told(call, input(call))));
        }
        if let Some(but) = &settings.gitbutler
            // It takes nothing else for a session.
            && circumstances.session.as_ref().is_some_and(AgentSessionId::is_uuid)
        {
            let name = format!("{} claude {butler}", but.display());
            let program = Program::new(but).args(["claude", butler]).called(name);
            programs.push(program.stdin(self.told(call, input_for_gitbutler(call))));
        }
        let cwd = &circumstances.cwd;
        programs.into_iter().map(|program| program.directory(cwd)).collect()
    }

    fn told(&self, call: &HookCall, tool_input: Option<Box<RawValue>>) -> Vec<u8> {
        let HookCall { moment, circumstances, tool } = call;
        let session_id = circumstances.session.as_ref().map(ToString::to_string);
        let session_id = session_id.unwrap_or_default();
        let cwd = circumstances.cwd.to_string_lossy().into_owned();
        let told = HookInput {
            transcript_path: self.transcript(&cwd, &session_id),
            session_id,
            cwd,
            permission_mode: circumstances.permission_mode.as_deref().unwrap_or("default"),
            hook_event_name: *moment,
            stop_hook_active: (*moment == HookMoment::Stop).then_some(false),
            tool_name: tool.as_ref().map(|tool| &*tool.change.tool),
            tool_input,
            tool_use_id: tool.as_ref().map(|tool| &*tool.change.call.0),
            tool_response: tool.as_ref().and_then(|tool| tool.response.as_deref()),
        };
        serde_json::to_vec(&told).unwrap_or_default()
    }

    /// Where the CLI keeps the session: a folder named after the working directory.
    fn transcript(&self, cwd: &str, session: &str) -> String {
        let Some(home) = &self.settings.home else { return String::new() };
        let folder = cwd.replace(|it: char| !it.is_ascii_alphanumeric(), "-");
        let file = home.join(".claude/projects").join(folder).join(format!("{session}.jsonl"));
        file.to_string_lossy().into_owned()
    }
}

/// What the tool was given, or where that was left out, the file alone.
fn input(call: &HookCall) -> Option<Box<RawValue>> {
    let tool = call.tool.as_ref()?;
    tool.input.clone().or_else(|| only_path(&tool.change))
}

/// GitButler looks for `file_path`, which notebooks have another name for.
fn input_for_gitbutler(call: &HookCall) -> Option<Box<RawValue>> {
    let tool = call.tool.as_ref()?;
    if tool.change.tool == "NotebookEdit" { only_path(&tool.change) } else { input(call) }
}

fn only_path(change: &Change) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    struct PathInput<'a> {
        file_path: &'a str,
    }
    serde_json::value::to_raw_value(&PathInput { file_path: &change.path }).ok()
}
