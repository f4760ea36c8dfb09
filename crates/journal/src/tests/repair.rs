//! Files that are damaged, of a later version, or foreign.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rusqlite::Connection;
use wire::note::{Delivery, PromptState};

use super::{TestJournal, all, ann, id, lines, new_session};
use crate::schema;
use crate::{Batch, Entry, Error, Journal, PromptRecord, Repair, Seq};

/// A closed journal with three sessions of 400 entries, the second one compacted; returns the
/// entries.
async fn filled(files: &TestJournal) -> Vec<Vec<Entry>> {
    let journal = files.open();
    let mut written = Vec::new();
    for session in 1..=3u128 {
        journal.create(new_session(session)).await.unwrap();
        let line = |n| {
            let body = format!("{session} {n} {}", "abcdefgh".repeat(40));
            format!(
                r#"{{"type":"system","subtype":"status","session_id":"{}","body":"{body}"}}"#,
                id(session)
            )
        };
        let prompt = PromptRecord {
            id: id(session).0,
            position: 1,
            text: "p".to_owned(),
            content: None,
            delivery: Delivery::Queue,
            state: PromptState::Done,
            by: ann(),
            turn: None,
            created: 1,
            changed: 1,
        };
        let batch = Batch { prompts: vec![prompt], ..lines((0..400).map(line)) };
        journal.write(id(session), batch).await.unwrap();
        written.push(all(&journal, id(session)).await);
    }
    journal.compact(id(2), Seq(400)).await.unwrap();
    journal.finish_maintenance().await.unwrap();
    journal.close().await.unwrap();
    written
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Overwrites the database page that holds an entry.
fn break_page_of(path: &Path, entry: &Entry) {
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(entry.bytes.len()).position(|window| window == entry.bytes);
    overwrite(path, at.unwrap() as u64 / 4096 * 4096, &[0xff; 4096]);
}

/// Opens a damaged file and checks that it is kept unchanged, and that the rebuilt journal is intact,
/// exact and usable.
async fn repaired(files: &TestJournal, written: &[Vec<Entry>]) -> (Journal, Repair) {
    let damaged = fs::read(files.path()).unwrap();
    let opened = Journal::open(&files.path()).unwrap();
    let repair = opened.repair.expect("it was damaged");
    let kept = fs::read(&repair.backup).unwrap();
    let differing = kept.iter().zip(&damaged).position(|(kept, damaged)| kept != damaged);
    assert_eq!((kept.len(), differing), (damaged.len(), None), "the backup is exact");
    let journal = opened.journal;
    assert_eq!(journal.check().await.unwrap().faults, Vec::<String>::new());
    let sessions = journal.sessions().await.unwrap();
    assert_eq!(sessions.len() as u64, repair.sessions);
    let mut entries = 0;
    for session in sessions {
        let Some(number) = (1..=3).find(|number| id(*number) == session.id) else { continue };
        let originals = &written[usize::try_from(number).unwrap() - 1];
        for entry in all(&journal, session.id).await {
            assert_eq!(entry, originals[usize::try_from(entry.seq.0).unwrap() - 1]);
            entries += 1;
        }
        let next = journal.write(session.id, lines(["more"])).await.unwrap();
        assert_eq!(next, session.last.next(), "no number is used twice");
    }
    assert_eq!(entries, repair.entries);
    (journal, repair)
}

#[tokio::test]
async fn a_file_without_its_first_page_is_kept_and_a_new_one_started() {
    let files = TestJournal::new();
    filled(&files).await;
    overwrite(&files.path(), 0, &vec![0xa5; 4096]);
    let (journal, repair) = repaired(&files, &[]).await;
    assert_eq!((repair.sessions, repair.entries, repair.gaps), (0, 0, 1));
    assert_eq!(repair.backup, files.folder.path().join("journal.db.damaged-1"));
    journal.create(new_session(9)).await.unwrap();
}

#[tokio::test]
async fn broken_pages_lose_only_what_was_on_them() {
    let files = TestJournal::new();
    let written = filled(&files).await;
    for (session, entry) in [(0, 200), (2, 30), (2, 300)] {
        break_page_of(&files.path(), &written[session][entry]);
    }
    let (_, repair) = repaired(&files, &written).await;
    assert_eq!(repair.sessions, 3);
    assert!(repair.gaps > 0);
    assert!((1100..1200).contains(&repair.entries), "{repair}");
}

#[tokio::test]
async fn a_truncated_file_is_kept_and_a_usable_one_opened() {
    let files = TestJournal::new();
    let written = filled(&files).await;
    let size = fs::metadata(files.path()).unwrap().len();
    let file = OpenOptions::new().write(true).open(files.path()).unwrap();
    file.set_len(size / 2 / 4096 * 4096).unwrap();
    let (journal, repair) = repaired(&files, &written).await;
    assert!(repair.gaps > 0);
    journal.create(new_session(9)).await.unwrap();
}

#[tokio::test]
async fn a_file_that_is_no_database_is_kept_and_replaced() {
    let files = TestJournal::new();
    fs::write(files.path(), "this is no database ".repeat(1000)).unwrap();
    let (journal, repair) = repaired(&files, &[]).await;
    assert_eq!((repair.sessions, repair.entries), (0, 0));
    journal.create(new_session(1)).await.unwrap();
    journal.close().await.unwrap();

    fs::write(files.path(), "nor is this ".repeat(1000)).unwrap();
    let second = Journal::open(&files.path()).unwrap().repair.unwrap();
    assert_eq!(second.backup, files.folder.path().join("journal.db.damaged-2"));
}

#[tokio::test]
async fn a_corrupt_segment_is_reported_and_repaired_at_the_next_open() {
    let files = TestJournal::new();
    let written = filled(&files).await;
    let connection = Connection::open(files.path()).unwrap();
    connection.execute("UPDATE segment SET bytes = zeroblob(length(bytes))", []).unwrap();
    drop(connection);

    let journal = files.open();
    let read = journal.read(id(2), Seq(0), 10).await;
    assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
    assert_eq!(all(&journal, id(1)).await, written[0], "other sessions are not affected");
    journal.close().await.unwrap();

    let (journal, repair) = repaired(&files, &written).await;
    assert_eq!((repair.sessions, repair.entries), (3, 800));
    journal.close().await.unwrap();
    files.open();
}

#[tokio::test]
async fn a_damaged_file_in_use_is_left_unchanged() {
    let files = TestJournal::new();
    let written = filled(&files).await;
    let other = files.open();
    break_page_of(&files.path(), &written[0][200]);
    let damaged = fs::read(files.path()).unwrap();
    let opened = Journal::open(&files.path());
    assert!(matches!(opened, Err(Error::DamagedInUse { .. })), "{opened:?}");
    assert_eq!(fs::read(files.path()).unwrap(), damaged);
    drop(other);
}

#[tokio::test]
async fn a_file_of_a_later_version_or_another_program_is_refused_unchanged() {
    for (sql, newer) in [("PRAGMA user_version = 99", true), ("PRAGMA application_id = 5", false)] {
        let files = TestJournal::new();
        filled(&files).await;
        Connection::open(files.path()).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(files.path()).unwrap();
        match Journal::open(&files.path()).unwrap_err() {
            Error::Newer { found: 99, known, .. } => assert!(newer && known == schema::latest()),
            Error::Foreign { .. } => assert!(!newer),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read(files.path()).unwrap(), before);
    }
}

#[tokio::test]
async fn entries_only_in_the_log_survive_the_repair_of_the_file() {
    let files = TestJournal::new();
    let mut written = filled(&files).await;
    let journal = files.open();
    journal.write(id(1), lines((0..50).map(|n| format!("late {n}")))).await.unwrap();
    written[0] = all(&journal, id(1)).await;
    // The file and its log as a crash leaves them.
    let crashed = TestJournal::new();
    for name in ["journal.db", "journal.db-wal"] {
        fs::copy(files.folder.path().join(name), crashed.folder.path().join(name)).unwrap();
    }
    break_page_of(&crashed.path(), &written[2][30]);
    let (journal, repair) = repaired(&crashed, &written).await;
    assert_eq!(repair.sessions, 3);
    assert_eq!(all(&journal, id(1)).await.len(), 451);
    assert!((1200..1250).contains(&repair.entries), "{repair}");
}
