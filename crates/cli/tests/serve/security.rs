//! Attacks, and what protects against them.

use std::os::unix::fs::symlink;
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::fixture::{Fixture, TIMEOUT, TestServer};

impl TestServer {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// Signs in as a browser does; the cookie.
    async fn sign_in(&self) -> String {
        let request = self.request(Method::POST, "/api/v1/sign-in").header("origin", &self.url);
        let response =
            request.json(&json!({ "token": self.token })).send().await.expect("an answer");
        assert_eq!(response.status(), 204);
        let cookie = response.headers()["set-cookie"].to_str().expect("text").to_owned();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
        assert!(!cookie.contains(&self.token), "the token itself is no cookie");
        cookie.split(';').next().expect("a pair").to_owned()
    }
}

async fn status(request: RequestBuilder) -> u16 {
    let answer = timeout(TIMEOUT, request.send()).await.expect("in time").expect("an answer");
    let status = answer.status();
    if status.is_client_error() {
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
    }
    status.as_u16()
}

#[tokio::test]
async fn requests_without_a_token_are_refused_and_pages_have_a_strict_policy() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    assert_eq!(status(server.request(Method::GET, "/api/v1/health")).await, 200);
    for path in ["/sessions", "/me", "/openapi.json", "/usage", "/grants", "/nonsense", "/tokens"] {
        assert_eq!(
            status(server.request(Method::GET, &format!("/api/v1{path}"))).await,
            401,
            "{path}"
        );
    }
    let wrong = server.request(Method::GET, "/api/v1/me").bearer_auth("nonsense");
    assert_eq!(status(wrong).await, 401);
    let page = server.request(Method::GET, "/").send().await.expect("a page");
    let header = |name: &str| page.headers()[name].to_str().expect("text").to_owned();
    let policy = header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(header("x-content-type-options"), "nosniff");
    assert_eq!(header("referrer-policy"), "no-referrer");
    // What is a document of its own, or like one, has the same policies; every file has a fixed type.
    for file in ["/sw.js", "/icon.svg", "/js/app.js", "/view.css"] {
        let page = server.request(Method::GET, file).send().await.expect("a file");
        let has = |name: &str| page.headers().contains_key(name);
        let is_part = ["/js/app.js", "/view.css"].contains(&file);
        assert_eq!(has("content-security-policy"), !is_part, "{file}");
        assert_eq!(page.headers()["x-content-type-options"], "nosniff", "{file}");
        assert_eq!(page.headers()["cross-origin-resource-policy"], "same-origin", "{file}");
    }
    let cookie = server.sign_in().await;
    let me = server.request(Method::GET, "/api/v1/me").header("cookie", &cookie);
    assert_eq!(status(me).await, 200);
    let out = server.request(Method::POST, "/api/v1/sign-out").header("cookie", &cookie);
    assert_eq!(status(out.header("origin", &server.url)).await, 204);
    let me = server.request(Method::GET, "/api/v1/me").header("cookie", &cookie);
    assert_eq!(status(me).await, 401, "signed out");
}

#[tokio::test]
async fn requests_of_other_origins_and_hosts_are_refused() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let cookie = server.sign_in().await;
    let new = json!({ "cwd": fixture.project() });
    let post = || server.request(Method::POST, "/api/v1/sessions").header("cookie", &cookie);
    let here = server.address().rsplit(':').next().expect("a port").to_owned();
    for origin in [
        "https://evil.example",
        "null",
        "http://localhost:1",
        &format!("http://evil.example:{here}"),
    ] {
        assert_eq!(status(post().header("origin", origin).json(&new)).await, 403, "{origin}");
        let get = server.request(Method::GET, "/api/v1/sessions").header("cookie", &cookie);
        assert_eq!(status(get.header("origin", origin)).await, 403, "{origin} reads");
    }
    assert_eq!(status(post().json(&new)).await, 403, "a cookie without an origin");
    let form = post().header("origin", &server.url).header("content-type", "text/plain");
    assert_eq!(status(form.body(new.to_string())).await, 415, "what a form can send");
    for host in ["evil.example", &format!("evil.example:{here}"), "localhost:1"] {
        let request = server.request(Method::GET, "/api/v1/sessions").bearer_auth(&server.token);
        assert_eq!(status(request.header("host", host)).await, 421, "{host}");
        let page = server.request(Method::GET, "/").header("host", host);
        assert_eq!(status(page).await, 421, "{host}");
    }
    assert_eq!(server.get("/sessions").await["sessions"], json!([]));
    assert_eq!(status(post().header("origin", &server.url).json(&new)).await, 201, "our own page");
}

