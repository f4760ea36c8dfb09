//! A worker whose agents are simulated: the real worker with its journal, shipper and lease, and lines that
//! are written to the journal without a process.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fleet::bus::metered::{AppendCounts, MeteredBus};
use fleet::bus::nats::{NatsBus, NatsConfig};
use fleet::ship::UNWATCHED_INTERVAL;
use fleet::worker::{Worker, WorkerConfig};
use journal::{Batch, Journal, NewEntry, Origin, SessionId};
use session::{
    AgentCatalog, AgentProgram, PromptGate, Roots, SessionLimits, Sessions, SessionsConfig,
    UnattendedLimits, WatchPolicy,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::followers::AnyError;

/// How many lines a simulated agent prints at once, and how many of them together are a message.
const LINES: u32 = 4;
const MESSAGE: u32 = 400;

/// A worker that runs in this process.
pub(super) struct SimulatedWorker {
    pub(super) name: String,
    pub(super) journal: Journal,
    pub(super) appends: Arc<AppendCounts>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl SimulatedWorker {
    pub(super) async fn connect(
        nats: &[String],
        data: &Path,
        project: &Path,
        number: u32,
    ) -> Result<Self, AnyError> {
        let name = format!("s{number}");
        let directory = data.join(&name);
        std::fs::create_dir_all(&directory)?;
        let config = NatsConfig {
            servers: nats.to_vec(),
            credentials: None,
            authorities: None,
            certificate: None,
            name: name.clone(),
        };
        let (bus, appends) = MeteredBus::new(Arc::new(NatsBus::connect(&config).await?));
        let home = sessions_config(&directory);
        let journal = Journal::open(&SessionsConfig::journal_path(&home.data))?.journal;
        let sessions = Sessions::new(home, journal.clone());
        let config = WorkerConfig {
            name: name.clone(),
            pool: None,
            slots: 10,
            roots: Roots::new(&[project.to_owned()])?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            files: None,
            projects: None,
            worktrees: None,
            takeover: None,
            unwatched_interval: UNWATCHED_INTERVAL,
        };
        let worker = Worker::connect(Arc::new(bus), sessions, config).await?;
        let (stop, stopping) = oneshot::channel();
        let task = tokio::spawn(worker.run(async {
            let _ = stopping.await;
        }));
        Ok(Self { name, journal, appends, stop, task })
    }

    pub(super) async fn stop(self) {
        drop(self.stop);
        let _ = self.task.await;
    }
}

/// Streams text in a session at `rate` lines a second. Returns how many lines it wrote.
pub(super) async fn stream(
    journal: Journal,
    session: SessionId,
    rate: u32,
    time: Duration,
) -> Result<u64, journal::Error> {
    let start = Instant::now();
    let mut written = 0;
    while start.elapsed() < time {
        let text = format!("word {written:08} ");
        let event = format!(
            r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}},"session_id":"{session}","parent_tool_use_id":null}}"#
        );
        let mut batch = Batch::default();
        for _ in 0..LINES {
            batch.entries.push(entry(event.clone().into(), true));
        }
        written += LINES;
        if written.is_multiple_of(MESSAGE) {
            let text = text.repeat(MESSAGE as usize);
            let message = format!(
                r#"{{"type":"assistant","message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}]}},"session_id":"{session}"}}"#
            );
            batch.entries.push(entry(message.into(), false));
        }
        journal.write(session, batch).await?;
        let due = Duration::from_secs(written.into()) / rate;
        tokio::time::sleep(due.saturating_sub(start.elapsed())).await;
    }
    Ok(written.into())
}

/// A line of an agent.
pub(super) fn entry(bytes: Bytes, transient: bool) -> NewEntry {
    NewEntry { origin: Origin::Agent, bytes, transient }
}

fn sessions_config(directory: &Path) -> SessionsConfig {
    SessionsConfig {
        data: directory.to_owned(),
        runtime: directory.to_owned(),
        towpath: "no-program".into(),
        agent: AgentProgram { program: "no-agent".into(), arguments: Vec::new() },
        agents: AgentCatalog::default(),
        environment: Vec::new(),
        limits: SessionLimits::default(),
        unattended: UnattendedLimits::SHORT,
        takeover_delay: Duration::ZERO,
        prompt_gate: PromptGate::default(),
        allow_bypass: false,
        config_file: None,
        watch: WatchPolicy::default(),
    }
}
