//! Prompts, requests, and what else programs do.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::stage::Stage;

#[tokio::test]
async fn a_prompt_sent_twice_is_one_turn() {
    let stage = Stage::new("api text \"once\"").await;
    let serving = stage.serve().await;
    let session = serving.session(&stage).await;
    let path = format!("/sessions/{session}/prompts");
    let prompt = json!({ "id": Uuid::new_v4(), "text": "say it" });
    for _ in 0..3 {
        let (status, taken) = serving.post(&path, prompt.clone()).await;
        assert_eq!((status, &taken["id"]), (202, &prompt["id"]), "{taken}");
    }
    let mut follower = serving.follow(&format!("/sessions/{session}/follow")).await;
    follower.until(|page| page.snapshots > 0 && page.is_idle() && page.says("once")).await;
    let (status, taken) = serving.post(&path, prompt.clone()).await;
    assert_eq!((status, taken["state"].as_str()), (202, Some("done")));
    assert_eq!(serving.get(&format!("/sessions/{session}")).await["turn"], 1);
    assert_eq!(
        stage.api.requests().iter().filter(|it| it.body.to_string().contains("say it")).count(),
        1
    );
    assert_eq!(follower.page.html().matches("say it").count(), 1);
}

#[tokio::test]
async fn one_approval_in_two_browsers_is_answered_once() {
    let stage =
        Stage::new("api tool Bash {\"command\":\"touch made\"}\napi text \"made it\"").await;
    let serving = stage.serve().await;
    let session = serving.session(&stage).await;
    let path = format!("/sessions/{session}/follow");
    let mut one = serving.follow(&path).await;
    let mut other = serving.follow(&path).await;
    serving.prompt(&session, "make it").await;
    one.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    other.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let request = one.page.requests()[0].clone();
    assert_eq!(request, other.page.requests()[0]);
    assert!(request["html"].as_str().expect("HTML").contains("touch made"), "{request}");
    let id = request["id"].as_str().expect("an id");
    let listed = serving.get(&format!("/sessions/{session}/requests")).await;
    assert_eq!(listed["requests"][0]["id"], id);
    let answer = format!("/sessions/{session}/requests/{id}");
    let (status, answered) = serving.post(&answer, json!({ "decision": "allow" })).await;
    assert_eq!((status, answered["outcome"].as_str()), (200, Some("allowed")));
    let (status, problem) = serving.post(&answer, json!({ "decision": "deny" })).await;
    assert_eq!(status, 409, "{problem}");
    assert_eq!(problem["type"], "about:towpath#resolved");
    assert_eq!(problem["resolution"]["outcome"], "allowed");
    assert_eq!(problem["resolution"]["by"], json!({ "name": "link", "via": "api" }));
    for follower in [&mut one, &mut other] {
        follower
            .until(|page| page.requests().is_empty() && page.is_idle() && page.says("made it"))
            .await;
    }
    assert!(stage.path("project/made").exists());
    let ledger = serving.get("/ledger").await;
    assert_eq!(ledger["entries"][0]["resolution"]["by"]["name"], "link");
}

#[tokio::test]
async fn what_is_allowed_for_longer_is_listed_where_it_holds_and_taken_back() {
    let tool = "api tool Bash {\"command\":\"touch made\"} always for \"make it\"";
    let stage = Stage::new(&format!("{tool}\napi text \"made it\"")).await;
    let serving = stage.serve().await;
    let session = serving.session(&stage).await;
    let elsewhere = serving.session(&stage).await;
    let mut follower = serving.follow(&format!("/sessions/{session}/follow")).await;
    serving.prompt(&session, "make it").await;
    follower.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let id = follower.page.requests()[0]["id"].as_str().expect("an id").to_owned();
    let until = 4_000_000_000_000_u64;
    let remember = json!({ "pattern": "touch:*", "until": until, "reach": "directory" });
    let answer = json!({ "decision": "allow", "remember": remember });
    let path = format!("/sessions/{session}/requests/{id}");
    let (status, answered) = serving.post(&path, answer).await;
    assert_eq!((status, answered["outcome"].as_str()), (200, Some("allowed_and_remembered")));
    let all = serving.get("/grants").await;
    let grant = &all["grants"][0];
    assert_eq!((&grant["tool"], &grant["pattern"]), (&json!("Bash"), &json!("touch:*")));
    assert_eq!((&grant["until"], &grant["session"]), (&json!(until), &Value::Null));
    assert_eq!(grant["by"], json!({ "name": "link", "via": "api" }));
    for session in [&session, &elsewhere] {
        assert_eq!(serving.get(&format!("/sessions/{session}/grants")).await, all);
    }
    let path = format!("/grants/{}", grant["id"].as_str().expect("an id"));
    assert_eq!(serving.ask(Method::DELETE, &path, None).await.status(), 204);
    assert_eq!(serving.ask(Method::DELETE, &path, None).await.status(), 404);
    assert_eq!(serving.get("/grants").await["grants"], json!([]));
    follower.until(|page| page.is_idle() && page.says("made it")).await;
    serving.prompt(&session, "make it again").await;
    follower.until(|page| !page.requests().is_empty()).await;
    let nowhere = format!("/sessions/{}/grants", Uuid::new_v4());
    assert_eq!(serving.ask(Method::GET, &nowhere, None).await.status(), 404);
}

