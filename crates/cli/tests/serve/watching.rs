//! Acting on what agents change: files that arrive, commits, hooks, and who may ask for what; and that
//! nothing of it is lost or done twice when the server is killed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::stage::{PATIENCE, Serving, Stage};

/// A stage with a second root for copies.
async fn stage(replies: &str) -> Stage {
    let stage = Stage::new(replies).await;
    std::fs::create_dir(stage.path("copies")).expect("a directory");
    stage
}

fn copies(stage: &Stage, name: &str) -> PathBuf {
    stage.path("copies").canonicalize().expect("a directory").join(name)
}

async fn serve(stage: &Stage) -> Serving {
    stage.serve_with(&["--root", &stage.path("copies").display().to_string()]).await
}

async fn kill(mut serving: Serving) {
    let pid = serving.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, Signal::KILL).expect("it can be killed");
    serving.child.wait().await.expect("an end");
}

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looking = async {
        while !is_so().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(PATIENCE, looking).await.is_ok(), "{what}");
}

fn to(directory: &Path) -> Value {
    json!([{ "kind": "directory", "path": directory }])
}

impl Serving {
    async fn watched(&self, stage: &Stage, mode: &str, wish: Value) -> String {
        let new = json!({ "cwd": stage.project(), "mode": mode, "watch": wish });
        let (status, created) = self.post("/sessions", new).await;
        assert_eq!(status, 201, "{created}");
        created["id"].as_str().expect("an id").to_owned()
    }

    async fn wish(&self, session: &str, wish: Value) {
        let path = format!("/sessions/{session}/settings");
        let set = self.ask(Method::PATCH, &path, Some(json!({ "watch": wish }))).await;
        assert_eq!(set.status(), 204);
    }

    /// How far everything is done.
    async fn after(&self, session: &str) -> u64 {
        let watching = self.get(&format!("/sessions/{session}/watch")).await;
        watching["after"].as_u64().expect("a number")
    }

    /// Holds a turn to its end.
    async fn turn(&self, session: &str, prompt: &str, end: &str) {
        self.prompt(session, prompt).await;
        self.says(session, end).await;
    }

