//! The files of a session over HTTP, ordinary and under attack.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::fixture::{Fixture, TIMEOUT, TestServer};

/// A session's files, as a client with some token sees them.
struct FilesClient<'a> {
    server: &'a TestServer,
    session: String,
    token: String,
}

impl FilesClient<'_> {
    fn request(&self, method: Method, what: &str, query: &[(&str, &str)]) -> RequestBuilder {
        let url = format!("{}/api/v1/sessions/{}/files{what}", self.server.url, self.session);
        let url = reqwest::Url::parse_with_params(&url, query).expect("a URL");
        self.server.http.request(method, url).bearer_auth(&self.token)
    }

    async fn get(&self, what: &str, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, what, &[("path", path)])).await
    }

    async fn read(&self, path: &str) -> Response {
        send(self.request(Method::GET, "/content", &[("path", path)])).await
    }

    async fn put(&self, path: &str, condition: (&str, &str), body: &str) -> (u16, Value) {
        let request = self.request(Method::PUT, "/content", &[("path", path)]);
        let request = request.header(condition.0, condition.1);
        answer(as_bytes(request).body(body.to_owned())).await
    }

    async fn upload(&self, query: &[(&str, &str)], body: Vec<u8>) -> (u16, Value) {
        answer(as_bytes(self.request(Method::POST, "", query)).body(body)).await
    }

    async fn delete(&self, path: &str) -> u16 {
        let query = [("path", path), ("recursive", "true")];
        answer(self.request(Method::DELETE, "", &query)).await.0
    }

    async fn rename(&self, path: &str, to: &str) -> u16 {
        let body = json!({ "path": path, "to": to });
        answer(self.request(Method::PATCH, "", &[]).json(&body)).await.0
    }
}

fn as_bytes(request: RequestBuilder) -> RequestBuilder {
    request.header("content-type", "application/octet-stream")
}

async fn send(request: RequestBuilder) -> Response {
    timeout(TIMEOUT, request.send()).await.expect("in time").expect("an answer")
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = send(request).await;
    let status = response.status();
    if status.is_client_error() {
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
    (status.as_u16(), response.json().await.unwrap_or_default())
}

fn tag(headers: &HeaderMap) -> String {
    headers["etag"].to_str().expect("text").to_owned()
}

const NEW: (&str, &str) = ("if-none-match", "*");

struct Setup {
    fixture: Fixture,
    server: TestServer,
    session: String,
}

impl Setup {
    async fn new() -> Self {
        let fixture = Fixture::new("api text \"hi\"").await;
        let server = fixture.serve().await;
        let session = server.session(&fixture).await;
        Self { fixture, server, session }
    }

    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(self.fixture.project()).join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    }

    fn admin(&self) -> FilesClient<'_> {
        let (session, token) = (self.session.clone(), self.server.token.clone());
        FilesClient { server: &self.server, session, token }
    }

    async fn with_role(&self, role: &str) -> FilesClient<'_> {
        let new = json!({ "name": role, "role": role });
        let (status, made) = self.server.post("/tokens", new).await;
        assert_eq!(status, 201, "{made}");
        let token = made["token"].as_str().expect("a token").to_owned();
        FilesClient { token, ..self.admin() }
    }
}

