//! The fold: entries in, a document out.
//!
//! Each file of this folder handles one subject: [`messages`] the model's messages, whole and as
//! deltas; [`acp`] all messages of agents that speak the Agent Client Protocol; [`calls`] tool calls, their results and background tasks; [`denials`] calls that were denied; [`requests`] permission requests;
//! [`prompts`] what the user sends; [`import`] what was said before Towpath drove the session; [`turns`] where work begins and ends; [`notes`] Towpath's own
//! notes; [`other_agents`] other agents' own lines; [`system_events`] everything else. All state is in [`Fold`], and all of it can be saved.
//!
//! Two rules make the document the same whether or not the deltas were kept. An item that is still
//! being written stays behind all others; it gets its final position, time and text from the line
//! that completes it. And a prompt that the agent repeats after it began to answer goes in front of
//! the answer, as it does where there are no deltas.

mod acp;
mod calls;
mod denials;
mod history;
mod import;
mod item_store;
mod messages;
mod notes;
mod other_agents;
mod outline;
mod prompts;
mod requests;
mod status;
mod system_events;
mod turns;
mod usage;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wire::event::{Body as EventBody, Event, TurnEnded};
use wire::note::{Note, TurnEnding};
use wire::{Dialect, Line, Origin, Reading, RecordedLine, UnknownRequest};

use crate::agent_info::AgentInfo;
use crate::call::Request;
use crate::conversation::{Conversation, ConversationHead, Todo};
use crate::item::{Item, ItemBody, ItemId, Position, QueuedPrompt, RawItem, RawReason, Revision};
use crate::patch::{Patch, Update};
use crate::status::ConversationStatus;
use crate::usage::SessionUsage;

use acp::RecordersRemark;
pub use history::{HistoryPage, OlderItems};
use item_store::ItemStore;
pub use outline::OutlinePrompt;

/// How many bytes of document a fold keeps by default.
pub const DEFAULT_BUDGET: usize = 32 << 20;

/// Raw items are cut here; the journal has the rest.
const RAW_BYTES: usize = 16 << 10;

/// The memory that a turn takes beside its items, about.
const TURN_BYTES: usize = 512;

/// The rank of the first ordinary item of an entry. Lower ranks are for prompts that go in front of
/// their turn.
const RANK: u32 = 1024;

/// The state of a session folded so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fold {
    entry: EntryContext,
    head: Versioned<ConversationHead>,
    agent: Versioned<Option<AgentInfo>>,
    status: Versioned<ConversationStatus>,
    queue: Versioned<Vec<QueuedPrompt>>,
    requests: Versioned<Vec<Request>>,
    todos: Versioned<Vec<Todo>>,
    usage: Versioned<SessionUsage>,
    items: ItemStore,
    turns: turns::TurnTracker,
    messages: messages::MessageTracker,
    calls: calls::CallTracker,
    prompts: prompts::PromptTracker,
    cost: usage::CostTracker,
    signals: status::ActivitySignals,
    import: import::ImportedEntries,
    acp: acp::AcpTracker,
    hidden: u64,
    evicted_prompts: outline::EvictedPrompts,
}

/// Whether an entry shows in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// It changed an item, a turn, the status, the queue, the usage or the head.
    Visible,
    /// It is of no interest to a person; it is counted, and still in the journal.
    Hidden,
}

/// A saved fold could not be read: it is damaged, or of another version. The journal must be folded
/// again.
#[derive(Debug, thiserror::Error)]
#[error("could not read the saved conversation")]
pub struct RestoreError(#[from] serde_json::Error);

/// The entry being folded.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct EntryContext {
    seq: u64,
    at: Option<u64>,
    /// The rank of the next item of this entry.
    rank: u32,
    /// The rank of the next open item, counted over all entries.
    open_rank: u32,
    /// Whether it is a line of a session file.
    transcript: bool,
    /// Whether it was imported.
    imported: bool,
    /// Whether Towpath sent it to the agent.
    sent: bool,
}

/// A part of the document that is always sent whole, with the revision of its last change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Versioned<T> {
    rev: Revision,
    value: T,
}

impl<T> Versioned<T> {
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

impl Fold {
    pub fn new() -> Self {
        Self::with_budget(DEFAULT_BUDGET)
    }

    /// A fold that keeps about `bytes` of document.
    pub fn with_budget(bytes: usize) -> Self {
        Self::with_items(ItemStore::new(bytes))
    }

