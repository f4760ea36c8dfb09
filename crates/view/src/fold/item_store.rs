//! The items of a fold, indexed by position, by id, and by their last change.
//!
//! The store is bounded. Above its budget, the oldest finished items are first *trimmed*: they lose
//! their long texts. If that is not enough, they are *evicted*; a history page brings them back. Both
//! save memory without changing the document, so clients get no patches for them.
//!
//! The newest items stay whole, unless they alone are far above the budget. Then they keep only the
//! beginnings of their texts, except for the very newest one.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::call::SubAgentState;
use crate::item::{Item, ItemBody, ItemId, Position, Revision};
use crate::patch::Patch;

/// How many of the newest items are never trimmed, whatever the budget.
const UNTRIMMED: usize = 64;

/// An item is only evicted if it has not changed for this many entries, so that clients that are
/// nearly up to date need no new document.
const EVICTION_AGE: u64 = 256;

/// How many states of a growing text are remembered. A client that was away for longer gets the
/// whole item.
const GROWTH_POINTS: usize = 256;

/// How many removals are remembered.
const REMOVALS: usize = 512;

/// The memory an item takes beside its texts, with its index entries: a generous estimate.
const ITEM_BYTES: usize = 640;

/// Trimming an item drops its texts that are longer than this.
const LONG_TEXT: usize = 256;

/// How much of a text is kept when one of the newest items is trimmed.
const EXCERPT: usize = 16 << 10;

/// The newest items may take twice the budget, or this if it is more.
const MIN_LIMIT: usize = 2 << 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "SavedItems", into = "SavedItems")]
pub(super) struct ItemStore {
    items: BTreeMap<Position, Item>,
    positions: HashMap<ItemId, Position>,
    changes: BTreeSet<(Revision, Position)>,
    growth: HashMap<ItemId, TextGrowth>,
    removed: VecDeque<(Revision, ItemId)>,
    /// There are no patches for changes up to this revision.
    oldest: Revision,
    bytes: usize,
    budget: usize,
    /// Everything before it is already trimmed.
    trimmed_before: Position,
    /// Items from this position on are not wanted; only history pages have one.
    horizon: Option<Position>,
    /// Whether items were evicted.
    incomplete: bool,
}

/// How the text of an open item grew.
#[derive(Clone, Debug)]
struct TextGrowth {
    /// When the item was last replaced as a whole.
    since: Revision,
    points: VecDeque<GrowthPoint>,
    units: u64,
}

#[derive(Clone, Copy, Debug)]
struct GrowthPoint {
    rev: Revision,
    bytes: usize,
    units: u64,
}

#[derive(Serialize, Deserialize)]
struct SavedItems {
    items: Vec<Item>,
    removed: VecDeque<(Revision, ItemId)>,
    oldest: Revision,
    budget: usize,
    trimmed_before: Position,
    horizon: Option<Position>,
    incomplete: bool,
}

impl From<ItemStore> for SavedItems {
    fn from(store: ItemStore) -> Self {
        Self {
            items: store.items.into_values().collect(),
            removed: store.removed,
            oldest: store.oldest,
            budget: store.budget,
            trimmed_before: store.trimmed_before,
            horizon: store.horizon,
            incomplete: store.incomplete,
        }
    }
}

impl From<SavedItems> for ItemStore {
    fn from(saved: SavedItems) -> Self {
        let mut store = Self::new(saved.budget);
        for item in saved.items {
            store.index(&item);
            store.bytes += item_bytes(&item);
            store.items.insert(item.position, item);
        }
        store.removed = saved.removed;
        store.oldest = saved.oldest;
        store.trimmed_before = saved.trimmed_before;
        store.horizon = saved.horizon;
        store.incomplete = saved.incomplete;
        store
    }
}

