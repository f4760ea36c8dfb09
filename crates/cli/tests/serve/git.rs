//! The repository of a session over HTTP: what can be done, and what cannot be done with it.

use std::fs;
use std::path::Path;
use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::fixture::{Fixture, TIMEOUT, TestServer};

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]);
    let output = command.args(arguments).current_dir(directory).output().expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The project as a repository with a commit.
fn repository(fixture: &Fixture) -> std::path::PathBuf {
    let top = Path::new(&fixture.project()).canonicalize().expect("a project");
    git(&top, &["init", "-q", "-b", "main"]);
    git(&top, &["config", "user.name", "Ada"]);
    git(&top, &["config", "user.email", "ada@example.org"]);
    fs::write(top.join("cart.ts"), "one\ntwo\nthree\n").expect("written");
    git(&top, &["add", "."]);
    git(&top, &["commit", "-qm", "First"]);
    top
}

fn state(status: &Value, key: &str) -> (Value, Value) {
    let files = status["files"].as_array().expect("files");
    let file = files.iter().find(|it| it["key"] == key);
    file.map_or((Value::Null, Value::Null), |it| (it["staged"].clone(), it["unstaged"].clone()))
}

#[tokio::test]
async fn hooks_of_a_repository_do_not_get_the_token_of_the_bot() {
    use std::os::unix::fs::PermissionsExt as _;

    let fixture = Fixture::new("api text \"hi\"").await;
    let top = repository(&fixture);
    let hook = top.join(".git/hooks/pre-commit");
    let seen = fixture.path("seen");
    fs::write(&hook, format!("#!/bin/sh\nenv > '{}'\n", seen.display())).expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("a hook");
    let (agent, project) = (fixture.path("agent").display().to_string(), fixture.project());
    let mut command = fixture.command(&["--claude", &agent, "--root", &project]);
    command.env("TOWPATH_TELEGRAM_TOKEN", "4711:secret").env("TOWPATH_TEST_MARK", "inherited");
    let server = fixture.start(command).await;
    let session = server.session(&fixture).await;
    fs::write(top.join("cart.ts"), "changed\n").expect("written");
    let path = |rest: &str| format!("/sessions/{session}/git/{rest}");
    let (code, done) = server.post(&path("stage"), json!({ "paths": ["cart.ts"] })).await;
    assert_eq!(code, 200, "{done}");
    let (code, done) = server.post(&path("commit"), json!({ "message": "Change" })).await;
    assert_eq!(code, 200, "{done}");
    let seen = fs::read_to_string(seen).expect("the hook ran");
    assert!(seen.contains("TOWPATH_TEST_MARK=inherited"), "{seen}");
    assert!(!seen.contains("4711:secret"), "{seen}");
}