    /// A fold that begins after entry `seq`, at which `turn` was the last turn that had ended. It
    /// keeps about `bytes` of document.
    pub fn starting_after(seq: u64, turn: u64, bytes: usize) -> Self {
        let mut fold = Self::with_budget(bytes);
        if seq > 0 {
            // A note tells the fold that this record has notes about turns.
            fold.push_note(seq, None, &Note::TurnEnded { turn, ending: TurnEnding::Completed });
        }
        fold
    }

    fn with_items(items: ItemStore) -> Self {
        Self {
            entry: EntryContext::default(),
            head: Versioned::default(),
            agent: Versioned::default(),
            status: Versioned::default(),
            queue: Versioned::default(),
            requests: Versioned::default(),
            todos: Versioned::default(),
            usage: Versioned::default(),
            items,
            turns: turns::TurnTracker::default(),
            messages: messages::MessageTracker::default(),
            calls: calls::CallTracker::default(),
            prompts: prompts::PromptTracker::default(),
            cost: usage::CostTracker::default(),
            signals: status::ActivitySignals::default(),
            import: import::ImportedEntries::default(),
            acp: acp::AcpTracker::default(),
            evicted_prompts: outline::EvictedPrompts::default(),
            hidden: 0,
        }
    }

    /// Folds the next line of a session's journal, and returns the note it holds, if it is one.
    ///
    /// This is the only way from a journal to a conversation: only lines that Towpath wrote are
    /// read as notes. A note that this version does not know is shown raw.
    pub fn push_recorded(&mut self, line: RecordedLine<'_>) -> Option<Note> {
        let (seq, at) = (line.seq, Some(line.at));
        if let Some(note) = line.note() {
            self.push_note(seq, at, &note);
            return Some(note);
        }
        self.entry.sent = line.origin == Origin::Sent;
        for object in wire::read(line.bytes) {
            if line.origin == Origin::Transcript {
                self.push_imported(seq, &object);
            } else {
                self.push_event(seq, at, &object);
            }
        }
        self.entry.sent = false;
        None
    }

    /// Folds the next line of a stream or file without notes. A line may hold several objects.
    pub fn push_line(&mut self, seq: u64, line: &[u8]) {
        for line in wire::read(line) {
            self.push_event(seq, None, &line);
        }
    }

    /// Folds an object of the agent's output.
    ///
    /// Entries are numbered from 1, in growing order; numbers may be missing, and all objects of a
    /// line share one. If `at` is `None`, the object's own timestamp is used if it has one.
    pub fn push_event(&mut self, seq: u64, at: Option<u64>, line: &Line<'_>) -> Visibility {
        if self.import.has_entry(seq) {
            return self.push_imported(seq, line);
        }
        self.push(seq, at, |fold| fold.line(line))
    }

    /// Folds a note of Towpath's.
    pub fn push_note(&mut self, seq: u64, at: Option<u64>, note: &Note) -> Visibility {
        self.push(seq, at, |fold| fold.note(note))
    }

    fn push(
        &mut self,
        seq: u64,
        at: Option<u64>,
        fold: impl FnOnce(&mut Self) -> Visibility,
    ) -> Visibility {
        if seq != self.entry.seq {
            self.entry.rank = RANK;
        }
        self.entry.seq = seq;
        self.entry.at = at;
        let visibility = fold(self);
        if visibility == Visibility::Hidden {
            self.hidden += 1;
        }
        self.update_status();
        let now = self.rev();
        let (turns, prompts) = (&mut self.turns, &mut self.evicted_prompts);
        self.items.trim(now, |item| {
            turns.mark_evicted(item.turn);
            prompts.add(item);
        });
        visibility
    }

    /// Drops old and long parts until about `bytes` of document are left, or nothing more can be
    /// dropped. The budget stays as it is. History pages bring everything back.
    pub fn shrink(&mut self, bytes: usize) {
        let now = self.rev();
        let (turns, prompts) = (&mut self.turns, &mut self.evicted_prompts);
        self.items.shrink(bytes, now, |item| {
            turns.mark_evicted(item.turn);
            prompts.add(item);
        });
    }

    /// How many bytes of memory the document takes, about.
    pub fn memory(&self) -> usize {
        let queue = self.queue.value.iter().map(|it| it.text.len());
        let requests = self.requests.value.iter().map(|it| it.input.len());
        self.items.bytes()
            + self.turns.count() * TURN_BYTES
            + self.evicted_prompts.bytes()
            + queue.chain(requests).sum::<usize>()
    }

    pub fn revision(&self) -> Revision {
        self.rev()
    }

    /// How many entries were [hidden](Visibility::Hidden).
    pub fn hidden_entries(&self) -> u64 {
        self.hidden
    }

