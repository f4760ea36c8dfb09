//! Watching changed files: copies, commits, hooks, the roles they need, and that nothing is lost or
//! done twice when the server is killed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::fixture::{Fixture, TIMEOUT, TestServer};

/// A fixture with a second root for copies.
async fn fixture(replies: &str) -> Fixture {
    let fixture = Fixture::new(replies).await;
    std::fs::create_dir(fixture.path("copies")).expect("a directory");
    fixture
}

fn copies(fixture: &Fixture, name: &str) -> PathBuf {
    fixture.path("copies").canonicalize().expect("a directory").join(name)
}

async fn serve(fixture: &Fixture) -> TestServer {
    fixture.serve_with(&["--root", &fixture.path("copies").display().to_string()]).await
}

pub(crate) async fn kill(mut server: TestServer) {
    let pid = server.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    server.child.wait().await.expect("an end");
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(TIMEOUT, looking).await.is_ok(), "{what}");
}

fn to(directory: &Path) -> Value {
    json!([{ "kind": "directory", "path": directory }])
}

impl TestServer {
    async fn watched(&self, fixture: &Fixture, mode: &str, config: Value) -> String {
        let new = json!({ "cwd": fixture.project(), "mode": mode, "watch": config });
        let (status, created) = self.post("/sessions", new).await;
        assert_eq!(status, 201, "{created}");
        created["id"].as_str().expect("an id").to_owned()
    }

    async fn configure(&self, session: &str, config: Value) {
        let path = format!("/sessions/{session}/settings");
        let set = self.ask(Method::PATCH, &path, Some(json!({ "watch": config }))).await;
        assert_eq!(set.status(), 204);
    }

    /// How far everything is done.
    async fn after(&self, session: &str) -> u64 {
        let state = self.get(&format!("/sessions/{session}/watch")).await;
        state["processed"].as_u64().expect("a number")
    }

    /// Holds a turn to its end.
    async fn turn(&self, session: &str, prompt: &str, end: &str) {
        self.prompt(session, prompt).await;
        self.says(session, end).await;
    }

    async fn says(&self, session: &str, words: &str) {
        let mut client = self.follow(&format!("/sessions/{session}/follow")).await;
        client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains(words)).await;
    }

    async fn status_as(&self, token: &str, method: Method, path: &str, body: &Value) -> u16 {
        let url = format!("{}/api/v1{path}", self.url);
        let request = self.http.request(method, url).bearer_auth(token).json(body);
        request.send().await.expect("an answer").status().as_u16()
    }
}

fn tree(root: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).expect("below").display().to_string();
                files.push((name, std::fs::read_to_string(&path).unwrap_or_default()));
            }
        }
    }
    files.sort();
    files
}

