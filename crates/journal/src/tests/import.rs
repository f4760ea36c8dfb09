//! Imports are seen whole or not at all.

use uuid::Uuid;

use super::{TestJournal, all, id, new_session, text};
use crate::{Batch, Error, Journal, NewEntry, Origin, Seq};

fn imported<'a>(at: u64, lines: impl IntoIterator<Item = &'a str>) -> Batch {
    let entry = |line: &str| NewEntry {
        origin: Origin::Transcript,
        bytes: line.to_owned().into(),
        transient: false,
    };
    Batch { at, entries: lines.into_iter().map(entry).collect(), ..Batch::default() }
}

async fn visible(journal: &Journal) -> usize {
    let listed = journal.sessions().await.unwrap().len();
    let found = journal.find(&id(7).to_string()).await.unwrap().len();
    let read = usize::from(journal.session(id(7)).await.unwrap().is_some());
    assert_eq!((listed, found), (read, read));
    listed
}

fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    u64::try_from(now.unwrap().as_millis()).unwrap()
}

#[tokio::test]
async fn an_import_is_seen_when_it_has_finished() {
    let files = TestJournal::new();
    let journal = files.open();
    let import = journal.begin_import(new_session(7), Uuid::from_u128(1)).await.unwrap();
    import.write(imported(5, ["a", "b"])).await.unwrap();
    assert_eq!(visible(&journal).await, 0);
    let mut last = imported(5, ["c"]);
    (last.change.turn, last.change.turn_ended) = (Some(4), Some(4));
    last.change.agent_id = Some("cli".to_owned());
    assert_eq!(import.finish(last, 4).await.unwrap(), Seq(3));
    assert_eq!(visible(&journal).await, 1);
    let record = journal.session(id(7)).await.unwrap().unwrap();
    assert_eq!((record.turn, record.imported_turns), (4, 4));
    journal.compact(id(7), Seq(3)).await.unwrap();
    let entries = all(&journal, id(7)).await;
    assert_eq!(entries.iter().map(text).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert!(entries.iter().all(|entry| entry.origin == Origin::Transcript));
}

#[tokio::test]
async fn an_import_that_did_not_finish_is_replaced_by_the_next_and_cannot_write_into_it() {
    let files = TestJournal::new();
    let journal = files.open();
    let first = journal.begin_import(new_session(7), Uuid::from_u128(1)).await.unwrap();
    first.write(imported(5, ["half"])).await.unwrap();
    let second = journal.begin_import(new_session(7), Uuid::from_u128(2)).await.unwrap();
    second.write(imported(5, ["whole"])).await.unwrap();
    let refused = first.write(imported(5, ["late"])).await;
    assert!(matches!(refused, Err(Error::NoSuchSession(_))), "{refused:?}");
    second.finish(Batch::default(), 0).await.unwrap();
    let third = journal.begin_import(new_session(7), Uuid::from_u128(3)).await;
    assert!(matches!(third, Err(Error::SessionExists(_))), "{third:?}");
    let entries = all(&journal, id(7)).await;
    assert_eq!(entries.iter().map(text).collect::<Vec<_>>(), ["whole"]);
}

#[tokio::test]
async fn what_a_killed_import_left_is_removed_when_the_journal_is_opened_later() {
    let files = TestJournal::new();
    for (at, left) in [(now(), 1), (now() - 2 * 60 * 60 * 1000, 0)] {
        let journal = files.open();
        let mut new = new_session(7);
        new.at = at;
        let import = journal.begin_import(new, Uuid::from_u128(1)).await.unwrap();
        import.write(imported(at, ["half"; 400])).await.unwrap();
        drop(import);
        journal.close().await.unwrap();
        let journal = files.open();
        journal.finish_maintenance().await.unwrap();
        assert_eq!(visible(&journal).await, 0);
        let health = journal.check().await.unwrap();
        assert_eq!((health.sessions, health.uncompacted), (left, left * 400));
        journal.close().await.unwrap();
    }
}
