//! All scenarios with a release of Claude Code: how long `towpath verify` takes for one.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wait4::Wait4 as _;

use crate::cache::BenchCache;
use crate::error::BenchError;
use crate::measure::check_prints;
use crate::table::{BenchRow, BenchTarget};

/// A native program, as all releases since 2.1.113 are.
const RELEASE: &str = "npm:2.1.325";

/// What a release may take on a machine with two idle cores.
const TARGET_SECONDS: f64 = 60.0;

pub(crate) fn rows(cache: &BenchCache) -> Result<Vec<BenchRow>, BenchError> {
    let failed = |error: std::io::Error| BenchError::new("run the scenarios", &error);
    let towpath = cache.program("towpath");
    if let Err(reason) = check_prints(&towpath, &["verify", "--help"], "--claude") {
        return Ok(vec![BenchRow::skipped("scenarios", "", reason)]);
    }
    let verify = |more: &[&str]| {
        let mut command = Command::new(&towpath);
        command.args(["verify", "--claude", RELEASE, "--again", "--json"]).args(more);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    // Fetching the release is not measured.
    let fetched = verify(&["text"]).output().map_err(failed)?;
    if !fetched.status.success() {
        let reason = format!("Claude Code ({RELEASE}) cannot be run here");
        return Ok(vec![BenchRow::skipped("scenarios", "", reason)]);
    }
    let start = Instant::now();
    let mut child = verify(&[]).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut report = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut report).map_err(failed)?;
    }
    let used = child.wait4().map_err(failed)?.rusage;
    let (wall, cpu) = (start.elapsed(), used.utime + used.stime);
    let report: Value = serde_json::from_slice(&report).unwrap_or_default();
    let summary = &report["summary"];
    let baseline = format!("{} passed, {} differ", summary["passed"], summary["differs"]);
    let seconds = |time: Duration| (time.as_secs_f64(), " s");
    let target = Some(BenchTarget::AtMost(TARGET_SECONDS));
    Ok(vec![
        BenchRow::amount("scenarios, a release", "", baseline, seconds(wall), target),
        BenchRow::amount("scenarios, CPU", "", String::new(), seconds(cpu), None),
    ])
}
