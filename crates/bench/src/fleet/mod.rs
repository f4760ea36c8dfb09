//! A fleet on this machine: three NATS servers that sync each message, workers and a gateway.
//!
//! All of it shares the cores and the disk of this machine, so times are those of the slowest fleet there
//! is. What a line costs does not depend on that.

mod dev_fleet;
mod scale;
mod simulated_worker;

use std::num::NonZero;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;

use crate::cache::BenchCache;
use crate::error::BenchError;
use crate::followers::AnyError;
use crate::followers::client::{self, StreamStats};
use crate::measure::check_prints;
use crate::table::{BenchRow, BenchTarget};
use dev_fleet::DevFleet;

/// How large the fleet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FleetLoad {
    pub(crate) workers: NonZero<u32>,
    /// On each worker.
    pub(crate) sessions: NonZero<u32>,
}

impl Default for FleetLoad {
    fn default() -> Self {
        const WORKERS: NonZero<u32> = NonZero::new(200).expect("not zero");
        const SESSIONS: NonZero<u32> = NonZero::new(10).expect("not zero");
        Self { workers: WORKERS, sessions: SESSIONS }
    }
}

/// The stream whose way to a follower is measured.
const WORDS: u32 = 1_500;
const RATE: u32 = 50;
const FOLLOWERS: usize = 10;

/// What a person must not notice.
const LATENCY: BenchTarget = BenchTarget::AtMost(50.0);

pub(crate) fn rows(cache: &BenchCache, load: FleetLoad) -> Result<Vec<BenchRow>, BenchError> {
    let skipped = |reason| Ok(vec![BenchRow::skipped("fleet", "", reason)]);
    let towpath = cache.program("towpath");
    if let Err(reason) = check_prints(&towpath, &["fleet", "dev", "--help"], "--nats-server") {
        return skipped(reason);
    }
    let program = match dev_fleet::find_nats_server() {
        Ok(program) => program,
        Err(reason) => return skipped(reason),
    };
    let failed = |error: AnyError| BenchError::new("measure a fleet", &error);
    let runtime = Runtime::new().map_err(|error| failed(error.into()))?;
    let mut rows = runtime.block_on(latency(cache, &program)).map_err(failed)?;
    rows.extend(runtime.block_on(scale::rows(cache, &program, load)).map_err(failed)?);
    Ok(rows)
}

/// How long a line takes from the agent to followers of the gateway.
async fn latency(cache: &BenchCache, program: &std::path::Path) -> Result<Vec<BenchRow>, AnyError> {
    let fleet = DevFleet::start(cache, program)?;
    let received = stream(&fleet, WORDS, RATE, FOLLOWERS).await?;
    let jobs = ["fleet, line to follower, p50", "fleet, line to follower, p99"];
    Ok(latency_rows(jobs, "1", &received, Some(LATENCY)))
}

/// Streams words on the real worker of a fleet, to followers of the gateway.
async fn stream(
    fleet: &DevFleet,
    words: u32,
    rate: u32,
    followers: usize,
) -> Result<StreamStats, AnyError> {
    let server = &fleet.gateway;
    let session =
        server.create_session_with(json!({ "cwd": fleet.project(), "worker": "w1" })).await?;
    let mut sockets = Vec::new();
    for _ in 0..followers {
        let mut socket = server.follow(session).await?;
        // The first frame has what was there before.
        socket.next().await?;
        sockets.push(socket);
    }
    while !server.is_idle(session).await? {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let received = client::receive(sockets, words, server.prompt(session, words, rate)).await?;
    let StreamStats { words, skipped, frames, p50, p99, duration } = &received;
    eprintln!(
        "bench: fleet, {followers} followers, {rate}/s: {words} words in {frames} frames, {skipped} words \
         skipped, p50 {p50:?}, p99 {p99:?}, {duration:?}"
    );
    Ok(received)
}

/// The corpus of the rows is the number of sessions that stream.
fn latency_rows(
    jobs: [&'static str; 2],
    streaming: &'static str,
    received: &StreamStats,
    target: Option<BenchTarget>,
) -> Vec<BenchRow> {
    let times = [received.p50, received.p99].map(|it| it.as_secs_f64() * 1000.0);
    jobs.into_iter()
        .zip(times)
        .map(|(job, time)| {
            let baseline = format!("{FOLLOWERS} followers, {RATE} lines/s");
            BenchRow::amount(job, streaming, baseline, (time, " ms"), target)
        })
        .collect()
}
