//! Hooks: programs that get the same JSON as the CLI's own hooks.
//!
//! They run one after the other, in the order of the stream, each with a time limit. They cannot stop
//! the agent, which has continued meanwhile. A failing hook is logged and counted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use uuid::Uuid;

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
    /// Whether the agent itself calls the hooks before a change. They are not run for the stream then.
    pub pre_by_agent: bool,
}

impl Default for HookSettings {
    fn default() -> Self {
        let timeout = Duration::from_mins(1);
        Self {
            pre: None,
            post: None,
            stop: None,
            gitbutler: None,
            timeout,
            home: None,
            pre_by_agent: false,
        }
    }
}

impl HookSettings {
    pub(crate) fn any_for_tools(&self) -> bool {
        let pre = self.pre.is_some() && !self.pre_by_agent;
        pre || self.post.is_some() || self.gitbutler.is_some()
    }

    pub(crate) fn any(&self) -> bool {
        self.any_for_tools() || self.stop.is_some()
    }
}

/// The namespace of the ids that GitButler gets for sessions whose own id is no UUID.
const SESSION_IDS: Uuid = Uuid::from_u128(0x7c3d_5f0e_1b64_4d1c_9a52_3e8f_60b7_d241);

/// The id that GitButler gets for a session whose own id is no UUID, because it accepts nothing else.
/// The same session always gets the same id.
pub(crate) fn gitbutler_session(session: &str) -> Option<Uuid> {
    let is_uuid = session.len() == 36 && Uuid::try_parse(session).is_ok();
    (!is_uuid).then(|| Uuid::new_v5(&SESSION_IDS, session.as_bytes()))
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

impl HookCall {
    fn path(&self) -> Option<String> {
        self.tool.as_ref().map(|tool| tool.change.path.clone())
    }
}

/// What the hooks of a stream did.
#[derive(Debug, Default)]
pub(crate) struct HookCounts {
    pub(crate) failed: u64,
    /// Sessions whose id is no UUID, and the ids that GitButler got.
    pub(crate) derived_sessions: BTreeMap<String, String>,
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
    /// Runs hooks until the channel is closed.
    pub(crate) async fn run(mut self) -> HookCounts {
        let mut counts = HookCounts::default();
        if let Err(error) = self.probe_gitbutler().await {
            counts.failed += 1;
            self.settings.gitbutler = None;
            let text = format!("GitButler's hooks are disabled: {error}");
            let _ = self.log.send(LogLine::Problem(text)).await;
        }
        while let Some(call) = self.calls.recv().await {
            self.log_derived_session(&call, &mut counts).await;
            for program in self.programs(&call) {
                let name = program.name().to_owned();
                let line = match program.run_checked(self.settings.timeout).await {
                    Ok(_) => LogLine::Hook { text: format!("ran `{name}`"), path: call.path() },
                    Err(error) => {
                        counts.failed += 1;
                        LogLine::Problem(format!("hook: {error}"))
                    }
                };
                let _ = self.log.send(line).await;
            }
            let _ = self.done.send(WorkerEvent::HookFinished).await;
        }
        counts
    }

    /// Logs once for each session that GitButler gets another id.
    async fn log_derived_session(&self, call: &HookCall, counts: &mut HookCounts) {
        let Some(session) = call.context.session.as_ref().map(ToString::to_string) else { return };
        if self.settings.gitbutler.is_none() || counts.derived_sessions.contains_key(&session) {
            return;
        }
        if let Some(derived) = gitbutler_session(&session) {
            let text = format!(
                "GitButler knows the session `{session}` as {derived}, because it accepts only a UUID"
            );
            let _ = self.log.send(LogLine::Note(text)).await;
            counts.derived_sessions.insert(session, derived.to_string());
        }
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
            let input = self.input(call, None, tool_input(call));
            programs.push(Program::shell(line, &[]).stdin(input));
        }
        if let (Some(but), Some(session)) = (&settings.gitbutler, &context.session) {
            let name = format!("{} claude {command}", but.display());
            let program = Program::new(but).args(["claude", command]).named(name);
            let derived = gitbutler_session(&session.to_string());
            let input = self.input(call, derived, tool_input_for_gitbutler(call));
            programs.push(program.stdin(input));
        }
        let cwd = &context.cwd;
        programs.into_iter().map(|program| program.directory(cwd)).collect()
    }

    /// The JSON for a hook. A derived session id replaces the session's own, but for the transcript.
    fn input(
        &self,
        call: &HookCall,
        derived_session: Option<Uuid>,
        tool_input: Option<Box<RawValue>>,
    ) -> Vec<u8> {
        let HookCall { event, context, tool } = call;
        let session_id = context.session.as_ref().map(ToString::to_string);
        let session_id = session_id.unwrap_or_default();
        let cwd = context.cwd.to_string_lossy().into_owned();
        let input = HookInput {
            transcript_path: self.transcript(&cwd, &session_id),
            session_id: derived_session.map_or(session_id, |it| it.to_string()),
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

#[cfg(test)]
mod tests {
    use super::gitbutler_session;

    #[test]
    fn gitbutler_gets_the_same_uuid_for_a_session_whose_id_is_none() {
        assert_eq!(gitbutler_session("019a2b1c-0000-7000-8000-000000000001"), None);
        for id in ["ses_1", "", "019a2b1c00007000800000000000000a", "x"] {
            let derived = gitbutler_session(id).expect("an id of its own");
            assert_eq!(derived.get_version_num(), 5, "{id}");
            assert_eq!(gitbutler_session(id), Some(derived));
        }
        assert_ne!(gitbutler_session("a"), gitbutler_session("b"));
    }
}