    /// The document with its newest `items` items.
    pub fn conversation(&self, items: usize) -> Conversation {
        self.conversation_within(items, usize::MAX)
    }

    /// The document with its newest items: at most `items`, with about `bytes` of text in all, and at
    /// least one.
    pub fn conversation_within(&self, items: usize, bytes: usize) -> Conversation {
        let mut remaining = bytes;
        let newest = self.items.iter().rev().take(items).enumerate().map_while(|(n, item)| {
            let left = remaining.checked_sub(item_store::text_bytes(item));
            remaining = left.unwrap_or(0);
            (n == 0 || left.is_some()).then_some(item)
        });
        let mut items: Vec<Item> = newest.cloned().collect();
        items.reverse();
        let more = self.items.is_incomplete() || self.items.iter().nth(items.len()).is_some();
        let first = items.iter().map(|item| item.turn).min();
        Conversation {
            revision: self.revision(),
            head: self.head.value.clone(),
            agent: self.agent.value.clone(),
            status: self.status.value.clone(),
            queue: self.queue.value.clone(),
            requests: self.requests.value.clone(),
            todos: self.todos.value.clone(),
            usage: self.usage.value.clone(),
            turns: self.turns.from(first.filter(|_| more).unwrap_or(0)),
            items,
            more,
        }
    }

    /// What the agent says about itself.
    pub fn agent(&self) -> Option<&AgentInfo> {
        self.agent.value.as_ref()
    }

    /// An item, if the fold still has it.
    pub fn item(&self, id: &ItemId) -> Option<&Item> {
        self.items.get(id)
    }

