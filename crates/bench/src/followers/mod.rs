//! One session followed by many clients over a WebSocket: `towpath serve` compared with a relay in
//! Node, and with a bare relay that does nothing but write.
//!
//! All start the same agent and have the same followers, but they do not send the same. The relays
//! send every line of the agent to every follower. `serve` writes the line to the journal first and
//! sends the changes of the page, several words at once to a follower that is slower than the agent.
//! So the benchmark counts the words that a follower has received: the CPU time of the server for
//! each, and the delay. The CPU time of the agent and of the shim is not included.
//!
//! The bare relay's CPU time is that of the kernel: `docs/decisions/0019-sending-to-many-followers.md`.

mod attach;
pub(crate) mod client;
mod document;
pub(crate) mod server;

use std::io;
use std::process::Command;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::sleep;
use uuid::Uuid;

use crate::cache::BenchCache;
use crate::error::BenchError;
use crate::measure::{BenchServer, check_prints};
use crate::table::{BenchRow, BenchTarget};
use client::{BenchSocket, StreamStats, http_request};
use document::FollowerDocument;
use server::{NodeRelay, ServeSetup, TowpathServer};

pub(crate) type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// How many followers there are, and how fast the agent streams.
struct StreamLoad {
    name: &'static str,
    followers: usize,
    words: u32,
    rate: u32,
}

const PACED: [StreamLoad; 2] = [
    StreamLoad { name: "100", followers: 100, words: 500, rate: 100 },
    StreamLoad { name: "1000", followers: 1_000, words: 100, rate: 20 },
];

/// How often each of them runs.
const ROUNDS: usize = 4;

/// As fast as the server reads, for a few seconds.
const FLOOD: StreamLoad = StreamLoad { name: "100", followers: 100, words: 100_000, rate: 0 };

/// The same for the relay, which takes longer.
const RELAY_FLOOD: StreamLoad = StreamLoad { words: 10_000, ..FLOOD };

/// How many followers of an idle session there are.
const IDLE: u32 = 1_000;

/// How many of them connect before the memory is read for the first time.
const FIRST: usize = 50;

/// How many followers do not read, and how many do.
const STALLED: usize = 20;
const READING: usize = 20;

const CPU: &str = "followers, CPU per event";
const BARE_CPU: &str = "followers, CPU, bare relay";
const P99: &str = "followers, p99";
const RATE: &str = "followers, events received by all";
const MEMORY: &str = "followers, memory of each";

pub(crate) fn rows(cache: &BenchCache) -> Result<Vec<BenchRow>, BenchError> {
    let towpath = cache.program("towpath");
    if let Err(reason) = check_prints(&towpath, &["serve", "--help"], "--connections") {
        return Ok(vec![BenchRow::skipped("followers", "", reason)]);
    }
    let failed = |error: AnyError| BenchError::new("measure followers", &error);
    // One thread, so that the followers leave the other cores to the server.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.into()))?;
    let mut rows = runtime.block_on(against_relays(cache)).map_err(failed)?;
    rows.extend(runtime.block_on(stalled(cache)).map_err(failed)?);
    rows.extend(attach::rows(cache, &runtime).map_err(failed)?);
    Ok(rows)
}

/// What was measured of one server, the least of several rounds.
#[derive(Clone, Copy)]
struct PacedFigures {
    /// For each word that a follower received.
    cpu: Duration,
    p99: Duration,
}

