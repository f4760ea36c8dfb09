//! Older parts of a session, for scrolling up.
//!
//! Items that the fold still has are returned at once. Evicted ones are folded again from the record:
//! a [`HistoryPage`] says which entries to read, and a fold made for it gives items with the ids and
//! positions they had. A page consists of whole turns, because little is in progress between turns.
//! Whatever else happened during those entries is folded too and left out.

use serde::{Deserialize, Serialize};

use super::item_store::{self, ItemStore};
use super::{DEFAULT_BUDGET, Fold};
use crate::conversation::Turn;
use crate::item::{Item, Position};

/// The items before a position.
#[derive(Clone, Debug, PartialEq)]
pub enum OlderItems {
    Available {
        /// In order.
        items: Vec<Item>,
        /// The turns of the items.
        turns: Vec<Turn>,
        /// Whether there are more before them.
        more: bool,
    },
    /// Some were evicted: the entries of this page must be folded again.
    Page(HistoryPage),
}

/// Which entries to fold again, and from what state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryPage {
    /// The first entry to read.
    pub first: u64,
    /// The last entry to read.
    pub last: u64,
    /// Only items before this position are wanted.
    before: Position,
    /// At most so many of them, the nearest ones.
    items: usize,
    /// The first and the last turn that are wanted.
    turns: (u64, u64),
    has_notes: bool,
    cost_before: Option<f64>,
    more: bool,
}

impl Fold {
    /// Up to `items` items before `position`, the nearest ones.
    pub fn older(&self, position: Position, items: usize) -> OlderItems {
        let mut here: Vec<&Item> = self.items.before(position).take(items).collect();
        here.reverse();
        let whole = here.iter().all(|item| !item.trimmed || item_store::has_excerpt(item));
        let first = here.first().map_or(position, |item| item.position);
        let enough = here.len() == items || !self.items.is_incomplete();
        if whole && enough && !self.is_incomplete_between(first, position) {
            let more = self.items.is_incomplete() || self.items.before(first).next().is_some();
            return OlderItems::Available {
                turns: self.turns_of(here.iter().map(|item| item.turn)),
                items: here.into_iter().cloned().collect(),
                more,
            };
        }
        self.page(position, items).map_or_else(
            || OlderItems::Available { items: Vec::new(), turns: Vec::new(), more: false },
            OlderItems::Page,
        )
    }

    /// Whether items between two positions were evicted. Items of unfinished work stay when their
    /// neighbours are evicted.
    fn is_incomplete_between(&self, first: Position, end: Position) -> bool {
        let evicted = self.turns.records().filter(|record| record.evicted);
        evicted.rev().any(|record| record.turn.first < end.0 && record.last >= first.0)
    }

    fn turns_of(&self, numbers: impl Iterator<Item = u64>) -> Vec<Turn> {
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let records = numbers.into_iter().filter_map(|number| self.turns.record(number));
        records.map(|record| record.turn.clone()).collect()
    }

    /// The page of the nearest turn that began before `position`.
    fn page(&self, position: Position, items: usize) -> Option<HistoryPage> {
        let mut before = self.turns.records().filter(|it| it.turn.first <= position.0).rev();
        // A turn whose first item is at `position` has nothing before it.
        let record = before.find(|it| (it.turn.first, 0) < (position.0, position.1))?;
        let number = record.turn.number;
        Some(HistoryPage {
            first: record.from,
            last: record.last,
            before: position,
            items,
            turns: (number, number),
            has_notes: self.turns.has_notes,
            cost_before: record.cost_before,
            more: before.next().is_some(),
        })
    }

    /// A fold for the entries of a page. [`page_items`](Self::page_items) gives its items.
    pub fn for_page(page: &HistoryPage) -> Self {
        let mut fold = Self::with_items(ItemStore::with_horizon(DEFAULT_BUDGET, page.before));
        fold.turns.has_notes = page.has_notes;
        fold.turns.next = page.turns.0;
        fold.cost.reported = page.cost_before;
        fold
    }

    /// The items of a page, after its entries were folded.
    pub fn page_items(&self, page: &HistoryPage) -> OlderItems {
        let (first, last) = page.turns;
        let wanted = self.items.before(page.before);
        let mut wanted = wanted.filter(|item| (first..=last).contains(&item.turn));
        let mut items: Vec<Item> = wanted.by_ref().take(page.items).cloned().collect();
        items.reverse();
        let more = page.more || self.items.is_incomplete() || wanted.next().is_some();
        let turns = self.turns_of(items.iter().map(|item| item.turn));
        OlderItems::Available { items, turns, more }
    }
}
