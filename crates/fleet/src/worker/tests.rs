//! Workers and a gateway over servers in memory. The workers can start no agent.

mod files;
mod takeover;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journal::{Journal, SessionId};
use session::{
    AgentCatalog, AgentProgram, CommandRelay, NewPrompt, OpenError, Roots, SessionLimits,
    SessionOptions, SessionSpec, Sessions, SessionsConfig, UnattendedLimits, WatchPolicy,
    WorkerPresence,
};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;
use wire::note::{Actor, Delivery, PromptState};

use super::{Worker, WorkerConfig, WorkerError};
use crate::bus::Bus as _;
use crate::bus::memory::{MemoryBus, MemoryServers};
use crate::files::SessionFiles;
use crate::gateway::Fleet;
use crate::lease::LeaseError;
use crate::mirror::Mirror;
use crate::mirror::tests::{TIMEOUT, TestTask, delta, spawn, worker_id};
use crate::pack::{NewPack, Pack, PackKind};

fn sessions_config(directory: &Path) -> SessionsConfig {
    SessionsConfig {
        data: directory.to_owned(),
        runtime: directory.to_owned(),
        towpath: "no-such-program".into(),
        agent: AgentProgram { program: "no-such-agent".into(), arguments: Vec::new() },
        agents: AgentCatalog::default(),
        environment: Vec::new(),
        limits: SessionLimits::default(),
        unattended: UnattendedLimits::SHORT,
        takeover_delay: Duration::ZERO,
        prompt_gate: session::PromptGate::default(),
        allow_bypass: false,
        config_file: None,
        watch: WatchPolicy::default(),
    }
}

/// What differs between workers.
#[derive(Default)]
struct TestOptions {
    slots: u32,
    takeover: Option<Duration>,
    files: Option<Arc<dyn SessionFiles>>,
}

/// A worker that runs.
struct TestWorker {
    directory: TempDir,
    sessions: Sessions,
    bus: Arc<MemoryBus>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl TestWorker {
    async fn start(servers: &MemoryServers, name: &str, slots: u32) -> Self {
        Self::start_with(servers, name, slots, None).await
    }

    async fn start_with(
        servers: &MemoryServers,
        name: &str,
        slots: u32,
        takeover: Option<Duration>,
    ) -> Self {
        Self::start_as(servers, name, TestOptions { slots, takeover, files: None }).await
    }

    async fn start_as(servers: &MemoryServers, name: &str, options: TestOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&directory.path().join("journal.db")).unwrap().journal;
        let sessions = Sessions::new(sessions_config(directory.path()), journal);
        let bus = Arc::new(servers.connect());
        let worker = connect_with(&bus, &sessions, directory.path(), name, options).await;
        let worker = worker.unwrap();
        let (stop, stopping) = oneshot::channel();
        let task = tokio::spawn(worker.run(async {
            let _ = stopping.await;
        }));
        Self { directory, sessions, bus, stop: Some(stop), task }
    }

    /// Stops it as a signal does.
    async fn stop(mut self) {
        drop(self.stop.take());
        let task = &mut self.task;
        tokio::time::timeout(TIMEOUT, task).await.unwrap().unwrap();
    }
}

impl Drop for TestWorker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn connect(
    bus: &Arc<MemoryBus>,
    sessions: &Sessions,
    root: &Path,
    name: &str,
    slots: u32,
) -> Result<Worker, WorkerError> {
    let options = TestOptions { slots, ..TestOptions::default() };
    connect_with(bus, sessions, root, name, options).await
}

async fn connect_with(
    bus: &Arc<MemoryBus>,
    sessions: &Sessions,
    root: &Path,
    name: &str,
    options: TestOptions,
) -> Result<Worker, WorkerError> {
    let TestOptions { slots, takeover, files } = options;
    let config = WorkerConfig {
        name: name.to_owned(),
        pool: None,
        slots,
        roots: Roots::new(&[root.to_owned()]).unwrap(),
        version: "1".to_owned(),
        files,
        projects: None,
        worktrees: None,
        takeover,
        // Longer than any test: text comes because someone looks.
        unwatched_interval: Duration::from_hours(1),
    };
    Worker::connect(Arc::clone(bus) as _, sessions.clone(), config).await
}

