//! A model of an agent over the Agent Client Protocol.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Value, json};
use towpath_session::machine::AgentExit;
use uuid::Uuid;

use crate::simulation::users::Random;

/// What one process does wrong.
#[expect(clippy::struct_excessive_bools, reason = "the faults are independent of each other")]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AcpFaults {
    ignores_cancel: bool,
    crashes: bool,
    /// It goes on after the answer.
    late: bool,
    withdraws: bool,
    /// It answers a cancelled prompt before its request is answered.
    hasty: bool,
    never_ready: bool,
    resumes: bool,
    loads: bool,
    /// It cannot continue any session, whatever it says.
    forgets: bool,
    noisy: bool,
}

/// One process.
#[derive(Debug)]
pub(super) struct AcpAgentModel {
    pub(super) faults: AcpFaults,
    pub(super) stdin: VecDeque<String>,
    pub(super) closed: bool,
    pub(super) exit: Option<AgentExit>,
    pub(super) output: Vec<u8>,
    prompt: Option<ModelPrompt>,
    /// Requests that wait for an answer.
    requests: BTreeSet<u64>,
    /// Requests that were withdrawn, whose answer may still come.
    withdrawn: BTreeSet<u64>,
    last_request: u64,
    late: u64,
}

#[derive(Debug)]
struct ModelPrompt {
    id: Value,
    steps: u64,
    cancelled: bool,
}

impl AcpFaults {
    pub(super) fn random(random: &mut Random) -> Self {
        Self {
            ignores_cancel: random.one_in(6),
            crashes: random.one_in(8),
            late: random.one_in(3),
            withdraws: random.one_in(4),
            hasty: random.one_in(2),
            never_ready: random.one_in(20),
            resumes: random.one_in(2),
            loads: random.one_in(2),
            forgets: random.one_in(6),
            noisy: random.one_in(3),
        }
    }

    /// Nothing is wrong from now on, except what cannot be made good.
    pub(super) fn behave(&mut self) {
        let Self { never_ready, resumes, loads, .. } = *self;
        *self = Self { never_ready, resumes, loads, ..Self::default() };
    }
}

impl AcpAgentModel {
    pub(super) fn new(faults: AcpFaults) -> Self {
        Self {
            faults,
            stdin: VecDeque::new(),
            closed: false,
            exit: None,
            output: Vec::new(),
            prompt: None,
            requests: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            last_request: 0,
            late: 0,
        }
    }

    fn print(&mut self, line: &Value) {
        self.output.extend_from_slice(line.to_string().as_bytes());
        self.output.push(b'\n');
    }

    fn answer(&mut self, id: &Value, result: &Value) {
        self.print(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn fail(&mut self, id: &Value, code: i64) {
        self.print(&json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}));
    }

    fn update(&mut self, update: &Value) {
        let params = json!({"sessionId": "s", "update": update});
        self.print(&json!({"jsonrpc": "2.0", "method": "session/update", "params": params}));
    }

    fn text(&mut self) {
        let content = json!({"type": "text", "text": "hi"});
        self.update(&json!({"sessionUpdate": "agent_message_chunk", "content": content}));
    }

    /// Does one thing. Returns whether there was something to do.
    pub(super) fn step(
        &mut self,
        random: &mut Random,
        sessions: &mut BTreeSet<String>,
        runs: &mut BTreeMap<Uuid, u32>,
    ) -> bool {
        if self.exit.is_some() {
            return false;
        }
        if !self.stdin.is_empty()
            && (random.one_in(2) || self.prompt.is_none())
            && let Some(line) = self.stdin.pop_front()
        {
            self.read(&line, random, sessions, runs);
            return true;
        }
        if self.advance(random) {
            return true;
        }
        match self.stdin.pop_front() {
            Some(line) => self.read(&line, random, sessions, runs),
            None if self.closed => {
                self.exit = Some(AgentExit::Exited { code: 0, stderr: String::new() });
            }
            None => return false,
        }
        true
    }

