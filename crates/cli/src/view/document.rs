//! What of a conversation has not been shown yet.

use std::collections::{HashSet, VecDeque};

use view::{
    Body, Conversation, Entry, Fold, Head, Item, ItemId, Patch, Phase, Source, Turn, Update,
};
use wire::RecordedLine;
use wire::note::Note;

/// Bytes of document the fold keeps: what is shown is forgotten at once, so it needs little.
const BUDGET: usize = 4 << 20;

/// How many of the items that were shown are remembered, so that news of them do not show them
/// again.
const REMEMBERED: usize = 10_000;

/// How many items may wait behind one that is open. Beyond, it is shown as it stands: a call that
/// never ends must not hold a whole session in memory.
const HELD_BACK: usize = 1000;

/// The longest line that is kept for who wants to see raw events.
const RAW: usize = 4 << 10;

/// A conversation from which items are taken as they settle.
pub(crate) struct Document {
    fold: Fold,
    /// What the fold has told; items that were taken are gone from it.
    pub(crate) now: Conversation,
    entries: u64,
    taken: HashSet<ItemId>,
    taken_in_order: VecDeque<ItemId>,
    ended: HashSet<u64>,
    /// How full the context was after which entry, each time it changed.
    contexts: Vec<(u64, u64)>,
    /// What the lines of a session file say of the session.
    learned: Head,
    /// Lines that tell a person nothing, where somebody wants to see them all the same.
    raw: Option<VecDeque<RawLine>>,
}

/// A line that tells a person nothing.
pub(crate) struct RawLine {
    /// The entry it is.
    pub(crate) entry: u64,
    /// What it says it is.
    pub(crate) kind: String,
    /// The line, or its beginning.
    pub(crate) text: String,
}

impl Document {
    pub(crate) fn new(raw: bool) -> Self {
        Self {
            fold: Fold::with_budget(BUDGET),
            now: Conversation::default(),
            entries: 0,
            taken: HashSet::new(),
            taken_in_order: VecDeque::new(),
            ended: HashSet::new(),
            contexts: Vec::new(),
            learned: Head::default(),
            raw: raw.then(VecDeque::new),
        }
    }

    /// Takes the next line of a session's journal.
    pub(crate) fn take_recorded(&mut self, line: RecordedLine<'_>) -> Option<Note> {
        let note = line.note();
        self.push(line.bytes, Some(line.at), note.as_ref());
        note
    }

    /// Takes the next line of a stream or file. An export of a whole journal has notes in it.
    pub(crate) fn take(&mut self, line: &[u8], at: Option<u64>) {
        let note = line.starts_with(br#"{"type":"towpath""#).then(|| Note::read(line)).flatten();
        self.push(line, at, note.as_ref());
    }

    fn push(&mut self, line: &[u8], at: Option<u64>, note: Option<&Note>) {
        self.entries += 1;
        let seq = self.entries;
        if let Some(note) = note {
            self.fold.push(Entry { seq, at, source: Source::Note(note) });
        } else {
            for line in wire::read(line) {
                self.learn_head(&line);
                let heard = self.fold.push(Entry { seq, at, source: Source::Agent(&line) });
                let is_init = matches!(
                    &line.reading,
                    wire::Reading::Event(event) if matches!(event.body, wire::event::Body::Init(_))
                );
                if heard == view::Heard::Housekeeping || is_init {
                    self.keep_raw(seq, &line);
                }
            }
        }
        let before = self.now.usage.context;
        self.catch_up();
        if let Some(context) = self.now.usage.context.filter(|_| self.now.usage.context != before) {
            self.contexts.push((seq, context));
        }
    }

    /// Session files have no line that says what the session is; every line says a little of it.
    fn learn_head(&mut self, line: &wire::Line<'_>) {
        let wire::Reading::Event(event) = &line.reading else { return };
        let learn = |slot: &mut Option<String>, value: Option<wire::json::Text<'_>>| {
            if let Some(value) = value.filter(|_| slot.is_none()) {
                *slot = Some(value.decode().into_owned());
            }
        };
        if let Some(file) = &event.envelope.file {
            learn(&mut self.learned.cwd, file.cwd);
            learn(&mut self.learned.version, file.version);
        }
        let model = event.message().and_then(|message| message.model);
        // What the program itself says in the model's place is of no model.
        learn(&mut self.learned.model, model.filter(|model| *model != *"<synthetic>"));
    }

    fn keep_raw(&mut self, entry: u64, line: &wire::Line<'_>) {
        let Some(raw) = &mut self.raw else { return };
        let kind = match &line.reading {
            // Deltas come by the thousand and are told by what they build.
            wire::Reading::Event(event) if event.kind.name == *"stream_event" => return,
            wire::Reading::Event(event) => event.kind.to_string(),
            wire::Reading::Unknown(unknown) => unknown.kind.to_string(),
            wire::Reading::Mismatch(mismatch) => mismatch.kind.to_string(),
            wire::Reading::Noise(_) => return,
        };
        let end = line.bytes.len().min(RAW);
        let text = String::from_utf8_lossy(&line.bytes[..end]).into_owned();
        raw.push_back(RawLine { entry, kind, text });
    }

