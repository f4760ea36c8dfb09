//! The machine by example. What must hold whatever happens is in the simulation.

mod deaths;
mod prompts;
mod requests;
mod settings;
mod turns;

use journal::SessionId;
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, Outcome, PromptState, QueueFate, TurnEnding, Wants};

use super::{
    Answer, Command, Effect, Input, Limits, Machine, NewPrompt, Origins, Reply, Start, Ticket,
};
use crate::heard::{Asked, Ended, Heard};
use crate::options::Options;

fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// A machine with a clock of its own, and what it did so far.
struct Stage {
    machine: Machine,
    now: u64,
    tickets: u64,
    replies: Vec<(Ticket, Reply)>,
    notes: Vec<Note>,
    said: Vec<String>,
    started: Vec<Start>,
    ended: u32,
    killed: u32,
}

impl Stage {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        Self::from(Origins::new(0, SessionId(id(0)), limits, Options::default()))
    }

    fn from(origins: Origins) -> Self {
        Self {
            machine: Machine::new(origins),
            now: 0,
            tickets: 0,
            replies: Vec::new(),
            notes: Vec::new(),
            said: Vec::new(),
            started: Vec::new(),
            ended: 0,
            killed: 0,
        }
    }

    fn on(&mut self, input: Input) {
        for effect in self.machine.on(self.now, input) {
            match effect {
                Effect::Note(note) => self.notes.push(note),
                Effect::Say(saying) => self.said.push(saying.as_str().to_owned()),
                Effect::Reply(ticket, reply) => self.replies.push((ticket, reply)),
                Effect::Start(start) => self.started.push(start),
                Effect::End { .. } => self.ended += 1,
                Effect::Kill => self.killed += 1,
                Effect::Prompt(_)
                | Effect::Request(_)
                | Effect::Grant(_)
                | Effect::Options(_)
                | Effect::Settle => {}
            }
        }
    }

    fn command(&mut self, command: Command) -> Option<Reply> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.on(Input::Command { ticket, command });
        self.replies.iter().find(|(it, _)| *it == ticket).map(|(_, reply)| reply.clone())
    }

    fn prompt(&mut self, number: u128, delivery: Delivery) -> Reply {
        let prompt = NewPrompt {
            id: id(number),
            text: format!("prompt {number}"),
            images: Vec::new(),
            delivery,
            by: ann(),
        };
        self.command(Command::Prompt(prompt)).expect("a reply at once")
    }

    fn hear(&mut self, heard: Heard) {
        self.on(Input::Heard(heard));
    }

    /// Time passes until a moment, with a tick at every deadline before it.
    fn wait(&mut self, millis: u64) {
        let end = self.now + millis;
        let mut ticks = 0;
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            ticks += 1;
            assert!(ticks < 1000, "a deadline that is never done with");
            self.now = self.now.max(at);
            self.on(Input::Tick);
        }
        self.now = end;
        self.on(Input::Tick);
    }

    /// The id of the last request to the agent that says `subtype`.
    fn request_id(&self, subtype: &str) -> String {
        let line = self.said.iter().rev().find(|line| line.contains(subtype));
        let line = line.unwrap_or_else(|| panic!("no {subtype} in {:?}", self.said));
        let line = wire::json::Raw::parse(line).unwrap();
        line.get("request_id").unwrap().text().unwrap().into()
    }

    fn answer(&mut self, subtype: &str, answer: Result<Option<String>, String>) {
        let request = self.request_id(subtype);
        self.hear(Heard::Answered { request, answer });
    }

    /// Brings the agent up.
    fn ready(&mut self) {
        self.on(Input::AgentStarted);
        self.answer("initialize", Ok(Some(r#"{"claude_code_version":"2.1.325"}"#.to_owned())));
    }

    /// A session whose agent is at work on prompt 1.
    fn at_work() -> Self {
        let mut stage = Self::new();
        stage.prompt(1, Delivery::Queue).unwrap();
        stage.ready();
        stage.hear(Heard::TurnBegan { conversation: Some("c".to_owned()) });
        stage.hear(Heard::Accepted(id(1)));
        stage
    }

    fn states(&self, number: u128) -> Vec<PromptState> {
        let state = |note: &Note| match note {
            Note::PromptBecame { prompt, state } if *prompt == id(number) => Some(*state),
            _ => None,
        };
        self.notes.iter().filter_map(state).collect()
    }

    fn endings(&self) -> Vec<(u64, TurnEnding)> {
        let ending = |note: &Note| match note {
            Note::TurnOver { turn, ending } => Some((*turn, ending.clone())),
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

    fn said_prompts(&self) -> usize {
        self.said.iter().filter(|line| line.contains(r#""type":"user""#)).count()
    }
}

fn ended(prompts: &[u128]) -> Heard {
    let prompts = prompts.iter().map(|number| id(*number)).collect();
    Heard::TurnEnded(Ended { failure: None, prompts, unsolicited: false })
}

fn failed() -> Heard {
    let failure = Some("it failed".to_owned());
    Heard::TurnEnded(Ended { failure, prompts: Vec::new(), unsolicited: false })
}

fn asked(request: &str, command: &str) -> Heard {
    Heard::Asked(Asked {
        request: request.to_owned(),
        wants: Wants::Permission,
        tool_name: "Bash".to_owned(),
        tool_use_id: None,
        input: serde_json::json!({ "command": command }).to_string(),
        suggestions: None,
        agent: None,
    })
}

fn allow() -> Answer {
    Answer::Allow { input: None, remember: None, mode: None }
}

fn interrupt(queue: QueueFate) -> Command {
    Command::Interrupt { queue, by: ann() }
}
