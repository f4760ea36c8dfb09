//! A model of the CLI: one process, as far as a session notices it.
//!
//! It reads the lines the machine says as the real one would and prints what a line of the real one
//! would be heard as, in the orders the captures show. It works in small steps, so that everything
//! else can happen in between, and it misbehaves as its [`Mood`] says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;
use towpath_session::machine::Gone;
use towpath_session::{Asked, Ended, Heard};
use uuid::Uuid;
use wire::note::Wants;

use crate::dice::Dice;

/// Whose manners the process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// 2.1.37: no state events, no lifecycle, one turn for each prompt that waits, silence where a
    /// request is not known.
    Old,
    /// 2.1.197: state events, merged prompts, turns that tell their origin.
    Middle,
    /// 2.1.325: also the lifecycle of prompts, and results that list theirs.
    New,
}

/// What the CLI keeps on disk between processes.
#[derive(Default)]
pub(crate) struct Memory {
    /// Whether there is a conversation to resume.
    pub(crate) saved: bool,
    /// Prompts of the conversation: none of them is run again.
    known: BTreeSet<Uuid>,
    /// How often each prompt was run, in whatever conversation.
    pub(crate) runs: BTreeMap<Uuid, u32>,
    /// Prompts that were dropped before they were run.
    pub(crate) dropped: BTreeSet<Uuid>,
    asks: u64,
}

/// How a process misbehaves.
#[expect(
    clippy::struct_excessive_bools,
    reason = "one misbehaviour has nothing to do with another"
)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mood {
    /// It goes on when it is interrupted.
    pub(crate) disobedient: bool,
    /// Some turns end without a result, or with one that comes late.
    pub(crate) loses_results: bool,
    /// It never answers `initialize`.
    pub(crate) mute: bool,
    /// It crashes now and then.
    pub(crate) frail: bool,
    /// It loses prompts.
    pub(crate) forgetful: bool,
}

/// One process.
#[derive(Debug)]
pub(crate) struct Cli {
    dialect: Dialect,
    pub(crate) mood: Mood,
    pub(crate) stdin: VecDeque<String>,
    pub(crate) closed: bool,
    pub(crate) stdout: Vec<Heard>,
    queue: Vec<Uuid>,
    turn: Option<Turn>,
    /// Requests that wait for an answer; whether each belongs to something in the background.
    asks: BTreeMap<String, bool>,
    /// Requests for something no host offers.
    vain: BTreeSet<String>,
    background: u32,
    /// Whether it has said that it has nothing to do.
    rested: bool,
    owed: Option<(u64, Ended)>,
    pub(crate) model: Option<String>,
    pub(crate) gone: Option<Gone>,
    pub(crate) complaint: Option<String>,
}

#[derive(Debug, Default)]
struct Turn {
    prompts: Vec<Uuid>,
    /// Prompts that are not repeated yet.
    unrepeated: Vec<Uuid>,
    unsolicited: bool,
    steps: u64,
}

impl Cli {
    pub(crate) fn new(dialect: Dialect, mood: Mood, model: Option<String>) -> Self {
        Self {
            dialect,
            mood,
            model,
            stdin: VecDeque::new(),
            closed: false,
            stdout: Vec::new(),
            queue: Vec::new(),
            turn: None,
            asks: BTreeMap::new(),
            vain: BTreeSet::new(),
            background: 0,
            rested: true,
            owed: None,
            gone: None,
            complaint: None,
        }
    }

    /// A process that does not find the conversation it is to go on with.
    pub(crate) fn lost(&mut self) {
        let failure = Some("No conversation found with session ID: c".to_owned());
        self.say(Heard::TurnEnded(Ended { failure, prompts: Vec::new(), unsolicited: false }));
        self.gone = Some(Gone::Exited { code: 1, stderr: String::new() });
    }

    /// What a fresh conversation forgets.
    pub(crate) fn begin_anew(memory: &mut Memory) {
        memory.saved = false;
        memory.known.clear();
    }

    /// Whether it waits for a person, a host or anything else.
    pub(crate) fn waits_for_an_answer(&self) -> bool {
        !self.asks.is_empty() || !self.vain.is_empty()
    }

