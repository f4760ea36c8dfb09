//! Sessions of a fleet that change their worker: the one before was killed, or gives them away.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fleet::bus::Bus as _;
use fleet::bus::nats::{NatsBus, NatsConfig};
use serde_json::{Value, json};
use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;
use tokio::time::timeout;

use crate::environment::ServerProcess;
use crate::fixture::{Fixture, TIMEOUT, TestServer};
use crate::real_cli;

/// The time between two looks at something that no event announces.
const POLL: Duration = Duration::from_millis(50);

/// A worker with a data directory, a home and a root of its own.
pub(crate) struct TestWorker<'a> {
    fixture: &'a Fixture,
    name: &'static str,
    root: PathBuf,
    nats: String,
    /// More arguments.
    options: &'static [&'static str],
    /// Where and how it runs, if that is not as usual.
    surroundings: Surroundings<'a>,
    process: Option<ServerProcess>,
}

/// Changes the command of a worker, for example so that it runs on another machine.
pub(crate) type Surroundings<'a> = Box<dyn Fn(Command) -> Command + Send + Sync + 'a>;

impl<'a> TestWorker<'a> {
    pub(crate) async fn start(
        fixture: &'a Fixture,
        nats: &str,
        name: &'static str,
        root: &Path,
    ) -> Self {
        Self::start_with(fixture, nats, name, root, &[]).await
    }

    pub(crate) async fn start_with(
        fixture: &'a Fixture,
        nats: &str,
        name: &'static str,
        root: &Path,
        options: &'static [&'static str],
    ) -> Self {
        Self::start_in(fixture, nats, name, root, options, Box::new(|command| command)).await
    }

    pub(crate) async fn start_in(
        fixture: &'a Fixture,
        nats: &str,
        name: &'static str,
        root: &Path,
        options: &'static [&'static str],
        surroundings: Surroundings<'a>,
    ) -> Self {
        let (nats, root) = (nats.to_owned(), root.to_owned());
        let mut this = Self { fixture, name, root, nats, options, surroundings, process: None };
        std::fs::create_dir_all(this.home()).expect("a directory");
        this.restart().await;
        this
    }

    fn data(&self) -> PathBuf {
        data_directory(self.fixture, self.name)
    }

    fn home(&self) -> PathBuf {
        self.fixture.path(&format!("home-{}", self.name))
    }

    pub(crate) async fn restart(&mut self) {
        let [agent, root, data] = [self.fixture.path("agent"), self.root.clone(), self.data()]
            .map(|it| it.display().to_string());
        let mut command = self.fixture.program(&[
            "worker", "--nats", &self.nats, "--name", self.name, "--slots", "2", "--claude",
            &agent, "--root", &root, "--data", &data, "--json",
        ]);
        command.args(self.options).env("HOME", self.home());
        let command = (self.surroundings)(command);
        self.process = Some(self.fixture.spawn(command).await);
    }

    /// Kills the worker. Its agents go on under their shims.
    pub(crate) async fn kill(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.child.kill().await.expect("it can be killed");
    }
}

impl Drop for TestWorker<'_> {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.child.start_kill();
        }
        let data = self.data().display().to_string();
        for _ in 0..2 {
            let _ = self.fixture.program(&["serve", "--stop", "--data", &data]).output();
        }
    }
}

/// The data directory of a worker.
pub(crate) fn data_directory(fixture: &Fixture, worker: &str) -> PathBuf {
    fixture.path(&format!("data-{worker}"))
}

pub(crate) async fn gateway(fixture: &Fixture, nats: &str) -> TestServer {
    let data = fixture.path("gateway").display().to_string();
    fixture.start(fixture.command(&["--nats", nats, "--data", &data])).await
}

pub(crate) fn servers() -> Option<NatsServers> {
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    Some(NatsServers::start(&packages::or_skip(program)?, &NatsServerOptions::single()))
}

/// Creates the streams on a single server.
pub(crate) fn init(fixture: &Fixture, nats: &str) {
    let created = fixture.program(&["fleet", "init", "--single", "--nats", nats]).output();
    assert!(created.expect("it starts").status.success());
}

/// The same for three servers.
pub(crate) fn init_cluster(fixture: &Fixture, servers: &NatsServers) {
    let nats = servers.addresses().join(",");
    let created = fixture.program(&["fleet", "init", "--nats", &nats]).output();
    let created = created.expect("it starts");
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
}

/// Waits for something that no event announces.
async fn until(what: &str, is_true: impl AsyncFn() -> bool) {
    until_within(TIMEOUT, what, is_true).await;
}

/// The same, for as long as that may take.
pub(crate) async fn until_within(limit: Duration, what: &str, is_true: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_true().await {
            tokio::time::sleep(POLL).await;
        }
    };
    assert!(timeout(limit, wait).await.is_ok(), "{what} did not happen");
}

/// Whether a file below a directory contains some words.
pub(crate) fn is_in_files(directory: &Path, words: &str) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        path.is_dir() && is_in_files(&path, words)
            || std::fs::read(&path)
                .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(words))
    })
}

