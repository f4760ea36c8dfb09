//! The journal: appending, replaying, and what is left on the disk once turns are over.
//!
//! Scored by CPU time, of all threads together; what the clock said stands beside it, and is as good
//! as the machine is idle. Deltas are committed without waiting for the disk.

use std::fs;
use std::hint::black_box;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cpu_time::ProcessTime;
use journal::{Batch, Error, Journal, NewEntry, NewSession, Origin, Seq, SessionId};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::cache::{Cache, lines};
use super::framing;
use super::table::{Row, Target};
use crate::corpus::Mix;
use crate::failure::Failure;

/// How much of a corpus is written.
const BYTES: usize = 20_000_000;

/// How many entries are appended.
const APPENDS: u32 = 200_000;

/// How many entries are replayed.
const REPLAYED: usize = 10_000;

pub(super) fn rows(cache: &Cache, rounds: NonZero<u32>) -> Result<Vec<Row>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::could_not("start a runtime", &error))?;
    let bench = Bench { cache, runtime, rounds };
    let mut rows = bench.appends()?;
    rows.extend(bench.replays()?);
    for (mix, target) in [(Mix::A, true), (Mix::B, false), (Mix::C, true)] {
        rows.push(bench.disk(mix, target)?);
    }
    Ok(rows)
}

struct Bench<'a> {
    cache: &'a Cache,
    runtime: Runtime,
    rounds: NonZero<u32>,
}

impl Bench<'_> {
    /// Appending deltas: one line at a time from many sessions, and as a reader of a pipe gets them.
    fn appends(&self) -> Result<Vec<Row>, Failure> {
        let corpus = self.cache.bytes(Mix::A)?;
        let lines: Vec<Bytes> = lines(&corpus)
            .into_iter()
            .cycle()
            .take(APPENDS as usize)
            .map(Bytes::copy_from_slice)
            .collect();
        let mut rows = Vec::new();
        let grouped = Some(Target::AtLeast(100.0));
        for (name, sessions, batch, target) in [
            ("journal, append", 20, 1, None),
            ("journal, append by 16", 20, 16, grouped),
            ("journal, append by 16", 200, 16, None),
        ] {
            let (mut best, mut cpu) = (Duration::MAX, Duration::MAX);
            for _ in 0..self.rounds.get() {
                let place = Place::fresh(self.cache)?;
                let before = ProcessTime::now();
                let took = self.runtime.block_on(append(&place.file, &lines, sessions, batch));
                cpu = cpu.min(before.elapsed());
                best = best.min(took.map_err(failed)?);
            }
            let thousands = f64::from(APPENDS) / 1000.0;
            let rate = (thousands / cpu.as_secs_f64(), " k/s");
            let by_clock = thousands / best.as_secs_f64();
            let baseline = format!("{sessions} sessions, by the clock {by_clock:.1} k/s");
            rows.push(Row::amount(name, "A", baseline, rate, target));
        }
        Ok(rows)
    }

    /// Reading a session again, before it is settled and, what is left of it then, after.
    fn replays(&self) -> Result<Vec<Row>, Failure> {
        let corpus = self.cache.bytes(Mix::C)?;
        let lines = lines(&corpus);
        let place = Place::fresh(self.cache)?;
        let [(fresh, fresh_cpu), (settled, settled_cpu)] = self
            .runtime
            .block_on(async {
                let journal = Journal::open(&place.file)?.journal;
                let mut last = Seq(0);
                for turn in framing::turns(&lines) {
                    if last.0 < REPLAYED as u64 {
                        last = write(&journal, session(0), &turn).await?;
                    }
                }
                let fresh = self.replay(&journal).await?;
                journal.settle(session(0), last).await?;
                journal.tidy().await?;
                let settled = self.replay(&journal).await?;
                journal.close().await?;
                Ok([fresh, settled])
            })
            .map_err(failed)?;
        let row = |name, took: Duration, cpu: Duration| {
            let by_clock = took.as_secs_f64() * 1000.0;
            let baseline = format!("{REPLAYED} entries, by the clock {by_clock:.1} ms");
            let took = (cpu.as_secs_f64() * 1000.0, " ms");
            Row::amount(name, "C", baseline, took, Some(Target::AtMost(10.0)))
        };
        Ok(vec![
            row("journal, replay", fresh, fresh_cpu),
            row("journal, replay settled", settled, settled_cpu),
        ])
    }

    /// By the clock, and in CPU time.
    async fn replay(&self, journal: &Journal) -> Result<(Duration, Duration), Error> {
        let (mut best, mut cpu) = (Duration::MAX, Duration::MAX);
        // A replay is so short that rounds cost nothing.
        for _ in 0..self.rounds.get() * 10 {
            let (start, before) = (Instant::now(), ProcessTime::now());
            black_box(journal.read(session(0), Seq(0), REPLAYED).await?);
            best = best.min(start.elapsed());
            cpu = cpu.min(before.elapsed());
        }
        Ok((best, cpu))
    }

    /// What a stream takes on the disk once its turns are over.
    fn disk(&self, mix: Mix, targeted: bool) -> Result<Row, Failure> {
        let corpus = self.cache.bytes(mix)?;
        let lines = lines(&corpus);
        let mut left = BYTES;
        let count = lines
            .iter()
            .take_while(|line| {
                left = left.saturating_sub(line.len());
                left > 0
            })
            .count();
        let turns = framing::turns(&lines[..count]);
        let stream: usize = turns.iter().flatten().map(|line| line.len() + 1).sum();
        let place = Place::fresh(self.cache)?;
        let settling = self.runtime.block_on(settle(&place.file, &turns)).map_err(failed)?;
        let stored: u64 = fs::read_dir(&place.folder)
            .and_then(|files| files.map(|file| Ok(file?.metadata()?.len())).sum())
            .map_err(|error| Failure::could_not("look at the journal", &error))?;
        #[expect(clippy::cast_precision_loss, reason = "megabytes")]
        let percent = (stored as f64 / stream as f64 * 100.0, " %");
        let each =
            settling.as_secs_f64() * 1000.0 / f64::from(u32::try_from(turns.len()).unwrap_or(1));
        let baseline =
            format!("{} MB, {} turns, {each:.1} ms each", stream / 1_000_000, turns.len());
        let target = targeted.then_some(Target::AtMost(35.0));
        Ok(Row::amount("journal, disk", mix.name(), baseline, percent, target))
    }
}

