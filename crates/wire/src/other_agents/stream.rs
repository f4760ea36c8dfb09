//! What only the lines before it can tell about a line of another agent's stream.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::fields::readable_error;
use super::step::{
    AgentCall, AgentCallEnd, AgentStep, AgentTurnEnd, AgentUsage, TextExtent, TurnOutcome,
    UsageScope,
};
use super::{OtherAgentEvent, acp};
use crate::acp::event::{AcpCallBody, AcpEvent, AcpResult};
use crate::event::{Body, Init, Signal, Usage};
use crate::json::{Raw, Text};
use crate::line::{Dialect, Line, Reading};

/// Completes the lines of one stream, in order.
///
/// It names the agent where its line has the shape of another's, drops what an agent says twice,
/// decides whether a turn failed if its last line does not say, and turns totals into differences.
/// Lines of Claude Code stay as they are.
#[derive(Debug, Default)]
pub struct AgentStreamReader {
    /// The agent that wrote the last line of another agent.
    agent: Option<Dialect>,
    /// How many processes of Codex wrote into the stream. Each counts its items from 0.
    processes: u32,
    calls: HashMap<String, CallRecord>,
    turn: AgentTurnState,
    last_turn_failed: bool,
    last_prompt: String,
    last_thinking: String,
    /// The tokens of the session so far, where the agent says only that.
    reported: Usage,
    cost: Option<f64>,
    /// Ids of prompts over the Agent Client Protocol that have no answer yet.
    open_prompts: HashSet<String>,
    /// Whether the agent reported a system error last. codex-acp 2.6.0 then ends the turn as if it
    /// had succeeded, without tokens.
    system_error: bool,
}

#[derive(Debug)]
struct CallRecord {
    names_files: bool,
    /// Whether it failed, once it has ended.
    ended: Option<bool>,
}

#[derive(Debug, Default)]
struct AgentTurnState {
    open: bool,
    /// Whether the agent has done anything in it.
    worked: bool,
    /// The last thing in it, if that was a failure.
    failure: Option<String>,
}

impl AgentStreamReader {
    /// Completes the next line.
    pub fn complete(&mut self, line: &mut Line<'_>) {
        let Reading::Event(event) = &mut line.reading else { return };
        match &mut event.body {
            Body::OtherAgent(other) => {
                self.agent = Some(line.dialect);
                self.complete_steps(line.dialect, &mut other.steps);
            }
            Body::Init(init) if line.dialect == Dialect::StreamJson => {
                self.agent = agent_of_init(init);
                line.dialect = self.agent.unwrap_or(line.dialect);
            }
            Body::Assistant(_) | Body::User(_) | Body::TurnEnded(_)
                if self.agent == Some(Dialect::Cursor) && line.dialect == Dialect::StreamJson =>
            {
                line.dialect = Dialect::Cursor;
                if matches!(event.body, Body::Assistant(_)) && is_cursor_delta(line.bytes) {
                    event.body = Body::OtherAgent(Box::new(OtherAgentEvent::of(Vec::new())));
                }
            }
            Body::Signal(Signal::Error(fault)) if self.agent == Some(Dialect::CodexExec) => {
                let mut steps =
                    vec![AgentStep::Failure(readable_error(fault.text().unwrap_or_default()))];
                line.dialect = Dialect::CodexExec;
                self.complete_steps(line.dialect, &mut steps);
                event.body = Body::OtherAgent(Box::new(OtherAgentEvent::of(steps)));
            }
            Body::Acp(acp) => {
                let session = acp_session(acp);
                event.envelope.session_id = event.envelope.session_id.or(session);
            }
            Body::Stream(_) if line.dialect == Dialect::StreamJson => self.agent = None,
            _ => {}
        }
    }