    /// Whether all it has to do is to read what it was told.
    pub(crate) fn is_slow_to_begin(&self) -> bool {
        let at_rest = self.rested || !self.has_states();
        at_rest && !self.could_advance() && self.background == 0 && self.owed.is_none()
    }

    /// When it will do something by itself, if it has nothing else to do.
    pub(crate) fn due(&self) -> Option<u64> {
        self.owed.as_ref().map(|(at, _)| *at)
    }

    /// Does one thing; whether there was one to do.
    pub(crate) fn step(&mut self, now: u64, dice: &mut Dice, memory: &mut Memory) -> bool {
        if self.gone.is_some() {
            return false;
        }
        if !self.stdin.is_empty()
            && (dice.one_in(2) || !self.could_advance())
            && let Some(line) = self.stdin.pop_front()
        {
            self.read(&line, now, dice, memory);
            return true;
        }
        if self.advance(now, dice, memory) {
            return true;
        }
        match self.stdin.pop_front() {
            Some(line) => self.read(&line, now, dice, memory),
            None if self.closed => {
                self.gone = Some(Gone::Exited { code: 0, stderr: String::new() });
            }
            None => return false,
        }
        true
    }

    fn could_advance(&self) -> bool {
        self.turn.is_some() || !self.queue.is_empty()
    }

    fn say(&mut self, heard: Heard) {
        self.stdout.push(heard);
    }

    fn say_life(&mut self) {
        self.say(Heard::Life);
    }

    fn has_states(&self) -> bool {
        self.dialect != Dialect::Old
    }

    // What it does by itself.

    fn advance(&mut self, now: u64, dice: &mut Dice, memory: &mut Memory) -> bool {
        if let Some((at, ended)) = self.owed.take() {
            if at <= now {
                self.say(Heard::TurnEnded(ended));
                return true;
            }
            self.owed = Some((at, ended));
        }
        if self.closed && self.waits_for_an_answer() {
            // Nobody can answer any more: each is refused with that.
            self.asks.clear();
            self.vain.clear();
            return true;
        }
        let in_background = self.asks.values().any(|background| *background);
        match &self.turn {
            None if !self.queue.is_empty() => {
                let merged = if self.dialect == Dialect::Old { 1 } else { self.queue.len() };
                let prompts = self.queue.drain(..merged).collect();
                self.begin(prompts, false, dice, memory);
                true
            }
            None if self.background > 0 && !in_background => {
                if dice.one_in(3) {
                    self.ask(dice, memory, true);
                } else {
                    self.background -= 1;
                    self.begin(Vec::new(), true, dice, memory);
                }
                true
            }
            None if self.has_states() && !self.rested && self.owed.is_none() => {
                self.rested = true;
                self.say(Heard::Idle);
                true
            }
            None => false,
            Some(_) if self.asks.values().any(|background| !background) => false,
            Some(_) if !self.vain.is_empty() => false,
            Some(turn) if turn.steps == 0 => {
                self.finish(now, dice, None);
                true
            }
            Some(_) => {
                self.work(dice, memory, in_background);
                true
            }
        }
    }

    fn begin(
        &mut self,
        prompts: Vec<Uuid>,
        unsolicited: bool,
        dice: &mut Dice,
        memory: &mut Memory,
    ) {
        if let Some((_, ended)) = self.owed.take() {
            self.say(Heard::TurnEnded(ended));
        }
        for prompt in &prompts {
            memory.known.insert(*prompt);
            *memory.runs.entry(*prompt).or_default() += 1;
        }
        if self.has_states() && self.rested {
            self.rested = false;
            self.say(Heard::Busy);
        }
        let mut unrepeated = prompts.clone();
        if self.dialect == Dialect::New {
            for prompt in &prompts {
                self.say(Heard::Accepted(*prompt));
            }
            if dice.one_in(2) {
                unrepeated.clear();
            }
        }
        let conversation = if dice.one_in(20) { "d" } else { "c" };
        self.say(Heard::TurnBegan { conversation: Some(conversation.to_owned()) });
        self.turn = Some(Turn { prompts, unrepeated, unsolicited, steps: dice.below(6) });
    }

    fn repeat_prompts(&mut self) {
        let unrepeated = self.turn.as_mut().map(|it| std::mem::take(&mut it.unrepeated));
        for prompt in unrepeated.into_iter().flatten() {
            self.say(Heard::Accepted(prompt));
        }
    }

