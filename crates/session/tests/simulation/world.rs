//! Everything around the machine: its owner, the disk, the process, people and the clock.
//!
//! The owner is played step by step as the real one works: what a batch decided is durable before
//! any of it leaves, and Towpath may die before the batch, after it, or between any two things it
//! lets out.

use journal::SessionId;
use towpath_session::Heard;
use towpath_session::machine::{
    Command, Effect, Gone, Input, Limits, Machine, Origins, Start, Ticket,
};
use uuid::Uuid;
use wire::note::{Cause, Note, PromptState};

use crate::cli::{Cli, Dialect, Memory, Mood};
use crate::dice::Dice;
use crate::disk::{Disk, Shim};
use crate::ledger::Ledger;
use crate::people::People;

#[expect(clippy::struct_excessive_bools, reason = "what is known of a run is many small things")]
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) now: u64,
    pub(crate) limits: Limits,
    pub(crate) machine: Machine,
    /// Whether Towpath is down, and somebody has to start it again.
    pub(crate) down: bool,
    /// Whether anything may go wrong.
    pub(crate) faulty: bool,
    /// How rarely Towpath dies in a step.
    crashes: u64,
    pub(crate) dialect: Dialect,
    pub(crate) disk: Disk,
    pub(crate) shim: Option<Shim>,
    pub(crate) memory: Memory,
    pub(crate) ledger: Ledger,
    pub(crate) people: People,
    tickets: u64,
    /// Whether there is a connection to the shim, and whether words can go over it.
    pub(crate) connected: bool,
    foreign: bool,
    /// Whether the last process was one nothing could be said to.
    was_foreign: bool,
    /// A process that is being started, and the model it is started with.
    starting: Option<(Start, Option<String>)>,
    offset: usize,
    writes: u64,
    conversation: bool,
    draft: Vec<Effect>,
    /// How often Towpath has died.
    deaths: u32,
    /// Prompts that were with an agent when it died.
    pub(crate) orphaned: Vec<Uuid>,
    pub(crate) agent_died: bool,
    /// Whether the agent was so slow that time ran out for it.
    pub(crate) lagged: bool,
    /// The last turn an agent was slow to begin with.
    pub(crate) slow_turn: u64,
    /// Whether nobody can know which settings the agent has.
    pub(crate) settings_unknown: bool,
    last_sign: u64,
    pub(crate) trace: Option<Vec<String>>,
}