    /// All changes after `since`, or `None` if that is too long ago; then the client needs a new
    /// [`conversation`](Self::conversation).
    ///
    /// Call it between entries, not between the objects of one line.
    pub fn patches(&self, since: Revision) -> Option<Update> {
        let mut patches = self.items.patches(since)?;
        let turns = self.turns.since(since);
        patches.extend(turns.map(|turn| Patch::Turn { turn: Box::new(turn.clone()) }));
        let rest = [
            self.head.since(since).map(|head| Patch::Head { head: Box::new(head.clone()) }),
            self.agent
                .since(since)
                .and_then(Option::as_ref)
                .map(|agent| Patch::Agent { agent: Box::new(agent.clone()) }),
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

    /// The fold as bytes, so that it can be restored without folding its entries again: JSON in this
    /// version's own format, about as large as the document.
    pub fn save(&self) -> Vec<u8> {
        // Nothing in it can fail to serialize. If it did, `restore` would fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub fn restore(saved: &[u8]) -> Result<Self, RestoreError> {
        Ok(serde_json::from_slice(saved)?)
    }

    fn rev(&self) -> Revision {
        Revision(self.entry.seq)
    }

    fn line(&mut self, line: &Line<'_>) -> Visibility {
        self.entry.transcript = line.dialect == Dialect::Transcript;
        self.signals.stalled = None;
        match &line.reading {
            Reading::Event(event) => {
                let visibility = self.event(event, line.bytes);
                self.name_agent(line.dialect);
                visibility
            }
            Reading::Unknown(unknown) => {
                self.unread_request(line);
                self.raw(unknown.kind.to_string(), RawReason::Unknown, line.bytes)
            }
            Reading::Mismatch(mismatch) => {
                self.unread_request(line);
                let reason = RawReason::Mismatch { detail: mismatch.reason.clone() };
                self.raw(mismatch.kind.to_string(), reason, line.bytes);
                if mismatch.kind.name == "result" {
                    // The turn ended, whatever its result says.
                    self.turn_result(&TurnEnded::default());
                }
                Visibility::Visible
            }
            Reading::Noise(wire::Noise::Blank) => Visibility::Hidden,
            Reading::Noise(wire::Noise::Untyped) => match RecordersRemark::read(line.bytes) {
                Some(remark) => self.recorder_remarked(remark),
                None => self.raw(String::new(), RawReason::Noise, line.bytes),
            },
            Reading::Noise(_) => self.raw(String::new(), RawReason::Noise, line.bytes),
        }
    }

    fn event(&mut self, event: &Event<'_>, bytes: &[u8]) -> Visibility {
        if self.entry.at.is_none() {
            let timestamp = event.envelope.timestamp;
            self.entry.at = timestamp.and_then(|it| milliseconds(&it.decode()));
        }
        self.learn_session_id(event);
        match &event.body {
            EventBody::Init(init) => self.init(init),
            EventBody::Assistant(assistant) => self.assistant(event, assistant, bytes),
            EventBody::User(user) => self.user(event, user),
            EventBody::Stream(stream) => self.stream(event, stream),
            EventBody::TurnEnded(ended) => {
                if !event.unexpected.is_empty() {
                    let reason = RawReason::Mismatch { detail: event.unexpected.join("; ") };
                    self.raw(event.kind.to_string(), reason, bytes);
                }
                self.turn_result(ended)
            }
            EventBody::System(system) => self.system(system),
            EventBody::ControlRequest(request) => self.control_request(request, bytes),
            EventBody::ControlResponse(response) => self.control_response(response),
            EventBody::ControlCancel(cancel) => self.control_cancel(cancel),
            EventBody::Signal(signal) => self.signal(event, signal),
            EventBody::Record(_) if event.kind.name == "attachment" => {
                self.attachment(event, bytes)
            }
            EventBody::Record(record) => self.record(record),
            EventBody::OtherAgent(other) => self.other_agent(other),
            EventBody::Acp(message) => self.acp(event, message),
        }
    }

    /// Stores what the agent says about itself. Every turn repeats it, and only a change counts.
    fn describe_agent(&mut self, agent: AgentInfo) {
        if self.agent.value.as_ref() != Some(&agent) {
            let rev = self.rev();
            self.agent.change(rev, |known| *known = Some(agent));
        }
    }

    fn learn_session_id(&mut self, event: &Event<'_>) {
        let Some(id) = event.envelope.session_id.filter(|id| !id.is_empty()) else { return };
        if self.head.value.session.as_deref().is_none_or(|known| id != *known) {
            let rev = self.rev();
            self.head.change(rev, |head| head.session = Some(id.decode().into_owned()));
        }
    }

    /// Opens the request in a line that is not an event, if there is one.
    fn unread_request(&mut self, line: &Line<'_>) {
        if let Some(request) = UnknownRequest::of(line) {
            self.open_unknown_request(&request);
        }
    }

    fn raw(&mut self, name: String, reason: RawReason, bytes: &[u8]) -> Visibility {
        let text =
            prefix(&String::from_utf8_lossy(&bytes[..bytes.len().min(RAW_BYTES + 4)]), RAW_BYTES);
        self.add_line_item(ItemBody::Raw(RawItem { name, reason, text }))
    }

    /// The position of the next item of this entry.
    fn next_position(&mut self) -> Position {
        let position = Position(self.entry.seq, self.entry.rank);
        self.entry.rank += 1;
        position
    }

    /// Adds an item that has no id of its own in the protocol.
    fn add_line_item(&mut self, body: ItemBody) -> Visibility {
        let turn = self.current_turn();
        let position = self.next_position();
        self.add_item(ItemId::line(position), turn, None, position, body);
        Visibility::Visible
    }

    fn add_item(
        &mut self,
        id: ItemId,
        turn: u64,
        parent: Option<ItemId>,
        position: Position,
        body: ItemBody,
    ) {
        let item = Item {
            id,
            turn,
            parent,
            position,
            rev: self.rev(),
            first: self.entry.seq,
            at: self.entry.at,
            open: position.0 == Position::OPEN,
            trimmed: false,
            body,
        };
        self.turns.touch(turn, self.entry.seq, self.entry.at);
        self.items.put(item);
    }

    /// Changes an item, if the fold still has it.
    fn change<T>(&mut self, id: &ItemId, change: impl FnOnce(&mut Item) -> T) -> Option<T> {
        let (rev, seq, at) = (self.rev(), self.entry.seq, self.entry.at);
        let mut turn = 0;
        let changed = self.items.change(id, rev, |item| {
            turn = item.turn;
            change(item)
        })?;
        self.turns.touch(turn, seq, at);
        Some(changed)
    }
}

/// Milliseconds since 1970 of an RFC 3339 time, as the CLI writes it.
fn milliseconds(time: &str) -> Option<u64> {
    u64::try_from(time.parse::<Timestamp>().ok()?.as_millisecond()).ok()
}

/// At most the first `bytes` of a text, without splitting a character.
fn prefix(text: &str, bytes: usize) -> String {
    text[..text.floor_char_boundary(bytes)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn a_timestamp_is_counted_from_1970() {
        assert_eq!(milliseconds("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(milliseconds("2000-02-29T12:00:00.5Z"), Some(951_825_600_500));
        assert_eq!(milliseconds("2026-11-15T09:34:49.873Z"), Some(1_794_735_289_873));
        for text in ["", "today", "2026-13-01T00:00:00Z", "2026-11-15", "2026-11-15T09:34"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
