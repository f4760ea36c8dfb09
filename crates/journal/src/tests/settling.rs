//! Settling, on what the real CLI printed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use wire::note::{Note, TurnEnding};

use super::{Place, all, id, lines, new_session, numbers};
use crate::draft::Drafts;
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
            if lines.iter().any(|line| is_piece(line)) {
                captures.push(lines);
            }
        }
    }
    assert!(captures.len() > 20, "the captures are there");
    captures.sort();
    captures
}

/// Whether a line is a piece of a block, told by another reader than the one under test.
fn is_piece(line: &[u8]) -> bool {
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
        })
        .collect()
}

/// What goes of a stream that is settled at several points, and how far it is settled.
fn superfluous(entries: &[Entry], stops: &[usize]) -> (Vec<Seq>, Seq) {
    let (mut gone, mut settled) = (Vec::new(), Seq(0));
    for stop in stops.iter().copied().chain([entries.len()]) {
        let mut drafts = Drafts::default();
        for entry in entries[..stop].iter().filter(|entry| entry.seq > settled) {
            drafts.look_at(entry);
        }
        settled = drafts.calm().unwrap_or(settled);
        gone.extend(drafts.superfluous());
    }
    (gone, settled)
}

#[test]
fn of_finished_messages_no_piece_stays_and_all_else_does() {
    for capture in captures() {
        let entries = entries(capture);
        let (gone, settled) = superfluous(&entries, &[]);
        assert_eq!(settled, Seq(capture.len() as u64), "every capture ends calm");
        let pieces: Vec<Seq> =
            entries.iter().filter(|it| is_piece(&it.bytes)).map(|it| it.seq).collect();
        assert_eq!(gone, pieces);
    }
}