    async fn says(&self, session: &str, words: &str) {
        let mut follower = self.follow(&format!("/sessions/{session}/follow")).await;
        follower.until(|page| page.snapshots > 0 && page.is_idle() && page.says(words)).await;
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
async fn what_an_agent_changes_arrives_from_the_wish_on_and_until_it_is_taken_back() {
    let stage = stage(
        "api tool Write {\"file_path\":\"$cwd/one.txt\",\"content\":\"1\"}\napi text \"First.\"\n\
         api tool Write {\"file_path\":\"$cwd/two.txt\",\"content\":\"2\"} tool Write {\"file_path\":\"$cwd/sub/three.txt\",\"content\":\"3\"}\n\
         api tool Edit {\"file_path\":\"$cwd/two.txt\",\"old_string\":\"2\",\"new_string\":\"two\"}\napi text \"Second.\"\n\
         api tool Write {\"file_path\":\"$cwd/four.txt\",\"content\":\"4\"}\napi text \"Third.\"\n\
         api tool Write {\"file_path\":\"$cwd/five.txt\",\"content\":\"5\"}\napi text \"Fourth.\"",
    )
    .await;
    let serving = serve(&stage).await;
    let new = json!({ "cwd": stage.project(), "mode": "acceptEdits" });
    let (_, made) = serving.post("/sessions", new).await;
    let session = made["id"].as_str().expect("an id").to_owned();
    serving.turn(&session, "one", "First.").await;
    let (copy, other) = (copies(&stage, "copy"), copies(&stage, "other/deep"));
    serving.wish(&session, json!({ "targets": to(&copy) })).await;
    serving.turn(&session, "two", "Second.").await;
    let expected = files(&[("sub/three.txt", "3"), ("two.txt", "two")]);
    until("the changes of the second turn arrive", async || tree(&copy) == expected).await;
    let shown = serving.get(&format!("/sessions/{session}")).await;
    assert_eq!(shown["watch"]["targets"], to(&copy));
    serving.wish(&session, Value::Null).await;
    serving.turn(&session, "three", "Third.").await;
    serving.wish(&session, json!({ "targets": to(&other) })).await;
    serving.turn(&session, "four", "Fourth.").await;
    // All is done in order, so what has not come by now never will.
    let last = files(&[("five.txt", "5")]);
    until("the change of the fourth turn arrives", async || tree(&other) == last).await;
    assert_eq!(tree(&copy), expected);
    let lines = serving.get(&format!("/sessions/{session}/lines?limit=1000")).await.to_string();
    assert!(
        lines.contains("\\\"setting\\\":\\\"watch\\\"") || lines.contains("\"setting\":\"watch\"")
    );
    // Who branches off a conversation has not wished for anything.
    let (status, branch) = serving.post(&format!("/sessions/{session}/fork"), json!({})).await;
    assert_eq!(status, 201, "{branch}");
    let branch = serving.get(&format!("/sessions/{}", branch["id"].as_str().expect("an id"))).await;
    assert_eq!(branch["watch"], Value::Null);
}

#[tokio::test]
async fn a_server_killed_between_a_call_and_its_result_brings_the_file_and_runs_each_hook_once() {
    let stage = stage(
        "api tool Write {\"file_path\":\"$cwd/late.txt\",\"content\":\"late\"}\napi text \"Written.\"",
    )
    .await;
    let serving = serve(&stage).await;
    let copy = copies(&stage, "copy");
    let log = stage.path("tmp/hooks");
    let hook = format!("cat >> '{0}'; echo >> '{0}'", log.display());
    let hooks = json!({ "pre": hook, "post": hook, "stop": hook });
    let wish = json!({ "targets": to(&copy), "hooks": hooks });
    let session = serving.watched(&stage, "default", wish).await;
    until("the wish is noticed", async || serving.after(&session).await > 0).await;
    let before = serving.after(&session).await;
    serving.prompt(&session, "write it").await;
    let mut follower = serving.follow(&format!("/sessions/{session}/follow")).await;
    follower.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let request = follower.page.requests()[0]["id"].as_str().expect("an id").to_owned();
    until("the call is done with", async || serving.after(&session).await > before).await;
    kill(serving).await;
    assert!(!copy.exists());
    let serving = serve(&stage).await;
    let answer = format!("/sessions/{session}/requests/{request}");
    let (status, answered) = serving.post(&answer, json!({ "decision": "allow" })).await;
    assert_eq!(status, 200, "{answered}");
    serving.says(&session, "Written.").await;
    let expected = files(&[("late.txt", "late")]);
    until("the file arrives", async || tree(&copy) == expected).await;
    let told = || -> Vec<String> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let line = |line: &str| serde_json::from_str::<Value>(line).ok();
        let name = |it: Value| it["hook_event_name"].as_str().unwrap_or_default().to_owned();
        text.lines().filter_map(line).map(name).collect()
    };
    until("the turn's end is told", async || told().iter().any(|it| it == "Stop")).await;
    assert_eq!(told(), ["PreToolUse", "PostToolUse", "Stop"]);
}

#[tokio::test]
async fn what_the_shell_made_before_and_after_a_kill_is_found() {
    let stage = stage(
        "api tool Bash {\"command\":\"echo early > early.txt; touch begun; until test -e gate; do sleep 0.02; done; echo late > late.txt\",\"description\":\"wait\"}\n\
         api text \"Made.\"",
    )
    .await;
    std::fs::write(stage.path("project/old.txt"), "old").expect("a file");
    // Times of change are looked at, so those of this file must lie before.
    sleep(Duration::from_millis(2100)).await;
    let copy = copies(&stage, "copy");
    let serving = serve(&stage).await;
    let wish = json!({ "targets": to(&copy), "scan": true, "exclude": ["begun", "gate"] });
    let new = json!({ "cwd": stage.project(), "allowed_tools": ["Bash"], "watch": wish });
    let (status, created) = serving.post("/sessions", new).await;
    assert_eq!(status, 201, "{created}");
    let session = created["id"].as_str().expect("an id").to_owned();
    until("the wish is noticed", async || serving.after(&session).await > 0).await;
    serving.prompt(&session, "make them").await;
    until("the command runs", async || stage.path("project/begun").exists()).await;
    kill(serving).await;
    let serving = serve(&stage).await;
    std::fs::write(stage.path("project/gate"), "").expect("a gate");
    serving.says(&session, "Made.").await;
    let expected = files(&[("early.txt", "early\n"), ("late.txt", "late\n")]);
    until("both are found", async || tree(&copy) == expected).await;
}

#[tokio::test]
async fn the_files_of_a_turn_are_one_commit_whenever_the_server_was_killed() {
    let stage = stage(
        "api tool Write {\"file_path\":\"$cwd/a.txt\",\"content\":\"a\"} tool Write {\"file_path\":\"$cwd/b.txt\",\"content\":\"b\"}\n\
         api text \"I looked around. Both are written.\" hold gate after 2",
    )
    .await;
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=User", "-c", "user.email=user@example.org"]);
        let output = command.args(arguments).current_dir(stage.project()).output().expect("git");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    git(&["config", "user.name", "User"]);
    git(&["config", "user.email", "user@example.org"]);
    std::fs::write(stage.path("project/mine.txt"), "mine").expect("a file");
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "first"]);
    std::fs::write(stage.path("project/mine.txt"), "mine, changed").expect("a file");
    let copy = copies(&stage, "copy");
    let serving = serve(&stage).await;
    let wish = json!({ "targets": to(&copy), "commit": {} });
    let session = serving.watched(&stage, "acceptEdits", wish).await;
    serving.prompt(&session, "write both").await;
    let both = files(&[("a.txt", "a"), ("b.txt", "b")]);
    until("the files arrive", async || tree(&copy) == both).await;
    let mut follower = serving.follow(&format!("/sessions/{session}/follow")).await;
    follower.until(|page| page.snapshots > 0 && page.says("I looked")).await;
    assert_eq!(git(&["rev-list", "--count", "HEAD"]), "1");
    kill(serving).await;
    let serving = serve(&stage).await;
    stage.api.open("gate");
    serving.says(&session, "Both are written.").await;
    until("a commit", async || git(&["rev-list", "--count", "HEAD"]) == "2").await;
    assert_eq!(git(&["show", "--format=%s", "--name-only"]), "Both are written.\n\na.txt\nb.txt");
    assert_eq!(git(&["status", "--porcelain"]), "M mine.txt");
    let last = serving.get(&format!("/sessions/{session}")).await["last"].as_u64();
    until("the turn is done with", async || serving.after(&session).await + 5 > last.unwrap())
        .await;
    let said = serving.get(&format!("/sessions/{session}/watch")).await["said"].to_string();
    assert!(said.contains("committed"), "{said}");
    // Once more from the start: what is done is not done again.
    kill(serving).await;
    let serving = serve(&stage).await;
    serving.wish(&session, Value::Null).await;
    until("the end is noticed", async || serving.after(&session).await > last.unwrap()).await;
    assert_eq!(git(&["rev-list", "--count", "HEAD"]), "2");
}

