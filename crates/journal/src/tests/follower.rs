//! Followers of a session.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::{TestJournal, deltas, id, lines, new_session, numbers};
use crate::{Error, Seq};

#[tokio::test]
async fn a_follower_gets_what_was_there_and_what_comes() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    journal.write(id(1), lines(["a", "b", "c"])).await.unwrap();
    let mut follower = journal.follow(id(1), Seq(1));
    assert_eq!(numbers(&follower.next().await.unwrap()), [2, 3]);
    assert!(follower.ready().await.unwrap().is_empty());
    let waiting = tokio::spawn(async move {
        let entries = follower.next().await.unwrap();
        (numbers(&entries), follower)
    });
    yield_now().await;
    journal.write(id(1), deltas(["d"])).await.unwrap();
    let (came, follower) = waiting.await.unwrap();
    assert_eq!(came, [4]);
    assert_eq!((follower.cursor(), journal.followed_sessions()), (Seq(4), vec![id(1)]));
    drop(follower);
    assert!(journal.followed_sessions().is_empty(), "the tail is freed with the last follower");
}

#[tokio::test]
async fn a_follower_that_keeps_up_reads_the_file_once() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    journal.write(id(1), lines(["a"])).await.unwrap();
    let mut followers: Vec<_> = (0..10).map(|_| journal.follow(id(1), Seq(0))).collect();
    for follower in &mut followers {
        assert_eq!(numbers(&follower.next().await.unwrap()), [1]);
    }
    let reads = || journal.readers().reads.load(Ordering::Relaxed);
    let before = reads();
    for number in 2..200 {
        journal.write(id(1), deltas(["d"])).await.unwrap();
        for follower in &mut followers {
            assert_eq!(numbers(&follower.next().await.unwrap()), [number]);
            assert!(follower.ready().await.unwrap().is_empty());
        }
    }
    assert_eq!(reads(), before);

    // What another process writes is only in the file.
    let other = files.open();
    other.write(id(1), lines(["other"])).await.unwrap();
    for follower in &mut followers {
        assert_eq!(numbers(&follower.next().await.unwrap()), [200]);
    }
    journal.write(id(1), lines(["own"])).await.unwrap();
    for follower in &mut followers {
        assert_eq!(numbers(&follower.next().await.unwrap()), [201]);
    }
}

#[tokio::test]
async fn twenty_slow_followers_lose_nothing_during_load_and_compaction() {
    const ENTRIES: u64 = 6000;
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let mut followers = JoinSet::new();
    for start in 0..20u64 {
        let mut follower = journal.follow(id(1), Seq(start));
        followers.spawn(async move {
            let mut expected = start;
            while expected < ENTRIES {
                for entry in follower.next().await.unwrap() {
                    expected += 1;
                    assert_eq!(entry.seq.0, expected);
                    assert!(entry.bytes.starts_with(format!("{expected} ").as_bytes()));
                }
                // Some keep up, some fall far behind the tail.
                for _ in 0..start * 40 {
                    yield_now().await;
                }
            }
        });
    }
    let filler = "x".repeat(900);
    for from in (0..ENTRIES).step_by(50) {
        let batch = deltas((from + 1..=from + 50).map(|n| format!("{n} {filler}")));
        let last = journal.write(id(1), batch).await.unwrap();
        if from % 1000 == 0 {
            journal.compact(id(1), last).await.unwrap();
        }
    }
    while let Some(follower) = followers.join_next().await {
        follower.unwrap();
    }
}

#[tokio::test]
async fn a_follower_gets_what_another_process_writes() {
    let files = TestJournal::new();
    // Two journals share nothing but the file, as two processes would.
    let (ours, theirs) = (files.open(), files.open());
    theirs.create(new_session(1)).await.unwrap();
    let mut follower = ours.follow(id(1), Seq(0));
    assert!(follower.ready().await.unwrap().is_empty());
    for n in 1..=2 {
        theirs.write(id(1), deltas(["x"])).await.unwrap();
        let came = timeout(Duration::from_secs(20), follower.next()).await.unwrap().unwrap();
        assert_eq!(numbers(&came), [n]);
    }
    theirs.delete(id(1)).await.unwrap();
    let gone = timeout(Duration::from_secs(20), follower.next()).await.unwrap();
    assert!(matches!(gone, Err(Error::Gone)));
}

#[tokio::test]
async fn followers_end_with_the_session_and_with_the_journal() {
    let files = TestJournal::new();
    let journal = files.open();
    for session in 1..=2 {
        journal.create(new_session(session)).await.unwrap();
    }
    let mut deleted = journal.follow(id(1), Seq(0));
    let mut closed = journal.follow(id(2), Seq(0));
    let mut unknown = journal.follow(id(3), Seq(0));
    assert!(matches!(unknown.next().await, Err(Error::Gone)));
    let both = tokio::spawn(async move { (deleted.next().await, closed.next().await) });
    yield_now().await;
    journal.delete(id(1)).await.unwrap();
    journal.close().await.unwrap();
    assert!(matches!(both.await.unwrap(), (Err(Error::Gone), Err(Error::Gone))));
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_followers() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let mut follower = journal.follow(id(1), Seq(0));
    drop(journal);
    let gone = timeout(Duration::from_secs(20), follower.next()).await.unwrap();
    assert!(matches!(gone, Err(Error::Gone)));
}

#[tokio::test]
async fn every_commit_counts_as_a_change_also_that_of_another_process() {
    let files = TestJournal::new();
    let (ours, theirs) = (files.open(), files.open());
    let mut changes = ours.changes();
    for session in 1..=2 {
        changes.mark_unchanged();
        let journal = if session == 1 { &ours } else { &theirs };
        journal.create(new_session(session)).await.unwrap();
        timeout(Duration::from_secs(20), changes.changed()).await.unwrap().unwrap();
    }
    // Reports about the last commit pass, and then there are none.
    let quiet = async { while timeout(Duration::from_secs(2), changes.changed()).await.is_ok() {} };
    timeout(Duration::from_mins(1), quiet).await.expect("nothing changed");
}

#[tokio::test]
async fn sessions_are_followed_from_their_first_follower_to_their_last() {
    let files = TestJournal::new();
    let journal = files.open();
    for number in 1..=2 {
        journal.create(new_session(number)).await.unwrap();
    }
    let mut changes = journal.followed_changes();
    let mut has_changed =
        || std::mem::replace(&mut changes, journal.followed_changes()).has_changed().unwrap();
    assert!(journal.followed_sessions().is_empty() && !has_changed());
    let first = journal.follow(id(1), Seq(0));
    assert!(has_changed());
    let second = journal.follow(id(1), Seq(0));
    assert!(!has_changed());
    assert_eq!(journal.followed_sessions(), [id(1)]);
    drop(first);
    assert!(!has_changed());
    drop(second);
    assert!(has_changed() && journal.followed_sessions().is_empty());
    let _deleted = journal.follow(id(2), Seq(0));
    journal.delete(id(2)).await.unwrap();
    assert!(has_changed() && journal.followed_sessions().is_empty());
}