/// A gateway that runs.
struct TestGateway {
    _directory: TempDir,
    sessions: Sessions,
    fleet: Fleet,
    _task: TestTask,
}

impl TestGateway {
    async fn start(servers: &MemoryServers, workers: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(&directory.path().join("journal.db")).unwrap().journal;
        let bus: Arc<MemoryBus> = Arc::new(servers.connect());
        let mirror = Mirror::open(Arc::clone(&bus) as _, journal.clone()).await.unwrap();
        let fleet = Fleet::new(bus as _, mirror.clone());
        let task = spawn(fleet.clone().run());
        let relay = Arc::new(fleet.clone());
        let sessions = Sessions::relayed(sessions_config(directory.path()), journal, relay);
        let this = Self { _directory: directory, sessions, fleet, _task: task };
        tokio::time::timeout(TIMEOUT, mirror.complete()).await.unwrap();
        this.until(|fleet| fleet.workers().len() == workers).await;
        this
    }

    async fn until(&self, is_true: impl Fn(&Fleet) -> bool) {
        let mut changes = self.fleet.changes();
        let wait = async {
            while !is_true(&self.fleet) {
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(TIMEOUT, wait).await.unwrap();
    }
}

fn spec(directory: &Path, id: Option<SessionId>) -> SessionSpec {
    let directory = directory.canonicalize().unwrap();
    let options = SessionOptions { directory, ..SessionOptions::default() };
    SessionSpec { id, title: Some("a title".to_owned()), options, resume: None }
}

fn prompt(number: u128) -> NewPrompt {
    NewPrompt {
        id: Uuid::from_u128(number),
        text: "do it".to_owned(),
        images: Vec::new(),
        delivery: Delivery::Queue,
        by: Actor { name: "ann".to_owned(), via: "test".to_owned() },
    }
}

#[tokio::test]
async fn a_session_is_created_prompted_renamed_and_deleted_through_a_gateway() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let root = worker.directory.path();
    let session = gateway.sessions.create(spec(root, None)).await.unwrap();
    let id = session.id();
    assert_eq!(gateway.fleet.owner(id).as_deref(), Some("box"));
    assert_eq!(gateway.sessions.problem(id), None);

    for _ in 0..2 {
        session.prompt(prompt(7)).await.unwrap();
    }
    // What was confirmed is in the log, whatever happens to the worker now.
    let mut logged = 0;
    let mut after = crate::bus::LogPosition(0);
    loop {
        let messages = worker.bus.read(id, after).await.unwrap();
        let Some(last) = messages.last() else { break };
        after = last.position;
        for message in messages {
            let changes = Pack::decode(message.payload).unwrap().changes(None).unwrap();
            logged += changes.iter().filter(|it| contains(it, b"do it")).count();
        }
    }
    assert!(logged >= 1);
    let prompts = worker.sessions.journal().prompts(id).await.unwrap();
    assert_eq!(prompts.len(), 1, "the same prompt twice is one");
    let refused = session.remove_prompt(Uuid::from_u128(99)).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("no such prompt")));

    gateway.sessions.rename(id, "another".to_owned()).await.unwrap();
    let record = gateway.sessions.journal().session(id).await.unwrap().unwrap();
    assert_eq!(record.title.as_deref(), Some("another"));
    gateway.sessions.delete(id).await.unwrap();
    assert_eq!(gateway.sessions.journal().session(id).await.unwrap(), None);
    assert_eq!(worker.sessions.journal().session(id).await.unwrap(), None);
    assert!(matches!(gateway.sessions.open(id).await, Err(OpenError::NoSuchSession(_))));
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn a_prompt_that_is_too_large_for_a_message_arrives_whole() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let session = gateway.sessions.create(spec(worker.directory.path(), None)).await.unwrap();
    let text = "long ".repeat(300_000);
    session.prompt(NewPrompt { text: text.clone(), ..prompt(1) }).await.unwrap();
    let prompts = worker.sessions.journal().prompts(session.id()).await.unwrap();
    assert_eq!(prompts[0].text, text);
}

