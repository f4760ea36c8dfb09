//! Conversations of one client with the built-in agent.

use serde_json::{Value, json};

use crate::client::AcpClient;
use crate::home::TestHome;

#[test]
fn a_prompt_is_streamed_and_answered_when_its_turn_is_over() {
    let home = TestHome::new();
    let mut client = AcpClient::v1(&home, &[]);
    let session = client.new_session(&home);
    let prompt = client.prompt(&session, "markdown please");
    assert_eq!(client.stop_reason(prompt), "end_turn");
    assert!(!client.text().is_empty(), "{:#?}", client.updates);
    // The client shows its own prompts itself.
    assert!(client.updates_of("user_message_chunk").is_empty());
    assert!(!client.updates_of("session_info_update").is_empty());
    // A second prompt waits for the first one.
    let (first, second) = (client.prompt(&session, "think"), client.prompt(&session, "markdown"));
    assert_eq!(client.stop_reason(first), "end_turn");
    assert_eq!(client.stop_reason(second), "end_turn");
    assert!(!client.texts_of("agent_thought_chunk").is_empty());
    client.close();
}

#[test]
fn a_permission_is_asked_and_the_answer_counts() {
    let home = TestHome::new();
    let mut client = AcpClient::v1(&home, &[]);
    let session = client.new_session(&home);
    let file = home.work().join("towpath-demo.txt");
    for (kind, exists) in [("reject_once", false), ("allow_once", true)] {
        let prompt = client.prompt(&session, "permission please");
        let request = client.agent_request();
        assert_eq!(request["method"], "session/request_permission");
        let call = request["params"]["toolCall"]["toolCallId"].clone();
        client.choose(&request, kind);
        assert_eq!(client.stop_reason(prompt), "end_turn");
        assert_eq!(file.exists(), exists);
        let updates = client.updates_of("tool_call_update");
        let last = updates.iter().rfind(|it| it["toolCallId"] == call && !it["status"].is_null());
        let status = if exists { "completed" } else { "failed" };
        assert_eq!(last.expect("an update")["status"], status);
    }
    let diffs: Vec<&Value> =
        client.updates.iter().filter(|it| it["update"]["content"][0]["type"] == "diff").collect();
    assert!(!diffs.is_empty());
    assert!(client.cancelled.is_empty());
}