fn files(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[tokio::test]
async fn files_are_copied_while_watching_is_configured() {
    let fixture = fixture(
        "api tool Write {\"file_path\":\"$cwd/one.txt\",\"content\":\"1\"}\napi text \"First.\"\n\
         api tool Write {\"file_path\":\"$cwd/two.txt\",\"content\":\"2\"} tool Write {\"file_path\":\"$cwd/sub/three.txt\",\"content\":\"3\"}\n\
         api tool Edit {\"file_path\":\"$cwd/two.txt\",\"old_string\":\"2\",\"new_string\":\"two\"}\napi text \"Second.\"\n\
         api tool Write {\"file_path\":\"$cwd/four.txt\",\"content\":\"4\"}\napi text \"Third.\"\n\
         api tool Write {\"file_path\":\"$cwd/five.txt\",\"content\":\"5\"}\napi text \"Fourth.\"",
    )
    .await;
    let server = serve(&fixture).await;
    let new = json!({ "cwd": fixture.project(), "mode": "acceptEdits" });
    let (_, made) = server.post("/sessions", new).await;
    let session = made["id"].as_str().expect("an id").to_owned();
    server.turn(&session, "one", "First.").await;
    let (copy, other) = (copies(&fixture, "copy"), copies(&fixture, "other/deep"));
    server.configure(&session, json!({ "targets": to(&copy) })).await;
    server.turn(&session, "two", "Second.").await;
    let expected = files(&[("sub/three.txt", "3"), ("two.txt", "two")]);
    until("the changes of the second turn arrive", async || tree(&copy) == expected).await;
    let shown = server.get(&format!("/sessions/{session}")).await;
    assert_eq!(shown["watch"]["targets"], to(&copy));
    server.configure(&session, Value::Null).await;
    server.turn(&session, "three", "Third.").await;
    server.configure(&session, json!({ "targets": to(&other) })).await;
    server.turn(&session, "four", "Fourth.").await;
    // All is done in order, so what has not come by now never will.
    let last = files(&[("five.txt", "5")]);
    until("the change of the fourth turn arrives", async || tree(&other) == last).await;
    assert_eq!(tree(&copy), expected);
    let lines = server.get(&format!("/sessions/{session}/lines?limit=1000")).await.to_string();
    assert!(
        lines.contains("\\\"setting\\\":\\\"watch\\\"") || lines.contains("\"setting\":\"watch\"")
    );
    // A fork does not inherit the watch configuration.
    let (status, branch) = server.post(&format!("/sessions/{session}/fork"), json!({})).await;
    assert_eq!(status, 201, "{branch}");
    let branch = server.get(&format!("/sessions/{}", branch["id"].as_str().expect("an id"))).await;
    assert_eq!(branch["watch"], Value::Null);
}

#[tokio::test]
async fn a_server_killed_during_a_call_copies_the_file_and_runs_each_hook_once() {
    let fixture = fixture(
        "api tool Write {\"file_path\":\"$cwd/late.txt\",\"content\":\"late\"}\napi text \"Written.\"",
    )
    .await;
    let server = serve(&fixture).await;
    let copy = copies(&fixture, "copy");
    let log = fixture.path("tmp/hooks");
    let hook = format!("cat >> '{0}'; echo >> '{0}'", log.display());
    let hooks = json!({ "pre": hook, "post": hook, "stop": hook });
    let config = json!({ "targets": to(&copy), "hooks": hooks });
    let session = server.watched(&fixture, "default", config).await;
    until("watching has started", async || server.after(&session).await > 0).await;
    let before = server.after(&session).await;
    server.prompt(&session, "write it").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let request = client.page.requests()[0]["id"].as_str().expect("an id").to_owned();
    until("the call is done with", async || server.after(&session).await > before).await;
    kill(server).await;
    assert!(!copy.exists());
    let server = serve(&fixture).await;
    let answer = format!("/sessions/{session}/requests/{request}");
    let (status, answered) = server.post(&answer, json!({ "decision": "allow" })).await;
    assert_eq!(status, 200, "{answered}");
    server.says(&session, "Written.").await;
    let expected = files(&[("late.txt", "late")]);
    until("the file arrives", async || tree(&copy) == expected).await;
    let events = || -> Vec<String> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let line = |line: &str| serde_json::from_str::<Value>(line).ok();
        let name = |it: Value| it["hook_event_name"].as_str().unwrap_or_default().to_owned();
        text.lines().filter_map(line).map(name).collect()
    };
    until("the end of the turn is reported", async || events().iter().any(|it| it == "Stop")).await;
    assert_eq!(events(), ["PreToolUse", "PostToolUse", "Stop"]);
}

#[tokio::test]
async fn files_of_shell_commands_are_found_after_a_kill() {
    let fixture = fixture(
        "api tool Bash {\"command\":\"echo early > early.txt; touch begun; until test -e gate || ! test -e begun; do sleep 0.02; done; echo late > late.txt\",\"description\":\"wait\"}\n\
         api text \"Made.\"",
    )
    .await;
    std::fs::write(fixture.path("project/old.txt"), "old").expect("a file");
    // Times of change are looked at, so those of this file must lie before.
    sleep(Duration::from_millis(2100)).await;
    let copy = copies(&fixture, "copy");
    let server = serve(&fixture).await;
    let config = json!({ "targets": to(&copy), "scan": true, "exclude": ["begun", "gate"] });
    let new = json!({ "cwd": fixture.project(), "allowed_tools": ["Bash"], "watch": config });
    let (status, created) = server.post("/sessions", new).await;
    assert_eq!(status, 201, "{created}");
    let session = created["id"].as_str().expect("an id").to_owned();
    until("watching has started", async || server.after(&session).await > 0).await;
    server.prompt(&session, "make them").await;
    until("the command runs", async || fixture.path("project/begun").exists()).await;
    kill(server).await;
    let server = serve(&fixture).await;
    std::fs::write(fixture.path("project/gate"), "").expect("a gate");
    server.says(&session, "Made.").await;
    let expected = files(&[("early.txt", "early\n"), ("late.txt", "late\n")]);
    until("both are found", async || tree(&copy) == expected).await;
}

