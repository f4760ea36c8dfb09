//! Live sessions and checkpoints over a real journal.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::{Batch, Entry, Journal, NewEntry, NewSession, Origin, Seq, SessionId};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;
use uuid::Uuid;
use view::{Fold, Revision};

use super::checkpoint::{CheckpointStore, Replay};
use super::checkpoint_task::{CheckpointTask, MAX_STREAMED_ENTRIES};
use super::{LiveDocument, LiveSessions, LiveState, Subscription, push};
use crate::api::{CACHE_MEMORY, FrameCache, prerender};
use crate::limits::LIVE_BYTES;

const SESSION: SessionId = SessionId(Uuid::from_u128(7));

/// A journal with one session, and a checkpoint task.
struct Fixture {
    directory: TempDir,
    journal: Journal,
    task: CheckpointTask,
    checkpoints: Arc<CheckpointStore>,
}

impl Fixture {
    async fn new() -> Self {
        Self::with_checkpoints(tempfile::tempdir().unwrap()).await
    }

    /// A new journal beside the checkpoints of another one.
    async fn with_checkpoints(directory: TempDir) -> Self {
        let file = directory.path().join(format!("{}.db", Uuid::new_v4()));
        let journal = Journal::open(&file).unwrap().journal;
        create(&journal, directory.path()).await;
        let checkpoints = Arc::new(CheckpointStore::new(directory.path().join("views")));
        checkpoints.scan().await;
        let task = CheckpointTask::new(journal.clone(), Arc::clone(&checkpoints), prerender);
        Self { directory, journal, task, checkpoints }
    }

    async fn write(&self, lines: impl IntoIterator<Item = Value>) -> Seq {
        write(&self.journal, lines).await
    }

    /// Updates the checkpoint, however little there is to fold.
    async fn catch_up(&self) {
        let record = self.journal.session(SESSION).await.unwrap().unwrap();
        self.task.catch_up(&record).await.unwrap();
    }

    fn checkpoint(&self) -> PathBuf {
        checkpoint_in(self.directory.path())
    }

    /// The document as a live session has it, and the last entry of its checkpoint.
    async fn read(&self) -> (Value, Option<u64>) {
        let replay = Replay::start(&self.journal, &self.checkpoints, SESSION).await.unwrap();
        let Replay { mut fold, rendered, position, mut entries, mut follower } = replay;
        loop {
            for entry in &entries {
                push(&mut fold, entry);
            }
            entries = follower.ready().await.unwrap();
            if entries.is_empty() {
                break;
            }
        }
        let document = document(&fold);
        let frame = |fold, rendered| {
            let cache = FrameCache::default();
            LiveDocument { fold, cache, rendered }.frame(None)
        };
        let fresh = frame(fold.clone(), None);
        assert_eq!(frame(fold, rendered), fresh, "rendered items of a checkpoint are the same");
        (document, position.map(|it| it.last_entry.seq))
    }

    /// The document folded from the whole journal.
    async fn folded(&self) -> Value {
        let entries = self.journal.read(SESSION, Seq(0), usize::MAX).await.unwrap();
        let mut fold = Fold::new();
        for entry in &entries {
            push(&mut fold, entry);
        }
        document(&fold)
    }
}

fn checkpoint_in(directory: &Path) -> PathBuf {
    directory.join(format!("views/{SESSION}.view"))
}

/// The document without the positions of items that are being written: they depend on entries that
/// compaction removes.
fn document(fold: &Fold) -> Value {
    let mut document = serde_json::to_value(fold.conversation(usize::MAX)).unwrap();
    for item in document["items"].as_array_mut().unwrap() {
        if item["open"] == true {
            item["position"].take();
        }
    }
    document
}

async fn create(journal: &Journal, directory: &Path) {
    let (directory, options) = (directory.to_owned(), "{}".to_owned());
    let new = NewSession { id: SESSION, directory, title: None, options, at: 1 };
    journal.create(new).await.unwrap();
}

async fn write(journal: &Journal, lines: impl IntoIterator<Item = Value>) -> Seq {
    write_to(journal, SESSION, lines).await
}

async fn write_to(
    journal: &Journal,
    session: SessionId,
    lines: impl IntoIterator<Item = Value>,
) -> Seq {
    let entry = |line: Value| {
        let bytes = Bytes::from(line.to_string());
        NewEntry { origin: Origin::Agent, bytes, transient: false }
    };
    let entries = lines.into_iter().map(entry).collect();
    journal.write(session, Batch { at: 1, entries, ..Batch::default() }).await.unwrap()
}

fn message(number: u64) -> Value {
    message_with(number, &format!("word {number}"))
}