async fn against_relays(cache: &BenchCache) -> Result<Vec<BenchRow>, AnyError> {
    let relay = match NodeRelay::installed_in(&cache.path("ws")) {
        Ok(relay) => relay,
        Err(reason) => {
            return Ok([CPU, BARE_CPU, P99, RATE, MEMORY]
                .map(|job| BenchRow::skipped(job, "", reason.clone()))
                .into());
        }
    };
    let setup = ServeSetup::new(cache)?;
    let server = setup.serve()?;
    let session = server.create_session(&setup).await?;
    let ours = MeasuredServer::Towpath(server, session);
    let agent = cache.program("towpath-bench-agent");
    let node = MeasuredServer::Relay(relay.start(&agent)?);
    let mut bare = Command::new(cache.program("towpath-bench-relay"));
    let bare = MeasuredServer::Relay(BenchServer::start(bare.arg(&agent))?);
    let idle = (idle_memory(&ours).await?, idle_memory(&node).await?);
    let half = Some(BenchTarget::AtMost(0.5));
    let mut rows = Vec::new();
    for load in &PACED {
        let servers = [&ours, &node, &bare];
        let [ours, node, bare] = least_paced(servers, load).await?;
        let name = load.name;
        let against = |job, baseline, (of, figure), target| {
            BenchRow::slowdown_on(job, name, (baseline, of), figure, target)
        };
        rows.extend([
            against(CPU, "node ws", (node.cpu, ours.cpu), half),
            against(CPU, "bare relay", (bare.cpu, ours.cpu), Some(BenchTarget::AtMost(1.5))),
            against(BARE_CPU, "node ws", (node.cpu, bare.cpu), None),
            against(P99, "node ws", (node.p99, ours.p99), half),
            against(P99, "bare relay", (bare.p99, ours.p99), None),
        ]);
    }
    let (_, ours_flood) = run(&ours, &FLOOD).await?;
    let (_, node_flood) = run(&node, &RELAY_FLOOD).await?;
    let rate = |received: &StreamStats| per_second(received.words, received.duration);
    let baseline = ("node ws", rate(&node_flood));
    rows.push(BenchRow::rate(RATE, baseline, rate(&ours_flood), BenchTarget::AtLeast(15.0)));
    let (ours, node) = idle;
    let target = Some(BenchTarget::AtMost(8.0));
    rows.push(BenchRow::amount(MEMORY, "", format!("node ws {node:.1} KB"), (ours, " KB"), target));
    Ok(rows)
}

/// Runs a load on all servers in turn, and returns the least figures of each.
async fn least_paced<const N: usize>(
    servers: [&MeasuredServer; N],
    load: &StreamLoad,
) -> Result<[PacedFigures; N], AnyError> {
    let mut least = [PacedFigures { cpu: Duration::MAX, p99: Duration::MAX }; N];
    for _ in 0..ROUNDS {
        for (least, server) in least.iter_mut().zip(servers) {
            let (cpu, received) = run(server, load).await?;
            least.cpu = least.cpu.min(cpu);
            least.p99 = least.p99.min(received.p99);
        }
    }
    Ok(least)
}

#[expect(clippy::cast_precision_loss, reason = "a rate to three digits")]
fn per_second(words: u64, time: Duration) -> f64 {
    words as f64 / time.as_secs_f64()
}

enum MeasuredServer {
    Towpath(TowpathServer, Uuid),
    Relay(BenchServer),
}

impl MeasuredServer {
    fn process(&self) -> &BenchServer {
        match self {
            Self::Towpath(server, _) => &server.process,
            Self::Relay(server) => server,
        }
    }

    async fn connect(&self, followers: usize) -> io::Result<Vec<BenchSocket>> {
        let mut sockets = Vec::with_capacity(followers);
        for _ in 0..followers {
            sockets.push(match self {
                Self::Towpath(server, session) => {
                    let mut socket = server.follow(*session).await?;
                    // The first frame has what was there before.
                    socket.next().await?;
                    socket
                }
                Self::Relay(server) => BenchSocket::open(server.address, "/", None).await?,
            });
        }
        Ok(sockets)
    }

    async fn start_stream(&self, words: u32, rate: u32) -> io::Result<()> {
        match self {
            Self::Towpath(server, session) => server.prompt(*session, words, rate).await,
            Self::Relay(server) => {
                let line = format!("GET /start/{words}/{rate}");
                http_request(server.address, &line, None, "").await.map(drop)
            }
        }
    }

