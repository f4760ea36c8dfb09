//! Files and git of the sessions of workers through a gateway, ordinary and under attack.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fleet::bus::Bus as _;
use fleet::bus::nats::{NatsBus, NatsConfig};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::fixture::{Fixture, TIMEOUT, TestServer};
use crate::fleet_environment::FleetEnvironment;

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(directory).output();
    let output = output.expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The project as a repository with a commit.
fn repository(top: &Path) {
    git(top, &["init", "-q", "-b", "main"]);
    git(top, &["config", "user.name", "Ada"]);
    git(top, &["config", "user.email", "ada@example.org"]);
    fs::write(top.join("cart.ts"), "one\ntwo\n").expect("written");
    git(top, &["add", "."]);
    git(top, &["commit", "-qm", "First"]);
}

async fn gateway(fixture: &Fixture, fleet: &FleetEnvironment<'_>) -> TestServer {
    let arguments = fleet.gateway_arguments("g1");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    fixture.start(fixture.command(&arguments)).await
}

/// A client with a token, of one session.
struct ProjectClient<'a> {
    server: &'a TestServer,
    session: &'a str,
    token: String,
}

impl ProjectClient<'_> {
    fn request(&self, method: Method, what: &str, query: &[(&str, &str)]) -> RequestBuilder {
        let url = format!("{}/api/v1/sessions/{}/{what}", self.server.url, self.session);
        let url = reqwest::Url::parse_with_params(&url, query).expect("a URL");
        self.server.http.request(method, url).bearer_auth(&self.token)
    }

    async fn get(&self, what: &str, query: &[(&str, &str)]) -> (u16, Value) {
        answer(self.request(Method::GET, what, query)).await
    }

    async fn content(&self, path: &str) -> Response {
        send(self.request(Method::GET, "files/content", &[("path", path)])).await
    }

    async fn save(&self, path: &str, condition: (&str, &str), body: &str) -> (u16, Value) {
        let request = self.request(Method::PUT, "files/content", &[("path", path)]);
        let request = request.header(condition.0, condition.1).body(body.to_owned());
        answer(request.header("content-type", "application/octet-stream")).await
    }

    async fn upload(&self, name: &str, body: Vec<u8>) -> (u16, Value) {
        let request = self.request(Method::POST, "files", &[("name", name), ("directory", "")]);
        answer(request.header("content-type", "application/octet-stream").body(body)).await
    }

    async fn post(&self, what: &str, body: Value) -> (u16, Value) {
        answer(self.request(Method::POST, what, &[]).json(&body)).await
    }
}

async fn send(request: RequestBuilder) -> Response {
    timeout(TIMEOUT, request.send()).await.expect("in time").expect("an answer")
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = send(request).await;
    (response.status().as_u16(), response.json().await.unwrap_or_default())
}