#[tokio::test]
async fn the_same_id_twice_is_one_session() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let id = SessionId(Uuid::from_u128(5));
    let root = worker.directory.path();
    gateway.sessions.create(spec(root, Some(id))).await.unwrap();
    let again = gateway.sessions.create(spec(root, Some(id))).await;
    assert!(
        matches!(again, Err(OpenError::Journal(journal::Error::SessionExists(_)))),
        "{again:?}"
    );
    assert_eq!(worker.sessions.journal().sessions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_worker_that_is_gone_is_shown_as_away_and_commands_fail_at_once() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let root = worker.directory.path().to_owned();
    let gateway = TestGateway::start(&servers, 1).await;
    let session = gateway.sessions.create(spec(&root, None)).await.unwrap();
    worker.stop().await;
    gateway.until(|fleet| fleet.problem(session.id()).is_some()).await;
    let problem = gateway.sessions.problem(session.id()).unwrap();
    assert!(problem.contains("worker `box` is away"), "{problem}");
    let failed = session.prompt(prompt(1)).await.unwrap_err().to_string();
    assert!(failed.contains("`box`"), "{failed}");
    // What it had is still there to be read.
    assert!(gateway.sessions.journal().session(session.id()).await.unwrap().is_some());
}

#[tokio::test]
async fn new_sessions_go_to_the_worker_with_the_most_free_slots_that_has_the_directory() {
    let servers = MemoryServers::default();
    let small = TestWorker::start(&servers, "small", 1).await;
    let large = TestWorker::start(&servers, "large", 9).await;
    let full = TestWorker::start(&servers, "full", 0).await;
    let gateway = TestGateway::start(&servers, 3).await;
    for (worker, name) in [(&small, "small"), (&large, "large")] {
        let created = gateway.sessions.create(spec(worker.directory.path(), None)).await.unwrap();
        assert_eq!(gateway.fleet.owner(created.id()).as_deref(), Some(name));
    }
    let elsewhere = tempfile::tempdir().unwrap();
    for (directory, reason) in
        [(full.directory.path(), "all slots"), (elsewhere.path(), "no connected worker")]
    {
        let refused = gateway.sessions.create(spec(directory, None)).await.unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[tokio::test]
async fn a_worker_whose_session_was_taken_over_carries_out_nothing_in_it() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let session = gateway.sessions.create(spec(worker.directory.path(), None)).await.unwrap();
    let last = worker.bus.last(session.id()).await.unwrap().unwrap();
    let header = Pack::decode(last.payload).unwrap().header;
    let own = NewPack::without_changes(PackKind::Own, 2, worker_id(2), header.last);
    servers.connect().append(session.id(), last.position, own.payload).await.unwrap();
    // The worker notices when it ships, so this prompt is not confirmed.
    let direct = worker.sessions.open(session.id()).await.unwrap();
    direct.prompt(prompt(1)).await.unwrap();
    let failed = session.prompt(prompt(2)).await.unwrap_err().to_string();
    assert!(failed.contains("`w2`"), "{failed}");
    let queued = gateway.sessions.journal().prompts(session.id()).await.unwrap();
    assert!(queued.iter().all(|it| it.state != PromptState::Queued), "{queued:?}");
}

#[tokio::test]
async fn two_machines_cannot_have_the_same_name() {
    let servers = MemoryServers::default();
    let _first = TestWorker::start(&servers, "box", 2).await;
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&directory.path().join("journal.db")).unwrap().journal;
    let sessions = Sessions::new(sessions_config(directory.path()), journal);
    let bus = Arc::new(servers.connect());
    let refused = connect(&bus, &sessions, directory.path(), "box", 1).await;
    assert!(matches!(refused, Err(WorkerError::Lease(LeaseError::NameTaken(_)))), "{refused:?}");
}