#[tokio::test]
async fn the_files_of_a_turn_are_one_commit_whenever_the_server_was_killed() {
    let fixture = fixture(
        "api tool Write {\"file_path\":\"$cwd/a.txt\",\"content\":\"a\"} tool Write {\"file_path\":\"$cwd/b.txt\",\"content\":\"b\"}\n\
         api text \"I looked around. Both are written.\" hold gate after 2",
    )
    .await;
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=User", "-c", "user.email=user@example.org"]);
        let output = command.args(arguments).current_dir(fixture.project()).output().expect("git");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["config", "user.name", "User"]);
    git(&["config", "user.email", "user@example.org"]);
    std::fs::write(fixture.path("project/mine.txt"), "mine").expect("a file");
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "first"]);
    std::fs::write(fixture.path("project/mine.txt"), "mine, changed").expect("a file");
    let copy = copies(&fixture, "copy");
    let server = serve(&fixture).await;
    let config = json!({ "targets": to(&copy), "commit": {} });
    let session = server.watched(&fixture, "acceptEdits", config).await;
    server.prompt(&session, "write both").await;
    let both = files(&[("a.txt", "a"), ("b.txt", "b")]);
    until("the files arrive", async || tree(&copy) == both).await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.contains("I looked")).await;
    assert_eq!(git(&["rev-list", "--count", "HEAD"]), "1");
    kill(server).await;
    let server = serve(&fixture).await;
    fixture.api.open("gate");
    server.says(&session, "Both are written.").await;
    until("a commit", async || git(&["rev-list", "--count", "HEAD"]) == "2").await;
    assert_eq!(git(&["show", "--format=%s", "--name-only"]), "Both are written.\n\na.txt\nb.txt");
    assert_eq!(git(&["status", "--porcelain"]), "M mine.txt");
    let last = server.get(&format!("/sessions/{session}")).await["last"].as_u64();
    until("the turn is done with", async || server.after(&session).await + 5 > last.unwrap()).await;
    let log = server.get(&format!("/sessions/{session}/watch")).await["log"].to_string();
    assert!(log.contains("committed"), "{log}");
    // Once more from the start: what is done is not done again.
    kill(server).await;
    let server = serve(&fixture).await;
    server.configure(&session, Value::Null).await;
    until("the end is noticed", async || server.after(&session).await > last.unwrap()).await;
    assert_eq!(git(&["rev-list", "--count", "HEAD"]), "2");
}

