//! Views over a real journal, and what may be wrong with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use journal::{Batch, Journal, NewEntry, NewSession, Origin, Seq, SessionId};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;
use view::Fold;

use super::{Keeper, PATIENCE};
use crate::room::checkpoint::Checkpoints;
use crate::room::reading::Reading;
use crate::room::stage::{Shown, Stage, push};

const SESSION: SessionId = SessionId(Uuid::from_u128(7));

/// A journal with one session, and a keeper.
struct House {
    place: TempDir,
    journal: Journal,
    keeper: Keeper,
}

impl House {
    async fn new() -> Self {
        Self::with_views(tempfile::tempdir().unwrap()).await
    }

    /// A new journal beside the views that another left.
    async fn with_views(place: TempDir) -> Self {
        let file = place.path().join(format!("{}.db", Uuid::new_v4()));
        let journal = Journal::open(&file).unwrap().journal;
        let (directory, options) = (place.path().to_owned(), "{}".to_owned());
        let new = NewSession { id: SESSION, directory, title: None, options, at: 1 };
        journal.create(new).await.unwrap();
        let checkpoints = Arc::new(Checkpoints::new(place.path().join("views")));
        checkpoints.look().await;
        let keeper = Keeper::new(journal.clone(), checkpoints);
        Self { place, journal, keeper }
    }

    async fn write(&self, lines: impl IntoIterator<Item = Value>) -> Seq {
        let entry = |line: Value| {
            let bytes = Bytes::from(line.to_string());
            NewEntry { origin: Origin::Agent, bytes, transient: false }
        };
        let entries = lines.into_iter().map(entry).collect();
        self.journal.write(SESSION, Batch { at: 1, entries, ..Batch::default() }).await.unwrap()
    }

    /// Catches up, however little there is.
    async fn catch_up(&self) {
        let record = self.journal.session(SESSION).await.unwrap().unwrap();
        self.keeper.catch_up(&record).await.unwrap();
    }

    fn view(&self) -> PathBuf {
        view_in(self.place.path())
    }

    /// The document as a room would have it, and the entry its view ended with.
    async fn read(&self) -> (Value, Option<u64>) {
        let checkpoints = &self.keeper.checkpoints;
        let reading = Reading::begin(&self.journal, checkpoints, SESSION).await.unwrap();
        let Reading { mut fold, shown, upto, mut entries, mut follower } = reading;
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
        let anew = Stage::new(fold.clone(), Shown::default()).frame(None);
        assert_eq!(Stage::new(fold, shown).frame(None), anew, "what was made before is shown");
        (document, upto.map(|it| it.anchor.seq))
    }

    /// The document as the journal alone has it.
    async fn folded_anew(&self) -> Value {
        let entries = self.journal.read(SESSION, Seq(0), usize::MAX).await.unwrap();
        let mut fold = Fold::new();
        for entry in &entries {
            push(&mut fold, entry);
        }
        document(&fold)
    }
}

fn view_in(place: &Path) -> PathBuf {
    place.join(format!("views/{SESSION}.view"))
}

/// The document, less the places of what is being written: they order it among its like, and count
/// what was settled meanwhile where that was still there.
fn document(fold: &Fold) -> Value {
    let mut document = serde_json::to_value(fold.conversation(usize::MAX)).unwrap();
    for item in document["items"].as_array_mut().unwrap() {
        if item["open"] == true {
            item["place"].take();
        }
    }
    document
}

fn said(number: u64) -> Value {
    json!({ "type": "assistant", "session_id": "s", "uuid": Uuid::from_u128(number.into()), "parent_tool_use_id": null,
        "message": { "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "m",
            "content": [{ "type": "text", "text": format!("word {number}") }], "usage": { "input_tokens": 1, "output_tokens": 1 } } })
}

