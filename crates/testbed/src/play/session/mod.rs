//! The session: a state machine that gets inputs and returns effects.
//!
//! [`PlayerSession::on`] is the only entry. Nothing here waits, reads a file or reads a clock.
//! A turn starts with prompts from the queue and ends with a `result` line. During a turn, the main
//! agent and its sub-agents send requests to the model and run tool calls.

mod calls;
mod catalog;
mod commands;
mod control;
mod conversation;
mod host_requests;
mod mcp_servers;
mod output;
mod queries;
mod queue;
mod structured_output;
mod tasks;
mod turn;

#[cfg(test)]
mod tests;

pub(crate) use conversation::{PlayerHistory, PlayerHistoryEntry};
pub(crate) use mcp_servers::initialize_params;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::play::args::PlayerArgs;
use crate::play::event::{PlayerEffect, PlayerInput, PlayerStdinLine, ToolInvocation, ToolOutcome};
use crate::play::permission::{PlayerMode, PlayerRules};
use crate::play::release::PlayerBehavior;
use crate::play::session::calls::HostHooks;
use crate::play::session::commands::SideQuestions;
use crate::play::session::conversation::{PlayerAgent, PlayerConversation, PlayerUsage};
use crate::play::session::host_requests::HostRequests;
use crate::play::session::mcp_servers::McpServers;
use crate::play::session::queue::PlayerQueue;
use crate::play::session::tasks::{BackgroundTasks, PlayerSubAgent};
use crate::play::session::turn::PlayerTurn;
use crate::play::settings::{CommandHook, PlayerEnvironment, PlayerSettings, resolve_model};
use crate::play::stamps::IdGenerator;
use crate::play::transcript::{ResumedConversation, project_folder};

/// The newest version of the CLI that the player stands in for.
pub(crate) const VERSION: &str = "2.1.325";

/// The state of a session.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the facts are independent")]
pub(crate) struct PlayerSession {
    args: PlayerArgs,
    environment: PlayerEnvironment,
    settings: PlayerSettings,
    id: String,
    ids: IdGenerator,
    /// The time of the current input.
    now: SystemTime,
    effects: Vec<PlayerEffect>,
    mode: PlayerMode,
    mode_before_plan: PlayerMode,
    rules: PlayerRules,
    /// The most tokens for thinking, if the host or the environment has set that.
    thinking_budget: Option<u64>,
    directories: Vec<PathBuf>,
    /// The model that the host chose during the session.
    model: Option<String>,
    effort: String,
    plan_name: Option<String>,
    conversation: PlayerConversation,
    sub_agents: BTreeMap<String, PlayerSubAgent>,
    queue: PlayerQueue,
    turn: Option<PlayerTurn>,
    host_requests: HostRequests,
    host_hooks: HostHooks,
    command_hooks: Vec<CommandHook>,
    servers: McpServers,
    side_questions: SideQuestions,
    /// The settings that the host has applied.
    flag_settings: Map<String, Value>,
    title: Option<String>,
    started_at: Option<SystemTime>,
    /// Background commands of the main agent that start when its reply is complete, as in 2.1.325.
    late_commands: Vec<ToolInvocation>,
    /// Calls that end after the next event of the main agent's reply, with their outcomes.
    late_outcomes: Vec<(String, ToolOutcome)>,
    /// The origins of sub-agents that the interrupt of this turn has ended.
    interrupted_sub_agents: Vec<Map<String, Value>>,
    /// Definitions of sub-agents from the host and from files.
    agents: BTreeMap<String, Value>,
    tasks: BackgroundTasks,
    usage: PlayerUsage,
    /// Ids of all prompts, to ignore duplicates.
    seen_prompts: BTreeSet<String>,
    /// Ids of the prompts in the conversation that was resumed.
    resumed_prompts: BTreeSet<String>,
    stdin_open: bool,
    state: PlayerState,
    result_count: u32,
    last_turn_failed: bool,
    request_count: u64,
    forward_sub_agent_text: bool,
    /// Whether sub-agents survive an interrupt, because the host can stop them one by one.
    keep_sub_agents: bool,
    started: bool,
    exiting: bool,
    /// The prompt to echo once the model replies.
    pending_replay: Option<(String, Value)>,
    initialized: bool,
}