#[tokio::test]
async fn a_websocket_is_not_hijacked() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let cookie = server.sign_in().await;
    let address = server.address().to_owned();
    for path in ["/follow".to_owned(), format!("/sessions/{session}/follow")] {
        let open = async |origin: Option<&str>, host: Option<&str>, cookie: Option<&str>| {
            let url = format!("ws://{address}/api/v1{path}");
            let mut request = url.into_client_request().expect("a URL");
            for (name, value) in [("origin", origin), ("host", host), ("cookie", cookie)] {
                if let Some(value) = value {
                    request.headers_mut().insert(name, value.parse().expect("a header"));
                }
            }
            match tokio_tungstenite::connect_async(request).await {
                Ok(_) => StatusCode::SWITCHING_PROTOCOLS.as_u16(),
                Err(Error::Http(response)) => response.status().as_u16(),
                Err(error) => panic!("{error}"),
            }
        };
        let own = Some(server.url.as_str());
        assert_eq!(open(own, None, Some(&cookie)).await, 101);
        assert_eq!(open(own, None, None).await, 401);
        assert_eq!(open(Some("https://evil.example"), None, Some(&cookie)).await, 403);
        assert_eq!(open(None, None, Some(&cookie)).await, 403);
        assert_eq!(open(own, Some("evil.example"), Some(&cookie)).await, 421);
    }
}

#[tokio::test]
async fn paths_outside_the_roots_are_refused() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let project = fixture.project();
    symlink("/etc", fixture.path("project/link")).expect("a link");
    for cwd in
        ["/", "/etc", &format!("{project}/.."), &format!("{project}/link"), "relative", "", "\u{0}"]
    {
        let (status, problem) = server.post("/sessions", json!({ "cwd": cwd })).await;
        assert_eq!(
            (status, problem["type"].as_str()),
            (403, Some("about:towpath#outside-roots")),
            "{cwd}"
        );
        if !cwd.contains('\0') && !cwd.is_empty() {
            let listed = server.request(Method::GET, &format!("/api/v1/directories?under={cwd}"));
            assert_eq!(self::status(listed.bearer_auth(&server.token)).await, 403, "{cwd}");
        }
    }
    let below = server.get(&format!("/directories?under={project}")).await;
    assert_eq!(below["directories"], json!([]), "a link that leads out is not offered");
    let more = json!({ "cwd": project, "extra_directories": ["/etc"] });
    assert_eq!(server.post("/sessions", more).await.0, 403);
    let option = json!({ "cwd": project, "model": "--dangerously-skip-permissions" });
    assert_eq!(server.post("/sessions", option).await.0, 400);
    // Not by way of the pages either.
    for path in [
        "/../../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/js/../../Cargo.toml",
    ] {
        let mut socket = TcpStream::connect(server.address()).await.expect("a connection");
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            server.address()
        );
        socket.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        timeout(TIMEOUT, socket.read_to_string(&mut answer)).await.expect("in time").expect("text");
        assert!(!answer.contains("root:") && !answer.contains("[workspace]"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn texts_are_always_escaped() {
    let script = "<script>alert(1)</script><img src=x onerror=alert(1)>";
    let replies = format!(
        "api tool Bash {{\"command\":\"echo '{script}'\"}}\n\
         api tool Read {{\"file_path\":\"$cwd/{script}\"}}\n\
         api text \"{script} [x](javascript:alert(1)) `{script}`\""
    );
    let fixture = Fixture::new(&replies).await;
    let server = fixture.serve().await;
    let new = json!({ "cwd": fixture.project(), "title": script, "prompt": script });
    let (made, session) = server.post("/sessions", new).await;
    assert_eq!(made, 201, "{session}");
    let session = session["id"].as_str().expect("an id");
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client
        .until(|page| {
            page.snapshots > 0
                && (page.is_idle() && page.contains("javascript") || !page.requests().is_empty())
        })
        .await;
    while let Some(request) = client.page.requests().first().cloned() {
        assert!(!request["html"].as_str().expect("HTML").contains("<script"), "{request}");
        let id = request["id"].as_str().expect("an id");
        server
            .post(&format!("/sessions/{session}/requests/{id}"), json!({ "decision": "allow" }))
            .await;
        client.until(|page| !page.requests().iter().any(|it| it["id"] == id)).await;
        client
            .until(|page| {
                page.is_idle() && page.contains("javascript") || !page.requests().is_empty()
            })
            .await;
    }
    let html = client.page.html().to_lowercase();
    assert!(html.contains("&lt;script&gt;"), "{html}");
    assert!(
        !html.contains("<script") && !html.contains("<img") && !html.contains("href=\"javascript"),
        "{html}"
    );
    let response = server.ask(Method::GET, &format!("/sessions/{session}"), None).await;
    assert_eq!(response.headers()["content-type"], "application/json", "never a page");
}

#[tokio::test]
async fn large_bodies_are_refused_and_slow_clients_disconnected() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_with(&["--connections", "8"]).await;
    let huge = "x".repeat(33 << 20);
    let body = json!({ "cwd": fixture.project(), "title": huge }).to_string();
    let request = server.request(Method::POST, "/api/v1/sessions").bearer_auth(&server.token);
    let request = request.header("content-type", "application/json").body(body);
    assert_eq!(status(request).await, 413);
    let sign_in = server
        .request(Method::POST, "/api/v1/sign-in")
        .json(&json!({ "token": "x".repeat(8 << 10) }));
    assert_eq!(status(sign_in).await, 413);
    let mut heads = Vec::new();
    for _ in 0..12 {
        let mut socket = TcpStream::connect(server.address()).await.expect("a connection");
        socket.write_all(b"GET / HTTP/1.1\r\nhost: ").await.expect("sent");
        heads.push(socket);
    }
    // Those beyond the limit are turned away at once, the others when their time is up.
    for mut socket in heads {
        let mut answer = Vec::new();
        let ended = timeout(Duration::from_secs(40), socket.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "a slow head is not waited for");
    }
    assert_eq!(
        status(server.request(Method::GET, "/api/v1/health")).await,
        200,
        "and others come in"
    );
}

#[tokio::test]
async fn guessing_tokens_is_rate_limited_and_does_not_lock_out_valid_ones() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let mut last = 0;
    for number in 0..12 {
        let guess = json!({ "token": format!("guess {number}") });
        last = status(server.request(Method::POST, "/api/v1/sign-in").json(&guess)).await;
    }
    assert_eq!(last, 429);
    let right =
        server.request(Method::POST, "/api/v1/sign-in").json(&json!({ "token": server.token }));
    assert_eq!(
        status(right).await,
        429,
        "not even the right one: that would tell it from wrong ones"
    );
    assert_eq!(server.get("/me").await["role"], "admin", "who has a key is not held up");
}

