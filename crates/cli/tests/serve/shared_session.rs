//! One session in two processes: a server and `towpath run`.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Child;

use crate::fixture::{Fixture, TIMEOUT, TestServer};

/// `towpath run`, without a terminal.
fn run(fixture: &Fixture, arguments: &[&str]) -> Child {
    let agent = fixture.path("agent").display().to_string();
    let serve = fixture.command(&[]);
    let mut run = std::process::Command::new(serve.get_program());
    run.args(["run", "--claude", &agent]).args(arguments);
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => run.env(name, value),
            None => run.env_remove(name),
        };
    }
    run.current_dir(fixture.path("project"));
    run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    tokio::process::Command::from(run).kill_on_drop(true).spawn().expect("the binary starts")
}

/// What a run printed, and what it reported.
async fn output(run: Child) -> (String, String) {
    let output = tokio::time::timeout(TIMEOUT, run.wait_with_output()).await;
    let output = output.expect("in time").expect("an end");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    (stdout, stderr)
}

fn kill(server: &TestServer) {
    let pid = server.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, Signal::KILL).expect("it can be killed");
}

#[tokio::test]
async fn a_terminal_joins_a_session_that_a_server_drives() {
    let fixture = Fixture::new("api text \"from the page\"\napi text \"from the terminal\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "first").await;
    page.until(|it| it.snapshots > 0 && it.contains("from the page") && it.is_idle()).await;
    let (stdout, _) = output(run(&fixture, &["--resume", &session, "second"])).await;
    assert!(stdout.contains("from the terminal"), "{stdout}");
    page.until(|it| it.contains("second") && it.contains("from the terminal") && it.is_idle())
        .await;
    // The server still drives it, and its agent was not stopped.
    let shown = server.get(&format!("/sessions/{session}")).await;
    assert_eq!((&shown["turn"], &shown["status"]), (&json!(2), &json!("idle")));
    let (status, _) = server.post(&format!("/sessions/{session}/wake"), json!({})).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_page_joins_a_session_that_a_terminal_drives() {
    let fixture =
        Fixture::new("api text \"one two three\" hold gate after 1\napi text \"queued\"").await;
    let server = fixture.serve().await;
    let running = run(&fixture, &["count"]);
    let session = loop {
        let all = server.get("/sessions").await;
        match all["sessions"][0]["id"].as_str() {
            Some(id) => break id.to_owned(),
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    page.until(|it| it.snapshots > 0 && it.contains("one")).await;
    // The terminal's process takes the prompt. It leaves after its own turn, and the server goes on.
    server.prompt(&session, "and then").await;
    fixture.api.open("gate");
    let (stdout, _) = output(running).await;
    assert!(stdout.contains("one two three"), "{stdout}");
    // Whichever process ran it may have stopped the idle agent.
    page.until(|it| it.contains("queued") && it.parts["status"]["phase"]["kind"] != "working")
        .await;
    assert_eq!(page.page.html().matches("and then").count(), 1);
    assert_eq!(server.get(&format!("/sessions/{session}")).await["turn"], 2);
}

#[tokio::test]
async fn a_terminal_goes_on_when_the_server_is_killed() {
    let fixture = Fixture::new("api text \"one two three four\" hold gate after 2").await;
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    let running = run(&fixture, &["--resume", &session, "count"]);
    page.until(|it| it.snapshots > 0 && it.contains("one")).await;
    kill(&server);
    server.child.wait().await.expect("an end");
    fixture.api.open("gate");
    let (stdout, _) = output(running).await;
    assert_eq!(stdout.matches("one two three four").count(), 1, "{stdout}");
    let server = fixture.serve().await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    page.until(|it| it.snapshots > 0 && it.contains("four")).await;
    assert_eq!(page.page.html().matches("one two three four").count(), 1);
    assert_eq!(server.get(&format!("/sessions/{session}")).await["turn"], 1);
}

#[tokio::test]
async fn a_request_in_a_terminals_session_is_answered_from_a_page() {
    let fixture = Fixture::new(
        "api tool Bash {\"command\":\"touch made\",\"description\":\"x\"}\napi text \"done then\"",
    )
    .await;
    let server = fixture.serve().await;
    let running = run(&fixture, &["--ask", "wait", "make it"]);
    let request = loop {
        let all = server.get("/requests").await;
        match all["requests"].as_array().and_then(|it| it.first()) {
            Some(request) => break request.clone(),
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let (session, id) = (&request["session"], &request["id"]);
    let path = format!(
        "/sessions/{}/requests/{}",
        session.as_str().expect("an id"),
        id.as_str().expect("an id")
    );
    let (status, answered) = server.post(&path, json!({ "decision": "allow" })).await;
    assert!(status < 300, "{status} {answered}");
    let (stdout, _) = output(running).await;
    assert!(stdout.contains("done then"), "{stdout}");
    assert!(fixture.path("project").join("made").exists());
}
