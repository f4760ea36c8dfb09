//! Reads stay within a number of bytes, and one large line costs little more than its size.

use bytes::Bytes;

use super::{TestJournal, all, id, lines, new_session, numbers};
use crate::{Entry, Journal, Seq};

/// A line of some size that does not compress to nothing.
fn line(size: usize) -> Bytes {
    let mut state = size as u64 | 1;
    let mut bytes = Vec::with_capacity(size + 64);
    while bytes.len() < size {
        let step = 6_364_136_223_846_793_005;
        state = state.wrapping_mul(step).wrapping_add(1_442_695_040_888_963_407);
        // Half of it is the same everywhere.
        bytes.extend_from_slice(&[b'x'; 32]);
        bytes.extend(state.to_le_bytes().repeat(4).iter().map(|byte| b'a' + byte % 26));
    }
    bytes.truncate(size);
    bytes.into()
}

/// Reads a session in pages, and the rest of what is long in parts.
async fn in_pages(
    journal: &Journal,
    (most, bytes, longest): (usize, usize, usize),
    part: usize,
) -> Vec<(Seq, Bytes)> {
    let mut read: Vec<(Seq, Bytes)> = Vec::new();
    loop {
        let after = read.last().map_or(Seq(0), |(seq, _)| *seq);
        let page = journal.read_within(id(1), after, most, bytes, longest).await.unwrap();
        if page.is_empty() {
            return read;
        }
        let total: usize = page.iter().map(|entry| entry.bytes.len()).sum();
        assert!(page.len() <= most && (total <= bytes || page.len() == 1));
        for entry in page {
            let mut whole = entry.bytes.to_vec();
            assert!(entry.omitted == 0 || whole.len() + entry.omitted > longest);
            assert!(whole.len() <= longest.max(4096));
            let size = whole.len() + entry.omitted;
            while whole.len() < size {
                let next = journal.read_part(id(1), entry.seq, whole.len(), part).await.unwrap();
                let next = next.expect("it exists");
                assert!((1..=part).contains(&next.len()));
                whole.extend_from_slice(&next);
            }
            let behind = journal.read_part(id(1), entry.seq, size, part).await.unwrap();
            assert!(behind.expect("it exists").is_empty());
            read.push((entry.seq, whole.into()));
        }
    }
}

#[tokio::test]
async fn every_page_is_within_its_limit_and_together_they_are_the_session() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let sizes = [10, 2_000_000, 0, 70_000, 70_000, 9_000_000, 3, 400_000, 1_200_000, 1];
    let written: Vec<Bytes> = sizes.into_iter().map(line).collect();
    let last = journal.write(id(1), lines(written.clone())).await.unwrap();
    let expected: Vec<(Seq, Bytes)> = (1..).map(Seq).zip(written).collect();
    for compacted in [false, true] {
        for (most, bytes, longest, part) in [
            (1000, 100_000, usize::MAX, 1),
            (1000, 100_000, 100_000, 1 << 20),
            (2, 1 << 20, 5000, 4 << 20),
            (3, usize::MAX, usize::MAX, 1),
            (1000, 1, 1, 3_000_000),
        ] {
            let read = in_pages(&journal, (most, bytes, longest), part).await;
            assert!(read == expected, "compacted: {compacted}, {most}, {bytes}, {longest}");
        }
        let read: Vec<(Seq, Bytes)> =
            all(&journal, id(1)).await.into_iter().map(|it| (it.seq, it.bytes)).collect();
        assert!(read == expected);
        let beyond = journal.read_part(id(1), last.next(), 0, 10).await.unwrap();
        assert_eq!(beyond, None);
        journal.compact(id(1), last).await.unwrap();
        journal.finish_maintenance().await.unwrap();
    }
    assert_eq!(journal.check().await.unwrap().uncompacted, 0);
}

