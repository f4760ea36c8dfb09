//! One session and many who follow it over a WebSocket: `towpath serve` against a relay in Node.
//!
//! Both start the same agent and have the same crowd. What they send differs: the relay sends every
//! line of the agent to everybody, `serve` has it in the journal first and sends what a page must
//! change, several words at once to those who are slower than the agent. So what is counted are
//! words of the agent that a follower has, however they came: the CPU time of the server for each of
//! them, and how long after it was said. The agent's own time, and that of the shim between it and
//! `serve`, are not in it.

mod attach;
mod crowd;
mod document;
mod ground;
mod relay;
mod socket;

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;
use uuid::Uuid;

use super::cache::Cache;
use super::program::{self, status_field};
use super::server::Server;
use super::table::{Row, Target};
use crate::failure::Failure;
use crowd::Sight;
use document::Document;
use ground::{Ground, Serving};
use relay::Relay;
use socket::{Socket, ask};

pub(super) type Anything = Box<dyn std::error::Error + Send + Sync>;

/// A crowd, and how fast the agent talks to it.
struct Pace {
    name: &'static str,
    followers: usize,
    words: u32,
    a_second: u32,
}

const PACES: [Pace; 2] = [
    Pace { name: "100", followers: 100, words: 1_000, a_second: 100 },
    Pace { name: "1000", followers: 1_000, words: 200, a_second: 20 },
];

/// As fast as it can be taken; and for as many words as take a few seconds.
const FLOOD: Pace = Pace { name: "100", followers: 100, words: 100_000, a_second: 0 };

/// The same for a relay, which takes longer.
const FLOOD_OF_RELAY: Pace = Pace { words: 10_000, ..FLOOD };

/// How many do nothing but wait.
const IDLE: u32 = 1_000;

/// How many are there before them.
const FIRST: usize = 50;

/// How many do not read, beside how many who do.
const STALLED: usize = 20;
const READING: usize = 20;

const CPU: &str = "followers, CPU per event";
const P99: &str = "followers, p99";
const RATE: &str = "followers, events shown to all";
const MEMORY: &str = "followers, memory of one";

/// All rows of the job.
pub(super) fn rows(cache: &Cache) -> Result<Vec<Row>, Failure> {
    let towpath = cache.program("towpath");
    if let Err(reason) = program::prints(&towpath, &["serve", "--help"], "--connections") {
        return Ok(vec![Row::skipped("followers", "", reason)]);
    }
    let failed = |error: Anything| Failure::could_not("measure followers", &error);
    // One thread, so that the crowd leaves the other cores to those it watches.
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.into()))?;
    let mut rows = against_relay(cache, &runtime).map_err(failed)?;
    rows.extend(runtime.block_on(stalled(cache)).map_err(failed)?);
    rows.extend(attach::rows(cache, &runtime).map_err(failed)?);
    Ok(rows)
}

/// What a contestant did.
struct Measured {
    paced: Vec<(Duration, Sight)>,
    flood: Sight,
    /// In KB.
    idle: f64,
}

fn against_relay(cache: &Cache, runtime: &Runtime) -> Result<Vec<Row>, Anything> {
    let relay = match Relay::installed_in(&cache.place("ws")) {
        Ok(relay) => relay,
        Err(reason) => {
            return Ok([CPU, P99, RATE, MEMORY]
                .map(|job| Row::skipped(job, "", reason.clone()))
                .into());
        }
    };
    let ours = runtime.block_on(async {
        let ground = Ground::new(cache)?;
        let serving = ground.serve()?;
        let session = serving.session(&ground).await?;
        measure(&Contestant::Ours(serving, session), &FLOOD).await
    })?;
    let theirs = runtime.block_on(async {
        let server = relay.start(&cache.program("xtask-agent"))?;
        measure(&Contestant::Relay(server), &FLOOD_OF_RELAY).await
    })?;
    let mut rows = Vec::new();
    let half = Target::AtMost(0.5);
    for ((pace, (cpu, sight)), (their_cpu, their_sight)) in
        PACES.iter().zip(&ours.paced).zip(&theirs.paced)
    {
        let baseline = ("node ws", *their_cpu);
        rows.push(Row::slowdown_on(CPU, pace.name, baseline, *cpu, half));
        let baseline = ("node ws", their_sight.p99);
        rows.push(Row::slowdown_on(P99, pace.name, baseline, sight.p99, half));
    }
    let rate = |sight: &Sight| per_second(sight.words, sight.took);
    let baseline = ("node ws", rate(&theirs.flood));
    rows.push(Row::rate(RATE, baseline, rate(&ours.flood), Target::AtLeast(15.0)));
    let baseline = format!("node ws {:.1} KB", theirs.idle);
    let target = Some(Target::AtMost(8.0));
    rows.push(Row::amount(MEMORY, "", baseline, (ours.idle, " KB"), target));
    Ok(rows)
}

#[expect(clippy::cast_precision_loss, reason = "a rate to three digits")]
fn per_second(words: u64, time: Duration) -> f64 {
    words as f64 / time.as_secs_f64()
}

/// Who is measured.
enum Contestant {
    Ours(Serving, Uuid),
    Relay(Server),
}

impl Contestant {
    fn server(&self) -> &Server {
        match self {
            Self::Ours(serving, _) => &serving.server,
            Self::Relay(server) => server,
        }
    }