#[tokio::test]
async fn roles_are_enforced_and_a_revoked_token_ends_its_streams() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let made =
        fixture.command(&["tokens", "add", "wall", "--role", "watch"]).output().expect("it runs");
    let watch = String::from_utf8(made.stdout).expect("text").trim().to_owned();
    let (added, drive) = server.post("/tokens", json!({ "name": "phone", "role": "drive" })).await;
    assert_eq!(added, 201, "{drive}");
    let drive = drive["token"].as_str().expect("a token");
    let ask = async |method: Method, path: &str, token: &str, body: Value| {
        let url = format!("/api/v1{path}");
        status(server.request(method, &url).bearer_auth(token).json(&body)).await
    };
    let of = |rest: &str| format!("/sessions/{session}{rest}");
    assert_eq!(ask(Method::GET, "/sessions", &watch, Value::Null).await, 200);
    for (method, path) in [
        (Method::POST, "/sessions".to_owned()),
        (Method::PATCH, of("")),
        (Method::DELETE, of("")),
        (Method::POST, of("/prompts")),
        (Method::POST, of("/interrupt")),
        (Method::POST, of("/requests/x")),
        (Method::PATCH, of("/settings")),
        (Method::POST, of("/rewind")),
        (Method::POST, of("/wake")),
        (Method::POST, "/tokens".to_owned()),
        (Method::GET, "/tokens".to_owned()),
        (Method::DELETE, format!("/grants/{session}")),
    ] {
        assert_eq!(ask(method.clone(), &path, &watch, json!({})).await, 403, "{method} {path}");
    }
    assert_eq!(ask(Method::POST, &of("/interrupt"), drive, json!({})).await, 202);
    assert_eq!(
        ask(Method::POST, "/tokens", drive, json!({ "name": "x", "role": "admin" })).await,
        403
    );
    let revoked = fixture.command(&["tokens", "revoke", "wall"]).output().expect("it runs");
    assert_eq!(revoked.status.code(), Some(0));
    assert_eq!(ask(Method::GET, "/sessions", &watch, Value::Null).await, 401);
    let kept = std::fs::read_to_string(fixture.path("data/keys.json")).expect("keys");
    for secret in [&watch, drive, &server.token] {
        assert!(!kept.contains(secret) && !fixture.log().contains(secret));
    }
}