#[tokio::test]
async fn files_that_the_agent_cannot_put_back_are_not_called_put_back() {
    let stage = Stage::new("api text \"hi\"").await;
    let serving = stage.serve().await;
    let session = serving.session(&stage).await;
    serving.prompt(&session, "say hi").await;
    let mut follower = serving.follow(&format!("/sessions/{session}/follow")).await;
    follower.until(|page| page.snapshots > 0 && page.is_idle() && page.says("hi")).await;
    for what in ["files", "both"] {
        let back = json!({ "prompt": Uuid::new_v4(), "what": what });
        let (status, problem) = serving.post(&format!("/sessions/{session}/rewind"), back).await;
        assert_eq!((status, problem["type"].as_str()), (409, Some("about:towpath#agent-refused")));
    }
    assert!(!follower.page.html().contains("put back"));
}

#[tokio::test]
async fn a_turn_says_what_it_changed_and_what_it_used() {
    let replies = "api tool Write {\"file_path\":\"$cwd/a.txt\",\"content\":\"one\\ntwo\\n\"}\napi text \"written\"";
    let stage = Stage::new(replies).await;
    let serving = stage.serve().await;
    let session = serving.session(&stage).await;
    let settings = format!("/sessions/{session}/settings");
    let set = serving.ask(Method::PATCH, &settings, Some(json!({ "mode": "acceptEdits" }))).await;
    assert_eq!(set.status(), 204);
    serving.prompt(&session, "write it").await;
    let mut follower = serving.follow(&format!("/sessions/{session}/follow")).await;
    follower.until(|page| page.snapshots > 0 && page.is_idle() && page.says("written")).await;
    let files = serving.get(&format!("/sessions/{session}/turns/1/files")).await;
    assert_eq!(files["files"][0]["added"], 2, "{files}");
    let touched = serving.get(&format!("/sessions/{session}/changed")).await;
    assert_eq!(touched["files"][0]["path"], files["files"][0]["path"]);
    assert_eq!(touched["files"][0]["turns"], json!([1]));
    let usage = serving.get("/usage?days=2").await;
    let row = &usage["days"][0];
    assert!(row["tokens"]["output"].as_u64() > Some(0) && row["turns"] == 1, "{usage}");
    let found = serving.get(&format!("/sessions/{session}/files?like=atx")).await;
    assert_eq!(found["paths"], json!(["a.txt"]));
    let items = serving.get(&format!("/sessions/{session}/items?limit=2")).await;
    assert_eq!(items["items"].as_array().map(Vec::len), Some(2), "{items}");
    assert_eq!(items["more"], true);
    let first = &items["items"][0]["place"];
    let before = format!("/sessions/{session}/items?limit=50&before={}.{}", first[0], first[1]);
    let older = serving.get(&before).await;
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
    let renamed = serving
        .ask(Method::PATCH, &format!("/sessions/{session}"), Some(json!({ "title": "Lists" })))
        .await;
    assert_eq!(renamed.json::<Value>().await.expect("JSON")["title"], "Lists");
    let (status, fork) = serving.post(&format!("/sessions/{session}/fork"), json!({})).await;
    assert_eq!(status, 201, "{fork}");
    let gone = serving.ask(Method::DELETE, &format!("/sessions/{session}"), None).await;
    assert_eq!(gone.status(), 204);
    assert_eq!(
        follower.next().await["frame"].as_str().map(|it| it == "gone" || it == "update"),
        Some(true)
    );
    assert_eq!(serving.get("/sessions").await["sessions"].as_array().map(Vec::len), Some(1));
}
