//! Many workers with several sessions each, in this process, on three servers with one gateway.
//!
//! The workers have their journals in memory where that is possible: two hundred machines have two hundred
//! disks. The servers share one disk, which no real fleet does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use journal::{Batch, SessionId};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::dev_fleet::{DevFleet, FleetUsage};
use super::simulated_worker::{self, SimulatedWorker};
use super::{FOLLOWERS, FleetLoad, RATE, latency_rows};
use crate::cache::BenchCache;
use crate::followers::AnyError;
use crate::followers::client::http_request;
use crate::measure::memory_field;
use crate::table::{BenchRow, BenchTarget};

/// How many workers connect, and how many sessions are created, at the same time.
const CONCURRENT: usize = 8;

/// How long is measured with nothing to do, and with appends as fast as they are confirmed.
const IDLE: Duration = Duration::from_secs(10);
const FLOOD: Duration = Duration::from_secs(10);

/// How fast one session of each worker streams, and how long.
const STREAM_RATE: u32 = 20;
const STREAM: Duration = Duration::from_secs(20);

/// How often the list is read.
const LISTS: usize = 10;

/// A directory in memory on Linux.
const MEMORY_DIRECTORY: &str = "/dev/shm";

struct ScaledFleet {
    fleet: DevFleet,
    workers: Vec<Arc<SimulatedWorker>>,
    /// One session of each worker.
    streaming: Vec<(usize, SessionId)>,
    rows: Vec<BenchRow>,
}

pub(super) async fn rows(
    cache: &BenchCache,
    program: &Path,
    load: FleetLoad,
) -> Result<Vec<BenchRow>, AnyError> {
    let data = data_directory(cache)?;
    let fleet = DevFleet::start(cache, program)?;
    let mut scaled =
        ScaledFleet { fleet, workers: Vec::new(), streaming: Vec::new(), rows: Vec::new() };
    let measured = scaled.measure(&data, load).await;
    for worker in scaled.workers.drain(..) {
        if let Some(worker) = Arc::into_inner(worker) {
            worker.stop().await;
        }
    }
    let _ = fs::remove_dir_all(&data);
    measured.map(|()| scaled.rows)
}

fn data_directory(cache: &BenchCache) -> std::io::Result<PathBuf> {
    let memory = Path::new(MEMORY_DIRECTORY);
    let data = if memory.is_dir() {
        memory.join(format!("towpath-bench-{}", std::process::id()))
    } else {
        cache.path("fleet-workers")
    };
    if data.exists() {
        fs::remove_dir_all(&data)?;
    }
    fs::create_dir_all(&data)?;
    Ok(data)
}

impl ScaledFleet {
    async fn measure(&mut self, data: &Path, load: FleetLoad) -> Result<(), AnyError> {
        self.connect(data, load.workers.get()).await?;
        self.create(load.sessions.get()).await?;
        self.list().await?;
        self.idle().await?;
        self.stream().await?;
        self.flood().await
    }

    fn row(&mut self, job: &'static str, baseline: String, amount: (f64, &str)) {
        self.rows.push(BenchRow::amount(job, "", baseline, amount, None));
    }

    async fn connect(&mut self, data: &Path, count: u32) -> Result<(), AnyError> {
        let (before, own_before) = (self.fleet.usage()?, own_memory()?);
        let permits = Arc::new(Semaphore::new(CONCURRENT));
        let mut connecting = JoinSet::new();
        let started = Instant::now();
        for number in 1..=count {
            let (nats, data, permits) =
                (self.fleet.nats.clone(), data.to_owned(), Arc::clone(&permits));
            let project = self.fleet.project();
            connecting.spawn(async move {
                let _permit = permits.acquire_owned().await;
                SimulatedWorker::connect(&nats, &data, &project, number).await
            });
        }
        while let Some(worker) = connecting.join_next().await {
            self.workers.push(Arc::new(worker??));
        }
        let took = started.elapsed().as_secs_f64();
        tokio::time::sleep(Duration::from_secs(6)).await;
        let (after, own_after) = (self.fleet.usage()?, own_memory()?);
        let each = |amount: f64| amount / f64::from(count);
        let of = format!("{count} workers connected in {took:.1} s");
        let own = each(own_after - own_before);
        self.row("fleet, memory of a worker", of, (own, " KB"));
        let servers = each(after.servers_memory - before.servers_memory);
        self.row("fleet, memory of a worker, 3 servers", String::new(), (servers, " KB"));
        let gateway = each(after.gateway_memory - before.gateway_memory);
        self.row("fleet, memory of a worker, gateway", String::new(), (gateway, " KB"));
        Ok(())
    }