#[tokio::test]
async fn every_turn_of_a_branch_is_one_commit_however_often_the_server_is_killed() {
    const TURNS: u64 = 6;
    let replies = |turn| {
        format!(
            "api tool Write {{\"file_path\":\"$cwd/{turn}.txt\",\"content\":\"x\"}}\napi text \"Turn {turn} is done.\"\n"
        )
    };
    let replies: String = (0..TURNS).map(replies).collect();
    let fixture = fixture(replies.trim()).await;
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        let output = command.args(arguments).current_dir(fixture.project()).output().expect("git");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["config", "user.name", "User"]);
    git(&["config", "user.email", "user@example.org"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let mut server = serve(&fixture).await;
    let config = json!({ "commit": { "branch": "agents" } });
    let session = server.watched(&fixture, "acceptEdits", config).await;
    for turn in 0..TURNS {
        server.turn(&session, "go on", &format!("Turn {turn} is done.")).await;
        // At the end of a turn the commit is being made, each time for a bit longer.
        sleep(Duration::from_millis(20 * turn)).await;
        kill(server).await;
        server = serve(&fixture).await;
    }
    let count = || git(&["rev-list", "--count", "agents"]);
    until("all commits", async || count() == (TURNS + 1).to_string()).await;
    let last = server.get(&format!("/sessions/{session}")).await["last"].as_u64();
    server.configure(&session, Value::Null).await;
    until("the end is noticed", async || server.after(&session).await > last.unwrap()).await;
    assert_eq!(count(), (TURNS + 1).to_string());
    let names = git(&["log", "--format=", "--name-only", "--reverse", "agents"]);
    let expected: Vec<String> = (0..TURNS).map(|turn| format!("{turn}.txt")).collect();
    assert_eq!(names.split_whitespace().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn commands_and_outside_targets_need_the_admin_role() {
    let fixture = fixture("api text \"hi\"").await;
    let server = serve(&fixture).await;
    let token = async |name: &str| {
        let (status, made) = server.post("/tokens", json!({ "name": name, "role": name })).await;
        assert_eq!(status, 201, "{made}");
        made["token"].as_str().expect("a token").to_owned()
    };
    let (drive, watch, admin) = (token("drive").await, token("watch").await, server.token.clone());
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/settings");
    let set = async |token: &str, config: Value| {
        server.status_as(token, Method::PATCH, &path, &json!({ "watch": config })).await
    };
    let new = async |token: &str, config: Value| {
        let body = json!({ "cwd": fixture.project(), "watch": config });
        server.status_as(token, Method::POST, "/sessions", &body).await
    };
    let inside = copies(&fixture, "");
    std::os::unix::fs::symlink(fixture.path("home"), inside.join("link")).expect("a link");
    std::os::unix::fs::symlink(fixture.path("home/none"), inside.join("dangling")).expect("a link");
    let directory = |path: PathBuf| json!({ "targets": [{ "kind": "directory", "path": path }] });
    // Whatever leads out is refused to everybody.
    for path in [
        fixture.path("home"),
        inside.join("link"),
        inside.join("link/new"),
        inside.join("dangling"),
        inside.join("../home"),
        inside.join("new/../../home"),
        fixture.path("project/.git/hooks"),
        PathBuf::from("copies"),
        PathBuf::from("/"),
    ] {
        for token in [&drive, &admin] {
            assert_eq!(set(token, directory(path.clone())).await, 403, "{}", path.display());
        }
    }
    let home = fixture.path("home");
    for config in [
        json!({ "targets": [{ "kind": "command", "line": "touch pwned" }] }),
        json!({ "targets": [{ "kind": "address", "url": "http://127.0.0.1:9/" }] }),
        json!({ "targets": [{ "kind": "address", "url": "s3://bucket/x" }] }),
        json!({ "hooks": { "pre": "touch pwned" } }),
        json!({ "hooks": { "post": "touch pwned" } }),
        json!({ "hooks": { "stop": "touch pwned" } }),
        json!({ "hooks": { "gitbutler": true } }),
        json!({ "commit": { "worktree": home } }),
    ] {
        for token in [&drive, &watch] {
            assert_eq!(set(token, config.clone()).await, 403, "{config}");
            assert_eq!(new(token, config.clone()).await, 403, "{config}");
        }
        assert_eq!(set(&admin, config.clone()).await, 204, "{config}");
    }
    // A secret must not be stored in the journal.
    for config in [
        json!({ "targets": [{ "kind": "address", "url": "https://ann:secret@files.example/" }] }),
        json!({ "targets": [{ "kind": "address", "url": "https://files.example/?sig=secret" }] }),
        json!({ "targets": [{ "kind": "address", "url": "https://files.example/", "token": "secret" }] }),
        json!({ "targets": [{ "kind": "address", "url": "https://files.example/", "token_variable": "a b" }] }),
        json!({ "commit": { "branch": "--orphan" } }),
        json!({ "include": vec!["x"; 1000] }),
        json!({ "hooks": { "post": "x".repeat(100_000) } }),
    ] {
        assert!([400, 422].contains(&set(&admin, config.clone()).await), "{config}");
    }
    assert_eq!(set(&watch, directory(inside.join("copy"))).await, 403);
    assert_eq!(set(&watch, Value::Null).await, 403);
    let modest =
        json!({ "targets": to(&inside.join("copy")), "commit": { "branch": "agents/{session}" } });
    assert_eq!(set(&drive, modest.clone()).await, 204);
    assert_eq!(new(&drive, modest).await, 201);
    assert_eq!(set(&drive, Value::Null).await, 204);
}

#[tokio::test]
async fn the_state_of_a_deleted_session_is_removed_and_its_id_can_be_used_again() {
    let fixture = fixture(
        "api tool Write {\"file_path\":\"$cwd/one.txt\",\"content\":\"1\"}\napi text \"First.\"\n\
         api tool Write {\"file_path\":\"$cwd/two.txt\",\"content\":\"2\"}\napi text \"Second.\"",
    )
    .await;
    let server = serve(&fixture).await;
    let id = Uuid::new_v4();
    for (name, end) in [("one", "First."), ("two", "Second.")] {
        let copy = copies(&fixture, name);
        let new = json!({ "id": id, "cwd": fixture.project(), "mode": "acceptEdits", "watch": { "targets": to(&copy) } });
        let (status, made) = server.post("/sessions", new).await;
        assert_eq!(status, 201, "{made}");
        server.turn(&id.to_string(), "write", end).await;
        let file = format!("{name}.txt");
        until("the file arrives", async || copy.join(&file).exists()).await;
        assert_eq!(tree(&copy).len(), 1);
        let path = format!("/sessions/{id}");
        assert_eq!(server.ask(Method::DELETE, &path, None).await.status(), 204);
        let gone = server.ask(Method::GET, &format!("{path}/watch"), None).await;
        assert_eq!(gone.status(), 404);
    }
}

#[tokio::test]
async fn a_failing_target_is_logged_and_does_not_block_others() {
    let fixture = fixture(
        "api tool Write {\"file_path\":\"$cwd/one.txt\",\"content\":\"1\"}\napi text \"Done.\"",
    )
    .await;
    let (good, bad) = (copies(&fixture, "good"), copies(&fixture, "bad"));
    let server = serve(&fixture).await;
    let targets = json!([
        { "kind": "directory", "path": bad },
        { "kind": "address", "url": "https://files.example/", "token_variable": "TOWPATH_NOT_SET" },
        { "kind": "directory", "path": good },
    ]);
    std::os::unix::fs::symlink(fixture.path("home"), fixture.path("later")).expect("a link");
    let session = server.watched(&fixture, "acceptEdits", json!({ "targets": targets })).await;
    // The configuration is checked again when it is used.
    std::fs::rename(fixture.path("later"), &bad).expect("a link where there was nothing");
    server.turn(&session, "write", "Done.").await;
    until("the file arrives", async || good.join("one.txt").exists()).await;
    assert!(!fixture.path("home/one.txt").exists());
    let mut log = Value::Null;
    until("it is logged", async || {
        log = server.get(&format!("/sessions/{session}/watch")).await["log"].clone();
        log.to_string().contains("one.txt")
    })
    .await;
    assert!(log.to_string().contains("TOWPATH_NOT_SET"), "{log}");
    let errors = log.as_array().expect("lines").iter().filter(|it| it["error"] == true).count();
    assert!(errors >= 2, "{log}");
    assert!(fixture.log().contains("TOWPATH_NOT_SET"), "{}", fixture.log());
}

fn repository(directory: &Path) -> impl Fn(&[&str]) -> String + use<> {
    let directory = directory.to_owned();
    let git = move |arguments: &[&str]| {
        let mut command = Command::new("git");
        let output = command.args(arguments).current_dir(&directory).output().expect("git");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["config", "user.name", "User"]);
    git(&["config", "user.email", "user@example.org"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    git
}

#[tokio::test]
async fn the_default_of_the_server_applies_to_every_session_that_does_not_choose() {
    let write = |name: &str| {
        format!(
            "api tool Write {{\"file_path\":\"$cwd/{name}.txt\",\"content\":\"x\"}}\napi text \"Wrote {name}.\"\n"
        )
    };
    let replies: String = ["before", "one", "two", "three", "four", "five"].map(write).concat();
    let fixture = fixture(replies.trim()).await;
    let git = repository(&fixture.path("project"));
    let files = || git(&["log", "--format=", "--name-only", "--reverse", "main"]);
    // What a session did before there was a default is not acted on.
    let server = serve(&fixture).await;
    assert_eq!(server.get("/watch").await, json!({ "default": null }));
    let new = json!({ "cwd": fixture.project(), "mode": "acceptEdits" });
    let (_, made) = server.post("/sessions", new.clone()).await;
    let old = made["id"].as_str().expect("an id").to_owned();
    server.turn(&old, "write", "Wrote before.").await;
    kill(server).await;
    let copy = fixture.path("tmp/copies/{project}").display().to_string();
    let arguments = ["--commit", "--to", &copy, "--exclude", "*.log"];
    let server = fixture.serve_with(&arguments).await;
    let default = server.get("/watch").await["default"].clone();
    assert_eq!(default["commit"]["every"], "turn", "{default}");
    // No admin is needed to inherit what the person who started the server chose.
    let (status, made) = server.post("/tokens", json!({ "name": "d", "role": "drive" })).await;
    assert_eq!(status, 201, "{made}");
    let drive = made["token"].as_str().expect("a token").to_owned();
    let url = format!("{}/api/v1/sessions", server.url);
    let made =
        server.http.post(url).bearer_auth(&drive).json(&new).send().await.expect("an answer");
    let made: Value = made.json().await.expect("JSON");
    let session = made["id"].as_str().expect("an id").to_owned();
    let shown = server.get(&format!("/sessions/{session}/watch")).await;
    assert_eq!((&shown["inherited"], &shown["config"]), (&json!(true), &default));
    server.turn(&session, "write", "Wrote one.").await;
    until("a commit", async || files() == "one.txt").await;
    until("a copy", async || fixture.path("tmp/copies/project/one.txt").exists()).await;
    server.turn(&old, "write", "Wrote two.").await;
    until("a commit", async || files() == "one.txt\n\ntwo.txt" || files() == "one.txt\ntwo.txt")
        .await;
    // A session may do without.
    let path = format!("/sessions/{session}/settings");
    let set = async |watch: Value| {
        server.status_as(&drive, Method::PATCH, &path, &json!({ "watch": watch })).await
    };
    assert_eq!(set(Value::Null).await, 204);
    let shown = server.get(&format!("/sessions/{session}/watch")).await;
    assert_eq!((&shown["inherited"], &shown["config"]), (&json!(false), &Value::Null));
    server.turn(&session, "write", "Wrote three.").await;
    assert_eq!(set(json!("inherit")).await, 204);
    server.turn(&session, "write", "Wrote four.").await;
    until("a commit", async || files().ends_with("four.txt")).await;
    assert!(!files().contains("three.txt") && !files().contains("before.txt"), "{}", files());
    let mut log = Value::Null;
    until("the log", async || {
        log = server.get(&format!("/sessions/{session}/watch")).await["log"].clone();
        log.as_array().expect("lines").iter().filter(|it| it["kind"] == "commit").count() == 2
    })
    .await;
    let copied = |it: &&Value| it["kind"] == "sync" && it["path"] == "four.txt";
    assert_eq!(log.as_array().expect("lines").iter().filter(copied).count(), 1, "{log}");
    let ids = log.as_array().expect("lines").iter().filter_map(|it| it["commit"].as_str());
    assert!(
        ids.clone().count() == 2 && ids.clone().all(|id| git(&["cat-file", "-t", id]) == "commit")
    );
    // The log survives a restart, and so does the default's progress.
    kill(server).await;
    let server = fixture.serve_with(&arguments).await;
    assert_eq!(server.get(&format!("/sessions/{session}/watch")).await["log"], log);
    server.turn(&session, "write", "Wrote five.").await;
    until("a commit", async || files().ends_with("five.txt")).await;
    assert_eq!(git(&["rev-list", "--count", "main"]), "5");
}

#[tokio::test]
async fn a_new_session_inherits_the_default_even_if_the_server_is_killed_at_once() {
    let fixture = fixture(
        "api tool Write {\"file_path\":\"$cwd/a.txt\",\"content\":\"a\"}\napi text \"Written.\"",
    )
    .await;
    let git = repository(&fixture.path("project"));
    let server = fixture.serve_with(&["--commit=change"]).await;
    let new = json!({ "cwd": fixture.project(), "mode": "acceptEdits", "prompt": "write" });
    let (status, made) = server.post("/sessions", new).await;
    assert_eq!(status, 201, "{made}");
    kill(server).await;
    let server = fixture.serve_with(&["--commit=change"]).await;
    server.says(made["id"].as_str().expect("an id"), "Written.").await;
    until("a commit", async || git(&["rev-list", "--count", "main"]) == "2").await;
}