/// The state for hosts that ask for `session_state_changed` lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlayerState {
    Idle,
    Running,
    RequiresAction,
}

impl PlayerState {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::RequiresAction => "requires_action",
        }
    }
}

impl PlayerSession {
    /// A session that continues the conversation `past`, which may be empty.
    pub(crate) fn new(
        args: PlayerArgs,
        environment: PlayerEnvironment,
        settings: PlayerSettings,
        id: String,
        past: ResumedConversation,
        ids: IdGenerator,
    ) -> Self {
        let servers = McpServers::parse(&args.mcp, &settings.mcp_servers);
        let agents = settings.definitions.agent_values();
        Self {
            mode: settings.mode,
            mode_before_plan: PlayerMode::Default,
            rules: settings.rules.clone(),
            thinking_budget: environment.thinking_budget,
            directories: settings.directories.clone(),
            command_hooks: settings.hooks.clone(),
            forward_sub_agent_text: false,
            effort: environment.effort.clone().unwrap_or_else(|| "medium".to_owned()),
            args,
            environment,
            settings,
            id,
            ids,
            now: SystemTime::UNIX_EPOCH,
            effects: Vec::new(),
            model: None,
            plan_name: None,
            conversation: PlayerConversation::new(PlayerAgent::Main, past.history),
            sub_agents: BTreeMap::new(),
            queue: PlayerQueue::default(),
            turn: None,
            host_requests: HostRequests::default(),
            host_hooks: HostHooks::default(),
            servers,
            side_questions: SideQuestions::default(),
            flag_settings: Map::new(),
            title: None,
            started_at: None,
            late_commands: Vec::new(),
            late_outcomes: Vec::new(),
            interrupted_sub_agents: Vec::new(),
            agents,
            tasks: BackgroundTasks::default(),
            usage: PlayerUsage::resumed(past.cost),
            seen_prompts: past.prompts.clone(),
            resumed_prompts: past.prompts,
            stdin_open: true,
            state: PlayerState::Idle,
            result_count: 0,
            last_turn_failed: false,
            request_count: 0,
            keep_sub_agents: false,
            started: false,
            exiting: false,
            pending_replay: None,
            initialized: false,
        }
    }

    /// Handles an input and returns the effects.
    pub(crate) fn on(&mut self, now: SystemTime, input: PlayerInput) -> Vec<PlayerEffect> {
        self.started_at.get_or_insert(now);
        self.now = now;
        self.handle(input);
        self.proceed();
        std::mem::take(&mut self.effects)
    }

    fn handle(&mut self, input: PlayerInput) {
        match input {
            PlayerInput::Stdin(line) => self.on_stdin_line(line),
            PlayerInput::StdinClosed => self.on_stdin_closed(),
            PlayerInput::Model(number, reply) => self.on_model_reply(number, reply),
            PlayerInput::Inspected { call, inspection } => self.on_inspected(&call, inspection),
            PlayerInput::ToolDone { call, outcome } => self.finish_call(&call, outcome),
            PlayerInput::TaskEnded { task, code } => self.on_task_ended(&task, code),
            PlayerInput::HostShellDone { output } => self.on_host_shell_done(&output),
            PlayerInput::HookDone { id, output } => self.on_command_hook_done(&id, &output),
            PlayerInput::McpLine { server, message } => self.on_mcp_line(&server, &message),
            PlayerInput::McpExited { server, .. } => self.on_mcp_exit(&server),
            PlayerInput::FilesRewound { request, response } => self.respond(&request, response),
            PlayerInput::FilesQueried { request, answer } => match answer {
                Ok(answer) => self.respond(&request, answer),
                Err(error) => self.respond_error(&request, &error, None),
            },
            PlayerInput::Timer(timer) => self.on_timer(timer),
            PlayerInput::Interrupted => {
                self.exiting = true;
                if self.turn.is_some() && self.has(PlayerBehavior::SigintEndsTurn) {
                    self.interrupt_turn();
                }
                self.leave_tools_without(PlayerBehavior::KillsToolsOnInterrupt);
                self.effects.push(PlayerEffect::Exit(0));
            }
            PlayerInput::Terminated => {
                if self.has(PlayerBehavior::KillsToolsOnTermination) {
                    self.print_killed_commands();
                }
                self.leave_tools_without(PlayerBehavior::KillsToolsOnTermination);
                self.effects.push(PlayerEffect::Exit(143));
            }
        }
    }

