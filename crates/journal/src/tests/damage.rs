//! Files that are damaged, newer, or not ours.

use std::fs::{self, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rusqlite::Connection;
use wire::note::{Delivery, PromptState};

use super::{Place, all, ann, id, lines, new_session, numbers};
use crate::schema;
use crate::{Batch, Entry, Error, Journal, Mended, PromptRecord, Seq};

/// A closed journal: three sessions of 400 entries, the second one settled, and its entries.
async fn filled(place: &Place) -> Vec<Vec<Entry>> {
    let journal = place.open();
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
            place: 1,
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
    journal.settle(id(2), Seq(400)).await.unwrap();
    journal.tidy().await.unwrap();
    journal.close().await.unwrap();
    written
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(at)).unwrap();
    file.write_all(bytes).unwrap();
}

/// Makes the page of the file that holds an entry unreadable.
fn break_page_of(path: &Path, entry: &Entry) {
    let bytes = fs::read(path).unwrap();
    let at = bytes.windows(entry.bytes.len()).position(|window| window == entry.bytes);
    overwrite(path, at.unwrap() as u64 / 4096 * 4096, &[0xff; 4096]);
}

/// Opens a damaged file: the damaged one must be kept as it was, and what is left must be sound,
/// exact and usable.
async fn mended(place: &Place, written: &[Vec<Entry>]) -> (Journal, Mended) {
    let damaged = fs::read(place.path()).unwrap();
    let opening = Journal::open(&place.path()).unwrap();
    let mended = opening.mended.expect("it was damaged");
    let kept = fs::read(&mended.backup).unwrap();
    let differing = kept.iter().zip(&damaged).position(|(kept, damaged)| kept != damaged);
    assert_eq!((kept.len(), differing), (damaged.len(), None), "the backup is exact");
    let journal = opening.journal;
    assert_eq!(journal.check().await.unwrap().faults, Vec::<String>::new());
    let sessions = journal.sessions().await.unwrap();
    assert_eq!(sessions.len() as u64, mended.sessions);
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
    assert_eq!(entries, mended.entries);
    (journal, mended)
}

#[tokio::test]
async fn a_file_without_its_header_is_mended_without_loss() {
    for length in [16, 100, 4096] {
        let place = Place::new();
        let written = filled(&place).await;
        overwrite(&place.path(), 0, &vec![0xa5; length]);
        let (_, mended) = mended(&place, &written).await;
        assert_eq!((mended.sessions, mended.entries, mended.records), (3, 1200, 3), "{length}");
        assert_eq!(mended.backup, place.folder.path().join("journal.db.damaged-1"));
        assert_eq!(mended.nameless, 0);
    }
}

#[tokio::test]
async fn broken_pages_cost_what_was_on_them() {
    let place = Place::new();
    let written = filled(&place).await;
    for (session, entry) in [(0, 200), (2, 30), (2, 300)] {
        break_page_of(&place.path(), &written[session][entry]);
    }
    let (_, mended) = mended(&place, &written).await;
    assert_eq!(mended.sessions, 3);
    assert!(mended.gaps > 0);
    assert!((1100..1200).contains(&mended.entries), "{mended}");
}

#[tokio::test]
async fn a_file_cut_in_half_keeps_its_first_half() {
    let place = Place::new();
    let written = filled(&place).await;
    let size = fs::metadata(place.path()).unwrap().len();
    let file = OpenOptions::new().write(true).open(place.path()).unwrap();
    file.set_len(size / 2 / 4096 * 4096).unwrap();
    let (_, mended) = mended(&place, &written).await;
    assert_eq!(mended.sessions, 3);
    assert!((300..1200).contains(&mended.entries), "{mended}");
}

