//! Examples of the machine's decisions. The simulation checks what must always hold.

mod agent;
mod budget;
mod hold;
mod hooks;
mod limits;
mod prompts;
mod requests;
mod schedules;
mod settings;
mod turns;

use journal::SessionId;
use uuid::Uuid;
use wire::TurnResult;
use wire::note::{
    Actor, Delivery, Note, Outcome, PromptState, QueuePolicy, RequestKind, TurnEnding,
};

use super::{ClockReading, CommandId, Effect, Input, Machine, MachineSnapshot, StartMode};
use crate::agent_event::{AgentEvent, PermissionRequest};
use crate::command::{CommandResult, NewPrompt, PromptChange, RequestAnswer, SessionCommand};
use crate::config::{HookRequest, SessionLimits};
use crate::options::SessionOptions;

fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

/// A time at which both clocks show the same.
fn at(time: u64) -> ClockReading {
    ClockReading { wall: time, monotonic: time }
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// A machine with its own clock, and the effects it had so far.
struct Harness {
    machine: Machine,
    now: u64,
    commands: u64,
    replies: Vec<(CommandId, CommandResult)>,
    notes: Vec<Note>,
    written: Vec<String>,
    starts: Vec<StartMode>,
    stops: u32,
    kills: u32,
    hooks: Vec<HookRequest>,
    cost: f64,
    /// The days whose cost the machine wanted to know.
    day_loads: Vec<u64>,
}

impl Harness {
    fn new() -> Self {
        Self::with(SessionLimits::default())
    }

    fn with(limits: SessionLimits) -> Self {
        Self::from(MachineSnapshot::new(at(0), SessionId(id(0)), limits, SessionOptions::default()))
    }

    fn from(snapshot: MachineSnapshot) -> Self {
        Self {
            machine: Machine::new(snapshot),
            now: 0,
            commands: 0,
            replies: Vec::new(),
            notes: Vec::new(),
            written: Vec::new(),
            starts: Vec::new(),
            stops: 0,
            kills: 0,
            hooks: Vec::new(),
            cost: 0.0,
            day_loads: Vec::new(),
        }
    }

    fn on(&mut self, input: Input) {
        for effect in self.machine.on(at(self.now), input) {
            match effect {
                Effect::Note(note) => self.notes.push(note),
                Effect::Send(message) => {
                    let line = message.to_line().expect("a line for the CLI");
                    self.written.push(line.as_str().to_owned());
                }
                Effect::Reply(id, reply) => self.replies.push((id, reply)),
                Effect::Start(mode) => self.starts.push(mode),
                Effect::Stop { .. } => self.stops += 1,
                Effect::Kill => self.kills += 1,
                Effect::Prompt(_)
                | Effect::Request(_)
                | Effect::Grant(_)
                | Effect::Options(_)
                | Effect::Compact => {}
                Effect::AddCost(cost) => self.cost += cost,
                Effect::LoadDayCost(day) => self.day_loads.push(day),
                Effect::RunHook(hook) => self.hooks.push(*hook),
            }
        }
    }

    fn command(&mut self, command: SessionCommand) -> Option<CommandResult> {
        self.commands += 1;
        let id = CommandId(self.commands);
        self.on(Input::Command { id, command });
        self.replies.iter().find(|(it, _)| *it == id).map(|(_, reply)| reply.clone())
    }

    fn prompt(&mut self, number: u128, delivery: Delivery) -> CommandResult {
        let prompt = NewPrompt {
            id: id(number),
            text: format!("prompt {number}"),
            images: Vec::new(),
            delivery,
            by: ann(),
        };
        self.command(SessionCommand::Prompt(prompt)).expect("a reply at once")
    }

    fn agent(&mut self, event: AgentEvent) {
        self.on(Input::Agent(event));
    }

    /// Lets time pass, with a tick at every deadline.
    fn wait(&mut self, millis: u64) {
        let end = self.now + millis;
        let mut ticks = 0;
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            ticks += 1;
            assert!(ticks < 1000, "a deadline that never passes");
            self.now = self.now.max(at);
            self.on(Input::Tick);
        }
        self.now = end;
        self.on(Input::Tick);
    }

    /// The id of the last request to the agent that contains `subtype`.
    fn request_id(&self, subtype: &str) -> String {
        let line = self.written.iter().rev().find(|line| line.contains(subtype));
        let line = line.unwrap_or_else(|| panic!("no {subtype} in {:?}", self.written));
        let line = wire::json::Raw::parse(line).unwrap();
        line.get("request_id").unwrap().text().unwrap().into()
    }

    fn answer(&mut self, subtype: &str, answer: Result<Option<String>, String>) {
        let request = self.request_id(subtype);
        self.agent(AgentEvent::RequestAnswered { id: request, answer });
    }

    /// Starts the agent.
    fn ready(&mut self) {
        self.on(Input::AgentStarted);
        self.answer("initialize", Ok(Some(r#"{"claude_code_version":"2.1.325"}"#.to_owned())));
    }

    /// A session whose agent works on prompt 1.
    fn with_running_turn() -> Self {
        let mut harness = Self::new();
        harness.prompt(1, Delivery::Queue).unwrap();
        harness.ready();
        harness.agent(AgentEvent::TurnStarted { conversation: Some("c".to_owned()) });
        harness.agent(AgentEvent::PromptAccepted(id(1)));
        harness
    }

    fn states(&self, number: u128) -> Vec<PromptState> {
        let state = |note: &Note| match note {
            Note::PromptStateChanged { prompt, state } if *prompt == id(number) => Some(*state),
            _ => None,
        };
        self.notes.iter().filter_map(state).collect()
    }

    fn endings(&self) -> Vec<(u64, TurnEnding)> {
        let ending = |note: &Note| match note {
            Note::TurnEnded { turn, ending } => Some((*turn, ending.clone())),
            _ => None,
        };
        self.notes.iter().filter_map(ending).collect()
    }

    fn outcomes(&self) -> Vec<(String, Outcome)> {
        let outcome = |note: &Note| match note {
            Note::RequestResolved { request, outcome, .. } => Some((request.clone(), *outcome)),
            _ => None,
        };
        self.notes.iter().filter_map(outcome).collect()
    }

    fn written_prompts(&self) -> usize {
        self.written.iter().filter(|line| line.contains(r#""type":"user""#)).count()
    }
}

fn turn_result(prompts: &[u128]) -> AgentEvent {
    let prompts = prompts.iter().map(|number| id(*number)).collect();
    AgentEvent::TurnEnded(TurnResult { prompts, ..TurnResult::default() })
}

fn failed_result() -> AgentEvent {
    let failure = Some("it failed".to_owned());
    AgentEvent::TurnEnded(TurnResult { failure, ..TurnResult::default() })
}

fn permission_request(request: &str, command: &str) -> AgentEvent {
    AgentEvent::RequestOpened(PermissionRequest {
        id: request.to_owned(),
        kind: RequestKind::Permission,
        tool_name: "Bash".to_owned(),
        tool_use_id: None,
        input: serde_json::json!({ "command": command }).to_string(),
        suggestions: None,
        choices: Vec::new(),
        agent: None,
    })
}

fn allow() -> RequestAnswer {
    RequestAnswer::Allow { input: None, remember: None, mode: None }
}

fn interrupt(queue: QueuePolicy) -> SessionCommand {
    SessionCommand::Interrupt { queue, by: ann(), turn: None }
}

fn edit(number: u128, text: &str) -> SessionCommand {
    let change = PromptChange { text: Some(text.to_owned()), ..PromptChange::default() };
    SessionCommand::ChangePrompt { prompt: id(number), change }
}
