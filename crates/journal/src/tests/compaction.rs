//! Compaction of what the real CLI printed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use wire::note::{Note, TurnEnding};

use super::{TestJournal, all, id, lines, new_session, numbers};
use crate::delta_filter::DeltaFilter;
use crate::{Batch, Entry, Journal, NewEntry, Origin, Seq};

/// The lines of every capture that streams.
fn captures() -> &'static [Vec<Bytes>] {
    static CAPTURES: LazyLock<Vec<Vec<Bytes>>> = LazyLock::new(read_captures);
    &CAPTURES
}

fn read_captures() -> Vec<Vec<Bytes>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut captures = Vec::new();
    for version in fs::read_dir(root).unwrap().map(|it| it.unwrap().path()) {
        let Ok(files) = fs::read_dir(version.join("stdout")) else { continue };
        for file in files {
            let text = fs::read(file.unwrap().path()).unwrap();
            let lines: Vec<Bytes> = text
                .split(|byte| *byte == b'\n')
                .filter(|line| !line.is_empty())
                .map(Bytes::copy_from_slice)
                .collect();
            if lines.iter().any(|line| is_delta(line)) {
                captures.push(lines);
            }
        }
    }
    assert!(captures.len() > 20, "the captures are there");
    captures.sort();
    captures
}

/// Whether a line is a delta of a block, decided by another parser than the one under test.
fn is_delta(line: &[u8]) -> bool {
    let Ok(line) = serde_json::from_slice::<Value>(line) else { return false };
    line["type"] == "stream_event"
        && line["event"]["type"].as_str().is_some_and(|it| it.starts_with("content_block_"))
}

fn entries(lines: &[Bytes]) -> Vec<Entry> {
    (1..)
        .zip(lines)
        .map(|(seq, bytes)| Entry {
            seq: Seq(seq),
            at: 7,
            origin: Origin::Agent,
            bytes: bytes.clone(),
            continues: false,
            omitted: 0,
        })
        .collect()
}

/// The entries removed from a stream that is compacted at several points, and how far it is compacted.
fn redundant(entries: &[Entry], stops: &[usize]) -> (Vec<Seq>, Seq) {
    let (mut removed, mut compacted) = (Vec::new(), Seq(0));
    for stop in stops.iter().copied().chain([entries.len()]) {
        let mut filter = DeltaFilter::default();
        for entry in entries[..stop].iter().filter(|entry| entry.seq > compacted) {
            filter.observe(entry);
        }
        compacted = filter.boundary().unwrap_or(compacted);
        removed.extend(filter.redundant());
    }
    (removed, compacted)
}

#[test]
fn deltas_of_complete_messages_are_removed_and_nothing_else() {
    for capture in captures() {
        let entries = entries(capture);
        let (removed, compacted) = redundant(&entries, &[]);
        assert_eq!(compacted, Seq(capture.len() as u64), "no capture ends in a message");
        let deltas: Vec<Seq> =
            entries.iter().filter(|it| is_delta(&it.bytes)).map(|it| it.seq).collect();
        assert_eq!(removed, deltas);
    }
}

#[test]
fn removed_text_is_in_a_line_that_stays() {
    for capture in captures() {
        let (removed, _) = redundant(&entries(capture), &[]);
        let mut dropped = String::new();
        let mut kept = HashMap::new();
        for (seq, line) in (1..).zip(capture) {
            let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
            if removed.contains(&Seq(seq)) {
                dropped.push_str(line["event"]["delta"]["text"].as_str().unwrap_or_default());
            } else if line["type"] == "assistant" {
                let text = line["message"]["content"][0]["text"].as_str().unwrap_or_default();
                kept.insert(seq, text.to_owned());
            }
        }
        let mut left = dropped.as_str();
        let mut kept: Vec<_> = kept.into_iter().collect();
        kept.sort_unstable();
        for (_, text) in kept {
            left = left.strip_prefix(&*text).unwrap_or(left);
        }
        assert_eq!(left, "");
    }
}

