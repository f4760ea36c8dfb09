//! The journal: appending, replaying, and the disk space of finished turns.
//!
//! The score is the CPU time of all threads; the wall time beside it depends on how idle the machine
//! is. Deltas are committed without waiting for the disk.

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

use crate::cache::{BenchCache, lines};
use crate::corpus::Corpus;
use crate::error::BenchError;
use crate::table::{BenchRow, BenchTarget};

/// How many bytes of a corpus are written.
const BYTES: usize = 20_000_000;

const APPENDS: u32 = 200_000;

const REPLAYED: usize = 10_000;

pub(crate) fn rows(cache: &BenchCache, rounds: NonZero<u32>) -> Result<Vec<BenchRow>, BenchError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| BenchError::new("start a runtime", &error))?;
    let bench = JournalBench { cache, runtime, rounds };
    let mut rows = bench.appends()?;
    rows.extend(bench.replays()?);
    for (corpus, target) in [(Corpus::A, true), (Corpus::B, false), (Corpus::C, true)] {
        rows.push(bench.disk(corpus, target)?);
    }
    Ok(rows)
}

struct JournalBench<'a> {
    cache: &'a BenchCache,
    runtime: Runtime,
    rounds: NonZero<u32>,
}

impl JournalBench<'_> {
    /// Appending deltas from many sessions: line by line, and in batches as read from a pipe.
    fn appends(&self) -> Result<Vec<BenchRow>, BenchError> {
        let corpus = self.cache.bytes(Corpus::A)?;
        let lines: Vec<Bytes> = lines(&corpus)
            .into_iter()
            .cycle()
            .take(APPENDS as usize)
            .map(Bytes::copy_from_slice)
            .collect();
        let mut rows = Vec::new();
        let grouped = Some(BenchTarget::AtLeast(100.0));
        for (name, sessions, batch, target) in [
            ("journal, append", 20, 1, None),
            ("journal, append by 16", 20, 16, grouped),
            ("journal, append by 16", 200, 16, None),
        ] {
            let (mut best, mut cpu) = (Duration::MAX, Duration::MAX);
            for _ in 0..self.rounds.get() {
                let directory = JournalDirectory::create(self.cache)?;
                let before = ProcessTime::now();
                let took = self.runtime.block_on(append(&directory.file, &lines, sessions, batch));
                cpu = cpu.min(before.elapsed());
                best = best.min(took.map_err(failed)?);
            }
            let thousands = f64::from(APPENDS) / 1000.0;
            let rate = (thousands / cpu.as_secs_f64(), " k/s");
            let wall = thousands / best.as_secs_f64();
            let baseline = format!("{sessions} sessions, wall {wall:.1} k/s");
            rows.push(BenchRow::amount(name, "A", baseline, rate, target));
        }
        Ok(rows)
    }

    /// Replaying a session before and after its compaction.
    fn replays(&self) -> Result<Vec<BenchRow>, BenchError> {
        let corpus = self.cache.bytes(Corpus::C)?;
        let lines = lines(&corpus);
        let directory = JournalDirectory::create(self.cache)?;
        let [(fresh, fresh_cpu), (compacted, compacted_cpu)] = self
            .runtime
            .block_on(async {
                let journal = Journal::open(&directory.file)?.journal;
                let mut last = Seq(0);
                for turn in framed_turns(&lines) {
                    if last.0 < REPLAYED as u64 {
                        last = write(&journal, session(0), &turn).await?;
                    }
                }
                let fresh = self.replay(&journal).await?;
                journal.compact(session(0), last).await?;
                journal.finish_maintenance().await?;
                let compacted = self.replay(&journal).await?;
                journal.close().await?;
                Ok([fresh, compacted])
            })
            .map_err(failed)?;
        let row = |name, took: Duration, cpu: Duration| {
            let wall = took.as_secs_f64() * 1000.0;
            let baseline = format!("{REPLAYED} entries, wall {wall:.1} ms");
            let took = (cpu.as_secs_f64() * 1000.0, " ms");
            BenchRow::amount(name, "C", baseline, took, Some(BenchTarget::AtMost(10.0)))
        };
        Ok(vec![
            row("journal, replay", fresh, fresh_cpu),
            row("journal, replay compacted", compacted, compacted_cpu),
        ])
    }

    /// The least wall time and CPU time of a replay.
    async fn replay(&self, journal: &Journal) -> Result<(Duration, Duration), Error> {
        let (mut best, mut cpu) = (Duration::MAX, Duration::MAX);
        // A replay is short, so more rounds are cheap.
        for _ in 0..self.rounds.get() * 10 {
            let (start, before) = (Instant::now(), ProcessTime::now());
            let all = usize::MAX;
            let read = journal.read_within(session(0), Seq(0), REPLAYED, all, all).await?;
            black_box(read);
            best = best.min(start.elapsed());
            cpu = cpu.min(before.elapsed());
        }
        Ok((best, cpu))
    }

    /// The disk space of a session once its turns are compacted.
    fn disk(&self, corpus: Corpus, targeted: bool) -> Result<BenchRow, BenchError> {
        let bytes = self.cache.bytes(corpus)?;
        let lines = lines(&bytes);
        let mut left = BYTES;
        let count = lines
            .iter()
            .take_while(|line| {
                left = left.saturating_sub(line.len());
                left > 0
            })
            .count();
        let turns = framed_turns(&lines[..count]);
        let stream: usize = turns.iter().flatten().map(|line| line.len() + 1).sum();
        let directory = JournalDirectory::create(self.cache)?;
        let compaction =
            self.runtime.block_on(write_and_compact(&directory.file, &turns)).map_err(failed)?;
        let stored: u64 = fs::read_dir(&directory.path)
            .and_then(|files| files.map(|file| Ok(file?.metadata()?.len())).sum())
            .map_err(|error| BenchError::new("read the size of the journal", &error))?;
        #[expect(clippy::cast_precision_loss, reason = "megabytes")]
        let percent = (stored as f64 / stream as f64 * 100.0, " %");
        let each =
            compaction.as_secs_f64() * 1000.0 / f64::from(u32::try_from(turns.len()).unwrap_or(1));
        let baseline =
            format!("{} MB, {} turns, {each:.1} ms each", stream / 1_000_000, turns.len());
        let target = targeted.then_some(BenchTarget::AtMost(35.0));
        Ok(BenchRow::amount("journal, disk", corpus.name(), baseline, percent, target))
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

/// Writes turns and compacts after each; returns how long the compaction took.
async fn write_and_compact(file: &Path, turns: &[Vec<Bytes>]) -> Result<Duration, Error> {
    let journal = Journal::open(file)?.journal;
    let mut compaction = Duration::ZERO;
    for turn in turns {
        let last = write(&journal, session(0), turn).await?;
        let start = Instant::now();
        journal.compact(session(0), last).await?;
        compaction += start.elapsed();
    }
    journal.finish_maintenance().await?;
    journal.close().await?;
    Ok(compaction)
}

/// Writes a turn as a session does: only deltas are transient.
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

/// A directory for one journal, which is removed when this is dropped.
struct JournalDirectory {
    path: PathBuf,
    file: PathBuf,
}

impl JournalDirectory {
    fn create(cache: &BenchCache) -> Result<Self, BenchError> {
        let path = cache.path("journal");
        if path.exists() {
            fs::remove_dir_all(&path)
                .map_err(|error| BenchError::new("remove an old journal", &error))?;
        }
        fs::create_dir_all(&path)
            .map_err(|error| BenchError::new("create a directory for the journal", &error))?;
        Ok(Self { file: path.join("journal.db"), path })
    }
}

impl Drop for JournalDirectory {
    fn drop(&mut self) {
        // The next run removes what is left.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature that `map_err` needs")]
fn failed(error: Error) -> BenchError {
    BenchError::new("use the journal", &error)
}

/// The lines of a corpus by turns, with message ids and frames as a real session has them.
///
/// The corpora have lines of the right kinds and sizes, but the lines of a message do not name the
/// same message, and the deltas of a tool call have no message around them. Compaction needs both.
fn framed_turns(lines: &[&[u8]]) -> Vec<Vec<Bytes>> {
    let mut turns = TurnFraming::default();
    for line in lines {
        turns.push(line);
    }
    turns.turns
}

#[derive(Default)]
struct TurnFraming {
    turns: Vec<Vec<Bytes>>,
    turn: Vec<Bytes>,
    messages: u64,
    /// Deltas of a tool call that has not come yet.
    deltas: Vec<Bytes>,
}

impl TurnFraming {
    fn push(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        if text.contains(r#"{"type":"message_start""#) {
            self.messages += 1;
            self.turn.push(self.with_message_id(&text));
        } else if text.contains(r#""delta":{"type":"input_json_delta""#) {
            self.deltas.push(Bytes::copy_from_slice(line));
        } else if text.starts_with(r#"{"type":"assistant""#) {
            match between(&text, r#""type":"tool_use","id":""#, "\"") {
                Some(call) if !self.deltas.is_empty() => self.frame(call, &text),
                _ => self.turn.push(self.with_message_id(&text)),
            }
        } else {
            self.turn.push(Bytes::copy_from_slice(line));
        }
        if text.starts_with(r#"{"type":"result""#) {
            self.turns.push(std::mem::take(&mut self.turn));
        }
    }

    /// Adds a tool call and its deltas as a message of its own.
    fn frame(&mut self, call: &str, whole: &str) {
        self.messages += 1;
        let session = between(whole, r#""session_id":""#, "\"").unwrap_or_default();
        let uuid = between(whole, r#""uuid":""#, "\"").unwrap_or_default();
        let event = |event: String| {
            Bytes::from(format!(
                r#"{{"type":"stream_event","event":{event},"session_id":"{session}","parent_tool_use_id":null,"uuid":"{uuid}"}}"#
            ))
        };
        let message = self.messages;
        self.turn.push(event(format!(
            r#"{{"type":"message_start","message":{{"id":"msg_{message:08}","type":"message","role":"assistant","content":[]}}}}"#
        )));
        self.turn.push(event(format!(
            r#"{{"type":"content_block_start","index":1,"content_block":{{"type":"tool_use","id":"{call}","name":"Edit","input":{{}}}}}}"#
        )));
        self.turn.append(&mut self.deltas);
        self.turn.push(self.with_message_id(whole));
        self.turn.push(event(r#"{"type":"content_block_stop","index":1}"#.to_owned()));
        self.turn.push(event(r#"{"type":"message_stop"}"#.to_owned()));
    }

    /// The line with the id of the current message.
    fn with_message_id(&self, line: &str) -> Bytes {
        match line.split_once(r#""id":"msg_"#) {
            Some((before, after)) => {
                let after = after.get(8..).unwrap_or_default();
                Bytes::from(format!(r#"{before}"id":"msg_{:08}{after}"#, self.messages))
            }
            None => Bytes::copy_from_slice(line.as_bytes()),
        }
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(it, _)| it)
}