impl ItemStore {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            items: BTreeMap::new(),
            positions: HashMap::new(),
            changes: BTreeSet::new(),
            growth: HashMap::new(),
            removed: VecDeque::new(),
            oldest: Revision(0),
            bytes: 0,
            budget,
            trimmed_before: Position(0, 0),
            horizon: None,
            incomplete: false,
        }
    }

    pub(super) fn with_horizon(budget: usize, horizon: Position) -> Self {
        Self { horizon: Some(horizon), ..Self::new(budget) }
    }

    pub(super) fn get(&self, id: &ItemId) -> Option<&Item> {
        self.items.get(self.positions.get(id)?)
    }

    pub(super) fn has(&self, id: &ItemId) -> bool {
        self.positions.contains_key(id)
    }

    /// Adds an item. It replaces one with the same id, which only a damaged record has.
    pub(super) fn put(&mut self, item: Item) {
        self.take(&item.id);
        self.index(&item);
        self.bytes += item_bytes(&item);
        if item.open {
            let text = item.body.streamed_text().unwrap_or_default();
            let point = GrowthPoint { rev: item.rev, bytes: text.len(), units: units(text) };
            let growth =
                TextGrowth { since: item.rev, units: point.units, points: VecDeque::from([point]) };
            self.growth.insert(item.id.clone(), growth);
        }
        self.items.insert(item.position, item);
    }

    /// Changes an item, if there is one with this id.
    pub(super) fn change<T>(
        &mut self,
        id: &ItemId,
        rev: Revision,
        change: impl FnOnce(&mut Item) -> T,
    ) -> Option<T> {
        let position = *self.positions.get(id)?;
        let item = self.items.get_mut(&position)?;
        self.bytes -= item_bytes(item);
        let changed = change(item);
        self.bytes += item_bytes(item);
        self.changes.remove(&(item.rev, position));
        item.rev = rev;
        if item.position == position {
            self.changes.insert((rev, position));
        } else if let Some(item) = self.items.remove(&position) {
            self.index(&item);
            self.items.insert(item.position, item);
        }
        if let Some(growth) = self.growth.get_mut(id) {
            let open = self.items.get(&position).filter(|item| item.open);
            match open {
                Some(_) => growth.since = rev,
                None => {
                    self.growth.remove(id);
                }
            }
        }
        Some(changed)
    }

    /// Appends to the streamed text of an open item.
    pub(super) fn append(&mut self, id: &ItemId, rev: Revision, more: &str) -> bool {
        let Some(&position) = self.positions.get(id) else { return false };
        let Some(item) = self.items.get_mut(&position) else { return false };
        let Some(text) = item.body.streamed_text_mut() else { return false };
        text.push_str(more);
        let bytes = text.len();
        self.bytes += more.len();
        if item.rev != rev {
            self.changes.remove(&(item.rev, position));
            self.changes.insert((rev, position));
            item.rev = rev;
        }
        if let Some(growth) = self.growth.get_mut(id) {
            growth.units += units(more);
            let point = GrowthPoint { rev, bytes, units: growth.units };
            match growth.points.back_mut() {
                Some(last) if last.rev == rev => *last = point,
                _ => growth.points.push_back(point),
            }
            if growth.points.len() > GROWTH_POINTS {
                growth.points.pop_front();
            }
        }
        true
    }

    /// Removes an item from the document.
    pub(super) fn remove(&mut self, id: &ItemId, rev: Revision) {
        if self.take(id).is_none() {
            return;
        }
        self.removed.push_back((rev, id.clone()));
        if self.removed.len() > REMOVALS
            && let Some((rev, _)) = self.removed.pop_front()
        {
            self.oldest = self.oldest.max(rev);
        }
    }

    fn take(&mut self, id: &ItemId) -> Option<Item> {
        let position = self.positions.remove(id)?;
        let item = self.items.remove(&position)?;
        self.changes.remove(&(item.rev, position));
        self.growth.remove(id);
        self.bytes -= item_bytes(&item);
        Some(item)
    }

    fn index(&mut self, item: &Item) {
        self.positions.insert(item.id.clone(), item.position);
        self.changes.insert((item.rev, item.position));
    }

    /// In order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.items.values()
    }

    /// Items before `position`, the nearest first.
    pub(super) fn before(&self, position: Position) -> impl Iterator<Item = &Item> {
        self.items.range(..position).rev().map(|(_, item)| item)
    }

    /// Whether items were evicted.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }

    /// The changes after `since`, or `None` if that is too long ago.
    pub(super) fn patches(&self, since: Revision) -> Option<Vec<Patch>> {
        if since < self.oldest {
            return None;
        }
        let after = (Revision(since.0 + 1), Position(0, 0));
        let changed =
            self.changes.range(after..).filter_map(|(_, position)| self.items.get(position));
        let removed = self.removed.iter().filter(|(rev, id)| *rev > since && !self.has(id));
        let removed = removed.map(|(_, id)| Patch::Removed { id: id.clone() });
        Some(changed.map(|item| self.patch(item, since)).chain(removed).collect())
    }

    fn patch(&self, item: &Item, since: Revision) -> Patch {
        self.append_patch(item, since)
            .unwrap_or_else(|| Patch::Item { item: Box::new(item.clone()) })
    }

    /// A patch with the new text alone, if the client has the rest.
    fn append_patch(&self, item: &Item, since: Revision) -> Option<Patch> {
        let growth = self.growth.get(&item.id).filter(|growth| growth.since <= since)?;
        let known = growth.points.partition_point(|point| point.rev <= since).checked_sub(1)?;
        let point = growth.points[known];
        let text = item.body.streamed_text()?;
        Some(Patch::Append {
            id: item.id.clone(),
            rev: item.rev,
            offset: point.units,
            text: text.get(point.bytes..)?.to_owned(),
        })
    }

    /// Trims and evicts old items until the rest is within the budget; `evicted` is called for each
    /// evicted item.
    pub(super) fn trim(&mut self, now: Revision, mut evicted: impl FnMut(&Item)) {
        if self.bytes <= self.budget {
            return;
        }
        let may_be_evicted = |item: &Item| is_finished(item) && item.rev.0 + EVICTION_AGE <= now.0;
        self.evict_beyond_horizon(&mut evicted);
        // Freeing more than needed makes room for a while, so this runs rarely.
        let enough = self.budget - self.budget / 8;
        self.trim_newest(now);
        let Some(newest) = self.items.keys().rev().nth(UNTRIMMED).copied() else { return };
        while self.bytes > enough && self.trimmed_before < newest {
            let next = self.items.range_mut(self.trimmed_before..newest).next();
            let Some((&position, item)) = next else { break };
            self.trimmed_before = Position(position.0, position.1 + 1);
            if is_finished(item) {
                let before = item_bytes(item);
                trim_item(item, 0);
                self.bytes -= before - item_bytes(item);
            }
        }
        let finished: Vec<_> = if self.bytes > enough {
            let mut excess = self.bytes - enough;
            let old =
                self.items.range(..newest).map(|(_, item)| item).filter(|it| may_be_evicted(it));
            old.take_while(|item| {
                let go = excess > 0;
                excess = excess.saturating_sub(item_bytes(item));
                go
            })
            .map(|item| item.id.clone())
            .collect()
        } else {
            Vec::new()
        };
        for id in finished {
            self.evict(&id, &mut evicted);
        }
    }

    /// Cuts long texts of the newest items, the oldest of them first, if all items together are far
    /// above the budget. What changed just now stays whole until the next entry, so that those who
    /// follow every entry get it whole.
    fn trim_newest(&mut self, now: Revision) {
        let limit = self.budget.saturating_mul(2).max(MIN_LIMIT);
        if self.bytes <= limit {
            return;
        }
        let newest = self.items.iter().rev().take(UNTRIMMED).skip(1);
        let long: Vec<Position> = newest
            .filter(|(_, item)| is_finished(item) && item.rev < now && text_bytes(item) > EXCERPT)
            .map(|(position, _)| *position)
            .collect();
        for position in long.into_iter().rev() {
            if self.bytes <= limit {
                return;
            }
            if let Some(item) = self.items.get_mut(&position) {
                let before = item_bytes(item);
                trim_item(item, EXCERPT);
                self.bytes -= before - item_bytes(item);
            }
        }
    }

    /// Trims and evicts what it can until `bytes` are left, whatever the budget. The newest items
    /// keep the beginnings of their texts, the very newest one included.
    pub(super) fn shrink(&mut self, bytes: usize, now: Revision, evicted: impl FnMut(&Item)) {
        let budget = std::mem::replace(&mut self.budget, bytes);
        let newest = self.items.iter().rev().take(UNTRIMMED);
        let long: Vec<Position> = newest
            .filter(|(_, item)| is_finished(item) && text_bytes(item) > EXCERPT)
            .map(|(position, _)| *position)
            .collect();
        for position in long.into_iter().rev() {
            if self.bytes <= bytes {
                break;
            }
            if let Some(item) = self.items.get_mut(&position) {
                let before = item_bytes(item);
                trim_item(item, EXCERPT);
                self.bytes -= before - item_bytes(item);
            }
        }
        self.trim(now, evicted);
        self.budget = budget;
    }

    /// The memory that the items take, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn evict_beyond_horizon(&mut self, evicted: &mut impl FnMut(&Item)) {
        let Some(horizon) = self.horizon else { return };
        let beyond = self.items.range(horizon..).map(|(_, item)| item);
        let beyond: Vec<_> = beyond.filter(|it| is_finished(it)).map(|it| it.id.clone()).collect();
        for id in beyond {
            self.evict(&id, evicted);
        }
    }

    fn evict(&mut self, id: &ItemId, evicted: &mut impl FnMut(&Item)) {
        if let Some(item) = self.take(id) {
            self.oldest = self.oldest.max(item.rev);
            self.incomplete = true;
            evicted(&item);
        }
    }
}

