//! `towpath fleet dev`: servers, workers and a gateway from one command, killed and continued.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_support::{nats_servers, packages};
use tokio::time::timeout;
use uuid::Uuid;

use crate::fixture::{Fixture, TIMEOUT, TestServer};

/// Marks all processes of a test in their environment.
const MARK: &str = "TOWPATH_TEST_FLEET";

/// A fleet on this machine, in an environment in which nothing else is.
struct DevFleet {
    fixture: Fixture,
    nats: PathBuf,
    mark: String,
}

impl DevFleet {
    /// None if there is no NATS server.
    async fn new() -> Option<Self> {
        let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
        let nats = packages::or_skip(program)?;
        let fixture = Fixture::new("api text \"not used\"").await;
        Some(Self { fixture, nats, mark: Uuid::new_v4().to_string() })
    }

    /// The program with the player's own replies.
    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = self.fixture.program(arguments);
        command.env(MARK, &self.mark).env("TOWPATH_NATS_SERVER", &self.nats);
        command.env_remove("ANTHROPIC_BASE_URL").env_remove("ANTHROPIC_API_KEY");
        command
    }

    async fn start(&self, more: &[&str]) -> TestServer {
        let data = self.fixture.path("fleet").display().to_string();
        let project = self.fixture.project();
        let arguments = ["fleet", "dev", "--demo", "--data", &data, "--root", &project];
        self.fixture.start(self.program(&[&arguments, more].concat())).await
    }

    /// What still runs of everything that was started here.
    fn processes(&self) -> Vec<String> {
        let mark = format!("{MARK}={}", self.mark);
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            if read("environ").split(|byte| *byte == 0).any(|it| it == mark.as_bytes()) {
                let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
                found.push(format!("{} {command}", entry.path().display()));
            }
        }
        found
    }

    /// Waits until the command has said something on stderr.
    async fn said(&self, words: &str) {
        let wait = async {
            while !self.fixture.log().contains(words) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let said = timeout(TIMEOUT, wait).await;
        assert!(said.is_ok(), "`{words}` was not said: {}", self.fixture.log());
    }

    /// Stops the command as a terminal or systemd does. Nothing survives.
    async fn stop(&self, mut fleet: TestServer, signal: Signal) {
        let pid = i32::try_from(fleet.child.id().expect("it runs")).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("a process id"), signal).expect("it runs");
        let status = timeout(TIMEOUT, fleet.child.wait()).await.expect("in time").expect("an end");
        assert_eq!(status.code(), Some(0), "{}", self.fixture.log());
        let left = self.processes();
        assert!(left.is_empty(), "{left:#?}\n{}", self.fixture.log());
    }
}

fn kill(pid: &Value) {
    let pid = pid.as_i64().and_then(|it| i32::try_from(it).ok()).and_then(Pid::from_raw);
    kill_process(pid.expect("a process id"), Signal::KILL).expect("it runs");
}

impl TestServer {
    /// A new session on a worker.
    async fn session_on(&self, fixture: &Fixture, worker: &str) -> String {
        let body = json!({ "cwd": fixture.project(), "worker": worker });
        let (status, made) = self.post("/sessions", body).await;
        assert_eq!(status, 201, "{made}");
        let id = made["id"].as_str().expect("an id").to_owned();
        let session = self.get(&format!("/sessions/{id}")).await;
        assert_eq!((&session["worker"], &session["worker_away"]), (&json!(worker), &json!(false)));
        id
    }

    /// Has the player ask for a permission, and allows it.
    async fn ask_and_allow(&self, session: &str) {
        let mut page = self.follow(&format!("/sessions/{session}/follow")).await;
        self.prompt(session, "ask for a permission").await;
        page.until(|it| it.snapshots > 0 && !it.requests().is_empty()).await;
        let request = page.page.requests()[0]["id"].as_str().expect("an id").to_owned();
        let answer = format!("/sessions/{session}/requests/{request}");
        let (status, answered) = self.post(&answer, json!({ "decision": "allow" })).await;
        assert_eq!((status, answered["outcome"].as_str()), (200, Some("allowed")), "{answered}");
        page.until(|it| it.is_idle() && it.requests().is_empty()).await;
    }

