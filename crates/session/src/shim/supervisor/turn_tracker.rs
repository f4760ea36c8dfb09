//! What the agent does, derived from the lines in both directions.
//!
//! If the CLI reports its state (`session_state_changed`), that decides; else a turn starts with a
//! prompt or an `init` and ends with a `result`. A line that is too long to hold is judged by its
//! beginning. If that hides the end of a turn, the lease's total limit still stops the agent.
//!
//! Over the Agent Client Protocol a turn starts with a prompt and ends with the answer to it. A prompt is
//! recognized by the id that Towpath gives it.

use std::collections::BTreeSet;

use wire::acp::event::{AcpCallBody, AcpEvent, AcpResult, AgentUpdate};
use wire::event::Body;
use wire::{Dialect, Kind, Line, Piece, ReportedState, Splitter, TurnSignal, UnknownRequest};

/// The longest line that is held. Most lines that matter are short; prompts with images and edits
/// that wait for permission are long, but their beginning shows what they are.
const MAX_LINE: usize = 256 << 10;

/// How many open requests are tracked.
const MAX_REQUESTS: usize = 1024;

/// Lines of these kinds are frequent or long and say nothing about the turn that matters here.
const UNRELATED: [&str; 3] = ["stream_event", "assistant", "user"];

/// The reports of an agent over the Agent Client Protocol, of which only one kind matters.
const REPORT: &str = "session/update";
const STATE_REPORT: &str = "state_update";

/// The beginning of the ids of prompts to such an agent, as JSON.
const PROMPT_ID: &str = "\"prompt-";

/// What an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AgentActivity {
    /// It waits for a prompt.
    Idle,
    /// A turn runs.
    Turn,
    /// It waits for an answer from a person.
    Waiting,
}

/// Follows the turn in the lines from and to the agent.
#[derive(Debug)]
pub(super) struct ShimTurnTracker {
    output: Splitter,
    input: Splitter,
    activity: AgentActivity,
    /// Whether the CLI reports its state.
    reports_state: bool,
    /// Requests without an answer.
    requests: BTreeSet<String>,
}

impl ShimTurnTracker {
    pub(super) fn new() -> Self {
        Self {
            output: Splitter::with_cap(MAX_LINE),
            input: Splitter::with_cap(MAX_LINE),
            activity: AgentActivity::Idle,
            reports_state: false,
            requests: BTreeSet::new(),
        }
    }

    pub(super) fn activity(&self) -> AgentActivity {
        if self.requests.is_empty() { self.activity } else { AgentActivity::Waiting }
    }

    /// Takes in bytes that the agent printed.
    pub(super) fn output(&mut self, bytes: &[u8]) {
        let mut splitter = std::mem::take(&mut self.output);
        let mut pieces = splitter.feed(bytes);
        while let Some(piece) = pieces.next() {
            self.output_piece(&piece);
        }
        self.output = splitter;
    }

    /// Takes in bytes that are written to the agent.
    pub(super) fn input(&mut self, bytes: &[u8]) {
        let mut splitter = std::mem::take(&mut self.input);
        let mut pieces = splitter.feed(bytes);
        while let Some(piece) = pieces.next() {
            if piece.is_whole() {
                for line in wire::read(piece.bytes) {
                    match acp_event(&line) {
                        Some(event) => self.acp_input(event),
                        None => self.signal(TurnSignal::of_input(&line)),
                    }
                }
            } else if !piece.continued
                && let Some(kind) = Kind::find(piece.bytes)
            {
                if kind.name == "session/prompt" {
                    self.activity = AgentActivity::Turn;
                }
                self.signal(TurnSignal::of_input_kind(&kind));
            }
        }
        self.input = splitter;
    }

    fn output_piece(&mut self, piece: &Piece<'_>) {
        if piece.continued {
            return;
        }
        // Finding the kind is much cheaper than reading the line.
        let Some(kind) = Kind::find(piece.bytes) else { return };
        let is_state = || kind.subtype.is_some_and(|it| it == STATE_REPORT);
        if UNRELATED.iter().any(|name| kind.name == *name) || kind.name == REPORT && !is_state() {
            return;
        }
        if piece.is_whole() {
            for line in wire::read(piece.bytes) {
                if let Some(event) = acp_event(&line) {
                    self.acp_output(event);
                    continue;
                }
                // The agent repeats our answers, which were counted as input, and answers our own
                // requests.
                let signal = TurnSignal::of(&line);
                self.signal(signal.filter(|it| !matches!(it, TurnSignal::RequestAnswered { .. })));
            }
        } else {
            self.signal(TurnSignal::of_kind(&kind));
        }
    }

