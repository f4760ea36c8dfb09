//! How often reading a text delta asks for memory.
//!
//! Counted by a program of its own: an allocator that counts would slow the baselines that are
//! timed here, which allocate a lot, and flatter ours, which does not.

use std::process::Command;

use super::cache::Cache;
use super::table::{Row, Target};
use crate::corpus::Mix;
use crate::failure::Failure;

pub(super) fn per_text_delta(cache: &Cache) -> Result<Vec<Row>, Failure> {
    let counter = cache.program("xtask-allocations");
    let output = Command::new(&counter)
        .arg(cache.file(Mix::C)?)
        .output()
        .map_err(|error| Failure::could_not(&format!("start `{}`", counter.display()), &error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let counts: Vec<f64> = said.lines().map_while(|line| line.parse().ok()).collect();
    let [ours, value, claude_codes] = counts[..] else {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::could_not("count allocations", &said.trim_end()));
    };
    let baseline = format!("serde_json::Value {value:.1}, claude-codes {claude_codes:.1}");
    let target = Some(Target::AtMost(0.0));
    Ok(vec![Row::amount("allocations per text delta", "C", baseline, (ours, ""), target)])
}