#[tokio::test]
async fn open_streams_end_when_their_token_is_revoked() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    // One is revoked by the server itself, the other by another process.
    for (name, by_command) in [("here", false), ("elsewhere", true)] {
        let (_, made) = server.post("/tokens", json!({ "name": name, "role": "watch" })).await;
        let token = made["token"].as_str().expect("a token");
        let mut sockets = Vec::new();
        for path in [format!("/sessions/{session}/follow"), "/follow".to_owned()] {
            let mut client = server.follow_with(&path, token).await;
            client.socket.next().await.expect("a frame").expect("a frame");
            sockets.push(client.socket);
        }
        let events = format!("/api/v1/sessions/{session}/events");
        let events = server.request(Method::GET, &events).bearer_auth(token);
        let events = events.send().await.expect("an answer");
        let mut mine = server.follow(&format!("/sessions/{session}/follow")).await;
        mine.next().await;
        if by_command {
            let revoked = fixture.command(&["tokens", "revoke", name]).output().expect("it runs");
            assert_eq!(revoked.status.code(), Some(0));
        } else {
            let revoked = server.ask(Method::DELETE, &format!("/tokens/{name}"), None).await;
            assert_eq!(revoked.status(), 204);
        }
        let all_end = async {
            for mut socket in sockets {
                while let Some(Ok(_)) = socket.next().await {}
            }
            let _ = events.bytes().await;
        };
        timeout(Duration::from_secs(20), all_end).await.expect("they end");
        server.prompt(&session, "say hi").await;
        mine.until(|page| page.contains("hi")).await;
    }
}

#[tokio::test]
async fn other_machines_need_tls_or_an_explicit_option() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let refused = fixture.command(&["--listen", "0.0.0.0:0", "--demo"]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--tls-cert"));
}

#[tokio::test]
async fn only_a_trusted_proxy_may_set_the_user_name() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let refused = fixture.command(&["--trusted-header", "x-user", "--demo"]).output();
    let refused = refused.expect("it runs");
    assert_eq!(refused.status.code(), Some(2), "any local user could connect");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--trusted-proxy"));
    let here = ["--trusted-header", "x-user", "--trusted-proxy", "127.0.0.1"];
    let server = fixture.serve_with(&here).await;
    let get = |path: &str| server.request(Method::GET, path).header("x-user", "ann");
    let me: Value = get("/api/v1/me").send().await.expect("an answer").json().await.expect("JSON");
    assert_eq!((me["name"].as_str(), me["role"].as_str()), (Some("ann"), Some("drive")));
    assert_eq!(me["via"], "browser");
    let new = json!({ "cwd": fixture.project() });
    let post =
        || server.request(Method::POST, "/api/v1/sessions").header("x-user", "ann").json(&new);
    assert_eq!(status(post()).await, 403, "without an origin");
    assert_eq!(status(post().header("origin", "https://evil.example")).await, 403);
    assert_eq!(status(post().header("origin", &server.url)).await, 201);
    assert_eq!(status(get("/api/v1/tokens")).await, 403);
    assert_eq!(status(get("/api/v1/me").header("x-user", "eve")).await, 400, "one of them lies");
    drop(server);
    let fixture = Fixture::new("api text \"hi\"").await;
    let elsewhere = ["--trusted-header", "x-user", "--trusted-proxy", "10.0.0.1"];
    let server = fixture.serve_with(&elsewhere).await;
    let me = server.request(Method::GET, "/api/v1/me").header("x-user", "ann");
    assert_eq!(status(me).await, 401, "we are not that proxy");
}