    fn work(&mut self, dice: &mut Dice, memory: &mut Memory, in_background: bool) {
        memory.saved = true;
        if let Some(turn) = &mut self.turn {
            turn.steps -= 1;
        }
        self.say_life();
        if dice.one_in(2) {
            self.repeat_prompts();
        }
        match dice.below(8) {
            0 | 1 => self.fold(memory),
            2 => {
                for _ in 0..=dice.below(2) {
                    self.ask(dice, memory, false);
                }
            }
            3 if !in_background => self.background += 1,
            4 => self.say(Heard::TurnBegan { conversation: Some("c".to_owned()) }),
            5 if dice.one_in(3) => {
                memory.asks += 1;
                let request = format!("vain-{}", memory.asks);
                self.vain.insert(request.clone());
                self.say(Heard::AskedInVain { request, what: "teleport".to_owned() });
            }
            6 if self.background > 0 && !in_background => self.ask(dice, memory, true),
            7 if self.mood.frail => self.gone = Some(Gone::Killed(11)),
            _ => self.say_life(),
        }
    }

    /// A tool has ended: what waits joins the turn.
    fn fold(&mut self, memory: &mut Memory) {
        self.repeat_prompts();
        for prompt in std::mem::take(&mut self.queue) {
            memory.known.insert(prompt);
            *memory.runs.entry(prompt).or_default() += 1;
            self.say(Heard::Accepted(prompt));
            if let Some(turn) = &mut self.turn {
                turn.prompts.push(prompt);
            }
        }
    }

    fn ask(&mut self, dice: &mut Dice, memory: &mut Memory, background: bool) {
        memory.asks += 1;
        let request = format!("ask-{}", memory.asks);
        self.asks.insert(request.clone(), background);
        let (wants, tool) = match dice.below(6) {
            0 => (Wants::Answers, "AskUserQuestion"),
            1 => (Wants::PlanApproval, "ExitPlanMode"),
            _ => (Wants::Permission, "Bash"),
        };
        self.say(Heard::Asked(Asked {
            request,
            wants,
            tool_name: tool.to_owned(),
            tool_use_id: None,
            input: r#"{"command":"id"}"#.to_owned(),
            suggestions: None,
            agent: (background || dice.one_in(4)).then(|| "a".to_owned()),
        }));
    }

    fn finish(&mut self, now: u64, dice: &mut Dice, aborted: Option<&str>) {
        self.repeat_prompts();
        let Some(turn) = self.turn.take() else { return };
        let lists = self.dialect == Dialect::New;
        let failed = aborted.is_none() && dice.one_in(8);
        let failure = aborted.map(str::to_owned).or_else(|| failed.then(|| "API".to_owned()));
        let ended = Ended {
            failure,
            prompts: if lists { turn.prompts.clone() } else { Vec::new() },
            unsolicited: turn.unsolicited && self.dialect != Dialect::Old,
        };
        if self.mood.loses_results && self.has_states() && dice.one_in(3) {
            self.rested = true;
            self.say(Heard::Idle);
            if dice.one_in(2) {
                self.owed = Some((now + dice.below(5000), ended));
            }
            return;
        }
        self.say(Heard::TurnEnded(ended));
        if lists {
            for prompt in turn.prompts {
                self.say(match aborted {
                    Some(_) => Heard::Dropped(prompt),
                    None => Heard::Accepted(prompt),
                });
            }
        }
    }

    // What it is told.

    fn read(&mut self, line: &str, now: u64, dice: &mut Dice, memory: &mut Memory) {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        match line["type"].as_str() {
            Some("user") if self.mood.forgetful && dice.one_in(4) => {
                memory.dropped.insert(uuid_of(&line["uuid"]));
            }
            Some("user") => self.prompted(uuid_of(&line["uuid"]), memory),
            Some("control_request") => {
                let id = line["request_id"].as_str().expect("an id").to_owned();
                self.requested(id, &line["request"], now, dice, memory);
            }
            Some("control_response") => self.answered(&line["response"], now, dice),
            other => panic!("the agent does not know {other:?}"),
        }
    }

