//! A model of one agent process, as far as a session notices it.
//!
//! It reads the lines that the machine writes like the real CLI, and prints the events of the real
//! CLI's lines, in the orders that the captures show. It works in small steps, so that everything
//! else can happen in between, and it has the [`Faults`] it was given.

mod input;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use towpath_session::machine::AgentExit;
use towpath_session::{AgentEvent, HookCallback, PermissionRequest, SessionOptions};
use uuid::Uuid;
use wire::note::RequestKind;
use wire::{ReportedState, TurnResult};

use super::users::Random;

/// The generation of the CLI that is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// 2.1.37: no state events, no lifecycle, one turn for each waiting prompt, no answer to
    /// unknown requests.
    Old,
    /// 2.1.197: state events, merged prompts, results with their origin.
    Middle,
    /// 2.1.325: also the lifecycle of prompts, and results that list their prompts.
    New,
}

/// What the CLI keeps on disk between processes.
#[derive(Default)]
pub(super) struct AgentStorage {
    /// Whether there is a conversation to resume.
    pub(super) saved: bool,
    /// Prompts of the conversation: none of them is run again.
    known: BTreeSet<Uuid>,
    /// How often each prompt was run, in any conversation.
    pub(super) runs: BTreeMap<Uuid, u32>,
    /// Prompts that were dropped before they were run.
    pub(super) dropped: BTreeSet<Uuid>,
    last_request: u64,
    /// What the conversation has cost, in cents.
    cents: u64,
    /// How many conversations there were.
    pub(super) conversations: u32,
}

/// The faults of a process.
#[expect(clippy::struct_excessive_bools, reason = "the faults are independent of each other")]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// It continues when it is interrupted.
    pub(super) ignores_interrupts: bool,
    /// Some turns end without a result, or with one that comes late.
    pub(super) loses_results: bool,
    /// It never answers `initialize`.
    pub(super) never_ready: bool,
    /// It crashes now and then.
    pub(super) crashes: bool,
    /// It loses prompts.
    pub(super) loses_prompts: bool,
}

/// One process.
#[derive(Debug)]
pub(super) struct AgentModel {
    generation: Generation,
    pub(super) faults: Faults,
    pub(super) stdin: VecDeque<String>,
    pub(super) closed: bool,
    pub(super) stdout: Vec<AgentEvent>,
    queue: Vec<Uuid>,
    turn: Option<ModelTurn>,
    /// Requests that wait for an answer, and whether each comes from the background.
    requests: BTreeMap<String, bool>,
    /// Requests that no host supports.
    unsupported: BTreeSet<String>,
    /// The calls of hooks, and how often each was answered.
    hooks: BTreeMap<String, u32>,
    background: u32,
    /// Whether it has reported that it is idle.
    reported_idle: bool,
    late_result: Option<(u64, TurnResult)>,
    pub(super) model: Option<String>,
    /// What it was started with and cannot be told.
    pub(super) max_turns: Option<u32>,
    /// What this process has cost, in cents.
    cents: u64,
    pub(super) exit: Option<AgentExit>,
    pub(super) violation: Option<String>,
}

#[derive(Debug, Default)]
struct ModelTurn {
    prompts: Vec<Uuid>,
    /// Prompts that are not repeated yet.
    not_repeated: Vec<Uuid>,
    unsolicited: bool,
    steps: u64,
}

impl AgentModel {
    pub(super) fn new(generation: Generation, faults: Faults, options: SessionOptions) -> Self {
        Self {
            generation,
            faults,
            model: options.model,
            max_turns: options.max_turns,
            stdin: VecDeque::new(),
            closed: false,
            stdout: Vec::new(),
            queue: Vec::new(),
            turn: None,
            requests: BTreeMap::new(),
            unsupported: BTreeSet::new(),
            hooks: BTreeMap::new(),
            background: 0,
            reported_idle: true,
            late_result: None,
            cents: 0,
            exit: None,
            violation: None,
        }
    }

    /// The process does not find the conversation that it should resume.
    pub(super) fn fail_to_resume(&mut self) {
        let failure = Some("No conversation found with session ID: c".to_owned());
        self.print(AgentEvent::TurnEnded(TurnResult { failure, ..TurnResult::default() }));
        self.exit = Some(AgentExit::Exited { code: 1, stderr: String::new() });
    }

    /// Starts a new conversation.
    pub(super) fn start_conversation(storage: &mut AgentStorage) {
        storage.saved = false;
        storage.known.clear();
        storage.cents = 0;
        storage.conversations += 1;
    }

    /// Whether it waits for an answer to a request.
    pub(super) fn waits_for_answer(&self) -> bool {
        !self.requests.is_empty() || !self.unsupported.is_empty()
    }