    fn catch_up(&mut self) {
        let applied = match self.fold.patches(self.now.revision) {
            Some(update) => self.apply(update),
            None => false,
        };
        if !applied {
            // Too much changed at once to be told in pieces.
            self.now = self.fold.conversation(usize::MAX);
            self.now.more = false;
        }
        let Self { now, taken, ended, learned, .. } = self;
        for (told, learned) in [
            (&mut now.head.cwd, &learned.cwd),
            (&mut now.head.version, &learned.version),
            (&mut now.head.model, &learned.model),
        ] {
            if told.is_none() {
                told.clone_from(learned);
            }
        }
        if now.items.iter().any(|item| taken.contains(&item.id)) {
            now.items.retain(|item| !taken.contains(&item.id));
        }
        now.turns.retain(|turn| !ended.contains(&turn.number));
    }

    /// Brings the document forward; says whether that was possible.
    fn apply(&mut self, mut update: Update) -> bool {
        let mut grown = Vec::new();
        update.patches.retain(|patch| match patch {
            Patch::Append { id, .. } => {
                grown.push(id.clone());
                false
            }
            _ => true,
        });
        let applied = self.now.apply(&update).is_ok();
        // Where text grew is said in the units of browsers, which must be counted from the start
        // each time. The fold is at hand, so its text is compared by length instead.
        for id in grown {
            let mine = self.now.items.iter_mut().rfind(|item| item.id == id);
            if let (Some(mine), Some(folded)) = (mine, self.fold.item(&id)) {
                grow(mine, folded);
            }
        }
        applied
    }

    /// How full the context was after which entry, since this was asked last.
    pub(crate) fn contexts(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.contexts)
    }

    /// The items of a sub-agent that wait behind its call, taken out in their order.
    pub(crate) fn take_children(&mut self, parent: &ItemId) -> Vec<Item> {
        let (children, others): (Vec<_>, _) = std::mem::take(&mut self.now.items)
            .into_iter()
            .partition(|item| item.parent.as_ref() == Some(parent) && is_settled(item));
        self.now.items = others;
        for child in &children {
            self.remember(&child.id);
        }
        children
    }

    /// The next item, if nothing that is still open stands in front of it.
    pub(crate) fn next_settled(&mut self) -> Option<Item> {
        if self.now.items.len() > HELD_BACK {
            return Some(self.take_first());
        }
        let first = self.now.items.first().filter(|item| is_settled(item))?;
        // Further attempts are told by the same item.
        let retrying = matches!(self.now.status.phase, Phase::Retrying { .. });
        if retrying && matches!(first.body, Body::Retry(_)) && self.now.items.len() == 1 {
            return None;
        }
        Some(self.take_first())
    }

    /// The next item, settled or not.
    pub(crate) fn next(&mut self) -> Option<Item> {
        (!self.now.items.is_empty()).then(|| self.take_first())
    }

    fn take_first(&mut self) -> Item {
        let item = self.now.items.remove(0);
        self.remember(&item.id);
        item
    }

    fn remember(&mut self, id: &ItemId) {
        self.taken.insert(id.clone());
        self.taken_in_order.push_back(id.clone());
        if self.taken_in_order.len() > REMEMBERED
            && let Some(oldest) = self.taken_in_order.pop_front()
        {
            self.taken.remove(&oldest);
        }
    }

    /// The next turn that is over and whose items were all taken.
    pub(crate) fn next_ended(&mut self) -> Option<Turn> {
        let first = self.now.items.first().map_or(u64::MAX, |item| item.turn);
        let at =
            self.now.turns.iter().position(|turn| turn.end.is_some() && turn.number < first)?;
        let turn = self.now.turns.remove(at);
        self.ended.insert(turn.number);
        Some(turn)
    }

    /// The next raw line that stands in front of what is open.
    pub(crate) fn next_raw(&mut self) -> Option<RawLine> {
        let limit = self.now.items.first().map_or(u64::MAX, |item| item.place.0);
        let raw = self.raw.as_mut()?;
        raw.front().filter(|line| line.entry < limit)?;
        raw.pop_front()
    }
}

/// Adds to an item what its text has become longer by.
fn grow(mine: &mut Item, folded: &Item) {
    let (mine, folded) = match (&mut mine.body, &folded.body) {
        (Body::Text { text: mine }, Body::Text { text: folded })
        | (Body::Thinking { text: mine, .. }, Body::Thinking { text: folded, .. }) => {
            (mine, folded)
        }
        (Body::Call(mine), Body::Call(folded)) => (&mut mine.input, &folded.input),
        _ => return,
    };
    match folded.get(mine.len()..) {
        Some(more) => mine.push_str(more),
        None => mine.clone_from(folded),
    }
}

/// Whether nothing more is to come of an item.
fn is_settled(item: &Item) -> bool {
    !item.open
        && match &item.body {
            Body::Call(call) => !call.state.is_open(),
            Body::Hook(hook) => hook.outcome.is_some(),
            _ => true,
        }
}