fn units(text: &str) -> u64 {
    if text.is_ascii() { text.len() as u64 } else { text.encode_utf16().count() as u64 }
}

/// Whether no further change is expected.
fn is_finished(item: &Item) -> bool {
    let waits = match &item.body {
        ItemBody::Call(call) => {
            call.state.is_open()
                || call.agent.as_ref().is_some_and(|it| it.state == SubAgentState::Running)
        }
        ItemBody::Prompt(prompt) => !prompt.state.is_final(),
        _ => false,
    };
    !item.open && !waits
}

fn item_bytes(item: &Item) -> usize {
    ITEM_BYTES + text_bytes(item)
}

/// Whether a trimmed item still has enough text to be shown as truncated.
pub(super) fn has_excerpt(item: &Item) -> bool {
    // Cutting at a character boundary may take up to three bytes more.
    !matches!(item.body, ItemBody::Call(_)) && text_bytes(item) + 3 >= EXCERPT
}

impl Item {
    /// The size of its texts, with a margin for the fields of a call.
    pub fn text_bytes(&self) -> usize {
        text_bytes(self)
    }
}

/// The size of an item's texts, with a margin for the fields of a call.
pub(super) fn text_bytes(item: &Item) -> usize {
    match &item.body {
        ItemBody::Prompt(prompt) => prompt.text.len(),
        ItemBody::Text { text }
        | ItemBody::Thinking { text, .. }
        | ItemBody::Failure { text, .. } => text.len(),
        ItemBody::Call(call) => {
            let result = call
                .result
                .as_ref()
                .map_or(0, |it| it.text.len() + it.hunks.as_ref().map_or(0, String::len));
            512 + call.input.len() + call.target.len() + result
        }
        ItemBody::Hook(hook) => hook.output.len(),
        ItemBody::Compaction(compaction) => compaction.summary.len(),
        ItemBody::Notice(notice) => notice.text.len(),
        ItemBody::Raw(raw) => raw.text.len(),
        ItemBody::Retry(_)
        | ItemBody::Interruption
        | ItemBody::Agent(_)
        | ItemBody::Reset
        | ItemBody::Media { .. } => 0,
    }
}

