//! Session options over HTTP: every option reaches the agent, changes restart it, roles and attacks.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use test_support::agent_recorder::{AgentRecorder, AgentStart, every_option};

use crate::fixture::{Fixture, Page, TIMEOUT, TestServer};

const PLAYER: &str = concat!("'", env!("CARGO_BIN_EXE_towpath"), "' play");

const MODEL: &str = "api text \"one\"\napi text \"two\"\napi text \"three\"\napi text \"four\"";

/// A server whose agents are recorded, with further arguments.
async fn serve(fixture: &Fixture, more: &[&str]) -> (TestServer, AgentRecorder) {
    let recorder = AgentRecorder::new(&fixture.path("starts"), PLAYER);
    let (agent, root) = (recorder.program().display().to_string(), fixture.project());
    let arguments = [&["--claude", agent.as_str(), "--root", root.as_str()], more].concat();
    (fixture.start(fixture.command(&arguments)).await, recorder)
}

async fn wait_for_start(recorder: &AgentRecorder, number: usize) -> AgentStart {
    let started = async {
        loop {
            if let Some(start) = recorder.starts().get(number - 1) {
                return start.clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, started).await.expect("the agent starts")
}

/// A client with another role.
async fn sign_in_as(server: &TestServer, role: &str) -> String {
    let (status, made) = server.post("/tokens", json!({ "name": role, "role": role })).await;
    assert!(status < 300, "{made}");
    made["token"].as_str().or_else(|| made["secret"].as_str()).expect("a token").to_owned()
}

async fn ask_as(
    server: &TestServer,
    token: &str,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> (StatusCode, Value) {
    let mut request =
        server.http.request(method, format!("{}/api/v1{path}", server.url)).bearer_auth(token);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request.send().await.expect("an answer");
    (response.status(), response.json().await.unwrap_or_default())
}

async fn patch(server: &TestServer, id: &str, body: Value) -> (StatusCode, Value) {
    let token = server.token.clone();
    ask_as(server, &token, Method::PATCH, &format!("/sessions/{id}"), Some(body)).await
}

fn is_idle(page: &Page) -> bool {
    page.parts.get("status").is_some_and(|it| it["phase"]["kind"] == "idle")
}

fn has_text(page: &Page, text: &str) -> bool {
    page.items.values().any(|it| it.to_string().contains(text))
}

#[tokio::test]
async fn every_option_of_a_new_session_reaches_its_agent() {
    let fixture = Fixture::new(MODEL).await;
    let (server, recorder) = serve(&fixture, &[]).await;
    let extra = fixture.path("project").join("extra").canonicalize().unwrap_or_else(|_| {
        std::fs::create_dir(fixture.path("project").join("extra")).expect("a directory");
        fixture.path("project").join("extra").canonicalize().expect("a path")
    });
    let mut every = every_option(&extra);
    every["agent"] = json!("claude");
    let mut body = every.clone();
    body["cwd"] = json!(fixture.project());
    body["prompt"] = json!("hello");
    let (status, made) = server.post("/sessions", body).await;
    assert_eq!(status, 201, "{made}");
    wait_for_start(&recorder, 1).await.assert_every_option(&extra);
    let id = made["id"].as_str().expect("an id");
    let shown = server.get(&format!("/sessions/{id}")).await;
    assert_eq!(shown["options"], every, "an admin sees everything");

    let watcher = sign_in_as(&server, "watch").await;
    let (_, shown) = ask_as(&server, &watcher, Method::GET, &format!("/sessions/{id}"), None).await;
    assert_eq!(shown["options"]["environment"], json!({"OPTION_OF_A_TEST": "•••"}));
    let (_, all) = ask_as(&server, &watcher, Method::GET, "/options", None).await;
    let options = all["options"].as_array().expect("options");
    assert_eq!(options.len(), every.as_object().map_or(0, serde_json::Map::len));
    for option in options {
        let name = option["name"].as_str().expect("a name");
        assert!(every.get(name).is_some(), "{name} is not tested");
        assert_eq!(option["settable"], false, "{name}");
    }
}

#[tokio::test]
async fn a_changed_option_restarts_the_agent_and_holds_after_a_kill() {
    let fixture = Fixture::new(MODEL).await;
    let (mut server, recorder) = serve(&fixture, &[]).await;
    let id = server.session(&fixture).await;
    let mut client = server.follow(&format!("/sessions/{id}/follow")).await;
    server.prompt(&id, "first").await;
    client.until(|page| has_text(page, "one") && is_idle(page)).await;
    assert_eq!(wait_for_start(&recorder, 1).await.value("--max-turns"), None);

    let changed = json!({ "options": { "max_turns": 5, "environment": { "KEY": "hush" } } });
    let (status, shown) = patch(&server, &id, changed).await;
    assert_eq!((status, &shown["options"]["max_turns"]), (StatusCode::OK, &json!(5)), "{shown}");
    client.until(|page| has_text(page, "max_turns")).await;
    assert!(!has_text(&client.page, "hush"), "a secret is in the conversation");

    // The server is killed before anything was started with the new options.
    server.child.kill().await.expect("a kill");
    let (server, _) = serve(&fixture, &[]).await;
    server.prompt(&id, "second").await;
    let start = wait_for_start(&recorder, 2).await;
    assert_eq!(start.value("--max-turns"), Some("5"));
    assert_eq!(start.environment.get("KEY").map(String::as_str), Some("hush"));
    assert!(start.value("--resume").is_some(), "{:?}", start.arguments);
    let mut client = server.follow(&format!("/sessions/{id}/follow")).await;
    client.until(|page| has_text(page, "two") && is_idle(page)).await;

    let (status, shown) = patch(&server, &id, json!({ "options": { "max_turns": null } })).await;
    assert_eq!((status, shown["options"].get("max_turns")), (StatusCode::OK, None), "{shown}");
    server.prompt(&id, "third").await;
    assert_eq!(wait_for_start(&recorder, 3).await.value("--max-turns"), None);
}

#[tokio::test]
async fn names_values_and_roles_are_checked() {
    let fixture = Fixture::new(MODEL).await;
    let (server, recorder) = serve(&fixture, &[]).await;
    let cwd = fixture.project();
    let drive = sign_in_as(&server, "drive").await;
    let create = async |token: &str, mut body: Value| {
        body["cwd"] = json!(cwd);
        ask_as(&server, token, Method::POST, "/sessions", Some(body)).await
    };
    for (body, status, part) in [
        (json!({ "maxturns": 3 }), 400, "did you mean `max_turns`?"),
        (json!({ "max_turns": 0 }), 400, "from 1 to"),
        (json!({ "model": "--version" }), 400, "dash"),
        (json!({ "environment": { "A": "b" } }), 403, "`admin`"),
        (json!({ "mcp_config": "/etc/passwd" }), 403, "`admin`"),
        (json!({ "mode": "bypassPermissions" }), 403, "--allow-bypass"),
        (json!({ "extra_directories": ["/"] }), 403, "root"),
        (json!({ "profile": "nope" }), 400, "no profile"),
    ] {
        let (answered, problem) = create(&drive, body.clone()).await;
        assert_eq!(answered, status, "{body}: {problem}");
        assert!(problem["detail"].as_str().is_some_and(|it| it.contains(part)), "{problem}");
    }
    let long = "x".repeat(1_000_000);
    let (answered, problem) = create(&server.token, json!({ "append_system_prompt": long })).await;
    assert_eq!(answered, 400);
    assert!(problem.to_string().len() < 1000);
    std::os::unix::fs::symlink("/", fixture.path("project").join("out")).expect("a link");
    let linked = json!({ "extra_directories": [format!("{cwd}/out/tmp")] });
    assert_eq!(create(&server.token, linked).await.0, 403);

    let (status, made) = create(&server.token, json!({ "environment": { "A": "b" } })).await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().expect("an id");
    let patch = json!({ "options": { "environment": null } });
    let session = format!("/sessions/{id}");
    let (status, _) = ask_as(&server, &drive, Method::PATCH, &session, Some(patch)).await;
    assert_eq!(status, 403);
    assert!(recorder.starts().is_empty());
}

#[tokio::test]
async fn the_mode_without_questions_needs_a_server_that_allows_it_an_admin_and_a_confirmation() {
    let fixture = Fixture::new(MODEL).await;
    let (server, recorder) = serve(&fixture, &["--allow-bypass"]).await;
    let drive = sign_in_as(&server, "drive").await;
    let id = server.session(&fixture).await;
    let mut client = server.follow(&format!("/sessions/{id}/follow")).await;
    server.prompt(&id, "first").await;
    client.until(|page| has_text(page, "one") && is_idle(page)).await;
    let bypass = json!({ "options": { "mode": "bypassPermissions" } });
    let path = format!("/sessions/{id}");
    let (status, _) = ask_as(&server, &drive, Method::PATCH, &path, Some(bypass.clone())).await;
    assert_eq!(status, 403);
    let (status, problem) = patch(&server, &id, bypass.clone()).await;
    assert_eq!(
        (status, &problem["type"]),
        (StatusCode::CONFLICT, &json!("about:towpath#needs-confirmation"))
    );
    let mut confirmed = bypass;
    confirmed["confirm"] = json!(true);
    let (status, shown) = patch(&server, &id, confirmed).await;
    assert_eq!(status, StatusCode::OK, "{shown}");
    server.prompt(&id, "second").await;
    let start = wait_for_start(&recorder, 2).await;
    assert_eq!(start.value("--permission-mode"), Some("bypassPermissions"));
    let (status, shown) = patch(&server, &id, json!({ "options": { "mode": "plan" } })).await;
    assert_eq!((status, &shown["options"]["mode"]), (StatusCode::OK, &json!("plan")), "{shown}");
    let (status, _) =
        ask_as(&server, &drive, Method::POST, &format!("{path}/fork"), Some(json!({}))).await;
    assert_eq!(status, 201, "it is no longer in that mode");
}

#[tokio::test]
async fn profiles_of_the_owner_apply_and_those_of_a_project_only_after_trust() {
    let fixture = Fixture::new(MODEL).await;
    let config = fixture.path("home").join(".config/towpath");
    std::fs::create_dir_all(&config).expect("a directory");
    let text = "[profiles.own]\nmax_turns = 4\nenvironment = { SECRET = \"hush\" }\n";
    std::fs::write(config.join("config.toml"), text).expect("a file");
    std::fs::create_dir(fixture.path("project").join(".git")).expect("a directory");
    let file = fixture.path("project").join("towpath.toml");
    std::fs::write(&file, "profile = \"ci\"\n[profiles.ci]\nmax_turns = 9\n").expect("a file");
    let (server, recorder) = serve(&fixture, &[]).await;
    let cwd = fixture.project();
    let drive = sign_in_as(&server, "drive").await;
    let (_, listed) =
        ask_as(&server, &drive, Method::GET, &format!("/options?cwd={cwd}"), None).await;
    assert_eq!(listed["profiles"][0]["options"]["environment"], json!({"SECRET": "•••"}));
    assert_eq!(listed["project"]["trusted"], false, "{listed}");
    assert!(listed["project"]["text"].as_str().is_some_and(|it| it.contains("max_turns = 9")));
    let digest = listed["project"]["digest"].clone();

    let (status, problem) = server.post("/sessions", json!({ "cwd": cwd, "profile": "ci" })).await;
    assert_eq!((status, &problem["type"]), (409, &json!("about:towpath#not-trusted")));
    let trust = json!({ "cwd": cwd, "digest": digest });
    let (status, _) =
        ask_as(&server, &drive, Method::POST, "/projects/trust", Some(trust.clone())).await;
    assert_eq!(status, 403, "only an admin trusts");
    // An attacker changes the file between the look and the click.
    std::fs::write(&file, "profile = \"ci\"\n[profiles.ci]\nmax_turns = 10\n").expect("a file");
    assert_eq!(server.post("/projects/trust", trust).await.0, 409);
    let listed = server.get(&format!("/options?cwd={cwd}")).await;
    let trust = json!({ "cwd": cwd, "digest": listed["project"]["digest"] });
    assert_eq!(server.post("/projects/trust", trust).await.0, 204);

    let new = json!({ "cwd": cwd, "prompt": "hi" });
    let (status, made) = server.post("/sessions", new).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(wait_for_start(&recorder, 1).await.value("--max-turns"), Some("10"));
    let (_, made) = ask_as(
        &server,
        &drive,
        Method::POST,
        "/sessions",
        Some(json!({ "cwd": cwd, "profile": "own", "max_turns": 6, "prompt": "hi" })),
    )
    .await;
    let start = wait_for_start(&recorder, 2).await;
    assert_eq!(start.value("--max-turns"), Some("6"), "what is given counts");
    assert_eq!(start.environment.get("SECRET").map(String::as_str), Some("hush"));
    let path = format!("/sessions/{}/fork", made["id"].as_str().expect("an id"));
    let (status, problem) = ask_as(&server, &drive, Method::POST, &path, Some(json!({}))).await;
    assert!(status == 403 || status == 409, "{status} {problem}");

    // A changed file is not used until someone has looked at it again.
    std::fs::write(&file, "profile = \"ci\"\n[profiles.ci]\nmax_turns = 11\n").expect("a file");
    let new = json!({ "cwd": cwd, "prompt": "hi" });
    assert_eq!(server.post("/sessions", new).await.0, 201);
    assert_eq!(wait_for_start(&recorder, 3).await.value("--max-turns"), None);
}

#[tokio::test]
async fn a_session_that_is_to_be_deleted_is_gone_when_it_is_closed() {
    let fixture = Fixture::new(MODEL).await;
    let (server, recorder) = serve(&fixture, &[]).await;
    let new = json!({ "cwd": fixture.project(), "delete_when_ended": true, "prompt": "hello" });
    let (status, made) = server.post("/sessions", new).await;
    assert_eq!(status, 201, "{made}");
    let id = made["id"].as_str().expect("an id").to_owned();
    wait_for_start(&recorder, 1).await;
    let mut client = server.follow(&format!("/sessions/{id}/follow")).await;
    client.until(|page| has_text(page, "one") && is_idle(page)).await;
    let path = format!("/sessions/{id}/close");
    assert_eq!(server.ask(Method::POST, &path, None).await.status(), 204);
    let gone = async {
        while server.ask(Method::GET, &format!("/sessions/{id}"), None).await.status() != 404 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, gone).await.expect("it is deleted");
    // Its files go last.
    let live = fixture.path("data").join("live").join(&id);
    let gone = async {
        while live.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, gone).await.expect("its files are deleted");
}
