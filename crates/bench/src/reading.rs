//! Reading lines in memory: finding their kind, reading them into types, and the allocations of that.

use std::convert::Infallible;
use std::hint::black_box;
use std::num::NonZero;
use std::process::Command;
use std::time::Duration;

use wire::Kind;

use crate::cache::{BenchCache, lines};
use crate::corpus::Corpus;
use crate::error::BenchError;
use crate::measure::{cpu_of_work, least_times};
use crate::readers;
use crate::table::{BenchRow, BenchTarget};

/// How many chunks of an agent's answer are read.
const CHUNKS: usize = 200_000;

/// Only the mixed corpus has targets.
fn on_mixed(corpus: Corpus, target: BenchTarget) -> Option<BenchTarget> {
    (corpus == Corpus::C).then_some(target)
}

/// Finding the kind of each line, compared with parsing it into a tree.
pub(crate) fn kinds(cache: &BenchCache, rounds: NonZero<u32>) -> Result<Vec<BenchRow>, BenchError> {
    let mut rows = Vec::new();
    for kind in Corpus::ALL {
        let corpus = cache.bytes(kind)?;
        let lines = lines(&corpus);
        let Ok([value, ours]) = least_times::<Infallible, _>(
            rounds,
            [
                &mut || Ok(cpu_of_work(|| lines.iter().for_each(|line| readers::value(line)))),
                &mut || {
                    Ok(cpu_of_work(|| {
                        for line in &lines {
                            black_box(Kind::find(line));
                        }
                    }))
                },
            ],
        );
        let target = on_mixed(kind, BenchTarget::AtLeast(7.0));
        rows.push(BenchRow::speedup(
            "kind",
            kind.name(),
            ("serde_json::Value", value),
            ours,
            target,
        ));
    }
    Ok(rows)
}

/// Reading each line into its type, compared with a tree and with the types of another crate.
pub(crate) fn typed(cache: &BenchCache, rounds: NonZero<u32>) -> Result<Vec<BenchRow>, BenchError> {
    let mut rows = Vec::new();
    for kind in Corpus::ALL {
        let corpus = cache.bytes(kind)?;
        let lines = lines(&corpus);
        let mut text = String::new();
        let mut refused = 0;
        let Ok([value, claude_codes, ours]) = least_times::<Infallible, _>(
            rounds,
            [
                &mut || Ok(cpu_of_work(|| lines.iter().for_each(|line| readers::value(line)))),
                &mut || {
                    Ok(cpu_of_work(|| {
                        refused = lines.iter().filter(|line| !readers::claude_codes(line)).count();
                    }))
                },
                &mut || {
                    Ok(cpu_of_work(|| {
                        for line in &lines {
                            readers::towpath(line, &mut text);
                        }
                    }))
                },
            ],
        );
        eprintln!(
            "bench: on {} claude-codes refused {refused} of {} lines",
            kind.name(),
            lines.len()
        );
        for (name, baseline, target) in [
            ("serde_json::Value", value, BenchTarget::AtLeast(4.0)),
            ("claude-codes", claude_codes, BenchTarget::AtLeast(8.0)),
        ] {
            let target = on_mixed(kind, target);
            rows.push(BenchRow::speedup("read", kind.name(), (name, baseline), ours, target));
        }
    }
    rows.push(acp_chunks(rounds));
    Ok(rows)
}

/// Reading the chunks of agents that speak the Agent Client Protocol, compared with the same texts as
/// deltas of stream-json. The times are per byte.
fn acp_chunks(rounds: NonZero<u32>) -> BenchRow {
    let delta = |text: &str| {
        format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},"session_id":"5a3b0b61-3396-414d-905a-f01ab76cf673","parent_tool_use_id":null,"uuid":"5a3b0b61-3396-414d-905a-f01ab76cf673"}}"#
        )
    };
    let chunk = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"5a3b0b61-3396-414d-905a-f01ab76cf673","update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":"{text}"}},"messageId":"msg_0123456789"}}}}}}"#
        )
    };
    let words = ["the ", "tool ", "said: ", "something longer than a word, ", "é\\n"];
    let texts = || words.iter().cycle().take(CHUNKS);
    let deltas: Vec<String> = texts().map(|text| delta(text)).collect();
    let chunks: Vec<String> = texts().map(|text| chunk(text)).collect();
    let mut text = String::new();
    let mut all = |lines: &[String]| {
        let time = cpu_of_work(|| {
            for line in lines {
                readers::towpath(line.as_bytes(), &mut text);
            }
        });
        let bytes: usize = lines.iter().map(String::len).sum();
        time.saturating_mul(100_000_000) / u32::try_from(bytes).unwrap_or(u32::MAX)
    };
    let (mut of_deltas, mut of_chunks) = (Duration::MAX, Duration::MAX);
    for _ in 0..rounds.get() {
        of_deltas = of_deltas.min(all(&deltas));
        of_chunks = of_chunks.min(all(&chunks));
    }
    let (baseline, target) = (("stream-json", of_deltas), BenchTarget::AtMost(1.5));
    BenchRow::slowdown_on("read", "ACP chunks", baseline, of_chunks, target)
}

/// Allocations for reading a text delta.
///
/// A program of its own counts them: a counting allocator would slow down the baselines, which
/// allocate much, more than Towpath, which does not.
pub(crate) fn allocations(cache: &BenchCache) -> Result<Vec<BenchRow>, BenchError> {
    let counter = cache.program("towpath-bench-allocations");
    let output = Command::new(&counter)
        .arg(cache.file(Corpus::C)?)
        .output()
        .map_err(|error| BenchError::new(&format!("start `{}`", counter.display()), &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let counts: Vec<f64> = text.lines().map_while(|line| line.parse().ok()).collect();
    let [ours, value, claude_codes] = counts[..] else {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(BenchError::new("count allocations", &text.trim_end()));
    };
    let baseline = format!("serde_json::Value {value:.1}, claude-codes {claude_codes:.1}");
    let target = Some(BenchTarget::AtMost(0.0));
    Ok(vec![BenchRow::amount("allocations per text delta", "C", baseline, (ours, ""), target)])
}