fn message_with(number: u64, text: &str) -> Value {
    json!({ "type": "assistant", "session_id": "s", "uuid": Uuid::from_u128(number.into()), "parent_tool_use_id": null,
        "message": { "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "m",
            "content": [{ "type": "text", "text": text }], "usage": { "input_tokens": 1, "output_tokens": 1 } } })
}

async fn open(data: &Path) -> Journal {
    let journal = Journal::open(&data.join("journal.db")).unwrap().journal;
    create(&journal, data).await;
    journal
}

/// A message that is streamed in `parts`, and then comes whole.
fn streamed(number: u64, parts: usize) -> Vec<Value> {
    let event = |event: Value| json!({ "type": "stream_event", "event": event, "session_id": "s", "parent_tool_use_id": null });
    let id = format!("msg_{number}");
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let mut lines = vec![
        event(
            json!({ "type": "message_start", "message": { "id": id, "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage } }),
        ),
        event(
            json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        ),
    ];
    lines.extend((0..parts).map(|part| event(json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": format!("{part} ") } }))));
    let text = (0..parts).map(|part| part.to_string() + " ").collect::<Vec<_>>().concat();
    lines.push(json!({ "type": "assistant", "session_id": "s", "uuid": Uuid::from_u128(number.into()), "parent_tool_use_id": null,
        "message": { "id": id, "type": "message", "role": "assistant", "model": "m", "content": [{ "type": "text", "text": text }], "usage": usage } }));
    lines.push(event(json!({ "type": "content_block_stop", "index": 0 })));
    lines.push(event(
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }),
    ));
    lines.push(event(json!({ "type": "message_stop" })));
    lines
}

fn live_sessions(journal: &Journal, checkpoints: &Path) -> LiveSessions<FrameCache> {
    live_sessions_within(LIVE_BYTES, journal, checkpoints)
}

fn live_sessions_within(
    budget: usize,
    journal: &Journal,
    checkpoints: &Path,
) -> LiveSessions<FrameCache> {
    let checkpoints = checkpoints.to_owned();
    LiveSessions::new(journal.clone(), checkpoints, prerender, CACHE_MEMORY, budget)
}

#[tokio::test]
async fn a_session_that_no_client_opened_gets_a_checkpoint() {
    let mut fixture = Fixture::new().await;
    fixture.write((1..=400).map(message)).await;
    fixture.task.round().await.unwrap();
    assert!(!fixture.checkpoint().exists(), "a short session needs none");
    fixture.write((401..=1500).map(message)).await;
    fixture.task.round().await.unwrap();
    let (document, last) = fixture.read().await;
    assert_eq!((document, last), (fixture.folded().await, Some(1500)));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(fixture.checkpoint()).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "only this user can read it");
    }
}

#[tokio::test]
async fn a_checkpoint_that_is_behind_is_continued_and_brought_up_to_date() {
    let mut fixture = Fixture::new().await;
    fixture.write((1..=1500).map(message)).await;
    fixture.task.round().await.unwrap();
    fixture.write((1501..=1600).map(message)).await;
    fixture.task.round().await.unwrap();
    let (document, last) = fixture.read().await;
    assert_eq!((document, last), (fixture.folded().await, Some(1500)), "near enough");
    fixture.write((1601..=2100).map(message)).await;
    fixture.task.round().await.unwrap();
    let (document, last) = fixture.read().await;
    assert_eq!((document, last), (fixture.folded().await, Some(2100)));
}

#[tokio::test]
async fn a_checkpoint_that_a_crash_damaged_is_ignored_and_removed() {
    let mut fixture = Fixture::new().await;
    fixture.write((1..=1500).map(message)).await;
    fixture.task.round().await.unwrap();
    let whole = fs::read(fixture.checkpoint()).unwrap();
    let expected = fixture.folded().await;
    let half = whole[..whole.len() / 2].to_vec();
    let mut changed = whole.clone();
    *changed.iter_mut().rfind(|it| **it == b'1').unwrap() = b'2';
    let head = whole.iter().position(|it| *it == b'\n').unwrap();
    for damaged in [half, changed, whole[..head].to_vec(), Vec::new()] {
        fs::write(fixture.checkpoint(), damaged).unwrap();
        assert_eq!(fixture.read().await, (expected.clone(), None));
    }
    // Killed while saving: the unfinished file is removed at the next start, the complete one used.
    fs::write(fixture.checkpoint(), &whole).unwrap();
    let unfinished = fixture.checkpoint().with_extension("new");
    fs::write(&unfinished, &whole[..100]).unwrap();
    assert_eq!(fixture.read().await, (expected.clone(), Some(1500)));
    fixture.checkpoints.scan().await;
    assert!(!unfinished.exists() && fixture.checkpoint().exists());
    // A checkpoint of another build is not used.
    fs::write(
        fixture.checkpoint(),
        [b"towpath-0.0.0-view-1 1 1 1 1 1\n".as_slice(), &whole].concat(),
    )
    .unwrap();
    assert_eq!(fixture.read().await, (expected, None));
    fixture.checkpoints.scan().await;
    assert!(!fixture.checkpoint().exists());
}

#[tokio::test]
async fn the_checkpoint_of_a_deleted_session_is_removed() {
    let mut fixture = Fixture::new().await;
    fixture.write((1..=1500).map(message)).await;
    fixture.task.round().await.unwrap();
    assert!(fixture.checkpoint().exists());
    fixture.journal.delete(SESSION).await.unwrap();
    fixture.task.round().await.unwrap();
    assert!(!fixture.checkpoint().exists());
}

#[tokio::test]
async fn a_checkpoint_of_a_longer_journal_is_ignored_and_replaced() {
    let mut fixture = Fixture::new().await;
    fixture.write((1..=2000).map(message)).await;
    fixture.task.round().await.unwrap();
    // The machine went down, and the journal lost its end.
    let mut fixture = Fixture::with_checkpoints(fixture.directory).await;
    fixture.write((1..=1500).map(message)).await;
    let saved = fs::read(fixture.checkpoint()).unwrap();
    assert_eq!(fixture.read().await, (fixture.folded().await, None));
    fs::write(fixture.checkpoint(), &saved).unwrap();
    fixture.checkpoints.scan().await;
    fixture.task.round().await.unwrap();
    assert_eq!(fixture.read().await, (fixture.folded().await, Some(1500)));
    // The session continued with other entries than before.
    fs::write(fixture.checkpoint(), &saved).unwrap();
    fixture.write((9001..=9600).map(message)).await;
    assert_eq!(fixture.read().await, (fixture.folded().await, None));
}

#[tokio::test]
async fn a_continued_checkpoint_equals_the_folded_journal_wherever_it_was_saved_and_compacted() {
    let fixture = Fixture::new().await;
    let mut lines = vec![message(100)];
    lines.extend((1..=12).flat_map(|it| streamed(it, 40)));
    lines.extend((13..=20).map(message));
    lines.extend((21..=24).flat_map(|it| streamed(it, 25)));
    // The size of the chunks is unrelated to that of messages.
    for (number, chunk) in lines.chunks(37).enumerate() {
        let last = fixture.write(chunk.to_vec()).await;
        if number % 2 == 0 {
            fixture.catch_up().await;
        }
        if number % 3 == 0 {
            fixture.journal.compact(SESSION, last).await.unwrap();
        }
        let (document, checkpoint) = fixture.read().await;
        assert_eq!(document, fixture.folded().await, "after {last:?} from {checkpoint:?}");
        assert!(
            checkpoint.is_some(),
            "a checkpoint ends with an entry that survives compaction: {last:?}"
        );
    }
}

#[tokio::test]
async fn a_checkpoint_within_a_long_message_is_used_until_that_is_compacted() {
    let fixture = Fixture::new().await;
    let lines = streamed(1, MAX_STREAMED_ENTRIES + 500);
    let (begin, end) = lines.split_at(MAX_STREAMED_ENTRIES + 100);
    fixture.write([message(100)]).await;
    fixture.write(begin.to_vec()).await;
    fixture.catch_up().await;
    let (document, last) = fixture.read().await;
    assert_eq!(document, fixture.folded().await);
    assert!(last.is_some_and(|it| it > 1000), "{last:?}");
    let last = fixture.write(end.to_vec()).await;
    fixture.journal.compact(SESSION, last).await.unwrap();
    assert_eq!(fixture.read().await, (fixture.folded().await, None));
    fixture.catch_up().await;
    assert_eq!(fixture.read().await, (fixture.folded().await, Some(last.0 - 3)));
}

#[tokio::test]
async fn a_session_of_100_000_entries_has_a_small_snapshot_and_opens_from_its_checkpoint() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path()).await;
    for part in 0..100 {
        let numbers = part * 1000 + 1..=part * 1000 + 1000;
        write(
            &journal,
            numbers.map(|it| {
                message_with(it, &format!("Answer **{it}**, and what more there is to say."))
            }),
        )
        .await;
    }
    let views = data.path().join("views");
    let live = live_sessions(&journal, &views);
    let task = tokio::spawn(live.clone().run_checkpoints());
    let saved = views.join(format!("{SESSION}.view"));
    while !saved.exists() {
        sleep(Duration::from_millis(50)).await;
    }
    task.abort();
    let started = Instant::now();
    let mut subscription = live.subscribe(SESSION).unwrap();
    assert!(matches!(subscription.loaded().await, LiveState::Ready(_)));
    let (frame, revision) = subscription.with_document(|it| it.frame(None));
    println!("opened at {} after {:?}, {} bytes", revision.0, started.elapsed(), frame.len());
    assert_eq!(revision, Revision(100_000));
    assert!(frame.len() <= 200_000, "{}", frame.len());
    let parsed: Value = serde_json::from_str(&frame).unwrap();
    assert_eq!(parsed["more"], true);
    assert!(frame.contains("<strong>100000</strong>"));
}

