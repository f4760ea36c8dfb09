//! Prompts, requests, grants and other operations.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::Fixture;

#[tokio::test]
async fn a_prompt_sent_twice_is_one_turn() {
    let fixture = Fixture::new("api text \"once\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/prompts");
    let prompt = json!({ "id": Uuid::new_v4(), "text": "say it" });
    for _ in 0..3 {
        let (status, accepted) = server.post(&path, prompt.clone()).await;
        assert_eq!((status, &accepted["id"]), (202, &prompt["id"]), "{accepted}");
    }
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("once")).await;
    let (status, accepted) = server.post(&path, prompt.clone()).await;
    assert_eq!((status, accepted["state"].as_str()), (202, Some("done")));
    assert_eq!(server.get(&format!("/sessions/{session}")).await["turn"], 1);
    assert_eq!(
        fixture.api.requests().iter().filter(|it| it.body.to_string().contains("say it")).count(),
        1
    );
    assert_eq!(client.page.html().matches("say it").count(), 1);
}

#[tokio::test]
async fn what_the_agent_says_about_itself_is_served_without_a_running_agent() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/agent");
    let nothing = server.get(&path).await;
    assert_eq!((&nothing["version"], &nothing["tools"]["total"]), (&Value::Null, &json!(0)));
    server.prompt(&session, "say hi").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("hi")).await;
    server.post(&format!("/sessions/{session}/close"), json!({})).await;
    let agent = server.get(&path).await;
    assert!(agent["version"].is_string() && agent["model"].is_string(), "{agent}");
    let tools = agent["tools"]["items"].as_array().expect("a list");
    assert!(tools.iter().any(|tool| tool == "Bash"), "{agent}");
    assert_eq!(agent["tools"]["total"], tools.len());
    assert!(agent["mcp_servers"]["items"].is_array(), "{agent}");
}

#[tokio::test]
async fn a_request_in_two_browsers_is_answered_once() {
    let fixture =
        Fixture::new("api tool Bash {\"command\":\"touch made\"}\napi text \"made it\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/follow");
    let mut one = server.follow(&path).await;
    let mut other = server.follow(&path).await;
    server.prompt(&session, "make it").await;
    one.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    other.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let request = one.page.requests()[0].clone();
    assert_eq!(request, other.page.requests()[0]);
    assert!(request["html"].as_str().expect("HTML").contains("touch made"), "{request}");
    let id = request["id"].as_str().expect("an id");
    let listed = server.get(&format!("/sessions/{session}/requests")).await;
    assert_eq!(listed["requests"][0]["id"], id);
    // Both carry the same consent policy.
    let rules = json!([{ "id": "exact", "tool": "Bash", "pattern": "touch made", "label": "Run exactly this command" }]);
    let disclosures = json!([{ "label": "Command", "text": "touch made" }]);
    for request in [&request, &listed["requests"][0]] {
        assert_eq!(request["kind"], "permission");
        assert_eq!((&request["rules"], &request["disclosures"]), (&rules, &disclosures));
    }
    let answer = format!("/sessions/{session}/requests/{id}");
    let (status, answered) = server.post(&answer, json!({ "decision": "allow" })).await;
    assert_eq!((status, answered["outcome"].as_str()), (200, Some("allowed")));
    let (status, problem) = server.post(&answer, json!({ "decision": "deny" })).await;
    assert_eq!(status, 409, "{problem}");
    assert_eq!(problem["type"], "about:towpath#resolved");
    assert_eq!(problem["resolution"]["outcome"], "allowed");
    assert_eq!(problem["resolution"]["by"], json!({ "name": "link", "via": "api" }));
    for client in [&mut one, &mut other] {
        client
            .until(|page| page.requests().is_empty() && page.is_idle() && page.contains("made it"))
            .await;
    }
    assert!(fixture.path("project/made").exists());
    let ledger = server.get("/ledger").await;
    assert_eq!(ledger["entries"][0]["resolution"]["by"]["name"], "link");
}

#[tokio::test]
async fn a_grant_is_listed_where_it_applies_and_can_be_revoked() {
    let tool = "api tool Bash {\"command\":\"touch made\"} always for \"make it\"";
    let fixture = Fixture::new(&format!("{tool}\napi text \"made it\"")).await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let elsewhere = server.session(&fixture).await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "make it").await;
    client.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let id = client.page.requests()[0]["id"].as_str().expect("an id").to_owned();
    let until = 4_000_000_000_000_u64;
    let remember = json!({ "rule": "exact", "until": until, "scope": "directory" });
    let answer = json!({ "decision": "allow", "remember": remember });
    let path = format!("/sessions/{session}/requests/{id}");
    let (status, answered) = server.post(&path, answer).await;
    assert_eq!((status, answered["outcome"].as_str()), (200, Some("allowed_and_remembered")));
    let all = server.get("/grants").await;
    let grant = &all["grants"][0];
    assert_eq!((&grant["tool"], &grant["pattern"]), (&json!("Bash"), &json!("touch made")));
    assert_eq!((&grant["until"], &grant["session"]), (&json!(until), &Value::Null));
    assert_eq!(grant["by"], json!({ "name": "link", "via": "api" }));
    for session in [&session, &elsewhere] {
        assert_eq!(server.get(&format!("/sessions/{session}/grants")).await, all);
    }
    let path = format!("/grants/{}", grant["id"].as_str().expect("an id"));
    assert_eq!(server.ask(Method::DELETE, &path, None).await.status(), 204);
    assert_eq!(server.ask(Method::DELETE, &path, None).await.status(), 404);
    assert_eq!(server.get("/grants").await["grants"], json!([]));
    client.until(|page| page.is_idle() && page.contains("made it")).await;
    server.prompt(&session, "make it again").await;
    client.until(|page| !page.requests().is_empty()).await;
    let nowhere = format!("/sessions/{}/grants", Uuid::new_v4());
    assert_eq!(server.ask(Method::GET, &nowhere, None).await.status(), 404);
}

