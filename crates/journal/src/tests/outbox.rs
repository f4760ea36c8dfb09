//! The outbox, and journals that replay it.

use std::path::Path;

use bytes::Bytes;
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;
use uuid::Uuid;
use wire::consent::RuleKind;
use wire::note::{Delivery, Outcome, PromptState, RequestKind};

use super::{TestJournal, all, ann, deltas, id, lines, new_session};
use crate::{
    Batch, Error, Grant, Journal, JournalChange, OutboundLine, PromptRecord, RequestRecord,
    Resolution, Seq, SessionId, SessionStatus, SpoolPosition, StateChange,
};

/// What two files must have in common. Keys of sessions differ, so their ids stand for them.
const COMPARED: &[&str] = &[
    "SELECT id, directory, title, status, options, created, active, last, spool_run, spool_offset,
        writes, turn, turn_ended, imported_turns, importing, agent_state, changes
     FROM session ORDER BY id",
    "SELECT session.id, agent_id.id FROM agent_id JOIN session ON key = session
     ORDER BY session.id, agent_id.rowid",
    "SELECT id, row & 0xffffffffff, at, origin, bytes FROM entry JOIN session ON key = row >> 40
     ORDER BY id, row",
    "SELECT session.id, prompt.id, position, text, content, delivery, state, open, by, prompt.turn,
        prompt.created, changed
     FROM prompt JOIN session ON key = session ORDER BY session.id, prompt.rowid",
    "SELECT session.id, number, bytes FROM outbound JOIN session ON key = session
     ORDER BY session.id, number",
    "SELECT session.id, request.id, kind, tool_name, tool_use_id, input, suggestions, agent, opened,
        expires, outcome, by, message, resolved, choices
     FROM request JOIN session ON key = session ORDER BY session.id, request.rowid",
    "SELECT id, session, directory, tool, kind, pattern, until, by, created, revoked FROM grants ORDER BY id",
    "SELECT day, session, dollars FROM cost ORDER BY day, session",
];

/// All rows that two files must have in common.
fn content(path: &Path) -> Vec<Vec<Vec<Value>>> {
    let connection = Connection::open(path).unwrap();
    let table = |sql: &&str| {
        let mut query = connection.prepare(sql).unwrap();
        let columns = query.column_count();
        let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
        query.query_map([], row).unwrap().collect::<Result<_, _>>().unwrap()
    };
    COMPARED.iter().map(table).collect()
}

/// A journal with an outbox and one that replays it.
struct Pair {
    owner_files: TestJournal,
    owner: Journal,
    mirror_files: TestJournal,
    mirror: Journal,
}

impl Pair {
    async fn new() -> Self {
        let (owner_files, mirror_files) = (TestJournal::new(), TestJournal::new());
        let (owner, mirror) = (owner_files.open(), mirror_files.open());
        owner.keep_outbox().await.unwrap();
        Self { owner_files, owner, mirror_files, mirror }
    }

    /// Replays everything in the outbox, `bytes` at a time.
    async fn ship(&self, bytes: usize) {
        for session in self.owner.outbox_sessions().await.unwrap() {
            loop {
                let page = self.owner.read_outbox(session, bytes).await.unwrap();
                let Some(first) = page.rows.first().map(|row| row.number) else { break };
                let upto = first + page.rows.len() as u64 - 1;
                let numbers = page.rows.iter().map(|row| row.number);
                assert!(numbers.eq(first..=upto), "{:?}", page.rows);
                let change = |row: crate::OutboxRow| JournalChange::decode(row.bytes).unwrap();
                let changes = page.rows.into_iter().map(change).collect();
                let value = Some(upto.to_string().into_bytes());
                let state = vec![StateChange { key: session.to_string(), value }];
                self.mirror.apply(session, first, changes, "mirror", state).await.unwrap();
                self.owner.remove_outbox(session, upto).await.unwrap();
            }
        }
        assert!(self.owner.outbox_sessions().await.unwrap().is_empty());
    }

    fn assert_equal(&self) {
        let (owner, mirror) =
            (content(&self.owner_files.path()), content(&self.mirror_files.path()));
        for ((owner, mirror), sql) in owner.iter().zip(&mirror).zip(COMPARED) {
            assert_eq!(owner, mirror, "{sql}");
        }
    }
}