    /// Whether all it has to do is to read its input.
    pub(super) fn is_slow_to_start(&self) -> bool {
        let at_rest = self.reported_idle || !self.has_states();
        at_rest && !self.could_advance() && self.background == 0 && self.late_result.is_none()
    }

    /// When it will do something without input.
    pub(super) fn due(&self) -> Option<u64> {
        let late = self.late_result.as_ref().filter(|_| self.exit.is_none());
        late.map(|(at, _)| *at)
    }

    /// Does one thing. Returns whether there was something to do.
    pub(super) fn step(
        &mut self,
        now: u64,
        random: &mut Random,
        storage: &mut AgentStorage,
    ) -> bool {
        if self.exit.is_some() {
            return false;
        }
        if !self.stdin.is_empty()
            && (random.one_in(2) || !self.could_advance())
            && let Some(line) = self.stdin.pop_front()
        {
            self.read(&line, now, random, storage);
            return true;
        }
        if self.advance(now, random, storage) {
            return true;
        }
        match self.stdin.pop_front() {
            Some(line) => self.read(&line, now, random, storage),
            None if self.closed => {
                self.exit = Some(AgentExit::Exited { code: 0, stderr: String::new() });
            }
            None => return false,
        }
        true
    }

    fn could_advance(&self) -> bool {
        self.turn.is_some() || !self.queue.is_empty()
    }

    fn print(&mut self, event: AgentEvent) {
        self.stdout.push(event);
    }

    fn has_states(&self) -> bool {
        self.generation != Generation::Old
    }

    fn advance(&mut self, now: u64, random: &mut Random, storage: &mut AgentStorage) -> bool {
        if let Some((at, ended)) = self.late_result.take() {
            if at <= now {
                self.print(AgentEvent::TurnEnded(ended));
                return true;
            }
            self.late_result = Some((at, ended));
        }
        if self.closed && self.waits_for_answer() {
            // No answer can come any more, so all are denied.
            self.requests.clear();
            self.unsupported.clear();
            return true;
        }
        let in_background = self.requests.values().any(|background| *background);
        match &self.turn {
            None if !self.queue.is_empty() => {
                let merged = if self.generation == Generation::Old { 1 } else { self.queue.len() };
                let prompts = self.queue.drain(..merged).collect();
                self.begin(prompts, false, random, storage);
                true
            }
            None if self.background > 0 && !in_background => {
                if random.one_in(3) {
                    self.ask(random, storage, true);
                } else {
                    self.background -= 1;
                    self.begin(Vec::new(), true, random, storage);
                }
                true
            }
            None if self.has_states() && !self.reported_idle && self.late_result.is_none() => {
                self.reported_idle = true;
                self.print(AgentEvent::StateReported(ReportedState::Idle));
                true
            }
            None => false,
            Some(_) if self.requests.values().any(|background| !background) => false,
            Some(_) if !self.unsupported.is_empty() => false,
            Some(turn) if turn.steps == 0 => {
                self.finish(now, random, storage, None);
                true
            }
            Some(_) => {
                self.work(random, storage, in_background);
                true
            }
        }
    }

    fn begin(
        &mut self,
        prompts: Vec<Uuid>,
        unsolicited: bool,
        random: &mut Random,
        storage: &mut AgentStorage,
    ) {
        if let Some((_, ended)) = self.late_result.take() {
            self.print(AgentEvent::TurnEnded(ended));
        }
        for prompt in &prompts {
            storage.known.insert(*prompt);
            *storage.runs.entry(*prompt).or_default() += 1;
        }
        if self.has_states() && self.reported_idle {
            self.reported_idle = false;
            self.print(AgentEvent::StateReported(ReportedState::Running));
        }
        let mut not_repeated = prompts.clone();
        if self.generation == Generation::New {
            for prompt in &prompts {
                self.print(AgentEvent::PromptAccepted(*prompt));
            }
            if random.one_in(2) {
                not_repeated.clear();
            }
        }
        let conversation = if random.one_in(20) { "d" } else { "c" };
        self.print(AgentEvent::TurnStarted { conversation: Some(conversation.to_owned()) });
        self.turn = Some(ModelTurn { prompts, not_repeated, unsolicited, steps: random.below(6) });
    }

    fn repeat_prompts(&mut self) {
        let not_repeated = self.turn.as_mut().map(|it| std::mem::take(&mut it.not_repeated));
        for prompt in not_repeated.into_iter().flatten() {
            self.print(AgentEvent::PromptAccepted(prompt));
        }
    }

