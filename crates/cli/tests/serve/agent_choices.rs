//! An agent with choices and settings of its own, over HTTP.

use serde_json::{Value, json};

use crate::fixture::{Fixture, TestServer};

/// A server that has the player of the Agent Client Protocol as the agent `player`.
async fn serve(fixture: &Fixture) -> TestServer {
    let directory = fixture.path("home/.config/towpath");
    std::fs::create_dir_all(&directory).expect("a directory");
    let program = env!("CARGO_BIN_EXE_towpath");
    let table = format!("[agents.player]\ncommand = [\"{program}\", \"play\", \"--acp\"]\n");
    std::fs::write(directory.join("config.toml"), table).expect("a file");
    fixture.serve().await
}

/// The request for a session with these options.
fn new_session(fixture: &Fixture, mut options: Value) -> Value {
    options["cwd"] = json!(fixture.project());
    options
}

async fn create(server: &TestServer, fixture: &Fixture, options: Value) -> String {
    let (status, created) = server.post("/sessions", new_session(fixture, options)).await;
    assert_eq!(status, 201, "{created}");
    created["id"].as_str().expect("an id").to_owned()
}

/// Has a session ask, and returns the id of the request and its choices.
async fn ask(server: &TestServer, session: &str, prompt: &str) -> (String, Value) {
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(session, prompt).await;
    client.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let open = server.get(&format!("/sessions/{session}/requests")).await;
    let request = &open["requests"][0];
    (request["id"].as_str().expect("an id").to_owned(), request["choices"].clone())
}

#[tokio::test]
async fn a_request_is_answered_with_one_of_the_agents_own_choices_and_with_nothing_else() {
    let fixture =
        Fixture::new("api tool Bash {\"command\":\"touch made\"}\napi text \"Done.\"").await;
    let server = serve(&fixture).await;
    let session = create(&server, &fixture, json!({ "agent": "player" })).await;
    let (request, choices) = ask(&server, &session, "run something").await;
    let choices = choices.as_array().expect("choices").clone();
    assert!(choices.len() >= 2, "{choices:?}");
    let path = format!("/sessions/{session}/requests/{request}");
    let id = choices[0]["id"].clone();
    for wrong in [
        json!({ "choice": "none of them" }),
        json!({ "choice": "" }),
        json!({ "choice": "x".repeat(1 << 20) }),
        json!({ "choice": id, "decision": "allow" }),
        json!({ "choice": id, "message": "and a reason" }),
        json!({ "choice": 1 }),
        json!({}),
    ] {
        let (status, problem) = server.post(&path, wrong.clone()).await;
        assert!((400..500).contains(&status), "{status} {problem}");
        assert_ne!(status, 409, "it is still open: {problem}");
    }
    let open = server.get(&format!("/sessions/{session}/requests")).await;
    assert_eq!(open["requests"][0]["id"], request, "nothing of it was an answer");
    let (status, answered) = server.post(&path, json!({ "choice": id })).await;
    assert_eq!(status, 200, "{answered}");
    assert!(answered["outcome"].as_str().is_some_and(|it| it.starts_with("allowed")), "{answered}");
    let (status, late) = server.post(&path, json!({ "choice": choices[1]["id"] })).await;
    assert_eq!(status, 409, "{late}");
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client
        .until(|page| {
            page.snapshots > 0 && page.is_idle() && page.contains("That is what it looks like")
        })
        .await;
    let ledger = server.get(&format!("/sessions/{session}/ledger")).await;
    assert_eq!(ledger["entries"].as_array().map(Vec::len), Some(1), "{ledger}");

    // The agent's way to refuse is a choice too.
    let (request, choices) = ask(&server, &session, "run something else").await;
    let refusal = choices.as_array().expect("choices").last().expect("a choice").clone();
    let path = format!("/sessions/{session}/requests/{request}");
    let (status, answered) = server.post(&path, json!({ "choice": refusal["id"] })).await;
    assert_eq!((status, &answered["outcome"]), (200, &json!("denied")), "{refusal} {answered}");
}

#[tokio::test]
async fn a_request_of_claude_code_has_no_choices_to_answer_with() {
    let fixture =
        Fixture::new("api tool Bash {\"command\":\"touch made\"}\napi text \"Done.\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let (request, choices) = ask(&server, &session, "make it").await;
    assert_eq!(choices, json!([]));
    let path = format!("/sessions/{session}/requests/{request}");
    let (status, problem) = server.post(&path, json!({ "choice": "allow" })).await;
    assert!((400..500).contains(&status) && status != 409, "{status} {problem}");
    let (status, answered) = server.post(&path, json!({ "decision": "deny" })).await;
    assert_eq!((status, &answered["outcome"]), (200, &json!("denied")), "{answered}");
}

#[tokio::test]
async fn ids_that_the_agent_does_not_have_are_reported_in_the_conversation() {
    let fixture = Fixture::new("api text \"Hello.\"").await;
    let server = serve(&fixture).await;
    let options = json!({ "agent": "player", "mode": "no-such-mode", "model": "no-such-model",
        "effort": "no-such-effort" });
    let session = create(&server, &fixture, options).await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "well then").await;
    client
        .until(|page| page.snapshots > 0 && page.is_idle() && page.contains("You said: well then"))
        .await;
    for unknown in ["no-such-mode", "no-such-model", "no-such-effort"] {
        assert!(client.page.contains(unknown), "{unknown}: {}", client.page.html());
    }
    assert!(client.page.contains("scripted-large"), "what there is: {}", client.page.html());

    // A mode of Claude Code that another agent does not have, and one that it has.
    let session =
        create(&server, &fixture, json!({ "agent": "player", "mode": "acceptEdits" })).await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "well then").await;
    client
        .until(|page| page.snapshots > 0 && page.is_idle() && page.contains("You said: well then"))
        .await;
    assert!(client.page.contains("acceptEdits"), "{}", client.page.html());
    let options = json!({ "agent": "player", "mode": "auto", "effort": "high" });
    let session = create(&server, &fixture, options).await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "run something").await;
    client
        .until(|page| {
            page.snapshots > 0 && page.is_idle() && page.contains("That is what it looks like")
        })
        .await;
    assert!(!client.page.contains("was not set"), "{}", client.page.html());
    let ledger = server.get(&format!("/sessions/{session}/ledger")).await;
    assert_eq!(ledger["entries"], json!([]), "in this mode nothing is asked");

    // Claude Code has no such mode, and that is known before it starts.
    for options in
        [json!({ "mode": "no-such-mode" }), json!({ "agent": "claude", "mode": "auto-x" })]
    {
        let (status, problem) = server.post("/sessions", new_session(&fixture, options)).await;
        assert!((400..500).contains(&status), "{status} {problem}");
    }
}