/// Drops the long texts of an item, but for `kept` bytes of prose; the rest still shows what it was.
fn trim_item(item: &mut Item, kept: usize) {
    let mut trimmed = false;
    let mut drop_long = |text: &mut String| {
        if text.len() > LONG_TEXT.max(kept) {
            *text = String::new();
            trimmed = true;
        }
    };
    if let ItemBody::Call(call) = &mut item.body {
        // A part of these would not parse.
        drop_long(&mut call.input);
        if let Some(hunks) = call.result.as_mut().and_then(|it| it.hunks.as_mut()) {
            drop_long(hunks);
        }
    }
    let mut cut = |text: &mut String, always: usize| {
        if text.len() > LONG_TEXT.max(kept) {
            // A copy, because truncating would keep the memory.
            *text = text[..text.floor_char_boundary(kept.max(always))].to_owned();
            trimmed = true;
        }
    };
    match &mut item.body {
        // The outline shows where a prompt begins.
        ItemBody::Prompt(prompt) => cut(&mut prompt.text, LONG_TEXT),
        ItemBody::Text { text }
        | ItemBody::Thinking { text, .. }
        | ItemBody::Failure { text, .. } => cut(text, 0),
        ItemBody::Call(call) => {
            if let Some(result) = &mut call.result {
                cut(&mut result.text, 0);
            }
        }
        ItemBody::Hook(hook) => cut(&mut hook.output, 0),
        ItemBody::Compaction(compaction) => cut(&mut compaction.summary, 0),
        ItemBody::Notice(notice) => cut(&mut notice.text, 0),
        ItemBody::Raw(raw) => cut(&mut raw.text, 0),
        ItemBody::Retry(_)
        | ItemBody::Interruption
        | ItemBody::Agent(_)
        | ItemBody::Reset
        | ItemBody::Media { .. } => {}
    }
    item.trimmed |= trimmed;
}
