//! A journal that the first released format wrote, opened by this version.
//!
//! `fixtures/format-1.db` was written by `serve --demo` before the tables got their present names:
//! permissions, a question, a plan, an interrupt, queued prompts, a watch setting and four grants.
//! `fixtures/format-1.json` is what that build reported about it.

use std::path::Path;
use std::{fmt, fs};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use wire::consent::RuleKind;

use super::{TestJournal, all, id};
use crate::{Error, Grant, Journal, Origin, SessionId, SessionStatus};

#[derive(Deserialize)]
struct ExpectedSession {
    id: SessionId,
    title: String,
    status: SessionStatus,
    lines: usize,
    sha256: String,
}

/// Bytes that print as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::LowerHex for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap()
}

fn old_journal() -> TestJournal {
    let files = TestJournal::new();
    fs::write(files.path(), fixture("format-1.db")).unwrap();
    files
}

#[tokio::test]
async fn a_journal_of_the_first_format_keeps_every_byte_and_record() {
    let files = old_journal();
    let journal = files.open();
    assert_eq!(journal.check().await.unwrap().faults, Vec::<String>::new());

    let expected: Vec<ExpectedSession> = serde_json::from_slice(&fixture("format-1.json")).unwrap();
    let sessions = journal.sessions().await.unwrap();
    assert_eq!(sessions.len(), expected.len());
    for (found, expected) in sessions.iter().zip(&expected) {
        assert_eq!((found.id, found.status), (expected.id, expected.status));
        assert_eq!(found.title.as_ref(), Some(&expected.title));
        let entries = all(&journal, found.id).await;
        let lines = entries.iter().filter(|entry| entry.origin == Origin::Agent);
        let (mut count, mut digest) = (0, Sha256::new());
        for line in lines {
            digest.update(&line.bytes);
            digest.update(b"\n");
            count += 1;
        }
        let digest = format!("{:x}", Hex(&digest.finalize()));
        assert_eq!((count, digest), (expected.lines, expected.sha256.clone()), "{}", found.id);
        // Every note is still understood.
        let notes = entries.iter().filter(|entry| entry.origin == Origin::Towpath);
        for note in notes {
            assert!(note.line().note().is_some(), "{}", super::text(note));
        }
    }
    assert_eq!(journal.ledger(None, 99).await.unwrap().len(), 8);
    let open = journal.open_requests(None).await.unwrap();
    assert_eq!((open.len(), open[0].0), (1, expected[0].id), "the question still waits");
    assert_eq!(journal.open_prompts(expected[0].id).await.unwrap().len(), 2);
    assert_eq!(journal.read_state("watch").await.unwrap().len(), 1);
}

#[tokio::test]
async fn grants_that_the_consent_policy_no_longer_offers_are_revoked() {
    let files = old_journal();
    let journal = files.open();
    let grants = journal.grants(2).await.unwrap();
    let patterns: Vec<_> = grants.iter().map(|grant| grant.pattern.as_deref()).collect();
    assert_eq!(patterns, [Some("npm test")]);
}

#[tokio::test]
async fn grants_that_may_have_come_from_a_text_like_a_pattern_are_asked_for_again() {
    let files = old_journal();
    let connection = rusqlite::Connection::open(files.path()).unwrap();
    let grants = [
        ("edits", Some("/etc/**")),
        ("edits", Some("/p/a.rs")),
        ("edits", Some("input:{}")),
        ("edits", None),
        ("WebFetch", Some("domain:github.com")),
        ("WebFetch", Some("https://github.com/")),
        ("mcp__x__shell", Some("input:{}")),
        ("mcp__x__shell", Some("ls")),
        ("mcp__x__query", None),
        ("Bash", Some("input:{}")),
    ];
    for (number, (tool, pattern)) in grants.iter().enumerate() {
        connection
            .execute(
                "INSERT INTO granted (id, tool, pattern, by, created) VALUES (?1, ?2, ?3, ?4, ?5)",
                (
                    Uuid::from_u128(number as u128).to_string(),
                    tool,
                    pattern,
                    r#"{"name":"ann","via":"browser"}"#,
                    10 + i64::try_from(number).unwrap(),
                ),
            )
            .unwrap();
    }
    connection.close().unwrap();
    let journal = files.open();
    let kept = journal.grants(2).await.unwrap();
    let kept: Vec<_> = kept
        .iter()
        .filter(|it| it.created >= 10)
        .map(|it| (it.tool.as_str(), it.kind, it.pattern.as_deref()))
        .collect();
    assert_eq!(
        kept,
        [
            ("edits", RuleKind::File, Some("/p/a.rs")),
            ("WebFetch", RuleKind::Address, Some("https://github.com/")),
            ("mcp__x__shell", RuleKind::Command, Some("ls")),
            ("mcp__x__query", RuleKind::Tool, None),
            ("Bash", RuleKind::Command, Some("input:{}")),
        ]
    );
    // Such a grant can be made again under the same id, as that for the outbox of a chat is.
    let again = Grant {
        id: Uuid::from_u128(0),
        kind: RuleKind::Directory,
        pattern: Some("/etc/app".to_owned()),
        ..journal.grants(2).await.unwrap()[0].clone()
    };
    journal.add_grant(again.clone()).await.unwrap();
    assert!(journal.grants(2).await.unwrap().contains(&again));
}

#[test]
fn a_grant_of_a_machine_that_stores_no_kind_can_be_read() {
    let text = r#"{"id":"00000000-0000-0000-0000-000000000001","session":null,"directory":null,
        "tool":"edits","pattern":"/etc/**","until":null,"by":{"name":"ann","via":"browser"},"created":1}"#;
    let grant: Grant = serde_json::from_str(text).unwrap();
    assert_eq!(grant.kind, RuleKind::Unknown);
}

#[tokio::test]
async fn a_journal_in_use_by_an_older_version_is_not_migrated() {
    let files = old_journal();
    let lock = files.folder.path().join("journal.db.lock");
    let lock = fs::File::create(lock).unwrap();
    lock.lock_shared().unwrap();
    let refused = Journal::open(&files.path());
    assert!(matches!(refused, Err(Error::OutdatedInUse { .. })), "{refused:?}");
    assert_eq!(fs::read(files.path()).unwrap(), fixture("format-1.db"));
    drop(lock);
    let journal = files.open();
    assert_eq!(journal.session(id(1)).await.unwrap(), None);
}