#[tokio::test]
async fn nobody_gets_commands_run_or_files_brought_beyond_what_they_may() {
    let stage = stage("api text \"hi\"").await;
    let serving = serve(&stage).await;
    let token = async |name: &str| {
        let (status, made) = serving.post("/tokens", json!({ "name": name, "role": name })).await;
        assert_eq!(status, 201, "{made}");
        made["token"].as_str().expect("a token").to_owned()
    };
    let (drive, watch, admin) = (token("drive").await, token("watch").await, serving.token.clone());
    let session = serving.session(&stage).await;
    let path = format!("/sessions/{session}/settings");
    let set = async |token: &str, wish: Value| {
        serving.status_as(token, Method::PATCH, &path, &json!({ "watch": wish })).await
    };
    let new = async |token: &str, wish: Value| {
        let body = json!({ "cwd": stage.project(), "watch": wish });
        serving.status_as(token, Method::POST, "/sessions", &body).await
    };
    let inside = copies(&stage, "");
    std::os::unix::fs::symlink(stage.path("home"), inside.join("link")).expect("a link");
    std::os::unix::fs::symlink(stage.path("home/none"), inside.join("dangling")).expect("a link");
    let directory = |path: PathBuf| json!({ "targets": [{ "kind": "directory", "path": path }] });
    // Whatever leads out is refused to everybody.
    for path in [
        stage.path("home"),
        inside.join("link"),
        inside.join("link/new"),
        inside.join("dangling"),
        inside.join("../home"),
        inside.join("new/../../home"),
        stage.path("project/.git/hooks"),
        PathBuf::from("copies"),
        PathBuf::from("/"),
    ] {
        for token in [&drive, &admin] {
            assert_eq!(set(token, directory(path.clone())).await, 403, "{}", path.display());
        }
    }
    let home = stage.path("home");
    for wish in [
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
            assert_eq!(set(token, wish.clone()).await, 403, "{wish}");
            assert_eq!(new(token, wish.clone()).await, 403, "{wish}");
        }
        assert_eq!(set(&admin, wish.clone()).await, 204, "{wish}");
    }
    // A secret has no place in the journal, whoever sends it.
    for wish in [
        json!({ "targets": [{ "kind": "address", "url": "https://ann:secret@files.example/" }] }),
        json!({ "targets": [{ "kind": "address", "url": "https://files.example/?sig=secret" }] }),
        json!({ "targets": [{ "kind": "address", "url": "https://files.example/", "token": "secret" }] }),
        json!({ "targets": [{ "kind": "address", "url": "https://files.example/", "token_variable": "a b" }] }),
        json!({ "commit": { "branch": "--orphan" } }),
        json!({ "include": vec!["x"; 1000] }),
        json!({ "hooks": { "post": "x".repeat(100_000) } }),
    ] {
        assert!([400, 422].contains(&set(&admin, wish.clone()).await), "{wish}");
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
async fn a_session_that_is_deleted_is_forgotten_and_its_name_can_be_used_again() {
    let stage = stage(
        "api tool Write {\"file_path\":\"$cwd/one.txt\",\"content\":\"1\"}\napi text \"First.\"\n\
         api tool Write {\"file_path\":\"$cwd/two.txt\",\"content\":\"2\"}\napi text \"Second.\"",
    )
    .await;
    let serving = serve(&stage).await;
    let id = Uuid::new_v4();
    for (name, end) in [("one", "First."), ("two", "Second.")] {
        let copy = copies(&stage, name);
        let new = json!({ "id": id, "cwd": stage.project(), "mode": "acceptEdits", "watch": { "targets": to(&copy) } });
        let (status, made) = serving.post("/sessions", new).await;
        assert_eq!(status, 201, "{made}");
        serving.turn(&id.to_string(), "write", end).await;
        let file = format!("{name}.txt");
        until("the file arrives", async || copy.join(&file).exists()).await;
        assert_eq!(tree(&copy).len(), 1);
        let path = format!("/sessions/{id}");
        assert_eq!(serving.ask(Method::DELETE, &path, None).await.status(), 204);
        let gone = serving.ask(Method::GET, &format!("{path}/watch"), None).await;
        assert_eq!(gone.status(), 404);
    }
}

#[tokio::test]
async fn what_cannot_be_done_is_said_and_nothing_else_is_held_up() {
    let stage = stage(
        "api tool Write {\"file_path\":\"$cwd/one.txt\",\"content\":\"1\"}\napi text \"Done.\"",
    )
    .await;
    let (good, bad) = (copies(&stage, "good"), copies(&stage, "bad"));
    let serving = serve(&stage).await;
    let targets = json!([
        { "kind": "directory", "path": bad },
        { "kind": "address", "url": "https://files.example/", "token_variable": "TOWPATH_NOT_SET" },
        { "kind": "directory", "path": good },
    ]);
    std::os::unix::fs::symlink(stage.path("home"), stage.path("later")).expect("a link");
    let session = serving.watched(&stage, "acceptEdits", json!({ "targets": targets })).await;
    // What was fine when it was wished for is looked at again when it is used.
    std::fs::rename(stage.path("later"), &bad).expect("a link where there was nothing");
    serving.turn(&session, "write", "Done.").await;
    until("the file arrives", async || good.join("one.txt").exists()).await;
    assert!(!stage.path("home/one.txt").exists());
    let mut said = Value::Null;
    until("it is said", async || {
        said = serving.get(&format!("/sessions/{session}/watch")).await["said"].clone();
        said.to_string().contains("one.txt")
    })
    .await;
    assert!(said.to_string().contains("TOWPATH_NOT_SET"), "{said}");
    let wrong = said.as_array().expect("remarks").iter().filter(|it| it["wrong"] == true).count();
    assert!(wrong >= 2, "{said}");
    assert!(stage.log().contains("TOWPATH_NOT_SET"), "{}", stage.log());
}