impl World {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        let mut dice = Dice::seeded(seed);
        let dialects = [Dialect::Old, Dialect::Middle, Dialect::New];
        let dialect = *dice.pick(&dialects).unwrap_or(&Dialect::New);
        let limits = Limits {
            request: dice.one_in(2).then_some(60_000),
            park: (!dice.one_in(4)).then_some(90_000),
            ..Limits::default()
        };
        let mut disk = Disk::default();
        disk.options.continue_after_cut = dice.one_in(3);
        let now = 1_000_000;
        let session = SessionId(Uuid::nil());
        let origins = Origins::new(now, session, limits, disk.options.clone());
        Self {
            dice,
            now,
            limits,
            machine: Machine::new(origins),
            down: false,
            faulty: true,
            crashes: [25, 100, 1000][usize::try_from(seed % 3).unwrap_or(0)],
            dialect,
            disk,
            shim: None,
            memory: Memory::default(),
            ledger: Ledger::default(),
            people: People::default(),
            tickets: 0,
            connected: false,
            foreign: false,
            was_foreign: false,
            starting: None,
            offset: 0,
            writes: 0,
            conversation: false,
            draft: Vec::new(),
            deaths: 0,
            orphaned: Vec::new(),
            agent_died: false,
            lagged: false,
            slow_turn: 0,
            settings_unknown: false,
            last_sign: now,
            trace: traced.then(Vec::new),
        }
    }

    pub(crate) fn record(&mut self, what: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now} {}", what()));
        }
    }

    // The owner.

    fn take_in(&mut self, input: Input) {
        self.record(|| format!("> {input:?}"));
        if let Input::Heard(_) = input {
            self.last_sign = self.now;
        }
        let effects = self.machine.on(self.now, input);
        if let Some(at) = self.machine.deadline() {
            assert!(at > self.now, "a deadline of {at} is left at {}", self.now);
        }
        for effect in &effects {
            self.record(|| format!("    {effect:?}"));
            match effect {
                Effect::Say(saying) => {
                    let may = self.connected && !self.foreign;
                    assert!(may, "said to nobody: {}", saying.as_str());
                    self.writes += 1;
                }
                Effect::Note(Note::RequestResolved { .. }) => self.last_sign = self.now,
                Effect::Note(Note::Stalled { .. }) => {
                    let silence = self.now - self.last_sign;
                    assert!(silence >= self.limits.stall, "stalled after {silence} ms");
                }
                _ => {}
            }
        }
        self.draft.extend(effects);
    }

    fn commit(&mut self) {
        if self.chance(self.crashes) {
            self.record(|| "towpath dies before it has written that down".to_owned());
            return self.die();
        }
        let draft = std::mem::take(&mut self.draft);
        let mut out = Vec::new();
        let mut number = self.writes;
        number -= draft.iter().filter(|it| matches!(it, Effect::Say(_))).count() as u64;
        for effect in draft {
            match effect {
                Effect::Note(note) => {
                    match note {
                        Note::TurnBegan { turn, .. } => self.disk.turn = turn,
                        Note::TurnOver { turn, .. } => self.disk.turn_over = turn,
                        _ => {}
                    }
                    self.check_end_of_prompt(&note);
                    self.ledger.note(&note);
                }
                Effect::Prompt(record) => drop(self.disk.prompts.insert(record.id, record)),
                Effect::Request(record) => {
                    drop(self.disk.requests.insert(record.id.clone(), record));
                }
                Effect::Grant(grant) => self.disk.grants.push(grant),
                Effect::Options(options) => self.disk.options = *options,
                Effect::Say(saying) => {
                    number += 1;
                    self.disk.outbound.push((number, saying.as_str().to_owned()));
                    out.push(Out::Say(number, saying.as_str().to_owned()));
                }
                Effect::Start(start) => out.push(Out::Start(start)),
                Effect::End { patience } => out.push(Out::End(patience)),
                Effect::Kill => out.push(Out::Kill),
                Effect::Reply(ticket, _) => out.push(Out::Reply(ticket)),
                Effect::Settle => {}
            }
        }
        self.disk.offset = self.offset;
        self.disk.writes = self.writes;
        self.disk.conversation = self.conversation;
        self.disk.status = self.machine.status();
        self.ledger.agrees_with(self.disk.status);
        let dies = self.chance(self.crashes);
        let all = out.len() as u64;
        let most = if dies { self.dice.below(all + 1) } else { all };
        for out in out.into_iter().take(usize::try_from(most).unwrap_or(usize::MAX)) {
            self.let_out(out);
        }
        if dies {
            self.record(|| format!("towpath dies after {most} of {all}"));
            self.die();
        }
    }

    /// A prompt is not done before the agent has begun with it, and an agent that has one is not
    /// parked.
    fn check_end_of_prompt(&self, note: &Note) {
        match note {
            Note::PromptBecame { prompt, state: PromptState::Done } => {
                let runs = self.memory.runs.get(prompt).copied().unwrap_or(0);
                // 2.1.37 does not tell whether a turn was its own idea.
                let loses = self.shim.as_ref().is_some_and(|it| it.cli.mood.loses_results);
                // A late result is known as such only by the Towpath that gave up waiting for it.
                let excused =
                    self.lagged || self.dialect == Dialect::Old || loses && self.deaths > 0;
                assert!(runs > 0 || excused, "{prompt} is done and not begun with");
            }
            Note::AgentGone { cause: Cause::Parked } if !self.was_foreign => {
                let mut ends = self.disk.prompts.values().filter(|it| it.changed == self.now);
                let lost = ends.find(|it| it.state == PromptState::Indeterminate);
                assert!(lost.is_none() || self.lagged, "parked with {lost:?}");
            }
            _ => {}
        }
    }

    fn let_out(&mut self, out: Out) {
        match out {
            Out::Say(number, line) => self.write(number, &line),
            Out::Reply(ticket) => self.ledger.replied(ticket),
            Out::Start(start) => {
                self.disk.run += 1;
                (self.disk.offset, self.offset) = (0, 0);
                (self.disk.writes, self.writes) = (0, 0);
                self.disk.outbound.clear();
                self.starting = Some((start, self.disk.options.model.clone()));
            }
            Out::End(patience) => {
                let now = self.now;
                if let Some(shim) = self.shim.as_mut().filter(|_| self.connected) {
                    shim.cli.closed = true;
                    shim.kill_at = Some(now + 3 * patience);
                }
            }
            Out::Kill => {
                if self.connected {
                    self.kill_agent();
                }
            }
        }
    }

    fn write(&mut self, number: u64, line: &str) {
        if let Some(shim) = self.shim.as_mut().filter(|_| self.connected)
            && number > shim.last_write
            && shim.write(number, line.to_owned())
        {
            self.ledger.said(line);
        }
    }

    /// Somebody wants something.
    pub(crate) fn command(&mut self, command: Command) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.ledger.asked(ticket);
        self.take_in(Input::Command { ticket, command });
        self.commit();
    }

    pub(crate) fn tick(&mut self) {
        self.take_in(Input::Tick);
        self.commit();
    }

    /// Takes in some of the agent's output; whether there was any.
    pub(crate) fn hear(&mut self, most: u64) -> bool {
        let Some(shim) = self.shim.as_ref().filter(|_| self.connected) else { return false };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let heard: Vec<Heard> = shim.spool.iter().skip(self.offset).take(most).cloned().collect();
        let some = !heard.is_empty();
        self.take_in_output(heard);
        some
    }

    fn take_in_output(&mut self, output: Vec<Heard>) {
        for heard in output {
            self.offset += 1;
            match &heard {
                Heard::TurnBegan { .. } => self.conversation = true,
                Heard::Asked(_) => {
                    let grants = self.disk.grants.clone();
                    self.take_in(Input::Grants(grants));
                }
                _ => {}
            }
            self.take_in(Input::Heard(heard));
        }
        self.commit();
    }

    /// Hears of an agent's end, once all of its output is taken in; whether there was one.
    pub(crate) fn hear_of_the_end(&mut self) -> bool {
        let Some(shim) = self.shim.as_ref().filter(|_| self.connected) else { return false };
        let Some(gone) = shim.gone().cloned().filter(|_| shim.spool.len() <= self.offset) else {
            return false;
        };
        self.agent_gone(gone);
        true
    }

    fn agent_gone(&mut self, gone: Gone) {
        self.connected = false;
        self.foreign = false;
        let run = self.disk.run;
        // Some may have been said to it when it was dead already.
        self.orphan_prompts();
        self.take_in(Input::AgentGone(gone));
        self.commit();
        if !self.down {
            // What the process left is removed.
            self.shim = self.shim.take().filter(|shim| shim.run != run);
        }
    }

    /// A process that is being started gets somewhere; whether one is.
    pub(crate) fn finish_start(&mut self) -> bool {
        let Some((start, model)) = self.starting.take() else { return false };
        if self.chance(8) {
            self.shim = None;
            self.agent_gone(Gone::NotStarted("no such file".to_owned()));
        } else {
            self.spawn(start, model);
            self.connected = true;
            self.take_in(Input::AgentStarted);
            self.commit();
        }
        true
    }

    fn spawn(&mut self, start: Start, model: Option<String>) {
        let mood = if self.faulty {
            Mood {
                disobedient: self.dice.one_in(6),
                loses_results: self.dice.one_in(4),
                mute: self.dice.one_in(20),
                frail: self.dice.one_in(8),
                forgetful: self.dice.one_in(8),
            }
        } else {
            Mood::default()
        };
        let mut cli = Cli::new(self.dialect, mood, model);
        self.settings_unknown = false;
        match start {
            Start::Fresh => Cli::begin_anew(&mut self.memory),
            Start::Resume if !self.memory.saved => cli.lost(),
            Start::Resume => {}
        }
        self.record(|| format!("a process starts: {start:?}, {mood:?}"));
        let run = self.disk.run;
        self.shim = Some(Shim {
            run,
            cli,
            lives: true,
            foreign: false,
            spool: Vec::new(),
            last_write: 0,
            kill_at: None,
        });
        self.collect_output();
    }

    // Deaths.

    fn chance(&mut self, times: u64) -> bool {
        self.faulty && self.dice.one_in(times)
    }

    pub(crate) fn kill_agent(&mut self) {
        self.record(|| "the agent dies".to_owned());
        if let Some(shim) = &mut self.shim {
            shim.kill();
            shim.lives = !self.faulty || self.dice.one_in(2);
        }
        self.collect_output();
    }

    /// Does what the agent does in one step; whether it did anything.
    pub(crate) fn step_agent(&mut self) -> bool {
        let Some(shim) = &mut self.shim else { return false };
        let did = shim.cli.step(self.now, &mut self.dice, &mut self.memory);
        if let Some(complaint) = shim.cli.complaint.take() {
            // 2.1.37 does not tell whose turn it is at, so a prompt may seem done too early.
            let excused = self.lagged || self.dialect == Dialect::Old;
            assert!(excused || shim.cli.mood.loses_results, "{complaint}");
        }
        self.collect_output();
        did
    }

    fn collect_output(&mut self) {
        let Some(shim) = &mut self.shim else { return };
        shim.collect_output();
        if shim.gone().is_some() {
            self.orphan_prompts();
        }
    }

    fn orphan_prompts(&mut self) {
        self.agent_died = true;
        let with_it = self
            .disk
            .prompts
            .values()
            .filter(|it| matches!(it.state, PromptState::Written | PromptState::Accepted));
        self.orphaned.extend(with_it.map(|it| it.id));
    }

    pub(crate) fn die(&mut self) {
        self.deaths += 1;
        self.down = true;
        self.draft.clear();
        self.ledger.forget_tickets();
        self.connected = false;
        self.foreign = false;
        self.settings_unknown = true;
        if let Some((start, model)) = self.starting.take()
            && self.dice.one_in(2)
        {
            self.spawn(start, model);
        }
    }

    /// Starts Towpath again, which takes the session over.
    pub(crate) fn arrive(&mut self) {
        self.record(|| "towpath arrives".to_owned());
        self.down = false;
        let open = matches!(self.disk.status, journal::Status::Running | journal::Status::Waiting);
        let shim = self.shim.as_ref().filter(|shim| shim.run == self.disk.run);
        let attached = shim.is_some_and(|shim| shim.lives);
        let agent_lives = shim.is_some() || open;
        self.machine = Machine::new(Origins {
            now: self.now,
            session: SessionId(Uuid::nil()),
            limits: self.limits,
            options: self.disk.options.clone(),
            prompts: self.disk.prompts.values().cloned().collect(),
            requests: self
                .disk
                .requests
                .values()
                .filter(|it| it.resolution.is_none())
                .cloned()
                .collect(),
            turns: self.disk.turn,
            turn_is_open: self.disk.turn > self.disk.turn_over,
            agent_lives,
            resumable: self.disk.conversation,
        });
        self.offset = self.disk.offset;
        self.writes = self.disk.writes;
        self.conversation = self.disk.conversation;
        self.last_sign = self.now;
        if attached {
            self.connected = true;
            if self.chance(10)
                && let Some(shim) = &mut self.shim
            {
                // An upgrade has changed what the shim and Towpath say to each other.
                shim.foreign = true;
            }
            for (number, line) in self.disk.outbound.clone() {
                self.write(number, &line);
            }
            self.foreign = self.shim.as_ref().is_some_and(|shim| shim.foreign);
            self.was_foreign = self.foreign;
            self.take_in(if self.foreign { Input::AgentForeign } else { Input::AgentMet });
            self.commit();
        } else if agent_lives {
            let (gone, rest) = match &mut self.shim {
                Some(shim) if shim.run == self.disk.run => {
                    // A dead shim's agent is swept away with it.
                    shim.kill();
                    shim.collect_output();
                    let rest = shim.spool.iter().skip(self.offset).cloned().collect();
                    (shim.gone().cloned().unwrap_or(Gone::Lost), rest)
                }
                _ => (Gone::Lost, Vec::new()),
            };
            self.collect_output();
            self.take_in_output(rest);
            if !self.down {
                self.agent_gone(gone);
            }
        } else {
            self.tick();
        }
    }
}

/// What may leave once a batch is written.
enum Out {
    Say(u64, String),
    Start(Start),
    End(u64),
    Kill,
    Reply(Ticket),
}