#[tokio::test]
async fn clients_at_the_same_revision_share_a_frame_and_a_slow_one_gets_a_snapshot() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path()).await;
    write(&journal, (1..=3).map(|it| message_with(it, "alpha"))).await;
    let views = data.path().join("views");
    let live = live_sessions(&journal, &views);
    let (mut one, other) = (live.subscribe(SESSION).unwrap(), live.subscribe(SESSION).unwrap());
    let frame = |subscription: &Subscription<FrameCache>, since| {
        subscription.with_document(|it| it.frame(since))
    };
    assert!(matches!(one.loaded().await, LiveState::Ready(_)));
    let (snapshot, known) = frame(&one, None);
    assert_eq!(snapshot.as_bytes().as_ptr(), frame(&other, None).0.as_bytes().as_ptr(), "shared");
    write(&journal, [message_with(4, "omega")].into_iter()).await;
    assert_eq!(one.newer_than(known).await, LiveState::Ready(Revision(4)));
    let (update, now) = frame(&one, Some(known));
    assert_eq!(update.as_bytes().as_ptr(), frame(&other, Some(known)).0.as_bytes().as_ptr());
    let parsed: Value = serde_json::from_str(&update).unwrap();
    assert_eq!(
        (&parsed["frame"], &parsed["from"], now),
        (&json!("update"), &json!(3), Revision(4))
    );
    assert!(update.len() < snapshot.len() && update.contains("omega") && !update.contains("alpha"));
    // A client with an unknown or very old revision starts again.
    let (unknown, _) = frame(&one, Some(Revision(99)));
    assert!(unknown.starts_with("{\"frame\":\"snapshot\""));
    let long = "a long answer ".repeat(2000);
    write(&journal, (5..=40).map(|it| message_with(it, &long))).await;
    one.newer_than(now).await;
    let (old, _) = frame(&one, Some(known));
    assert!(old.starts_with("{\"frame\":\"snapshot\"") && old.len() <= 200_000, "{}", old.len());
}

