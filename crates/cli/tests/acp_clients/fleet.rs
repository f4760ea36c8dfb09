//! `/acp` of the gateways of a fleet: editors use the sessions of its workers through any of them.

use std::path::Path;

use futures_util::SinkExt as _;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::client::text_of;
use crate::conversations::replies;
use crate::fixture::Fixture;
use crate::fleet_environment::FleetEnvironment;
use crate::gateway::{AcpSocket, Server};
use crate::programs;

async fn gateway(fixture: &Fixture, fleet: &FleetEnvironment<'_>, name: &str) -> Server {
    let arguments = fleet.gateway_arguments(name);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Server::start_with(fixture, &arguments).await
}

fn prompt(session: &str, text: &str) -> Value {
    json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] })
}

/// Answers a permission request with one of its options.
async fn answer(client: &mut AcpSocket, question: &Value, kind: &str) {
    let options = question["params"]["options"].as_array().expect("options");
    let option = options.iter().find(|it| it["kind"] == kind).expect("an option");
    let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option["optionId"] } });
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": outcome });
    client.frames.send(Message::text(answer.to_string())).await.expect("the server reads");
}

/// What the agent has said to a client so far.
fn said(client: &AcpSocket) -> String {
    client.seen.iter().filter_map(|it| text_of(it, "agent_message_chunk")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_goes_on_when_its_gateway_is_killed_and_its_permission_is_asked_again() {
    let fixture = Fixture::new(
        "api for \"count\" text \"one two three four\" hold gate after 2\n\
         api for \"make\" tool Bash {\"command\":\"touch made\"}\n\
         api for \"wait\" text \"never said\" hold never after 1\napi text \"Made it.\"",
    )
    .await;
    let root = fixture.path("project");
    let Some(fleet) = FleetEnvironment::start(&fixture, &[("w1", Path::new(&root))]).await else {
        return;
    };
    let mut first = gateway(&fixture, &fleet, "g1").await;
    let cwd = fixture.project();
    let mut client = first.connect(&first.token).await;
    let refused = client.call("session/new", json!({ "cwd": "/", "mcpServers": [] })).await;
    assert!(!refused["error"].is_null(), "the worker has no such root: {refused}");
    let made = client.call("session/new", json!({ "cwd": cwd, "mcpServers": [] })).await;
    let session = made["result"]["sessionId"].as_str().expect("an id").to_owned();
    client.request("session/prompt", prompt(&session, "count")).await;
    client
        .until(|it| text_of(it, "agent_message_chunk").is_some_and(|it| it.contains("two")))
        .await;

    // In the middle of an answer.
    first.process.child.kill().await.expect("it runs");
    client.closed().await;
    fixture.api.open("gate");
    let mut second = gateway(&fixture, &fleet, "g2").await;
    let mut client = second.connect(&second.token).await;
    let listed = client.call("session/list", json!({ "cwd": cwd })).await;
    let sessions = listed["result"]["sessions"].as_array().expect("sessions");
    assert!(sessions.iter().any(|it| it["sessionId"] == session.as_str()), "{listed}");
    let load = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    client.call("session/load", load.clone()).await;
    while said(&client) != "one two three four" {
        client.next().await.expect("more text");
    }

    // While a permission is asked.
    client.request("session/prompt", prompt(&session, "make it")).await;
    client.until(|it| it["method"] == "session/request_permission").await;
    second.process.child.kill().await.expect("it runs");
    client.closed().await;
    let third = gateway(&fixture, &fleet, "g3").await;
    let mut client = third.connect(&third.token).await;
    client.request("session/load", load).await;
    let question = client.until(|it| it["method"] == "session/request_permission").await;
    assert!(!fixture.path("project/made").exists());
    answer(&mut client, &question, "allow_once").await;
    while !said(&client).ends_with("Made it.") {
        client.next().await.expect("more text");
    }
    assert!(fixture.path("project/made").exists());

    // A turn is cancelled on its worker.
    let waiting = client.request("session/prompt", prompt(&session, "wait")).await;
    client
        .until(|it| text_of(it, "agent_message_chunk").is_some_and(|it| it.contains("never")))
        .await;
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
    client.frames.send(Message::text(cancel.to_string())).await.expect("the server reads");
    let ended = client.until(|it| it["id"] == waiting && it["method"].is_null()).await;
    assert_eq!(ended["result"]["stopReason"], "cancelled", "{ended}");
    assert_eq!(fixture.model_requests().iter().filter(|it| it.contains("make it")).count(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk_drives_sessions_of_workers() {
    let Some(node) = programs::node() else { return };
    let fixture = Fixture::new(&replies()).await;
    let root = fixture.path("project");
    let Some(fleet) = FleetEnvironment::start(&fixture, &[("w1", Path::new(&root))]).await else {
        return;
    };
    let server = gateway(&fixture, &fleet, "g1").await;
    for (script, cases) in [
        ("sdk-v1.mjs", &["text", "allow", "deny", "load", "queue"][..]),
        ("sdk-v2.mjs", &["text", "allow", "cancel", "resume"][..]),
    ] {
        let mut client = node.script(script);
        client.args(cases).env("ACP_URL", server.url()).env("ACP_TOKEN", &server.token);
        fixture.run_client(client).await.succeeded();
    }
}
