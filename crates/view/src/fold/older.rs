//! Older parts of a session, for somebody who scrolls up.
//!
//! What the fold still has whole is given at once. What it let go is folded again from the record:
//! a [`Page`] says which entries to read, and a fold made for it gives items with the ids and
//! places they had. A page is made of whole turns, because that is where little is under way; what
//! else happened in between is folded too and left out.

use serde::{Deserialize, Serialize};

use super::shelf::Shelf;
use super::{DEFAULT_BUDGET, Fold};
use crate::item::{Item, Place};
use crate::turn::Turn;

/// What comes before a place.
#[derive(Clone, Debug, PartialEq)]
pub enum Older {
    /// These items, in their order, and the turns they belong to.
    Here {
        /// The items.
        items: Vec<Item>,
        /// Their turns.
        turns: Vec<Turn>,
        /// Whether there is still more before them.
        more: bool,
    },
    /// A page of the record, to be folded again.
    Page(Page),
}

/// Which entries to fold again, and from what state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// The first entry to read.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Only items before this place are wanted,
    before: Place,
    /// the nearest ones up to this number,
    items: usize,
    /// of these turns.
    turns: (u64, u64),
    noted: bool,
    spent: Option<f64>,
    more: bool,
}

impl Fold {
    /// Up to `items` items before `place`, the nearest ones.
    pub fn older(&self, place: Place, items: usize) -> Older {
        let mut here: Vec<&Item> = self.shelf.before(place).take(items).collect();
        here.reverse();
        let whole = here.iter().all(|item| !item.shed);
        let first = here.first().map_or(place, |item| item.place);
        let reaches = here.len() == items || !self.shelf.is_cut();
        if whole && reaches && !self.is_cut_between(first, place) {
            let more = self.shelf.is_cut() || self.shelf.before(first).next().is_some();
            return Older::Here {
                turns: self.turns_of(here.iter().map(|item| item.turn)),
                items: here.into_iter().cloned().collect(),
                more,
            };
        }
        self.page(place, items).map_or_else(
            || Older::Here { items: Vec::new(), turns: Vec::new(), more: false },
            Older::Page,
        )
    }

    /// Whether items between two places were let go. Those of unfinished work stay behind when
    /// their neighbours go.
    fn is_cut_between(&self, first: Place, end: Place) -> bool {
        let shed = self.turns.records().filter(|record| record.shed);
        shed.rev().any(|record| record.turn.first < end.0 && record.last >= first.0)
    }

    fn turns_of(&self, numbers: impl Iterator<Item = u64>) -> Vec<Turn> {
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        let records = numbers.into_iter().filter_map(|number| self.turns.record(number));
        records.map(|record| record.turn.clone()).collect()
    }

    /// The nearest turn that began before `place`.
    fn page(&self, place: Place, items: usize) -> Option<Page> {
        let mut before = self.turns.records().filter(|it| it.turn.first <= place.0).rev();
        // A turn whose first item stands at `place` has nothing before it.
        let record = before.find(|it| (it.turn.first, 0) < (place.0, place.1))?;
        let number = record.turn.number;
        Some(Page {
            first: record.from,
            last: record.last,
            before: place,
            items,
            turns: (number, number),
            noted: self.turns.noted,
            spent: record.spent,
            more: before.next().is_some(),
        })
    }

    /// A fold for the entries of a page; [`page_items`](Self::page_items) says what it holds.
    pub fn of_page(page: &Page) -> Self {
        let mut fold = Self::on(Shelf::with_horizon(DEFAULT_BUDGET, page.before));
        fold.turns.noted = page.noted;
        fold.turns.next = page.turns.0;
        fold.money.counted = page.spent;
        fold
    }

    /// The items of a page, once its entries were folded.
    pub fn page_items(&self, page: &Page) -> Older {
        let (first, last) = page.turns;
        let wanted = self.shelf.before(page.before);
        let mut wanted = wanted.filter(|item| (first..=last).contains(&item.turn));
        let mut items: Vec<Item> = wanted.by_ref().take(page.items).cloned().collect();
        items.reverse();
        let more = page.more || self.shelf.is_cut() || wanted.next().is_some();
        Older::Here { turns: self.turns_of(items.iter().map(|item| item.turn)), items, more }
    }
}