    async fn crowd(&self, followers: usize) -> io::Result<Vec<Socket>> {
        let mut sockets = Vec::with_capacity(followers);
        for _ in 0..followers {
            sockets.push(match self {
                Self::Ours(serving, session) => {
                    let mut socket = serving.follow(*session).await?;
                    // What there was before is no part of what follows.
                    socket.next().await?;
                    socket
                }
                Self::Relay(server) => Socket::open(server.address, "/", None).await?,
            });
        }
        Ok(sockets)
    }

    async fn begin(&self, words: u32, a_second: u32) -> io::Result<()> {
        match self {
            Self::Ours(serving, session) => serving.prompt(*session, words, a_second).await,
            Self::Relay(server) => {
                let line = format!("GET /start/{words}/{a_second}");
                ask(server.address, &line, None, "").await.map(drop)
            }
        }
    }

    /// Waits until nothing is left to be done.
    async fn rest(&self) -> Result<(), Anything> {
        if let Self::Ours(serving, session) = self {
            while !serving.is_idle(*session).await? {
                sleep(Duration::from_millis(50)).await;
            }
        }
        sleep(Duration::from_secs(2)).await;
        Ok(())
    }
}

async fn measure(contestant: &Contestant, flood: &Pace) -> Result<Measured, Anything> {
    contestant.rest().await?;
    // Some come before, so that what the first of all costs is not taken for theirs. They stay, or
    // the others would take their memory over.
    let first = contestant.crowd(FIRST).await?;
    contestant.rest().await?;
    let before = resident(contestant.server())?;
    let crowd = contestant.crowd(IDLE as usize).await?;
    contestant.rest().await?;
    let idle = (resident(contestant.server())? - before) / f64::from(IDLE);
    drop((first, crowd));
    let mut paced = Vec::new();
    for pace in &PACES {
        contestant.rest().await?;
        paced.push(run(contestant, pace).await?);
    }
    contestant.rest().await?;
    let (_, flood) = run(contestant, flood).await?;
    Ok(Measured { paced, flood, idle })
}

/// The CPU time of the server for each word that somebody saw, and what all saw.
async fn run(contestant: &Contestant, pace: &Pace) -> Result<(Duration, Sight), Anything> {
    let sockets = contestant.crowd(pace.followers).await?;
    let before = contestant.server().cpu()?;
    let begin = contestant.begin(pace.words, pace.a_second);
    let (_, sight) = crowd::watch(sockets, pace.words, begin).await?;
    let cpu = contestant.server().cpu()?.saturating_sub(before);
    let Sight { words, skipped, frames, p99, took } = &sight;
    eprintln!(
        "xtask: bench: {} followers, {}/s: {words} words in {frames} frames, {skipped} only in the \
         record, p99 {p99:?}, {took:?}, CPU {cpu:?}",
        pace.followers, pace.a_second
    );
    Ok((cpu.div_f64(per_second(sight.words.max(1), Duration::from_secs(1))), sight))
}

/// What a server holds in memory, in KB.
fn resident(server: &Server) -> io::Result<f64> {
    status_field(server.id(), "VmRSS:")?.map(f64::from).ok_or(io::ErrorKind::NotFound.into())
}

/// Some who follow but do not read while the agent talks, and what they have once they do.
async fn stalled(cache: &Cache) -> Result<Vec<Row>, Anything> {
    let ground = Ground::new(cache)?;
    let serving = ground.serve()?;
    let session = serving.session(&ground).await?;
    let contestant = Contestant::Ours(serving, session);
    contestant.rest().await?;
    let stalled = contestant.crowd(STALLED).await?;
    let reading = contestant.crowd(READING).await?;
    let before = resident(contestant.server())?;
    let begin = contestant.begin(FLOOD.words, FLOOD.a_second);
    crowd::watch(reading, FLOOD.words, begin).await?;
    let most = status_field(contestant.server().id(), "VmHWM:")?.map_or(0.0, f64::from);
    contestant.rest().await?;
    let Contestant::Ours(serving, session) = &contestant else { return Ok(Vec::new()) };
    let mut fresh = Document::default();
    fresh.take(serving.follow(*session).await?.next().await?);
    let final_word = format!("q{:07}z", FLOOD.words);
    let mut lost: u32 = if fresh.shows(&final_word) { 0 } else { FLOOD.words };
    for mut socket in stalled {
        // What they had is the snapshot that they took before.
        let mut document = Document::default();
        let mut first = true;
        while document.revision < fresh.revision {
            document.take(socket.next().await?);
            if std::mem::take(&mut first) {
                document.misfits = 0;
            }
        }
        lost = lost.saturating_add(document.misfits);
        if !document.has_all_of(&fresh) {
            lost = lost.saturating_add(1);
        }
    }
    let beside = format!("of {} words, {READING} who read", FLOOD.words);
    Ok(vec![
        Row::amount(
            "followers, stalled, lost",
            "20",
            beside,
            (lost.into(), ""),
            Some(Target::AtMost(0.0)),
        ),
        Row::amount(
            "followers, stalled, memory",
            "20",
            String::new(),
            ((most - before) / 1000.0, " MB"),
            Some(Target::AtMost(50.0)),
        ),
    ])
}