    fn acp_input(&mut self, event: &AcpEvent<'_>) {
        match event {
            AcpEvent::Call(call) if matches!(call.body, AcpCallBody::Prompt { .. }) => {
                self.activity = AgentActivity::Turn;
            }
            AcpEvent::Response(response) => {
                self.requests.remove(response.id.as_str());
            }
            AcpEvent::Call(_) | AcpEvent::Update { .. } => {}
        }
    }

    fn acp_output(&mut self, event: &AcpEvent<'_>) {
        match event {
            AcpEvent::Response(response) if response.id.as_str().starts_with(PROMPT_ID) => {
                // In version 2 the answer only says that the agent has the prompt.
                if !matches!(response.result, Ok(AcpResult::PromptTaken { .. })) {
                    self.become_idle();
                }
            }
            AcpEvent::Update { update: AgentUpdate::State { state, .. }, .. } => {
                if *state == "idle" {
                    self.become_idle();
                } else {
                    self.activity = AgentActivity::Turn;
                }
            }
            AcpEvent::Call(call) => match call.body {
                AcpCallBody::Permission { .. } | AcpCallBody::Elicitation { .. }
                    if self.requests.len() < MAX_REQUESTS =>
                {
                    self.requests.extend(call.id.map(|id| id.as_str().to_owned()));
                }
                AcpCallBody::Withdrawn { request } => {
                    self.requests.remove(request.as_str());
                }
                _ => {}
            },
            AcpEvent::Response(_) | AcpEvent::Update { .. } => {}
        }
    }

    fn become_idle(&mut self) {
        self.activity = AgentActivity::Idle;
        self.requests.clear();
    }

    fn signal(&mut self, signal: Option<TurnSignal<'_>>) {
        let Some(signal) = signal else { return };
        match signal {
            TurnSignal::Started { .. } | TurnSignal::PromptWritten => {
                self.activity = AgentActivity::Turn;
            }
            TurnSignal::Ended(_) if !self.reports_state => self.activity = AgentActivity::Idle,
            TurnSignal::StateReported(state) => {
                self.reports_state = true;
                self.activity = match state {
                    ReportedState::Idle => AgentActivity::Idle,
                    ReportedState::Running => AgentActivity::Turn,
                    ReportedState::RequiresAction => AgentActivity::Waiting,
                };
                if state == ReportedState::Idle {
                    self.requests.clear();
                }
            }
            TurnSignal::RequestOpened { id, .. }
            | TurnSignal::UnknownRequest(UnknownRequest { id, .. })
                if self.requests.len() < MAX_REQUESTS =>
            {
                // One that no answer can reach would count as open for ever.
                if id.is_usable() {
                    self.requests.insert(id.into());
                }
            }
            TurnSignal::RequestAnswered { id, .. } | TurnSignal::RequestWithdrawn { id } => {
                self.requests.remove(&*id.key());
                if self.activity == AgentActivity::Waiting && self.requests.is_empty() {
                    self.activity = AgentActivity::Turn;
                }
            }
            TurnSignal::Ended(_)
            | TurnSignal::RequestOpened { .. }
            | TurnSignal::UnknownRequest(_)
            | TurnSignal::UnsupportedRequest { .. }
            | TurnSignal::HookCalled { .. }
            | TurnSignal::PromptAccepted(_)
            | TurnSignal::PromptDropped(_) => {}
        }
    }
}

