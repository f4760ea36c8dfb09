//! One scenario, held with one agent: its steps, one after the other.

mod expect;
mod look;

use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::agent::Agent;
use super::child::{Child, Input, ending};
use super::difference::{Difference, Stop};
use super::normal::Normal;
use super::sandbox::Sandbox;
use super::say;
use super::tape::Tape;
use crate::api::Server;
use crate::scenario::{Expectation, Item, Names, Order, Run, Scenario, Signal, Step};

/// How the agent is always started, unless a scenario gives all arguments.
const ARGUMENTS: [&str; 6] =
    ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"];

/// Absence cannot be awaited: that something stays alive is looked at after this long.
const SETTLED: Duration = Duration::from_millis(300);

/// How long an agent may take to end after its input did, where the scenario does not ask.
const FAREWELL: Duration = Duration::from_secs(10);

/// A scenario under way.
pub(super) struct Conversation<'a> {
    scenario: &'a Scenario,
    agent: &'a Agent,
    sandbox: &'a Sandbox,
    server: &'a Server,
    patience: Duration,
    tape: Tape,
    names: Names,
    talks: Vec<Talk>,
    /// Where the processes that run beside each other begin.
    group: usize,
    /// Whom the steps are about.
    current: usize,
}

/// What is known about one process of the agent.
struct Talk {
    child: Child,
    /// How much of the tape the expectations have passed.
    passed: usize,
    /// Where the neighbouring expectations in any order began, and what they found.
    loose: Option<(usize, Vec<usize>)>,
    /// What must not come before the next expectation is met, and from where on.
    forbidden: Vec<(usize, usize, Expectation)>,
    /// What is looked at when it is over.
    in_the_end: Vec<Item<Step>>,
    /// Its control requests that were expected, the newest last, with the names given to them.
    asks: Vec<(Option<String>, Value)>,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(
        scenario: &'a Scenario,
        agent: &'a Agent,
        sandbox: &'a Sandbox,
        server: &'a Server,
        names: Names,
        patience: Duration,
    ) -> Self {
        let tape = Tape::new();
        let talks = Vec::new();
        Self {
            scenario,
            agent,
            sandbox,
            server,
            patience,
            tape,
            names,
            talks,
            group: 0,
            current: 0,
        }
    }

    /// Holds the conversation to its end, or to the first thing that differs.
    pub(super) async fn hold(&mut self) -> Result<(), Stop> {
        let version = self.agent.version;
        let runs = self.scenario.runs.iter().filter(|run| run.versions.contains(version));
        for (place, run) in runs.enumerate() {
            if place > 0 && !run.what.beside {
                self.end_group().await?;
            }
            self.start(&run.what, run.line)?;
            for item in run.what.steps.iter().filter(|item| item.versions.contains(version)) {
                self.step(item).await?;
            }
        }
        self.end_group().await
    }

