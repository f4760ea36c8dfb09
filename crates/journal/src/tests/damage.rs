//! Damaged rows and pages: only the session that they belong to is affected.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use wire::consent::RuleKind;
use wire::note::{Delivery, Outcome, PromptState, RequestKind};

use super::{TestJournal, all, ann, id, lines, new_session};
use crate::{
    Batch, Error, Grant, Journal, PromptRecord, RequestRecord, Resolution, Seq, SessionStatus,
    StateChange,
};

/// Sessions that have everything: compacted and other entries, prompts, requests, grants.
async fn filled(files: &TestJournal, sessions: u128) -> Journal {
    let journal = files.open();
    for number in 1..=sessions {
        journal.create(new_session(number)).await.unwrap();
        let prompt = |state, count| PromptRecord {
            id: uuid::Uuid::from_u128(number * 100 + count),
            position: 1,
            text: "do it".to_owned(),
            content: Some("[]".to_owned()),
            delivery: Delivery::Queue,
            state,
            by: ann(),
            turn: Some(1),
            created: 1,
            changed: 1,
        };
        let request = |name: &str, resolution| RequestRecord {
            id: name.to_owned(),
            kind: RequestKind::Permission,
            tool_name: "Bash".to_owned(),
            tool_use_id: Some("t".to_owned()),
            input: "{}".to_owned(),
            suggestions: Some("[]".to_owned()),
            choices: Vec::new(),
            agent: Some("a".to_owned()),
            opened: 1,
            expires: Some(9),
            resolution,
        };
        let resolution =
            Resolution { outcome: Outcome::Denied, by: Some(ann()), message: None, at: 3 };
        let mut batch = Batch {
            prompts: vec![prompt(PromptState::Done, 1), prompt(PromptState::Queued, 2)],
            requests: vec![request("open", None), request("resolved", Some(resolution))],
            grants: vec![Grant {
                id: uuid::Uuid::from_u128(number),
                session: Some(id(number)),
                directory: Some("/w".into()),
                tool: "Bash".to_owned(),
                kind: RuleKind::Command,
                pattern: None,
                until: None,
                by: ann(),
                created: 1,
            }],
            ..lines((0..60).map(|n| format!("{number} {n} {}", "abc ".repeat(100))))
        };
        batch.change.agent_id = Some(format!("agent-{number}"));
        journal.write(id(number), batch).await.unwrap();
        let change = StateChange { key: number.to_string(), value: Some(b"v".to_vec()) };
        journal.write_state("follower", vec![change]).await.unwrap();
        journal.compact(id(number), Seq(40)).await.unwrap();
    }
    journal.finish_maintenance().await.unwrap();
    journal
}

/// Calls everything that reads or writes, for all sessions but the damaged one.
async fn others_work(journal: &Journal, sessions: u128, damaged: u128, what: &str) {
    let listed = journal.sessions().await.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    assert!(listed.len() >= usize::try_from(sessions).unwrap() - 1, "{what}");
    let everywhere = "the queries about all sessions work";
    journal.open_requests(None).await.expect(everywhere);
    journal.open_request_counts().await.expect(everywhere);
    journal.ledger(None, 100).await.expect(everywhere);
    journal.grants(0).await.expect(everywhere);
    journal.read_state("follower").await.expect(everywhere);
    for number in (1..=sessions).filter(|number| *number != damaged) {
        let session = id(number);
        let record = listed.iter().find(|record| record.id == session).expect(what);
        assert_eq!(record.damage, None, "{what}");
        assert_eq!(journal.session(session).await.unwrap().as_ref(), Some(record), "{what}");
        assert!(all(journal, session).await.len() >= 60, "{what}");
        assert_eq!(journal.prompts(session).await.unwrap().len(), 2, "{what}");
        assert_eq!(journal.open_requests(Some(session)).await.unwrap().len(), 1, "{what}");
        assert_eq!(journal.ledger(Some(session), 9).await.unwrap().len(), 1, "{what}");
        assert!(journal.outbound(session).await.unwrap().is_empty(), "{what}");
        assert_eq!(journal.find(&session.to_string()).await.unwrap(), [session], "{what}");
        assert!(journal.first_prompt_text(session, 99).await.unwrap().is_some(), "{what}");
        let grants = journal.grants(0).await.unwrap();
        assert!(grants.iter().any(|it| it.session == Some(session)), "{what}");
        let last = journal.write(session, lines(["more"])).await.unwrap();
        assert_eq!(journal.follow(session, Seq(last.0 - 1)).next().await.unwrap().len(), 1);
    }
}

