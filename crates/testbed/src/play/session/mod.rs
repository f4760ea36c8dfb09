//! The session: a state machine that is told what happened and says what is to be done.
//!
//! [`Session::on`] is the only way in, its effects the only way out; nothing here waits, reads a
//! file or looks at a clock. A turn begins with prompts from the queue and ends with a `result`
//! line; in between, the main talk and its helpers ask the model and run calls.

mod asides;
mod asks;
mod call;
mod calls;
mod commands;
mod control;
mod ending;
mod failure;
mod hooks;
mod initialize;
mod interruption;
mod lines;
mod mcp;
mod permits;
mod prompts;
mod queries;
mod replies;
mod rounds;
mod sub_agents;
mod talk;
mod tasks;
mod tools;
mod transcript;
mod trouble;
mod turn;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::Value;

use super::arguments::Arguments;
use super::effect::Effect;
use super::ids::Ids;
use super::input::{Input, Said};
use super::permission::{Mode, Rules};
use super::queue::Queue;
use super::settings::{CommandHook, Settings, resolve_model};
use super::surroundings::Surroundings;
use super::tally::Tally;
use asides::Asides;
use asks::Asks;
use hooks::HostHooks;
use mcp::Servers;
use sub_agents::Helper;
use talk::{Speaker, Talk};
use tasks::Tasks;
use turn::Turn;

pub(crate) use transcript::{Past, restore};

/// The version the player plays.
pub(crate) const VERSION: &str = "2.1.325";

/// A session with a host.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about the session")]
pub(crate) struct Session {
    arguments: Arguments,
    around: Surroundings,
    settings: Settings,
    id: String,
    ids: Ids,
    now: SystemTime,
    effects: Vec<Effect>,
    mode: Mode,
    mode_before_plan: Mode,
    rules: Rules,
    directories: Vec<PathBuf>,
    model: Option<String>,
    effort: String,
    plan_name: Option<String>,
    talk: Talk,
    helpers: BTreeMap<String, Helper>,
    queue: Queue,
    turn: Option<Turn>,
    asks: Asks,
    host_hooks: HostHooks,
    command_hooks: Vec<CommandHook>,
    servers: Servers,
    asides: Asides,
    agents: BTreeMap<String, Value>,
    tasks: Tasks,
    tally: Tally,
    seen: BTreeSet<String>,
    past: BTreeSet<String>,
    input_open: bool,
    state: State,
    results: u32,
    failed: bool,
    requests: u64,
    forward_helpers: bool,
    spare_helpers: bool,
    started: bool,
    leaving: bool,
    held_replay: Option<(String, Value)>,
    introduced: bool,
}

/// What a host that follows states is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    RequiresAction,
}

impl Session {
    /// A session that has not begun yet; `past` is what it goes on from.
    pub(crate) fn new(
        arguments: Arguments,
        around: Surroundings,
        settings: Settings,
        id: String,
        past: Past,
        ids: Ids,
    ) -> Self {
        let servers = Servers::read(&arguments.mcp);
        Self {
            mode: settings.mode,
            mode_before_plan: Mode::Default,
            rules: settings.rules.clone(),
            directories: settings.directories.clone(),
            command_hooks: settings.hooks.clone(),
            forward_helpers: arguments.forward_subagent_text,
            effort: around.effort.clone().unwrap_or_else(|| "medium".to_owned()),
            arguments,
            around,
            settings,
            id,
            ids,
            now: SystemTime::UNIX_EPOCH,
            effects: Vec::new(),
            model: None,
            plan_name: None,
            talk: Talk::resumed(Speaker::Main, past.history),
            helpers: BTreeMap::new(),
            queue: Queue::default(),
            turn: None,
            asks: Asks::default(),
            host_hooks: HostHooks::default(),
            servers,
            asides: Asides::default(),
            agents: BTreeMap::new(),
            tasks: Tasks::default(),
            tally: Tally::resumed(past.cost),
            seen: past.prompts.clone(),
            past: past.prompts,
            input_open: true,
            state: State::Idle,
            results: 0,
            failed: false,
            requests: 0,
            spare_helpers: false,
            started: false,
            leaving: false,
            held_replay: None,
            introduced: false,
        }
    }

