//! A killed writer leaves every batch it acknowledged, and no part of any other.
//!
//! The test starts itself again as the writer, which prints what was acknowledged, and kills it after
//! a random number of acknowledgements.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use uuid::Uuid;

use super::all;
use crate::{Batch, Journal, NewEntry, NewSession, Origin, Seq, SessionId, SpoolPosition};

const PATH: &str = "TOWPATH_TEST_JOURNAL";
const SESSIONS: u128 = 4;
const ROUNDS: u64 = 12;

fn session(number: u128) -> SessionId {
    SessionId(Uuid::from_u128(number))
}

/// The number of entries of a batch.
fn length(batch: u64) -> u64 {
    batch * 7919 % 23 + 1
}

fn line(batch: u64, part: u64) -> String {
    format!(
        "{batch} {part} {} {}",
        length(batch),
        "filler ".repeat(1 + usize::from(part == 3) * 900)
    )
}

#[test]
fn acknowledged_batches_survive_a_kill_completely() {
    #[expect(clippy::disallowed_methods, reason = "a test that starts itself is told so")]
    if let Some(path) = std::env::var_os(PATH) {
        write_until_killed(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let seed = RandomState::new().hash_one(ROUNDS);
    println!("seed {seed}");
    let mut acknowledged = BTreeMap::new();
    for round in 0..ROUNDS {
        let acknowledgements = (seed.rotate_left(u32::try_from(round * 5).unwrap()) % 150) + 1;
        kill_after(&path, acknowledgements, &mut acknowledged);
        check(&path, &acknowledged);
    }
}

/// Starts a writer and kills it after a number of acknowledgements.
fn kill_after(path: &Path, acknowledgements: u64, acknowledged: &mut BTreeMap<u128, u64>) {
    #[expect(clippy::disallowed_methods, reason = "the writer that is killed is this test again")]
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::kill::acknowledged_batches_survive_a_kill_completely",
            "--nocapture",
        ])
        .env(PATH, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    let mut count = 0;
    for line in output.lines().map(Result::unwrap) {
        let Some(("acknowledged", numbers)) = line.split_once(' ') else { continue };
        let (number, batch) = numbers.split_once(' ').unwrap();
        // A line that the kill cut off is not an acknowledgement.
        let Some(batch) = batch.strip_suffix('.') else { continue };
        acknowledged.insert(number.parse().unwrap(), batch.parse().unwrap());
        count += 1;
        if count == acknowledgements {
            writer.kill().unwrap();
        }
    }
    assert!(count >= acknowledgements, "the writer ended by itself");
    writer.wait().unwrap();
}

/// Checks what a killed writer left.
fn check(path: &Path, acknowledged: &BTreeMap<u128, u64>) {
    runtime().block_on(async {
        let opened = Journal::open(path).unwrap();
        assert_eq!(opened.repair, None);
        let journal = opened.journal;
        assert_eq!(journal.check().await.unwrap().faults, Vec::<String>::new());
        for (&number, &last) in acknowledged {
            let record = journal.session(session(number)).await.unwrap().unwrap();
            let entries = all(&journal, session(number)).await;
            let mut expected = Seq(0);
            let mut rest = entries.iter();
            let mut batch = 0;
            while rest.len() > 0 {
                batch += 1;
                for part in 0..length(batch) {
                    let entry = rest.next().expect("half a batch");
                    expected = expected.next();
                    assert_eq!(
                        (entry.seq, &*entry.bytes),
                        (expected, line(batch, part).as_bytes())
                    );
                }
            }
            assert!(batch >= last, "batch {last} was acknowledged, {batch} is the last stored");
            assert_eq!(
                (record.last, record.spool.offset),
                (expected, batch),
                "one transaction each"
            );
        }
        journal.close().await.unwrap();
    });
}

/// Writes to several sessions at once, with compaction now and then, until it is killed.
fn write_until_killed(path: &Path) -> ! {
    runtime().block_on(async {
        let journal = Journal::open(path).unwrap().journal;
        let mut writers = tokio::task::JoinSet::new();
        for number in 1..=SESSIONS {
            let journal = journal.clone();
            writers.spawn(async move { write_session(&journal, number).await });
        }
        writers.join_next().await;
    });
    unreachable!("writers do not end");
}

async fn write_session(journal: &Journal, number: u128) {
    let id = session(number);
    if journal.session(id).await.unwrap().is_none() {
        let new =
            NewSession { id, directory: "/".into(), title: None, options: String::new(), at: 1 };
        journal.create(new).await.unwrap();
    }
    let mut batch = journal.session(id).await.unwrap().unwrap().spool.offset;
    loop {
        batch += 1;
        let entry = |part| NewEntry {
            origin: Origin::Agent,
            bytes: line(batch, part).into(),
            transient: number.is_multiple_of(2),
        };
        let mut written =
            Batch { entries: (0..length(batch)).map(entry).collect(), ..Batch::default() };
        written.change.spool = Some(SpoolPosition { run: 1, offset: batch });
        let last = journal.write(id, written).await.unwrap();
        acknowledge(number, batch);
        if batch % 16 == 0 {
            journal.compact(id, last).await.unwrap();
        }
    }
}

fn acknowledge(number: u128, batch: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "acknowledged {number} {batch}.").unwrap();
    out.flush().unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
