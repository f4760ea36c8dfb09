//! The shelf that items stand on: by place, by id, and by when they last changed.
//!
//! It is bounded. When what stands on it weighs more than its budget, the oldest finished items
//! lose their long parts first, then go altogether; a page brings them back. That an item was
//! lightened is no change of the document, so nobody is told.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::weight::{is_finished, lighten, weight};
use crate::item::{Item, ItemId, Place, Revision};
use crate::patch::Patch;

/// How many of the newest items are never lightened, whatever the budget.
const KEPT: usize = 64;

/// How many entries ago an item must have changed for the last time before it is let go, so that
/// followers which are nearly up to date need not begin anew.
const FRESH: u64 = 256;

/// How many states of a growing text are remembered. A follower that was away for longer gets the
/// whole item.
const MARKS: usize = 256;

/// How many removals are remembered.
const REMOVALS: usize = 512;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub(super) struct Shelf {
    items: BTreeMap<Place, Item>,
    places: HashMap<ItemId, Place>,
    changes: BTreeSet<(Revision, Place)>,
    growth: HashMap<ItemId, Growth>,
    removed: VecDeque<(Revision, ItemId)>,
    /// What happened up to here cannot be told as patches any more.
    floor: Revision,
    weight: usize,
    budget: usize,
    /// Everything before it has been lightened already.
    light_before: Place,
    /// The first place that nobody will ask for; only pages have one.
    horizon: Option<Place>,
    /// Whether anything before the first item was let go.
    cut: bool,
}

/// How the text of an open item grew.
#[derive(Clone, Debug)]
struct Growth {
    /// When the item was last put there whole.
    since: Revision,
    marks: VecDeque<Mark>,
    units: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    rev: Revision,
    bytes: usize,
    units: u64,
}

#[derive(Serialize, Deserialize)]
struct Saved {
    items: Vec<Item>,
    removed: VecDeque<(Revision, ItemId)>,
    floor: Revision,
    budget: usize,
    light_before: Place,
    horizon: Option<Place>,
    cut: bool,
}

impl From<Shelf> for Saved {
    fn from(shelf: Shelf) -> Self {
        Self {
            items: shelf.items.into_values().collect(),
            removed: shelf.removed,
            floor: shelf.floor,
            budget: shelf.budget,
            light_before: shelf.light_before,
            horizon: shelf.horizon,
            cut: shelf.cut,
        }
    }
}

impl From<Saved> for Shelf {
    fn from(saved: Saved) -> Self {
        let mut shelf = Self::new(saved.budget);
        for item in saved.items {
            shelf.index(&item);
            shelf.weight += weight(&item);
            shelf.items.insert(item.place, item);
        }
        shelf.removed = saved.removed;
        shelf.floor = saved.floor;
        shelf.light_before = saved.light_before;
        shelf.horizon = saved.horizon;
        shelf.cut = saved.cut;
        shelf
    }
}

impl Shelf {
    pub(super) fn new(budget: usize) -> Self {
        Self {
            items: BTreeMap::new(),
            places: HashMap::new(),
            changes: BTreeSet::new(),
            growth: HashMap::new(),
            removed: VecDeque::new(),
            floor: Revision(0),
            weight: 0,
            budget,
            light_before: Place(0, 0),
            horizon: None,
            cut: false,
        }
    }

    pub(super) fn with_horizon(budget: usize, horizon: Place) -> Self {
        Self { horizon: Some(horizon), ..Self::new(budget) }
    }

    pub(super) fn get(&self, id: &ItemId) -> Option<&Item> {
        self.items.get(self.places.get(id)?)
    }

    pub(super) fn has(&self, id: &ItemId) -> bool {
        self.places.contains_key(id)
    }

    /// Puts an item there. One of the same id, which only a damaged record has, makes way.
    pub(super) fn put(&mut self, item: Item) {
        self.take(&item.id);
        self.index(&item);
        self.weight += weight(&item);
        if item.open {
            let text = item.body.grown().unwrap_or_default();
            let mark = Mark { rev: item.rev, bytes: text.len(), units: units(text) };
            let growth =
                Growth { since: item.rev, units: mark.units, marks: VecDeque::from([mark]) };
            self.growth.insert(item.id.clone(), growth);
        }
        self.items.insert(item.place, item);
    }

    /// Changes an item; nothing where there is none.
    pub(super) fn change<T>(
        &mut self,
        id: &ItemId,
        rev: Revision,
        change: impl FnOnce(&mut Item) -> T,
    ) -> Option<T> {
        let place = *self.places.get(id)?;
        let item = self.items.get_mut(&place)?;
        self.weight -= weight(item);
        let told = change(item);
        self.weight += weight(item);
        self.changes.remove(&(item.rev, place));
        item.rev = rev;
        if item.place == place {
            self.changes.insert((rev, place));
        } else if let Some(item) = self.items.remove(&place) {
            self.index(&item);
            self.items.insert(item.place, item);
        }
        if let Some(growth) = self.growth.get_mut(id) {
            let open = self.items.get(&place).filter(|item| item.open);
            match open {
                Some(_) => growth.since = rev,
                None => {
                    self.growth.remove(id);
                }
            }
        }
        Some(told)
    }

