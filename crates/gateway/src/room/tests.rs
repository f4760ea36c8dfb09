//! Rooms over a real journal.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::{Batch, Journal, NewEntry, NewSession, Origin, SessionId};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;
use view::Revision;

use super::{News, Rooms};

const SESSION: SessionId = SessionId(Uuid::from_u128(7));

async fn journal(data: &Path) -> Journal {
    let journal = Journal::open(&data.join("journal.db")).unwrap().journal;
    let new = NewSession {
        id: SESSION,
        directory: data.to_owned(),
        title: None,
        options: "{}".to_owned(),
        at: 1,
    };
    journal.create(new).await.unwrap();
    journal
}

async fn write(journal: &Journal, lines: impl Iterator<Item = Value>) {
    let entry = |line: Value| {
        let bytes = Bytes::from(line.to_string());
        NewEntry { origin: Origin::Agent, bytes, transient: false }
    };
    let entries = lines.map(entry).collect();
    journal.write(SESSION, Batch { at: 1, entries, ..Batch::default() }).await.unwrap();
}

fn said(number: u64, text: &str) -> Value {
    json!({ "type": "assistant", "session_id": "s", "uuid": Uuid::from_u128(number.into()), "parent_tool_use_id": null,
        "message": { "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "m",
            "content": [{ "type": "text", "text": text }], "usage": { "input_tokens": 1, "output_tokens": 1 } } })
}

#[tokio::test]
async fn a_hundred_thousand_events_are_a_small_snapshot_and_a_saved_view_opens_fast() {
    let data = tempfile::tempdir().unwrap();
    let journal = journal(data.path()).await;
    for part in 0..100 {
        let numbers = part * 1000 + 1..=part * 1000 + 1000;
        write(
            &journal,
            numbers.map(|it| said(it, &format!("Answer **{it}**, and what more there is to say."))),
        )
        .await;
    }
    let views = data.path().join("views");
    let rooms = Rooms::new(journal.clone(), views.clone());
    let keeper = tokio::spawn(rooms.clone().keep_views());
    let saved = views.join(format!("{SESSION}.view"));
    while !saved.exists() {
        sleep(Duration::from_millis(50)).await;
    }
    keeper.abort();
    let began = Instant::now();
    let mut seat = rooms.enter(SESSION);
    assert!(seat.ready().await);
    let (frame, revision) = seat.frame(None);
    println!("attached to {} after {:?}, {} bytes", revision.0, began.elapsed(), frame.len());
    assert_eq!(revision, Revision(100_000));
    assert!(frame.len() <= 200_000, "{}", frame.len());
    let shown: Value = serde_json::from_str(&frame).unwrap();
    assert_eq!(shown["more"], true);
    assert!(frame.contains("<strong>100000</strong>"));
}

#[tokio::test]
async fn equal_followers_share_a_frame_and_a_laggard_gets_a_snapshot() {
    let data = tempfile::tempdir().unwrap();
    let journal = journal(data.path()).await;
    write(&journal, (1..=3).map(|it| said(it, "alpha"))).await;
    let rooms = Rooms::new(journal.clone(), data.path().join("views"));
    let (mut one, other) = (rooms.enter(SESSION), rooms.enter(SESSION));
    assert!(one.ready().await);
    let (snapshot, have) = one.frame(None);
    assert_eq!(snapshot.as_bytes().as_ptr(), other.frame(None).0.as_bytes().as_ptr(), "made once");
    write(&journal, [said(4, "omega")].into_iter()).await;
    assert_eq!(one.beyond(have).await, News::At(Revision(4)));
    let (update, now) = one.frame(Some(have));
    assert_eq!(update.as_bytes().as_ptr(), other.frame(Some(have)).0.as_bytes().as_ptr());
    let shown: Value = serde_json::from_str(&update).unwrap();
    assert_eq!((&shown["frame"], &shown["from"], now), (&json!("update"), &json!(3), Revision(4)));
    assert!(update.len() < snapshot.len() && update.contains("omega") && !update.contains("alpha"));
    // Whoever claims to have what never was, or what is long gone, begins anew.
    let (frame, _) = one.frame(Some(Revision(99)));
    assert!(frame.starts_with("{\"frame\":\"snapshot\""));
    let long = "a long answer ".repeat(2000);
    write(&journal, (5..=40).map(|it| said(it, &long))).await;
    one.beyond(now).await;
    let (frame, _) = one.frame(Some(have));
    assert!(
        frame.starts_with("{\"frame\":\"snapshot\"") && frame.len() <= 200_000,
        "{}",
        frame.len()
    );
}

#[tokio::test]
async fn a_session_that_is_deleted_is_told() {
    let data = tempfile::tempdir().unwrap();
    let journal = journal(data.path()).await;
    write(&journal, [said(1, "alpha")].into_iter()).await;
    let rooms = Rooms::new(journal.clone(), data.path().join("views"));
    let mut seat = rooms.enter(SESSION);
    assert!(seat.ready().await);
    journal.delete(SESSION).await.unwrap();
    assert_eq!(seat.beyond(Revision(1)).await, News::Gone);
    assert!(rooms.open().is_empty());
}
