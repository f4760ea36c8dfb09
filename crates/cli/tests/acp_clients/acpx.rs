//! `acpx`, the command-line client: one-shot runs and sessions that it keeps.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::environment::TIMEOUT;
use crate::fixture::{ClientOutput, Fixture};
use crate::{programs, real_cli};

/// What `acpx` exits with if it denied a request.
const PERMISSION_DENIED: i32 = 5;

const REPLIES: &str = r#"api for "say hello" always text "Hello from the model"
api for "make a file" always tool Bash {"command":"touch a.made","description":"make a file"}
api for "make no file" always tool Bash {"command":"touch no.made","description":"make a file"}
api for "count slowly" always text "one two three four five" hold gate after 2
api text "Made it.""#;

/// Runs `acpx` with Towpath as the agent; `None` if the test is skipped.
async fn run(fixture: &Fixture, arguments: &[&str]) -> Option<ClientOutput> {
    let mut acpx = programs::node()?.acpx();
    acpx.args(["--agent", &fixture.wrapper().display().to_string(), "--ttl", "60"]).args(arguments);
    Some(fixture.run_client(acpx).await)
}

/// Runs `acpx`, which must succeed, and returns what it printed.
async fn output(fixture: &Fixture, arguments: &[&str]) -> String {
    let output = run(fixture, arguments).await.expect("node was there just now");
    assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}\n{}", fixture.log());
    output.stdout
}

async fn run_once(fixture: &Fixture) {
    let made = |name: &str| fixture.path("project").join(name).exists();
    let printed = output(fixture, &["--approve-all", "exec", "make a file"]).await;
    assert!(printed.contains("Made it.") && made("a.made"), "{printed}");
    let arguments = ["--deny-all", "--format", "json", "exec", "make no file"];
    let denied = run(fixture, &arguments).await.expect("node was there just now");
    assert!([Some(0), Some(PERMISSION_DENIED)].contains(&denied.code), "{denied:?}");
    let lines: Vec<Value> =
        denied.stdout.lines().map(|it| serde_json::from_str(it).expect("a line of JSON")).collect();
    let status = |it: &Value| it["params"]["update"]["status"] == "failed";
    assert!(lines.iter().any(status), "{}", denied.stdout);
    assert!(!made("no.made"));
}

/// A process of `acpx` keeps the agent between commands.
async fn keep_session(fixture: &Fixture) {
    output(fixture, &["sessions", "new"]).await;
    for _ in 0..2 {
        say_hello(fixture).await;
    }
}

async fn say_hello(fixture: &Fixture) {
    let printed = output(fixture, &["--format", "quiet", "say hello"]).await;
    assert_eq!(printed.trim(), "Hello from the model");
}

async fn inspect_session(fixture: &Fixture) {
    let listed = output(fixture, &["--format", "json", "sessions", "list"]).await;
    assert!(listed.contains(&fixture.project()), "{listed}");
    output(fixture, &["status"]).await;
    let history = output(fixture, &["sessions", "history"]).await;
    assert_eq!(history.matches("Hello from the model").count(), 2, "{history}");
    output(fixture, &["set-mode", "acceptEdits"]).await;
    output(fixture, &["set", "mode", "default"]).await;
}

async fn cancel_turn(fixture: &Fixture) {
    let slow = run(fixture, &["--format", "json", "count slowly"]);
    let cancel = async {
        let deadline = Instant::now() + TIMEOUT;
        while !fixture.model_requests().iter().any(|it| it.contains("count slowly")) {
            assert!(Instant::now() < deadline, "the turn did not start");
            sleep(Duration::from_millis(20)).await;
        }
        output(fixture, &["cancel"]).await
    };
    let (slow, _) = tokio::join!(slow, cancel);
    let slow = slow.expect("node was there just now");
    assert!(slow.stdout.contains("\"cancelled\""), "{slow:?}");
    say_hello(fixture).await;
    output(fixture, &["sessions", "close"]).await;
    println!("{} lines conform to the schema", fixture.records.check());
}

#[tokio::test]
async fn acpx_runs_prompts_and_keeps_sessions() {
    if programs::node().is_none() {
        return;
    }
    let fixture = Fixture::new(REPLIES).await;
    run_once(&fixture).await;
    keep_session(&fixture).await;
    inspect_session(&fixture).await;
    cancel_turn(&fixture).await;
}

#[tokio::test]
async fn acpx_runs_prompts_with_the_real_cli() {
    match real_cli::command().await {
        Ok(_) if programs::node().is_some() => {
            real_cli::without_network("acpx::acpx_with_the_real_cli");
        }
        Ok(_) => {}
        Err(why) => real_cli::skip(&why),
    }
}

#[tokio::test]
#[ignore = "the test above runs it without a network"]
async fn acpx_with_the_real_cli() {
    let fixture = Fixture::new(REPLIES).await;
    fixture.set_real_cli(&real_cli::command().await.expect("it was there just now"));
    run_once(&fixture).await;
    keep_session(&fixture).await;
    cancel_turn(&fixture).await;
}
