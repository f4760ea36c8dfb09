//! Folding sessions into conversations: speed, memory, and the cost of a long answer.

use std::convert::Infallible;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read as _};
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use view::{Conversation, Fold};
use wire::{Kind, Splitter};

use crate::cache::{BenchCache, lines};
use crate::corpus::Corpus;
use crate::error::BenchError;
use crate::measure::{cpu_of_work, least_times, peak_memory};
use crate::readers;
use crate::table::{BenchRow, BenchTarget};

/// The speed of folding, its memory, and whether a long answer costs no more per token than a short
/// one.
pub(crate) fn rows(cache: &BenchCache, rounds: NonZero<u32>) -> Result<Vec<BenchRow>, BenchError> {
    let mut rows = Vec::new();
    for kind in Corpus::ALL {
        let corpus = cache.bytes(kind)?;
        let lines = lines(&corpus);
        rows.push(speed("fold", kind, &lines, rounds));
        if kind == Corpus::C {
            // A session file has no deltas.
            let kept = |line: &&&[u8]| Kind::find(line).is_none_or(|it| it.name != "stream_event");
            let lines: Vec<&[u8]> = lines.iter().filter(kept).copied().collect();
            rows.push(speed("fold, without deltas", kind, &lines, rounds));
        }
    }
    for kind in [Corpus::B, Corpus::C] {
        rows.push(memory(cache, kind)?);
    }
    rows.push(answer(rounds));
    Ok(rows)
}

fn speed(job: &'static str, corpus: Corpus, lines: &[&[u8]], rounds: NonZero<u32>) -> BenchRow {
    let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
    let Ok([value, ours]) = least_times::<Infallible, _>(
        rounds,
        [
            &mut || Ok(cpu_of_work(|| lines.iter().for_each(|line| readers::value(line)))),
            &mut || {
                Ok(cpu_of_work(|| {
                    let mut fold = Fold::new();
                    for (seq, line) in (1..).zip(lines) {
                        fold.push_line(seq, line);
                    }
                    black_box(&fold);
                }))
            },
        ],
    );
    let baseline = format!("serde_json::Value {:.0} MB/s", rate(bytes, value));
    BenchRow::amount(
        job,
        corpus.name(),
        baseline,
        (rate(bytes, ours), " MB/s"),
        Some(BenchTarget::AtLeast(100.0)),
    )
}

#[expect(clippy::cast_precision_loss, reason = "a rate to one decimal")]
fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// The peak memory of a process that only folds a file.
fn memory(cache: &BenchCache, corpus: Corpus) -> Result<BenchRow, BenchError> {
    let mut fold = Command::new(cache.program("towpath-bench"));
    fold.arg("fold-file").arg(cache.file(corpus)?).stdout(Stdio::null());
    Ok(match peak_memory(&mut fold) {
        Ok(megabytes) => {
            let target = Some(BenchTarget::AtMost(150.0));
            BenchRow::amount(
                "fold, memory",
                corpus.name(),
                String::new(),
                (megabytes, " MB"),
                target,
            )
        }
        Err(error) => BenchRow::skipped("fold, memory", corpus.name(), error.to_string()),
    })
}

/// The cost of an answer that is four times as long, with an update for a follower after each token.
/// It is four times as much if no text is processed twice.
fn answer(rounds: NonZero<u32>) -> BenchRow {
    let (short, long) = (tokens(1 << 20), tokens(4 << 20));
    let Ok([short, long]) = least_times::<Infallible, _>(
        rounds,
        [&mut || Ok(cpu_of_work(|| follow(&short))), &mut || Ok(cpu_of_work(|| follow(&long)))],
    );
    let target = BenchTarget::AtMost(5.0);
    BenchRow::slowdown("fold, 4 MB answer by tokens", ("1 MB", short), long, target)
}

/// The lines of one answer of that many bytes, four bytes to a delta.
fn tokens(bytes: usize) -> Vec<Vec<u8>> {
    let line = |event: &str| {
        format!(
            r#"{{"type":"stream_event","event":{event},"session_id":"s","parent_tool_use_id":null}}"#
        )
    };
    let head = [
        line(r#"{"type":"message_start","message":{"id":"m","content":[]}}"#),
        line(
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ),
    ];
    let token = line(
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" tok"}}"#,
    );
    let lines = head.into_iter().chain(std::iter::repeat_n(token, bytes / 4));
    lines.map(String::into_bytes).collect()
}

fn follow(lines: &[Vec<u8>]) {
    let mut fold = Fold::new();
    let mut follower = Conversation::default();
    for (seq, line) in (1..).zip(lines) {
        fold.push_line(seq, line);
        if let Some(update) = fold.patches(follower.revision) {
            // The work of the follower itself is not measured.
            follower.revision = update.to;
            black_box(update);
        }
    }
}

/// Folds a file and prints the number of its lines and items. A process of its own runs this.
pub(crate) fn fold_file(path: &Path) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut splitter = Splitter::new();
    let mut chunk = vec![0; 1 << 16];
    let mut fold = Fold::new();
    let mut seq = 0;
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        let mut pieces = splitter.feed(&chunk[..length]);
        while let Some(piece) = pieces.next() {
            seq += 1;
            fold.push_line(seq, piece.bytes);
        }
    }
    println!("{} lines, {} items in memory", seq, fold.conversation(200).items.len());
    Ok(())
}