/// Something that happens to a journal. Numbers select sessions, records and their values.
#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Lines { session: u8, line: Vec<u8>, count: u8 },
    Records { session: u8, record: u8, value: u8 },
    Import { session: u8, lines: u8, finish: bool },
    AddGrant { session: u8, grant: u8 },
    RevokeGrant { session: u8, grant: u8 },
    Snapshot(u8),
    Delete(u8),
    Ship(u16),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let session = 0..3u8;
    let step = prop_oneof![
        2 => session.clone().prop_map(Step::Create),
        6 => (session.clone(), prop::collection::vec(any::<u8>(), 0..40), 0..4u8)
            .prop_map(|(session, line, count)| Step::Lines { session, line, count }),
        6 => (session.clone(), 0..4u8, any::<u8>())
            .prop_map(|(session, record, value)| Step::Records { session, record, value }),
        2 => (session.clone(), 0..3u8, any::<bool>())
            .prop_map(|(session, lines, finish)| Step::Import { session, lines, finish }),
        1 => (session.clone(), 0..3u8)
            .prop_map(|(session, grant)| Step::AddGrant { session, grant }),
        1 => (session.clone(), 0..3u8)
            .prop_map(|(session, grant)| Step::RevokeGrant { session, grant }),
        1 => session.clone().prop_map(Step::Snapshot),
        1 => session.prop_map(Step::Delete),
        2 => (1..2000u16).prop_map(Step::Ship),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

fn session(number: u8) -> SessionId {
    id(u128::from(number) + 1)
}

/// A grant for a session, or for its directory.
fn grant(session: SessionId, number: u8, alone: bool) -> Grant {
    Grant {
        id: Uuid::from_u128(session.0.as_u128() << 8 | u128::from(number)),
        session: alone.then_some(session),
        directory: (!alone).then(|| "/home/dev/project".into()),
        tool: "Bash".to_owned(),
        kind: RuleKind::Command,
        pattern: Some(format!("ls {number}")),
        until: None,
        by: ann(),
        created: 7,
    }
}

/// A batch with a record of each kind.
fn records(of: SessionId, record: u8, value: u8) -> Batch {
    let mut batch = deltas([vec![value; 3]]);
    batch.at = 2000 + u64::from(value) * 40_000_000;
    batch.cost = f64::from(value) / 7.0;
    let states = [PromptState::Queued, PromptState::Written, PromptState::Done];
    batch.prompts.push(PromptRecord {
        id: Uuid::from_u128(u128::from(record)),
        position: i64::from(value),
        text: format!("do \u{e9} {value}"),
        content: (value > 99).then(|| "[1]".to_owned()),
        delivery: Delivery::Steer,
        state: states[usize::from(value) % 3],
        by: ann(),
        turn: Some(u64::from(value)),
        created: 10,
        changed: u64::from(value),
    });
    let resolution = value.is_multiple_of(2).then(|| Resolution {
        outcome: Outcome::Denied,
        by: Some(ann()),
        message: Some("no".to_owned()),
        at: 60,
    });
    batch.requests.push(RequestRecord {
        id: format!("r{record}"),
        kind: RequestKind::Permission,
        tool_name: "Bash".to_owned(),
        tool_use_id: None,
        input: r#"{"n":0.10000000000000001}"#.to_owned(),
        suggestions: None,
        choices: Vec::new(),
        agent: None,
        opened: 5,
        expires: None,
        resolution,
    });
    let line = Bytes::from(vec![0xff, value, b'\n']);
    batch.outbound.push(OutboundLine { number: u64::from(record), bytes: line });
    batch.grants.push(grant(of, record + 10, !value.is_multiple_of(3)));
    batch.change.status = Some(SessionStatus::Running);
    batch.change.agent_id = Some(format!("a{}", value % 4));
    batch.change.spool = Some(SpoolPosition { run: 1, offset: u64::from(value) });
    batch.change.turn = Some(u64::from(value));
    batch.change.delivered = value.is_multiple_of(5).then(|| u64::from(value % 3));
    batch.change.title = value.is_multiple_of(7).then(|| format!("title {value}"));
    batch
}

async fn run(steps: Vec<Step>) {
    let mut pair = Pair::new().await;
    let mut imports = 0;
    for step in steps {
        let owner = &pair.owner;
        // A step that a journal refuses, because the session does not exist, changes nothing.
        match step {
            Step::Create(number) => drop(owner.create(new_session(u128::from(number) + 1)).await),
            Step::Lines { session: of, line, count } => {
                let mut batch = lines(vec![line; usize::from(count)]);
                batch.unfinished = if count > 1 { vec![0] } else { Vec::new() };
                drop(owner.write(session(of), batch).await);
            }
            Step::Records { session: of, record, value } => {
                drop(owner.write(session(of), records(session(of), record, value)).await);
            }
            Step::Import { session: of, lines: count, finish } => {
                imports += 1;
                let new = new_session(u128::from(of) + 1);
                if let Ok(import) = owner.begin_import(new, Uuid::from_u128(imports)).await {
                    import.write(lines(vec!["line"; usize::from(count)])).await.unwrap();
                    if finish {
                        import.finish(lines(["end"]), 2).await.unwrap();
                    }
                }
            }
            // A grant of a session that does not exist belongs to no outbox.
            Step::AddGrant { session: of, grant: number } => {
                if owner.session(session(of)).await.unwrap().is_some() {
                    owner.add_grant(grant(session(of), number, true)).await.unwrap();
                }
            }
            Step::RevokeGrant { session: of, grant: number } => {
                let grant = grant(session(of), number, true);
                owner.revoke_grant(grant.id, 99).await.unwrap();
            }
            Step::Snapshot(of) => drop(owner.put_snapshot(session(of)).await),
            Step::Delete(of) => drop(owner.delete(session(of)).await),
            Step::Ship(bytes) => pair.ship(usize::from(bytes)).await,
            Step::Reopen => {
                pair.owner.clone().close().await.unwrap();
                pair.owner = pair.owner_files.open();
                pair.mirror.clone().close().await.unwrap();
                pair.mirror = pair.mirror_files.open();
            }
        }
    }
    pair.ship(300).await;
    for journal in [&pair.owner, &pair.mirror] {
        journal.finish_maintenance().await.unwrap();
    }
    pair.assert_equal();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_journal_that_replays_the_outbox_of_another_has_the_same_in_every_table(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }

    #[test]
    fn any_bytes_are_a_change_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = JournalChange::decode(bytes.clone().into());
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        let _ = JournalChange::decode(bytes.into());
    }

    #[test]
    fn a_change_with_a_wrong_byte_is_a_change_or_an_error(at: usize, byte: u8, cut: usize) {
        let batch = std::borrow::Cow::Owned(records(id(1), 1, 3));
        let encoded = JournalChange::Write { first: Seq(4), batch }.encode();
        let mut wrong = encoded.clone();
        wrong[at % encoded.len()] = byte;
        let _ = JournalChange::decode(wrong.into());
        let cut = encoded[..cut % encoded.len()].to_vec();
        prop_assert!(JournalChange::decode(cut.into()).is_err());
    }
}