#[tokio::test]
async fn a_file_that_never_was_a_journal_is_set_aside() {
    let place = Place::new();
    fs::write(place.path(), "this is no database ".repeat(1000)).unwrap();
    let (journal, mended) = mended(&place, &[]).await;
    assert_eq!((mended.sessions, mended.entries), (0, 0));
    journal.create(new_session(1)).await.unwrap();
    journal.close().await.unwrap();

    fs::write(place.path(), "nor is this ".repeat(1000)).unwrap();
    let second = Journal::open(&place.path()).unwrap().mended.unwrap();
    assert_eq!(second.backup, place.folder.path().join("journal.db.damaged-2"));
}

#[tokio::test]
async fn entries_whose_session_is_lost_are_kept_under_the_name_their_lines_tell() {
    let place = Place::new();
    let written = filled(&place).await;
    let connection = Connection::open(place.path()).unwrap();
    let gone = connection.execute("DELETE FROM session WHERE id <> ?1", [id(3).to_string()]);
    assert_eq!(gone.unwrap(), 2);
    drop(connection);
    overwrite(&place.path(), 0, &[0; 16]);
    let (journal, mended) = mended(&place, &written).await;
    assert_eq!((mended.sessions, mended.nameless, mended.entries), (3, 2, 1200));
    assert_eq!(numbers(&all(&journal, id(2)).await).len(), 401);
}

#[tokio::test]
async fn a_page_that_does_not_unpack_is_reported_and_mended_at_the_next_opening() {
    let place = Place::new();
    let written = filled(&place).await;
    let connection = Connection::open(place.path()).unwrap();
    connection.execute("UPDATE page SET bytes = zeroblob(length(bytes))", []).unwrap();
    drop(connection);

    let journal = place.open();
    let read = journal.read(id(2), Seq(0), 10).await;
    assert!(matches!(read, Err(Error::Damaged { .. })), "{read:?}");
    assert_eq!(all(&journal, id(1)).await, written[0], "others are not harmed");
    journal.close().await.unwrap();

    let (journal, mended) = mended(&place, &written).await;
    assert_eq!((mended.sessions, mended.entries), (3, 800));
    journal.close().await.unwrap();
    place.open();
}

#[tokio::test]
async fn a_damaged_file_that_others_use_is_left_alone() {
    let place = Place::new();
    let written = filled(&place).await;
    let other = place.open();
    break_page_of(&place.path(), &written[0][200]);
    let damaged = fs::read(place.path()).unwrap();
    let opening = Journal::open(&place.path());
    assert!(matches!(opening, Err(Error::DamagedInUse { .. })), "{opening:?}");
    assert_eq!(fs::read(place.path()).unwrap(), damaged);
    drop(other);
}

#[tokio::test]
async fn a_file_of_a_later_program_or_of_another_is_refused_untouched() {
    for (sql, newer) in [("PRAGMA user_version = 99", true), ("PRAGMA application_id = 5", false)] {
        let place = Place::new();
        filled(&place).await;
        Connection::open(place.path()).unwrap().execute_batch(sql).unwrap();
        let before = fs::read(place.path()).unwrap();
        match Journal::open(&place.path()).unwrap_err() {
            Error::Newer { found: 99, known, .. } => assert!(newer && known == schema::newest()),
            Error::Foreign { .. } => assert!(!newer),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read(place.path()).unwrap(), before);
    }
}

#[tokio::test]
async fn what_is_only_in_the_log_after_a_crash_is_kept_when_the_file_is_damaged() {
    let place = Place::new();
    let mut written = filled(&place).await;
    let journal = place.open();
    journal.write(id(1), lines((0..50).map(|n| format!("late {n}")))).await.unwrap();
    written[0] = all(&journal, id(1)).await;
    // The file and its log as a crash would leave them.
    let crashed = Place::new();
    for name in ["journal.db", "journal.db-wal"] {
        fs::copy(place.folder.path().join(name), crashed.folder.path().join(name)).unwrap();
    }
    break_page_of(&crashed.path(), &written[2][30]);
    let (journal, mended) = mended(&crashed, &written).await;
    assert_eq!(mended.sessions, 3);
    assert_eq!(all(&journal, id(1)).await.len(), 451);
    assert!((1200..1250).contains(&mended.entries), "{mended}");
}