/// The message in a line of the Agent Client Protocol.
fn acp_event<'l, 'a>(line: &'l Line<'a>) -> Option<&'l AcpEvent<'a>> {
    match line.event().map(|event| &event.body) {
        Some(Body::Acp(event)) if line.dialect == Dialect::Acp => Some(event),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{AgentActivity, MAX_LINE, ShimTurnTracker};

    const PROMPT: &str = r#"> {"type":"user","message":{"role":"user","content":"hi"}}"#;
    const RESULT: &str = r#"< {"duration_ms":1,"type":"result","subtype":"success"}"#;
    const INIT: &str = r#"< {"type":"system","subtype":"init","session_id":"x"}"#;
    const ASK: &str = r#"< {"type":"control_request","request_id":"q1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}"#;
    const ANSWER: &str = r#"> {"type":"control_response","response":{"subtype":"success","request_id":"q1","response":{}}}"#;
    const CANCEL: &str = r#"< {"type":"control_cancel_request","request_id":"q1"}"#;

    fn state(state: &str) -> String {
        format!(r#"< {{"type":"system","subtype":"session_state_changed","state":"{state}"}}"#)
    }

    #[track_caller]
    fn check(lines: &[&str], activity: AgentActivity) {
        let mut tracker = ShimTurnTracker::new();
        for line in lines {
            let (direction, line) = line.split_once(' ').unwrap();
            let line = format!("{line}\n");
            // In two pieces, as it may come from a pipe.
            let (head, tail) = line.as_bytes().split_at(line.len() / 2);
            for piece in [head, tail] {
                if direction == ">" { tracker.input(piece) } else { tracker.output(piece) }
            }
        }
        assert_eq!(tracker.activity(), activity);
    }

    #[test]
    fn a_turn_runs_from_the_prompt_to_the_result() {
        check(&[], AgentActivity::Idle);
        check(&[PROMPT], AgentActivity::Turn);
        check(&[PROMPT, INIT, RESULT], AgentActivity::Idle);
        check(&[PROMPT, INIT, RESULT, INIT], AgentActivity::Turn);
    }

    #[test]
    fn an_open_request_waits_until_it_is_answered_or_withdrawn() {
        check(&[PROMPT, INIT, ASK], AgentActivity::Waiting);
        check(&[PROMPT, INIT, ASK, ANSWER], AgentActivity::Turn);
        check(&[PROMPT, INIT, ASK, CANCEL], AgentActivity::Turn);
        check(&[PROMPT, INIT, ASK, ANSWER, RESULT], AgentActivity::Idle);
    }

    #[test]
    fn a_request_is_answered_with_the_id_that_it_has() {
        let ask = r#"< {"type":"control_request","request_id":7,"request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}"#;
        let answer = r#"> {"type":"control_response","response":{"subtype":"success","request_id":7,"response":{}}}"#;
        check(&[PROMPT, INIT, ask], AgentActivity::Waiting);
        check(&[PROMPT, INIT, ask, answer], AgentActivity::Turn);
        // No answer can end this one, but the turn can.
        let ask = r#"< {"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}"#;
        check(&[PROMPT, INIT, ask, RESULT], AgentActivity::Idle);
    }

    #[test]
    fn a_reported_state_decides() {
        let (running, waiting, idle) = (state("running"), state("requires_action"), state("idle"));
        check(&[PROMPT, &running, RESULT], AgentActivity::Turn);
        check(&[PROMPT, &running, RESULT, &idle], AgentActivity::Idle);
        check(&[PROMPT, &running, ASK, &waiting], AgentActivity::Waiting);
        check(&[PROMPT, &running, ASK, &waiting, ANSWER], AgentActivity::Turn);
        check(&[PROMPT, &running, ASK, &idle], AgentActivity::Idle);
    }

    #[test]
    fn over_the_agent_client_protocol_a_turn_lasts_until_the_prompt_is_answered() {
        let prompt = r#"> {"jsonrpc":"2.0","id":"prompt-7","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
        let end = r#"< {"jsonrpc":"2.0","id":"prompt-7","result":{"stopReason":"end_turn"}}"#;
        let failure = r#"< {"jsonrpc":"2.0","id":"prompt-7","error":{"code":1,"message":"no"}}"#;
        let other = r#"< {"jsonrpc":"2.0","id":"steer-7","result":{"outcome":"injected"}}"#;
        let ask = r#"< {"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"options":[]}}"#;
        let answer = r#"> {"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}"#;
        let withdrawn =
            r#"< {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":0}}"#;
        let chunk = r#"< {"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{}}}}"#;
        let taken = r#"< {"jsonrpc":"2.0","id":"prompt-7","result":{"messageId":"m"}}"#;
        let idle = r#"< {"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"state_update","state":"idle"}}}"#;
        check(&[prompt, chunk, other], AgentActivity::Turn);
        check(&[prompt, chunk, end], AgentActivity::Idle);
        check(&[prompt, failure, chunk], AgentActivity::Idle);
        check(&[prompt, ask], AgentActivity::Waiting);
        check(&[prompt, ask, answer], AgentActivity::Turn);
        check(&[prompt, ask, withdrawn], AgentActivity::Turn);
        check(&[prompt, ask, end], AgentActivity::Idle);
        check(&[prompt, taken], AgentActivity::Turn);
        check(&[prompt, taken, idle], AgentActivity::Idle);
        let long = "x".repeat(MAX_LINE);
        let long = prompt.replace("[]", &format!(r#"[{{"type":"text","text":"{long}"}}]"#));
        check(&[&long], AgentActivity::Turn);
        check(&[&long, end], AgentActivity::Idle);
    }

    #[test]
    fn a_line_that_is_too_long_is_judged_by_its_beginning() {
        let long = "x".repeat(MAX_LINE);
        let prompt = format!(r#"> {{"type":"user","message":{{"content":"{long}"}}}}"#);
        let result = format!(r#"< {{"type":"result","subtype":"success","result":"{long}"}}"#);
        check(&[&prompt], AgentActivity::Turn);
        check(&[&prompt, &result], AgentActivity::Idle);
        check(&[&prompt, RESULT, PROMPT], AgentActivity::Turn);
    }
}