#[tokio::test]
async fn sessions_that_are_older_than_the_outbox_are_put_into_it_whole() {
    let (files, mirror_files) = (TestJournal::new(), TestJournal::new());
    let (owner, mirror) = (files.open(), mirror_files.open());
    owner.create(new_session(1)).await.unwrap();
    for value in 0..40 {
        owner.write(id(1), records(id(1), value % 3, value)).await.unwrap();
    }
    owner.write(id(1), lines([vec![b'x'; 700 << 10]])).await.unwrap();
    let message = r#"{"type":"system"}"#;
    owner.write(id(1), lines([message])).await.unwrap();
    owner.revoke_grant(grant(id(1), 11, true).id, 5).await.unwrap();
    owner.compact(id(1), Seq(30)).await.unwrap();
    owner.keep_outbox().await.unwrap();
    assert!(owner.outbox_sessions().await.unwrap().is_empty());
    assert!(owner.fill_outbox().await.unwrap().is_empty());
    assert!(owner.fill_outbox().await.unwrap().is_empty());
    let pair = Pair { owner_files: files, owner, mirror_files, mirror };
    pair.ship(1).await;
    pair.owner.write(id(1), lines(["later"])).await.unwrap();
    pair.ship(1).await;
    assert_eq!(all(&pair.owner, id(1)).await, all(&pair.mirror, id(1)).await);
    // Compaction moved entries of the owner to segments.
    let owner = pair.owner.session(id(1)).await.unwrap();
    assert_eq!(owner, pair.mirror.session(id(1)).await.unwrap());
    let owner = content(&pair.owner_files.path());
    let mirror = content(&pair.mirror_files.path());
    for table in [0, 1, 3, 4, 5, 7] {
        assert_eq!(owner[table], mirror[table], "{}", COMPARED[table]);
    }
}

