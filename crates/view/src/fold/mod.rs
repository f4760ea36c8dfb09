//! The fold: entries in, a document out.
//!
//! Each file of this folder is what the fold makes of one sort of thing: [`speech`] of messages
//! and [`drafts`] of their deltas; [`calls`], [`results`] and [`tasks`] of tools; [`asking`] of
//! requests; [`people`] and [`queue`] of prompts; [`turns`] and [`endings`] of where work begins and
//! ends; [`notes`] of what Towpath says; [`remarks`] of the rest. All state is in [`Fold`], and all of
//! it can be saved.
//!
//! Two rules make the document the same whether or not the deltas were kept. An item that is still
//! being written stands behind all others and gets its place, time and final words from the line
//! that completes it. And a prompt that the agent repeats after it began to answer stands in front
//! of the answer, as it does where there are no deltas.

mod asking;
mod attached;
mod calls;
mod commands;
mod drafts;
mod endings;
mod entry;
mod money;
mod notes;
mod older;
mod people;
mod phase;
mod queue;
mod remarks;
mod results;
mod shelf;
mod speech;
mod tasks;
mod turns;
mod weight;

use serde::{Deserialize, Serialize};
use wire::event::{Body as Said, Event};
use wire::note::{Note, TurnEnding};
use wire::{Dialect, Line, Reading, RecordedLine};

use crate::conversation::{Conversation, Head};
use crate::item::{Body, Item, ItemId, Place, Raw, RawReason, Revision};
use crate::patch::{Patch, Update};
use crate::prompt::WaitingPrompt;
use crate::request::Request;
use crate::status::Status;
use crate::timestamp;
use crate::todo::Todo;
use crate::usage::Usage;

pub use entry::{Entry, Heard, Source};
pub use older::{Older, Page};
use shelf::Shelf;

/// How many bytes of document a fold keeps unless told otherwise.
pub const DEFAULT_BUDGET: usize = 32 << 20;

/// What is shown raw is cut here; the rest is in the journal.
const RAW_BYTES: usize = 16 << 10;

/// The rank of the first ordinary item of an entry; lower ones are for prompts that stand in front
/// of their turn.
const RANK: u32 = 1024;

/// A session, folded so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fold {
    now: Now,
    head: Kept<Head>,
    status: Kept<Status>,
    queue: Kept<Vec<WaitingPrompt>>,
    requests: Kept<Vec<Request>>,
    todos: Kept<Vec<Todo>>,
    usage: Kept<Usage>,
    shelf: Shelf,
    turns: turns::Turns,
    speech: speech::Speech,
    calls: calls::Calls,
    people: people::People,
    money: money::Money,
    signs: phase::Signs,
    housekeeping: u64,
}

/// The entry being folded.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Now {
    seq: u64,
    at: Option<u64>,
    /// The rank of the next item of this entry.
    rank: u32,
    /// The same for items that are still being written, over all entries.
    open_rank: u32,
    transcript: bool,
}

/// A part of the document that is only ever replaced, with the revision of that.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept<T> {
    rev: Revision,
    value: T,
}

impl<T> Kept<T> {
    fn change<R>(&mut self, rev: Revision, change: impl FnOnce(&mut T) -> R) -> R {
        self.rev = rev;
        change(&mut self.value)
    }

    fn since(&self, since: Revision) -> Option<&T> {
        (self.rev > since).then_some(&self.value)
    }
}

impl Default for Fold {
    fn default() -> Self {
        Self::new()
    }
}

