//! Lines of an agent that no program should print: values that nest very deep, requests without an id.

use std::fmt::Write as _;

use serde_json::json;
use tokio::time::timeout;

use crate::fixture::{Fixture, TIMEOUT, TestServer};

/// An agent that prints these lines when it starts a turn.
async fn with_lines(replies: &str, lines: &str) -> Fixture {
    let fixture = Fixture::new(replies).await;
    let file = fixture.path("lines");
    std::fs::write(&file, lines).expect("a file");
    fixture.set_agent(&format!(
        "#!/bin/sh\n'{}' play \"$@\" | sed -u '/\"subtype\":\"init\"/r {}'\n",
        env!("CARGO_BIN_EXE_towpath"),
        file.display()
    ));
    fixture
}

fn deep_lines() -> String {
    let mut lines = String::new();
    for levels in [8_000, 1_000_000] {
        for (open, close) in [("{\"error\":", "}"), ("[", "]")] {
            let (open, close) = (open.repeat(levels), close.repeat(levels));
            let _ = writeln!(lines, "{{\"type\":\"error\",\"error\":{open}1{close}}}");
            // It is cut off in the middle, as by a full disk.
            let _ = writeln!(lines, "{{\"type\":\"error\",\"error\":{open}");
        }
    }
    lines
}

async fn stop(fixture: &Fixture) -> (Option<i32>, String) {
    let mut stop = tokio::process::Command::from(fixture.command(&["--stop"]));
    let output = timeout(TIMEOUT, stop.output()).await.expect("in time").expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

async fn shows(server: &TestServer, path: &str) {
    let mut client = server.follow(path).await;
    client.until(|page| page.snapshots > 0 && page.contains("still here")).await;
}

#[tokio::test]
async fn a_line_that_nests_deep_stops_neither_the_server_nor_the_next_ones() {
    let fixture = with_lines("api text \"still here\"", &deep_lines()).await;
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/follow");
    // One client is there from the beginning, and one comes later.
    let mut client = server.follow(&path).await;
    server.prompt(&session, "go").await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("still here")).await;
    shows(&server, &path).await;
    let lines = server.get(&format!("/sessions/{session}/lines?limit=1000")).await;
    assert!(lines.to_string().contains("{\\\"error\\\":{\\\"error\\\":"), "the lines are recorded");
    // The next server reads them from the journal, whichever way this one has ended.
    server.child.kill().await.expect("it ends");
    let mut server = fixture.serve().await;
    shows(&server, &path).await;
    assert_eq!(server.get(&format!("/sessions/{session}")).await["turn"], 1);
    let (code, said) = stop(&fixture).await;
    assert_eq!(code, Some(0), "{said}");
    let ended = timeout(TIMEOUT, server.child.wait()).await.expect("in time").expect("an end");
    assert_eq!(ended.code(), Some(0));
    let mut server = fixture.serve().await;
    shows(&server, &path).await;
    server.child.kill().await.expect("it ends");
    // Without a server, it ends the agents that are left.
    let (code, said) = stop(&fixture).await;
    assert!(matches!(code, Some(0 | 1)), "{code:?}: {said}");
}

#[tokio::test]
async fn a_request_without_an_id_needs_a_person_and_a_denial_stops_the_turn() {
    let ask = r#"{"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}"#;
    let hold = "api text \"one two three four\" hold gate after 2";
    let fixture = with_lines(hold, &format!("{ask}\n")).await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "go").await;
    client.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let request = client.page.requests()[0].clone();
    assert_eq!(request["kind"], "unknown");
    assert!(request.to_string().contains("Denying it stops the turn"), "{request}");
    let listed = server.get("/sessions").await;
    assert!(listed.to_string().contains("\"waiting\""), "{listed}");
    let id = request["id"].as_str().expect("an id");
    let path = format!("/sessions/{session}/requests/{id}");
    let (status, problem) = server.post(&path, json!({ "decision": "allow" })).await;
    assert_ne!(status, 200, "{problem}");
    let (status, answered) = server.post(&path, json!({ "decision": "deny" })).await;
    assert_eq!((status, answered["outcome"].as_str()), (200, Some("denied")));
    client.until(|page| page.is_idle() && page.requests().is_empty()).await;
}
