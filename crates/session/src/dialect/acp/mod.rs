//! Driving an agent over the Agent Client Protocol: lines to meanings, and messages to lines. Pure.
//!
//! What real agents do that the protocol does not promise:
//!
//! - Updates may come after the answer to a prompt, for minutes. They are work that nothing asked for.
//! - A second prompt during a turn is queued by some agents, and cancels the first with others. So there
//!   is never more than one.
//! - A refused permission may end the turn as cancelled, although no user stopped it.
//! - A turn that failed may be reported as a success.
//! - An agent that is told to stop may answer the prompt before its open request is answered, or withdraw
//!   the request. A late answer does no harm, a missing one may leave the agent waiting.
//! - A session that is loaded may be repeated before the answer, behind it, or both.
//! - Ids of requests start from 0 in every process.
//! - Methods that were refused beforehand are called anyway, and others are made up.

mod calls;
mod form;
mod handshake;
mod messages;
mod responses;
mod state;
#[cfg(test)]
mod tests;

use uuid::Uuid;
use wire::acp::event::{AcpCallBody, AcpEvent, AgentUpdate, ChunkAuthor};
use wire::acp::{RpcError, RpcId, RpcMessage, UnreadableMessage, read_message, request_key};
use wire::event::Body;
use wire::json::{Raw, Text};
use wire::note::Note;
use wire::outgoing::{AcpReply, OutgoingLine};
use wire::{Line, TurnResult};

use super::DialectStep;
use crate::agent_event::AgentEvent;
use crate::catalog::AgentSpec;
use crate::options::SessionOptions;
use state::{AcpPhase, AcpState};

/// The driver of one agent.
#[derive(Debug)]
pub(crate) struct AcpDriver {
    /// None if the catalog no longer has the agent.
    spec: Option<AgentSpec>,
    state: AcpState,
    /// The state as it was last stored.
    stored: Option<String>,
    /// The machine's request that is answered when the agent is ready.
    waiting: Option<String>,
    /// When a loaded session counts as complete, in monotonic time.
    settled_at: Option<u64>,
    steps: Vec<DialectStep>,
}

/// How long an agent must have said nothing until a loaded session counts as complete.
const SETTLING: u64 = 300;

impl AcpDriver {
    /// A driver that goes on with what an earlier one agreed with the process of this number.
    pub(crate) fn new(spec: Option<AgentSpec>, run: u64, stored: Option<String>) -> Self {
        let state = stored.as_deref().and_then(|json| serde_json::from_str::<AcpState>(json).ok());
        let state = state.filter(|state| state.run == run);
        let state = state.unwrap_or_else(|| AcpState { run, ..AcpState::default() });
        Self { spec, state, stored, waiting: None, settled_at: None, steps: Vec::new() }
    }

    /// A new process is started, to continue the agent's session with this id if there is one.
    pub(crate) fn start(&mut self, run: u64, session: Option<String>) {
        self.state = AcpState { run, session, ..AcpState::default() };
        self.waiting = None;
        self.settled_at = None;
    }

    /// Likewise, but the session with this id is copied and not continued.
    pub(crate) fn start_copy(&mut self, run: u64, session: String) {
        self.start(run, Some(session));
        self.state.copies = true;
    }

