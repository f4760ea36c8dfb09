//! `towpath play --acp --misbehave`: each row of its table does what it says.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{AgentClient, Permissions};
use crate::player::PlayerDirectory;

/// What a client sees of one prompt to a player that misbehaves.
fn play(misbehaviors: &str, prompt: &str) -> (AgentClient, Value) {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session(misbehaviors);
    let response = client.say(&session, prompt);
    (client, response)
}

fn position(client: &AgentClient, wanted: impl Fn(&Value) -> bool) -> Option<usize> {
    client.seen.iter().position(wanted)
}

#[test]
fn a_permission_is_asked_before_there_is_a_call() {
    let (client, _) = play("permission-first", "run");
    assert!(client.updates("tool_call").is_empty());
    let updates = client.updates("tool_call_update");
    assert_eq!((updates.len(), &updates[0]["content"]), (1, &json!([])));
    let request = client.requests("session/request_permission")[0];
    assert_eq!(request["params"]["toolCall"]["toolCallId"], updates[0]["toolCallId"]);
    assert!(request["params"]["toolCall"]["rawInput"].is_null());
}

#[test]
fn ids_and_token_counts_are_left_out() {
    let (client, response) = play("no-message-id,no-usage", "hello");
    let chunks = client.updates("agent_message_chunk");
    assert!(chunks.iter().all(|it| it.get("messageId").is_none()));
    assert!(client.updates("usage_update").is_empty() && response["result"].get("usage").is_none());
}

#[test]
fn updates_follow_the_answer() {
    let (mut client, _) = play("late-updates", "hello");
    client.until(|it| it["params"]["update"]["content"]["text"] == "finished.");
    assert!(client.text("agent_message_chunk").ends_with("background has finished."));
}

#[test]
fn a_second_prompt_cancels_the_first_or_both_are_answered_at_the_end() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("second-prompt-cancels");
    let first = client.prompt(&session, "wait");
    client.until(|it| it["params"]["update"]["content"]["text"] == "stopped.");
    let second = client.say(&session, "hello");
    assert_eq!(client.response(first)["result"]["stopReason"], "cancelled");
    assert_eq!(second["result"]["stopReason"], "end_turn");

    let (mut client, session) = directory.with_session("answers-together");
    let first = client.prompt(&session, "slow");
    let second = client.prompt(&session, "the second one");
    client.response(second);
    let answer = |id: u64| position(&client, |it| it["id"] == id && it["method"].is_null());
    let text = position(&client, |it| it["params"]["update"]["content"]["text"] == "one");
    assert!(answer(first) > text && answer(second) > text);
}

#[test]
fn an_error_looks_like_success() {
    let (client, response) = play("error-as-text", "error");
    assert_eq!(response["result"]["stopReason"], "end_turn");
    assert!(client.text("agent_message_chunk").contains("Error: 529"));
    let (client, response) = play("system-error", "error");
    assert_eq!(response["result"].get("usage"), Some(&Value::Null));
    let status = &client.updates("session_info_update")[0]["_meta"]["codex"]["threadStatus"];
    assert_eq!(status["type"], "systemError");
    let (_, response) = play("", "error");
    assert_eq!(response["error"]["code"], -32603);
}

#[test]
fn nothing_works_until_someone_has_signed_in() {
    let directory = PlayerDirectory::new();
    let start = || AgentClient::spawn(directory.command(&["--misbehave", "sign-in"]));
    let mut client = start();
    let initialized = client.initialize(&json!({}));
    assert_eq!(initialized["authMethods"][1]["type"], "terminal");
    let params = json!({ "cwd": directory.project(), "mcpServers": [] });
    assert_eq!(client.call_error("session/new", &params)["code"], -32000);
    let signed_in = directory.command(&["--sign-in"]).status().expect("the player starts");
    assert!(signed_in.success());
    client.call("session/new", &params);
    let mut client = start();
    client.initialize(&json!({}));
    client.call("session/new", &params);
}

