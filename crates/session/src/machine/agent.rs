//! The life of the agent process: starting it, waiting for it, stopping it, and its exit.

use uuid::Uuid;
use wire::TurnResult;
use wire::analysis::total_cost_restarts;
use wire::note::{Actor, Delivery, ExitCause, Note, PromptState, TurnEnding};
use wire::outgoing::{Initialize, OutgoingRequest};

use super::controls::ControlPurpose;
use super::turns::final_state_without_result;
use super::{AgentExit, CommandId, Effect, Machine, StartMode};
use crate::catalog::AgentProtocol;
use crate::command::{CommandError, NewPrompt, SessionCommand};
use crate::options::SessionOptions;

/// How often an agent is killed in vain until that is reported.
const KILLS_UNTIL_REPORTED: u32 = 3;

/// The agent process as the machine sees it.
#[derive(Debug)]
pub(super) struct AgentState {
    phase: AgentPhase,
    /// The failure of a `result` outside any turn: usually why the process will not start.
    last_failure: Option<String>,
}

#[derive(Debug)]
enum AgentPhase {
    /// There is no process.
    Stopped {
        /// Whether the last process exited without being asked to.
        died: bool,
    },
    /// An earlier Towpath started it, or its shim is gone. Until the owner knows whether it runs,
    /// only its stored output arrives and nothing can be written to it.
    Unknown,
    /// The process was asked for.
    Starting,
    /// It runs and has not answered `initialize` yet.
    Initializing {
        until: u64,
    },
    /// The same for a process that an earlier Towpath started. It may be busy with a turn, so a
    /// missing answer is not a failure.
    Reattaching {
        until: u64,
    },
    Ready,
    /// It was asked to stop.
    Stopping {
        cause: ExitCause,
        until: u64,
        /// How often it was killed in vain.
        kills: u32,
    },
}

impl AgentState {
    pub(super) fn restore(may_run: bool) -> Self {
        let phase = if may_run { AgentPhase::Unknown } else { AgentPhase::Stopped { died: false } };
        Self { phase, last_failure: None }
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.phase, AgentPhase::Stopped { .. })
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.phase, AgentPhase::Ready)
    }

    /// Whether lines can be written to it.
    pub(super) fn accepts_input(&self) -> bool {
        use AgentPhase::{Initializing, Ready, Reattaching};
        matches!(self.phase, Ready | Initializing { .. } | Reattaching { .. })
    }

    /// Whether it was asked to stop.
    pub(super) fn is_stopping(&self) -> bool {
        matches!(self.phase, AgentPhase::Stopping { .. })
    }

    /// Whether it is being started with options that can no longer change.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.phase, AgentPhase::Starting)
    }

    pub(super) fn died(&self) -> bool {
        matches!(self.phase, AgentPhase::Stopped { died: true })
    }

    /// Remembers the failure of a `result` outside any turn.
    pub(super) fn set_last_failure(&mut self, result: &TurnResult) {
        self.last_failure.clone_from(&result.failure);
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        match self.phase {
            AgentPhase::Initializing { until }
            | AgentPhase::Reattaching { until }
            | AgentPhase::Stopping { until, .. } => Some(until),
            AgentPhase::Stopped { .. }
            | AgentPhase::Unknown
            | AgentPhase::Starting
            | AgentPhase::Ready => None,
        }
    }
}

impl Machine {
    pub(super) fn start_agent(&mut self) {
        if let Some(reason) = self.unreadable_options.clone() {
            for (id, _) in std::mem::take(&mut self.deferred) {
                self.reply(id, Err(CommandError::UnreadableOptions(reason.clone())));
            }
            // Another attempt would not help.
            self.failures = self.limits.restarts;
            let error = CommandError::UnreadableOptions(reason);
            return self.agent_gone(&AgentExit::NotStarted(error.to_string()));
        }
        self.agent = AgentState { phase: AgentPhase::Starting, last_failure: None };
        self.ended = false;
        if self.options.restart_pending {
            self.change_options(|options| options.restart_pending = false);
        }
        if self.resumable && self.options.without_persistence {
            self.resumable = false;
            let text = "the CLI keeps nothing of this conversation: the agent starts again without \
                        what was said before";
            self.note(Note::Problem { text: text.to_owned() });
        }
        let mode = if self.resumable { StartMode::Resume } else { StartMode::NewConversation };
        if mode == StartMode::NewConversation {
            self.restart_cost();
        }
        self.effects.push(Effect::Start(mode));
    }