/// Panics at a line that only these tests write.
pub(super) fn panic_if_asked(entry: &Entry) {
    assert!(entry.bytes != PANIC.as_bytes(), "a test asked for it");
}

const PANIC: &str = r#"{"type":"panic"}"#;

const OTHER: SessionId = SessionId(Uuid::from_u128(8));

async fn create_other(journal: &Journal, directory: &Path) {
    let (directory, options) = (directory.to_owned(), "{}".to_owned());
    let new = NewSession { id: OTHER, directory, title: None, options, at: 1 };
    journal.create(new).await.unwrap();
}

#[tokio::test]
async fn a_session_that_cannot_be_folded_fails_alone_and_its_clients_learn_it() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path()).await;
    create_other(&journal, data.path()).await;
    write(&journal, [message(1)].into_iter()).await;
    let live = live_sessions(&journal, &data.path().join("v"));
    let mut other = live.subscribe(OTHER).unwrap();
    let mut early = live.subscribe(SESSION).unwrap();
    assert_eq!(early.loaded().await, LiveState::Ready(Revision(1)));
    // It fails while a client follows it.
    write(&journal, [json!({ "type": "panic" })].into_iter()).await;
    let soon = Duration::from_secs(30);
    let state = tokio::time::timeout(soon, early.newer_than(Revision(1))).await;
    assert_eq!(state.expect("the client does not wait"), LiveState::Failed);
    // A new client is told too, and each of them tries again.
    for _ in 0..2 {
        let mut late = live.subscribe(SESSION).unwrap();
        let state = tokio::time::timeout(soon, late.loaded()).await;
        assert_eq!(state.expect("the client does not wait"), LiveState::Failed);
        assert!(!live.open().contains_key(&SESSION), "nothing of it is kept");
    }
    assert!(matches!(other.loaded().await, LiveState::Ready(_)));
}

