//! Sessions, prompts, requests, grants and follower state.

use std::path::Path;

use uuid::Uuid;
use wire::consent::RuleKind;
use wire::note::{Delivery, Outcome, PromptState, RequestKind};

use super::{TestJournal, ann, id, lines, new_session};
use crate::connection::PageLimit;
use crate::{
    Batch, Error, Grant, Journal, PromptRecord, RequestRecord, Resolution, Seq, SessionChange,
    SessionId, SessionStatus, SpoolPosition, StateChange,
};

fn prompt(number: u128, position: i64, state: PromptState) -> PromptRecord {
    PromptRecord {
        id: Uuid::from_u128(number),
        position,
        text: format!("prompt {number}"),
        content: (number == 2).then(|| r#"[{"type":"image"}]"#.to_owned()),
        delivery: Delivery::Steer,
        state,
        by: ann(),
        turn: Some(4),
        created: 10,
        changed: 20,
    }
}

fn request(name: &str, resolution: Option<Resolution>) -> RequestRecord {
    RequestRecord {
        id: name.to_owned(),
        kind: RequestKind::Permission,
        tool_name: "Bash".to_owned(),
        tool_use_id: Some("toolu_1".to_owned()),
        input: r#"{"command":"ls"}"#.to_owned(),
        suggestions: None,
        choices: Vec::new(),
        agent: Some("toolu_0".to_owned()),
        opened: 5,
        expires: Some(50),
        resolution,
    }
}

fn resolved(at: u64) -> Resolution {
    let message = Some("no".to_owned());
    Resolution { outcome: Outcome::Denied, by: Some(ann()), message, at }
}

#[tokio::test]
async fn a_session_has_the_values_last_written() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let batch = |change| Batch { at: 3000, change, ..Batch::default() };
    let change = SessionChange {
        title: Some("a name".to_owned()),
        status: Some(SessionStatus::Waiting),
        agent_id: Some("c-1".to_owned()),
        spool: Some(SpoolPosition { run: 2, offset: 77 }),
        ..SessionChange::default()
    };
    journal.write(id(1), batch(change)).await.unwrap();
    let again = SessionChange {
        agent_id: Some("c-2".to_owned()),
        writes: Some(9),
        turn: Some(3),
        options: Some("{}".to_owned()),
        ..SessionChange::default()
    };
    journal.write(id(1), batch(again.clone())).await.unwrap();
    journal.write(id(1), batch(again)).await.unwrap();

    let record = journal.session(id(1)).await.unwrap().unwrap();
    assert_eq!(record.title.as_deref(), Some("a name"));
    assert_eq!(record.agent_ids, ["c-1", "c-2"]);
    assert_eq!((record.status, record.spool.offset), (SessionStatus::Waiting, 77));
    assert_eq!((record.writes, record.turn, record.last), (9, 3, Seq(0)));
    assert_eq!((record.created, record.active, &*record.options), (1000, 3000, "{}"));
    assert_eq!(record.directory.to_str(), Some("/home/dev/project"));
}

#[tokio::test]
async fn sessions_are_listed_by_last_activity_and_found_by_any_id() {
    let files = TestJournal::new();
    let journal = files.open();
    for session in [0xa1 << 120, 0xa2 << 120, 0xb3 << 120] {
        journal.create(new_session(session)).await.unwrap();
    }
    let mut batch = lines(["x"]);
    batch.change.agent_id = Some("F00D-1".to_owned());
    journal.write(id(0xa2 << 120), batch).await.unwrap();
    let listed = journal.sessions().await.unwrap();
    let order: Vec<_> = listed.iter().map(|session| session.id).collect();
    assert_eq!(order, [id(0xa2 << 120), id(0xb3 << 120), id(0xa1 << 120)]);
    for (prefix, found) in
        [("a", 2), ("A1", 1), ("b3000000-0", 1), ("F00D", 1), ("c", 0), ("%", 0), ("", 3)]
    {
        assert_eq!(journal.find(prefix).await.unwrap().len(), found, "{prefix}");
    }
}

