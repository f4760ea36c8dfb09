//! Driving agents: the memory of an idle session, the CPU time of a streamed event, and how fast an
//! interrupt is answered while agents stream.
//!
//! The agent is the built-in player, so that only Towpath is measured: its own process, and the shim
//! between it and the agent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use journal::{Journal, Origin, Seq};
use session::{
    AgentProgram, NewPrompt, Session, SessionLimits, SessionOptions, SessionSpec, Sessions,
    SessionsConfig, UnattendedLimits,
};
use tokio::runtime::Runtime;
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, QueuePolicy};

use crate::cache::BenchCache;
use crate::error::BenchError;
use crate::followers::AnyError;
use crate::table::{BenchRow, BenchTarget};

/// How many sessions are idle.
const IDLE_SESSIONS: u32 = 200;
/// How many of them have an idle agent.
const IDLE_AGENTS: usize = 10;
/// How many words an agent streams.
const WORDS: u32 = 20_000;
/// How many agents stream while one of them is interrupted.
const STREAMING: usize = 10;

pub(crate) fn rows(cache: &BenchCache) -> Result<Vec<BenchRow>, BenchError> {
    let failed = |error: AnyError| BenchError::new("drive sessions", &error);
    let runtime = Runtime::new().map_err(|error| failed(error.into()))?;
    let mut rows = Vec::new();
    for part in [SessionsPart::Idle, SessionsPart::Stream, SessionsPart::Interrupt] {
        let setup = SessionsSetup::new(cache, WORDS).map_err(failed)?;
        let measured = runtime.block_on(async {
            let rows = match part {
                SessionsPart::Idle => setup.idle().await,
                SessionsPart::Stream => setup.stream().await,
                SessionsPart::Interrupt => setup.interrupt().await,
            };
            setup.close().await;
            rows
        });
        rows.extend(measured.map_err(failed)?);
    }
    Ok(rows)
}

#[derive(Clone, Copy)]
enum SessionsPart {
    Idle,
    Stream,
    Interrupt,
}

/// A journal and a project for one measurement.
pub(crate) struct SessionsSetup {
    directory: PathBuf,
    sessions: Sessions,
}

impl SessionsSetup {
    /// The agent answers every prompt with so many words.
    pub(crate) fn new(cache: &BenchCache, words: u32) -> Result<Self, AnyError> {
        let directory = cache.path("sessions");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        for name in ["data", "project", "home"] {
            fs::create_dir_all(directory.join(name))?;
        }
        let scenario = directory.join("words.scenario");
        fs::write(&scenario, format!("# Words\n\napi repeat \"word \" {words}\n> user \"go\"\n"))?;
        let towpath = cache.program("towpath");
        let variable = |name: &str, value: &Path| (name.into(), value.as_os_str().to_owned());
        let home = SessionsConfig {
            data: directory.join("data"),
            allow_bypass: false,
            config_file: None,
            runtime: directory.join("home"),
            agent: AgentProgram { program: towpath.clone().into(), arguments: vec!["play".into()] },
            towpath,
            agents: session::AgentCatalog::default(),
            environment: vec![
                ("PATH".into(), "/usr/bin:/bin".into()),
                variable("HOME", &directory.join("home")),
                variable("TMPDIR", &directory.join("home")),
                variable("TOWPATH_PLAY_SCENARIO", &scenario),
                ("TOWPATH_PLAY_PACE".into(), "0".into()),
            ],
            limits: SessionLimits::default(),
            unattended: UnattendedLimits::SHORT,
            takeover_delay: Duration::ZERO,
            prompt_gate: session::PromptGate::default(),
            watch: session::WatchPolicy::default(),
        };
        let journal = Journal::open(&SessionsConfig::journal_path(&home.data))?.journal;
        Ok(Self { directory, sessions: Sessions::new(home, journal) })
    }

    pub(crate) async fn close(&self) {
        for session in self.sessions.open_sessions() {
            let _ = session.close().await;
        }
        // What it did was measured already.
        let _ = self.sessions.release().await;
    }

    pub(crate) async fn create(&self) -> Result<Session, AnyError> {
        let directory = self.directory.join("project");
        let options = SessionOptions { directory, ..SessionOptions::default() };
        Ok(self.sessions.create(SessionSpec { options, ..SessionSpec::default() }).await?)
    }

