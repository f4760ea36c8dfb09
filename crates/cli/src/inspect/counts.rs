//! How often each name was seen.

use std::collections::BTreeMap;
use std::fmt::Display;

use wire::Kind;

/// Kinds with their counts.
///
/// A stream has a few dozen kinds and one of them most of the time, so a list that keeps frequent
/// ones in front is quicker than hashing every line's kind, and allocates once per kind.
#[derive(Default)]
pub(super) struct Counts {
    seen: Vec<Count>,
}

struct Count {
    name: String,
    subtype: Option<String>,
    times: u64,
}

impl Counts {
    pub(super) fn add(&mut self, kind: Kind<'_>) {
        let place = self.seen.iter().position(|seen| {
            kind.name == *seen.name
                && match (&seen.subtype, kind.subtype) {
                    (Some(seen), Some(found)) => found == **seen,
                    (None, None) => true,
                    _ => false,
                }
        });
        let Some(place) = place else {
            let subtype = kind.subtype.map(String::from);
            self.seen.push(Count { name: kind.name.into(), subtype, times: 1 });
            return;
        };
        self.seen[place].times += 1;
        if place > 0 && self.seen[place].times > self.seen[place - 1].times {
            self.seen.swap(place, place - 1);
        }
    }

    /// Counts a name that is no line's kind.
    pub(super) fn add_name(&mut self, name: &impl Display) {
        let name = name.to_string();
        match self.seen.iter_mut().find(|seen| seen.subtype.is_none() && seen.name == name) {
            Some(seen) => seen.times += 1,
            None => self.seen.push(Count { name, subtype: None, times: 1 }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Names with their counts, by name.
    pub(super) fn by_name(&self) -> BTreeMap<String, u64> {
        let name = |seen: &Count| match &seen.subtype {
            Some(subtype) => format!("{}/{subtype}", seen.name),
            None => seen.name.clone(),
        };
        self.seen.iter().map(|seen| (name(seen), seen.times)).collect()
    }

    /// Names with their counts, the most frequent first.
    pub(super) fn by_frequency(&self) -> Vec<(String, u64)> {
        let mut counts: Vec<_> = self.by_name().into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    }
}