fn tag(headers: &HeaderMap) -> String {
    headers["etag"].to_str().expect("text").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_git_of_a_workers_session_are_used_through_a_gateway() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = fixture.path("project").canonicalize().expect("a project");
    repository(&top);
    let Some(fleet) = FleetEnvironment::start(&fixture, &[("w1", &top)]).await else { return };
    let server = gateway(&fixture, &fleet).await;
    let session = server.session(&fixture).await;
    let files = ProjectClient { server: &server, session: &session, token: server.token.clone() };

    let (status, list) = files.get("files/list", &[]).await;
    assert_eq!((status, &list["entries"][0]["name"]), (200, &json!("cart.ts")), "{list}");
    let (status, found) = files.get("files", &[("query", "crt")]).await;
    assert_eq!((status, &found["paths"]), (200, &json!(["cart.ts"])), "{found}");
    let read = files.content("cart.ts").await;
    assert_eq!(read.status(), 200);
    let policy = read.headers()["content-security-policy"].to_str().expect("text").to_owned();
    assert!(policy.starts_with("sandbox"), "{policy}");
    let first = tag(read.headers());
    assert_eq!(read.text().await.expect("a text"), "one\ntwo\n");
    let part = files.request(Method::GET, "files/content", &[("path", "cart.ts")]);
    let part = send(part.header("range", "bytes=4-6")).await;
    assert_eq!((part.status().as_u16(), &*part.text().await.expect("a text")), (206, "two"));

    // Saved once: who has read before that is told.
    let (status, saved) = files.save("cart.ts", ("if-match", &first), "one\nthree\n").await;
    assert_eq!(status, 200, "{saved}");
    let (status, conflict) = files.save("cart.ts", ("if-match", &first), "lost\n").await;
    assert_eq!((status, &conflict["type"]), (412, &json!("about:towpath#changed")), "{conflict}");
    let (status, refused) = files.save("cart.ts", ("x-none", ""), "lost\n").await;
    assert_eq!(status, 428, "{refused}");
    assert_eq!(fs::read_to_string(top.join("cart.ts")).expect("a file"), "one\nthree\n");

    // More than a message holds, in both directions.
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).take(5_000_001).collect();
    let (status, stored) = files.upload("large.bin", large.clone()).await;
    assert_eq!((status, &stored["path"]), (201, &json!("large.bin")), "{stored}");
    assert_eq!(fs::read(top.join("large.bin")).expect("a file"), large);
    let read = files.content("large.bin").await;
    assert_eq!(read.headers()["content-length"], "5000001");
    assert_eq!(read.bytes().await.expect("all of it"), large);
    let deleted = files.request(Method::DELETE, "files", &[("path", "large.bin")]);
    assert_eq!(send(deleted).await.status(), 204);
    assert!(!top.join("large.bin").exists());

    let (status, changed) = files.get("git/status", &[]).await;
    assert_eq!((status, &changed["files"][0]["unstaged"]), (200, &json!("modified")), "{changed}");
    let (status, diff) = files.get("git/diff", &[("path", "cart.ts")]).await;
    assert_eq!((status, diff["hunks"].as_array().map(Vec::len)), (200, Some(1)), "{diff}");
    let hunk = json!({ "hunk": { "path": "cart.ts", "id": diff["hunks"][0]["id"] } });
    let (status, staged) = files.post("git/stage", hunk).await;
    assert_eq!((status, &staged["status"]["files"][0]["staged"]), (200, &json!("modified")));
    let (status, committed) = files.post("git/commit", json!({ "message": "Three" })).await;
    assert_eq!(status, 200, "{committed}");
    assert_eq!(git(&top, &["log", "-1", "--format=%s"]), "Three\n");
    let (status, log) = files.get("git/log", &[]).await;
    assert_eq!((status, &log["commits"][0]["subject"]), (200, &json!("Three")), "{log}");
    let (status, refused) = files.post("git/commit", json!({ "message": "Nothing" })).await;
    assert_eq!((status, &refused["type"]), (409, &json!("about:towpath#git-refused")));
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_clients_nor_gateways_get_at_more_than_a_sessions_own_project() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = fixture.path("project").canonicalize().expect("a project");
    repository(&top);
    let other = fixture.path("other");
    fs::create_dir(&other).expect("a directory");
    fs::write(other.join("secret"), "of another worker").expect("written");
    symlink(&other, top.join("link")).expect("a link");
    let workers = [("w1", top.as_path()), ("w2", other.as_path())];
    let Some(fleet) = FleetEnvironment::start(&fixture, &workers).await else { return };
    let server = gateway(&fixture, &fleet).await;
    let session = server.session(&fixture).await;
    let files = ProjectClient { server: &server, session: &session, token: server.token.clone() };

    // Paths that lead out of the project.
    let absolute = other.join("secret").display().to_string();
    for path in ["../other/secret", &absolute, "link/secret", "x/../../other/secret", "link", ".."]
    {
        let read = files.content(path).await;
        assert!(read.status().is_client_error(), "{path}: {}", read.status());
        assert!(!read.text().await.expect("a text").contains("of another"), "{path}");
        let (status, said) = files.save(path, ("if-none-match", "*"), "mine").await;
        assert!((400..500).contains(&status), "{path}: {status} {said}");
        // Of a link git shows where it leads, and not what is there.
        let (_, said) = files.get("git/diff", &[("path", path)]).await;
        assert!(!said.to_string().contains("of another"), "{path}: {said}");
    }
    assert_eq!(fs::read_to_string(other.join("secret")).expect("a file"), "of another worker");
    let (status, said) = files.upload("../escaped", b"x".to_vec()).await;
    assert!((400..500).contains(&status) && !fixture.path("escaped").exists(), "{said}");

    // Sessions that do not exist, and directories of the gateway's own machine.
    let unknown = Uuid::new_v4().to_string();
    let unknown_session = ProjectClient { session: &unknown, token: server.token.clone(), ..files };
    let (status, said) = unknown_session.get("git/status", &[]).await;
    assert!((400..500).contains(&status), "{status} {said}");
    let (status, listed) = answer(
        server
            .http
            .get(format!("{}/api/v1/directories?under=/", server.url))
            .bearer_auth(&server.token),
    )
    .await;
    assert_eq!((status, &listed["directories"]), (200, &json!([])), "{listed}");

    // A token that may only watch.
    let (status, made) = server.post("/tokens", json!({ "name": "wall", "role": "watch" })).await;
    assert_eq!(status, 201, "{made}");
    let token = made["token"].as_str().expect("a token").to_owned();
    let watcher = ProjectClient { server: &server, session: &session, token };
    assert_eq!(watcher.content("cart.ts").await.status(), 403);
    assert_eq!(watcher.get("files/list", &[]).await.0, 403);
    assert_eq!(watcher.get("git/status", &[]).await.0, 403);
    assert_eq!(watcher.save("cart.ts", ("if-none-match", "*"), "x").await.0, 403);
    assert_eq!(watcher.upload("x", b"x".to_vec()).await.0, 403);
    assert_eq!(watcher.post("git/commit", json!({ "message": "x" })).await.0, 403);
    // As on one machine, it may see the names of files.
    assert_eq!(watcher.get("files", &[("query", "cart")]).await.0, 200);

    gateway_cannot_ask_for_more(&fleet.nats, &session).await;
}