#[tokio::test]
async fn a_document_that_cannot_be_shown_has_failed_for_all_its_clients() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path()).await;
    write(&journal, [message(1)].into_iter()).await;
    let live = live_sessions(&journal, &data.path().join("v"));
    let (mut one, mut other) = (live.subscribe(SESSION).unwrap(), live.subscribe(SESSION).unwrap());
    assert_eq!(one.loaded().await, LiveState::Ready(Revision(1)));
    let shown = tokio::spawn(async move {
        one.with_document(|_| panic!("a test asked for it"));
    });
    assert!(shown.await.unwrap_err().is_panic());
    assert_eq!(other.newer_than(Revision(1)).await, LiveState::Failed);
    write(&journal, [message(2)].into_iter()).await;
    let mut next = live.subscribe(SESSION).unwrap();
    assert_eq!(next.loaded().await, LiveState::Ready(Revision(2)));
    assert_eq!(other.state(), LiveState::Failed);
}

#[tokio::test]
async fn a_session_that_cannot_be_folded_keeps_no_other_from_its_checkpoint() {
    let mut fixture = Fixture::new().await;
    create_other(&fixture.journal, fixture.directory.path()).await;
    fixture.write((1..=1500).map(message)).await;
    let lines = (1..=1500).map(message).chain([json!({ "type": "panic" })]);
    write_to(&fixture.journal, OTHER, lines).await;
    fixture.task.round().await.expect("the task goes on");
    assert!(fixture.checkpoint().exists());
    assert_eq!(fixture.checkpoints.sessions(), [SESSION]);
}

#[tokio::test]
async fn clients_learn_that_a_session_is_deleted() {
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path()).await;
    write(&journal, [message_with(1, "alpha")].into_iter()).await;
    let views = data.path().join("views");
    let live = live_sessions(&journal, &views);
    let mut subscription = live.subscribe(SESSION).unwrap();
    assert!(matches!(subscription.loaded().await, LiveState::Ready(_)));
    journal.delete(SESSION).await.unwrap();
    assert_eq!(subscription.newer_than(Revision(1)).await, LiveState::Deleted);
    assert!(live.open().is_empty());
}

#[tokio::test]
async fn open_sessions_stay_within_one_budget_and_only_the_last_are_refused() {
    const BUDGET: usize = 6 << 20;
    const SESSIONS: u128 = 12;
    let data = tempfile::tempdir().unwrap();
    let journal = open(data.path()).await;
    let id = |number| SessionId(Uuid::from_u128(100 + number));
    let text = "All work and no play. ".repeat(2_000);
    for number in 0..SESSIONS {
        let (directory, options) = (data.path().to_owned(), "{}".to_owned());
        let new = NewSession { id: id(number), directory, title: None, options, at: 1 };
        journal.create(new).await.unwrap();
        let lines = (1..=40).map(|it| message_with(it, &text));
        write_to(&journal, id(number), lines).await;
    }
    let live = live_sessions_within(BUDGET, &journal, &data.path().join("views"));
    let load = async |number| {
        let mut subscription = live.subscribe(id(number)).ok()?;
        assert!(matches!(subscription.loaded().await, LiveState::Ready(_)));
        subscription.with_document(|it| it.frame(None));
        Some(subscription)
    };
    // A session that no client has open any more makes room at once.
    for number in 0..SESSIONS {
        assert!(load(number).await.is_some(), "{number}");
        assert!(live.used() <= BUDGET, "{number}: {}", live.used());
    }
    // Open ones lose what can be read again. In the end, there is no more to drop.
    let mut subscriptions = Vec::new();
    let mut refused = 0;
    for number in 0..SESSIONS {
        match load(number).await {
            Some(subscription) => subscriptions.push((number, subscription)),
            None => refused += 1,
        }
        // One that is admitted may go above the budget before the others are shrunk.
        assert!(live.used() <= BUDGET + (2 << 20), "{number}: {}", live.used());
    }
    assert!(subscriptions.len() >= 6, "only {} of {SESSIONS}", subscriptions.len());
    assert!(refused > 0, "all of them fit into {BUDGET}: {}", live.used());
    // Those that are open go on, and see new lines whole.
    for (number, subscription) in &mut subscriptions {
        let known = subscription.with_document(|it| it.frame(None)).1;
        write_to(&journal, id(*number), [message_with(900, "omega")]).await;
        assert!(matches!(subscription.newer_than(known).await, LiveState::Ready(_)));
        let (update, _) = subscription.with_document(|it| it.frame(Some(known)));
        assert!(update.contains("omega"), "{update}");
    }
    // Closing some lets others in.
    subscriptions.truncate(2);
    assert!(load(SESSIONS - 1).await.is_some());
}