proptest! {
    #[test]
    fn compaction_in_steps_removes_the_same_as_at_once(
        capture in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        stops in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let captures = captures();
        let capture = capture.get(captures);
        // Cut anywhere, as if the agent had died.
        let entries = entries(&capture[..=cut.index(capture.len())]);
        let mut stops: Vec<usize> = stops.iter().map(|stop| stop.index(entries.len())).collect();
        stops.sort_unstable();
        prop_assert_eq!(redundant(&entries, &stops), redundant(&entries, &[]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn after_compaction_everything_but_redundant_deltas_is_read_back(
        capture in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        stops in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        maintain in any::<bool>(),
    ) {
        let captures = captures();
        let capture = capture.get(captures);
        let capture = &capture[..=cut.index(capture.len())];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let files = TestJournal::new();
            let journal = files.open();
            journal.create(new_session(1)).await.unwrap();
            journal.write(id(1), lines(capture.to_vec())).await.unwrap();
            let mut wanted = all(&journal, id(1)).await;
            let (redundant, compacted) = redundant(&wanted, &[]);
            wanted.retain(|entry| !redundant.contains(&entry.seq));

            let mut stops: Vec<usize> = stops.iter().map(|stop| stop.index(capture.len())).collect();
            stops.sort_unstable();
            let (mut compressed, mut removed) = (0, 0);
            for stop in stops.into_iter().chain([capture.len()]) {
                let done = journal.compact(id(1), Seq(stop as u64)).await.unwrap();
                compressed += done.compressed;
                removed += done.removed;
                if maintain {
                    journal.finish_maintenance().await.unwrap();
                }
            }
            assert_eq!(removed, redundant.len() as u64);
            assert_eq!(compressed, compacted.0 - removed);
            assert_eq!(all(&journal, id(1)).await, wanted);
            for entry in wanted.iter().step_by(7) {
                let read = journal.read(id(1), Seq(entry.seq.0 - 1), 1).await.unwrap();
                assert_eq!(read, std::slice::from_ref(entry));
            }
            let again = journal.compact(id(1), Seq(capture.len() as u64)).await.unwrap();
            assert_eq!((again.compressed, again.removed), (0, 0));
            journal.close().await.unwrap();
            let journal = files.open();
            journal.finish_maintenance().await.unwrap();
            assert_eq!(all(&journal, id(1)).await, wanted);
            let next = journal.write(id(1), lines(["more"])).await.unwrap();
            assert_eq!(next, Seq(capture.len() as u64 + 1), "numbers are never reused");
        });
    }
}

#[tokio::test]
async fn deltas_of_an_incomplete_message_stay_after_the_turn() {
    let captures = captures();
    let capture = captures.iter().find(|lines| lines.iter().filter(|it| is_delta(it)).count() > 9);
    let capture = capture.unwrap();
    let first = capture.iter().position(|line| is_delta(line)).unwrap();
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    journal.write(id(1), lines(capture[..=first + 1].to_vec())).await.unwrap();
    let last = Seq(first as u64 + 2);
    let done = journal.compact(id(1), last).await.unwrap();
    assert!(done.upto < last, "the message is still being written");

    let over = Note::TurnEnded { turn: 1, ending: TurnEnding::Interrupted }.to_line().into();
    let over = NewEntry { origin: Origin::Towpath, bytes: over, transient: false };
    let last =
        journal.write(id(1), Batch { entries: vec![over], ..Batch::default() }).await.unwrap();
    let done = journal.compact(id(1), last).await.unwrap();
    assert_eq!((done.upto, done.removed), (last, 0));
    assert_eq!(all(&journal, id(1)).await.len() as u64, last.0);
}

#[tokio::test]
async fn long_sessions_get_several_segments_and_large_lines_their_own() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let line = |n: u64| format!("{n} {}", "abc ".repeat(if n % 400 == 7 { 200_000 } else { 300 }));
    for turn in 0..30 {
        let batch = lines((turn * 50..turn * 50 + 50).map(line));
        let last = journal.write(id(1), batch).await.unwrap();
        journal.compact(id(1), last).await.unwrap();
    }
    journal.finish_maintenance().await.unwrap();
    let health = journal.check().await.unwrap();
    assert_eq!((health.uncompacted, health.faults.len()), (0, 0));
    assert!((6..40).contains(&health.segments), "{health:?}");
    let entries = all(&journal, id(1)).await;
    assert_eq!(numbers(&entries), (1..=1500).collect::<Vec<_>>());
    assert!((0..).zip(&entries).all(|(n, entry)| entry.bytes == line(n)));
}

#[tokio::test]
async fn two_concurrent_compactions_lose_nothing() {
    let files = TestJournal::new();
    let (one, other): (Journal, Journal) = (files.open(), files.open());
    one.create(new_session(1)).await.unwrap();
    let line = |n: u64| format!("{n} {}", "abc ".repeat(300));
    let last = one.write(id(1), lines((1..=900).map(line))).await.unwrap();
    let (first, second) = tokio::join!(one.compact(id(1), last), other.compact(id(1), last));
    first.unwrap();
    second.unwrap();
    one.compact(id(1), last).await.unwrap();
    one.finish_maintenance().await.unwrap();
    other.finish_maintenance().await.unwrap();
    assert_eq!(numbers(&all(&one, id(1)).await), (1..=900).collect::<Vec<_>>());
    assert_eq!(one.check().await.unwrap().uncompacted, 0);
}

#[tokio::test]
async fn captures_take_a_third_of_their_size_after_compaction() {
    let files = TestJournal::new();
    let journal = files.open();
    let empty = journal.check().await.unwrap().bytes;
    let mut stream = 0;
    for (number, capture) in (1..).zip(captures()) {
        journal.create(new_session(number)).await.unwrap();
        let last = journal.write(id(number), lines(capture.clone())).await.unwrap();
        journal.compact(id(number), last).await.unwrap();
        stream += capture.iter().map(|line| line.len() as u64 + 1).sum::<u64>();
    }
    journal.finish_maintenance().await.unwrap();
    let stored = journal.check().await.unwrap().bytes;
    // The captures are short, so the size of an empty file would be a fifth of all.
    let stored = stored - empty;
    assert!(stored * 3 <= stream, "{stored} of {stream}");
}