    pub(super) fn agent_started(&mut self) {
        if !matches!(self.agent.phase, AgentPhase::Starting) {
            // It was closed while it started.
            self.effects.push(Effect::Kill);
            return;
        }
        self.note(Note::AgentStarted { resumed: self.resumable });
        self.agent.phase = AgentPhase::Initializing { until: self.now + self.limits.initialize };
        self.initialize();
    }

    /// A process of an earlier Towpath is attached. `initialize` shows whether it still reads.
    pub(super) fn agent_attached(&mut self, used: bool) {
        self.agent.phase = AgentPhase::Reattaching { until: self.now + self.limits.initialize };
        self.initialize();
        self.repeat_hooks();
        if !used && self.protocol == AgentProtocol::StreamJson {
            // A setting that was changed while it started is not among its arguments.
            self.send_settings();
        }
    }

    /// Nothing can be written to the process any more, whatever its last output says.
    pub(super) fn agent_lost(&mut self) {
        if !matches!(self.agent.phase, AgentPhase::Stopping { .. }) {
            self.agent.phase = AgentPhase::Unknown;
        }
    }

    fn initialize(&mut self) {
        let request = self.initialize_request();
        self.send_control(&request, ControlPurpose::Initialize);
    }

    /// Tells a running agent of hooks. It answers another `initialize` like the first one.
    pub(super) fn register_hooks(&mut self) {
        let request = self.initialize_request();
        self.send_control(&request, ControlPurpose::RegisterHooks);
    }

    fn initialize_request(&mut self) -> OutgoingRequest {
        let hooks = self.registered_hooks();
        let initialize = Initialize { forward_subagent_text: true, hooks, ..Initialize::default() };
        OutgoingRequest::Initialize(Box::new(initialize))
    }

    /// The agent has answered `initialize`. An error is an answer too.
    pub(super) fn agent_ready(&mut self, answer: Result<Option<String>, String>) {
        let waiting = matches!(
            self.agent.phase,
            AgentPhase::Initializing { .. } | AgentPhase::Reattaching { .. }
        );
        if !waiting {
            return;
        }
        let is_new = matches!(self.agent.phase, AgentPhase::Initializing { .. });
        self.agent.phase = AgentPhase::Ready;
        self.capabilities = answer.ok().flatten().or_else(|| self.capabilities.take());
        let version: Option<String> = self.capabilities.as_deref().and_then(|capabilities| {
            let capabilities = wire::json::Raw::parse(capabilities)?;
            let agent = || capabilities.get("agentInfo").or_else(|| capabilities.get("info"));
            let version = capabilities.get("claude_code_version");
            Some(version.or_else(|| agent()?.get("version"))?.text()?.into())
        });
        if is_new
            && self.protocol == AgentProtocol::StreamJson
            && total_cost_restarts(version.as_deref())
        {
            self.restart_cost();
        }
        self.note(Note::AgentReady { version });
    }

    /// The agent cannot work. It is killed; a prompt that waits is kept for the next one.
    pub(super) fn agent_failed(&mut self, reason: String, retry: bool) {
        if !self.agent.accepts_input() {
            return;
        }
        if !retry {
            self.failures = self.limits.restarts;
        }
        let cause = ExitCause::NotStarted { message: reason };
        let until = self.now + self.limits.stop;
        self.agent.phase = AgentPhase::Stopping { cause, until, kills: 1 };
        self.effects.push(Effect::Kill);
    }

