//! The part of a conversation that has not been displayed yet.

use std::collections::{HashSet, VecDeque};

use wire::RecordedLine;
use wire::note::Note;
use wire::other_agents::AgentStreamReader;

use crate::conversation::{Conversation, ConversationHead, Turn};
use crate::fold::{Fold, Visibility};
use crate::item::{Item, ItemBody, ItemId};
use crate::patch::{Patch, Update};
use crate::status::SessionPhase;

/// Bytes of document the fold keeps. Displayed items are dropped at once, so it needs little.
const BUDGET: usize = 4 << 20;

/// How many ids of displayed items are remembered, so that late changes do not display them again.
const REMEMBERED_IDS: usize = 10_000;

/// How many items may wait behind an open one. Then it is displayed as it is: a call that never ends
/// must not keep a whole session in memory.
const MAX_WAITING: usize = 1000;

/// Hidden lines are cut to this many bytes.
const HIDDEN_LINE_BYTES: usize = 4 << 10;

/// A conversation from which items are taken as they finish.
#[derive(Debug)]
pub struct ViewDocument {
    fold: Fold,
    agent_stream: AgentStreamReader,
    /// The conversation without the items that were taken.
    pub conversation: Conversation,
    entries: u64,
    taken: HashSet<ItemId>,
    taken_in_order: VecDeque<ItemId>,
    ended: HashSet<u64>,
    /// The entry and new size of the context, for each change.
    context_sizes: Vec<(u64, u64)>,
    /// What the lines of a session file say about the session.
    learned: ConversationHead,
    /// Lines that are not part of the conversation, if everything is displayed.
    hidden: Option<VecDeque<HiddenLine>>,
}

/// A line that is not part of the conversation.
#[derive(Debug)]
pub struct HiddenLine {
    pub entry: u64,
    pub kind: String,
    /// The line or its beginning.
    pub text: String,
}

impl ViewDocument {
    pub fn new(with_hidden: bool) -> Self {
        Self {
            fold: Fold::with_budget(BUDGET),
            agent_stream: AgentStreamReader::default(),
            conversation: Conversation::default(),
            entries: 0,
            taken: HashSet::new(),
            taken_in_order: VecDeque::new(),
            ended: HashSet::new(),
            context_sizes: Vec::new(),
            learned: ConversationHead::default(),
            hidden: with_hidden.then(VecDeque::new),
        }
    }

    /// Folds the next line of a session's journal.
    pub fn push_recorded(&mut self, line: RecordedLine<'_>) -> Option<Note> {
        let note = line.note();
        self.push(line.bytes, Some(line.at), note.as_ref());
        note
    }

    /// Folds the next line of a stream or file. The export of a journal contains notes.
    pub fn push_line(&mut self, line: &[u8], at: Option<u64>) {
        let note = line.starts_with(br#"{"type":"towpath""#).then(|| Note::read(line)).flatten();
        self.push(line, at, note.as_ref());
    }

    fn push(&mut self, line: &[u8], at: Option<u64>, note: Option<&Note>) {
        self.entries += 1;
        let seq = self.entries;
        if let Some(note) = note {
            self.fold.push_note(seq, at, note);
        } else {
            for mut line in wire::read(line) {
                self.agent_stream.complete(&mut line);
                self.learn_head(&line);
                let visibility = self.fold.push_event(seq, at, &line);
                let is_init = matches!(
                    &line.reading,
                    wire::Reading::Event(event) if matches!(event.body, wire::event::Body::Init(_))
                );
                if visibility == Visibility::Hidden || is_init {
                    self.keep_hidden(seq, &line);
                }
            }
        }
        let before = self.conversation.usage.context;
        self.catch_up();
        let after = self.conversation.usage.context;
        if let Some(context) = after.filter(|_| after != before) {
            self.context_sizes.push((seq, context));
        }
    }

    /// Session files have no `init` line; every line has a part of what it says.
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
        // The CLI's own messages have no model.
        learn(&mut self.learned.model, model.filter(|model| *model != *"<synthetic>"));
    }

    fn keep_hidden(&mut self, entry: u64, line: &wire::Line<'_>) {
        let Some(hidden) = &mut self.hidden else { return };
        let kind = match &line.reading {
            // Deltas come by the thousand, and their text is displayed anyway.
            wire::Reading::Event(event) if event.kind.name == *"stream_event" => return,
            wire::Reading::Event(event) => event.kind.to_string(),
            wire::Reading::Unknown(unknown) => unknown.kind.to_string(),
            wire::Reading::Mismatch(mismatch) => mismatch.kind.to_string(),
            wire::Reading::Noise(_) => return,
        };
        let end = line.bytes.len().min(HIDDEN_LINE_BYTES);
        let text = String::from_utf8_lossy(&line.bytes[..end]).into_owned();
        hidden.push_back(HiddenLine { entry, kind, text });
    }