#[tokio::test]
async fn prompts_keep_their_order_and_change_in_place() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let prompts = [
        prompt(1, 30, PromptState::Queued),
        prompt(2, 10, PromptState::Queued),
        prompt(3, 20, PromptState::Written),
    ];
    let batch = Batch { prompts: prompts.to_vec(), ..Batch::default() };
    journal.write(id(1), batch).await.unwrap();
    let done = prompt(3, 20, PromptState::Done);
    let batch = Batch { prompts: vec![done.clone()], ..Batch::default() };
    journal.write(id(1), batch).await.unwrap();

    let [last, first, _] = prompts;
    let all = journal.prompts(id(1)).await.unwrap();
    assert_eq!(all, [first.clone(), done.clone(), last.clone()]);
    assert_eq!(journal.open_prompts(id(1)).await.unwrap(), [first, last]);
    assert_eq!(journal.prompt(id(1), done.id).await.unwrap(), Some(done));
    assert_eq!(journal.prompt(id(1), Uuid::from_u128(9)).await.unwrap(), None);
    assert!(journal.prompts(id(2)).await.unwrap().is_empty());
}

#[tokio::test]
async fn requests_are_open_until_resolved_and_then_in_the_ledger() {
    let files = TestJournal::new();
    let journal = files.open();
    for session in 1..=2 {
        journal.create(new_session(session)).await.unwrap();
        let requests = vec![request("r1", None), request("r2", None), request("r3", None)];
        journal.write(id(session), Batch { requests, ..Batch::default() }).await.unwrap();
    }
    let requests = vec![request("r1", Some(resolved(60))), request("r3", Some(resolved(61)))];
    journal.write(id(1), Batch { requests, ..Batch::default() }).await.unwrap();

    let open = journal.open_requests(Some(id(1))).await.unwrap();
    assert_eq!(open, [(id(1), request("r2", None))]);
    assert_eq!(journal.open_requests(None).await.unwrap().len(), 4);
    let ledger = journal.ledger(None, 9).await.unwrap();
    assert_eq!(
        ledger,
        [(id(1), request("r3", Some(resolved(61)))), (id(1), request("r1", Some(resolved(60))))]
    );
    assert_eq!(journal.ledger(None, 1).await.unwrap().len(), 1);
    assert!(journal.ledger(Some(id(2)), 9).await.unwrap().is_empty());
    let one = journal.request(id(1), "r1").await.unwrap();
    assert_eq!(one, Some(request("r1", Some(resolved(60)))));
    assert_eq!(journal.request(id(1), "r9").await.unwrap(), None);
}

fn grant(number: u128, session: Option<SessionId>, until: Option<u64>) -> Grant {
    Grant {
        id: Uuid::from_u128(number),
        session,
        directory: Some("/w".into()),
        tool: "Bash".to_owned(),
        kind: RuleKind::Command,
        pattern: Some("ls *".to_owned()),
        until,
        by: ann(),
        created: number.try_into().unwrap(),
    }
}

#[test]
fn a_grant_applies_where_it_was_given_and_one_without_a_limit_nowhere() {
    let (here, elsewhere) = (Path::new("/w"), Path::new("/w/x"));
    let applies = |session: Option<u128>, directory: Option<&str>| {
        let grant =
            Grant { directory: directory.map(Into::into), ..grant(1, session.map(id), None) };
        [
            grant.applies_in(id(1), here),
            grant.applies_in(id(1), elsewhere),
            grant.applies_in(id(2), here),
        ]
    };
    assert_eq!(applies(Some(1), None), [true, true, false]);
    assert_eq!(applies(None, Some("/w")), [true, false, true]);
    assert_eq!(applies(Some(1), Some("/w")), [true, false, false]);
    assert_eq!(applies(None, None), [false; 3]);
}