    /// Asks the process to stop.
    pub(super) fn stop_agent(&mut self, cause: ExitCause) {
        let timeout = self.limits.stop;
        match self.agent.phase {
            AgentPhase::Stopping { .. } if cause == ExitCause::Unresponsive => {
                // It was left to finish, and its turn was interrupted in vain.
                self.agent.phase =
                    AgentPhase::Stopping { cause, until: self.now + timeout, kills: 1 };
                self.effects.push(Effect::Kill);
            }
            AgentPhase::Stopped { .. } | AgentPhase::Stopping { .. } => {}
            _ => {
                if let Some(turn) = self.turn.running_mut() {
                    turn.will_stop();
                }
                // The shim takes three steps of this length: close stdin, terminate, kill.
                self.agent.phase =
                    AgentPhase::Stopping { cause, until: self.now + 4 * timeout, kills: 0 };
                self.effects.push(Effect::Stop { timeout });
            }
        }
    }

    pub(super) fn pass_agent_deadline(&mut self) {
        if self.agent.deadline().is_none_or(|until| self.now < until) {
            return;
        }
        let retry_at = self.now + self.limits.stop;
        match &mut self.agent.phase {
            AgentPhase::Reattaching { .. } if self.protocol == AgentProtocol::StreamJson => {
                self.agent_ready(Ok(None));
            }
            // Over the Agent Client Protocol a missing answer means that no session was opened.
            AgentPhase::Initializing { .. } | AgentPhase::Reattaching { .. } => {
                self.agent.phase =
                    AgentPhase::Stopping { cause: ExitCause::NotReady, until: retry_at, kills: 1 };
                self.effects.push(Effect::Kill);
            }
            AgentPhase::Stopping { until, kills, .. } => {
                // Repeated in case the last one was lost on the way.
                *until = retry_at;
                *kills = kills.saturating_add(1);
                let in_vain = *kills == KILLS_UNTIL_REPORTED;
                self.effects.push(Effect::Kill);
                if in_vain {
                    let text = "the agent was killed, but the process that runs it does not \
                                respond: it or its disk may be stopped";
                    self.note(Note::Problem { text: text.to_owned() });
                }
            }
            _ => {}
        }
    }

    pub(super) fn agent_gone(&mut self, exit: &AgentExit) {
        let requested = match &self.agent.phase {
            AgentPhase::Stopping { cause, .. } => Some(cause.clone()),
            _ => None,
        };
        let last_failure = self.agent.last_failure.take();
        let cause = requested.clone().unwrap_or_else(|| cause_of(exit, last_failure.as_deref()));
        let died = !matches!(
            requested,
            Some(ExitCause::Parked | ExitCause::Closed | ExitCause::Restarted)
        );
        self.ended = matches!(requested, Some(ExitCause::Parked | ExitCause::Closed));
        if died {
            self.count_failure(exit, last_failure.as_deref());
        }
        let had_process = !matches!(exit, AgentExit::NotStarted(_));
        self.agent = AgentState { phase: AgentPhase::Stopped { died }, last_failure: None };
        self.withdraw_all_requests();
        self.withdraw_all_hooks();
        let in_flight = self.prompts.in_flight().map(|it| (it.id, it.state));
        for (prompt, state) in in_flight.collect::<Vec<(Uuid, PromptState)>>() {
            self.set_prompt_state(prompt, final_state_without_result(state), None);
        }
        self.note(Note::AgentExited { cause: cause.clone() });
        let turn = self.turn.running();
        let interrupted = matches!(requested, Some(ExitCause::Unresponsive))
            || requested.is_none() && turn.is_some_and(super::turns::RunningTurn::is_stopping);
        let cut = turn.is_some() && !interrupted && had_process;
        let ending =
            if interrupted { TurnEnding::Interrupted } else { TurnEnding::Aborted { cause } };
        self.end_turn(ending);
        self.reset_turn();
        self.fail_controls();
        if self.has_failed() {
            for (id, _) in std::mem::take(&mut self.deferred) {
                self.reply(id, Err(CommandError::AgentGone));
            }
        }
        if cut && died && self.options.continue_after_cut {
            self.continue_cut_turn();
        }
    }