/// Values that a damaged column can have.
const VALUES: &[&str] = &[
    "CAST(x'ff00fe' AS TEXT)",
    "CAST(x'c3' AS TEXT)",
    "'no valid value'",
    "''",
    "'{\"model\":'",
    "CAST(zeroblob(300000) AS TEXT)",
    "-1",
    "9223372036854775807",
    "x''",
    "x'28b52ffd00'",
    "zeroblob(70)",
    "1.5",
    "NULL",
];

/// The columns of a row of session 2 that may be damaged.
fn columns(connection: &Connection) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for (table, row) in [
        ("session", "key = 2"),
        ("agent_id", "session = 2"),
        ("entry", "row = (2 << 40) + 50"),
        ("segment", "row >> 40 = 2"),
        ("prompt", "session = 2"),
        ("request", "session = 2"),
        ("grants", "rowid = 2"),
        ("state", "rowid = 2"),
    ] {
        let columns = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
        for column in columns.column_names() {
            if !matches!(column, "key" | "row" | "session") {
                found.push((table.to_owned(), column.to_owned(), row.to_owned()));
            }
        }
    }
    found
}

#[tokio::test]
async fn a_damaged_value_in_any_column_concerns_only_its_session() {
    const SESSIONS: u128 = 3;
    let original = TestJournal::new();
    filled(&original, SESSIONS).await.close().await.unwrap();
    let columns = columns(&Connection::open(original.path()).unwrap());
    let mut damaged = 0;
    for (table, column, row) in columns {
        // The values of one column in turn, while the journal is open and across a restart.
        let files = TestJournal::new();
        fs::copy(original.path(), files.path()).unwrap();
        let journal = files.open();
        for value in VALUES {
            let connection = Connection::open(files.path()).unwrap();
            let sql = format!("UPDATE {table} SET {column} = {value} WHERE {row}");
            // The tables refuse values of another type, except by damage to the file.
            if connection.execute(&sql, []).is_err() {
                continue;
            }
            drop(connection);
            damaged += 1;
            others_work(&journal, SESSIONS, 2, &sql).await;
            if table == "session" && column != "title" {
                let listed = journal.sessions().await.unwrap();
                let record = listed.into_iter().find(|it| it.id != id(1) && it.id != id(3));
                let record = record.expect("it is listed");
                if record.damage.is_some() {
                    assert_eq!(record.status, SessionStatus::Failed, "{sql}");
                }
            }
        }
        journal.close().await.unwrap();
        let opened = Journal::open(&files.path()).unwrap();
        others_work(&opened.journal, SESSIONS, 2, &format!("restart after {table}.{column}")).await;
        for session in [id(1), id(3)] {
            opened.journal.compact(session, Seq(60)).await.unwrap();
        }
        opened.journal.check().await.unwrap();
        opened.journal.close().await.unwrap();
    }
    assert!(damaged > 150, "{damaged}");
}