#[test]
fn the_client_is_asked_for_what_it_cannot_do() {
    let directory = PlayerDirectory::new();
    let arguments = ["--misbehave", "uninvited-fs,uninvited-questions"];
    let mut client = AgentClient::spawn(directory.command(&arguments));
    client.initialize(&json!({}));
    let session = client.new_session(&directory.project());
    client.say(&session, "write");
    assert_eq!(client.requests("fs/write_text_file").len(), 1);
    // The client refused, so the player wrote the file itself.
    assert!(directory.has("towpath-player.txt"));
    client.say(&session, "question");
    client.say(&session, "link");
    assert_eq!(client.requests("elicitation/create").len(), 2);
}

#[test]
fn a_session_cannot_be_loaded_or_resumed() {
    for (misbehavior, load, resume) in [
        ("load-fails", Some(-32603), Some(-32603)),
        ("in-use", Some(-32600), Some(-32600)),
        ("no-load", Some(-32601), Some(-32601)),
        ("no-resume", None, Some(-32601)),
    ] {
        let directory = PlayerDirectory::new();
        let (mut client, session) = directory.with_session("");
        client.say(&session, "hello");
        let mut client = directory.start(misbehavior);
        for (method, code) in [("session/load", load), ("session/resume", resume)] {
            let response = client.call_any(method, &directory.reference(&session));
            assert_eq!(response["error"]["code"].as_i64(), code, "{misbehavior} {response}");
        }
    }
    let capabilities = |misbehavior: &str| {
        let mut client = PlayerDirectory::new().start(misbehavior);
        client.initialize(&json!({}))["agentCapabilities"].clone()
    };
    assert_eq!(capabilities("no-load")["loadSession"], false);
    let session = |misbehavior| capabilities(misbehavior)["sessionCapabilities"].clone();
    assert!(session("no-resume").get("resume").is_none() && session("").get("resume").is_some());
}

#[test]
fn loading_destroys_the_history() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    client.say(&session, "hello");
    let mut client = directory.start("destroys-history");
    client.call_error("session/load", &directory.reference(&session));
    let mut client = directory.start("");
    client.call("session/load", &directory.reference(&session));
    assert!(client.updates("user_message_chunk").is_empty());
}

#[test]
fn a_cancelled_turn_goes_on() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("ignores-cancel");
    let id = client.prompt(&session, "slow");
    client.until(|it| it["params"]["update"]["content"]["text"] == "word1 ");
    client.cancel(&session);
    assert_eq!(client.response(id)["result"]["stopReason"], "end_turn");

    let (mut client, session) = directory.with_session("updates-after-cancel");
    let id = client.prompt(&session, "wait");
    client.until(|it| it["params"]["update"]["content"]["text"] == "stopped.");
    client.cancel(&session);
    assert_eq!(client.response(id)["result"]["stopReason"], "cancelled");
    assert!(client.text("agent_message_chunk").ends_with("These words come too late."));
}

#[test]
fn a_cancelled_turn_does_not_wait_for_its_permission() {
    let directory = PlayerDirectory::new();
    for (misbehaviors, withdrawn) in
        [("cancel-before-answer", 0), ("cancel-before-answer,withdraws-permission", 1)]
    {
        let (mut client, session) = directory.with_session(misbehaviors);
        client.permissions = Permissions::Wait;
        let id = client.prompt(&session, "write");
        let request = client.until(|it| it["method"] == "session/request_permission");
        client.cancel(&session);
        let response = client.response(id);
        // With a short pace, the request may be withdrawn before the turn is cancelled.
        let stop = &response["result"]["stopReason"];
        assert!(stop == "cancelled" || withdrawn == 1, "{response}");
        let notes = client.requests("$/cancel_request");
        assert_eq!(notes.len(), withdrawn);
        assert!(notes.iter().all(|it| it["params"]["requestId"] == request["id"]));
        // A late answer is harmless.
        client.choose(&request, "allow_once");
        assert_eq!(client.say(&session, "hello")["result"]["stopReason"], "end_turn");
        assert!(!directory.has("towpath-player.txt"));
    }
}

