//! Work that the writer does while no client waits for it.

use std::time::Duration;

use rusqlite::Connection;

use super::{TestJournal, id, lines, new_session};
use crate::Journal;

async fn filled(files: &TestJournal) -> Journal {
    let journal = files.open();
    for session in 1..=2 {
        journal.create(new_session(session)).await.unwrap();
        let batch = lines((0..400).map(|n| format!("{n} {}", "x".repeat(500))));
        journal.write(id(session), batch).await.unwrap();
    }
    journal
}

/// Waits until the entries of a session are removed, without asking for it.
async fn removed(journal: &Journal) {
    let all_removed = async {
        while journal.check().await.unwrap().uncompacted > 400 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            journal.write_state("clock", Vec::new()).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(1), all_removed).await.expect("it is tried again");
}

#[tokio::test]
async fn a_deletion_that_failed_is_finished_without_a_restart() {
    let files = TestJournal::new();
    let journal = filled(&files).await;
    let other = Connection::open(files.path()).unwrap();
    other
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE DELETE ON entry
             BEGIN SELECT raise(ABORT, 'refused'); END",
        )
        .unwrap();
    journal.delete(id(1)).await.unwrap();
    journal.finish_maintenance().await.unwrap_err();
    assert_eq!(journal.check().await.unwrap().uncompacted, 800);
    other.execute_batch("DROP TRIGGER refuse").unwrap();
    removed(&journal).await;
    journal.finish_maintenance().await.unwrap();
}

#[tokio::test]
async fn what_another_process_deleted_and_left_is_removed_without_a_restart() {
    let files = TestJournal::new();
    let journal = filled(&files).await;
    let other = Connection::open(files.path()).unwrap();
    other
        .execute_batch(
            "BEGIN; DELETE FROM session WHERE key = 1; INSERT INTO deleted_session VALUES (1); COMMIT",
        )
        .unwrap();
    removed(&journal).await;
    journal.finish_maintenance().await.unwrap();
}
