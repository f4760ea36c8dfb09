//! Writes, as they are read back.

use std::os::unix::fs::PermissionsExt as _;

use super::{TestJournal, all, deltas, id, lines, new_session, numbers, text};
use crate::{Batch, Error, Journal, Seq};

#[tokio::test]
async fn entries_come_back_as_they_went_in_numbered_from_one() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let odd: [&'static [u8]; 3] = [b"{\"a\":0.19243785000000002}", b"", b"\xff\x00 not text"];
    assert_eq!(journal.write(id(1), lines(odd)).await.unwrap(), Seq(3));
    assert_eq!(journal.write(id(1), deltas(["d"])).await.unwrap(), Seq(4));
    assert_eq!(journal.write(id(1), Batch::default()).await.unwrap(), Seq(4));

    let entries = all(&journal, id(1)).await;
    assert_eq!(numbers(&entries), [1, 2, 3, 4]);
    assert!(entries.iter().zip(odd).all(|(entry, line)| entry.bytes == line));
    assert_eq!(numbers(&journal.read(id(1), Seq(1), 2).await.unwrap()), [2, 3]);
    assert!(journal.read(id(1), Seq(4), 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_reopened_journal_has_all_entries_and_continues_the_numbers() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    journal.write(id(1), lines(["a", "b"])).await.unwrap();
    let other = journal.clone();
    journal.close().await.unwrap();
    assert!(matches!(other.write(id(1), lines(["c"])).await, Err(Error::Closed)));
    assert!(matches!(other.read(id(1), Seq(0), 1).await, Err(Error::Closed)));
    assert!(!files.folder.path().join("journal.db-wal").exists(), "the log is checkpointed");

    let journal = files.open();
    assert_eq!(journal.write(id(1), lines(["c"])).await.unwrap(), Seq(3));
    assert_eq!(all(&journal, id(1)).await.iter().map(text).collect::<String>(), "abc");
}

#[tokio::test]
async fn concurrent_writes_are_numbered_in_the_order_they_were_sent() {
    let files = TestJournal::new();
    let journal = files.open();
    for session in 1..=3 {
        journal.create(new_session(session)).await.unwrap();
    }
    // All are sent before the first reply is awaited.
    let writes: Vec<_> = (0..300u32)
        .map(|n| {
            let batch = if n % 7 == 0 { lines([n.to_string()]) } else { deltas([n.to_string()]) };
            let (journal, session) = (journal.clone(), id(u128::from(n % 3) + 1));
            tokio::spawn(async move { journal.write(session, batch).await.unwrap() })
        })
        .collect();
    for (n, write) in writes.into_iter().enumerate() {
        assert_eq!(write.await.unwrap(), Seq(n as u64 / 3 + 1));
    }
    for session in 0..3 {
        let entries = all(&journal, id(session + 1)).await;
        let wanted: Vec<String> = (0..100).map(|n| (n * 3 + session).to_string()).collect();
        assert_eq!(entries.iter().map(text).collect::<Vec<_>>(), wanted);
    }
}

#[tokio::test]
async fn a_rejected_batch_does_not_affect_the_others_of_its_transaction() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let mut writes = Vec::new();
    for n in 0..50u32 {
        let session = if n % 10 == 3 { id(99) } else { id(1) };
        let journal = journal.clone();
        writes.push(tokio::spawn(async move { journal.write(session, lines(["x"])).await }));
    }
    for (n, write) in writes.into_iter().enumerate() {
        let result = write.await.unwrap();
        if n % 10 == 3 {
            assert!(matches!(result, Err(Error::NoSuchSession(unknown)) if unknown == id(99)));
        } else {
            result.unwrap();
        }
    }
    assert_eq!(all(&journal, id(1)).await.len(), 45);
    assert!(matches!(journal.create(new_session(1)).await, Err(Error::SessionExists(_))));
}

#[tokio::test]
async fn two_writers_on_one_file_never_assign_a_number_twice() {
    let files = TestJournal::new();
    let (one, other) = (files.open(), files.open());
    one.create(new_session(1)).await.unwrap();
    let write = |journal: &Journal| {
        let journal = journal.clone();
        tokio::spawn(async move {
            let mut given = Vec::new();
            for _ in 0..100 {
                given.push(journal.write(id(1), deltas(["x"])).await.unwrap().0);
            }
            given
        })
    };
    let (first, second) = (write(&one), write(&other));
    let mut given = [first.await.unwrap(), second.await.unwrap()].concat();
    given.sort_unstable();
    assert_eq!(given, (1..=200).collect::<Vec<u64>>());
    assert_eq!(numbers(&all(&one, id(1)).await), given);
}

#[tokio::test]
async fn the_file_and_its_companions_are_accessible_to_the_owner_only() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let mut seen = 0;
    for file in std::fs::read_dir(files.folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.path().display());
        seen += 1;
    }
    assert!(seen >= 3, "the file, its log and its index");
}

#[tokio::test]
async fn a_deleted_session_is_gone_and_its_space_is_freed() {
    let files = TestJournal::new();
    let journal = files.open();
    let big = vec![b'x'; 20_000];
    for session in 1..=2 {
        journal.create(new_session(session)).await.unwrap();
        journal.write(id(session), lines(vec![big.clone(); 300])).await.unwrap();
    }
    let before = journal.check().await.unwrap();
    journal.delete(id(1)).await.unwrap();
    assert_eq!(journal.session(id(1)).await.unwrap(), None);
    assert!(matches!(journal.read(id(1), Seq(0), 1).await, Err(Error::NoSuchSession(_))));
    assert!(matches!(journal.delete(id(1)).await, Err(Error::NoSuchSession(_))));
    journal.finish_maintenance().await.unwrap();
    let after = journal.check().await.unwrap();
    assert!(after.bytes < before.bytes * 6 / 10, "{before:?} {after:?}");
    assert_eq!((after.uncompacted, after.faults.len()), (300, 0));
    assert_eq!(all(&journal, id(2)).await.len(), 300);

    journal.create(new_session(1)).await.unwrap();
    assert!(all(&journal, id(1)).await.is_empty(), "nothing of the old session comes back");
}