/// A saved fold could not be read back: it is damaged, or of another version. Fold the record anew.
#[derive(Debug, thiserror::Error)]
#[error("the saved fold could not be read")]
pub struct Unreadable(#[from] serde_json::Error);

impl Fold {
    /// A fold that has seen nothing.
    pub fn new() -> Self {
        Self::with_budget(DEFAULT_BUDGET)
    }

    /// A fold that keeps about `bytes` of document.
    pub fn with_budget(bytes: usize) -> Self {
        Self::on(Shelf::new(bytes))
    }

    fn on(shelf: Shelf) -> Self {
        Self {
            now: Now::default(),
            head: Kept::default(),
            status: Kept::default(),
            queue: Kept::default(),
            requests: Kept::default(),
            todos: Kept::default(),
            usage: Kept::default(),
            shelf,
            turns: turns::Turns::default(),
            speech: speech::Speech::default(),
            calls: calls::Calls::default(),
            people: people::People::default(),
            money: money::Money::default(),
            signs: phase::Signs::default(),
            housekeeping: 0,
        }
    }

    /// Takes the next entry.
    pub fn push(&mut self, entry: Entry<'_>) -> Heard {
        if entry.seq != self.now.seq {
            self.now.rank = RANK;
        }
        self.now.seq = entry.seq;
        self.now.at = entry.at;
        let heard = match entry.source {
            Source::Agent(line) => self.line(line),
            Source::Note(note) => self.note(note),
        };
        if heard == Heard::Housekeeping {
            self.housekeeping += 1;
        }
        self.settle_status();
        self.lighten();
        heard
    }

    /// Takes the next line of a session's journal, and returns the note it holds, if it is one.
    ///
    /// This is the only way from a journal to a conversation: only lines that Towpath wrote are
    /// read as notes. A note that this version does not know is shown raw.
    pub fn push_recorded(&mut self, line: RecordedLine<'_>) -> Option<Note> {
        let (seq, at) = (line.seq, Some(line.at));
        if let Some(note) = line.note() {
            self.push(Entry { seq, at, source: Source::Note(&note) });
            return Some(note);
        }
        for line in wire::read(line.bytes) {
            self.push(Entry { seq, at, source: Source::Agent(&line) });
        }
        None
    }

    /// A fold that begins after entry `seq`, at which `turn` was the last turn that had ended. It
    /// keeps about `bytes` of document.
    pub fn starting_after(seq: u64, turn: u64, bytes: usize) -> Self {
        let mut fold = Self::with_budget(bytes);
        if seq > 0 {
            // Tells the fold that this record has notes about turns.
            let note = Note::TurnOver { turn, ending: TurnEnding::Completed };
            fold.push(Entry { seq, at: None, source: Source::Note(&note) });
        }
        fold
    }

    /// Takes a line of a bare stream or file, which may hold several objects.
    pub fn push_line(&mut self, seq: u64, line: &[u8]) {
        for line in wire::read(line) {
            self.push(Entry { seq, at: None, source: Source::Agent(&line) });
        }
    }

    /// The state the document is in.
    pub fn revision(&self) -> Revision {
        Revision(self.now.seq)
    }

    /// How many entries told a person nothing.
    pub fn housekeeping(&self) -> u64 {
        self.housekeeping
    }

    /// The document with its newest `items` items.
    pub fn conversation(&self, items: usize) -> Conversation {
        self.conversation_within(items, usize::MAX)
    }

    /// The document with as many of its newest items as have no more than about `bytes` in all, but
    /// not more than `items`, and at least one.
    pub fn conversation_within(&self, items: usize, bytes: usize) -> Conversation {
        let mut room = bytes;
        let newest = self.shelf.iter().rev().take(items).enumerate().map_while(|(n, item)| {
            let left = room.checked_sub(weight::texts(item));
            room = left.unwrap_or(0);
            (n == 0 || left.is_some()).then_some(item)
        });
        let mut shown: Vec<Item> = newest.cloned().collect();
        shown.reverse();
        let more = self.shelf.is_cut() || self.shelf.iter().nth(shown.len()).is_some();
        let first = shown.iter().map(|item| item.turn).min();
        Conversation {
            revision: self.revision(),
            head: self.head.value.clone(),
            status: self.status.value.clone(),
            queue: self.queue.value.clone(),
            requests: self.requests.value.clone(),
            todos: self.todos.value.clone(),
            usage: self.usage.value.clone(),
            turns: self.turns.from(first.filter(|_| more).unwrap_or(0)),
            items: shown,
            more,
        }
    }

    /// The item of that id, where the fold still has it.
    pub fn item(&self, id: &ItemId) -> Option<&Item> {
        self.shelf.get(id)
    }

    /// All that changed after `since`; nothing where that is too long ago to tell, and a
    /// [`conversation`](Self::conversation) is to be taken instead.
    ///
    /// To be asked between entries, not between the parts of one line.
    pub fn patches(&self, since: Revision) -> Option<Update> {
        let mut patches = self.shelf.patches(since)?;
        let turns = self.turns.since(since);
        patches.extend(turns.map(|turn| Patch::Turn { turn: Box::new(turn.clone()) }));
        let rest = [
            self.head.since(since).map(|head| Patch::Head { head: Box::new(head.clone()) }),
            self.status.since(since).map(|status| Patch::Status { status: status.clone() }),
            self.queue.since(since).map(|queue| Patch::Queue { queue: queue.clone() }),
            self.requests
                .since(since)
                .map(|requests| Patch::Requests { requests: requests.clone() }),
            self.todos.since(since).map(|todos| Patch::Todos { todos: todos.clone() }),
            self.usage.since(since).map(|usage| Patch::Usage { usage: usage.clone() }),
        ];
        patches.extend(rest.into_iter().flatten());
        Some(Update { from: since, to: self.revision(), patches })
    }

    /// The fold as bytes, to go on from without the entries so far: JSON of this version's own,
    /// about as large as what the fold keeps.
    pub fn save(&self) -> Vec<u8> {
        // Nothing in it can fail to be written. If it did, reading it back would say so.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The fold that was saved.
    pub fn restore(saved: &[u8]) -> Result<Self, Unreadable> {
        Ok(serde_json::from_slice(saved)?)
    }

    fn rev(&self) -> Revision {
        Revision(self.now.seq)
    }

    fn line(&mut self, line: &Line<'_>) -> Heard {
        self.now.transcript = line.dialect == Dialect::Transcript;
        self.signs.stalled = None;
        match &line.reading {
            Reading::Event(event) => self.event(event, line.bytes),
            Reading::Unknown(unknown) => {
                self.raw(unknown.kind.to_string(), RawReason::Unknown, line.bytes)
            }
            Reading::Mismatch(mismatch) => {
                let reason = RawReason::Mismatch { reason: mismatch.reason.clone() };
                self.raw(mismatch.kind.to_string(), reason, line.bytes)
            }
            Reading::Noise(wire::Noise::Blank) => Heard::Housekeeping,
            Reading::Noise(_) => self.raw(String::new(), RawReason::Noise, line.bytes),
        }
    }

    fn event(&mut self, event: &Event<'_>, bytes: &[u8]) -> Heard {
        if self.now.at.is_none() {
            let timestamp = event.envelope.timestamp;
            self.now.at = timestamp.and_then(|it| timestamp::milliseconds(&it.decode()));
        }
        self.identify(event);
        match &event.body {
            Said::Init(init) => self.init(init),
            Said::Assistant(assistant) => self.assistant(event, assistant, bytes),
            Said::User(user) => self.user(event, user),
            Said::Stream(stream) => self.stream(event, stream),
            Said::TurnEnded(ended) => self.ended(ended),
            Said::System(system) => self.system(system),
            Said::ControlRequest(request) => self.control_request(request, bytes),
            Said::ControlResponse(response) => self.control_response(response),
            Said::ControlCancel(cancel) => self.control_cancel(cancel),
            Said::Signal(signal) => self.signal(event, signal),
            Said::Record(_) if event.kind.name == "attachment" => self.attached(event, bytes),
            Said::Record(record) => self.record(record),
        }
    }

    /// Takes note of the session's id where the line carries one.
    fn identify(&mut self, event: &Event<'_>) {
        let Some(id) = event.envelope.session_id.filter(|id| !id.is_empty()) else { return };
        if self.head.value.session.as_deref().is_none_or(|known| id != *known) {
            let rev = self.rev();
            self.head.change(rev, |head| head.session = Some(id.decode().into_owned()));
        }
    }

    fn raw(&mut self, name: String, reason: RawReason, bytes: &[u8]) -> Heard {
        let text =
            cut_to(&String::from_utf8_lossy(&bytes[..bytes.len().min(RAW_BYTES + 4)]), RAW_BYTES);
        self.put_line(Body::Raw(Raw { name, reason, text }))
    }

    /// The place of the next item of this entry.
    fn next_place(&mut self) -> Place {
        let place = Place(self.now.seq, self.now.rank);
        self.now.rank += 1;
        place
    }

    /// Shows something that has no id of its own.
    fn put_line(&mut self, body: Body) -> Heard {
        let turn = self.home();
        let place = self.next_place();
        self.put_at(ItemId::line(place), turn, None, place, body);
        Heard::Shown
    }

    fn put_at(&mut self, id: ItemId, turn: u64, parent: Option<ItemId>, place: Place, body: Body) {
        let item = Item {
            id,
            turn,
            parent,
            place,
            rev: self.rev(),
            first: self.now.seq,
            at: self.now.at,
            open: place.0 == Place::OPEN,
            shed: false,
            body,
        };
        self.turns.touch(turn, self.now.seq, self.now.at);
        self.shelf.put(item);
    }

    /// Changes an item, if the fold still has it.
    fn change<T>(&mut self, id: &ItemId, change: impl FnOnce(&mut Item) -> T) -> Option<T> {
        let (rev, seq, at) = (self.rev(), self.now.seq, self.now.at);
        let mut turn = 0;
        let told = self.shelf.change(id, rev, |item| {
            turn = item.turn;
            change(item)
        })?;
        self.turns.touch(turn, seq, at);
        Some(told)
    }

    fn lighten(&mut self) {
        let (now, turns) = (self.rev(), &mut self.turns);
        self.shelf.lighten(now, |item| turns.let_go(item.turn));
    }
}

/// The first `bytes` of a text, less what would split a character.
fn cut_to(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}