#[tokio::test]
async fn changes_are_seen_staged_by_hunk_committed_and_found_in_the_history() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = repository(&fixture);
    let lines = (0..40).map(|it| format!("line {it}")).collect::<Vec<_>>().join("\n") + "\n";
    fs::write(top.join("long.ts"), &lines).expect("written");
    git(&top, &["add", "."]);
    git(&top, &["commit", "-qm", "Second"]);
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = |rest: &str| format!("/sessions/{session}/git/{rest}");
    let status = server.get(&path("status")).await;
    assert_eq!((&status["branch"], &status["total"]), (&json!("main"), &json!(0)));
    let changed = lines.replace("line 3\n", "<script>\n").replace("line 30\n", "thirty\n");
    fs::write(top.join("long.ts"), &changed).expect("written");
    fs::write(top.join("new.ts"), "new\n").expect("written");
    let status = server.get(&path("status")).await;
    assert_eq!(state(&status, "long.ts"), (Value::Null, json!("modified")));
    assert_eq!(state(&status, "new.ts"), (Value::Null, json!("untracked")));
    let diff = server.get(&path("diff?path=long.ts")).await;
    assert_eq!(diff["hunks"].as_array().map(Vec::len), Some(2));
    let html = diff["hunks"][0]["html"].as_str().expect("HTML");
    assert!(html.contains("script&gt;") && !html.contains("<script>"), "{html}");
    let hunk = json!({ "hunk": { "path": "long.ts", "id": diff["hunks"][1]["id"] } });
    let (code, done) = server.post(&path("stage"), hunk.clone()).await;
    assert_eq!(code, 200, "{done}");
    assert_eq!(state(&done["status"], "long.ts"), (json!("modified"), json!("modified")));
    assert_eq!(git(&top, &["show", ":long.ts"]), lines.replace("line 30\n", "thirty\n"));
    let (code, again) = server.post(&path("stage"), hunk).await;
    assert_eq!((code, &again["type"]), (409, &json!("about:towpath#changed")));
    let (code, _) = server.post(&path("commit"), json!({ "message": "Thirty\n\nWhy" })).await;
    assert_eq!(code, 200);
    let log = server.get(&path("log?count=2")).await;
    assert_eq!(log["commits"][0]["subject"], "Thirty");
    assert_eq!(log["more"], true);
    let commit = log["commits"][0]["id"].as_str().expect("an id");
    let shown = server.get(&path(&format!("commits/{commit}"))).await;
    assert_eq!(shown["files"][0]["key"], "long.ts");
    let diff = server.get(&path(&format!("diff?path=long.ts&commit={commit}"))).await;
    assert_eq!((&diff["lines_added"], &diff["hunks"][0]["id"]), (&json!(1), &Value::Null));
    let (code, _) = server.post(&path("discard"), json!({ "paths": ["long.ts", "new.ts"] })).await;
    assert_eq!(code, 200);
    assert!(!top.join("new.ts").exists());
    assert_eq!(server.get(&path("status")).await["total"], 0);
    let (code, _) =
        server.post(&path("switch"), json!({ "branch": "topic", "create": true })).await;
    assert_eq!(code, 200);
    let branches = server.get(&path("branches")).await;
    let current = branches["branches"].as_array().expect("branches");
    assert!(current.iter().any(|it| it["name"] == "topic" && it["current"] == true));
}

#[tokio::test]
async fn hooks_say_why_a_commit_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = repository(&fixture);
    let hook = top.join(".git/hooks/pre-commit");
    fs::write(&hook, "#!/bin/sh\necho the linter says no\nexit 1\n").expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
    fs::write(top.join("cart.ts"), "x\n").expect("written");
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = |rest: &str| format!("/sessions/{session}/git/{rest}");
    server.post(&path("stage"), json!({ "paths": ["cart.ts"] })).await;
    let (code, refused) = server.post(&path("commit"), json!({ "message": "x" })).await;
    assert_eq!((code, &refused["type"]), (409, &json!("about:towpath#git-refused")));
    assert!(refused["detail"].as_str().expect("words").contains("the linter says no"));
}

#[tokio::test]
async fn nothing_a_client_sends_becomes_an_option_or_leads_out_of_the_repository() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = repository(&fixture);
    let outside = fixture.path("outside.txt");
    fs::write(&outside, "secret\n").expect("written");
    fs::write(top.join("cart.ts"), "changed\n").expect("written");
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = |rest: &str| format!("/sessions/{session}/git/{rest}");
    let escape = outside.display().to_string();
    for bad in
        ["../outside.txt", escape.as_str(), ".git/config", "a/../../outside.txt", "%2E%2E/x", ""]
    {
        let query = format!("diff?path={}", bad.replace('%', "%25").replace('/', "%2F"));
        let read = server.ask(Method::GET, &path(&query), None).await;
        assert_eq!(read.status(), 400, "{bad}");
        for what in ["stage", "unstage", "discard"] {
            let (code, _) = server.post(&path(what), json!({ "paths": [bad] })).await;
            assert_eq!(code, 400, "{what} {bad}");
            let hunk = json!({ "hunk": { "path": bad, "id": "0" } });
            assert_eq!(server.post(&path(what), hunk).await.0, 400, "{what} {bad}");
        }
    }
    let option = format!("--output={escape}");
    for what in ["stage", "discard"] {
        let (code, words) = server.post(&path(what), json!({ "paths": [option] })).await;
        assert_eq!(code, 409, "{words}");
    }
    let read = server.ask(Method::GET, &path(&format!("diff?path={option}")), None).await;
    assert_eq!(read.status(), 200, "a file that does not exist has not changed");
    for bad in ["--detach", "-f", "main~1", "@{-1}", "x y", "../x", ""] {
        for create in [true, false] {
            let body = json!({ "branch": bad, "create": create });
            assert_eq!(server.post(&path("switch"), body).await.0, 400, "{bad}");
        }
    }
    for bad in ["--output=x", "HEAD", "main", "..", "-1"] {
        let read = server.ask(Method::GET, &path(&format!("commits/{bad}")), None).await;
        assert!(read.status().is_client_error(), "{bad}: {}", read.status());
        let query = format!("diff?path=cart.ts&commit={bad}");
        assert_eq!(server.ask(Method::GET, &path(&query), None).await.status(), 400, "{bad}");
    }
    for body in [json!({}), json!({ "paths": [] }), json!({ "paths": ["a"], "force": true })] {
        assert_eq!(server.post(&path("discard"), body).await.0, 400);
    }
    let many: Vec<String> = (0..20_000).map(|it| format!("file-{it}")).collect();
    assert_eq!(server.post(&path("stage"), json!({ "paths": many })).await.0, 400);
    let long = "x".repeat(100_000);
    assert_eq!(server.post(&path("commit"), json!({ "message": long })).await.0, 400);
    assert_eq!(fs::read_to_string(&outside).expect("there"), "secret\n");
    assert_eq!(fs::read_to_string(top.join("cart.ts")).expect("there"), "changed\n");
    assert_eq!(git(&top, &["rev-parse", "--abbrev-ref", "HEAD"]).trim(), "main");
}

