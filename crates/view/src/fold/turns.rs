//! Where turns begin and end.
//!
//! A journal has notes about that. In a bare stream it is derived from `init` and `result`; a session
//! file has neither, so a new prompt begins a new turn.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::event::{Init, ResultSubtype, TurnEnded};
use wire::json::{Raw, Shape, Text};
use wire::note::{PromptState, TurnEnding};

use super::{Fold, Visibility};
use crate::conversation::{FileEdits, Turn, TurnEnd};
use crate::item::{ItemBody, ItemId, Position, Revision};
use crate::usage::TokenCounts;

/// A turn lists at most this many changed files.
const MAX_FILES: usize = 500;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TurnTracker {
    all: BTreeMap<u64, TurnRecord>,
    open: Option<u64>,
    /// Whether the record has notes about turns.
    pub(super) has_notes: bool,
    /// The number of the next turn, unless a note names another.
    pub(super) next: u64,
}

/// A turn, and what the fold needs to know about it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TurnRecord {
    pub(super) turn: Turn,
    /// The first entry that is needed to fold it again.
    pub(super) from: u64,
    /// The last entry that changed one of its items. Background tasks may run on long after the
    /// turn's end, so the entries of turns may overlap.
    pub(super) last: u64,
    /// The agent process's running cost before the turn.
    pub(super) cost_before: Option<f64>,
    /// Whether items of it were evicted.
    pub(super) evicted: bool,
    /// Whether it has an `init` line.
    has_init: bool,
    pub(super) activity: TurnActivity,
    /// How many prompts are in front of it.
    leading_prompts: u32,
    pub(super) interrupted: bool,
}

/// What the main agent has done in a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum TurnActivity {
    /// Nothing yet, so a prompt goes in front.
    #[default]
    None,
    /// Something, so a prompt goes in between.
    Acted,
    /// It has also written text.
    Replied,
}

impl TurnTracker {
    /// The turns with that number and later ones.
    pub(super) fn from(&self, first: u64) -> Vec<Turn> {
        self.all.range(first..).map(|(_, record)| record.turn.clone()).collect()
    }

    /// The turns that changed after `since`.
    pub(super) fn since(&self, since: Revision) -> impl Iterator<Item = &Turn> {
        self.all.values().map(|record| &record.turn).filter(move |turn| turn.rev > since)
    }

    pub(super) fn record(&self, number: u64) -> Option<&TurnRecord> {
        self.all.get(&number)
    }

    pub(super) fn records(&self) -> impl DoubleEndedIterator<Item = &TurnRecord> {
        self.all.values()
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
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
        if record.turn.started.is_none() && at.is_some() {
            record.turn.started = at;
            record.turn.rev = Revision(seq);
        }
    }

    pub(super) fn mark_evicted(&mut self, number: u64) {
        if let Some(record) = self.all.get_mut(&number) {
            record.evicted = true;
        }
    }

    fn latest(&self) -> Option<u64> {
        self.all.keys().next_back().copied()
    }
}

impl Fold {
    /// The running turn, or else the latest one.
    pub(super) fn current_turn(&mut self) -> u64 {
        match self.turns.open.or_else(|| self.turns.latest()) {
            Some(number) => number,
            None => self.create_turn(0),
        }
    }

    /// The turn of the agent's work. In a record without notes about turns, work outside a turn begins
    /// one.
    pub(super) fn working_turn(&mut self) -> u64 {
        match self.turns.open {
            Some(open) => open,
            None if self.turns.has_notes => self.current_turn(),
            None => self.begin_turn(),
        }
    }

    fn begin_turn(&mut self) -> u64 {
        let number = self.turns.next.max(self.turns.latest().map_or(1, |latest| latest + 1));
        let number = self.limit_imported_turn(number);
        self.create_turn(number);
        self.turns.open = Some(number);
        number
    }

    /// Begins the turn that a note names.
    pub(super) fn begin_numbered_turn(&mut self, number: u64) {
        self.turns.has_notes = true;
        if self.turns.is_open() {
            self.close_turn(None);
        }
        self.create_turn(number);
        self.turns.open = Some(number);
    }