#[tokio::test]
async fn files_are_listed_shown_saved_renamed_and_deleted() {
    let setup = Setup::new().await;
    let files = setup.with_role("drive").await;
    setup.write(".gitignore", "*.log\n");
    setup.write("src/main.rs", "fn main() {}\n");
    setup.write("a.log", "");
    setup.write("README.md", "# Title\n\n<script>alert(1)</script>\n");
    let (status, list) = files.get("/list", "").await;
    assert_eq!(status, 200, "{list}");
    let entries = list["entries"].as_array().expect("entries");
    let find = |name: &str| entries.iter().find(|it| it["name"] == name).expect("an entry");
    assert_eq!(
        (&find("src")["kind"], &find("a.log")["ignored"]),
        (&json!("directory"), &json!(true))
    );
    assert_eq!(list["more"], json!(null));

    let (_, view) = files.get("/view", "src/main.rs").await;
    assert_eq!((&view["kind"], &view["read_only"]), (&json!("text"), &json!(null)));
    assert_eq!(view["lines"].as_array().map(Vec::len), Some(1));
    assert!(view["lines"][0].as_str().expect("HTML").contains("<span class=tf>main</span>"));
    let request =
        files.request(Method::GET, "/view", &[("path", "README.md"), ("preview", "true")]);
    let (_, view) = answer(request).await;
    let preview = view["preview"].as_str().expect("HTML");
    assert!(preview.contains("Title</h1>") && !preview.contains("<script"), "{preview}");

    let response = files.read("src/main.rs").await;
    let old = tag(response.headers());
    assert_eq!(response.text().await.expect("text"), "fn main() {}\n");
    let (status, saved) = files.put("src/main.rs", ("if-match", &old), "fn other() {}\n").await;
    assert_eq!(status, 200, "{saved}");
    let (status, problem) = files.put("src/main.rs", ("if-match", &old), "mine").await;
    assert_eq!((status, &problem["type"]), (412, &json!("about:towpath#changed")));
    let compare = files.request(Method::POST, "/compare", &[("path", "src/main.rs")]);
    let (_, compared) = answer(as_bytes(compare).body("fn mine() {}\n")).await;
    assert_eq!((&compared["added"], &compared["removed"]), (&json!(1), &json!(1)), "{compared}");
    assert_eq!(compared["tag"], saved["tag"]);
    assert_eq!(files.put("src/main.rs", ("x", "y"), "").await.0, 428, "no condition");
    assert_eq!(files.put("src/main.rs", NEW, "").await.0, 409, "it exists");
    assert_eq!(files.put("src/new.rs", NEW, "new").await.0, 200);

    assert_eq!(files.rename("src/new.rs", "src/main.rs").await, 409, "nothing is replaced");
    assert_eq!(files.rename("src/new.rs", "src/old.rs").await, 204);
    let make = files.request(Method::POST, "/directories", &[]).json(&json!({ "path": "docs" }));
    assert_eq!(answer(make).await.0, 201);
    assert_eq!(files.delete("src").await, 204);
    assert_eq!(files.delete("src").await, 404);
    assert!(!setup.path("src").exists() && setup.path("docs").is_dir());
}

#[tokio::test]
async fn uploads_are_streamed_and_replace_nothing() {
    let setup = Setup::new().await;
    let files = setup.with_role("drive").await;
    setup.write("data.bin", "old");
    let large = vec![7; 40 << 20];
    let (status, made) =
        files.upload(&[("name", "data.bin"), ("directory", "")], large.clone()).await;
    assert_eq!((status, &made["path"]), (201, &json!("data (2).bin")), "{made}");
    assert!(std::fs::read(setup.path("data (2).bin")).expect("a file") == large);
    assert_eq!(std::fs::read(setup.path("data.bin")).expect("a file"), b"old");
    let (status, made) = files.upload(&[("name", "notes.txt")], b"x".to_vec()).await;
    assert_eq!((status, &made["path"]), (201, &json!(".towpath/files/notes.txt")), "{made}");
    let ranged = files.request(Method::GET, "/content", &[("path", "data (2).bin")]);
    let response = send(ranged.header("range", "bytes=100-199")).await;
    assert_eq!(response.status(), 206);
    assert_eq!(response.headers()["content-range"], format!("bytes 100-199/{}", large.len()));
    assert_eq!(response.bytes().await.expect("bytes").len(), 100);
    let ranged = files.request(Method::GET, "/content", &[("path", "data.bin")]);
    assert_eq!(send(ranged.header("range", "bytes=99-")).await.status(), 416);
    // A client that gives up leaves nothing behind.
    let pieces = [Ok(vec![1; 1000]), Err(std::io::Error::other("gone"))];
    let stream = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let query = [("name", "half"), ("directory", "")];
    let request = as_bytes(files.request(Method::POST, "", &query)).body(stream);
    assert!(timeout(TIMEOUT, request.send()).await.expect("in time").is_err());
    for (name, directory) in
        [("../x", ""), ("a/b", ""), ("x", ".."), ("x", "/tmp"), ("", ""), ("..", ""), ("a\nb", "")]
    {
        let (status, _) = files.upload(&[("name", name), ("directory", directory)], vec![1]).await;
        assert_eq!(status, 400, "{name:?} {directory:?}");
    }
    let form = files.request(Method::POST, "", &[("name", "x")]).body("x");
    assert_eq!(answer(form.header("content-type", "text/plain")).await.0, 415);
    let (_, list) = files.get("/list", "").await;
    let names: Vec<_> = list["entries"].as_array().expect("entries").iter().collect();
    assert!(
        !names.iter().any(|it| it["name"].as_str().is_some_and(|it| it.contains("tmp"))),
        "{list}"
    );
}

