//! Hooks that run before a file changes: the agent waits for them, and they may deny the change.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::{Fixture, TestServer};
use crate::real_cli;
use crate::watch::{kill, until};

/// A hook that denies every change of a file called `secret.txt`, and logs its calls.
fn guard(fixture: &Fixture) -> String {
    let log = fixture.path("tmp/guard");
    format!(
        "input=$(cat); printf '%s\\n' \"$input\" >> '{}'; \
         case $input in *secret.txt*) echo 'secrets stay as they are' >&2; exit 2;; esac",
        log.display()
    )
}

const REPLIES: &str = "api tool Write {\"file_path\":\"$cwd/open.txt\",\"content\":\"new\"}\n\
     api tool Edit {\"file_path\":\"$cwd/secret.txt\",\"old_string\":\"old\",\"new_string\":\"new\"}\n\
     api text \"I could not.\"";

/// Needs a read file before an edit.
const REPLIES_WITH_READ: &str = "api tool Read {\"file_path\":\"$cwd/secret.txt\"}\n\
     api tool Write {\"file_path\":\"$cwd/open.txt\",\"content\":\"new\"}\n\
     api tool Edit {\"file_path\":\"$cwd/secret.txt\",\"old_string\":\"old\",\"new_string\":\"new\"}\n\
     api text \"I could not.\"";

async fn create(server: &TestServer, fixture: &Fixture, more: Value) -> String {
    let mut new = json!({ "cwd": fixture.project(), "mode": "acceptEdits" });
    new.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let (status, created) = server.post("/sessions", new).await;
    assert_eq!(status, 201, "{created}");
    created["id"].as_str().expect("an id").to_owned()
}

async fn turn(server: &TestServer, session: &str, prompt: &str, end: &str) -> String {
    server.prompt(session, prompt).await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains(end)).await;
    client.page.html()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

async fn log_of(server: &TestServer, session: &str) -> Value {
    server.get(&format!("/sessions/{session}/watch")).await["log"].clone()
}

/// A hook denies an edit, whatever the agent is.
async fn check_denial(fixture: &Fixture, server: &TestServer, session: &str) {
    let html = turn(server, session, "change both", "I could not.").await;
    assert_eq!(read(&fixture.path("project/secret.txt")), "old");
    assert_eq!(read(&fixture.path("project/open.txt")), "new");
    assert!(html.contains("secrets stay as they are"), "{html}");
    let told = fixture
        .api
        .requests()
        .iter()
        .any(|it| it.body["messages"].to_string().contains("secrets stay as they are"));
    assert!(told, "the model is told why");
    let calls = read(&fixture.path("tmp/guard"));
    let calls: Vec<Value> =
        calls.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let tools: Vec<&str> = calls.iter().filter_map(|it| it["tool_name"].as_str()).collect();
    assert_eq!(tools, ["Write", "Edit"], "each hook runs once");
    assert!(calls.iter().all(|it| it["hook_event_name"] == "PreToolUse"));
    assert!(calls[0]["transcript_path"].is_string() && calls[0]["tool_use_id"].is_string());
    let mut log = Value::Null;
    until("the denial is logged", async || {
        log = log_of(server, session).await;
        log.to_string().contains("denied Edit")
    })
    .await;
    let denied = log
        .as_array()
        .expect("lines")
        .iter()
        .find(|it| it["text"].as_str().is_some_and(|it| it.contains("denied Edit")));
    let denied = denied.expect("the line");
    assert_eq!(denied["kind"], "hook", "{log}");
    assert!(denied["path"].as_str().is_some_and(|it| it.ends_with("secret.txt")), "{log}");
    let open = server.get(&format!("/sessions/{session}/requests")).await;
    assert_eq!(open["requests"], json!([]));
    let ledger = server.get(&format!("/sessions/{session}/ledger")).await;
    assert!(!ledger.to_string().contains("hook_callback"), "{ledger}");
}

#[tokio::test]
async fn a_hook_of_the_server_denies_an_edit_before_it_happens() {
    let fixture = Fixture::new(REPLIES).await;
    std::fs::write(fixture.path("project/secret.txt"), "old").expect("a file");
    let server = fixture.serve_with(&["--pre", &guard(&fixture)]).await;
    let session = create(&server, &fixture, json!({})).await;
    check_denial(&fixture, &server, &session).await;
    let lines = server.get(&format!("/sessions/{session}/lines?limit=1000")).await.to_string();
    assert!(lines.contains("hook_callback"), "the request is a line of the journal");
}

#[tokio::test]
async fn a_hook_of_a_session_denies_an_edit_and_other_sessions_have_none() {
    let fixture = Fixture::new(&format!(
        "{REPLIES}\napi tool Write {{\"file_path\":\"$cwd/my-secret.txt\",\"content\":\"new\"}}\napi text \"Done.\""
    ))
    .await;
    std::fs::write(fixture.path("project/secret.txt"), "old").expect("a file");
    let server = fixture.serve().await;
    let watch = json!({ "watch": { "hooks": { "pre": guard(&fixture) } } });
    let session = create(&server, &fixture, watch).await;
    check_denial(&fixture, &server, &session).await;
    let lines = server.get(&format!("/sessions/{session}/lines?limit=1000")).await.to_string();
    assert!(lines.contains("hook_callback"));
    let calls = read(&fixture.path("tmp/guard"));
    let other = create(&server, &fixture, json!({})).await;
    turn(&server, &other, "change it", "Done.").await;
    assert_eq!(read(&fixture.path("project/my-secret.txt")), "new");
    let lines = server.get(&format!("/sessions/{other}/lines?limit=1000")).await.to_string();
    assert!(!lines.contains("hook_callback"), "no hook is registered");
    assert_eq!(read(&fixture.path("tmp/guard")), calls);
}