    fn read(
        &mut self,
        line: &str,
        random: &mut Random,
        sessions: &mut BTreeSet<String>,
        runs: &mut BTreeMap<Uuid, u32>,
    ) {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        let (id, params) = (&line["id"], &line["params"]);
        match line["method"].as_str() {
            Some("initialize") if self.faults.never_ready => {}
            Some("initialize") => {
                let mut session = json!({});
                if self.faults.resumes {
                    session["resume"] = json!({});
                }
                let capabilities =
                    json!({"loadSession": self.faults.loads, "sessionCapabilities": session});
                let result = json!({"protocolVersion": 1, "agentCapabilities": capabilities});
                self.answer(id, &result);
            }
            Some("session/new") => {
                let session = format!("s{}", sessions.len() + 1);
                sessions.insert(session.clone());
                self.answer(id, &json!({"sessionId": session, "modes": {"availableModes": []}}));
            }
            Some(method @ ("session/resume" | "session/load")) => {
                let known = params["sessionId"].as_str().is_some_and(|it| sessions.contains(it));
                if !known || self.faults.forgets {
                    return self.fail(id, -32602);
                }
                if method == "session/load" {
                    self.text();
                }
                self.answer(id, &Value::Null);
                if method == "session/load" {
                    self.text();
                }
            }
            Some("session/prompt") => {
                assert!(self.prompt.is_none(), "a second prompt while one is open");
                let session = params["sessionId"].as_str().unwrap_or_default();
                assert!(sessions.contains(session), "a prompt for an unknown session");
                let uuid = id.as_str().and_then(|it| it.strip_prefix("prompt-")).expect("an id");
                *runs.entry(uuid.parse().expect("a uuid")).or_default() += 1;
                let steps = random.below(6);
                self.prompt = Some(ModelPrompt { id: id.clone(), steps, cancelled: false });
            }
            Some("session/cancel") => {
                if let Some(prompt) = self.prompt.as_mut().filter(|_| !self.faults.ignores_cancel) {
                    prompt.cancelled = true;
                }
            }
            Some(_) if id.is_null() => {}
            Some(_) => self.answer(id, &json!({})),
            None => {
                let request = id.as_u64().expect("an id of the agent");
                let expected = self.requests.remove(&request) || self.withdrawn.remove(&request);
                assert!(expected, "request {request} was answered twice, or never opened");
            }
        }
    }

    fn advance(&mut self, random: &mut Random) -> bool {
        if self.faults.noisy && random.one_in(20) {
            self.output.extend_from_slice(b"a warning, and no JSON {\n");
        }
        let waits = !self.requests.is_empty();
        let Some(prompt) = &mut self.prompt else {
            if self.late == 0 {
                return false;
            }
            self.late -= 1;
            self.text();
            return true;
        };
        if waits && self.closed {
            // No more answers can come, except those that are on their way.
            self.withdrawn.append(&mut self.requests);
            return true;
        }
        if prompt.cancelled && (!waits || self.faults.hasty) {
            self.withdrawn.append(&mut self.requests);
            return self.end(random, "cancelled");
        }
        if waits {
            if self.faults.withdraws && random.one_in(4) {
                let request = *self.requests.iter().next().expect("it waits");
                self.requests.remove(&request);
                self.withdrawn.insert(request);
                let params = json!({"requestId": request});
                self.print(
                    &json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params}),
                );
                return true;
            }
            return false;
        }
        if prompt.steps == 0 {
            if self.faults.ignores_cancel && random.one_in(2) {
                return false;
            }
            return self.end(random, "end_turn");
        }
        prompt.steps -= 1;
        match random.below(8) {
            0 | 1 => {
                self.last_request += 1;
                let request = self.last_request;
                self.requests.insert(request);
                let options = json!([
                    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                    {"optionId": "no", "name": "No", "kind": "reject_once"},
                ]);
                let call = json!({"toolCallId": "c", "title": "ls"});
                self.print(&json!({"jsonrpc": "2.0", "id": request,
                    "method": "session/request_permission",
                    "params": {"sessionId": "s", "toolCall": call, "options": options}}));
            }
            2 if self.faults.crashes => self.exit = Some(AgentExit::Killed(11)),
            3 => {
                let cost = json!({"amount": random.below(400), "currency": "USD"});
                self.update(
                    &json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost}),
                );
            }
            4 => self.update(&json!({"sessionUpdate": "made_up"})),
            _ => self.text(),
        }
        true
    }

    fn end(&mut self, random: &mut Random, reason: &str) -> bool {
        let Some(prompt) = self.prompt.take() else { return false };
        if random.one_in(8) {
            self.fail(&prompt.id, -32603);
        } else {
            self.answer(&prompt.id, &json!({"stopReason": reason}));
        }
        if self.faults.late {
            self.late = random.below(3);
        }
        true
    }
}