/// How many turns began and ended, as the journal that the gateway exports says.
async fn turns(server: &TestServer, session: &str) -> (usize, usize) {
    let page = server.get(&format!("/sessions/{session}/lines?limit=1000")).await;
    let text = page.to_string();
    (text.matches("turn_started").count(), text.matches("turn_ended").count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_killed_worker_goes_on_elsewhere_and_its_tail_is_shown() {
    let Some(servers) = servers() else { return };
    let nats = servers.addresses()[0].clone();
    let replies = "api text \"one two\" hold late after 1\napi text \"answered elsewhere\"\napi text \"and back\"";
    let fixture = Fixture::new(replies).await;
    init(&fixture, &nats);
    let project = fixture.path("project");
    let mut first = TestWorker::start(&fixture, &nats, "w1", &project).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let mut second = TestWorker::start(&fixture, &nats, "w2", &project).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "say it slowly").await;
    page.until(|it| it.snapshots > 0 && it.contains("say it slowly") && !it.is_idle()).await;
    until("the agent asks the model", async || !fixture.api.requests().is_empty()).await;
    server.prompt(&session, "and then this").await;

    first.kill().await;
    let (status, said) =
        server.post(&format!("/sessions/{session}/move"), json!({ "to": "nobody" })).await;
    assert_eq!(status, 409, "{said}");
    let (status, said) =
        server.post(&format!("/sessions/{session}/move"), json!({ "to": "w2" })).await;
    assert_eq!(status, 204, "{said}");
    // The prompt that waited is answered there, without being sent again.
    page.until(|it| it.contains("answered elsewhere") && it.is_idle()).await;
    assert!(page.page.contains("taken the session over"), "{}", page.page.html());

    // The old agent still runs, and says something that is not shown.
    fixture.api.open("late");
    let live = first.data().join("live");
    until("the old agent speaks", async || is_in_files(&live, "one two")).await;
    assert!(!page.page.contains("one two"));
    first.restart().await;
    page.until(|it| it.contains("had also recorded") && it.contains("one two")).await;
    let left = live.join(&session);
    until("the old copy is gone", async || !left.exists()).await;

    // It can come back, this time without any loss.
    let moved = fixture
        .program(&["sessions", "move", &session[..13], "--to", "w1", "--nats", &nats, "--json"])
        .output()
        .expect("it starts");
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    let said: Value = serde_json::from_slice(&moved.stdout).expect("JSON");
    assert_eq!(said, json!({ "session": session, "worker": "w1" }));
    page.until(|it| it.contains("Moved from worker")).await;
    second.kill().await;
    server.prompt(&session, "once more").await;
    page.until(|it| it.contains("and back") && it.is_idle()).await;
    let (started, ended) = turns(&server, &session).await;
    assert_eq!((started, ended), (3, 3));
    assert_eq!(page.page.html().matches("had also recorded").count(), 1);
}

/// How long a session may be without a worker: until the lease has expired, then as long as the workers were
/// told to wait, and then what a busy machine needs.
const TAKEN_OVER: Duration = Duration::from_mins(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_killed_worker_goes_on_elsewhere_by_itself_if_workers_were_told_to() {
    let Some(servers) = servers() else { return };
    let nats = servers.addresses()[0].clone();
    let replies = "api text \"never said\" hold never\napi text \"answered elsewhere\"";
    let fixture = Fixture::new(replies).await;
    init(&fixture, &nats);
    let project = fixture.path("project");
    let takeover = &["--takeover", "30s"];
    let mut first = TestWorker::start_with(&fixture, &nats, "w1", &project, takeover).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let _second = TestWorker::start_with(&fixture, &nats, "w2", &project, takeover).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "say it slowly").await;
    until("the agent asks the model", async || !fixture.api.requests().is_empty()).await;
    server.prompt(&session, "and then this").await;

    first.kill().await;
    let killed = Instant::now();
    until_within(TAKEN_OVER, "another worker has it", async || {
        server.get(&format!("/sessions/{session}")).await["worker"] == "w2"
    })
    .await;
    println!("taken over {:?} after the worker was killed", killed.elapsed());
    assert!(killed.elapsed() > Duration::from_secs(30), "not before its time");
    // The prompt that waited is answered there, and the one that was cut off is not sent again.
    page.until(|it| it.contains("answered elsewhere") && it.is_idle()).await;
    let (started, ended) = turns(&server, &session).await;
    assert_eq!((started, ended), (2, 2));
}

/// How soon a gateway shows that a worker was killed: its lease lasts 15 seconds, and the servers look for expired
/// keys once a second.
const AWAY: Duration = Duration::from_secs(16);

#[tokio::test]
async fn the_real_cli_remembers_on_another_machine_with_its_tree() {
    match real_cli::command().await {
        Ok(_) => real_cli::without_network("fleet_moves::real_cli_on_another_machine"),
        Err(why) => real_cli::skip(&why),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it runs inside the test above, without a network"]
async fn real_cli_on_another_machine() {
    let Some(servers) = servers() else { return };
    let nats = servers.addresses()[0].clone();
    let replies = "api text \"noted\"\napi text \"cut off words\" hold late after 1\napi text \"it was forty-two\"";
    let fixture = Fixture::new(replies).await;
    let command = real_cli::command().await.expect("it was there just now");
    let words: Vec<String> =
        command.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    fixture.set_agent(&format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" ")));
    init(&fixture, &nats);
    let (project, elsewhere) = (fixture.path("project"), fixture.path("elsewhere"));
    std::fs::create_dir(&elsewhere).expect("a directory");
    for arguments in [&["init", "-q", "-b", "work"][..], &["add", "."], &["commit", "-qm", "first"]]
    {
        if arguments[0] == "add" {
            std::fs::write(project.join("kept"), "committed").expect("a file");
            std::fs::write(project.join(".gitignore"), "secret\n").expect("a file");
        }
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
        assert!(git.current_dir(&project).status().expect("git").success());
    }
    std::fs::write(project.join("kept"), "changed").expect("a file");
    std::fs::write(project.join("new"), "untracked").expect("a file");
    std::fs::write(project.join("secret"), "ignored").expect("a file");

    let mut first = TestWorker::start(&fixture, &nats, "w1", &project).await;
    let _second = TestWorker::start(&fixture, &nats, "w2", &elsewhere).await;
    let server = gateway(&fixture, &nats).await;
    let session = server.session(&fixture).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "remember forty-two").await;
    page.until(|it| it.snapshots > 0 && it.contains("noted") && it.is_idle()).await;
    let config = NatsConfig {
        servers: vec![nats.clone()],
        credentials: None,
        authorities: None,
        certificate: None,
        name: "test".to_owned(),
    };
    let bus = NatsBus::connect(&config).await.expect("the servers");
    for part in ["transcript", "tree"] {
        let name = format!("files/{session}/{part}");
        until(part, async || bus.get_object(&name).await.is_ok_and(|it| it.is_some())).await;
    }

    // The worker is killed in the middle of a turn.
    server.prompt(&session, "begin to work").await;
    until("the agent works", async || {
        let asked = fixture.api.requests();
        asked.iter().any(|it| it.body.to_string().contains("begin to work"))
    })
    .await;
    page.until(|it| it.contains("begin to work") && !it.is_idle()).await;
    first.kill().await;
    let killed = Instant::now();
    until("the worker is away", async || {
        server.get(&format!("/sessions/{session}")).await["worker_away"] == true
    })
    .await;
    let away = killed.elapsed();
    println!("the gateway shows it as away {away:?} after the worker was killed");
    assert!(away <= AWAY, "{away:?}");
    let (status, said) =
        server.post(&format!("/sessions/{session}/move"), json!({ "to": "w2" })).await;
    assert_eq!(status, 204, "{said}");
    println!("taken over {:?} after the worker was killed", killed.elapsed());
    page.until(|it| it.contains("goes on in a clone")).await;
    server.prompt(&session, "what was it").await;
    page.until(|it| it.contains("it was forty-two") && it.is_idle()).await;
    let asked = fixture.api.requests();
    let last = asked
        .iter()
        .rev()
        .find(|it| it.body.to_string().contains("what was it"))
        .expect("a request");
    assert!(last.body.to_string().contains("remember forty-two"), "it remembers");

    let shown: Value = server.get(&format!("/sessions/{session}")).await;
    let directory = PathBuf::from(shown["cwd"].as_str().expect("a directory"));
    assert!(directory.starts_with(elsewhere.canonicalize().expect("a path")), "{shown}");
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap_or_default();
    assert_eq!(
        (read("kept"), read("new"), read("secret")),
        ("changed".into(), "untracked".into(), String::new())
    );
    let mut git = Command::new("git");
    git.args(["status", "--porcelain", "--branch"]).current_dir(&directory);
    let status = git.output().expect("git");
    assert_eq!(String::from_utf8_lossy(&status.stdout), "## work\n M kept\n?? new\n");
    // The checkout of the first machine is as it was.
    assert_eq!(std::fs::read_to_string(project.join("kept")).expect("a file"), "changed");

    // The old agent still runs, and says something that is not shown until its worker is back. Then it is ended.
    fixture.api.open("late");
    let live = first.data().join("live");
    until("the old agent speaks", async || is_in_files(&live, "cut off words")).await;
    assert!(!page.page.contains("cut off words"));
    first.restart().await;
    page.until(|it| it.contains("had also recorded") && it.contains("cut off words")).await;
    let left = live.join(&session);
    until("the old agent is ended and its copy gone", async || !left.exists()).await;
    let shown: Value = server.get(&format!("/sessions/{session}")).await;
    assert_eq!((&shown["worker"], &shown["worker_away"]), (&json!("w2"), &json!(false)));
    let (started, ended) = turns(&server, &session).await;
    assert_eq!((started, ended), (3, 3));
}