    /// Waits until the server has nothing to do.
    async fn wait_idle(&self) -> Result<(), AnyError> {
        if let Self::Towpath(server, session) = self {
            while !server.is_idle(*session).await? {
                sleep(Duration::from_millis(50)).await;
            }
        }
        sleep(Duration::from_secs(2)).await;
        Ok(())
    }
}

/// The memory of each follower of an idle session, in KB.
async fn idle_memory(server: &MeasuredServer) -> Result<f64, AnyError> {
    server.wait_idle().await?;
    // Some followers connect first, so that what the server allocates once is not counted. They stay
    // connected, because later ones would reuse their memory.
    let _first = server.connect(FIRST).await?;
    server.wait_idle().await?;
    let before = server.process().memory()?;
    let _followers = server.connect(IDLE as usize).await?;
    server.wait_idle().await?;
    Ok((server.process().memory()? - before) / f64::from(IDLE))
}

/// The CPU time of the server for each word that a follower received, and what all received.
async fn run(
    server: &MeasuredServer,
    load: &StreamLoad,
) -> Result<(Duration, StreamStats), AnyError> {
    server.wait_idle().await?;
    let sockets = server.connect(load.followers).await?;
    let before = server.process().cpu()?;
    let start = server.start_stream(load.words, load.rate);
    let received = client::receive(sockets, load.words, start).await?;
    let cpu = server.process().cpu()?.saturating_sub(before);
    let StreamStats { words, skipped, frames, p50: _, p99, duration } = &received;
    eprintln!(
        "bench: {} followers, {}/s: {words} words in {frames} frames, {skipped} words \
         skipped, p99 {p99:?}, {duration:?}, CPU {cpu:?}",
        load.followers, load.rate
    );
    Ok((cpu.div_f64(per_second(received.words.max(1), Duration::from_secs(1))), received))
}

/// Followers that do not read while the agent streams, and whether they are complete afterwards.
async fn stalled(cache: &BenchCache) -> Result<Vec<BenchRow>, AnyError> {
    let setup = ServeSetup::new(cache)?;
    let server = setup.serve()?;
    let session = server.create_session(&setup).await?;
    let server = MeasuredServer::Towpath(server, session);
    server.wait_idle().await?;
    let stalled = server.connect(STALLED).await?;
    let reading = server.connect(READING).await?;
    let before = server.process().memory()?;
    let start = server.start_stream(FLOOD.words, FLOOD.rate);
    client::receive(reading, FLOOD.words, start).await?;
    let peak = server.process().peak_memory()?;
    server.wait_idle().await?;
    let MeasuredServer::Towpath(towpath, session) = &server else { return Ok(Vec::new()) };
    let mut fresh = FollowerDocument::default();
    fresh.apply(towpath.follow(*session).await?.next().await?);
    let final_word = format!("q{:07}z", FLOOD.words);
    let mut lost: u32 = if fresh.contains(&final_word) { 0 } else { FLOOD.words };
    for mut socket in stalled {
        // This follower has read its first snapshot already, so the next frame does not apply.
        let mut document = FollowerDocument::default();
        let mut first = true;
        while document.revision < fresh.revision {
            document.apply(socket.next().await?);
            if std::mem::take(&mut first) {
                document.mismatches = 0;
            }
        }
        lost = lost.saturating_add(document.mismatches);
        if !document.includes(&fresh) {
            lost = lost.saturating_add(1);
        }
    }
    let baseline = format!("of {} words, beside {READING} that read", FLOOD.words);
    Ok(vec![
        BenchRow::amount(
            "followers, stalled, lost",
            "20",
            baseline,
            (lost.into(), ""),
            Some(BenchTarget::AtMost(0.0)),
        ),
        BenchRow::amount(
            "followers, stalled, memory",
            "20",
            String::new(),
            ((peak - before) / 1000.0, " MB"),
            Some(BenchTarget::AtMost(50.0)),
        ),
    ])
}