    async fn create(&mut self, sessions: u32) -> Result<(), AnyError> {
        let (before, own_before) = (self.fleet.usage()?, own_memory()?);
        let mut waiting: Vec<(usize, u32)> = Vec::new();
        for session in 0..sessions {
            waiting.extend((0..self.workers.len()).map(|worker| (worker, session)));
        }
        let (count, started) = (waiting.len(), Instant::now());
        let permits = Arc::new(Semaphore::new(CONCURRENT));
        let (address, token) =
            (self.fleet.gateway.address(), self.fleet.gateway.token().to_owned());
        let mut creating = JoinSet::new();
        for (index, session) in waiting {
            let (permits, token) = (Arc::clone(&permits), token.clone());
            let body = json!({ "cwd": self.fleet.project(), "worker": self.workers[index].name });
            creating.spawn(async move {
                let _permit = permits.acquire_owned().await;
                let started = Instant::now();
                let line = "POST /api/v1/sessions";
                let answer = http_request(address, line, Some(&token), &body.to_string()).await?;
                let created: serde_json::Value = serde_json::from_str(&answer)?;
                let id: Uuid = created["id"].as_str().unwrap_or_default().parse()?;
                Ok::<_, AnyError>((index, session, SessionId(id), started.elapsed()))
            });
        }
        let mut times = Vec::new();
        while let Some(created) = creating.join_next().await {
            let (index, session, id, time) = created??;
            if session == 0 {
                self.streaming.push((index, id));
            }
            times.push(time);
        }
        let rate = per_second(count, started.elapsed());
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (after, own_after) = (self.fleet.usage()?, own_memory()?);
        let of = format!("{count} sessions, {CONCURRENT} at a time, {rate:.0}/s");
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        self.row("fleet, start of a session, p50", of, (p50, " ms"));
        self.row("fleet, start of a session, p99", String::new(), (p99, " ms"));
        let own = own_after - own_before;
        let servers = after.servers_memory - before.servers_memory;
        let gateway = after.gateway_memory - before.gateway_memory;
        for (job, amount) in [
            ("fleet, memory of a session, worker", own),
            ("fleet, memory of a session, 3 servers", servers),
            ("fleet, memory of a session, gateway", gateway),
        ] {
            self.row(job, String::new(), (amount / as_f64(count), " KB"));
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<(), AnyError> {
        let (mut times, mut size) = (Vec::new(), 0);
        for _ in 0..LISTS {
            let started = Instant::now();
            size = self.fleet.gateway.get("/api/v1/sessions").await?.len();
            times.push(started.elapsed());
        }
        let of = format!("{} KB", size / 1000);
        let p50 = percentile(&mut times, 50);
        self.row("fleet, list of all sessions, p50", of, (p50, " ms"));
        Ok(())
    }

    async fn idle(&mut self) -> Result<(), AnyError> {
        let before = self.fleet.usage()?;
        tokio::time::sleep(IDLE).await;
        let (servers, gateway) = cpu(&before, &self.fleet.usage()?, IDLE);
        self.row("fleet, idle, CPU of 3 servers", String::new(), (servers, " %"));
        self.row("fleet, idle, CPU of the gateway", String::new(), (gateway, " %"));
        Ok(())
    }

    /// One session of each worker streams without anyone looking, and one of the real worker to followers.
    async fn stream(&mut self) -> Result<(), AnyError> {
        let mut streams = JoinSet::new();
        let (before, appended, started) = (self.fleet.usage()?, self.appended(), Instant::now());
        for (index, session) in &self.streaming {
            let journal = self.workers[*index].journal.clone();
            streams.spawn(simulated_worker::stream(journal, *session, STREAM_RATE, STREAM));
        }
        let words = u32::try_from(STREAM.as_secs()).unwrap_or(1) * RATE;
        let received = super::stream(&self.fleet, words, RATE, FOLLOWERS).await?;
        let mut lines = 0;
        while let Some(written) = streams.join_next().await {
            lines += written??;
        }
        let took = started.elapsed();
        let appends = self.appended() - appended;
        let (servers, gateway) = cpu(&before, &self.fleet.usage()?, took);
        let jobs = ["fleet, line to follower beside, p50", "fleet, line to follower beside, p99"];
        self.rows.extend(latency_rows(jobs, "all", &received, None));
        let seconds = took.as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "rates to three digits")]
        let [lines, appends] = [lines, appends].map(|it| it as f64 / seconds);
        let of = format!("{} sessions, {lines:.0} lines/s", self.streaming.len());
        self.row("fleet, unwatched, appends", of, (appends, "/s"));
        self.row("fleet, unwatched, CPU of 3 servers", String::new(), (servers, " %"));
        self.row("fleet, unwatched, CPU of the gateway", String::new(), (gateway, " %"));
        Ok(())
    }