#[tokio::test]
async fn with_a_certificate_the_server_does_not_answer_unencrypted() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]);
    let certificate = certificate.expect("a certificate");
    let pem = certificate.cert.pem();
    let (chain, key) = (fixture.path("chain.pem"), fixture.path("key.pem"));
    std::fs::write(&chain, &pem).expect("a file");
    std::fs::write(&key, certificate.signing_key.serialize_pem()).expect("a file");
    let (chain, key) = (chain.display().to_string(), key.display().to_string());
    let server = fixture.serve_with(&["--tls-cert", &chain, "--tls-key", &key]).await;
    let place = server.url.rsplit(':').next().expect("a port").to_owned();
    assert!(server.url.starts_with("https://"), "{}", server.url);
    let trusted = reqwest::Certificate::from_pem(pem.as_bytes()).expect("a certificate");
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).build();
    let client = client.expect("a client");
    let sign_in = client.post(format!("https://localhost:{place}/api/v1/sign-in"));
    let answer = sign_in.json(&json!({ "token": server.token })).send().await.expect("an answer");
    let cookie = answer.headers()["set-cookie"].to_str().expect("text");
    assert!(cookie.starts_with("__Host-towpath=") && cookie.ends_with("; Secure"), "{cookie}");
    let plain = server.http.get(format!("http://localhost:{place}/api/v1/health")).send().await;
    assert!(plain.is_err(), "it answers in the clear");
}

#[tokio::test]
async fn behind_a_trusted_proxy_cookies_are_secure_and_each_visitor_has_its_own_limit() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve_with(&["--trusted-proxy", "127.0.0.1"]).await;
    let sign_in = async |token: &str, visitor: &str, proto: &str| {
        let request = server.request(Method::POST, "/api/v1/sign-in").header("origin", &server.url);
        let request = request.header("x-forwarded-for", visitor).header("x-forwarded-proto", proto);
        request.json(&json!({ "token": token })).send().await.expect("an answer")
    };
    for _ in 0..10 {
        assert_eq!(sign_in("wrong", "1.2.3.4", "https").await.status(), 401);
    }
    assert_eq!(sign_in(&server.token, "1.2.3.4", "https").await.status(), 429);
    let other = sign_in(&server.token, "9.9.9.9, 5.6.7.8", "https").await;
    assert_eq!(other.status(), 204, "another visitor");
    assert!(other.headers()["set-cookie"].to_str().expect("text").contains("; Secure"));
    let plain = sign_in(&server.token, "5.6.7.8", "http").await;
    assert!(!plain.headers()["set-cookie"].to_str().expect("text").contains("; Secure"));
}

/// Reading routes with their parameters filled in.
fn reading_paths(document: &Value, session: &str) -> Vec<String> {
    let paths = document["paths"].as_object().expect("paths");
    let reading = paths.iter().filter(|(_, operations)| operations["get"].is_object());
    let fill = |(path, _): (&String, &Value)| {
        let path = path.replace("{id}", session).replace("{turn}", "1").replace("{seq}", "1");
        let path = path.replace("{number}", "0").replace("{item}", "p:none");
        let path = path.replace("{commit}", "HEAD").replace("{terminal}", "1");
        assert!(!path.contains('{'), "{path}");
        if path.ends_with("/rewind") {
            format!("{path}?prompt=00000000-0000-4000-8000-000000000001")
        } else {
            path
        }
    };
    reading.map(fill).collect()
}

#[tokio::test]
async fn reading_starts_no_agent() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let started = fixture.path("started");
    let agent = fixture.path("agent");
    let script = std::fs::read_to_string(&agent).expect("a script");
    let marked = format!("#!/bin/sh\necho x >> '{}'\n{script}", started.display());
    std::fs::write(&agent, marked).expect("a script");
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let (_, made) = server.post("/tokens", json!({ "name": "eyes", "role": "watch" })).await;
    let token = made["token"].as_str().expect("a token").to_owned();
    let document = server.get("/openapi.json").await;
    let paths = reading_paths(&document, &session);
    assert!(paths.len() > 25, "{paths:?}");
    for restarted in [false, true] {
        if restarted {
            server.child.kill().await.expect("it can be killed");
            server = fixture.serve().await;
        }
        let sign_in = server.request(Method::POST, "/api/v1/sign-in").header("origin", &server.url);
        let response = sign_in.json(&json!({ "token": token })).send().await.expect("an answer");
        let cookie = response.headers()["set-cookie"].to_str().expect("text");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        for path in &paths {
            for method in [Method::GET, Method::HEAD] {
                let request = || server.request(method.clone(), path).timeout(TIMEOUT);
                let mut answers = vec![];
                for request in [request().bearer_auth(&token), request().header("cookie", &cookie)]
                {
                    let answer = request.send().await.expect("an answer");
                    answers.push(answer.status().as_u16());
                    let agent = path.contains("/context")
                        || path.contains("/changes")
                        || path.contains("/rewind");
                    if agent && method == Method::GET {
                        let problem: Value = answer.json().await.expect("JSON");
                        assert_eq!(problem["type"], "about:towpath#no-agent", "{path}");
                    }
                }
                assert!(answers.iter().all(|it| *it < 500), "{path}: {answers:?}");
            }
        }
        assert!(!started.exists(), "an agent was started");
    }
    let wake = format!("{}/api/v1/sessions/{session}/wake", server.url);
    let refused = server.http.post(&wake).bearer_auth(&token).send().await.expect("an answer");
    assert_eq!(refused.status(), 403);
    assert!(!started.exists(), "who only watches may not start it");
    assert_eq!(server.post(&format!("/sessions/{session}/wake"), json!({})).await.0, 200);
    assert!(started.exists());
    server.get(&format!("/sessions/{session}/context")).await;
}

