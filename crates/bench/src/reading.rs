//! Reading lines in memory: finding their kind, reading them into types, and the allocations of that.

use std::convert::Infallible;
use std::hint::black_box;
use std::num::NonZero;
use std::process::Command;

use wire::Kind;

use crate::cache::{BenchCache, lines};
use crate::corpus::Corpus;
use crate::error::BenchError;
use crate::measure::{cpu_of_work, least_times};
use crate::readers;
use crate::table::{BenchRow, BenchTarget};

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
    Ok(rows)
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