    /// Counts an exit, and changes how the next process is started if the output says why.
    fn count_failure(&mut self, exit: &AgentExit, last_failure: Option<&str>) {
        self.failures += 1;
        // The delays are 0 s, 1 s, 2 s, 4 s, ….
        let doublings = self.failures.saturating_sub(2).min(10);
        let delay = if self.failures < 2 { 0 } else { 1000u64 << doublings };
        self.start_at = self.now + delay;
        let stderr = match exit {
            AgentExit::Exited { stderr, .. } => stderr.as_str(),
            _ => "",
        };
        let reported = |text: &str| {
            stderr.contains(text) || last_failure.is_some_and(|failure| failure.contains(text))
        };
        if self.resumable && reported("No conversation found") {
            // The CLI was killed before it had saved anything.
            self.resumable = false;
            let text = "the agent has no record of this conversation; it starts a new one";
            self.note(Note::Problem { text: text.to_owned() });
        } else if !self.resumable && reported("already in use") {
            self.resumable = true;
        }
    }

    fn continue_cut_turn(&mut self) {
        let id = continuation_of(self.turns);
        self.queue_prompt(NewPrompt {
            id,
            text: "You were cut off in the middle. Look at where things stand and go on."
                .to_owned(),
            images: Vec::new(),
            delivery: Delivery::Queue,
            by: Actor { name: "towpath".to_owned(), via: "rule".to_owned() },
        });
        let first = self.prompts.next_queued().filter(|first| *first != id);
        if first.is_some() {
            self.put_prompt_before(id, first);
        }
    }

    /// When the process is stopped because it has nothing to do.
    pub(super) fn park_at(&self) -> Option<u64> {
        let idle = self.agent.is_ready()
            && !self.is_busy()
            && !self.waits_for_person()
            && !self.needs_agent();
        self.idle_limit().filter(|_| idle)
    }

    /// When a session without an agent ends because no client uses it. It matters only if it is to be
    /// deleted then.
    pub(super) fn end_at(&self) -> Option<u64> {
        let unused = self.options.delete_when_ended
            && !self.ended
            && self.agent.is_stopped()
            && !self.needs_agent()
            && !self.has_later_prompts();
        self.idle_limit().filter(|_| unused)
    }

    /// When the session was idle for as long as it may be.
    fn idle_limit(&self) -> Option<u64> {
        let limit = match self.options.idle_timeout {
            Some(timeout) => timeout.millis(),
            None => self.limits.park,
        };
        limit.map(|limit| self.last_activity.saturating_add(limit))
    }

    pub(super) fn park(&mut self) {
        self.stop_agent(ExitCause::Parked);
    }

    /// Keeps a command until an agent is ready for it, and starts one if the last ones failed.
    pub(super) fn defer(&mut self, id: CommandId, command: SessionCommand) {
        if let Some(reason) = self.unreadable_options.clone()
            && self.agent.is_stopped()
        {
            return self.reply(id, Err(CommandError::UnreadableOptions(reason)));
        }
        if self.has_failed() {
            self.failures = 0;
        }
        self.deferred.push((id, command));
    }

    pub(super) fn change_options(&mut self, change: impl FnOnce(&mut SessionOptions)) {
        change(&mut self.options);
        self.effects.push(Effect::Options(Box::new(self.options.clone())));
    }
}

/// The id of the prompt that continues a turn. It is not random, so that a simulation can be
/// repeated. A turn is continued once, so its number makes the id unique in the session.
fn continuation_of(turn: u64) -> Uuid {
    const CONTINUATION: u128 = 0x746f_7770_6174_4800_8000_0000_0000_0000;
    Uuid::from_u128(CONTINUATION | u128::from(turn))
}

fn cause_of(exit: &AgentExit, last_failure: Option<&str>) -> ExitCause {
    match exit {
        AgentExit::NotStarted(message) => ExitCause::NotStarted { message: message.clone() },
        AgentExit::Exited { code, stderr } => {
            let stderr = if stderr.is_empty() { last_failure.unwrap_or_default() } else { stderr };
            ExitCause::Exited { code: *code, stderr: stderr.to_owned() }
        }
        AgentExit::Killed(signal) => ExitCause::Killed { signal: *signal },
        AgentExit::Unknown => ExitCause::Lost,
    }
}
