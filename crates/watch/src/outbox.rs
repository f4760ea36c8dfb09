//! Files that wait to go to one target.
//!
//! A file that changes again while it waits goes once, as it is then: what went before would be
//! overwritten at once. So the box holds at most each file of the project, and nobody who puts one
//! in ever waits.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::news::SessionId;
use crate::place::Placed;
use crate::report::EntryNumber;

/// The box.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    inside: Mutex<Inside>,
    changed: Notify,
}

/// A file to be brought, for the sake of these changes.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    pub(crate) file: Placed,
    pub(crate) tool: String,
    pub(crate) session: Option<SessionId>,
    pub(crate) entries: Vec<EntryNumber>,
}

#[derive(Debug, Default)]
struct Inside {
    parcels: HashMap<Placed, Parcel>,
    order: VecDeque<Placed>,
    closed: bool,
}

impl Outbox {
    pub(crate) fn post(&self, parcel: Parcel) {
        let mut inside = self.lock();
        if let Some(waiting) = inside.parcels.get_mut(&parcel.file) {
            waiting.absorb(parcel);
        } else {
            inside.order.push_back(parcel.file.clone());
            inside.parcels.insert(parcel.file.clone(), parcel);
        }
        drop(inside);
        self.changed.notify_one();
    }

    /// Nothing more will be posted.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// The parcel that has waited longest; nothing once the box is closed and empty.
    pub(crate) async fn next(&self) -> Option<Parcel> {
        loop {
            {
                let mut inside = self.lock();
                if let Some(file) = inside.order.pop_front() {
                    if let Some(parcel) = inside.parcels.remove(&file) {
                        return Some(parcel);
                    }
                    continue;
                }
                if inside.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// The parcel of the same file, if there is one by now.
    pub(crate) fn take(&self, file: &Placed) -> Option<Parcel> {
        self.lock().parcels.remove(file)
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parcel {
    /// Goes for the sake of another's changes too.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.entries.extend(other.entries);
        (self.tool, self.session) = (other.tool, other.session);
    }
}

#[cfg(test)]
mod tests {
    use super::{Outbox, Parcel};
    use crate::place::Placed;
    use crate::report::Report;

    #[tokio::test]
    async fn a_file_that_changes_again_while_it_waits_goes_once_for_all_its_changes() {
        let mut report = Report::default();
        let outbox = Outbox::default();
        let change = crate::news::Change {
            call: crate::news::CallId("t".to_owned()),
            tool: "Write".to_owned(),
            path: "a".to_owned(),
            session: None,
        };
        for (path, tool) in [("a", "Write"), ("b", "Write"), ("a", "Edit"), ("a", "MultiEdit")] {
            let file = Placed { relative: path.into() };
            let entry = report.send(&file.relative, &change, "target");
            let tool = tool.to_owned();
            outbox.post(Parcel { file, tool, session: None, entries: vec![entry] });
        }
        outbox.close();
        let first = outbox.next().await.unwrap();
        assert_eq!((first.tool.as_str(), first.entries.len()), ("MultiEdit", 3));
        let second = outbox.next().await.unwrap();
        assert_eq!((second.file.relative.to_str(), second.entries.len()), (Some("b"), 1));
        assert!(outbox.next().await.is_none());
    }
}