    /// When the driver needs a tick.
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.settled_at
    }

    /// Lets time pass.
    pub(crate) fn tick(&mut self, now: u64) -> Vec<DialectStep> {
        if self.settled_at.take_if(|at| *at <= now).is_some() {
            self.become_ready();
        }
        self.take_steps()
    }

    /// Waits until a loaded session is complete.
    fn settle(&mut self, now: u64) {
        if self.state.phase == AcpPhase::Settling {
            self.settled_at = Some(now + SETTLING);
        }
    }

    /// The process is gone. If a later driver finds its shim before it has ended, the agent is not taken
    /// for one that is ready.
    pub(crate) fn agent_gone(&mut self) {
        self.start(self.state.run, self.state.session.clone());
    }

    /// This driver goes on with a process of an earlier one.
    pub(crate) fn attach(&mut self, now: u64) -> Vec<DialectStep> {
        self.settle(now);
        if self.state.phase == AcpPhase::Ready {
            self.event(AgentEvent::SteeringOffered(self.state.capabilities.steering));
        }
        self.take_steps()
    }

    /// Whether the agent works on a prompt.
    pub(crate) fn has_open_prompt(&self) -> bool {
        self.state.prompt.is_some()
    }

    pub(crate) fn take_changed_state(&mut self) -> Option<String> {
        if self.state.run == 0 {
            // No process was ever started.
            return None;
        }
        // Numbers, texts and lists of them serialize.
        let state = serde_json::to_string(&self.state).unwrap_or_default();
        if self.stored.as_ref() == Some(&state) {
            return None;
        }
        self.stored = Some(state.clone());
        Some(state)
    }

    /// Takes in a line of the agent.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        now: u64,
        options: &SessionOptions,
    ) -> Vec<DialectStep> {
        let mut seen = false;
        for line in wire::read(bytes) {
            seen = true;
            self.line(&line, options);
        }
        self.settle(now);
        if self.steps.is_empty() || !seen {
            self.event(AgentEvent::Output);
        }
        self.take_steps()
    }

    /// Takes in a line that is too long to be held, of which this is the beginning. A request must be
    /// answered, and the end of a turn must not be missed.
    pub(crate) fn read_start(
        &mut self,
        start: &[u8],
        options: &SessionOptions,
    ) -> Vec<DialectStep> {
        let head = &start[..start.len().min(4 << 10)];
        let id = find_id(head);
        let is_call = memchr::memmem::find(head, b"\"method\"").is_some();
        match id {
            Some(id) if is_call => {
                let error = RpcError::internal("the request is too long");
                self.reply(&id, &AcpReply::Error(error));
                self.report_problem(
                    "the agent asked for something that is too long to be read; it was refused"
                        .to_owned(),
                );
            }
            Some(id) => self.response_of_unknown_content(&id, options),
            None => {}
        }
        if self.steps.is_empty() {
            self.event(AgentEvent::Output);
        }
        self.take_steps()
    }

    fn line(&mut self, line: &Line<'_>, options: &SessionOptions) {
        if let Some(Body::Acp(event)) = line.event().map(|event| &event.body) {
            match event {
                AcpEvent::Update { update, meta, .. } => self.update(update, *meta),
                AcpEvent::Call(call) => self.call(call),
                AcpEvent::Response(response) => self.response(response, options),
            }
            return;
        }
        // Anything that is not known, or known in another shape. Only what waits for an answer matters.
        match read_message(line.bytes) {
            Ok(RpcMessage::Request { id, method, .. }) => {
                self.refuse_method(&id, &method);
            }
            Ok(RpcMessage::Response { id, .. }) => {
                self.response_of_unknown_content(&id, options);
            }
            Ok(RpcMessage::Notification { .. }) => {}
            Err(message) => self.unreadable(message, line.bytes, options),
        }
    }

    /// A line that is no message. If it was meant as a request or as an answer, someone waits for it.
    fn unreadable(&mut self, message: UnreadableMessage, bytes: &[u8], options: &SessionOptions) {
        let object = std::str::from_utf8(bytes).ok().and_then(Raw::parse);
        let has = |key: &str| object.is_some_and(|it| it.get(key).is_some());
        if !has("id") {
            return;
        }
        if has("method") {
            let answered = message.id != RpcId::null();
            if answered {
                self.reply(&message.id, &AcpReply::Error(message.error));
            }
            let what = if answered { "was refused" } else { "cannot be answered" };
            self.report_problem(format!(
                "the agent asked for something that is not in the form of the protocol, which {what}; if it \
                 waits, stop the turn"
            ));
        } else if has("result") || has("error") {
            self.response_of_unknown_content(&message.id, options);
        }
    }

    /// Takes in a report about the session.
    fn update(&mut self, update: &AgentUpdate<'_>, meta: Option<Raw<'_>>) {
        if self.state.phase != AcpPhase::Ready {
            // What a session repeats while it is loaded happened before.
            return;
        }
        if let AgentUpdate::Options(options) = update {
            self.state.offered.read_options(*options);
        }
        if let AgentUpdate::Usage { cost: Some(cost), .. } = update {
            // Sums of other currencies cannot be compared with a budget.
            let currency = cost.get("currency").and_then(Raw::text);
            let in_dollars = currency.is_none_or(|currency| currency == "USD");
            let amount = cost.get("amount").and_then(Raw::number).filter(|_| in_dollars);
            if let Some(amount) = amount {
                self.event(AgentEvent::CostReported(amount));
            }
        }
        if let AgentUpdate::State { state, stop_reason, error, .. } = update {
            return self.state_reported(*state, *stop_reason, *error);
        }
        if reports_error(meta)
            && let Some(prompt) = &mut self.state.prompt
        {
            prompt.failed = true;
        }
        if !is_work(update) {
            return;
        }
        match &mut self.state.prompt {
            Some(prompt) if prompt.started => {}
            Some(prompt) => {
                prompt.started = true;
                let id = prompt.id;
                self.event(AgentEvent::TurnStarted { conversation: None });
                self.event(AgentEvent::PromptAccepted(id));
            }
            // The end of a call that belongs to the turn before is no work of its own.
            None if ends_call(update) || self.state.replays => {}
            None => self.event(AgentEvent::Unprompted),
        }
    }

    /// Version 2 reports the end of a turn as a state.
    fn state_reported(
        &mut self,
        state: Text<'_>,
        stop_reason: Option<Text<'_>>,
        error: Option<Raw<'_>>,
    ) {
        let Some(prompt) = &mut self.state.prompt else { return };
        if state == "running" && !prompt.started {
            prompt.started = true;
            let id = prompt.id;
            self.event(AgentEvent::TurnStarted { conversation: None });
            self.event(AgentEvent::PromptAccepted(id));
        } else if state == "idle" && (stop_reason.is_some() || prompt.started) {
            let reason = stop_reason.map_or_else(|| "end_turn".into(), Text::decode);
            let message = error.and_then(|it| it.get("message")).and_then(Raw::text);
            self.turn_stopped(&reason, message.map(String::from), true);
        }
    }

    /// The turn of the open prompt is over.
    fn turn_stopped(&mut self, reason: &str, message: Option<String>, has_usage: bool) {
        let Some(prompt) = self.state.prompt.take() else { return };
        let failure = match reason {
            "cancelled" => return self.turn_cancelled(prompt.id),
            // An agent that reported an error and used nothing has not answered, whatever it says.
            "end_turn" if prompt.failed && !has_usage => {
                Some("the agent reported an error; its last message says more".to_owned())
            }
            "end_turn" => None,
            "max_tokens" => Some("the answer reached the limit of tokens".to_owned()),
            "max_turn_requests" => Some("the turn reached its limit of model requests".to_owned()),
            "refusal" => Some("the agent refused to go on".to_owned()),
            "error" => Some("the agent reported an error".to_owned()),
            other => Some(format!("the agent stopped: {other}")),
        };
        let failure = failure.map(|failure| message.unwrap_or(failure));
        self.turn_ended(prompt.id, failure);
    }

    fn turn_cancelled(&mut self, prompt: Uuid) {
        self.cancel_requests();
        let prompts = self.take_answered(prompt);
        self.event(AgentEvent::TurnCancelled { prompts });
    }

    fn turn_ended(&mut self, prompt: Uuid, failure: Option<String>) {
        self.cancel_requests();
        let prompts = self.take_answered(prompt);
        self.event(AgentEvent::TurnEnded(TurnResult { failure, prompts, ..TurnResult::default() }));
    }

    /// The prompts that a turn has answered.
    fn take_answered(&mut self, prompt: Uuid) -> Vec<Uuid> {
        let steered = &mut self.state.steered;
        let accepted: Vec<Uuid> =
            steered.iter().filter(|(_, accepted)| **accepted).map(|(id, _)| *id).collect();
        steered.retain(|_, accepted| !*accepted);
        std::iter::once(prompt).chain(accepted).collect()
    }

    /// Answers all open requests, because the turn that they belong to is over or being stopped.
    fn cancel_requests(&mut self) {
        for (id, request) in std::mem::take(&mut self.state.requests) {
            self.dismiss(&id, &request);
            self.event(AgentEvent::RequestWithdrawn { id: self.key(&id) });
        }
    }

    fn key(&self, id: &str) -> String {
        request_key(self.state.run, id)
    }

    fn event(&mut self, event: AgentEvent) {
        self.steps.push(DialectStep::Event(event));
    }

    fn send(&mut self, line: OutgoingLine) {
        self.steps.push(DialectStep::Send(line));
    }

    fn reply(&mut self, id: &RpcId, reply: &AcpReply<'_>) {
        self.send(OutgoingLine::acp_reply(id, reply));
    }

    fn report_problem(&mut self, text: String) {
        self.steps.push(DialectStep::Note(Note::Problem { text }));
    }

    fn take_steps(&mut self) -> Vec<DialectStep> {
        std::mem::take(&mut self.steps)
    }
}