    fn work(&mut self, random: &mut Random, storage: &mut AgentStorage, in_background: bool) {
        storage.saved = true;
        if let Some(turn) = &mut self.turn {
            turn.steps -= 1;
        }
        self.print(AgentEvent::Output);
        if random.one_in(2) {
            self.repeat_prompts();
        }
        match random.below(8) {
            0 | 1 => self.fold(storage),
            2 => {
                for _ in 0..=random.below(2) {
                    self.ask(random, storage, false);
                }
            }
            3 if !in_background => self.background += 1,
            4 => self.print(AgentEvent::TurnStarted { conversation: Some("c".to_owned()) }),
            5 if random.one_in(2) => {
                storage.last_request += 1;
                let request = format!("hook-{}", storage.last_request);
                self.unsupported.insert(request.clone());
                self.hooks.insert(request.clone(), 0);
                self.print(AgentEvent::HookCalled(HookCallback {
                    id: request,
                    callback: "towpath-pre".to_owned(),
                    input: Some(r#"{"tool_name":"Write"}"#.to_owned()),
                }));
            }
            5 if random.one_in(2) => {
                storage.last_request += 1;
                let request = format!("unsupported-{}", storage.last_request);
                self.unsupported.insert(request.clone());
                self.print(AgentEvent::UnsupportedRequest {
                    id: request,
                    subtype: "mcp_message".to_owned(),
                });
            }
            6 if self.background > 0 && !in_background => self.ask(random, storage, true),
            7 if self.faults.crashes => self.exit = Some(AgentExit::Killed(11)),
            _ => self.print(AgentEvent::Output),
        }
    }

    /// A tool call has ended: waiting prompts join the turn.
    fn fold(&mut self, storage: &mut AgentStorage) {
        self.repeat_prompts();
        for prompt in std::mem::take(&mut self.queue) {
            storage.known.insert(prompt);
            *storage.runs.entry(prompt).or_default() += 1;
            self.print(AgentEvent::PromptAccepted(prompt));
            if let Some(turn) = &mut self.turn {
                turn.prompts.push(prompt);
            }
        }
    }

    fn ask(&mut self, random: &mut Random, storage: &mut AgentStorage, background: bool) {
        storage.last_request += 1;
        let request = format!("ask-{}", storage.last_request);
        self.requests.insert(request.clone(), background);
        let (kind, tool, input) = match random.below(7) {
            0 => (
                RequestKind::Question,
                "AskUserQuestion",
                r#"{"questions":[{"options":[{"label":"This"}],"question":"Which?"}]}"#,
            ),
            1 => (RequestKind::Plan, "ExitPlanMode", r#"{"plan":"x"}"#),
            2 if !background => {
                (RequestKind::Unknown, "teleport", r#"{"subtype":"teleport","to":7}"#)
            }
            _ => (RequestKind::Permission, "Bash", r#"{"command":"id"}"#),
        };
        self.print(AgentEvent::RequestOpened(PermissionRequest {
            id: request,
            kind,
            tool_name: tool.to_owned(),
            tool_use_id: None,
            input: input.to_owned(),
            suggestions: None,
            choices: Vec::new(),
            agent: (background || kind != RequestKind::Unknown && random.one_in(4))
                .then(|| "a".to_owned()),
        }));
    }

    /// What it reports that the turn, with everything before it, has cost. 2.1.325 goes on counting where
    /// the last process of the conversation ended.
    #[expect(clippy::cast_precision_loss, reason = "it is a small number")]
    fn total_cost(&mut self, random: &mut Random, storage: &mut AgentStorage) -> Option<f64> {
        let cents = random.below(60);
        self.cents += cents;
        storage.cents += cents;
        let total = if self.generation == Generation::New { storage.cents } else { self.cents };
        (!random.one_in(10)).then_some(total as f64 / 100.0)
    }

    fn finish(
        &mut self,
        now: u64,
        random: &mut Random,
        storage: &mut AgentStorage,
        aborted: Option<&str>,
    ) {
        self.repeat_prompts();
        let Some(turn) = self.turn.take() else { return };
        let lists = self.generation == Generation::New;
        let failed = aborted.is_none() && random.one_in(8);
        let failure = aborted.map(str::to_owned).or_else(|| failed.then(|| "API".to_owned()));
        let ended = TurnResult {
            failure,
            prompts: if lists { turn.prompts.clone() } else { Vec::new() },
            unsolicited: turn.unsolicited && self.generation != Generation::Old,
            total_cost: self.total_cost(random, storage),
        };
        if self.faults.loses_results && self.has_states() && random.one_in(3) {
            self.reported_idle = true;
            self.print(AgentEvent::StateReported(ReportedState::Idle));
            if random.one_in(2) {
                self.late_result = Some((now + random.below(5000), ended));
            }
            return;
        }
        self.print(AgentEvent::TurnEnded(ended));
        if lists {
            for prompt in turn.prompts {
                self.print(match aborted {
                    Some(_) => AgentEvent::PromptDropped(prompt),
                    None => AgentEvent::PromptAccepted(prompt),
                });
            }
        }
    }
}