#[test]
fn a_permission_is_withdrawn_while_the_turn_goes_on() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("withdraws-permission");
    client.permissions = Permissions::Wait;
    assert_eq!(client.say(&session, "write")["result"]["stopReason"], "end_turn");
    assert_eq!(client.requests("$/cancel_request").len(), 1);
    assert_eq!(client.updates("tool_call_update").pop().expect("one")["status"], "failed");
}

#[test]
fn a_denied_call_ends_the_turn() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("deny-cancels");
    client.permissions = Permissions::Choose("reject_once");
    assert_eq!(client.say(&session, "write")["result"]["stopReason"], "cancelled");
}

#[test]
fn calls_look_like_those_of_other_agents() {
    let (client, _) = play("two-always", "write");
    let options = client.requests("session/request_permission")[0]["params"]["options"].clone();
    let always =
        options.as_array().expect("options").iter().filter(|it| it["kind"] == "allow_always");
    assert_eq!(always.count(), 2);

    let (client, _) = play("empty-input-first", "run");
    assert_eq!(client.updates("tool_call")[0]["rawInput"], json!({}));
    assert!(client.updates("tool_call_update")[0]["rawInput"]["command"].is_string());

    let (client, _) = play("terminal-output", "run");
    let last = client.updates("tool_call_update").pop().expect("one").clone();
    assert_eq!(last["_meta"]["terminal_output"]["data"], "from the player\n");
    assert_eq!(last["content"][0]["type"], "terminal");
}

#[test]
fn the_cost_is_that_of_the_whole_session() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("cumulative-cost");
    client.say(&session, "one");
    client.say(&session, "two");
    let costs = |client: &AgentClient| -> Vec<Value> {
        client.updates("usage_update").iter().map(|it| it["cost"]["amount"].clone()).collect()
    };
    assert_eq!(costs(&client), [0.0625, 0.125]);
    let mut client = directory.start("cumulative-cost");
    client.call("session/resume", &directory.reference(&session));
    client.say(&session, "three");
    assert_eq!(costs(&client), [0.1875]);
}

#[test]
fn lines_that_no_client_knows_are_printed() {
    let (client, response) = play("stdout-noise,unknown-messages", "hello");
    assert_eq!(response["result"]["stopReason"], "end_turn");
    assert!(client.seen[0].is_string(), "{}", client.seen[0]);
    assert_eq!(client.requests("wobble/ask").len(), 1);
    assert_eq!(client.updates("wobble_update").len(), 1);
    assert_eq!(client.requests("qwen/notify/session/prompt-suggestion").len(), 1);
}

#[test]
fn a_turn_never_ends_or_the_player_dies_in_it() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("never-answers");
    let id = client.prompt(&session, "hello");
    client.until(|it| it["params"]["update"]["sessionUpdate"] == "session_info_update");
    client.cancel(&session);
    assert_eq!(client.response(id)["result"]["stopReason"], "cancelled");

    for (misbehavior, is_cut) in [("dies-mid-turn", false), ("half-line", true)] {
        let (mut client, session) = directory.with_session(misbehavior);
        client.prompt(&session, "hello");
        while client.next().is_some() {}
        assert_eq!(client.child.wait().expect("a status").code(), Some(1));
        assert_eq!(client.seen.last().expect("a line").is_string(), is_cut);
    }

    let mut client = directory.start("hangs-at-new");
    client.request("session/new", &json!({ "cwd": directory.project(), "mcpServers": [] }));
    // Other requests are still answered.
    client.call("session/list", &json!({}));
}

#[test]
fn the_player_takes_its_time_to_exit() {
    let mut client = PlayerDirectory::new().start("slow-exit");
    let (code, time) = client.hang_up();
    assert!(code == Some(0) && time >= Duration::from_secs(7), "{code:?} after {time:?}");
}