#[tokio::test]
async fn a_working_tree_outside_the_roots_is_not_shown() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = repository(&fixture);
    git(&top, &["config", "core.worktree", fixture.path(".").to_str().expect("a path")]);
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    for rest in ["status", "log", "branches", "diff?path=agent"] {
        let read = server.ask(Method::GET, &format!("/sessions/{session}/git/{rest}"), None).await;
        assert_eq!(read.status(), 403, "{rest}");
    }
    let (code, _) =
        server.post(&format!("/sessions/{session}/git/stage"), json!({ "paths": ["agent"] })).await;
    assert_eq!(code, 403);
}

#[tokio::test]
async fn whoever_may_only_watch_and_other_pages_do_not_reach_git() {
    let fixture = Fixture::new("api text \"hi\"").await;
    repository(&fixture);
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let (_, made) = server.post("/tokens", json!({ "name": "tv", "role": "watch" })).await;
    let token = made["token"].as_str().expect("a token");
    let send = async |method: Method, rest: &str, token: &str, origin: Option<&str>| {
        let url = format!("{}/api/v1/sessions/{session}/git/{rest}", server.url);
        let mut request = server.http.request(method.clone(), url).bearer_auth(token);
        if method == Method::POST {
            request = request.json(&json!({ "paths": ["cart.ts"] }));
        }
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        timeout(TIMEOUT, request.send()).await.expect("in time").expect("an answer").status()
    };
    for rest in ["status", "diff?path=cart.ts", "log", "branches", "commits/abcd"] {
        assert_eq!(send(Method::GET, rest, token, None).await, 403, "{rest}");
        assert_eq!(send(Method::GET, rest, "nonsense", None).await, 401, "{rest}");
        let foreign = Some("https://evil.example");
        assert_eq!(send(Method::GET, rest, &server.token, foreign).await, 403, "{rest}");
    }
    for rest in ["stage", "unstage", "discard", "commit", "switch"] {
        assert_eq!(send(Method::POST, rest, token, None).await, 403, "{rest}");
    }
    let marks = format!("{}/api/v1/sessions/{session}", server.url);
    let mark = server.http.request(Method::PATCH, marks).bearer_auth(token);
    let mark = mark.json(&json!({ "pinned": true })).send().await.expect("an answer");
    assert_eq!(mark.status(), 403);
}

async fn follow_until(client: &mut crate::fixture::TestClient, wanted: impl Fn(&Value) -> bool) {
    loop {
        let frame = client.next().await;
        let whole = frame["sessions"].as_array().cloned().unwrap_or_default();
        if whole.iter().chain(std::iter::once(&frame["session"])).any(&wanted) {
            return;
        }
    }
}