    pub(super) fn tape(&self) -> &Tape {
        &self.tape
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn children(&self) -> impl Iterator<Item = &Child> {
        self.talks.iter().map(|talk| &talk.child)
    }

    fn start(&mut self, run: &Run, line: usize) -> Result<(), Stop> {
        let own = run.args.iter().filter(|item| item.versions.contains(self.agent.version));
        let own = own.map(|item| self.names.fill(&item.what));
        let mut arguments: Vec<String> = Vec::new();
        if !run.only_args {
            arguments.extend(ARGUMENTS.map(str::to_owned));
        }
        if self.talks.is_empty() && self.scenario.start.session {
            arguments.extend([
                "--session-id".to_owned(),
                self.names.get("session").unwrap_or_default().to_owned(),
            ]);
        }
        arguments.extend(own);
        let input = if self.scenario.start.no_stdin { Input::Nothing } else { Input::Pipe };
        let number = self.talks.len() + 1;
        let command = &self.agent.command;
        let child = Child::start(number, command, arguments, input, self.sandbox, &self.tape)
            .map_err(|error| Stop::Broken(format!("line {line}: could not start it: {error}")))?;
        self.current = self.talks.len();
        if !run.beside {
            self.group = self.current;
        }
        self.talks.push(Talk {
            child,
            passed: self.tape.entries().len(),
            loose: None,
            forbidden: Vec::new(),
            in_the_end: Vec::new(),
            asks: Vec::new(),
        });
        Ok(())
    }

    fn talk(&mut self) -> &mut Talk {
        &mut self.talks[self.current]
    }

    async fn step(&mut self, item: &Item<Step>) -> Result<(), Stop> {
        let line = item.line;
        if !matches!(item.what, Step::Expect { order: Order::AnyOrder, .. }) {
            self.talk().loose = None;
        }
        match &item.what {
            Step::Expect { expectation, name, order } => {
                self.expect(line, expectation, name.as_deref(), *order).await
            }
            Step::Never(expectation) => {
                let from = self.talk().passed;
                self.talk().forbidden.push((line, from, expectation.clone()));
                Ok(())
            }
            Step::Count { .. } | Step::Stderr(_) => {
                self.talk().in_the_end.push(item.clone());
                Ok(())
            }
            Step::Open(gate) => {
                self.server.open(gate);
                Ok(())
            }
            Step::ApiRequest { number, pattern } => self.request(line, *number, pattern).await,
            Step::ApiRequests(count) => self.requests(line, *count).await,
            Step::Signal(signal) => {
                self.talk().child.signal(*signal);
                Ok(())
            }
            Step::CloseInput => {
                self.talk().child.close_input();
                Ok(())
            }
            Step::Exit(_) | Step::ExitBySignal(_) => self.exit(line, &item.what).await,
            Step::Alive => {
                sleep(SETTLED).await;
                match self.talk().child.status() {
                    None => Ok(()),
                    Some(status) => Err(self.differs(line, "it runs", &ending(status))),
                }
            }
            Step::FileIs { .. }
            | Step::FileIsNot(_)
            | Step::WaitFile(_)
            | Step::Gone(_)
            | Step::Left(_) => self.look(line, &item.what).await,
            Step::At(number) => {
                let place = self.group + number.saturating_sub(1);
                if *number == 0 || place >= self.talks.len() {
                    return Err(Stop::Broken(format!("line {line}: there is no process {number}")));
                }
                self.current = place;
                Ok(())
            }
            saying => self.say(line, saying).await,
        }
    }

    async fn say(&mut self, line: usize, saying: &Step) -> Result<(), Stop> {
        let asks = &self.talks[self.current].asks;
        let bytes = say::bytes(saying, &mut self.names, asks)
            .map_err(|problem| Stop::Broken(format!("line {line}: {problem}")))?;
        let patience = self.patience;
        if timeout(patience, self.talk().child.say(&bytes)).await.is_err() {
            return Err(self.late(line, "that it reads its input", "it does not"));
        }
        Ok(())
    }

    /// Lets the processes that run beside each other end, and looks at what is left to look at.
    async fn end_group(&mut self) -> Result<(), Stop> {
        for place in self.group..self.talks.len() {
            let child = &mut self.talks[place].child;
            child.close_input();
            // That it does not end is a difference only where the scenario has an `exit`.
            if timeout(FAREWELL.min(self.patience), child.end()).await.is_err() {
                child.signal(Signal::Kill);
                let _ = timeout(FAREWELL, child.end()).await;
            }
        }
        let everything = self.tape.entries().len();
        for place in self.group..self.talks.len() {
            self.current = place;
            self.check_forbidden(everything)?;
            for item in std::mem::take(&mut self.talk().in_the_end) {
                self.check_end(&item)?;
            }
        }
        Ok(())
    }

    fn normal(&self) -> Normal<'_> {
        Normal::new(&self.names)
    }

    fn differs(&self, line: usize, expected: &str, seen: &str) -> Stop {
        let mut difference = Difference::new(line, "this is not so");
        difference.expected = Some(expected.to_owned());
        difference.seen = Some(self.normal().text(seen));
        difference.into()
    }

    fn late(&self, line: usize, expected: &str, seen: &str) -> Stop {
        let what = format!("this was not so within {} s", self.patience.as_secs());
        let mut difference = Difference::new(line, &what);
        difference.expected = Some(expected.to_owned());
        difference.seen = Some(self.normal().text(seen));
        difference.into()
    }
}