    fn catch_up(&mut self) {
        let applied = match self.fold.patches(self.conversation.revision) {
            Some(update) => self.apply(update),
            None => false,
        };
        if !applied {
            // Too much changed at once for patches.
            self.conversation = self.fold.conversation(usize::MAX);
            self.conversation.more = false;
        }
        let Self { conversation, taken, ended, learned, .. } = self;
        for (known, learned) in [
            (&mut conversation.head.cwd, &learned.cwd),
            (&mut conversation.head.version, &learned.version),
            (&mut conversation.head.model, &learned.model),
        ] {
            if known.is_none() {
                known.clone_from(learned);
            }
        }
        if conversation.items.iter().any(|item| taken.contains(&item.id)) {
            conversation.items.retain(|item| !taken.contains(&item.id));
        }
        conversation.turns.retain(|turn| !ended.contains(&turn.number));
    }

    /// Applies an update; returns whether that was possible.
    fn apply(&mut self, mut update: Update) -> bool {
        let mut grown = Vec::new();
        update.patches.retain(|patch| match patch {
            Patch::Append { id, .. } => {
                grown.push(id.clone());
                false
            }
            _ => true,
        });
        let applied = self.conversation.apply(&update).is_ok();
        // The offsets of appended text are in UTF-16 units, which must be counted from the start each
        // time. The fold is at hand, so its text is compared by length instead.
        for id in grown {
            let mine = self.conversation.items.iter_mut().rfind(|item| item.id == id);
            if let (Some(mine), Some(folded)) = (mine, self.fold.item(&id)) {
                grow(mine, folded);
            }
        }
        applied
    }

    /// The entries and new sizes of the context since the last call.
    pub fn take_context_sizes(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.context_sizes)
    }

    /// Takes the finished items of a sub-agent, in order.
    pub fn take_children(&mut self, parent: &ItemId) -> Vec<Item> {
        let (children, others): (Vec<_>, _) = std::mem::take(&mut self.conversation.items)
            .into_iter()
            .partition(|item| item.parent.as_ref() == Some(parent) && is_finished(item));
        self.conversation.items = others;
        for child in &children {
            self.remember(&child.id);
        }
        children
    }

    /// Takes the next item, if it is finished.
    pub fn next_finished(&mut self) -> Option<Item> {
        if self.conversation.items.len() > MAX_WAITING {
            return Some(self.take_first());
        }
        let first = self.conversation.items.first().filter(|item| is_finished(item))?;
        // Further attempts change the same item.
        let retrying = matches!(self.conversation.status.phase, SessionPhase::Retrying { .. });
        if retrying
            && matches!(first.body, ItemBody::Retry(_))
            && self.conversation.items.len() == 1
        {
            return None;
        }
        Some(self.take_first())
    }

    /// Takes the next item, finished or not.
    pub fn next_item(&mut self) -> Option<Item> {
        (!self.conversation.items.is_empty()).then(|| self.take_first())
    }

    fn take_first(&mut self) -> Item {
        let item = self.conversation.items.remove(0);
        self.remember(&item.id);
        item
    }

    fn remember(&mut self, id: &ItemId) {
        self.taken.insert(id.clone());
        self.taken_in_order.push_back(id.clone());
        if self.taken_in_order.len() > REMEMBERED_IDS
            && let Some(oldest) = self.taken_in_order.pop_front()
        {
            self.taken.remove(&oldest);
        }
    }

    /// Takes the next turn that has ended and whose items were all taken.
    pub fn next_ended_turn(&mut self) -> Option<Turn> {
        let first = self.conversation.items.first().map_or(u64::MAX, |item| item.turn);
        let at = self
            .conversation
            .turns
            .iter()
            .position(|turn| turn.end.is_some() && turn.number < first)?;
        let turn = self.conversation.turns.remove(at);
        self.ended.insert(turn.number);
        Some(turn)
    }

    /// Takes the next hidden line that comes before the first open item.
    pub fn next_hidden(&mut self) -> Option<HiddenLine> {
        let limit = self.conversation.items.first().map_or(u64::MAX, |item| item.position.0);
        let hidden = self.hidden.as_mut()?;
        hidden.front().filter(|line| line.entry < limit)?;
        hidden.pop_front()
    }
}

/// Appends the new text of an item.
fn grow(mine: &mut Item, folded: &Item) {
    let (mine, folded) = match (&mut mine.body, &folded.body) {
        (ItemBody::Text { text: mine }, ItemBody::Text { text: folded })
        | (ItemBody::Thinking { text: mine, .. }, ItemBody::Thinking { text: folded, .. }) => {
            (mine, folded)
        }
        (ItemBody::Call(mine), ItemBody::Call(folded)) => (&mut mine.input, &folded.input),
        _ => return,
    };
    match folded.get(mine.len()..) {
        Some(more) => mine.push_str(more),
        None => mine.clone_from(folded),
    }
}

/// Whether no further change of an item is expected.
fn is_finished(item: &Item) -> bool {
    !item.open
        && match &item.body {
            ItemBody::Call(call) => !call.state.is_open(),
            ItemBody::Hook(hook) => hook.outcome.is_some(),
            _ => true,
        }
}