#[tokio::test]
async fn a_rewind_that_the_agent_refuses_is_reported() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "say hi").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("hi")).await;
    for what in ["files", "both"] {
        let back = json!({ "prompt": Uuid::new_v4(), "what": what });
        let (status, problem) = server.post(&format!("/sessions/{session}/rewind"), back).await;
        assert_eq!((status, problem["type"].as_str()), (409, Some("about:towpath#agent-refused")));
    }
    assert!(!client.page.html().contains("put back"));
}

#[tokio::test]
async fn a_turn_reports_its_files_and_its_usage() {
    let replies = "api tool Write {\"file_path\":\"$cwd/a.txt\",\"content\":\"one\\ntwo\\n\"}\napi text \"written\"";
    let fixture = Fixture::new(replies).await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let settings = format!("/sessions/{session}/settings");
    let set = server.ask(Method::PATCH, &settings, Some(json!({ "mode": "acceptEdits" }))).await;
    assert_eq!(set.status(), 204);
    server.prompt(&session, "write it").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("written")).await;
    let files = server.get(&format!("/sessions/{session}/turns/1/files")).await;
    assert_eq!(files["files"][0]["added"], 2, "{files}");
    let changed = server.get(&format!("/sessions/{session}/changed")).await;
    assert_eq!(changed["files"][0]["path"], files["files"][0]["path"]);
    assert_eq!(changed["files"][0]["turns"], json!([1]));
    let usage = server.get("/usage?days=2").await;
    let row = &usage["days"][0];
    assert!(row["tokens"]["output"].as_u64() > Some(0) && row["turns"] == 1, "{usage}");
    let found = server.get(&format!("/sessions/{session}/files?query=atx")).await;
    assert_eq!(found["paths"], json!(["a.txt"]));
    let items = server.get(&format!("/sessions/{session}/items?limit=2")).await;
    assert_eq!(items["items"].as_array().map(Vec::len), Some(2), "{items}");
    assert_eq!(items["more"], true);
    let first = &items["items"][0]["position"];
    let before = format!("/sessions/{session}/items?limit=50&before={}.{}", first[0], first[1]);
    let older = server.get(&before).await;
    let ids = |page: &Value| {
        page["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|it| it["id"].to_string())
            .collect::<Vec<_>>()
    };
    let (older_ids, ids) = (ids(&older), ids(&items));
    assert!(!older_ids.is_empty() && older_ids.iter().all(|id| !ids.contains(id)));
    let renamed = server
        .ask(Method::PATCH, &format!("/sessions/{session}"), Some(json!({ "title": "Lists" })))
        .await;
    assert_eq!(renamed.json::<Value>().await.expect("JSON")["title"], "Lists");
    let (status, fork) = server.post(&format!("/sessions/{session}/fork"), json!({})).await;
    assert_eq!(status, 201, "{fork}");
    let gone = server.ask(Method::DELETE, &format!("/sessions/{session}"), None).await;
    assert_eq!(gone.status(), 204);
    assert_eq!(
        client.next().await["frame"].as_str().map(|it| it == "deleted" || it == "update"),
        Some(true)
    );
    assert_eq!(server.get("/sessions").await["sessions"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_waiting_prompt_is_steered_into_the_turn_in_one_step() {
    let replies =
        "api text \"one two three four\" hold gate after 2 for \"first\"\napi text \"steered\"";
    let fixture = Fixture::new(replies).await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "first").await;
    client.until(|page| page.snapshots > 0 && page.contains("one")).await;
    let prompts = format!("/sessions/{session}/prompts");
    let waiting = json!({ "id": Uuid::new_v4(), "text": "second" });
    assert_eq!(server.post(&prompts, waiting.clone()).await.0, 202);
    let listed = server.get(&prompts).await;
    let second = |listed: &Value| {
        let all = listed["prompts"].as_array().expect("prompts").clone();
        all.into_iter().find(|it| it["id"] == waiting["id"]).expect("it is listed")
    };
    assert_eq!(second(&listed)["delivery"], "queue");
    let path = format!("{prompts}/{}", waiting["id"].as_str().expect("an id"));
    let edit = async |body: Value| server.ask(Method::PATCH, &path, Some(body)).await.status();
    assert_eq!(edit(json!({})).await, 400);
    assert_eq!(edit(json!({ "delivery": "steer" })).await, 204);
    let steered = second(&server.get(&prompts).await);
    assert_eq!((&steered["delivery"], &steered["text"]), (&json!("steer"), &json!("second")));
    assert_ne!(steered["state"], "queued", "it was sent to the agent");
    assert_eq!(edit(json!({ "delivery": "queue" })).await, 409);
    fixture.api.open("gate");
    client.until(|page| page.is_idle() && page.contains("steered")).await;
}