#[tokio::test]
async fn a_file_never_runs_in_our_origin() {
    let setup = Setup::new().await;
    let files = setup.admin();
    setup.write("page.html", "<script>parent.alert(1)</script>");
    setup.write(
        "drawing.svg",
        "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    );
    setup.write("doc.pdf", "%PDF-1.7");
    setup.write("image.png", b"\x89PNG\r\n\x1a\n");
    setup.write("a\r\nset-cookie: x=y", "x");
    for (name, media_type, shown) in [
        ("page.html", "text/plain; charset=utf-8", false),
        ("drawing.svg", "image/svg+xml", false),
        ("doc.pdf", "application/pdf", true),
        ("image.png", "image/png", true),
        ("a\r\nset-cookie: x=y", "text/plain; charset=utf-8", false),
    ] {
        let response = files.read(name).await;
        assert_eq!(response.status(), 200, "{name:?}");
        let header = |it: &str| response.headers()[it].to_str().expect("text").to_owned();
        assert_eq!(header("content-type"), media_type);
        let policy = header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        assert!(!policy.contains("script"), "{policy}");
        assert!(policy.contains("sandbox") || media_type == "application/pdf", "{policy}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("x-frame-options"), "DENY");
        let start = if shown { "inline;" } else { "attachment;" };
        assert!(header("content-disposition").starts_with(start), "{name:?}");
        assert!(!response.headers().contains_key("set-cookie"));
    }
}

#[tokio::test]
async fn no_path_leads_out_of_the_directory_and_nothing_waits_for_a_pipe() {
    let setup = Setup::new().await;
    let files = setup.admin();
    setup.write("ordinary", "x");
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::write(outside.path().join("secret"), "secret").expect("a file");
    symlink(outside.path(), setup.path("link")).expect("a link");
    symlink(outside.path().join("secret"), setup.path("secret")).expect("a link");
    let made = std::process::Command::new("mkfifo").arg(setup.path("pipe")).status();
    assert!(made.expect("mkfifo starts").success());
    for path in [
        "..",
        "../..",
        "/etc/passwd",
        "a/../../x",
        "./x",
        "link/secret",
        "secret",
        "link",
        "pipe",
        "a\u{0}b",
        "\\x2e\\x2e/x",
        "",
        "none",
    ] {
        for what in ["/content", "/view"] {
            let (status, _) = files.get(what, path).await;
            assert!([400, 403, 404, 409].contains(&status), "{what} {path:?}: {status}");
        }
        if !["", "pipe", "secret"].contains(&path) {
            assert_ne!(files.get("/list", path).await.0, 200, "{path:?}");
        }
        if path != "none" {
            assert_ne!(files.put(path, NEW, "x").await.0, 200, "{path:?}");
        }
    }
    for (from, to) in [("ordinary", "../x"), ("ordinary", "link/x"), ("link/secret", "x")] {
        assert!([400, 403].contains(&files.rename(from, to).await), "{from} {to}");
    }
    for path in ["link/secret", "..", "", "/"] {
        assert!([400, 403].contains(&files.delete(path).await), "{path:?}");
    }
    let (status, _) = files.upload(&[("name", "x"), ("directory", "link")], vec![1]).await;
    assert_eq!(status, 403);
    assert_eq!(std::fs::read_dir(outside.path()).expect("a directory").count(), 1);
    let huge = "x/".repeat(5000);
    assert_eq!(files.get("/view", &huge).await.0, 400);
}

#[tokio::test]
async fn roles_and_protected_files_are_respected() {
    let setup = Setup::new().await;
    setup.write(".env", "PASSWORD=x");
    setup.write(".git/config", "");
    setup.write("run.sh", "x");
    std::fs::set_permissions(setup.path("run.sh"), Permissions::from_mode(0o755)).expect("a mode");
    let watcher = setup.with_role("watch").await;
    for what in ["/list", "/view", "/content", "/anything"] {
        assert_eq!(watcher.get(what, ".env").await.0, 403, "{what}");
    }
    assert_eq!(
        send(watcher.request(Method::HEAD, "/content", &[("path", ".env")])).await.status(),
        403
    );
    assert_eq!(watcher.put("x", NEW, "x").await.0, 403);
    assert_eq!(watcher.upload(&[("name", "x")], vec![1]).await.0, 403);
    assert_eq!((watcher.delete(".env").await, watcher.rename(".env", "x").await), (403, 403));
    let nobody = FilesClient { token: "nonsense".to_owned(), ..setup.admin() };
    assert_eq!(nobody.get("/content", ".env").await.0, 401);

    let driver = setup.with_role("drive").await;
    assert_eq!(driver.get("/content", ".env").await.0, 200);
    std::fs::create_dir_all(setup.path(".claude")).expect("a directory");
    for path in [".mcp.json", ".claude/settings.json", ".claude/hooks"] {
        let (status, problem) = driver.put(path, NEW, "{}").await;
        assert_eq!((status, &problem["type"]), (403, &json!("about:towpath#protected")), "{path}");
        assert_eq!(setup.admin().put(path, NEW, "{}").await.0, 200, "{path}");
        let (_, view) = driver.get("/view", path).await;
        assert!(view["read_only"].is_string(), "{view}");
    }
    for files in [&driver, &setup.admin()] {
        assert_eq!(files.put(".git/hooks-x", NEW, "x").await.0, 403);
        assert_eq!(files.delete(".git").await, 403);
        assert_eq!(files.rename("run.sh", ".git/run.sh").await, 403);
    }
    let old = tag(driver.read("run.sh").await.headers());
    assert_eq!(driver.put("run.sh", ("if-match", &old), "y").await.0, 200);
    let mode = std::fs::metadata(setup.path("run.sh")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);

    // A page of another origin, with the cookie of this one.
    let url =
        format!("{}/api/v1/sessions/{}/files/content?path=.env", setup.server.url, setup.session);
    let foreign = setup.server.http.get(url).bearer_auth(&setup.server.token);
    assert_eq!(send(foreign.header("origin", "https://evil.example")).await.status(), 403);
    let body = "x".repeat((2 << 20) + 1);
    assert_eq!(driver.put("huge", NEW, &body).await.0, 413);
    let other = FilesClient { session: uuid::Uuid::new_v4().to_string(), ..setup.admin() };
    assert_eq!(other.get("/list", "").await.0, 404);
}

#[tokio::test]
async fn huge_directories_and_files_are_given_in_parts() {
    let setup = Setup::new().await;
    let files = setup.admin();
    std::fs::create_dir(setup.path("many")).expect("a directory");
    for number in 0..5000 {
        std::fs::write(setup.path(&format!("many/{number}-{}", "x".repeat(200))), "")
            .expect("a file");
    }
    let (mut seen, mut after) = (0, String::new());
    loop {
        let query = [("path", "many"), ("after", after.as_str())];
        let query = if after.is_empty() { &query[..1] } else { &query[..] };
        let (status, page) = answer(files.request(Method::GET, "/list", query)).await;
        assert_eq!((status, &page["total"]), (200, &json!(5000)));
        seen += page["entries"].as_array().map_or(0, Vec::len);
        let Some(more) = page["more"].as_str() else { break };
        after = more.to_owned();
    }
    assert_eq!(seen, 5000);
    setup.write("long.txt", "a line of a long file\n".repeat(250_000));
    setup.write("wide.js", "x".repeat(5 << 20));
    let (mut lines, mut offset) = (0, Some(0_u64));
    while let Some(at) = offset {
        let at = at.to_string();
        let query = [("path", "long.txt"), ("offset", at.as_str())];
        let (status, view) = answer(files.request(Method::GET, "/view", &query)).await;
        assert_eq!(status, 200);
        assert!(view["read_only"].is_string());
        lines += view["lines"].as_array().map_or(0, Vec::len);
        offset = view["next"].as_u64();
    }
    assert_eq!(lines, 250_000);
    let (_, view) = files.get("/view", "wide.js").await;
    let line = view["lines"][0].as_str().expect("a line");
    assert!(line.len() < 5000 && line.contains("more bytes"), "{}", line.len());
    assert_eq!(view["next"], json!(null));
}