    /// The memory of sessions without an agent, and of a shim.
    async fn idle(&self) -> Result<Vec<BenchRow>, AnyError> {
        let warm_up = self.create().await?;
        let before = resident("self")?;
        for _ in 0..IDLE_SESSIONS {
            self.create().await?;
        }
        let each = (resident("self")? - before) / f64::from(IDLE_SESSIONS);
        let mut sessions = self.sessions.open_sessions();
        sessions.truncate(IDLE_AGENTS);
        // What the first one reads of the program's file would count as its own.
        for session in &sessions {
            session.wake().await?;
        }
        let (mut shims, mut private) = (Vec::new(), Vec::new());
        for session in sessions {
            let register = self.sessions.config().live_directory(session.id()).join("shim.json");
            let register: serde_json::Value = serde_json::from_slice(&fs::read(register)?)?;
            shims.push(resident(&register["shim"].to_string())?);
            private.push(private_memory(&register["shim"].to_string())?);
        }
        let shim = shims.iter().copied().fold(0.0, f64::max);
        let private = private.iter().copied().fold(0.0, f64::max);
        drop(warm_up);
        let baseline = format!("{IDLE_SESSIONS} sessions without an agent");
        Ok(vec![
            BenchRow::amount("session, memory", "", baseline, (each, " KB"), None),
            BenchRow::amount(
                "session, memory of a shim",
                "",
                format!("the largest of {IDLE_AGENTS}"),
                (shim / 1024.0, " MB"),
                Some(BenchTarget::AtMost(4.0)),
            ),
            BenchRow::amount(
                "session, private memory of a shim",
                "",
                format!("the largest of {IDLE_AGENTS}"),
                (private / 1024.0, " MB"),
                Some(BenchTarget::AtMost(2.0)),
            ),
        ])
    }

    /// The CPU time of Towpath's own process for each streamed event, including the journal.
    async fn stream(&self) -> Result<Vec<BenchRow>, AnyError> {
        let session = self.create().await?;
        session.wake().await?;
        let (cpu, clock) = (ProcessTime::now(), Instant::now());
        let events = turn(&session).await?;
        let (cpu, clock) = (cpu.elapsed(), clock.elapsed());
        let each = cpu.as_secs_f64() * 1e6 / f64::from(events);
        let rate = f64::from(events) / clock.as_secs_f64() / 1000.0;
        let baseline = format!("{events} events, wall {rate:.1} k/s");
        Ok(vec![BenchRow::amount("session, per event", "", baseline, (each, " µs"), None)])
    }

    /// How long an interrupt takes to be answered while several agents stream.
    async fn interrupt(&self) -> Result<Vec<BenchRow>, AnyError> {
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
            wait_for_stream(session).await?;
        }
        let mut longest = Duration::ZERO;
        for session in &sessions {
            let start = Instant::now();
            session.interrupt(QueuePolicy::Keep, bench_actor()).await?;
            longest = longest.max(start.elapsed());
        }
        let longest = longest.as_secs_f64() * 1000.0;
        let baseline = format!("the longest of {STREAMING} streaming sessions");
        let target = Some(BenchTarget::AtMost(100.0));
        Ok(vec![BenchRow::amount(
            "session, interrupt answered",
            "",
            baseline,
            (longest, " ms"),
            target,
        )])
    }
}

impl Drop for SessionsSetup {
    fn drop(&mut self) {
        // The next run removes what is left.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn bench_actor() -> Actor {
    Actor { name: "bench".to_owned(), via: "api".to_owned() }
}

fn prompt() -> NewPrompt {
    let (id, text) = (Uuid::new_v4(), "go".to_owned());
    NewPrompt { id, text, images: Vec::new(), delivery: Delivery::Queue, by: bench_actor() }
}

/// Runs one turn and counts the lines of the agent.
async fn turn(session: &Session) -> Result<u32, AnyError> {
    let mut follower = session.follow(Seq::default());
    session.prompt(prompt()).await?;
    let mut events = 0;
    loop {
        for entry in follower.next().await? {
            match entry.origin {
                Origin::Agent | Origin::Transcript => events += 1,
                Origin::Sent => {}
                Origin::Towpath => {
                    if let Some(Note::TurnEnded { .. }) = Note::read(&entry.bytes) {
                        return Ok(events);
                    }
                }
            }
        }
    }
}

/// How long it takes in so many turns from the prompt to the first line of the agent that is committed.
pub(crate) async fn first_lines(
    session: &Session,
    turns: usize,
) -> Result<Vec<Duration>, AnyError> {
    let mut follower = session.follow(Seq::default());
    let mut times = Vec::new();
    for _ in 0..turns {
        let start = Instant::now();
        let mut first = None;
        let mut is_over = false;
        session.prompt(prompt()).await?;
        while !is_over {
            for entry in follower.next().await? {
                // What came before the first prompt is older.
                if entry.origin == Origin::Agent && !times.is_empty() {
                    first.get_or_insert(start.elapsed());
                }
                let note = (entry.origin == Origin::Towpath).then(|| Note::read(&entry.bytes));
                is_over |= matches!(note.flatten(), Some(Note::TurnEnded { .. }));
            }
        }
        times.push(first.unwrap_or_default());
    }
    // The first turn is a warm-up.
    Ok(times.split_off(1))
}

/// Waits until the agent streams.
async fn wait_for_stream(session: &Session) -> Result<(), AnyError> {
    let mut follower = session.follow(Seq::default());
    let is_delta = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("text_delta");
    while !follower.next().await?.iter().any(|entry| is_delta(&entry.bytes)) {}
    Ok(())
}

/// The memory in KB that a process shares with no other.
fn private_memory(process: &str) -> Result<f64, AnyError> {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?;
    let private = rollup.lines().filter(|line| line.starts_with("Private_"));
    let amounts = private.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    Ok(amounts.sum())
}

/// The resident memory of a process, in KB.
fn resident(process: &str) -> Result<f64, AnyError> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("the system does not report the memory of a process")?.parse()?)
}