    fn create_turn(&mut self, number: u64) -> u64 {
        let turn = Turn {
            number,
            rev: self.rev(),
            first: self.entry.seq,
            started: self.entry.at,
            prompts: Vec::new(),
            origin: None,
            end: None,
            tokens: TokenCounts::default(),
            cost: None,
            rewound: false,
            imported: self.entry.imported,
            files: Vec::new(),
        };
        let record = TurnRecord {
            turn,
            from: self.entry.seq,
            last: self.entry.seq,
            cost_before: self.cost.reported,
            evicted: false,
            has_init: false,
            activity: TurnActivity::None,
            leading_prompts: 0,
            interrupted: false,
        };
        self.turns.all.entry(number).or_insert(record);
        number
    }

    pub(super) fn change_turn(&mut self, number: u64, change: impl FnOnce(&mut TurnRecord)) {
        let rev = self.rev();
        if let Some(record) = self.turns.all.get_mut(&number) {
            change(record);
            record.turn.rev = rev;
            record.last = record.last.max(rev.0);
        }
    }

    /// Marks the turn of a prompt and all later ones as rewound: the agent no longer knows them.
    pub(super) fn mark_rewound(&mut self, prompt: &ItemId) {
        let rev = self.rev();
        let answers = |record: &&TurnRecord| record.turn.prompts.contains(prompt);
        let Some(first) = self.turns.all.values().find(answers).map(|it| it.turn.number) else {
            return;
        };
        for record in self.turns.all.range_mut(first..).map(|(_, record)| record) {
            if !record.turn.rewound {
                record.turn.rewound = true;
                record.turn.rev = rev;
            }
        }
    }

    /// Records that the main agent did something in a turn.
    pub(super) fn note_activity(&mut self, number: u64, activity: TurnActivity) {
        if let Some(record) = self.turns.all.get_mut(&number) {
            record.activity = record.activity.max(activity);
        }
    }

    /// The position of a prompt of that turn: in front, unless the agent is already at work.
    pub(super) fn position_for_prompt(&mut self, number: u64) -> Position {
        match self.turns.all.get_mut(&number) {
            Some(record)
                if record.activity == TurnActivity::None
                    && record.leading_prompts < super::RANK =>
            {
                record.leading_prompts += 1;
                Position(record.turn.first, record.leading_prompts - 1)
            }
            _ => self.next_position(),
        }
    }

    /// Adds a prompt to its turn; `from` is the first entry about it.
    pub(super) fn assign_prompt(&mut self, number: u64, prompt: &ItemId, from: u64) {
        self.change_turn(number, |record| {
            record.from = record.from.min(from);
            if !record.turn.prompts.contains(prompt) {
                record.turn.prompts.push(prompt.clone());
            }
        });
    }

    pub(super) fn turn_interrupted(&mut self) {
        let open = self.turns.open;
        if let Some(record) = open.and_then(|number| self.turns.all.get_mut(&number)) {
            record.interrupted = true;
        }
    }

    pub(super) fn count_file_edit(&mut self, number: u64, path: &str) {
        self.change_turn(number, |record| {
            let files = &mut record.turn.files;
            if let Some(file) = files.iter_mut().find(|file| file.path == path) {
                file.edits += 1;
            } else if files.len() < MAX_FILES {
                files.push(FileEdits { path: path.to_owned(), edits: 1 });
            }
        });
    }

    /// Takes back one [`count_file_edit`](Self::count_file_edit).
    pub(super) fn uncount_file_edit(&mut self, number: u64, path: &str) {
        self.change_turn(number, |record| {
            let files = &mut record.turn.files;
            if let Some(file) = files.iter_mut().find(|file| file.path == path) {
                file.edits = file.edits.saturating_sub(1);
            }
            files.retain(|file| file.edits > 0);
        });
    }

    /// `init`, which the CLI writes at the start of every turn.
    pub(super) fn init(&mut self, init: &Init<'_>) -> Visibility {
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
        let mut agent = self.agent.value.clone().unwrap_or_default();
        agent.apply_init(init);
        self.describe_agent(agent);
        self.signals.process_ready();
        if !self.turns.has_notes {
            let open = self.turns.open.and_then(|number| self.turns.record(number));
            if open.is_some_and(|record| record.has_init) {
                // 2.1.120 begins the turn of a finished background agent without ending the turn
                // before.
                self.close_turn(None);
            }
            let number = self.working_turn();
            self.change_turn(number, |record| record.has_init = true);
        }
        Visibility::Visible
    }

