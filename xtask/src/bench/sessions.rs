//! Driving agents: what a session costs while it rests, what an event costs while it streams, and how
//! soon a stop is answered when everything streams.
//!
//! The agent is the built-in one, so that what is measured is Towpath's part: its own process, and
//! the shim between it and the agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use journal::{Journal, Origin, Seq};
use session::machine::{Limits, NewPrompt};
use session::{AgentProgram, Alone, Creation, Home, Options, Session, Sessions};
use tokio::runtime::Runtime;
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, QueueFate};

use super::cache::Cache;
use super::table::{Row, Target};
use crate::failure::Failure;

/// How many sessions rest.
const RESTING: u32 = 200;
/// How many agents rest with theirs.
const LIVING: usize = 10;
/// How many words an agent streams.
const WORDS: u32 = 20_000;
/// How many agents stream while one is stopped.
const STREAMING: usize = 10;

type Anything = Box<dyn std::error::Error + Send + Sync>;

pub(super) fn rows(cache: &Cache) -> Result<Vec<Row>, Failure> {
    let failed = |error: Anything| Failure::could_not("drive sessions", &error);
    let runtime = Runtime::new().map_err(|error| failed(error.into()))?;
    let mut rows = Vec::new();
    for part in [Part::Rest, Part::Stream, Part::Stop] {
        let ground = Ground::new(cache).map_err(failed)?;
        let measured = runtime.block_on(async {
            let rows = match part {
                Part::Rest => ground.rest().await,
                Part::Stream => ground.stream().await,
                Part::Stop => ground.stop().await,
            };
            for session in ground.sessions.open_sessions() {
                let _ = session.close().await;
            }
            ground.sessions.leave().await;
            rows
        });
        rows.extend(measured.map_err(failed)?);
    }
    Ok(rows)
}

#[derive(Clone, Copy)]
enum Part {
    Rest,
    Stream,
    Stop,
}

/// A journal and a project of their own.
struct Ground {
    folder: PathBuf,
    sessions: Sessions,
}

impl Ground {
    fn new(cache: &Cache) -> Result<Self, Anything> {
        let folder = cache.place("sessions");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        for name in ["data", "project", "home"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let scenario = folder.join("words.scenario");
        fs::write(&scenario, format!("# Words\n\napi repeat \"word \" {WORDS}\n> user \"go\"\n"))?;
        let towpath = cache.program("towpath");
        let variable = |name: &str, value: &Path| (name.into(), value.as_os_str().to_owned());
        let home = Home {
            data: folder.join("data"),
            runtime: folder.join("home"),
            agent: AgentProgram { program: towpath.clone().into(), arguments: vec!["play".into()] },
            towpath,
            environment: vec![
                ("PATH".into(), "/usr/bin:/bin".into()),
                variable("HOME", &folder.join("home")),
                variable("TMPDIR", &folder.join("home")),
                variable("TOWPATH_PLAY_SCENARIO", &scenario),
                ("TOWPATH_PLAY_PACE".into(), "0".into()),
            ],
            limits: Limits::default(),
            alone: Alone::BRIEF,
        };
        let journal = Journal::open(&Home::journal(&home.data))?.journal;
        Ok(Self { folder, sessions: Sessions::new(home, journal) })
    }

    async fn create(&self) -> Result<Session, Anything> {
        let directory = self.folder.join("project");
        let options = Options { directory, ..Options::default() };
        Ok(self.sessions.create(Creation { options, ..Creation::default() }).await?)
    }

    /// Memory: sessions without an agent, then what a shim takes.
    async fn rest(&self) -> Result<Vec<Row>, Anything> {
        let warm_up = self.create().await?;
        let before = resident("self")?;
        for _ in 0..RESTING {
            self.create().await?;
        }
        let each = (resident("self")? - before) / f64::from(RESTING);
        let mut shims = Vec::new();
        for session in self.sessions.open_sessions().into_iter().take(LIVING) {
            session.wake().await?;
            let register = self.sessions.home().live_directory(session.id()).join("shim.json");
            let register: serde_json::Value = serde_json::from_slice(&fs::read(register)?)?;
            shims.push(resident(&register["shim"].to_string())?);
        }
        let shim = shims.iter().copied().fold(0.0, f64::max);
        drop(warm_up);
        let baseline = format!("{RESTING} sessions without an agent");
        Ok(vec![
            Row::amount("session, memory", "", baseline, (each, " KB"), None),
            Row::amount(
                "session, memory of a shim",
                "",
                format!("the largest of {LIVING}"),
                (shim / 1024.0, " MB"),
                Some(Target::AtMost(4.0)),
            ),
        ])
    }

    /// CPU of Towpath's own process for each event of a stream, journal included.
    async fn stream(&self) -> Result<Vec<Row>, Anything> {
        let session = self.create().await?;
        session.wake().await?;
        let (cpu, clock) = (ProcessTime::now(), Instant::now());
        let events = turn(&session).await?;
        let (cpu, clock) = (cpu.elapsed(), clock.elapsed());
        let each = cpu.as_secs_f64() * 1e6 / f64::from(events);
        let rate = f64::from(events) / clock.as_secs_f64() / 1000.0;
        let baseline = format!("{events} events, by the clock {rate:.1} k/s");
        Ok(vec![Row::amount("session, per event", "", baseline, (each, " µs"), None)])
    }

    /// How long a stop takes to be answered while several agents stream.
    async fn stop(&self) -> Result<Vec<Row>, Anything> {
        let mut sessions = Vec::new();
        for _ in 0..STREAMING {
            let session = self.create().await?;
            session.wake().await?;
            sessions.push(session);
        }
        for session in &sessions {
            session.prompt(prompt()).await?;
        }
        for session in &sessions {
            streams(session).await?;
        }
        let mut longest = Duration::ZERO;
        for session in &sessions {
            let asked = Instant::now();
            session.interrupt(QueueFate::Keep, somebody()).await?;
            longest = longest.max(asked.elapsed());
        }
        let longest = longest.as_secs_f64() * 1000.0;
        let baseline = format!("the longest of {STREAMING} that stream");
        let target = Some(Target::AtMost(100.0));
        Ok(vec![Row::amount("session, stop answered", "", baseline, (longest, " ms"), target)])
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What cannot be removed is removed before the next run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn somebody() -> Actor {
    Actor { name: "bench".to_owned(), via: "api".to_owned() }
}

fn prompt() -> NewPrompt {
    let (id, text) = (Uuid::new_v4(), "go".to_owned());
    NewPrompt { id, text, images: Vec::new(), delivery: Delivery::Queue, by: somebody() }
}

/// Has one turn, and counts the agent's lines.
async fn turn(session: &Session) -> Result<u32, Anything> {
    let mut follower = session.follow(Seq::default());
    session.prompt(prompt()).await?;
    let mut events = 0;
    loop {
        for entry in follower.next().await? {
            match entry.origin {
                Origin::Agent => events += 1,
                Origin::Towpath => {
                    if let Some(Note::TurnOver { .. }) = Note::read(&entry.bytes) {
                        return Ok(events);
                    }
                }
            }
        }
    }
}

/// Waits until words come in.
async fn streams(session: &Session) -> Result<(), Anything> {
    let mut follower = session.follow(Seq::default());
    let is_delta = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("text_delta");
    while !follower.next().await?.iter().any(|entry| is_delta(&entry.bytes)) {}
    Ok(())
}

/// What a process holds in memory, in KB.
fn resident(process: &str) -> Result<f64, Anything> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no figure of memory")?.parse()?)
}
