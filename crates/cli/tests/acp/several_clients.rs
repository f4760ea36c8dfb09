//! Clients that come and go: what happens to their sessions, and what others see of it.

use serde_json::json;

use crate::client::AcpClient;
use crate::home::TestHome;

fn load(client: &mut AcpClient, home: &TestHome, session: &str) {
    let params = json!({ "sessionId": session, "cwd": home.work(), "mcpServers": [] });
    client.call("session/load", &params);
}

#[test]
fn a_turn_goes_on_without_its_client_and_the_next_one_gets_all_of_it() {
    let home = TestHome::new();
    let mut first = AcpClient::v1(&home, &[]);
    let session = first.new_session(&home);
    first.prompt(&session, "long please");
    first.wait_until("the first word", |it| !it.text().is_empty());
    first.kill();
    let mut second = AcpClient::v1(&home, &[]);
    load(&mut second, &home, &session);
    assert_eq!(second.texts_of("user_message_chunk"), ["long please"]);
    let next = second.prompt(&session, "think");
    assert_eq!(second.stop_reason(next), "end_turn");
    let streamed = second.text();
    // A replay has the same text as what was streamed.
    let mut third = AcpClient::v1(&home, &[]);
    load(&mut third, &home, &session);
    assert_eq!(third.text(), streamed);
    assert_eq!(third.texts_of("user_message_chunk"), ["long please", "think"]);
}

#[test]
fn an_open_permission_is_asked_again_and_settled_everywhere_by_one_answer() {
    let home = TestHome::new();
    let mut first = AcpClient::v1(&home, &[]);
    let session = first.new_session(&home);
    first.prompt(&session, "permission please");
    first.agent_request();
    first.kill();
    let mut second = AcpClient::v1(&home, &[]);
    load(&mut second, &home, &session);
    let asked = second.agent_request();
    let mut third = AcpClient::v1(&home, &[]);
    let params = json!({ "sessionId": session, "cwd": home.work() });
    third.call("session/resume", &params);
    assert!(third.updates_of("user_message_chunk").is_empty(), "nothing is repeated");
    let request = third.agent_request();
    third.choose(&request, "allow_once");
    second.wait_until("the question to be taken back", |it| !it.cancelled.is_empty());
    assert_eq!(second.cancelled, [asked["id"].clone()]);
    second.wait_until("the call", |it| {
        it.updates_of("tool_call_update").iter().any(|it| it["status"] == "completed")
    });
    assert!(home.work().join("towpath-demo.txt").exists());
    // A prompt of one client is a message of someone else for the other.
    let prompt = third.prompt(&session, "think again");
    assert_eq!(third.stop_reason(prompt), "end_turn");
    second.wait_until("the other's prompt", |it| {
        it.texts_of("user_message_chunk").contains(&"think again".to_owned())
    });
    let prompts = second.updates_of("user_message_chunk");
    let by = &prompts.last().expect("a prompt")["_meta"]["towpath"]["by"];
    assert_eq!(*by, json!({ "name": "ann", "via": "tester" }));
}

#[test]
fn a_client_that_wants_only_its_own_turns_hears_of_no_others() {
    let home = TestHome::new();
    let mut first = AcpClient::v1(&home, &[]);
    let session = first.new_session(&home);
    let mut second = AcpClient::v1(&home, &["--own-turns-only"]);
    load(&mut second, &home, &session);
    let prompt = first.prompt(&session, "markdown please");
    assert_eq!(first.stop_reason(prompt), "end_turn");
    let own = second.prompt(&session, "think");
    assert_eq!(second.stop_reason(own), "end_turn");
    assert!(second.texts_of("user_message_chunk").is_empty());
    assert!(!second.text().contains(&first.text()[..20]), "{}", second.text());
}

#[test]
fn the_same_prompt_again_is_answered_and_runs_once() {
    let home = TestHome::new();
    let mut first = AcpClient::v1(&home, &[]);
    let session = first.new_session(&home);
    let params = json!({
        "sessionId": session,
        "prompt": [{ "type": "text", "text": "think once" }],
        "_meta": { "towpath": { "promptId": "00000000-0000-4000-8000-000000000007" } },
    });
    first.request("session/prompt", &params);
    first.wait_until("a thought", |it| !it.texts_of("agent_thought_chunk").is_empty());
    first.kill();
    let mut second = AcpClient::v1(&home, &[]);
    load(&mut second, &home, &session);
    for _ in 0..2 {
        let again = second.request("session/prompt", &params);
        assert_eq!(second.stop_reason(again), "end_turn");
    }
    let mut third = AcpClient::v1(&home, &[]);
    load(&mut third, &home, &session);
    assert_eq!(third.texts_of("user_message_chunk"), ["think once"]);
}

#[test]
fn a_session_of_the_cli_is_listed_and_continued_with_its_id() {
    let home = TestHome::new();
    // The demo's home directory is below the data directory.
    let mut first = AcpClient::v1(&home, &[]);
    let session = first.new_session(&home);
    let prompt = first.prompt(&session, "think");
    assert_eq!(first.stop_reason(prompt), "end_turn");
    first.call("session/close", &json!({ "sessionId": session }));
    first.close();
    // Without its journal the session is one of the CLI only.
    home.wait_until("the agent to stop", |home| {
        home.towpath(&["sessions", "delete", "--yes", &session]).code == 0
    });
    let mut second = AcpClient::v1(&home, &[]);
    let list = second.call("session/list", &json!({ "cwd": home.work() }));
    assert_eq!(list["sessions"][0]["sessionId"], json!(session), "{list}");
    load(&mut second, &home, &session);
    assert_eq!(second.texts_of("user_message_chunk"), ["think"]);
    let prompt = second.prompt(&session, "markdown");
    assert_eq!(second.stop_reason(prompt), "end_turn");
    // The CLI's file of a deleted session stays, and is not listed any more.
    second.call("session/delete", &json!({ "sessionId": session }));
    let list = second.call("session/list", &json!({}));
    assert_eq!(list["sessions"], json!([]));
}
