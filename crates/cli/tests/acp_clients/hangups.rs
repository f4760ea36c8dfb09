//! Clients that go away, come back, and share a session.

use serde_json::json;

use crate::client::AcpClient;
use crate::fixture::Fixture;

const TOUCH: &str = r#"api tool Bash {"command":"touch a.made","description":"make a file"}
api text "Made it.""#;

#[tokio::test]
async fn an_answer_is_whole_after_its_client_hung_up_in_the_middle_of_it() {
    let words: Vec<String> = (0..60).map(|number| format!("word{number}")).collect();
    let words = words.join(" ");
    let fixture = Fixture::new(&format!("api text \"{words}\" hold gate after 6")).await;
    let mut first = AcpClient::start(&fixture).await;
    let session = first.new_session().await;
    first.prompt(&session, "count").await.expect("the agent reads");
    first.text_with("word5").await;
    assert_eq!(first.hang_up().await, 0);
    fixture.api.open("gate");

    let mut second = AcpClient::start(&fixture).await;
    second.load(&session).await;
    second.text_with("word59").await;
    assert_eq!(second.text("agent_message_chunk"), words);
    assert_eq!(second.text("user_message_chunk"), "count");
    assert_eq!(fixture.model_requests().len(), 1);
    second.hang_up().await;
    fixture.records.check();
}

#[tokio::test]
async fn an_answer_goes_on_live_after_a_client_loaded_it_in_the_middle() {
    let fixture = Fixture::new("api text \"one two three four five six\" hold gate after 3").await;
    let mut first = AcpClient::start(&fixture).await;
    let session = first.new_session().await;
    let prompt = first.prompt(&session, "count").await.expect("the agent reads");
    first.text_with("three").await;
    let mut second = AcpClient::start(&fixture).await;
    second.load(&session).await;
    second.text_with("three").await;
    fixture.api.open("gate");
    second.text_with("six").await;
    let ended = first.response(prompt).await.expect("an answer");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    for client in [&first, &second] {
        assert_eq!(client.text("agent_message_chunk"), "one two three four five six");
    }
    first.hang_up().await;
    second.hang_up().await;
    fixture.records.check();
}

#[tokio::test]
async fn a_permission_is_asked_again_after_its_client_hung_up() {
    let fixture = Fixture::new(TOUCH).await;
    let mut first = AcpClient::start(&fixture).await;
    let session = first.new_session().await;
    first.prompt(&session, "make a file").await.expect("the agent reads");
    first.permission().await.expect("a question");
    assert_eq!(first.hang_up().await, 0);

    let mut second = AcpClient::start(&fixture).await;
    second.load(&session).await;
    let asked = second.permission().await.expect("a question");
    assert!(!fixture.path("project/a.made").exists());
    second.choose(&asked, "allow_once").await.expect("the agent reads");
    second.text_with("Made it.").await;
    assert!(fixture.path("project/a.made").exists());
    second.hang_up().await;
    fixture.records.check();
}

#[tokio::test]
async fn a_second_client_sees_every_update_and_the_first_answer_counts() {
    let fixture = Fixture::new(TOUCH).await;
    let mut first = AcpClient::start(&fixture).await;
    let session = first.new_session().await;
    let mut second = AcpClient::start(&fixture).await;
    second.load(&session).await;
    let prompt = first.prompt(&session, "make a file").await.expect("the agent reads");
    let at_first = first.permission().await.expect("a question");
    let at_second = second.permission().await.expect("a question");
    second.choose(&at_second, "allow_once").await.expect("the agent reads");
    // The other client's question is withdrawn.
    let withdrawn = first.until(|it| it["method"] == "$/cancel_request").await.expect("a message");
    assert_eq!(withdrawn["params"]["requestId"], at_first["id"]);
    let late = json!({ "outcome": { "outcome": "cancelled" } });
    first.reply(&at_first, late).await.expect("the agent reads");
    let ended = first.response(prompt).await.expect("an answer");
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    second.text_with("Made it.").await;
    for client in [&first, &second] {
        assert_eq!(client.text("agent_message_chunk"), "Made it.");
        let completed = |it: &&serde_json::Value| it["params"]["update"]["status"] == "completed";
        assert_eq!(client.seen.iter().filter(completed).count(), 1);
    }
    assert_eq!(second.text("user_message_chunk"), "make a file");
    // Both may go on with it.
    second.say(&session, "and now?").await;
    first.text_with("Made it.Made it.").await;
    first.hang_up().await;
    second.hang_up().await;
    fixture.records.check();
}

#[tokio::test]
async fn unreadable_lines_and_unknown_methods_do_not_end_the_connection() {
    let fixture = Fixture::new("api text \"Hello\"").await;
    let mut client = AcpClient::start(&fixture).await;
    let session = client.new_session().await;
    client.send_bytes(b"this is no JSON\n").await;
    let error = client.until(|it| it["id"].is_null() && !it["error"].is_null()).await;
    assert_eq!(error.expect("an answer")["error"]["code"], -32700);
    let huge = format!("{}\n", "x".repeat(5 << 20));
    client.send_bytes(huge.as_bytes()).await;
    let error = client.until(|it| it["id"].is_null() && !it["error"].is_null()).await;
    assert!(error.expect("an answer")["error"]["code"].as_i64().is_some_and(|it| it < 0));
    let unknown = client.request("session/levitate", json!({})).await.expect("the agent reads");
    let error = client.response(unknown).await.expect("an answer");
    assert_eq!(error["error"]["code"], -32601, "{error}");
    let prompt = json!([{ "type": "text", "text": "hello" }]);
    let params = json!({ "sessionId": "nothing", "prompt": prompt });
    let unknown = client.request("session/prompt", params).await.expect("the agent reads");
    let error = client.response(unknown).await.expect("an answer");
    assert_eq!(error["error"]["code"], -32002, "{error}");
    let ended = client.say(&session, "hello").await;
    assert_eq!(ended["result"]["stopReason"], "end_turn", "{ended}");
    client.hang_up().await;
    fixture.records.check();
}