#[tokio::test]
async fn a_worker_that_restarts_gives_up_the_sessions_that_others_have_taken_over() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let root = worker.directory.path().to_owned();
    let kept = gateway.sessions.create(spec(&root, None)).await.unwrap().id();
    let lost = gateway.sessions.create(spec(&root, None)).await.unwrap().id();
    let end = worker.bus.last(lost).await.unwrap().unwrap();
    let own = NewPack::without_changes(PackKind::Own, 2, worker_id(2), 1);
    servers.connect().append(lost, end.position, own.payload).await.unwrap();
    let again = connect(&worker.bus, &worker.sessions, &root, "box", 2).await.unwrap();
    again.settle().await.unwrap();
    let records = worker.sessions.journal().sessions().await.unwrap();
    assert_eq!(records.iter().map(|it| it.id).collect::<Vec<_>>(), [kept]);
}

#[tokio::test]
async fn sessions_of_a_machine_that_was_installed_again_are_not_shown_as_connected() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let id = gateway.sessions.create(spec(worker.directory.path(), None)).await.unwrap().id();
    worker.stop().await;
    gateway.until(|fleet| fleet.problem(id).is_some()).await;
    let _again = TestWorker::start(&servers, "box", 2).await;
    gateway.until(|fleet| fleet.workers().iter().all(|it| it.away_since.is_none())).await;
    let problem = gateway.fleet.problem(id).unwrap();
    assert!(problem.contains("installed again"), "{problem}");
    let shown = CommandRelay::worker(&gateway.fleet, id).unwrap();
    assert!(matches!(shown.presence, WorkerPresence::Away { .. }), "{shown:?}");
    gateway.sessions.move_to(id, "box".to_owned()).await.unwrap();
    assert_eq!(gateway.fleet.problem(id), None);
}

/// Copies the files of a directory.
fn copy_files(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[tokio::test]
async fn a_worker_that_is_restored_from_a_backup_goes_on_with_what_the_servers_have() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let id = gateway.sessions.create(spec(worker.directory.path(), None)).await.unwrap().id();
    gateway.sessions.rename(id, "in the backup".to_owned()).await.unwrap();
    let backup = tempfile::tempdir().unwrap();
    copy_files(worker.directory.path(), backup.path());
    gateway.sessions.rename(id, "after the backup".to_owned()).await.unwrap();
    worker.stop().await;

    let journal = Journal::open(&backup.path().join("journal.db")).unwrap().journal;
    let sessions = Sessions::new(sessions_config(backup.path()), journal.clone());
    let title = async || journal.session(id).await.unwrap().unwrap().title;
    assert_eq!(title().await.as_deref(), Some("in the backup"));
    let bus = Arc::new(servers.connect());
    let again = connect(&bus, &sessions, backup.path(), "box", 2).await.unwrap();
    again.settle().await.unwrap();
    assert_eq!(title().await.as_deref(), Some("after the backup"));
    let _running = spawn(again.run(std::future::pending()));
    gateway.until(|fleet| fleet.owner(id).as_deref() == Some("box")).await;
    gateway.sessions.rename(id, "and on".to_owned()).await.unwrap();
    assert_eq!(title().await.as_deref(), Some("and on"));
    assert_eq!(gateway.sessions.problem(id), None);
}

#[tokio::test]
async fn streamed_text_reaches_a_gateway_at_once_while_it_has_a_follower_of_the_session() {
    let servers = MemoryServers::default();
    let worker = TestWorker::start(&servers, "box", 2).await;
    let gateway = TestGateway::start(&servers, 1).await;
    let id = gateway.sessions.create(spec(worker.directory.path(), None)).await.unwrap().id();
    let journal = worker.sessions.journal();
    for round in 0..3 {
        // Each round has its own follower, so the worker is told again.
        let last = gateway.sessions.journal().session(id).await.unwrap().unwrap().last;
        let mut follower = gateway.sessions.journal().follow(id, last);
        journal.write(id, delta(format!("{round}"))).await.unwrap();
        let entries = tokio::time::timeout(TIMEOUT, follower.next()).await.unwrap().unwrap();
        assert_eq!(entries[0].bytes, format!("{round}"));
    }
}