/// Whether an update shows that the agent works on something.
fn is_work(update: &AgentUpdate<'_>) -> bool {
    match update {
        AgentUpdate::Chunk { author, .. } | AgentUpdate::Message { author, .. } => {
            *author != ChunkAuthor::User
        }
        AgentUpdate::ToolCall(_)
        | AgentUpdate::ToolCallContent { .. }
        | AgentUpdate::Plan { .. }
        | AgentUpdate::Terminal { .. }
        | AgentUpdate::TerminalOutput { .. }
        | AgentUpdate::SubAgent { .. }
        | AgentUpdate::SessionMessage { .. } => true,
        _ => false,
    }
}

fn ends_call(update: &AgentUpdate<'_>) -> bool {
    let AgentUpdate::ToolCall(call) = update else { return false };
    call.status.is_some_and(|status| status == "completed" || status == "failed")
}

/// Whether the details outside the protocol say that the turn has failed: `threadStatus` is there when the
/// agent is a face of another program that has such a state.
fn reports_error(meta: Option<Raw<'_>>) -> bool {
    let objects = meta.into_iter().flat_map(Raw::fields);
    let mut states = objects.filter_map(|(_, it)| it.get("threadStatus")?.get("type")?.text());
    states.any(|state| state == "systemError")
}

/// The JSON-RPC id in the beginning of a line, in front of anything long.
fn find_id(head: &[u8]) -> Option<RpcId> {
    let at = memchr::memmem::find(head, b"\"id\"")? + 4;
    let rest = head[at..].trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let end = match rest.first()? {
        b'"' => memchr::memchr(b'"', rest.get(1..)?)? + 2,
        _ => rest.iter().position(|byte| matches!(byte, b',' | b'}' | b' '))?,
    };
    RpcId::of(Raw::parse(std::str::from_utf8(&rest[..end]).ok()?)?)
}

/// Whether a call is a request that a person answers.
fn asks_person(body: &AcpCallBody<'_>) -> bool {
    matches!(body, AcpCallBody::Permission { .. } | AcpCallBody::Elicitation { .. })
}