/// What a gateway that was taken over could ask a worker for.
async fn gateway_cannot_ask_for_more(nats: &str, session: &str) {
    let config = NatsConfig {
        servers: vec![nats.to_owned()],
        credentials: None,
        authorities: None,
        certificate: None,
        name: "attacker".to_owned(),
    };
    let bus = NatsBus::connect(&config).await.expect("the servers");
    let ask = async |worker: &str, action: Value| -> Value {
        let step = json!({ "exchange": Uuid::new_v4(), "action": action });
        let question = json!({ "version": 1, "question": { "project": step } });
        let asked = bus.ask(worker, question.to_string().into(), Duration::from_secs(30)).await;
        serde_json::from_slice(&asked.expect("an answer")).expect("JSON")
    };
    let begin = |session: &str, method: &str, path: &str, role: &str| {
        let client = json!({ "name": "eve", "role": role, "shell": true });
        let request = json!({ "method": method, "path": path, "client": client });
        let piece = json!({ "bytes": "", "is_last": true });
        json!({ "begin": { "session": session, "request": request, "piece": piece } })
    };
    let status = |said: &Value| said["Ok"]["answer"]["response"]["status"].as_u64();
    let good = ask("w1", begin(session, "GET", "git/status", "drive")).await;
    assert_eq!(status(&good), Some(200), "{good}");
    for (method, path) in [
        ("GET", "../../tokens"),
        ("GET", "%2e%2e/%2e%2e/tokens"),
        ("POST", "prompts"),
        ("POST", "terminals"),
        ("GET", "export"),
        ("DELETE", "."),
        ("GET", "requests"),
        ("DELETE", "worktree"),
    ] {
        let said = ask("w1", begin(session, method, path, "admin")).await;
        assert!(matches!(status(&said), Some(400..=405)), "{method} {path}: {said}");
    }
    let said = ask("w1", begin(session, "GET", "files/content", "watch")).await;
    assert_eq!(status(&said), Some(403), "{said}");
    // A worker answers only for the sessions that it has.
    let said = ask("w2", begin(session, "GET", "git/status", "admin")).await;
    assert!(matches!(status(&said), None | Some(404)), "{said}");
    let piece = json!({ "bytes": "A".repeat(800_000), "is_last": true });
    let said = ask("w1", json!({ "send": { "piece": piece } })).await;
    assert!(said["Err"].is_object(), "{said}");
    let said = ask("w1", json!("receive")).await;
    assert!(said["Err"].is_object(), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_away_is_named_when_its_files_are_asked_for() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let top = fixture.path("project").canonicalize().expect("a project");
    let Some(mut fleet) = FleetEnvironment::start(&fixture, &[("w1", &top)]).await else { return };
    let server = gateway(&fixture, &fleet).await;
    let session = server.session(&fixture).await;
    let token = server.token.clone();
    let files = ProjectClient { server: &server, session: &session, token };
    assert_eq!(files.get("files/list", &[]).await.0, 200);
    fleet.workers[0].1.child.kill().await.expect("it runs");
    let (status, said) = files.get("files/list", &[]).await;
    assert!(status >= 400 && said["detail"].as_str().is_some_and(|it| it.contains("w1")), "{said}");
}