    /// Lets the text of an open item grow.
    pub(super) fn append(&mut self, id: &ItemId, rev: Revision, more: &str) -> bool {
        let Some(&place) = self.places.get(id) else { return false };
        let Some(item) = self.items.get_mut(&place) else { return false };
        let Some(text) = item.body.growing() else { return false };
        text.push_str(more);
        let bytes = text.len();
        self.weight += more.len();
        if item.rev != rev {
            self.changes.remove(&(item.rev, place));
            self.changes.insert((rev, place));
            item.rev = rev;
        }
        if let Some(growth) = self.growth.get_mut(id) {
            growth.units += units(more);
            let mark = Mark { rev, bytes, units: growth.units };
            match growth.marks.back_mut() {
                Some(last) if last.rev == rev => *last = mark,
                _ => growth.marks.push_back(mark),
            }
            if growth.marks.len() > MARKS {
                growth.marks.pop_front();
            }
        }
        true
    }

    /// Takes an item away for good.
    pub(super) fn remove(&mut self, id: &ItemId, rev: Revision) {
        if self.take(id).is_none() {
            return;
        }
        self.removed.push_back((rev, id.clone()));
        if self.removed.len() > REMOVALS
            && let Some((rev, _)) = self.removed.pop_front()
        {
            self.floor = self.floor.max(rev);
        }
    }

    fn take(&mut self, id: &ItemId) -> Option<Item> {
        let place = self.places.remove(id)?;
        let item = self.items.remove(&place)?;
        self.changes.remove(&(item.rev, place));
        self.growth.remove(id);
        self.weight -= weight(&item);
        Some(item)
    }

    fn index(&mut self, item: &Item) {
        self.places.insert(item.id.clone(), item.place);
        self.changes.insert((item.rev, item.place));
    }

    /// All items in their order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.items.values()
    }

    /// Items that stand before `place`, the nearest first.
    pub(super) fn before(&self, place: Place) -> impl Iterator<Item = &Item> {
        self.items.range(..place).rev().map(|(_, item)| item)
    }

    /// Whether items that once stood before all others were let go.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// What changed after `since`; nothing where that is too long ago to tell.
    pub(super) fn patches(&self, since: Revision) -> Option<Vec<Patch>> {
        if since < self.floor {
            return None;
        }
        let after = (Revision(since.0 + 1), Place(0, 0));
        let changed = self.changes.range(after..).filter_map(|(_, place)| self.items.get(place));
        let gone = self.removed.iter().filter(|(rev, id)| *rev > since && !self.has(id));
        let gone = gone.map(|(_, id)| Patch::Gone { id: id.clone() });
        Some(changed.map(|item| self.patch(item, since)).chain(gone).collect())
    }

    fn patch(&self, item: &Item, since: Revision) -> Patch {
        self.growth_of(item, since).unwrap_or_else(|| Patch::Item { item: Box::new(item.clone()) })
    }

    /// The growth alone, where the follower has the rest.
    fn growth_of(&self, item: &Item, since: Revision) -> Option<Patch> {
        let growth = self.growth.get(&item.id).filter(|growth| growth.since <= since)?;
        let known = growth.marks.partition_point(|mark| mark.rev <= since).checked_sub(1)?;
        let mark = growth.marks[known];
        let text = item.body.grown()?;
        Some(Patch::Append {
            id: item.id.clone(),
            rev: item.rev,
            offset: mark.units,
            text: text.get(mark.bytes..)?.to_owned(),
        })
    }

    /// Lightens what is old until the rest is within the budget. Says which items went altogether.
    pub(super) fn lighten(&mut self, now: Revision, mut gone: impl FnMut(&Item)) {
        if self.weight <= self.budget {
            return;
        }
        let may_go = |item: &Item| is_finished(item) && item.rev.0 + FRESH <= now.0;
        self.drop_beyond_horizon(&mut gone);
        // Letting go of more than is needed makes room for a while, so this runs seldom.
        let enough = self.budget - self.budget / 8;
        let Some(newest) = self.items.keys().rev().nth(KEPT).copied() else { return };
        while self.weight > enough && self.light_before < newest {
            let next = self.items.range_mut(self.light_before..newest).next();
            let Some((&place, item)) = next else { break };
            self.light_before = Place(place.0, place.1 + 1);
            if is_finished(item) {
                let before = weight(item);
                lighten(item);
                self.weight -= before - weight(item);
            }
        }
        let finished: Vec<_> = if self.weight > enough {
            let mut excess = self.weight - enough;
            let old = self.items.range(..newest).map(|(_, item)| item).filter(|it| may_go(it));
            old.take_while(|item| {
                let go = excess > 0;
                excess = excess.saturating_sub(weight(item));
                go
            })
            .map(|item| item.id.clone())
            .collect()
        } else {
            Vec::new()
        };
        for id in finished {
            self.let_go(&id, &mut gone);
        }
    }

    fn drop_beyond_horizon(&mut self, gone: &mut impl FnMut(&Item)) {
        let Some(horizon) = self.horizon else { return };
        let beyond = self.items.range(horizon..).map(|(_, item)| item);
        let beyond: Vec<_> = beyond.filter(|it| is_finished(it)).map(|it| it.id.clone()).collect();
        for id in beyond {
            self.let_go(&id, gone);
        }
    }

    fn let_go(&mut self, id: &ItemId, gone: &mut impl FnMut(&Item)) {
        if let Some(item) = self.take(id) {
            self.floor = self.floor.max(item.rev);
            self.cut = true;
            gone(&item);
        }
    }
}

fn units(text: &str) -> u64 {
    if text.is_ascii() { text.len() as u64 } else { text.encode_utf16().count() as u64 }
}