    /// The steps of a message of the Agent Client Protocol.
    pub fn acp_steps<'a>(&mut self, event: &AcpEvent<'a>) -> Vec<AgentStep<'a>> {
        let mut steps = acp::steps(event);
        match event {
            AcpEvent::Update { meta: Some(meta), .. } => {
                let status = meta.get("codex").and_then(|it| it.get("threadStatus")?.get("type"));
                if let Some(status) = status.and_then(Raw::text) {
                    self.system_error = status == *"systemError";
                }
            }
            AcpEvent::Call(call) if matches!(call.body, AcpCallBody::Prompt { .. }) => {
                self.open_prompts.extend(call.id.map(|id| id.as_str().to_owned()));
            }
            AcpEvent::Response(response) => {
                let answers_prompt = self.open_prompts.remove(response.id.as_str());
                if let (true, Err(failure)) = (answers_prompt, &response.result) {
                    let error = failure.message.map(Text::decode);
                    let end = AgentTurnEnd::new(TurnOutcome::Failed, error);
                    steps.push(AgentStep::TurnEnded(end));
                }
            }
            _ => {}
        }
        if let Some(AgentStep::TurnEnded(end)) = steps.last_mut()
            && self.system_error
            && end.usage.is_none_or(|usage| usage == Usage::default())
        {
            end.outcome = TurnOutcome::Failed;
            end.error.get_or_insert(Cow::Borrowed("the agent reported a system error"));
        }
        self.complete_steps(Dialect::Acp, &mut steps);
        steps
    }

    fn complete_steps(&mut self, dialect: Dialect, steps: &mut Vec<AgentStep<'_>>) {
        for step in std::mem::take(steps) {
            match step {
                AgentStep::Session(facts) => {
                    if facts.new_process {
                        self.processes += 1;
                        self.calls.clear();
                    }
                    steps.push(AgentStep::Session(facts));
                }
                AgentStep::TurnStarted => {
                    if !std::mem::replace(&mut self.turn.open, true) {
                        steps.push(AgentStep::TurnStarted);
                    }
                }
                AgentStep::Prompt(text) => {
                    if !self.turn.worked && self.turn.open && self.last_prompt == text {
                        continue;
                    }
                    // Its session files have no line for the end of a turn.
                    if dialect == Dialect::Copilot && self.turn.worked {
                        let end = AgentTurnEnd::new(TurnOutcome::Unstated, None);
                        steps.extend(self.turn_end(end).map(AgentStep::TurnEnded));
                    }
                    self.turn.open = true;
                    self.last_prompt.clear();
                    self.last_prompt.push_str(&text);
                    steps.push(AgentStep::Prompt(text));
                }
                AgentStep::Text(text) => {
                    self.work();
                    steps.push(AgentStep::Text(text));
                }
                AgentStep::Thinking(text) => {
                    self.work();
                    if text.extent == TextExtent::Whole {
                        if self.last_thinking == text.text {
                            continue;
                        }
                        self.last_thinking.clear();
                        self.last_thinking.push_str(&text.text);
                    }
                    steps.push(AgentStep::Thinking(text));
                }
                AgentStep::Call(call) => {
                    self.work();
                    steps.extend(self.call(dialect, call).map(AgentStep::Call));
                }
                AgentStep::CallEnded(end) => {
                    self.work();
                    steps.extend(self.call_end(dialect, end).map(AgentStep::CallEnded));
                }
                AgentStep::Usage(usage) => {
                    steps.extend(self.usage(usage).map(AgentStep::Usage));
                }
                AgentStep::Failure(text) => {
                    self.turn.open = true;
                    self.turn.failure = Some(text.clone().into_owned());
                    steps.push(AgentStep::Failure(text));
                }
                AgentStep::TurnEnded(end) => {
                    steps.extend(self.turn_end(end).map(AgentStep::TurnEnded));
                }
                other @ (AgentStep::Compacted | AgentStep::Notice(_)) => steps.push(other),
            }
        }
    }

    /// The agent goes on, so an earlier failure was not the end.
    fn work(&mut self) {
        self.turn = AgentTurnState { open: true, worked: true, failure: None };
    }

    /// Codex numbers the items of every process from 0.
    fn scoped<'a>(&self, dialect: Dialect, id: Cow<'a, str>) -> Cow<'a, str> {
        if dialect == Dialect::CodexExec && self.processes > 1 {
            Cow::Owned(format!("{}:{id}", self.processes))
        } else {
            id
        }
    }

    /// The call, if it is new, or if it was not known before which files it changes.
    fn call<'a>(&mut self, dialect: Dialect, mut call: AgentCall<'a>) -> Option<AgentCall<'a>> {
        call.id = self.scoped(dialect, call.id);
        let names_files = !call.action.changes().is_empty();
        match self.calls.get_mut(&*call.id) {
            None => {
                let record = CallRecord { names_files, ended: None };
                self.calls.insert(call.id.clone().into_owned(), record);
                Some(call)
            }
            Some(record) if names_files && !record.names_files && record.ended.is_none() => {
                record.names_files = true;
                Some(call)
            }
            Some(_) => None,
        }
    }

    /// The result, unless the call has one already that says the same or worse.
    fn call_end<'a>(
        &mut self,
        dialect: Dialect,
        mut end: AgentCallEnd<'a>,
    ) -> Option<AgentCallEnd<'a>> {
        end.id = self.scoped(dialect, end.id);
        let record = self
            .calls
            .entry(end.id.clone().into_owned())
            .or_insert(CallRecord { names_files: false, ended: None });
        let is_news = record.ended.is_none_or(|failed| end.failed && !failed);
        record.ended = Some(end.failed || record.ended == Some(true));
        is_news.then_some(end)
    }

    fn usage<'a>(&mut self, mut usage: AgentUsage<'a>) -> Option<AgentUsage<'a>> {
        if usage.scope == UsageScope::Session {
            let before = std::mem::replace(&mut self.reported, usage.usage);
            usage.usage = difference(usage.usage, before);
            usage.scope = UsageScope::Request;
        }
        if let Some(cost) = usage.cost {
            self.cost = Some(self.cost.unwrap_or(0.0) + cost);
        }
        (usage.usage != Usage::default() || usage.cost.is_some()).then_some(usage)
    }

    /// The end, unless the turn has ended already.
    fn turn_end<'a>(&mut self, mut end: AgentTurnEnd<'a>) -> Option<AgentTurnEnd<'a>> {
        let AgentTurnState { open, failure, .. } = std::mem::take(&mut self.turn);
        if end.outcome == TurnOutcome::Unstated {
            let failed = failure.is_some();
            end.outcome = if failed { TurnOutcome::Failed } else { TurnOutcome::Completed };
        }
        let is_news = open || end.error.is_some() || (end.failed() && !self.last_turn_failed);
        self.last_turn_failed = end.failed();
        if end.failed() && end.error.is_none() {
            end.error = failure.map(Cow::Owned);
        }
        end.total_cost = self.cost;
        is_news.then_some(end)
    }
}

