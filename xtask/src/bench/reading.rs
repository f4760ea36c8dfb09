//! Reading lines in memory: finding their kind, and typing all of them.

use std::convert::Infallible;
use std::hint::black_box;
use std::num::NonZero;

use wire::Kind;

use super::cache::{Cache, lines};
use super::contestant;
use super::cpu;
use super::table::{Row, Target};
use crate::corpus::Mix;
use crate::failure::Failure;

const MIXES: [Mix; 3] = [Mix::A, Mix::B, Mix::C];

/// Targets are about the mixed corpus; the other two are for orientation.
fn on_mixed(mix: Mix, target: Target) -> Option<Target> {
    (mix == Mix::C).then_some(target)
}

/// Finds the kind of each line, against parsing it into a tree.
pub(super) fn kinds(cache: &Cache, rounds: NonZero<u32>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for mix in MIXES {
        let corpus = cache.bytes(mix)?;
        let lines = lines(&corpus);
        let Ok([value, ours]) = cpu::race::<Infallible, _>(
            rounds,
            [
                &mut || Ok(cpu::of_work(|| lines.iter().for_each(|line| contestant::value(line)))),
                &mut || {
                    Ok(cpu::of_work(|| {
                        for line in &lines {
                            black_box(Kind::find(line));
                        }
                    }))
                },
            ],
        );
        let target = on_mixed(mix, Target::AtLeast(7.0));
        rows.push(Row::speedup("kind", mix.name(), ("serde_json::Value", value), ours, target));
    }
    Ok(rows)
}

/// Reads each line into its type, against a tree and against another crate's types.
pub(super) fn typed(cache: &Cache, rounds: NonZero<u32>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for mix in MIXES {
        let corpus = cache.bytes(mix)?;
        let lines = lines(&corpus);
        let mut text = String::new();
        let mut refused = 0;
        let Ok([value, claude_codes, ours]) = cpu::race::<Infallible, _>(
            rounds,
            [
                &mut || Ok(cpu::of_work(|| lines.iter().for_each(|line| contestant::value(line)))),
                &mut || {
                    Ok(cpu::of_work(|| {
                        refused =
                            lines.iter().filter(|line| !contestant::claude_codes(line)).count();
                    }))
                },
                &mut || {
                    Ok(cpu::of_work(|| {
                        for line in &lines {
                            contestant::towpath(line, &mut text);
                        }
                    }))
                },
            ],
        );
        eprintln!(
            "xtask: bench: on {} claude-codes refused {refused} of {} lines",
            mix.name(),
            lines.len()
        );
        for (name, baseline, target) in [
            ("serde_json::Value", value, Target::AtLeast(4.0)),
            ("claude-codes", claude_codes, Target::AtLeast(8.0)),
        ] {
            let target = on_mixed(mix, target);
            rows.push(Row::speedup("read", mix.name(), (name, baseline), ours, target));
        }
    }
    Ok(rows)
}
