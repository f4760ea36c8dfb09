//! What the agent does, as far as its lines and ours say.
//!
//! Where the CLI tells its state (`session_state_changed`, on request), that decides; elsewhere a
//! turn begins with a prompt or an `init` and ends with a `result`. A line too long to be held is
//! judged by its beginning. If that hides the end of a turn, the lease's limit still ends the agent.

use std::collections::BTreeSet;

use wire::event::{Body, Request, System};
use wire::json::Text;
use wire::{Kind, Reading, Splitter};

/// The longest line that is held: the lines that matter are short, but for prompts with pictures and
/// edits that wait for leave, and these say what they are at their beginning.
const LONGEST_LINE: usize = 256 << 10;

/// How many open questions are told apart.
const MOST_QUESTIONS: usize = 1024;

/// What an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Nothing until it is prompted.
    Nothing,
    /// A turn runs.
    Turn,
    /// It waits for a person to answer.
    Waiting,
}

/// Watches the lines in both directions.
#[derive(Debug)]
pub(super) struct Pulse {
    from_agent: Splitter,
    to_agent: Splitter,
    doing: Doing,
    /// The CLI tells its state.
    tells: bool,
    /// Requests nobody has answered.
    questions: BTreeSet<String>,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            from_agent: Splitter::with_cap(LONGEST_LINE),
            to_agent: Splitter::with_cap(LONGEST_LINE),
            doing: Doing::Nothing,
            tells: false,
            questions: BTreeSet::new(),
        }
    }

    /// What the agent does.
    pub(super) fn doing(&self) -> Doing {
        if self.questions.is_empty() { self.doing } else { Doing::Waiting }
    }

    /// The agent printed this.
    pub(super) fn printed(&mut self, bytes: &[u8]) {
        let mut splitter = std::mem::take(&mut self.from_agent);
        let mut pieces = splitter.feed(bytes);
        while let Some(piece) = pieces.next() {
            if !piece.continued {
                self.line_from_agent(piece.bytes);
            }
        }
        self.from_agent = splitter;
    }

    /// This is written to the agent.
    pub(super) fn said(&mut self, bytes: &[u8]) {
        let mut splitter = std::mem::take(&mut self.to_agent);
        let mut pieces = splitter.feed(bytes);
        while let Some(piece) = pieces.next() {
            if !piece.continued {
                self.line_to_agent(piece.bytes);
            }
        }
        self.to_agent = splitter;
    }

    fn line_from_agent(&mut self, line: &[u8]) {
        let Some(kind) = Kind::find(line) else { return };
        let subtype = kind.subtype.map(Text::decode);
        match (&*kind.name.decode(), subtype.as_deref()) {
            ("result", _) if !self.tells => self.doing = Doing::Nothing,
            ("system", Some("init")) => self.doing = Doing::Turn,
            ("system", Some("session_state_changed"))
            | ("control_request", Some("can_use_tool"))
            | ("control_cancel_request", _) => self.read(line),
            _ => {}
        }
    }

    /// A line of which more matters than its kind.
    fn read(&mut self, line: &[u8]) {
        for line in wire::read(line) {
            let Reading::Event(event) = line.reading else { continue };
            match event.body {
                Body::System(System::SessionState(state)) => {
                    self.tells = true;
                    match &*state.state.decode() {
                        "idle" => {
                            self.doing = Doing::Nothing;
                            self.questions.clear();
                        }
                        "requires_action" => self.doing = Doing::Waiting,
                        _ => self.doing = Doing::Turn,
                    }
                }
                Body::ControlRequest(asked)
                    if matches!(asked.request, Request::CanUseTool(_))
                        && self.questions.len() < MOST_QUESTIONS =>
                {
                    self.questions.insert(asked.request_id.decode().into_owned());
                }
                Body::ControlCancel(cancel) => self.answered(&cancel.request_id.decode()),
                _ => {}
            }
        }
    }

    fn line_to_agent(&mut self, line: &[u8]) {
        let Some(kind) = Kind::find(line) else { return };
        match &*kind.name.decode() {
            "user" => self.doing = Doing::Turn,
            "control_response" => {
                for line in wire::read(line) {
                    if let Reading::Event(event) = line.reading
                        && let Body::ControlResponse(answer) = event.body
                        && let Some(id) = answer.request_id
                    {
                        self.answered(&id.decode());
                    }
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, id: &str) {
        self.questions.remove(id);
        if self.doing == Doing::Waiting && self.questions.is_empty() {
            self.doing = Doing::Turn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Doing, LONGEST_LINE, Pulse};

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
    fn check(lines: &[&str], doing: Doing) {
        let mut pulse = Pulse::new();
        for line in lines {
            let (direction, line) = line.split_once(' ').unwrap();
            let line = format!("{line}\n");
            // In two pieces, as pipes give it.
            let (head, tail) = line.as_bytes().split_at(line.len() / 2);
            for piece in [head, tail] {
                if direction == ">" { pulse.said(piece) } else { pulse.printed(piece) }
            }
        }
        assert_eq!(pulse.doing(), doing);
    }

    #[test]
    fn a_turn_runs_from_the_prompt_to_the_result() {
        check(&[], Doing::Nothing);
        check(&[PROMPT], Doing::Turn);
        check(&[PROMPT, INIT, RESULT], Doing::Nothing);
        check(&[PROMPT, INIT, RESULT, INIT], Doing::Turn);
    }

    #[test]
    fn an_open_question_waits_for_a_person_until_it_is_answered_or_withdrawn() {
        check(&[PROMPT, INIT, ASK], Doing::Waiting);
        check(&[PROMPT, INIT, ASK, ANSWER], Doing::Turn);
        check(&[PROMPT, INIT, ASK, CANCEL], Doing::Turn);
        check(&[PROMPT, INIT, ASK, ANSWER, RESULT], Doing::Nothing);
    }

    #[test]
    fn where_the_state_is_told_it_decides() {
        let (running, waiting, idle) = (state("running"), state("requires_action"), state("idle"));
        check(&[PROMPT, &running, RESULT], Doing::Turn);
        check(&[PROMPT, &running, RESULT, &idle], Doing::Nothing);
        check(&[PROMPT, &running, ASK, &waiting], Doing::Waiting);
        check(&[PROMPT, &running, ASK, &waiting, ANSWER], Doing::Turn);
        check(&[PROMPT, &running, ASK, &idle], Doing::Nothing);
    }

    #[test]
    fn a_line_too_long_to_hold_is_judged_by_its_beginning() {
        let long = "x".repeat(LONGEST_LINE);
        let prompt = format!(r#"> {{"type":"user","message":{{"content":"{long}"}}}}"#);
        let result = format!(r#"< {{"type":"result","subtype":"success","result":"{long}"}}"#);
        check(&[&prompt], Doing::Turn);
        check(&[&prompt, &result], Doing::Nothing);
        check(&[&prompt, RESULT, PROMPT], Doing::Turn);
    }
}