    fn on_stdin_line(&mut self, line: PlayerStdinLine) {
        match line {
            PlayerStdinLine::Prompt(line) => self.on_prompt(&line),
            PlayerStdinLine::ControlRequest { id, request } => {
                self.on_control_request(&id, &request);
            }
            PlayerStdinLine::ControlResponse(line) => self.on_control_response(&line),
            PlayerStdinLine::HistoryMessage(line) => self.on_history_message(&line),
            PlayerStdinLine::ShellCommand(line) => self.run_host_shell(&line),
            PlayerStdinLine::Ignored => {}
            PlayerStdinLine::Invalid(text) => {
                self.exiting = true;
                self.effects.push(PlayerEffect::PrintError(text));
                self.effects.push(PlayerEffect::Exit(1));
            }
        }
    }

    /// Leaves the commands running unless the release stops them.
    fn leave_tools_without(&mut self, behavior: PlayerBehavior) {
        if !self.has(behavior) {
            self.effects.push(PlayerEffect::LeaveTools);
        }
    }

    fn on_stdin_closed(&mut self) {
        self.stdin_open = false;
        self.close_host_requests();
    }

    /// Starts the next turn, or exits if there is nothing left to do.
    fn proceed(&mut self) {
        if self.exiting || self.session_hooks_running() {
            return;
        }
        let connecting = self.host_requests.connecting_servers() || self.servers.are_connecting();
        if self.turn.is_none() && !self.queue.is_empty() && !connecting {
            if !self.started && self.start_session_hooks() {
                return;
            }
            self.start_turn();
        }
        if self.turn.is_some() {
            return;
        }
        if self.queue.is_empty() && self.sub_agents.is_empty() {
            self.set_state(PlayerState::Idle);
        }
        let busy = !self.queue.is_empty() || !self.sub_agents.is_empty() || !self.tasks.is_empty();
        if !self.stdin_open && !busy && self.side_questions.is_empty() {
            self.exiting = true;
            self.effects.push(PlayerEffect::Exit(u8::from(self.last_turn_failed)));
        }
    }

    /// The name of the current model.
    fn model(&self) -> String {
        let chosen = self.model.as_deref().or(self.settings.model.as_deref());
        match chosen {
            Some(name) if name != "default" => resolve_model(name),
            _ => self.args.release.offers().model.to_owned(),
        }
    }

    /// Whether the release that is played does something.
    pub(crate) fn has(&self, behavior: PlayerBehavior) -> bool {
        self.args.release.has(behavior)
    }

    fn conversation(&mut self, agent: &PlayerAgent) -> Option<&mut PlayerConversation> {
        match agent {
            PlayerAgent::Main => Some(&mut self.conversation),
            PlayerAgent::SubAgent(id) => {
                self.sub_agents.get_mut(id).map(|sub_agent| &mut sub_agent.conversation)
            }
        }
    }

    fn transcript_path(&self) -> String {
        let folder = project_folder(&self.environment.home, &self.environment.cwd);
        folder.join(format!("{}.jsonl", self.id)).display().to_string()
    }

    /// The plan file.
    fn plan_path(&mut self) -> PathBuf {
        if self.plan_name.is_none() {
            self.plan_name = Some(format!("plan-{}", self.ids.word(8)));
        }
        let name = self.plan_name.as_deref().unwrap_or_default();
        self.environment.home.join(".claude/plans").join(format!("{name}.md"))
    }

    fn print(&mut self, line: Value) {
        if let Some(line) = self.args.release.line(line) {
            self.effects.push(PlayerEffect::Print(line));
        }
    }
}