    /// One session of each worker writes a line as soon as the servers have the one before.
    async fn flood(&mut self) -> Result<(), AnyError> {
        let (before, appended) = (self.fleet.usage()?, self.appended());
        let started = Instant::now();
        let mut writers = JoinSet::new();
        for (index, session) in &self.streaming {
            let (worker, session) = (Arc::clone(&self.workers[*index]), *session);
            writers.spawn(async move {
                let (mut times, mut changes) = (Vec::new(), worker.journal.changes());
                while started.elapsed() < FLOOD {
                    let (written, appends) = (Instant::now(), worker.appends.appended().0);
                    let line = r#"{"type":"system","subtype":"status","text":"a line that is not streamed text"}"#;
                    let entries = vec![simulated_worker::entry(line.into(), false)];
                    worker.journal.write(session, Batch { entries, ..Batch::default() }).await?;
                    // What was shipped is removed from the outbox, which is a change too.
                    while worker.appends.appended().0 == appends && changes.changed().await.is_ok() {}
                    times.push(written.elapsed());
                }
                Ok::<_, journal::Error>(times)
            });
        }
        let mut times = Vec::new();
        while let Some(written) = writers.join_next().await {
            times.extend(written??);
        }
        let took = started.elapsed();
        let (servers, _) = cpu(&before, &self.fleet.usage()?, took);
        let rate = as_f64(usize::try_from(self.appended() - appended)?) / took.as_secs_f64();
        let of = format!("{} sessions at once", self.streaming.len());
        self.rows.push(BenchRow::amount(
            "fleet, appends confirmed",
            "",
            of,
            (rate, "/s"),
            Some(BenchTarget::AtLeast(400.0)),
        ));
        let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
        self.row("fleet, append confirmed, p50", String::new(), (p50, " ms"));
        self.row("fleet, append confirmed, p99", String::new(), (p99, " ms"));
        self.row("fleet, appends, CPU of 3 servers", String::new(), (servers, " %"));
        Ok(())
    }

    fn appended(&self) -> u64 {
        self.workers.iter().map(|worker| worker.appends.appended().0).sum()
    }
}

/// How much of a core the servers and the gateway have used, in percent.
fn cpu(before: &FleetUsage, after: &FleetUsage, time: Duration) -> (f64, f64) {
    let percent = |seconds: f64| seconds / time.as_secs_f64() * 100.0;
    let servers = percent(after.servers_cpu - before.servers_cpu);
    (servers, percent(after.gateway_cpu - before.gateway_cpu))
}

/// The memory of this process, in kilobytes.
fn own_memory() -> std::io::Result<f64> {
    Ok(memory_field(std::process::id(), "VmRSS:")?.map_or(0.0, f64::from))
}

/// In milliseconds.
fn percentile(times: &mut [Duration], percent: usize) -> f64 {
    times.sort_unstable();
    let at = (times.len() * percent / 100).min(times.len().saturating_sub(1));
    times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

fn per_second(count: usize, time: Duration) -> f64 {
    as_f64(count) / time.as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