#[tokio::test]
async fn changes_that_do_not_follow_the_last_one_are_refused_and_leave_nothing() {
    let pair = Pair::new().await;
    pair.owner.create(new_session(1)).await.unwrap();
    for line in ["a", "b", "c"] {
        pair.owner.write(id(1), lines([line])).await.unwrap();
    }
    let rows = pair.owner.read_outbox(id(1), usize::MAX).await.unwrap().rows;
    let changes = |numbers: &[usize]| -> Vec<_> {
        let decode =
            |number: &usize| JournalChange::decode(rows[number - 1].bytes.clone()).unwrap();
        numbers.iter().map(decode).collect()
    };
    let state = || vec![StateChange { key: "k".to_owned(), value: Some(b"v".to_vec()) }];
    for (first, numbers) in [(2, &[2][..]), (1, &[1, 3]), (1, &[1, 2, 2]), (1, &[1, 1])] {
        let applied = pair.mirror.apply(id(1), first, changes(numbers), "m", state()).await;
        assert!(matches!(applied, Err(Error::OutOfOrder { .. })), "{numbers:?}: {applied:?}");
    }
    assert_eq!(pair.mirror.session(id(1)).await.unwrap(), None);
    assert!(pair.mirror.read_state("m").await.unwrap().is_empty());
    let last = pair.mirror.apply(id(1), 1, changes(&[1, 2, 3, 4]), "m", state()).await.unwrap();
    assert_eq!(last, Seq(3));
    let again = pair.mirror.apply(id(1), 4, changes(&[4]), "m", state()).await;
    assert!(matches!(again, Err(Error::OutOfOrder { .. })), "{again:?}");
    assert_eq!(all(&pair.mirror, id(1)).await.len(), 3);
    assert_eq!(pair.mirror.change_number(id(1)).await.unwrap(), 4);
}

#[tokio::test]
async fn a_journal_without_an_outbox_has_nothing_in_it() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    journal.write(id(1), lines(["a"])).await.unwrap();
    assert!(journal.outbox_sessions().await.unwrap().is_empty());
    journal.keep_outbox().await.unwrap();
    journal.fill_outbox().await.unwrap();
    assert_eq!(journal.outbox_sessions().await.unwrap(), [id(1)]);
    journal.discard_outbox().await.unwrap();
    journal.write(id(1), lines(["b"])).await.unwrap();
    journal.create(new_session(2)).await.unwrap();
    assert!(journal.outbox_sessions().await.unwrap().is_empty());
    assert_eq!(journal.change_number(id(1)).await.unwrap(), 0);
}

#[tokio::test]
async fn a_process_that_did_not_ask_for_the_outbox_fills_it_too_and_wakes_its_reader() {
    let files = TestJournal::new();
    let worker = files.open();
    worker.keep_outbox().await.unwrap();
    let other = files.open();
    let mut changes = worker.outbox_changes();
    changes.mark_unchanged();
    other.create(new_session(1)).await.unwrap();
    let woken = tokio::time::timeout(std::time::Duration::from_mins(1), changes.changed()).await;
    woken.unwrap().unwrap();
    assert_eq!(worker.outbox_sessions().await.unwrap(), [id(1)]);
}

#[tokio::test]
async fn streamed_text_in_the_outbox_is_not_urgent_and_everything_else_is() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.keep_outbox().await.unwrap();
    journal.create(new_session(1)).await.unwrap();
    let (mut all, mut urgent) = (journal.outbox_changes(), journal.urgent_outbox_changes());
    for (batch, is_urgent) in [
        (deltas(["a", "b"]), false),
        (lines(["ab"]), true),
        (
            Batch {
                entries: [deltas(["c"]).entries, lines(["d"]).entries].concat(),
                ..Batch::default()
            },
            true,
        ),
    ] {
        all.mark_unchanged();
        urgent.mark_unchanged();
        journal.write(id(1), batch).await.unwrap();
        let rows = journal.read_outbox(id(1), usize::MAX).await.unwrap().rows;
        let change = JournalChange::decode(rows.last().unwrap().bytes.clone()).unwrap();
        assert_eq!(change.is_transient(), !is_urgent);
        assert!(all.has_changed().unwrap());
        assert_eq!(urgent.has_changed().unwrap(), is_urgent);
    }
}