    async fn workers(&self) -> Vec<Value> {
        self.get("/workers").await["workers"].as_array().expect("a list").clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_on_this_machine_survives_kills_continues_with_its_data_and_leaves_nothing_behind()
{
    let Some(dev) = DevFleet::new().await else { return };
    let fixture = &dev.fixture;
    let mut fleet = dev.start(&[]).await;
    let ready = fleet.ready.clone();
    let names: Vec<_> =
        ready["workers"].as_array().expect("workers").iter().map(|it| &it["name"]).collect();
    assert_eq!(names, [&json!("w1"), &json!("w2")], "{ready}");
    let workers = fleet.workers().await;
    assert_eq!(workers.len(), 2, "{workers:?}");
    for worker in &workers {
        assert_eq!((&worker["connected"], &worker["slots"]), (&json!(true), &json!(4)), "{worker}");
        assert_eq!(worker["version"], env!("CARGO_PKG_VERSION"));
    }

    // Each worker runs a session; without a wish the least loaded one is taken.
    let first = fleet.session_on(fixture, "w1").await;
    let placed = fleet.session(fixture).await;
    assert_eq!(fleet.get(&format!("/sessions/{placed}")).await["worker"], "w2");
    let second = fleet.session_on(fixture, "w2").await;
    let (status, refused) =
        fleet.post("/sessions", json!({ "cwd": fixture.project(), "worker": "w9" })).await;
    assert_eq!(status, 409, "{refused}");
    assert!(
        refused["detail"].as_str().is_some_and(|it| it.contains("no worker `w9`")),
        "{refused}"
    );
    for session in [&first, &second] {
        fleet.ask_and_allow(session).await;
    }

    let metrics = |token: &str| {
        let request = fleet.http.get(format!("{}/metrics", fleet.url)).bearer_auth(token);
        async move { request.send().await.expect("an answer") }
    };
    assert_eq!(metrics("wrong").await.status(), 401);
    let text = metrics(&fleet.token).await.text().await.expect("a text");
    assert!(text.contains("towpath_workers{state=\"connected\"} 2"), "{text}");
    assert!(text.contains("towpath_worker_sessions{worker=\"w1\",pool=\"\"} 1"), "{text}");

    // A process that is killed is reported, and not started again.
    kill(&ready["workers"][1]["pid"]);
    dev.said("worker w2").await;
    kill(&ready["pid"]);
    dev.said("gateway (process").await;

    // Users of the output can connect their own gateway.
    let nats = ready["nats"][0].as_str().expect("an address").to_owned();
    let data = fixture.path("other").display().to_string();
    let other = fixture.start(dev.program(&["serve", "--nats", &nats, "--data", &data])).await;
    let listed = other.get("/sessions").await;
    assert_eq!(listed["sessions"].as_array().expect("a list").len(), 3, "{listed}");
    other.ask_and_allow(&first).await;
    let (_, address) = nats.split_once('@').expect("the address has a password");
    let anonymous = format!("nats://{address}");
    let refused = dev.program(&["fleet", "status", "--nats", &anonymous]).output();
    assert_eq!(refused.expect("it runs").status.code(), Some(2));
    drop(other);
    assert!(fleet.child.try_wait().expect("a status").is_none(), "it goes on");
    dev.stop(fleet, Signal::TERM).await;

    // The second time everything is still there.
    let again = dev.start(&[]).await;
    let listed = again.get("/sessions").await;
    assert_eq!(listed["sessions"].as_array().expect("a list").len(), 3, "{listed}");
    let mut page = again.follow(&format!("/sessions/{second}/follow")).await;
    again.prompt(&second, "think about it").await;
    page.until(|it| it.snapshots > 0 && it.contains("I have thought") && it.is_idle()).await;
    let mut page = again.follow(&format!("/sessions/{first}/follow")).await;
    again.prompt(&first, "a long answer please").await;
    page.until(|it| it.snapshots > 0 && !it.is_idle()).await;
    // An agent that works is ended, too.
    dev.stop(again, Signal::INT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nats_server_that_is_missing_or_too_old_is_refused_with_what_to_do() {
    let fixture = Fixture::new("api text \"not used\"").await;
    let run = async |program: &Path| {
        let program = program.display().to_string();
        let arguments = ["fleet", "dev", "--demo", "--json", "--nats-server", &program];
        let mut command = tokio::process::Command::from(fixture.program(&arguments));
        let output = timeout(TIMEOUT, command.output()).await.expect("in time").expect("it runs");
        assert!(output.stdout.is_empty(), "{output:?}");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&fixture.path("none")).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not found") && said.contains("TOWPATH_NATS_SERVER"), "{said}");
    let old = fixture.path("old");
    std::fs::write(&old, "#!/bin/sh\necho nats-server: v2.10.27\n").expect("a script");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&old, executable).expect("an executable script");
    let (code, said) = run(&old).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("2.10.27") && said.contains("2.12") && said.contains("hint"), "{said}");
}

#[tokio::test]
async fn a_server_without_a_fleet_has_no_workers_and_refuses_to_place_a_session() {
    let fixture = Fixture::new("api text \"not used\"").await;
    let server = fixture.serve().await;
    assert_eq!(
        server.get("/workers").await,
        json!({ "connection_lost_since": null, "workers": [] })
    );
    let session = server.session(&fixture).await;
    assert_eq!(server.get(&format!("/sessions/{session}")).await["worker"], Value::Null);
    let body = json!({ "cwd": fixture.project(), "worker": "w1" });
    let response = server.ask(Method::POST, "/sessions", Some(body)).await;
    assert_eq!(response.status(), 400);
}
