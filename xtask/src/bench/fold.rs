//! Folding sessions into what a person sees.

use std::convert::Infallible;
use std::hint::black_box;
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::time::Duration;

use view::{Conversation, Fold};
use wire::Kind;

use super::cache::{Cache, lines};
use super::table::{Row, Target};
use super::{contestant, cpu, program};
use crate::corpus::Mix;
use crate::failure::Failure;

/// How fast sessions are folded, how much memory that takes, and whether a long answer costs no
/// more per token than a short one.
pub(super) fn sessions(cache: &Cache, rounds: NonZero<u32>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for mix in [Mix::A, Mix::B, Mix::C] {
        let corpus = cache.bytes(mix)?;
        let lines = lines(&corpus);
        rows.push(speed("fold", mix, &lines, rounds));
        if mix == Mix::C {
            // A session file has no deltas.
            let kept = |line: &&&[u8]| Kind::find(line).is_none_or(|it| it.name != "stream_event");
            let lines: Vec<&[u8]> = lines.iter().filter(kept).copied().collect();
            rows.push(speed("fold, without deltas", mix, &lines, rounds));
        }
    }
    for mix in [Mix::B, Mix::C] {
        rows.push(memory(cache, mix)?);
    }
    rows.push(answer(rounds));
    Ok(rows)
}

fn speed(job: &'static str, mix: Mix, lines: &[&[u8]], rounds: NonZero<u32>) -> Row {
    let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
    let Ok([value, ours]) = cpu::race::<Infallible, _>(
        rounds,
        [
            &mut || Ok(cpu::of_work(|| lines.iter().for_each(|line| contestant::value(line)))),
            &mut || {
                Ok(cpu::of_work(|| {
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
    Row::amount(
        job,
        mix.name(),
        baseline,
        (rate(bytes, ours), " MB/s"),
        Some(Target::AtLeast(100.0)),
    )
}

#[expect(clippy::cast_precision_loss, reason = "a rate to one decimal")]
fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

/// The most memory that a program holds which does nothing but fold a file.
fn memory(cache: &Cache, mix: Mix) -> Result<Row, Failure> {
    let mut fold = Command::new(cache.program("xtask-fold"));
    fold.arg(cache.file(mix)?).stdout(Stdio::null());
    Ok(match program::peak_memory(&mut fold) {
        Ok(megabytes) => {
            let target = Some(Target::AtMost(150.0));
            Row::amount("fold, memory", mix.name(), String::new(), (megabytes, " MB"), target)
        }
        Err(error) => Row::skipped("fold, memory", mix.name(), error.to_string()),
    })
}

/// The cost of an answer four times as long, each token of it brought to a follower: four times as
/// much, if nothing is gone over again.
fn answer(rounds: NonZero<u32>) -> Row {
    let (short, long) = (tokens(1 << 20), tokens(4 << 20));
    let Ok([short, long]) = cpu::race::<Infallible, _>(
        rounds,
        [&mut || Ok(cpu::of_work(|| follow(&short))), &mut || Ok(cpu::of_work(|| follow(&long)))],
    );
    let target = Target::AtMost(5.0);
    Row::slowdown("fold, 4 MB answer by tokens", ("1 MB", short), long, target)
}

/// The lines of one answer of that many bytes, a few of them each.
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
            // A follower's own work is not measured here.
            follower.revision = update.to;
            black_box(update);
        }
    }
}