#[tokio::test]
async fn a_prompt_that_is_too_large_is_refused_before_it_is_stored() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/prompts");
    for megabytes in [5, 65] {
        let id = "00000000-0000-4000-8000-000000000001";
        let prompt = json!({ "id": id, "text": "x".repeat(megabytes << 20) });
        let url = format!("{}/api/v1{path}", server.url);
        // A client of its own: the next request must not use a connection that was closed.
        let http = test_support::http_client();
        let sent = http.post(url).bearer_auth(&server.token).json(&prompt).send().await;
        // The server may close the connection before it has read all of 65 MB.
        if let Ok(answer) = sent {
            assert_eq!(answer.status(), 413);
            let problem: Value = answer.json().await.expect("JSON");
            assert_eq!(problem["type"], "about:towpath#too-large", "{problem}");
            assert!(problem["detail"].as_str().expect("text").contains("at most"), "{problem}");
        } else {
            assert_eq!(megabytes, 65);
        }
    }
    assert_eq!(server.get(&path).await["prompts"], json!([]));
    assert_eq!(server.get(&format!("/sessions/{session}")).await["last"], 0);
}

#[tokio::test]
async fn a_rule_for_the_project_does_not_follow_a_link_out_of_it() {
    let write = |path: &str| {
        format!("api tool Write {{\"file_path\":\"$cwd/{path}\",\"content\":\"x\"}}\n")
    };
    let replies = ["src/a.txt", "src/b.txt", "src/link/evil.txt", "src/hooks/post-commit", "c.txt"];
    let replies = replies.map(write).concat();
    let fixture = Fixture::new(&format!("{replies}api text \"Done.\"")).await;
    std::fs::create_dir_all(fixture.path("project/src")).expect("a directory");
    std::fs::create_dir_all(fixture.path("project/.git/hooks")).expect("a directory");
    let link = |target: std::path::PathBuf, name: &str| {
        std::os::unix::fs::symlink(target, fixture.path("project/src").join(name)).expect("a link");
    };
    link(fixture.path("home"), "link");
    link(fixture.path("project/.git/hooks"), "hooks");
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "write them").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    let mut asked = Vec::new();
    loop {
        client
            .until(|page| {
                let known = |it: &Value| asked.iter().any(|(id, _)| *id == it["id"]);
                page.snapshots > 0
                    && (page.requests().iter().any(|it| !known(it))
                        || page.is_idle() && page.contains("Done."))
            })
            .await;
        let Some(request) = client.page.requests().first().cloned() else { break };
        let path =
            format!("/sessions/{session}/requests/{}", request["id"].as_str().expect("an id"));
        let answer = if asked.is_empty() {
            json!({ "decision": "allow", "remember": { "rule": "directory" } })
        } else {
            json!({ "decision": "deny", "message": "no" })
        };
        let (status, answered) = server.post(&path, answer).await;
        assert_eq!(status, 200, "{answered}");
        let rules = request["rules"].as_array().expect("rules").len();
        asked.push((request["id"].clone(), rules));
    }
    // Only the first call, which gave the rule, and the two through links were asked.
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(asked[0].1 > 0 && asked[1].1 + asked[2].1 == 0, "no rule is offered: {asked:?}");
    for name in ["src/a.txt", "src/b.txt", "c.txt"] {
        assert!(fixture.path("project").join(name).exists(), "{name}");
    }
    assert!(!fixture.path("home/evil.txt").exists());
    assert!(!fixture.path("project/.git/hooks/post-commit").exists());
}