    /// `result`, which ends a turn.
    pub(super) fn turn_result(&mut self, ended: &TurnEnded<'_>) -> Visibility {
        let number = self.working_turn();
        let record = self.turns.record(number);
        let ending = turn_ending(ended, record.is_some_and(|it| it.interrupted));
        let activity = record.map_or(TurnActivity::None, |it| it.activity);
        if activity == TurnActivity::None {
            self.show_denials(ended, number);
        }
        if activity < TurnActivity::Replied && self.turns.record(number).is_some() {
            self.show_result_text(ended, number, &ending);
        }
        self.add_result_cost(number, ended);
        let at = self.entry.at;
        let started = self.turns.record(number).and_then(|it| it.turn.started);
        let end = TurnEnd {
            ending: Some(ending),
            reason: ended
                .terminal_reason
                .or(match ended.ending {
                    Some(ResultSubtype::Error(name) | ResultSubtype::Other(name)) => Some(name),
                    _ => None,
                })
                .map(|reason| reason.decode().into_owned()),
            at,
            duration_ms: ended.duration_ms.or_else(|| Some(at?.saturating_sub(started?))),
        };
        self.change_turn(number, |record| {
            record.turn.origin = ended.origin.map(|it| it.decode().into_owned());
        });
        for denial in ended.denials().filter_map(|denial| denial.tool_use_id) {
            self.call_denied(&ItemId::call(&denial.decode()), None);
        }
        if self.turns.has_notes {
            // The note that follows closes the turn; this is the agent's own account of it.
            self.change_turn(number, |record| record.turn.end = Some(end));
        } else {
            self.close_turn(Some(end));
        }
        Visibility::Visible
    }

    /// Shows the result's text as an item if the turn has no other text: after a slash command, or
    /// in a recording of the result alone.
    fn show_result_text(&mut self, ended: &TurnEnded<'_>, number: u64, ending: &TurnEnding) {
        let text = ended.result.map(Text::decode).unwrap_or_default();
        if text.trim().is_empty() {
            return;
        }
        let text = text.into_owned();
        let body = match ending {
            TurnEnding::Failed { .. } => ItemBody::Failure { name: None, text },
            _ => ItemBody::Text { text },
        };
        let position = self.next_position();
        self.add_item(ItemId::line(position), number, None, position, body);
    }

    /// Ends the running turn; `end` is what is known about its end.
    pub(super) fn close_turn(&mut self, end: Option<TurnEnd>) {
        let Some(number) = self.turns.open.take() else { return };
        self.finish_messages();
        self.abandon_calls();
        let at = self.entry.at;
        self.change_turn(number, |record| {
            let started = record.turn.started;
            let known = record.turn.end.take();
            let end = end.or(known).unwrap_or(TurnEnd {
                ending: None,
                reason: None,
                at,
                duration_ms: at.zip(started).map(|(at, started)| at.saturating_sub(started)),
            });
            record.turn.end = Some(end);
        });
        if !self.turns.has_notes {
            self.withdraw_requests();
            let prompts = self.turns.record(number).map(|it| it.turn.prompts.clone());
            for prompt in prompts.into_iter().flatten() {
                self.advance_prompt(&prompt, PromptState::Done);
            }
        }
        self.signals.turn_ended();
    }
}

/// How a turn ended, according to its `result`.
fn turn_ending(ended: &TurnEnded<'_>, interrupted: bool) -> TurnEnding {
    let reason = ended.terminal_reason.map(Text::decode);
    let aborted = reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"));
    if aborted || (interrupted && ended.failed()) {
        return TurnEnding::Interrupted;
    }
    if !ended.failed() {
        return TurnEnding::Completed;
    }
    let text = ended.result.map(|it| it.decode().into_owned()).filter(|it| !it.is_empty());
    let message = text.or_else(|| first_error(ended.errors?)).or_else(|| match ended.ending {
        Some(ResultSubtype::Error(name) | ResultSubtype::Other(name)) => {
            Some(name.decode().into_owned())
        }
        _ => None,
    });
    TurnEnding::Failed { message: message.unwrap_or_default() }
}

fn first_error(errors: Raw<'_>) -> Option<String> {
    let first = errors.items().next()?;
    Some(match first.shape() {
        Shape::String => first.text()?.decode().into_owned(),
        _ => first.get("message").and_then(Raw::text)?.decode().into_owned(),
    })
}