    fn prompted(&mut self, prompt: Uuid, memory: &mut Memory) {
        if memory.known.contains(&prompt) || self.queue.contains(&prompt) {
            self.say(Heard::Accepted(prompt));
        } else {
            self.queue.push(prompt);
            self.say_life();
        }
    }

    fn requested(
        &mut self,
        id: String,
        request: &Value,
        now: u64,
        dice: &mut Dice,
        memory: &mut Memory,
    ) {
        let old = self.dialect == Dialect::Old;
        let subtype = request["subtype"].as_str().expect("a subtype");
        let answer = match subtype {
            "initialize" if self.mood.mute => return,
            "initialize" => Some(r#"{"claude_code_version":"2"}"#.to_owned()),
            "interrupt" => return self.interrupted(id, request, now, dice, memory),
            "cancel_async_message" if !old => {
                let prompt = uuid_of(&request["message_uuid"]);
                let cancelled = self.queue.contains(&prompt);
                self.queue.retain(|it| *it != prompt);
                if cancelled {
                    self.drop_prompt(prompt, memory);
                }
                Some(format!(r#"{{"cancelled":{cancelled}}}"#))
            }
            "set_model" => {
                self.model = request["model"].as_str().map(str::to_owned);
                None
            }
            "set_permission_mode" => {
                if old {
                    // It answers this one twice.
                    self.say(Heard::Answered { request: id.clone(), answer: Ok(None) });
                }
                None
            }
            "rewind_files" | "rewind_conversation" if request["dry_run"].is_null() => {
                let prompted = self.turn.as_ref().is_some_and(|turn| !turn.prompts.is_empty());
                if prompted || !self.queue.is_empty() {
                    self.complaint = Some(format!("a {subtype} in the middle of a turn"));
                }
                None
            }
            _ if old => return,
            "get_workspace_diff" => {
                let answer = Err(format!("Unsupported control request subtype: {subtype}"));
                return self.say(Heard::Answered { request: id, answer });
            }
            _ => Some("{}".to_owned()),
        };
        self.say(Heard::Answered { request: id, answer: Ok(answer) });
    }

    fn drop_prompt(&mut self, prompt: Uuid, memory: &mut Memory) {
        memory.dropped.insert(prompt);
        if self.dialect == Dialect::New {
            self.say(Heard::Dropped(prompt));
        }
    }

    fn interrupted(
        &mut self,
        id: String,
        request: &Value,
        now: u64,
        dice: &mut Dice,
        memory: &mut Memory,
    ) {
        if self.dialect == Dialect::New && request["cancel_queued"] == true {
            for prompt in std::mem::take(&mut self.queue) {
                self.drop_prompt(prompt, memory);
            }
        }
        if self.mood.disobedient {
            if let Some(turn) = &mut self.turn {
                turn.steps += 50;
            }
            return self.say(Heard::Answered { request: id, answer: Ok(None) });
        }
        let foreground = self.asks.iter().filter(|(_, background)| !**background);
        for ask in foreground.map(|(ask, _)| ask.clone()).collect::<Vec<_>>() {
            self.asks.remove(&ask);
            self.say(Heard::Withdrawn(ask));
        }
        self.vain.clear();
        self.say(Heard::Answered { request: id, answer: Ok(Some("{}".to_owned())) });
        self.finish(now, dice, Some("aborted_streaming"));
    }

    fn answered(&mut self, response: &Value, now: u64, dice: &mut Dice) {
        let id = response["request_id"].as_str().expect("an id");
        // It repeats the host's own answers.
        self.say(Heard::Answered { request: id.to_owned(), answer: Ok(None) });
        self.vain.remove(id);
        let asked = self.asks.remove(id);
        if asked == Some(false) && response["response"]["interrupt"] == true {
            let others = self.asks.iter().filter(|(_, background)| !**background);
            for ask in others.map(|(ask, _)| ask.clone()).collect::<Vec<_>>() {
                self.asks.remove(&ask);
                self.say(Heard::Withdrawn(ask));
            }
            self.finish(now, dice, Some("aborted_tools"));
        }
    }
}

fn uuid_of(value: &Value) -> Uuid {
    value.as_str().and_then(|it| it.parse().ok()).expect("a uuid")
}
