//! Reading a session: its outline, its export, and what files add to the agent.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::fixture::{Fixture, TestServer};

async fn text(server: &TestServer, path: &str) -> (u16, String, String) {
    let response = server.ask(Method::GET, path, None).await;
    let kind = response.headers().get("content-type").and_then(|it| it.to_str().ok());
    let kind = kind.unwrap_or_default().to_owned();
    (response.status().as_u16(), kind, response.text().await.expect("text"))
}

#[tokio::test]
async fn the_outline_lists_the_prompts_and_the_export_has_the_conversation() {
    let script = "api text \"the answer is <b>\"\napi text \"and the second\"";
    let fixture = Fixture::new(script).await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}");
    server.prompt(&session, "first   prompt\nwith <script>").await;
    let mut page = server.follow(&format!("{path}/follow")).await;
    page.until(|it| it.contains("the answer") && it.is_idle()).await;
    server.prompt(&session, "second").await;
    page.until(|it| it.contains("and the second") && it.is_idle()).await;

    let outline = server.get(&format!("{path}/outline")).await;
    let texts: Vec<_> =
        outline["prompts"].as_array().expect("prompts").iter().map(|it| &it["text"]).collect();
    assert_eq!(texts, ["first prompt with <script>", "second"]);
    assert_eq!(outline["total"], 2);
    let position = &outline["prompts"][1]["position"];
    let before = format!("{}.{}", position[0], position[1].as_u64().expect("a rank") + 1);
    let items = server.get(&format!("{path}/items?before={before}&limit=1")).await;
    assert!(items["items"][0]["html"].as_str().expect("HTML").contains("second"), "{items}");

    let (status, kind, whole) = text(&server, &format!("{path}/export")).await;
    assert_eq!((status, kind.as_str()), (200, "text/html; charset=utf-8"));
    assert!(whole.starts_with("<!doctype html>") || whole.starts_with("<!DOCTYPE html>"));
    assert!(whole.contains("first") && whole.contains("and the second"), "{whole}");
    assert!(whole.contains("&lt;b&gt;"), "{whole}");
    assert!(!whole.contains("<script>alert") && !whole.contains("with <script>"), "escaped");
    assert!(whole.contains("Content-Security-Policy"), "it loads and sends nothing");
    let (status, _, short) = text(&server, &format!("{path}/export?output=false")).await;
    assert_eq!(status, 200);
    assert!(short.contains("and the second"));
}

#[tokio::test]
async fn only_who_may_watch_reads_and_wrong_requests_are_refused() {
    let fixture = Fixture::new("api text \"hello\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    for part in ["outline", "export", "agent/files"] {
        let path = format!("/sessions/{session}/{part}");
        let url = format!("{}/api/v1{path}", server.url);
        let unknown = server.http.get(&url).send().await.expect("an answer");
        assert_eq!(unknown.status(), 401, "{part}");
        let other = server.http.get(&url).bearer_auth(&server.token);
        let other = other.header("host", "evil.example").send().await.expect("an answer");
        assert!(other.status().is_client_error(), "{part}: {}", other.status());
        let (status, _, _) = text(&server, &path).await;
        assert_eq!(status, 200, "{part}: an empty session");
        let written = server.ask(Method::POST, &path, Some(json!({}))).await;
        assert_eq!(written.status(), 405, "{part}");
        let nothing = "00000000-0000-4000-8000-000000000000";
        let (status, _, _) = text(&server, &format!("/sessions/{nothing}/{part}")).await;
        assert_eq!(status, 404, "{part}");
        let (status, _, _) = text(&server, &format!("/sessions/..%2f..%2fetc/{part}")).await;
        assert!((400..500).contains(&status), "{part}: {status}");
    }
    for wrong in ["output=maybe", "other=1"] {
        let (status, _, _) = text(&server, &format!("/sessions/{session}/export?{wrong}")).await;
        assert_eq!(status, 400, "{wrong}");
    }
}

#[tokio::test]
async fn what_files_of_the_project_add_is_listed_without_secrets() {
    let fixture = Fixture::new("api text \"hello\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let project = std::path::PathBuf::from(fixture.project());
    fs::create_dir_all(project.join(".claude/agents")).expect("a directory");
    let hooks = json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "notify"}]}]}, "env": {"KEY": "secret"}});
    fs::write(project.join(".claude/settings.json"), hooks.to_string()).expect("written");
    fs::write(project.join(".claude/agents/a.md"), "---\nname: helper\n---\n").expect("written");
    let files: Value = server.get(&format!("/sessions/{session}/agent/files")).await;
    assert_eq!(files["hooks"][0]["command"], "notify", "{files}");
    assert_eq!(files["agents"][0]["name"], "helper", "{files}");
    assert!(!files.to_string().contains("secret"), "{files}");
}
