//! The clients and the check of records with an agent that is not Towpath.
//!
//! What fails with Towpath and not here is Towpath's fault.

use std::process::Command;

use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::programs;
use crate::records::Records;

/// A fixture whose clients start the agent in `foreign-agent.mjs`.
async fn fixture() -> Option<Fixture> {
    let agent = programs::node()?.agent_command("foreign-agent.mjs");
    let fixture = Fixture::new("api text \"not used\"").await;
    fixture.records.wrap(&fixture.wrapper(), &agent);
    Some(fixture)
}

async fn check(client: impl FnOnce() -> Option<Command>, arguments: &[&str]) -> Option<String> {
    let fixture = fixture().await?;
    let mut client = client()?;
    client.args(arguments);
    let output = fixture.run_client(client).await.succeeded();
    assert!(fixture.records.check() > 3);
    Some(output)
}

#[tokio::test]
async fn the_python_sdk_talks_to_another_agent() {
    check(|| programs::python("client.py"), &["text", "allow", "deny"]).await;
}

#[tokio::test]
async fn the_typescript_sdk_talks_to_another_agent() {
    check(|| Some(programs::node()?.script("sdk-v1.mjs")), &["text", "allow", "deny"]).await;
}

#[tokio::test]
async fn acpx_talks_to_another_agent() {
    let Some(fixture) = fixture().await else { return };
    let Some(node) = programs::node() else { return };
    let mut acpx = node.acpx();
    acpx.args(["--agent", &fixture.wrapper().display().to_string()]);
    acpx.args(["--approve-all", "--format", "quiet", "exec", "make a file"]);
    let output = fixture.run_client(acpx).await.succeeded();
    assert!(output.contains("Made it."), "{output}");
    fixture.records.check();
}

#[test]
fn lines_that_break_the_protocol_are_found() {
    if programs::node().is_none() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let sent = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {} }),
    ];
    let lines_of = |messages: &[Value]| {
        let lines: Vec<String> = messages.iter().map(Value::to_string).collect();
        lines.join("\n") + "\n"
    };
    let sent = lines_of(&sent);
    let update = |update: Value| {
        let params = json!({ "sessionId": "s", "update": update });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
    };
    let text = json!({ "type": "text", "text": "Hello" });
    let chunk = |key: &str| {
        update(json!({ "sessionUpdate": "agent_message_chunk", "content": text, key: "m" }))
    };
    let call =
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed" });
    let result = |id: u32, result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    let initialized = result(1, json!({ "protocolVersion": 1 }));
    let cases = [
        (None, vec![initialized.clone(), chunk("messageId")]),
        (Some("is in no schema"), vec![chunk("messageID")]),
        (Some("an update of an unknown tool call"), vec![update(call)]),
        (Some("not JSON-RPC 2.0"), vec![json!({ "id": 1, "result": { "protocolVersion": 1 } })]),
        (Some("a second response"), vec![initialized.clone(), initialized]),
        (Some("a response to nothing"), vec![result(7, json!({}))]),
        (Some("PromptResponse"), vec![result(2, json!({ "stopReason": "tired" }))]),
        (
            Some("SessionNotification"),
            vec![update(json!({ "sessionUpdate": "agent_message_chunk" }))],
        ),
        (Some("not a JSON object"), vec![json!("Hello")]),
    ];
    let records = Records::new(directory.path().to_owned());
    for (_, lines) in &cases {
        let received = lines_of(lines);
        records.add(sent.as_bytes(), received.as_bytes());
    }
    let (checked, faults) = records.faults();
    assert_eq!(checked, cases.iter().map(|(_, lines)| lines.len()).sum::<usize>());
    for (number, (expected, _)) in cases.into_iter().enumerate() {
        let prefix = format!("c{number}: ");
        let found: Vec<&str> = faults.lines().filter(|it| it.starts_with(&prefix)).collect();
        match expected {
            Some(words) => {
                assert!(found.len() == 1 && found[0].contains(words), "{number}: {faults}");
            }
            None => assert!(found.is_empty(), "{number}: {faults}"),
        }
    }
}