#[tokio::test]
async fn a_damaged_session_says_so_and_can_be_exported_and_deleted() {
    for (column, value) in [
        ("options", "'{\"disallowed_tools\":'"),
        ("options", "CAST(x'ff' AS TEXT)"),
        ("status", "'\"resting\"'"),
        ("id", "CAST(x'ff' AS TEXT)"),
        ("spool_offset", "-7"),
    ] {
        let files = TestJournal::new();
        let journal = filled(&files, 2).await;
        let sql = format!("UPDATE session SET {column} = {value} WHERE key = 2");
        Connection::open(files.path()).unwrap().execute(&sql, []).unwrap();
        let listed = journal.sessions().await.unwrap();
        let record = listed.iter().find(|it| it.id != id(1)).unwrap();
        let what = record.damage.as_deref().unwrap_or_else(|| panic!("{sql}"));
        assert!(
            what.contains(column.split('_').next().unwrap()) || column == "spool_offset",
            "{what}"
        );
        assert_eq!(record.status, SessionStatus::Failed);
        assert_eq!(journal.session(record.id).await.unwrap().as_ref(), Some(record));
        assert_eq!(journal.find(&record.id.to_string()).await.unwrap(), [record.id]);
        assert_eq!(all(&journal, record.id).await.len(), 60, "{sql}");
        journal.delete(record.id).await.unwrap();
        assert_eq!(journal.sessions().await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_an_error_of_its_session() {
    let files = TestJournal::new();
    let journal = filled(&files, 2).await;
    let connection = Connection::open(files.path()).unwrap();
    connection
        .execute_batch(
            "UPDATE prompt SET state = 'x' WHERE session = 2;
             UPDATE request SET input = CAST(x'ff' AS TEXT) WHERE session = 2;
             UPDATE grants SET by = '' WHERE rowid = 2;",
        )
        .unwrap();
    for error in [
        journal.prompts(id(2)).await.unwrap_err(),
        journal.open_prompts(id(2)).await.unwrap_err(),
        journal.open_requests(Some(id(2))).await.unwrap_err(),
        journal.request(id(2), "open").await.unwrap_err(),
    ] {
        assert!(matches!(error, Error::DamagedSession { session, .. } if session == id(2)));
    }
    let open = journal.open_requests(None).await.unwrap();
    assert_eq!(open.iter().map(|(session, _)| *session).collect::<Vec<_>>(), [id(1)]);
    let grants = journal.grants(0).await.unwrap();
    assert_eq!(grants.len(), 1, "what cannot be read grants nothing");
}

/// Overwrites some bytes of each page in turn, from the second on.
fn damaged_copies(original: &Path) -> impl Iterator<Item = (usize, Vec<u8>)> {
    const PAGE: usize = 4096;
    let bytes = fs::read(original).unwrap();
    (1..bytes.len() / PAGE).flat_map(move |page| {
        [(0, 8), (100, 4), (2000, 200), (4000, 96)].map(|(from, length)| {
            let mut copy = bytes.clone();
            for byte in &mut copy[page * PAGE + from..][..length] {
                *byte ^= 0x5a;
            }
            (page, copy)
        })
    })
}

#[tokio::test]
async fn with_any_damaged_page_the_journal_opens_and_lists_what_it_can() {
    let original = TestJournal::new();
    filled(&original, 3).await.close().await.unwrap();
    let (mut cases, mut repaired) = (0, 0);
    for (page, bytes) in damaged_copies(&original.path()) {
        let files = TestJournal::new();
        fs::write(files.path(), bytes).unwrap();
        let opened = Journal::open(&files.path()).unwrap_or_else(|error| panic!("{page}: {error}"));
        cases += 1;
        repaired += usize::from(opened.repair.is_some());
        let journal = opened.journal;
        let listed = journal.sessions().await.unwrap();
        let mut lost = 0;
        for number in 1..=3 {
            // What is left of a session is readable, or says that it is damaged.
            let record = listed.iter().find(|it| it.id == id(number));
            match journal.read(id(number), Seq(0), 1000).await {
                Ok(_) | Err(Error::Damaged { .. }) => {}
                Err(Error::NoSuchSession(_)) => lost += 1,
                Err(error) => panic!("{page}: {error:?} {record:?}"),
            }
        }
        assert!(listed.len() + lost >= 3, "{page}: {listed:?}");
        journal.open_requests(None).await.unwrap();
        journal.ledger(None, 9).await.unwrap();
        journal.grants(0).await.unwrap();
        journal.read_state("follower").await.unwrap();
        journal.create(new_session(9)).await.unwrap();
        journal.write(id(9), lines(["works"])).await.unwrap();
        journal.close().await.unwrap();
    }
    assert!(cases > 60 && repaired > cases / 4, "{repaired} of {cases}");
}

#[tokio::test]
async fn entries_whose_session_was_lost_are_restored_under_a_session_of_their_own() {
    let files = TestJournal::new();
    filled(&files, 3).await.close().await.unwrap();
    // The page of the session table, which is small, is the third one after the schema and its map.
    let bytes = fs::read(files.path()).unwrap();
    let directory = b"/home/dev/project";
    let at = bytes.windows(directory.len()).position(|window| window == directory).unwrap();
    let mut bytes = bytes;
    bytes[at / 4096 * 4096..][..4096].fill(0xff);
    fs::write(files.path(), bytes).unwrap();
    let opened = Journal::open(&files.path()).unwrap();
    assert_eq!(opened.repair.unwrap().sessions, 3);
    let sessions = opened.journal.sessions().await.unwrap();
    assert_eq!(sessions.len(), 3);
    for session in sessions {
        assert!(session.damage.is_some(), "its options are lost");
        assert_eq!(all(&opened.journal, session.id).await.len(), 60);
    }
}