    /// Takes something that happened at a time, and says what is to be done.
    pub(crate) fn on(&mut self, now: SystemTime, input: Input) -> Vec<Effect> {
        self.now = now;
        self.take(input);
        self.proceed();
        std::mem::take(&mut self.effects)
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Said(said) => self.said(said),
            Input::Closed => self.input_ended(),
            Input::Reply(number, reply) => self.replied(number, reply),
            Input::Inspected { call, finding } => self.inspected(&call, finding),
            Input::Done { call, outcome } => self.done(&call, outcome),
            Input::TaskEnded { task, code } => self.task_ended(&task, code),
            Input::ShellDone { output } => self.shell_done(&output),
            Input::HookDone { id, report } => self.command_hook_done(&id, &report),
            Input::Rewound { request, answer } => self.succeed(&request, answer),
            Input::Woken(timer) => self.woken(timer),
            Input::Interrupted => {
                self.leaving = true;
                if self.turn.is_some() {
                    self.interrupt_turn();
                }
                self.effects.push(Effect::End(0));
            }
            Input::Terminated => self.effects.push(Effect::End(143)),
        }
    }

    fn said(&mut self, said: Said) {
        match said {
            Said::Prompt(line) => self.prompted(&line),
            Said::Request { id, request } => self.requested(&id, &request),
            Said::Answer(line) => self.answered(&line),
            Said::Injected(line) => self.injected(&line),
            Said::Shell(line) => self.shell(&line),
            Said::Cancel(_) | Said::Nothing => {}
            Said::Fatal(text) => {
                self.leaving = true;
                self.effects.push(Effect::Complain(text));
                self.effects.push(Effect::End(1));
            }
        }
    }

    fn input_ended(&mut self) {
        self.input_open = false;
        self.close_asks();
    }

    /// Begins the next turn, or ends, where nothing else is to be done.
    fn proceed(&mut self) {
        if self.leaving || self.is_starting() {
            return;
        }
        if self.turn.is_none() && !self.queue.is_empty() && !self.asks.greets_servers() {
            if !self.started && self.hook_start() {
                return;
            }
            self.begin_turn();
        }
        if self.turn.is_some() {
            return;
        }
        if self.queue.is_empty() && self.helpers.is_empty() {
            self.enter(State::Idle);
        }
        let busy = !self.queue.is_empty() || !self.helpers.is_empty() || !self.tasks.is_empty();
        if !self.input_open && !busy && self.asides.is_empty() {
            self.leaving = true;
            self.effects.push(Effect::End(u8::from(self.failed)));
        }
    }

    /// The model that answers now.
    fn model(&self) -> String {
        let chosen = self.model.as_deref().or(self.settings.model.as_deref());
        resolve_model(chosen.unwrap_or("default"))
    }

    /// The talk of a speaker.
    fn talk(&mut self, speaker: &Speaker) -> Option<&mut Talk> {
        match speaker {
            Speaker::Main => Some(&mut self.talk),
            Speaker::Helper(id) => self.helpers.get_mut(id).map(|helper| &mut helper.talk),
        }
    }

    /// Where the session's transcript is.
    fn transcript_path(&self) -> String {
        let folder = super::store::folder(&self.around.home, &self.around.cwd);
        folder.join(format!("{}.jsonl", self.id)).display().to_string()
    }

    /// Where the plan is written.
    fn plan_path(&mut self) -> PathBuf {
        if self.plan_name.is_none() {
            self.plan_name = Some(format!("plan-{}", self.ids.word(8)));
        }
        let name = self.plan_name.as_deref().unwrap_or_default();
        self.around.home.join(".claude/plans").join(format!("{name}.md"))
    }

    fn print(&mut self, line: Value) {
        self.effects.push(Effect::Print(line));
    }
}