#[tokio::test]
async fn sessions_are_pinned_and_archived_for_all_clients_and_for_good() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let mut other = server.follow("/follow").await;
    let path = format!("/sessions/{session}");
    let change = async |server: &TestServer, body: Value| {
        let answer = server.ask(Method::PATCH, &path, Some(body)).await;
        assert_eq!(answer.status(), 200);
        answer.json::<Value>().await.expect("JSON")
    };
    assert_eq!(change(&server, json!({ "pinned": true })).await["pinned"], true);
    timeout(TIMEOUT, follow_until(&mut other, |it| it["pinned"] == true)).await.expect("seen");
    let both = change(&server, json!({ "archived": true })).await;
    assert_eq!((&both["pinned"], &both["archived"]), (&json!(true), &json!(true)));
    timeout(TIMEOUT, follow_until(&mut other, |it| it["archived"] == true)).await.expect("seen");
    assert_eq!(server.get("/sessions").await["sessions"][0]["archived"], true);
    assert_eq!(change(&server, json!({ "pinned": false })).await["pinned"], false);
}

#[tokio::test]
async fn directories_of_sessions_are_grouped_by_repository_with_branch_and_changes() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = repository(&fixture);
    fs::create_dir(top.join("web")).expect("made");
    fs::write(top.join("web/new.ts"), "x").expect("written");
    let server = fixture.serve().await;
    server.session(&fixture).await;
    let inner = top.join("web").display().to_string();
    assert_eq!(server.post("/sessions", json!({ "cwd": inner })).await.0, 201);
    let projects = server.get("/projects").await;
    let directories = projects["directories"].as_array().expect("directories");
    assert_eq!(directories.len(), 2, "{projects}");
    assert_eq!(directories[0]["project"], directories[1]["project"]);
    for it in directories {
        assert_eq!((&it["branch"], &it["changes"]), (&json!("main"), &json!(1)), "{it}");
        assert_eq!(it["worktree"], false);
    }
}

#[tokio::test]
async fn a_session_gets_a_working_tree_and_is_deleted_with_it() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = repository(&fixture);
    let server = fixture.serve().await;
    let about = server.get(&format!("/repository?cwd={}", top.display())).await;
    let parent = about["worktrees"].as_str().expect("a place").to_owned();
    assert!(Path::new(&parent).starts_with(&top), "beside it is outside of the roots: {parent}");
    let id = uuid::Uuid::new_v4();
    let new = json!({ "id": id, "cwd": top, "worktree": true, "title": "Fix the cart; rm -rf" });
    let (code, made) = server.post("/sessions", new.clone()).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(server.post("/sessions", new).await.0, 200, "twice is once");
    let cwd =
        server.get(&format!("/sessions/{id}")).await["cwd"].as_str().expect("a path").to_owned();
    assert_eq!(cwd, format!("{parent}/fix-the-cart-rm-rf"));
    assert_eq!(
        git(Path::new(&cwd), &["branch", "--show-current"]).trim(),
        "towpath/fix-the-cart-rm-rf"
    );
    assert_eq!(git(&top, &["worktree", "list"]).lines().count(), 2);
    assert_eq!(git(&top, &["status", "--porcelain"]), "", "it is no file of the repository");
    let projects = server.get("/projects").await;
    assert_eq!(projects["directories"][0]["worktree"], true, "{projects}");
    let (_, second) = server
        .post("/sessions", json!({ "cwd": top, "worktree": true, "title": "Fix the cart; rm -rf" }))
        .await;
    let second = second["id"].as_str().expect("an id").to_owned();
    fs::write(Path::new(&cwd).join("cart.ts"), "work\n").expect("written");
    let loss = server.get(&format!("/sessions/{id}/worktree")).await;
    assert_eq!(loss["worktree"]["files"], 1);
    let refused =
        server.ask(Method::DELETE, &format!("/sessions/{id}?worktree=remove"), None).await;
    assert_eq!(refused.status(), 409);
    assert!(Path::new(&cwd).exists());
    let removed =
        server.ask(Method::DELETE, &format!("/sessions/{id}?worktree=discard"), None).await;
    assert_eq!(removed.status(), 204);
    assert!(!Path::new(&cwd).exists());
    let clean =
        server.ask(Method::DELETE, &format!("/sessions/{second}?worktree=remove"), None).await;
    assert_eq!(clean.status(), 204);
    assert_eq!(git(&top, &["branch", "--list", "towpath/*"]), "");
    let plain = server.session(&fixture).await;
    let refused =
        server.ask(Method::DELETE, &format!("/sessions/{plain}?worktree=discard"), None).await;
    assert_eq!(refused.status(), 409, "what was there before stays");
    assert!(top.join("cart.ts").exists());
    let none = server.get(&format!("/sessions/{plain}/worktree")).await;
    assert_eq!(none["worktree"], Value::Null);
}
