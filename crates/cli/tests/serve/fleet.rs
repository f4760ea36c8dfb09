//! A fleet: a worker, released NATS servers, and gateways that are killed.

use std::path::Path;

use reqwest::Method;
use serde_json::json;
use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;

use crate::environment::ServerProcess;
use crate::fixture::{Fixture, TestServer};

/// A worker of a fleet. Its agents end with it.
struct TestWorker<'a> {
    fixture: &'a Fixture,
    process: ServerProcess,
}

impl<'a> TestWorker<'a> {
    async fn start(fixture: &'a Fixture, nats: &str) -> Self {
        let agent = fixture.path("agent").display().to_string();
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
            "--json",
        ]);
        let process = fixture.spawn(command).await;
        assert_eq!((&process.ready["name"], &process.ready["slots"]), (&json!("w1"), &json!(2)));
        Self { fixture, process }
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

    // Nothing of the gateway's own machine is shown as if it belonged to the session.
    let files = second
        .ask(Method::GET, &format!("/sessions/{session}/files/content?path=made"), None)
        .await;
    assert!(files.status().is_client_error(), "{}", files.status());
    let deleted = second.ask(Method::DELETE, &format!("/sessions/{session}"), None).await;
    assert!(deleted.status().is_success(), "{}", deleted.status());
}
