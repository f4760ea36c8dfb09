//! What is kept in the journal's drawer, and under which names.

use journal::{Journal, Memory};
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::warn;

use crate::memory::PlaceMemory;
use crate::place::Place;
use crate::update::Update;

/// The bridge's drawer.
pub(super) const DRAWER: &str = "telegram";

const OFFSET: &str = "offset";

/// All that was kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The number of the next update.
    pub(super) offset: i64,
    /// Updates that are not carried out, in order.
    pub(super) updates: Vec<Arrival>,
    /// Places and what they were told.
    pub(super) places: Vec<PlaceMemory>,
}

/// An update that came.
#[derive(Debug)]
pub(super) struct Arrival {
    /// When, in milliseconds since 1970.
    pub(super) at: u64,
    /// What.
    pub(super) update: Update,
}

impl Kept {
    pub(super) async fn read(journal: &Journal) -> Result<Self, journal::Error> {
        let mut kept = Self::default();
        for (name, value) in journal.kept(DRAWER).await? {
            let read = match name.split_once('/') {
                None if name == OFFSET => {
                    let number = std::str::from_utf8(&value).ok().and_then(|it| it.parse().ok());
                    number.map(|number| kept.offset = number)
                }
                Some(("update", _)) => read_update(&value).map(|it| kept.updates.push(it)),
                Some(("place", _)) => {
                    serde_json::from_slice(&value).ok().map(|it| kept.places.push(it))
                }
                _ => None,
            };
            if read.is_none() {
                warn!(name, "something that was remembered cannot be read");
            }
        }
        kept.updates.sort_by_key(|it| it.update.update_id);
        Ok(kept)
    }
}

/// The number of the next update, to be remembered.
pub(super) fn offset(next: i64) -> Memory {
    Memory { name: OFFSET.to_owned(), value: Some(next.to_string().into_bytes()) }
}

/// An update that came at a time, to be remembered.
pub(super) fn update(number: i64, at: u64, raw: &RawValue) -> Memory {
    let value = format!(r#"{{"at":{at},"update":{raw}}}"#);
    Memory { name: update_name(number), value: Some(value.into_bytes()) }
}

/// An update that is carried out, to be forgotten.
pub(super) fn done(number: i64) -> Memory {
    Memory { name: update_name(number), value: None }
}

/// What a place was told, to be remembered.
pub(super) fn place(memory: &PlaceMemory) -> Memory {
    // Numbers and strings serialise.
    let value = serde_json::to_vec(memory).ok();
    Memory { name: place_name(memory.place), value }
}

/// A place that shows nothing any more, to be forgotten.
pub(super) fn left(place: Place) -> Memory {
    Memory { name: place_name(place), value: None }
}

/// The update in some JSON. One that cannot be read is one that says nothing.
pub(super) fn parsed(raw: &RawValue) -> Option<Update> {
    #[derive(Deserialize)]
    struct Numbered {
        update_id: i64,
    }
    let Numbered { update_id } = serde_json::from_str(raw.get()).ok()?;
    let update = serde_json::from_str(raw.get());
    Some(update.unwrap_or_else(|_| Update { update_id, ..Update::default() }))
}

fn read_update(value: &[u8]) -> Option<Arrival> {
    #[derive(Deserialize)]
    struct Stored<'a> {
        at: u64,
        #[serde(borrow)]
        update: &'a RawValue,
    }
    let stored: Stored<'_> = serde_json::from_slice(value).ok()?;
    Some(Arrival { at: stored.at, update: parsed(stored.update)? })
}

fn update_name(number: i64) -> String {
    format!("update/{number}")
}

fn place_name(place: Place) -> String {
    match place.thread {
        Some(thread) => format!("place/{}/{}", place.chat.0, thread.0),
        None => format!("place/{}", place.chat.0),
    }
}

#[cfg(test)]
mod tests {
    use journal::Journal;
    use serde_json::value::RawValue;

    use super::{DRAWER, Kept, done, offset, parsed, update};

    #[tokio::test]
    async fn what_came_is_there_in_the_next_life_in_order_until_it_is_done() {
        let place = tempfile::tempdir().unwrap();
        let journal = Journal::open(&place.path().join("journal.db")).unwrap().journal;
        let raw = |id: i64| {
            let text = format!(
                r#"{{"update_id":{id},"message":{{"message_id":1,"chat":{{"id":7,"type":"private"}},"text":"é \"x\""}}}}"#
            );
            RawValue::from_string(text).unwrap()
        };
        let came = [9, 10, 100].map(|id| update(id, 5, &raw(id)));
        journal.keep(DRAWER, [came.to_vec(), vec![offset(101)]].concat()).await.unwrap();
        journal.keep(DRAWER, vec![done(10)]).await.unwrap();
        let kept = Kept::read(&journal).await.unwrap();
        assert_eq!(kept.offset, 101);
        let numbers: Vec<_> = kept.updates.iter().map(|it| it.update.update_id).collect();
        assert_eq!(numbers, [9, 100]);
        let message = kept.updates[0].update.message.as_ref().unwrap();
        assert_eq!((message.text.as_deref(), kept.updates[0].at), (Some("é \"x\""), 5));
    }

    #[test]
    fn an_update_that_cannot_be_read_still_has_its_number() {
        let odd = RawValue::from_string(r#"{"update_id":3,"message":"what?"}"#.to_owned()).unwrap();
        let update = parsed(&odd).unwrap();
        assert_eq!((update.update_id, update.message), (3, None));
    }
}
