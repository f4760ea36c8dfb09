//! Counts the allocations per line for reading the text deltas of a file. Prints one number for each
//! reader: `wire`, `serde_json::Value` and `claude-codes`.

#![expect(clippy::print_stdout, reason = "a command-line program: results on stdout")]

#[path = "../readers.rs"]
mod readers;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wire::event::{Body, Delta, Stream};
use wire::read;

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> std::io::Result<()> {
    let path = std::env::args_os().nth(1).unwrap_or_default();
    let corpus = std::fs::read(path)?;
    let lines: Vec<&[u8]> =
        corpus.split(|&byte| byte == b'\n').filter(|line| is_text_delta(line)).collect();
    // Like a follower, which reuses its buffer.
    let mut text = String::with_capacity(1 << 16);
    println!("{}", per_line(&lines, |line| readers::towpath(line, &mut text)));
    println!("{}", per_line(&lines, readers::value));
    println!(
        "{}",
        per_line(&lines, |line| {
            readers::claude_codes(line);
        })
    );
    Ok(())
}

fn is_text_delta(line: &[u8]) -> bool {
    read(line).next().is_some_and(|line| {
        matches!(
            line.event().map(|event| &event.body),
            Some(Body::Stream(Stream::BlockDelta { delta: Delta::Text(_), .. }))
        )
    })
}

#[expect(clippy::cast_precision_loss, reason = "an average to one decimal")]
fn per_line(lines: &[&[u8]], mut reader: impl FnMut(&[u8])) -> f64 {
    let region = Region::new(COUNTED);
    for line in lines {
        reader(line);
    }
    let change = region.change();
    (change.allocations + change.reallocations) as f64 / lines.len() as f64
}