#[test]
fn a_cancelled_turn_is_answered_as_cancelled_and_the_session_goes_on() {
    let home = TestHome::new();
    let mut client = AcpClient::v1(&home, &[]);
    let session = client.new_session(&home);
    let running = client.prompt(&session, "long please");
    client.wait_until("the first word", |it| !it.text().is_empty());
    let waiting = client.prompt(&session, "think");
    client.notify("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(client.stop_reason(running), "cancelled");
    assert_eq!(client.stop_reason(waiting), "cancelled");
    // A question that is open when the turn is cancelled is taken back.
    let asking = client.prompt(&session, "permission please");
    let request = client.agent_request();
    client.notify("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(client.stop_reason(asking), "cancelled");
    assert_eq!(client.cancelled, [request["id"].clone()]);
    client.reply(&request, &json!({ "outcome": { "outcome": "cancelled" } }));
    let next = client.prompt(&session, "think");
    assert_eq!(client.stop_reason(next), "end_turn");
}

#[test]
fn questions_are_a_form_or_options_and_a_plan_changes_the_mode() {
    let home = TestHome::new();
    let forms = json!({ "elicitation": { "form": {} } });
    let mut client = AcpClient::with_capabilities(&home, &[], &forms);
    let session = client.new_session(&home);
    let prompt = client.prompt(&session, "question please");
    let request = client.agent_request();
    assert_eq!(request["method"], "elicitation/create");
    let properties = &request["params"]["requestedSchema"]["properties"];
    let first = properties["question_0"]["oneOf"][0]["const"].clone();
    assert!(first.is_string(), "{request}");
    client.reply(&request, &json!({ "action": "accept", "content": { "question_0": first } }));
    assert_eq!(client.stop_reason(prompt), "end_turn");

    let mut client = AcpClient::v1(&home, &[]);
    let session = client.new_session(&home);
    let prompt = client.prompt(&session, "question please");
    while let Some(request) = client.next_before(prompt) {
        assert_eq!(request["method"], "session/request_permission");
        client.choose(&request, "allow_once");
    }
    assert_eq!(client.stop_reason(prompt), "end_turn");

    let prompt = client.prompt(&session, "plan please");
    let request = loop {
        let request = client.agent_request();
        if request["params"]["toolCall"]["kind"] == "switch_mode" {
            break request;
        }
        client.choose(&request, "allow_once");
    };
    let content = &request["params"]["toolCall"]["content"][0]["content"]["text"];
    assert!(content.as_str().is_some_and(|it| !it.is_empty()), "{request}");
    client.choose(&request, "allow_always");
    while let Some(request) = client.next_before(prompt) {
        client.choose(&request, "allow_once");
    }
    assert_eq!(client.stop_reason(prompt), "end_turn");
    let modes = client.updates_of("current_mode_update");
    assert!(modes.iter().any(|it| it["currentModeId"] == "acceptEdits"), "{modes:?}");
}

#[test]
fn todos_sub_agents_failures_and_commands_are_reported() {
    let home = TestHome::new();
    let mut client = AcpClient::v1(&home, &[]);
    let session = client.new_session(&home);
    let prompt = client.prompt(&session, "todo please");
    assert_eq!(client.stop_reason(prompt), "end_turn");
    let plans = client.updates_of("plan");
    assert!(plans.last().is_some_and(|it| !it["entries"].as_array().unwrap().is_empty()));
    let prompt = client.prompt(&session, "agent please");
    assert_eq!(client.stop_reason(prompt), "end_turn");
    // The sub-agent works in the background, and the turn may end before its first call.
    let is_nested = |it: &&Value| !it["_meta"]["claudeCode"]["parentToolUseId"].is_null();
    client.wait_until("a call of the sub-agent", |it| {
        it.updates_of("tool_call").iter().any(is_nested)
    });
    client.wait_until("commands", |it| !it.updates_of("available_commands_update").is_empty());
    let prompt = client.prompt(&session, "error please");
    let response = client.response(prompt);
    assert!(
        !response["error"]["message"].is_null() || response["result"]["stopReason"] == "end_turn",
        "{response}"
    );
}

#[test]
fn settings_are_changed_and_reported_and_others_are_refused() {
    let home = TestHome::new();
    let mut client = AcpClient::v1(&home, &[]);
    let params = json!({ "cwd": home.work(), "mcpServers": [] });
    let new = client.call("session/new", &params);
    let session = new["sessionId"].clone();
    assert_eq!(new["modes"]["currentModeId"], "default");
    let set = json!({ "sessionId": session, "modeId": "plan" });
    assert_eq!(client.call("session/set_mode", &set), json!({}));
    let modes = client.updates_of("current_mode_update");
    assert_eq!(modes.last().expect("an update")["currentModeId"], "plan");
    let option =
        |id: &str, value: &str| json!({ "sessionId": session, "configId": id, "value": value });
    let options = client.call("session/set_config_option", &option("effort", "high"));
    let effort =
        options["configOptions"].as_array().unwrap().iter().find(|it| it["id"] == "effort");
    assert_eq!(effort.expect("the option")["currentValue"], "high");
    for (id, value) in [("effort", "enormous"), ("nonsense", "x"), ("mode", "yolo")] {
        assert_eq!(client.error_of("session/set_config_option", &option(id, value)), -32602);
    }
    // Without a running turn there is nothing to steer.
    let prompt = json!([{ "type": "text", "text": "and now?" }]);
    let steer = json!({ "sessionId": session, "prompt": prompt });
    assert_eq!(client.call("_session/steering", &steer)["outcome"], "promptRequired");
    client.call("session/set_mode", &json!({ "sessionId": session, "modeId": "default" }));
    let name = session.as_str().unwrap().to_owned();
    let running = client.prompt(&name, "long please");
    client.wait_until("the first word", |it| !it.text().is_empty());
    assert_eq!(client.call("_session/steering", &steer)["outcome"], "injected");
    client.notify("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(client.stop_reason(running), "cancelled");
}

#[test]
fn version_2_reports_the_state_of_the_session() {
    let home = TestHome::new();
    let mut client = AcpClient::v2(&home);
    let session = client.new_session(&home);
    let prompt = client.prompt(&session, "permission please");
    let message = client.response(prompt)["result"]["messageId"].clone();
    let request = client.agent_request();
    assert_eq!(request["params"]["subject"]["type"], "tool_call");
    client.choose(&request, "allow_once");
    let states = |it: &AcpClient| -> Vec<String> {
        let states = it.updates_of("state_update");
        states.iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect()
    };
    client.wait_until("the end", |it| states(it).last().is_some_and(|it| it == "idle"));
    // A client that is told of the answer and the end at once is not told what was in between.
    let mut seen = states(&client);
    seen.dedup();
    assert_eq!(seen[..2], ["running", "requires_action"]);
    let idle = client.updates_of("state_update").last().copied().expect("a state").clone();
    assert_eq!(idle["stopReason"], "end_turn");
    assert!(client.updates_of("user_message").iter().any(|it| it["messageId"] == message));
}
