//! What the agent does, derived from the lines in both directions.
//!
//! If the CLI reports its state (`session_state_changed`), that decides; else a turn starts with a
//! prompt or an `init` and ends with a `result`. A line that is too long to hold is judged by its
//! beginning. If that hides the end of a turn, the lease's total limit still stops the agent.

use std::collections::BTreeSet;

use wire::{Kind, Piece, ReportedState, Splitter, TurnSignal, UnknownRequest};

/// The longest line that is held. Most lines that matter are short; prompts with images and edits
/// that wait for permission are long, but their beginning shows what they are.
const MAX_LINE: usize = 256 << 10;

/// How many open requests are tracked.
const MAX_REQUESTS: usize = 1024;

/// Lines of these kinds are frequent or long and say nothing about the turn that matters here.
const UNRELATED: [&str; 3] = ["stream_event", "assistant", "user"];

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
                    self.signal(TurnSignal::of_input(&line));
                }
            } else if !piece.continued
                && let Some(kind) = Kind::find(piece.bytes)
            {
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
        if UNRELATED.iter().any(|name| kind.name == *name) {
            return;
        }
        if piece.is_whole() {
            for line in wire::read(piece.bytes) {
                // The agent repeats our answers, which were counted as input, and answers our own
                // requests.
                let signal = TurnSignal::of(&line);
                self.signal(signal.filter(|it| !matches!(it, TurnSignal::RequestAnswered { .. })));
            }
        } else {
            self.signal(TurnSignal::of_kind(&kind));
        }
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
                self.requests.insert(id.into());
            }
            TurnSignal::RequestAnswered { id, .. } | TurnSignal::RequestWithdrawn { id } => {
                self.requests.remove(&*id.decode());
                if self.activity == AgentActivity::Waiting && self.requests.is_empty() {
                    self.activity = AgentActivity::Turn;
                }
            }
            TurnSignal::Ended(_)
            | TurnSignal::RequestOpened { .. }
            | TurnSignal::UnknownRequest(_)
            | TurnSignal::UnsupportedRequest { .. }
            | TurnSignal::PromptAccepted(_)
            | TurnSignal::PromptDropped(_) => {}
        }
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
    fn a_reported_state_decides() {
        let (running, waiting, idle) = (state("running"), state("requires_action"), state("idle"));
        check(&[PROMPT, &running, RESULT], AgentActivity::Turn);
        check(&[PROMPT, &running, RESULT, &idle], AgentActivity::Idle);
        check(&[PROMPT, &running, ASK, &waiting], AgentActivity::Waiting);
        check(&[PROMPT, &running, ASK, &waiting, ANSWER], AgentActivity::Turn);
        check(&[PROMPT, &running, ASK, &idle], AgentActivity::Idle);
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
