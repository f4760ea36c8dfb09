//! A fleet: a worker, released NATS servers, and gateways that are killed.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use fleet::bus::nats::{NatsBus, NatsConfig};
use fleet::bus::{Bus as _, Expected, KeyTable};
use journal::{Entry, Journal, Seq, SessionId, SessionStatus};
use reqwest::Method;
use serde_json::json;
use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;
use tokio::time::timeout;
use uuid::Uuid;

use crate::environment::ServerProcess;
use crate::fixture::{Fixture, TIMEOUT, TestServer};

/// A worker of a fleet. Its agents end with it.
struct TestWorker<'a> {
    fixture: &'a Fixture,
    process: ServerProcess,
    /// The port of its figures.
    metrics: u16,
}

impl<'a> TestWorker<'a> {
    async fn start(fixture: &'a Fixture, nats: &str) -> Self {
        let agent = fixture.path("agent").display().to_string();
        // Another program may take it before the worker does, which is not likely.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let metrics = port.expect("a free port").port();
        let command = fixture.program(&[
            "worker",
            "--nats",
            nats,
            "--name",
            "w1",
            "--slots",
            "2",
            "--claude",
            &agent,
            "--root",
            &fixture.project(),
            "--metrics",
            &metrics.to_string(),
            "--json",
        ]);
        let process = fixture.spawn(command).await;
        assert_eq!((&process.ready["name"], &process.ready["slots"]), (&json!("w1"), &json!(2)));
        Self { fixture, process, metrics }
    }

    /// A figure of the worker.
    async fn figure(&self, name: &str) -> f64 {
        let url = format!("http://127.0.0.1:{}/metrics", self.metrics);
        let text = test_support::http_client().get(url).send().await.expect("an answer");
        let text = text.text().await.expect("a text");
        let line = format!("towpath_worker_{name}{{worker=\"w1\"}} ");
        let value = text.lines().find_map(|it| it.strip_prefix(line.as_str()));
        value.unwrap_or_else(|| panic!("no {name}: {text}")).parse().expect("a number")
    }
}

impl Drop for TestWorker<'_> {
    fn drop(&mut self) {
        let _ = self.process.child.start_kill();
        let data = self.fixture.path("data/worker").display().to_string();
        for _ in 0..2 {
            let _ = self.fixture.program(&["serve", "--stop", "--data", &data]).output();
        }
    }
}