#[test]
fn the_words_that_go_are_in_a_line_that_stays() {
    for capture in captures() {
        let (gone, _) = superfluous(&entries(capture), &[]);
        let mut dropped = String::new();
        let mut kept = HashMap::new();
        for (seq, line) in (1..).zip(capture) {
            let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
            if gone.contains(&Seq(seq)) {
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
    fn settling_in_parts_drops_what_settling_at_once_does(
        capture in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        stops in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let captures = captures();
        let capture = capture.get(captures);
        // Cut anywhere, as by a dead agent.
        let entries = entries(&capture[..=cut.index(capture.len())]);
        let mut stops: Vec<usize> = stops.iter().map(|stop| stop.index(entries.len())).collect();
        stops.sort_unstable();
        prop_assert_eq!(superfluous(&entries, &stops), superfluous(&entries, &[]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn what_is_read_after_settling_is_what_was_written_less_finished_pieces(
        capture in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        stops in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
        tidy in any::<bool>(),
    ) {
        let captures = captures();
        let capture = capture.get(captures);
        let capture = &capture[..=cut.index(capture.len())];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let place = Place::new();
            let journal = place.open();
            journal.create(new_session(1)).await.unwrap();
            journal.write(id(1), lines(capture.to_vec())).await.unwrap();
            let mut wanted = all(&journal, id(1)).await;
            let (gone, settled) = superfluous(&wanted, &[]);
            wanted.retain(|entry| !gone.contains(&entry.seq));

            let mut stops: Vec<usize> = stops.iter().map(|stop| stop.index(capture.len())).collect();
            stops.sort_unstable();
            let (mut packed, mut dropped) = (0, 0);
            for stop in stops.into_iter().chain([capture.len()]) {
                let done = journal.settle(id(1), Seq(stop as u64)).await.unwrap();
                packed += done.packed;
                dropped += done.dropped;
                if tidy {
                    journal.tidy().await.unwrap();
                }
            }
            assert_eq!(dropped, gone.len() as u64);
            assert_eq!(packed, settled.0 - dropped);
            assert_eq!(all(&journal, id(1)).await, wanted);
            for entry in wanted.iter().step_by(7) {
                let read = journal.read(id(1), Seq(entry.seq.0 - 1), 1).await.unwrap();
                assert_eq!(read, std::slice::from_ref(entry));
            }
            let again = journal.settle(id(1), Seq(capture.len() as u64)).await.unwrap();
            assert_eq!((again.packed, again.dropped), (0, 0));
            journal.close().await.unwrap();
            let journal = place.open();
            journal.tidy().await.unwrap();
            assert_eq!(all(&journal, id(1)).await, wanted);
            let next = journal.write(id(1), lines(["more"])).await.unwrap();
            assert_eq!(next, Seq(capture.len() as u64 + 1), "numbers are never used again");
        });
    }
}

#[tokio::test]
async fn pieces_of_a_message_that_was_cut_stay_once_the_turn_is_over() {
    let captures = captures();
    let capture = captures.iter().find(|lines| lines.iter().filter(|it| is_piece(it)).count() > 9);
    let capture = capture.unwrap();
    let first = capture.iter().position(|line| is_piece(line)).unwrap();
    let place = Place::new();
    let journal = place.open();
    journal.create(new_session(1)).await.unwrap();
    journal.write(id(1), lines(capture[..=first + 1].to_vec())).await.unwrap();
    let last = Seq(first as u64 + 2);
    let done = journal.settle(id(1), last).await.unwrap();
    assert!(done.upto < last, "the message is still being written");

    let over = Note::TurnOver { turn: 1, ending: TurnEnding::Interrupted }.to_line().into();
    let over = NewEntry { origin: Origin::Towpath, bytes: over, transient: false };
    let last =
        journal.write(id(1), Batch { entries: vec![over], ..Batch::default() }).await.unwrap();
    let done = journal.settle(id(1), last).await.unwrap();
    assert_eq!((done.upto, done.dropped), (last, 0));
    assert_eq!(all(&journal, id(1)).await.len() as u64, last.0);
}

#[tokio::test]
async fn long_sessions_are_packed_into_several_pages_and_large_lines_alone() {
    let place = Place::new();
    let journal = place.open();
    journal.create(new_session(1)).await.unwrap();
    let line = |n: u64| format!("{n} {}", "abc ".repeat(if n % 400 == 7 { 200_000 } else { 300 }));
    for turn in 0..30 {
        let batch = lines((turn * 50..turn * 50 + 50).map(line));
        let last = journal.write(id(1), batch).await.unwrap();
        journal.settle(id(1), last).await.unwrap();
    }
    journal.tidy().await.unwrap();
    let health = journal.check().await.unwrap();
    assert_eq!((health.unsettled, health.faults.len()), (0, 0));
    assert!((6..40).contains(&health.pages), "{health:?}");
    let entries = all(&journal, id(1)).await;
    assert_eq!(numbers(&entries), (1..=1500).collect::<Vec<_>>());
    assert!((0..).zip(&entries).all(|(n, entry)| entry.bytes == line(n)));
}

#[tokio::test]
async fn two_who_settle_at_once_lose_nothing() {
    let place = Place::new();
    let (one, other): (Journal, Journal) = (place.open(), place.open());
    one.create(new_session(1)).await.unwrap();
    let line = |n: u64| format!("{n} {}", "abc ".repeat(300));
    let last = one.write(id(1), lines((1..=900).map(line))).await.unwrap();
    let (first, second) = tokio::join!(one.settle(id(1), last), other.settle(id(1), last));
    first.unwrap();
    second.unwrap();
    one.settle(id(1), last).await.unwrap();
    one.tidy().await.unwrap();
    other.tidy().await.unwrap();
    assert_eq!(numbers(&all(&one, id(1)).await), (1..=900).collect::<Vec<_>>());
    assert_eq!(one.check().await.unwrap().unsettled, 0);
}

#[tokio::test]
async fn what_the_cli_printed_takes_a_third_of_its_room_once_it_is_settled() {
    let place = Place::new();
    let journal = place.open();
    let empty = journal.check().await.unwrap().bytes;
    let mut stream = 0;
    for (number, capture) in (1..).zip(captures()) {
        journal.create(new_session(number)).await.unwrap();
        let last = journal.write(id(number), lines(capture.clone())).await.unwrap();
        journal.settle(id(number), last).await.unwrap();
        stream += capture.iter().map(|line| line.len() as u64 + 1).sum::<u64>();
    }
    journal.tidy().await.unwrap();
    let stored = journal.check().await.unwrap().bytes;
    // The captures are short: what an empty file takes is a fifth of all, and none of their doing.
    let stored = stored - empty;
    assert!(stored * 3 <= stream, "{stored} of {stream}");
}