#[tokio::test]
async fn a_hook_that_is_cut_off_by_a_kill_runs_again_and_the_call_goes_on() {
    let fixture = Fixture::new(
        "api tool Write {\"file_path\":\"$cwd/late.txt\",\"content\":\"late\"}\napi text \"Written.\"",
    )
    .await;
    let (begun, gate) = (fixture.path("tmp/begun"), fixture.path("tmp/gate"));
    let hook = format!(
        "echo x >> '{}'; until test -e '{}'; do sleep 0.05; done",
        begun.display(),
        gate.display()
    );
    let server = fixture.serve_with(&["--pre", &hook]).await;
    let session = create(&server, &fixture, json!({})).await;
    server.prompt(&session, "write it").await;
    until("the hook runs", async || begun.exists()).await;
    kill(server).await;
    assert!(!fixture.path("project/late.txt").exists());
    let server = fixture.serve_with(&["--pre", &hook]).await;
    until("the hook runs again", async || read(&begun).lines().count() == 2).await;
    assert!(!fixture.path("project/late.txt").exists());
    std::fs::write(&gate, "").expect("a gate");
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("Written.")).await;
    assert_eq!(read(&fixture.path("project/late.txt")), "late");
    let lines = server.get(&format!("/sessions/{session}/lines?limit=1000")).await;
    let lines = lines["lines"].as_array().expect("lines").clone();
    let call = lines.iter().map(Value::to_string).filter(|it| it.contains("hook_callback")).count();
    assert_eq!(call, 1, "{lines:?}");
}

#[tokio::test]
async fn a_hook_that_no_longer_exists_does_not_hold_up_the_agent() {
    let fixture = Fixture::new(
        "api tool Write {\"file_path\":\"$cwd/late.txt\",\"content\":\"late\"}\napi text \"Written.\"",
    )
    .await;
    let begun = fixture.path("tmp/begun");
    let hook = format!("touch '{}'; sleep 1000", begun.display());
    let server = fixture.serve_with(&["--pre", &hook]).await;
    let session = create(&server, &fixture, json!({})).await;
    server.prompt(&session, "write it").await;
    until("the hook runs", async || begun.exists()).await;
    kill(server).await;
    let server = fixture.serve().await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("Written.")).await;
    assert_eq!(read(&fixture.path("project/late.txt")), "late");
}

#[tokio::test]
async fn a_hook_added_to_a_running_session_runs_before_its_next_change() {
    let fixture = Fixture::new(&format!("api text \"Hello.\"\n{REPLIES}")).await;
    std::fs::write(fixture.path("project/secret.txt"), "old").expect("a file");
    let server = fixture.serve().await;
    let session = create(&server, &fixture, json!({})).await;
    turn(&server, &session, "hello", "Hello.").await;
    let settings = json!({ "watch": { "hooks": { "pre": guard(&fixture) } } });
    let path = format!("/sessions/{session}/settings");
    let set = server.ask(reqwest::Method::PATCH, &path, Some(settings)).await;
    assert_eq!(set.status(), 204);
    check_denial(&fixture, &server, &session).await;
}

#[tokio::test]
async fn a_hook_checks_a_large_change_too() {
    let content = "x".repeat(400 << 10);
    let fixture = Fixture::new(&format!(
        "api tool Write {{\"file_path\":\"$cwd/large.txt\",\"content\":\"{content}\"}}\n\
         api tool Write {{\"file_path\":\"$cwd/secret.txt\",\"content\":\"{content}\"}}\napi text \"So be it.\""
    ))
    .await;
    let server = fixture.serve_with(&["--pre", &guard(&fixture)]).await;
    let session = create(&server, &fixture, json!({})).await;
    turn(&server, &session, "write both", "So be it.").await;
    assert_eq!(read(&fixture.path("project/large.txt")).len(), content.len());
    assert!(!fixture.path("project/secret.txt").exists());
}

#[tokio::test]
async fn a_hook_denies_an_edit_of_the_real_cli() {
    match real_cli::command().await {
        Ok(_) => real_cli::without_network("hooks::denial_with_the_real_cli"),
        Err(why) => real_cli::skip(&why),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it runs inside the test above, without a network"]
async fn denial_with_the_real_cli() {
    let command = real_cli::command().await.expect("it was there just now");
    let fixture = Fixture::new(REPLIES_WITH_READ).await;
    std::fs::write(fixture.path("project/secret.txt"), "old").expect("a file");
    let quoted = |word: &OsString| format!("'{}'", word.display());
    let words: Vec<String> = command.iter().map(quoted).collect();
    let script = format!(
        "#!/bin/sh\nexport IS_SANDBOX=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
         DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1\nexec {} \"$@\"\n",
        words.join(" ")
    );
    std::fs::write(fixture.path("agent"), script).expect("a script");
    let server = fixture.serve_with(&["--pre", &guard(&fixture)]).await;
    let session = create(&server, &fixture, json!({})).await;
    check_denial(&fixture, &server, &session).await;
}