impl<'a> OtherAgentEvent<'a> {
    fn of(steps: Vec<AgentStep<'a>>) -> Self {
        Self { steps, detail: None, at_ms: None }
    }
}

/// The agent's id of the session that a message is about.
fn acp_session<'a>(event: &AcpEvent<'a>) -> Option<Text<'a>> {
    match event {
        AcpEvent::Update { session, .. } => *session,
        AcpEvent::Call(call) => match call.body {
            AcpCallBody::Prompt { session, .. } | AcpCallBody::Permission { session, .. } => {
                session
            }
            _ => None,
        },
        AcpEvent::Response(response) => match response.result {
            Ok(AcpResult::Session { id, .. }) => id,
            _ => None,
        },
    }
}

/// The tokens since an earlier total; all of them, if another session started at zero.
fn difference(now: Usage, before: Usage) -> Usage {
    if now.output_tokens < before.output_tokens || now.input_tokens < before.input_tokens {
        return now;
    }
    let minus = |now: Option<u64>, before: Option<u64>| {
        now.map(|now| now.saturating_sub(before.unwrap_or(0))).filter(|&tokens| tokens > 0)
    };
    Usage {
        input_tokens: minus(now.input_tokens, before.input_tokens),
        output_tokens: minus(now.output_tokens, before.output_tokens),
        cache_read_input_tokens: minus(now.cache_read_input_tokens, before.cache_read_input_tokens),
        cache_creation_input_tokens: minus(
            now.cache_creation_input_tokens,
            before.cache_creation_input_tokens,
        ),
    }
}

/// The agent that writes an `init` like this one. Claude Code's has always listed its tools and its
/// MCP servers.
fn agent_of_init(init: &Init<'_>) -> Option<Dialect> {
    if init.mcp_servers.is_some() || init.version.is_some() || init.model.is_none() {
        return None;
    }
    let describes_itself = init.permission_mode.is_some() || init.api_key_source.is_some();
    match (init.tools, describes_itself) {
        (None, true) if init.api_key_source.is_some() => Some(Dialect::Cursor),
        (Some(_), false) => Some(Dialect::Droid),
        _ => None,
    }
}

/// Whether an `assistant` line of Cursor is a part of a message that comes again as a whole. With
/// `--stream-partial-output`, parts have a time and no id of the request.
fn is_cursor_delta(line: &[u8]) -> bool {
    let object = std::str::from_utf8(line).ok().and_then(|text| Raw::parse(text.trim()));
    let Some(object) = object else { return false };
    object.get("timestamp_ms").is_some()
        && object.get("model_call_id").and_then(Raw::text).is_none_or(Text::is_empty)
}
