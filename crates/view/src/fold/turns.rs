//! Where turns begin and end.
//!
//! In a journal, notes say so. Elsewhere it is concluded: in the stream from `init` and `result`,
//! in a session file from the prompts, since it has neither.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::event::Init;
use wire::json::Text;
use wire::note::PromptState;

use super::{Fold, Heard};
use crate::call::CallState;
use crate::item::{ItemId, Place, Revision};
use crate::turn::{FileTouched, Turn, TurnEnd};

/// A turn that changes more files than this does not list the rest.
const FILES: usize = 500;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Turns {
    all: BTreeMap<u64, Record>,
    open: Option<u64>,
    /// Whether notes say where turns begin and end.
    pub(super) noted: bool,
    /// What the next turn is called if nobody says.
    pub(super) next: u64,
}

/// A turn, and what the fold must know of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) turn: Turn,
    /// The first entry that is needed to fold it again.
    pub(super) from: u64,
    /// The last entry that touched one of its items. Tasks in the background may go on long after
    /// its end, so turns may overlap.
    pub(super) last: u64,
    /// What the session had cost before it, as the agent's process counted.
    pub(super) spent: Option<f64>,
    /// Whether items of it were let go.
    pub(super) shed: bool,
    /// Whether an `init` belongs to it.
    inited: bool,
    /// What the main agent has done in it.
    pub(super) deeds: Deeds,
    /// How many prompts stand in front of it.
    fronted: u32,
    pub(super) interrupted: bool,
}

/// What the main agent has done in a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Deeds {
    /// Nothing yet, so a prompt stands in front.
    #[default]
    Nothing,
    /// Something, so a prompt comes in between.
    Acted,
    /// It has also said something.
    Spoke,
}

impl Turns {
    /// The turns from that number on.
    pub(super) fn from(&self, first: u64) -> Vec<Turn> {
        self.all.range(first..).map(|(_, record)| record.turn.clone()).collect()
    }

    /// The turns that changed after `since`; changes are to the newest ones, nearly always.
    pub(super) fn since(&self, since: Revision) -> impl Iterator<Item = &Turn> {
        self.all.values().map(|record| &record.turn).filter(move |turn| turn.rev > since)
    }

    pub(super) fn record(&self, number: u64) -> Option<&Record> {
        self.all.get(&number)
    }

    pub(super) fn records(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.all.values()
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    pub(super) fn open(&self) -> Option<u64> {
        self.open
    }

    pub(super) fn open_turn(&self) -> Option<&Turn> {
        Some(&self.all.get(&self.open?)?.turn)
    }

    pub(super) fn touch(&mut self, number: u64, seq: u64, at: Option<u64>) {
        let Some(record) = self.all.get_mut(&number) else { return };
        record.last = record.last.max(seq);
        if record.turn.began.is_none() && at.is_some() {
            record.turn.began = at;
            record.turn.rev = Revision(seq);
        }
    }

    pub(super) fn let_go(&mut self, number: u64) {
        if let Some(record) = self.all.get_mut(&number) {
            record.shed = true;
        }
    }

    /// The turn that something belongs to which came with no turn running.
    fn latest(&self) -> Option<u64> {
        self.all.keys().next_back().copied()
    }
}

impl Fold {
    /// The turn that something belongs to which does not begin one.
    pub(super) fn home(&mut self) -> u64 {
        match self.turns.open.or_else(|| self.turns.latest()) {
            Some(number) => number,
            None => self.open_turn(0),
        }
    }

    /// The turn that the agent's work belongs to. Where notes do not say when turns begin, work
    /// without a turn begins one.
    pub(super) fn working_turn(&mut self) -> u64 {
        match self.turns.open {
            Some(open) => open,
            None if self.turns.noted => self.home(),
            None => self.begin_turn(),
        }
    }

    /// Begins the next turn.
    pub(super) fn begin_turn(&mut self) -> u64 {
        let number = self.turns.next.max(self.turns.latest().map_or(1, |latest| latest + 1));
        self.open_turn(number);
        self.turns.open = Some(number);
        number
    }

    /// Begins the turn that a note names.
    pub(super) fn begin_turn_called(&mut self, number: u64) {
        self.turns.noted = true;
        if self.turns.is_open() {
            self.close_turn(None);
        }
        self.open_turn(number);
        self.turns.open = Some(number);
    }

    fn open_turn(&mut self, number: u64) -> u64 {
        let turn = Turn {
            number,
            rev: self.rev(),
            first: self.now.seq,
            began: self.now.at,
            prompts: Vec::new(),
            origin: None,
            end: None,
            tokens: crate::usage::Tokens::default(),
            cost: None,
            forgotten: false,
            files: Vec::new(),
        };
        let record = Record {
            turn,
            from: self.now.seq,
            last: self.now.seq,
            spent: self.money.counted,
            shed: false,
            inited: false,
            deeds: Deeds::Nothing,
            fronted: 0,
            interrupted: false,
        };
        self.turns.all.entry(number).or_insert(record);
        number
    }