async fn gateway(fixture: &Fixture, nats: &str, data: &str) -> TestServer {
    let data = fixture.path(data).display().to_string();
    fixture.start(fixture.command(&["--nats", nats, "--data", &data])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_worker_is_driven_through_any_gateway() {
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(program) = packages::or_skip(program) else { return };
    let servers = NatsServers::start(&program, &NatsServerOptions::single());
    let nats = servers.addresses()[0].clone();
    let replies =
        "api tool Bash {\"command\":\"touch made\"}\napi text \"made it\"\napi text \"and again\"";
    let fixture = Fixture::new(replies).await;
    let created = fixture.program(&["fleet", "init", "--single", "--nats", &nats]).output();
    assert!(created.expect("it starts").status.success());
    let _worker = TestWorker::start(&fixture, &nats).await;
    let mut first = gateway(&fixture, &nats, "first").await;

    // The worker decides where sessions may work.
    let (status, refused) = first.post("/sessions", json!({ "cwd": "/" })).await;
    assert!((400..500).contains(&status), "{status}: {refused}");
    let session = first.session(&fixture).await;
    let follow = format!("/sessions/{session}/follow");
    let mut page = first.follow(&follow).await;
    first.prompt(&session, "make it").await;
    page.until(|it| it.snapshots > 0 && !it.requests().is_empty()).await;
    assert!(!fixture.path("project/made").exists());

    // The gateway is killed while the agent waits; another one, with nothing of its own, goes on.
    first.child.kill().await.expect("it can be killed");
    let second = gateway(&fixture, &nats, "second").await;
    let mut page = second.follow(&follow).await;
    page.until(|it| it.snapshots > 0 && !it.requests().is_empty()).await;
    let request = page.page.requests()[0]["id"].as_str().expect("an id").to_owned();
    let answer = format!("/sessions/{session}/requests/{request}");
    let (status, answered) = second.post(&answer, json!({ "decision": "allow" })).await;
    assert_eq!((status, answered["outcome"].as_str()), (200, Some("allowed")), "{answered}");
    let (status, problem) = second.post(&answer, json!({ "decision": "deny" })).await;
    assert_eq!((status, &problem["resolution"]["outcome"]), (409, &json!("allowed")), "{problem}");
    page.until(|it| it.contains("made it") && it.is_idle()).await;
    assert!(fixture.path("project/made").exists());
    second.prompt(&session, "once more").await;
    page.until(|it| it.contains("and again") && it.is_idle()).await;

    // Every gateway shows the same.
    let third = gateway(&fixture, &nats, "third").await;
    let mut other = third.follow(&follow).await;
    other.until(|it| it.snapshots > 0 && it.contains("and again") && it.is_idle()).await;
    assert_eq!(other.page.items, page.page.items);

    let files = second
        .ask(Method::GET, &format!("/sessions/{session}/files/content?path=made"), None)
        .await;
    assert_eq!(files.status(), 200);
    let deleted = second.ask(Method::DELETE, &format!("/sessions/{session}"), None).await;
    assert!(deleted.status().is_success(), "{}", deleted.status());
}

/// The lines of a session in a journal, with their numbers and bytes.
async fn lines(path: &Path, session: SessionId) -> Vec<Entry> {
    let journal = Journal::open(path).expect("a journal").journal;
    let mut lines: Vec<Entry> = Vec::new();
    loop {
        let after = lines.last().map_or(Seq(0), |it| it.seq);
        let more = journal.read(session, after, 10_000).await.expect("entries");
        if more.is_empty() {
            return lines;
        }
        lines.extend(more);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_gateway_was_killed_in_the_middle_of_an_answer_the_next_has_what_one_machine_would()
{
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(program) = packages::or_skip(program) else { return };
    let servers = NatsServers::start(&program, &NatsServerOptions::cluster());
    let nats = servers.addresses().join(",");
    let answer =
        "# Title\\n\\nSome **bold** words and `code`, then more of them until the very end";
    let replies = format!(
        "api tool Bash {{\"command\":\"touch made\"}}\napi text \"{answer}\" hold middle after 6"
    );
    let fixture = Fixture::new(&replies).await;
    let created = fixture.program(&["fleet", "init", "--nats", &nats]).output();
    assert!(created.expect("it starts").status.success());
    let worker = TestWorker::start(&fixture, &nats).await;
    let mut first = gateway(&fixture, &nats, "first").await;
    let session = first.session(&fixture).await;
    let follow = format!("/sessions/{session}/follow");
    let mut page = first.follow(&follow).await;
    first.prompt(&session, "say it").await;
    page.until(|it| it.snapshots > 0 && !it.requests().is_empty()).await;
    let request = page.page.requests()[0]["id"].as_str().expect("an id").to_owned();
    let answer = format!("/sessions/{session}/requests/{request}");
    let (status, said) = first.post(&answer, json!({ "decision": "allow" })).await;
    assert_eq!(status, 200, "{said}");
    page.until(|it| it.contains("Some") && !it.is_idle()).await;
    first.child.kill().await.expect("it can be killed");

    // Half of the answer is there, line for line and byte for byte as the worker has it.
    let second = gateway(&fixture, &nats, "second").await;
    let mut page = second.follow(&follow).await;
    page.until(|it| it.snapshots > 0 && it.contains("Some") && !it.is_idle()).await;
    assert!(!page.page.contains("the very end"));
    let id = SessionId(session.parse().expect("an id"));
    let own = fixture.path("data/worker/journal.db");
    let copy = fixture.path("second/journal.db");
    let until_equal = async || {
        while lines(&own, id).await != lines(&copy, id).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, until_equal()).await.expect("the copy has every line");
    assert!(lines(&own, id).await.len() > 10);

    fixture.api.open("middle");
    page.until(|it| it.contains("the very end") && it.is_idle()).await;
    // Each removes the streamed text of its own journal when the turn is over.
    timeout(TIMEOUT, until_equal()).await.expect("the copy has every line");
    // What one machine without a fleet shows of the worker's own journal.
    let alone = fixture.path("alone");
    std::fs::create_dir(&alone).expect("a directory");
    for name in ["journal.db", "journal.db-wal"] {
        let from = fixture.path("data/worker").join(name);
        if from.exists() {
            std::fs::copy(from, alone.join(name)).expect("a copy");
        }
    }
    let (alone, agent) = (alone.display().to_string(), fixture.path("agent").display().to_string());
    let arguments = ["--data", &alone, "--claude", &agent, "--root", &fixture.project()];
    let single = fixture.start(fixture.command(&arguments)).await;
    let mut other = single.follow(&follow).await;
    other.until(|it| it.snapshots > 0 && it.contains("the very end")).await;
    drop(worker);
    let third = gateway(&fixture, &nats, "third").await;
    let mut fresh = third.follow(&follow).await;
    fresh.until(|it| it.snapshots > 0 && it.contains("the very end") && it.is_idle()).await;
    assert_eq!(fresh.page.items, other.page.items, "the document of one machine");
    assert_eq!(page.page.items, other.page.items, "also where the answer was followed");
}

/// How long the servers are away, in seconds. `TOWPATH_TEST_OUTAGE_SECONDS` sets another time.
const OUTAGE_SECONDS: u64 = 60;

/// How soon after the return of the servers a gateway has everything, on a machine that has time for it.
const CATCH_UP: Duration = Duration::from_secs(5);

/// How long the servers take to store a message if the machine has time, and how much slower than that it may be.
const WRITE: Duration = Duration::from_millis(15);
const MAX_SLOWDOWN: f64 = 4.0;

/// How much slower the servers are than on a machine that has time, because others use its disk and its cores.
async fn slowdown(bus: &NatsBus) -> f64 {
    let mut times = Vec::new();
    for number in 0..40u32 {
        let begun = Instant::now();
        let value = number.to_string().into();
        let put = bus.put(KeyTable::Roles, "a-test", value, Expected::Anything, None);
        put.await.expect("the servers store it");
        times.push(begun.elapsed());
    }
    times.sort();
    (times[times.len() / 2].as_secs_f64() / WRITE.as_secs_f64()).clamp(1.0, MAX_SLOWDOWN)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_never_waits_for_servers_that_are_away_and_everything_comes_after_their_return() {
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(program) = packages::or_skip(program) else { return };
    let mut servers = NatsServers::start(&program, &NatsServerOptions::cluster());
    let nats = servers.addresses().join(",");
    let seconds = std::env::var("TOWPATH_TEST_OUTAGE_SECONDS").ok();
    let seconds = seconds.and_then(|it| it.parse().ok()).unwrap_or(OUTAGE_SECONDS);
    let outage = Duration::from_secs(seconds);
    // At ten words a second, the answer takes most of that time.
    let words: Vec<String> = (1..=seconds * 7).map(|number| format!("word{number:04}")).collect();
    let (text, last_word) = (words.join(" "), words.last().expect("a word").clone());
    let fixture =
        Fixture::new(&format!("api text \"{text}\" slow 100\napi text \"after it\"")).await;
    let created = fixture.program(&["fleet", "init", "--nats", &nats]).output();
    assert!(created.expect("it starts").status.success());
    let worker = TestWorker::start(&fixture, &nats).await;
    let server = gateway(&fixture, &nats, "gateway").await;
    let config = NatsConfig {
        servers: servers.addresses(),
        credentials: None,
        authorities: None,
        certificate: None,
        name: "test".to_owned(),
    };
    let bus = NatsBus::connect(&config).await.expect("the servers");
    let before = slowdown(&bus).await;
    let mut git = std::process::Command::new("git");
    assert!(git.args(["init", "-q"]).arg(fixture.project()).status().expect("git").success());
    let session = server.session(&fixture).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "count").await;
    page.until(|it| it.snapshots > 0 && it.contains("word0002")).await;

    servers.kill_all();
    let killed = Instant::now();
    std::fs::write(fixture.path("project/made"), "while they are away").expect("a file");
    assert!(!page.page.contains(&last_word), "the servers are away in the middle of the answer");
    // The agent finishes meanwhile, as the worker's own journal says.
    let id = SessionId(session.parse().expect("an id"));
    let path = fixture.path("data/worker/journal.db");
    let own = Journal::open(&path).expect("the journal of the worker").journal;
    let idle = async {
        loop {
            let record = own.session(id).await.expect("the journal").expect("the session");
            if record.status == SessionStatus::Idle && record.turn == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(outage + TIMEOUT, idle).await.expect("the turn ends while the servers are away");
    println!("the turn ended {:?} after the servers were killed", killed.elapsed());
    assert!(worker.figure("unshipped_sessions").await > 0.0);
    assert!(worker.figure("shipping_lag_seconds").await > 0.0);
    let refused = json!({ "id": Uuid::new_v4(), "text": "no answer comes" });
    let (status, problem) = server.post(&format!("/sessions/{session}/prompts"), refused).await;
    assert!(status >= 400, "a prompt is refused, not queued: {problem}");
    tokio::time::sleep(outage.saturating_sub(killed.elapsed())).await;
    assert!(!page.page.contains(&last_word));

    let started = Instant::now();
    servers.restart_all();
    let back = Instant::now();
    page.until(|it| it.contains(&last_word) && it.is_idle()).await;
    let took = back.elapsed();
    let slowdown = slowdown(&bus).await.max(before);
    println!(
        "everything was there {took:?} after the servers were ready, {:?} after they were started; slowdown {slowdown:.1}",
        started.elapsed()
    );
    assert!(took < CATCH_UP.mul_f64(slowdown), "{took:?}, slowdown {slowdown:.1}");
    // The working tree too, although the turn ended while it could not be saved.
    let saved = async {
        for part in ["turn", "tree"] {
            let name = format!("files/{session}/{part}");
            while !bus.get_object(&name).await.is_ok_and(|it| it.is_some()) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    };
    timeout(TIMEOUT, saved).await.expect("the working tree is saved");
    let html = page.page.html();
    let places: Vec<usize> =
        words.iter().map(|word| html.find(word.as_str()).expect("every word")).collect();
    assert!(places.is_sorted(), "in order: {places:?}");
    server.prompt(&session, "and now").await;
    page.until(|it| it.contains("after it") && it.is_idle()).await;
    assert!(worker.figure("appends_total").await > 0.0);
    assert!(worker.figure("reconnects_total").await >= 1.0);
}