async fn append(
    file: &Path,
    lines: &[Bytes],
    sessions: usize,
    batch: usize,
) -> Result<Duration, Error> {
    let journal = Journal::open(file)?.journal;
    for number in 0..sessions {
        journal.create(new_session(number)).await?;
    }
    let start = Instant::now();
    let mut writers = JoinSet::new();
    for (number, share) in lines.chunks(lines.len() / sessions).enumerate() {
        let (journal, share) = (journal.clone(), share.to_vec());
        writers.spawn(async move {
            for lines in share.chunks(batch) {
                let entries = lines.iter().map(|line| entry(line, true)).collect();
                journal.write(session(number), Batch { entries, ..Batch::default() }).await?;
            }
            Ok::<_, Error>(())
        });
    }
    for result in writers.join_all().await {
        result?;
    }
    let took = start.elapsed();
    journal.close().await?;
    Ok(took)
}

/// Writes turns, settling after each; returns how long the settling took.
async fn settle(file: &Path, turns: &[Vec<Bytes>]) -> Result<Duration, Error> {
    let journal = Journal::open(file)?.journal;
    let mut settling = Duration::ZERO;
    for turn in turns {
        let last = write(&journal, session(0), turn).await?;
        let start = Instant::now();
        journal.settle(session(0), last).await?;
        settling += start.elapsed();
    }
    journal.tidy().await?;
    journal.close().await?;
    Ok(settling)
}

/// Writes a turn as a session does: deltas may be lost, all else must last.
async fn write(journal: &Journal, id: SessionId, turn: &[Bytes]) -> Result<Seq, Error> {
    if journal.session(id).await?.is_none() {
        journal.create(new_session(0)).await?;
    }
    let mut last = Seq(0);
    for lines in turn.chunks(64) {
        let entries =
            lines.iter().map(|line| entry(line, line.starts_with(b"{\"type\":\"stream_event\"")));
        let batch = Batch { entries: entries.collect(), ..Batch::default() };
        last = journal.write(id, batch).await?;
    }
    Ok(last)
}

fn entry(line: &Bytes, transient: bool) -> NewEntry {
    NewEntry { origin: Origin::Agent, bytes: line.clone(), transient }
}

fn session(number: usize) -> SessionId {
    SessionId(Uuid::from_u128(number as u128))
}

fn new_session(number: usize) -> NewSession {
    NewSession {
        id: session(number),
        directory: PathBuf::new(),
        title: None,
        options: String::new(),
        at: 0,
    }
}

/// A folder for one journal, removed when dropped.
struct Place {
    folder: PathBuf,
    file: PathBuf,
}

impl Place {
    fn fresh(cache: &Cache) -> Result<Self, Failure> {
        let folder = cache.place("journal");
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .map_err(|error| Failure::could_not("remove an old journal", &error))?;
        }
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::could_not("make a place for the journal", &error))?;
        Ok(Self { file: folder.join("journal.db"), folder })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is removed before the next run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn failed(error: Error) -> Failure {
    Failure::could_not("use the journal", &error)
}