#[tokio::test]
async fn an_answer_and_its_grant_are_stored_together_or_not_at_all() {
    let files = TestJournal::new();
    let journal = Journal::open_with(&files.path(), PageLimit(Some(100))).unwrap().journal;
    journal.create(new_session(1)).await.unwrap();
    let answer = |number, line: String| {
        let requests = vec![request("r1", Some(resolved(60)))];
        Batch { requests, grants: vec![grant(number, Some(id(1)), None)], ..lines([line]) }
    };
    let too_big = journal.write(id(1), answer(1, "x".repeat(1 << 20))).await;
    assert!(matches!(too_big, Err(Error::Full)), "{too_big:?}");
    let no_session = journal.write(id(2), answer(2, "{}".to_owned())).await;
    assert!(matches!(no_session, Err(Error::NoSuchSession(_))), "{no_session:?}");
    assert!(journal.grants(0).await.unwrap().is_empty());
    assert_eq!(journal.request(id(1), "r1").await.unwrap(), None);

    journal.write(id(1), answer(3, "{}".to_owned())).await.unwrap();
    assert_eq!(journal.grants(0).await.unwrap(), [grant(3, Some(id(1)), None)]);
    assert!(journal.request(id(1), "r1").await.unwrap().is_some());
    let grant_alone = Batch { grants: vec![grant(4, None, None)], ..Batch::default() };
    assert!(grant_alone.must_be_durable());
}

#[tokio::test]
async fn grants_apply_until_they_expire_or_are_revoked_or_the_session_is_deleted() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let grants = [grant(1, None, None), grant(2, Some(id(1)), Some(100)), grant(3, None, Some(50))];
    for grant in &grants {
        journal.add_grant(grant.clone()).await.unwrap();
    }
    assert_eq!(journal.grants(49).await.unwrap(), grants);
    assert_eq!(journal.grants(50).await.unwrap(), grants[..2]);
    journal.revoke_grant(grants[0].id, 60).await.unwrap();
    assert_eq!(journal.grants(60).await.unwrap(), grants[1..2]);
    journal.add_grant(grants[0].clone()).await.unwrap();
    assert_eq!(journal.grants(60).await.unwrap(), grants[1..2], "a revoked one stays revoked");
    journal.delete(id(1)).await.unwrap();
    assert!(journal.grants(60).await.unwrap().is_empty());
}

#[tokio::test]
async fn follower_state_survives_a_restart_with_the_latest_value_of_each_key() {
    let files = TestJournal::new();
    let change = |key: &str, value: Option<&str>| StateChange {
        key: key.to_owned(),
        value: value.map(|value| value.as_bytes().to_vec()),
    };
    let journal = files.open();
    journal.write_state("one", vec![change("a", Some("1")), change("b", Some("2"))]).await.unwrap();
    journal.write_state("two", vec![change("a", Some("other"))]).await.unwrap();
    journal.write_state("one", vec![change("a", Some("3")), change("b", None)]).await.unwrap();
    journal.close().await.unwrap();
    let journal = files.open();
    assert_eq!(journal.read_state("one").await.unwrap(), [("a".to_owned(), b"3".to_vec())]);
    assert_eq!(journal.read_state("two").await.unwrap(), [("a".to_owned(), b"other".to_vec())]);
    assert!(journal.read_state("three").await.unwrap().is_empty());
}

#[tokio::test]
async fn the_cost_of_a_day_survives_restarts_and_the_deletion_of_its_sessions() {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let files = TestJournal::new();
    let journal = files.open();
    let spend = |at, cost| Batch { at, cost, ..lines(["{}".to_owned()]) };
    for session in [1, 2] {
        journal.create(new_session(session)).await.unwrap();
        journal.write(id(session), spend(7 * DAY, 0.5)).await.unwrap();
        journal.write(id(session), spend(8 * DAY - 1, 0.25)).await.unwrap();
        journal.write(id(session), spend(8 * DAY, 4.0)).await.unwrap();
        journal.write(id(session), spend(8 * DAY, f64::NAN)).await.unwrap();
    }
    assert!(Batch { cost: 0.5, ..Batch::default() }.must_be_durable());
    journal.delete(id(2)).await.unwrap();
    journal.close().await.unwrap();
    let journal = files.open();
    for (day, cost) in [(6, 0.0), (7, 1.5), (8, 8.0), (u64::MAX, 0.0)] {
        let found = journal.cost_of_day(day).await.unwrap();
        assert!((found - cost).abs() < 1e-9, "{day}: {found}");
    }
}