/// A message that is streamed in so many pieces, and then comes whole.
fn streamed(number: u64, pieces: usize) -> Vec<Value> {
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
    lines.extend((0..pieces).map(|piece| event(json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": format!("{piece} ") } }))));
    let text = (0..pieces).map(|piece| piece.to_string() + " ").collect::<Vec<_>>().concat();
    lines.push(json!({ "type": "assistant", "session_id": "s", "uuid": Uuid::from_u128(number.into()), "parent_tool_use_id": null,
        "message": { "id": id, "type": "message", "role": "assistant", "model": "m", "content": [{ "type": "text", "text": text }], "usage": usage } }));
    lines.push(event(json!({ "type": "content_block_stop", "index": 0 })));
    lines.push(event(
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": usage }),
    ));
    lines.push(event(json!({ "type": "message_stop" })));
    lines
}

#[tokio::test]
async fn a_session_that_nobody_followed_gets_its_view() {
    let mut house = House::new().await;
    house.write((1..=400).map(said)).await;
    house.keeper.round().await.unwrap();
    assert!(!house.view().exists(), "a short session needs none");
    house.write((401..=1500).map(said)).await;
    house.keeper.round().await.unwrap();
    let (document, view) = house.read().await;
    assert_eq!((document, view), (house.folded_anew().await, Some(1500)));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(house.view()).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "nobody else reads it");
    }
}

#[tokio::test]
async fn a_view_that_is_behind_is_folded_on_and_brought_up_to_date() {
    let mut house = House::new().await;
    house.write((1..=1500).map(said)).await;
    house.keeper.round().await.unwrap();
    house.write((1501..=1600).map(said)).await;
    house.keeper.round().await.unwrap();
    let (document, view) = house.read().await;
    assert_eq!((document, view), (house.folded_anew().await, Some(1500)), "near enough");
    house.write((1601..=2100).map(said)).await;
    house.keeper.round().await.unwrap();
    let (document, view) = house.read().await;
    assert_eq!((document, view), (house.folded_anew().await, Some(2100)));
}

#[tokio::test]
async fn what_a_crash_left_of_a_view_is_ignored_and_removed() {
    let mut house = House::new().await;
    house.write((1..=1500).map(said)).await;
    house.keeper.round().await.unwrap();
    let whole = fs::read(house.view()).unwrap();
    let expected = house.folded_anew().await;
    let half = whole[..whole.len() / 2].to_vec();
    let mut changed = whole.clone();
    *changed.iter_mut().rfind(|it| **it == b'1').unwrap() = b'2';
    let head = whole.iter().position(|it| *it == b'\n').unwrap();
    for damaged in [half, changed, whole[..head].to_vec(), Vec::new()] {
        fs::write(house.view(), damaged).unwrap();
        assert_eq!(house.read().await, (expected.clone(), None));
    }
    // Killed while it saved: the unfinished file goes at the next start, the complete one counts.
    fs::write(house.view(), &whole).unwrap();
    let unfinished = house.view().with_extension("new");
    fs::write(&unfinished, &whole[..100]).unwrap();
    assert_eq!(house.read().await, (expected.clone(), Some(1500)));
    house.keeper.checkpoints.look().await;
    assert!(!unfinished.exists() && house.view().exists());
    // One of another version is of no use to this one.
    fs::write(house.view(), [b"towpath-0.0.0-view-1 1 1 1 1 1\n".as_slice(), &whole].concat())
        .unwrap();
    assert_eq!(house.read().await, (expected, None));
    house.keeper.checkpoints.look().await;
    assert!(!house.view().exists());
}

#[tokio::test]
async fn the_view_of_a_session_that_is_deleted_goes() {
    let mut house = House::new().await;
    house.write((1..=1500).map(said)).await;
    house.keeper.round().await.unwrap();
    assert!(house.view().exists());
    house.journal.delete(SESSION).await.unwrap();
    house.keeper.round().await.unwrap();
    assert!(!house.view().exists());
}

#[tokio::test]
async fn a_view_of_more_than_the_journal_has_is_ignored_and_made_anew() {
    let mut house = House::new().await;
    house.write((1..=2000).map(said)).await;
    house.keeper.round().await.unwrap();
    // The machine went down, and the end of the journal with it.
    let mut house = House::with_views(house.place).await;
    house.write((1..=1500).map(said)).await;
    let saved = fs::read(house.view()).unwrap();
    assert_eq!(house.read().await, (house.folded_anew().await, None));
    fs::write(house.view(), &saved).unwrap();
    house.keeper.checkpoints.look().await;
    house.keeper.round().await.unwrap();
    assert_eq!(house.read().await, (house.folded_anew().await, Some(1500)));
    // It went on with something else than before.
    fs::write(house.view(), &saved).unwrap();
    house.write((9001..=9600).map(said)).await;
    assert_eq!(house.read().await, (house.folded_anew().await, None));
}

#[tokio::test]
async fn folding_on_from_a_view_shows_what_the_journal_says_wherever_it_was_saved_and_settled() {
    let house = House::new().await;
    let mut lines = vec![said(100)];
    lines.extend((1..=12).flat_map(|it| streamed(it, 40)));
    lines.extend((13..=20).map(said));
    lines.extend((21..=24).flat_map(|it| streamed(it, 25)));
    // Portions of a size that has nothing to do with that of messages.
    for (number, portion) in lines.chunks(37).enumerate() {
        let last = house.write(portion.to_vec()).await;
        if number % 2 == 0 {
            house.catch_up().await;
        }
        if number % 3 == 0 {
            house.journal.settle(SESSION, last).await.unwrap();
        }
        let (document, view) = house.read().await;
        assert_eq!(document, house.folded_anew().await, "after {last:?} from {view:?}");
        assert!(view.is_some(), "a view ends with what settling keeps: {last:?}");
    }
}

#[tokio::test]
async fn a_view_that_ends_within_a_long_text_counts_until_that_is_settled() {
    let house = House::new().await;
    let lines = streamed(1, PATIENCE + 500);
    let (begin, end) = lines.split_at(PATIENCE + 100);
    house.write([said(100)]).await;
    house.write(begin.to_vec()).await;
    house.catch_up().await;
    let (document, view) = house.read().await;
    assert_eq!(document, house.folded_anew().await);
    assert!(view.is_some_and(|it| it > 1000), "{view:?}");
    let last = house.write(end.to_vec()).await;
    house.journal.settle(SESSION, last).await.unwrap();
    assert_eq!(house.read().await, (house.folded_anew().await, None));
    house.catch_up().await;
    assert_eq!(house.read().await, (house.folded_anew().await, Some(last.0 - 3)));
}