#[tokio::test]
async fn everyone_who_reads_a_large_entry_at_the_same_time_shares_its_bytes() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let large = line(6 << 20);
    let mut followers: Vec<_> = (0..5).map(|_| journal.follow(id(1), Seq(0))).collect();
    journal.write(id(1), lines(["a".into(), large.clone(), "b".into()])).await.unwrap();
    let mut held: Vec<Entry> = Vec::new();
    for follower in &mut followers {
        let mut came = Vec::new();
        while came.len() < 3 {
            came.extend(follower.next().await.unwrap());
        }
        assert_eq!(numbers(&came), [1, 2, 3]);
        held.push(came.swap_remove(1));
    }
    held.extend(journal.read(id(1), Seq(1), 1).await.unwrap());
    assert!(held.iter().all(|entry| entry.bytes == large));
    let addresses: Vec<_> = held.iter().map(|entry| entry.bytes.as_ptr()).collect();
    assert!(addresses.windows(2).all(|pair| pair[0] == pair[1]), "{addresses:?}");
    drop(held);

    let mut follower = journal.follow(id(1), Seq(0)).omit_longer_than(1000);
    let mut came = Vec::new();
    while came.len() < 3 {
        came.extend(follower.next().await.unwrap());
    }
    assert_eq!(came[1].bytes, large[..4096]);
    let omitted: Vec<usize> = came.iter().map(|entry| entry.omitted).collect();
    assert_eq!(omitted, [0, (6 << 20) - 4096, 0]);
    journal.write(id(1), lines(["y".repeat(2000)])).await.unwrap();
    let last = follower.next().await.unwrap();
    assert_eq!((last[0].bytes.len(), last[0].omitted), (2000, 0), "short enough to be given");
}

#[tokio::test]
async fn a_line_in_several_entries_is_known_as_one() {
    let files = TestJournal::new();
    let journal = files.open();
    journal.create(new_session(1)).await.unwrap();
    let mut batch = lines(["start", " middle", " end", "next"]);
    batch.unfinished = vec![0, 1];
    let last = journal.write(id(1), batch).await.unwrap();
    for _ in 0..2 {
        let flags: Vec<bool> =
            all(&journal, id(1)).await.iter().map(|entry| entry.continues).collect();
        assert_eq!(flags, [true, true, false, false]);
        journal.compact(id(1), last).await.unwrap();
    }
}

/// The peak of this process' memory in a separate process, because other tests run in this one.
#[cfg(target_os = "linux")]
mod peak {
    use std::env;
    use std::fs;
    use std::process::Command;

    use super::{line, lines};
    use crate::Seq;
    use crate::tests::{TestJournal, id, new_session};

    const CHILD: &str = "TOWPATH_TEST_PEAK";

    fn peak_bytes() -> Option<u64> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        peak.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|it| it * 1024)
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test runs itself in another process")]
    fn a_line_of_100_mb_is_stored_compacted_and_read_with_little_more_memory() {
        if peak_bytes().is_none() {
            eprintln!("skipped: there is no /proc to measure memory with");
            return;
        }
        if env::var_os(CHILD).is_some() {
            return child();
        }
        let name = "a_line_of_100_mb_is_stored_compacted_and_read_with_little_more_memory";
        let run = Command::new(env::current_exe().unwrap())
            .args(["--exact", &format!("tests::large::peak::{name}"), "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        eprint!("{}", String::from_utf8_lossy(&run.stderr));
    }

    fn child() {
        const SIZE: usize = 100 << 20;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let files = TestJournal::new();
            let journal = files.open();
            journal.create(new_session(1)).await.unwrap();
            let large = line(SIZE);
            let before = peak_bytes().unwrap();
            let last = journal.write(id(1), lines([large])).await.unwrap();
            let written = peak_bytes().unwrap() - before;
            for compacted in [false, true] {
                let first = journal.read_within(id(1), Seq(0), 10, 1 << 20, 1 << 20).await.unwrap();
                assert_eq!(first[0].bytes.len() + first[0].omitted, SIZE);
                for offset in (0..SIZE).step_by(40 << 20) {
                    let part = journal.read_part(id(1), last, offset, 1 << 20).await.unwrap();
                    assert_eq!(part.map(|part| part.len()), Some(1 << 20));
                }
                let parts = peak_bytes().unwrap() - before;
                eprintln!("peak above the line itself: {written} written, {parts} with parts, compacted: {compacted}");
                if !compacted {
                    // Other than the line itself.
                    assert!(written < 40 << 20, "{written}");
                    assert!(parts < 60 << 20, "{parts}");
                    journal.compact(id(1), last).await.unwrap();
                    // The line, and its compressed form.
                    let compaction = peak_bytes().unwrap() - before;
                    assert!(compaction < 250 << 20, "{compaction}");
                }
            }
            let mut readers = Vec::new();
            let start = peak_bytes().unwrap();
            for _ in 0..30 {
                readers.push(journal.read(id(1), Seq(0), 1).await.unwrap());
            }
            let shared = peak_bytes().unwrap() - start;
            eprintln!("peak of 30 readers: {shared} more");
            assert!(shared < 150 << 20, "{shared}");
        });
    }
}