    pub(super) fn change_turn(&mut self, number: u64, change: impl FnOnce(&mut Record)) {
        let rev = self.rev();
        if let Some(record) = self.turns.all.get_mut(&number) {
            change(record);
            record.turn.rev = rev;
            record.last = record.last.max(rev.0);
        }
    }

    /// The agent went back to before a prompt: of the turns since, it knows nothing.
    pub(super) fn forget_from(&mut self, prompt: &ItemId) {
        let rev = self.rev();
        let asked = |record: &Record| record.turn.prompts.contains(prompt);
        let first = self.turns.all.values().find(|record| asked(record));
        let Some(first) = first.map(|record| record.turn.number) else { return };
        for record in self.turns.all.range_mut(first..).map(|(_, record)| record) {
            if !record.turn.forgotten {
                record.turn.forgotten = true;
                record.turn.rev = rev;
            }
        }
    }

    /// The main agent did something in the running turn.
    pub(super) fn acted(&mut self, number: u64, deeds: Deeds) {
        if let Some(record) = self.turns.all.get_mut(&number) {
            record.deeds = record.deeds.max(deeds);
        }
    }

    /// Where a prompt of that turn stands: in front, unless the agent is at work already.
    pub(super) fn place_for_prompt(&mut self, number: u64) -> Place {
        match self.turns.all.get_mut(&number) {
            Some(record) if record.deeds == Deeds::Nothing && record.fronted < super::RANK => {
                record.fronted += 1;
                Place(record.turn.first, record.fronted - 1)
            }
            _ => self.next_place(),
        }
    }

    /// Counts a prompt to its turn; `from` is the entry that first told of it.
    pub(super) fn prompt_of(&mut self, number: u64, prompt: &ItemId, from: u64) {
        self.change_turn(number, |record| {
            record.from = record.from.min(from);
            if !record.turn.prompts.contains(prompt) {
                record.turn.prompts.push(prompt.clone());
            }
        });
    }

    pub(super) fn interrupted(&mut self) {
        let open = self.turns.open;
        if let Some(record) = open.and_then(|number| self.turns.all.get_mut(&number)) {
            record.interrupted = true;
        }
    }

    pub(super) fn file_touched(&mut self, number: u64, path: &str) {
        self.change_turn(number, |record| {
            let files = &mut record.turn.files;
            if let Some(file) = files.iter_mut().find(|file| file.path == path) {
                file.times += 1;
            } else if files.len() < FILES {
                files.push(FileTouched { path: path.to_owned(), times: 1 });
            }
        });
    }

    /// `init`, which the CLI writes at the start of every turn.
    pub(super) fn init(&mut self, init: &Init<'_>) -> Heard {
        let rev = self.rev();
        let set = |slot: &mut Option<String>, value: Option<Text<'_>>| {
            if let Some(value) = value {
                *slot = Some(value.decode().into_owned());
            }
        };
        self.head.change(rev, |head| {
            set(&mut head.model, init.model);
            set(&mut head.mode, init.permission_mode);
            set(&mut head.cwd, init.cwd);
            set(&mut head.version, init.version);
            head.suggestion = None;
        });
        self.signs.ready();
        if !self.turns.noted {
            let inited = self.turns.open.and_then(|it| self.turns.record(it)).map(|it| it.inited);
            if inited == Some(true) {
                // 2.1.120 begins the turn of a finished background agent without ending the one
                // before.
                self.close_turn(None);
            }
            let number = self.working_turn();
            self.change_turn(number, |record| record.inited = true);
        }
        Heard::Shown
    }

    /// Ends the running turn, with what is known of its end.
    pub(super) fn close_turn(&mut self, end: Option<TurnEnd>) {
        let Some(number) = self.turns.open.take() else { return };
        self.finish_speech();
        self.leave_calls_unanswered();
        let at = self.now.at;
        self.change_turn(number, |record| {
            let began = record.turn.began;
            let known = record.turn.end.take();
            let end = end.or(known).unwrap_or(TurnEnd {
                how: None,
                reason: None,
                at,
                duration_ms: at.zip(began).map(|(at, began)| at.saturating_sub(began)),
            });
            record.turn.end = Some(end);
        });
        if !self.turns.noted {
            self.withdraw_requests();
            let prompts = self.turns.record(number).map(|it| it.turn.prompts.clone());
            for prompt in prompts.into_iter().flatten() {
                self.prompt_became(&prompt, PromptState::Done);
            }
        }
        self.signs.turn_over();
    }
}

impl CallState {
    /// What an open call is once nobody will answer it.
    pub(super) fn abandoned(self) -> Self {
        if self.is_open() { Self::Unanswered } else { self }
    }
}
