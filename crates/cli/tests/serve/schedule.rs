//! Prompts that wait: a queue that is held, and prompts with a time.

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::fixture::{Fixture, Page, TestServer};

fn kill(server: &TestServer) {
    let pid = server.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, Signal::KILL).expect("it can be killed");
}

#[tokio::test]
async fn a_held_queue_survives_a_killed_server_and_goes_on_when_it_is_resumed() {
    let fixture = Fixture::new(
        "api tool Bash {\"command\":\"touch made\"}\napi text \"answer to the held one\"",
    )
    .await;
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/follow");
    let mut client = server.follow(&path).await;
    server.prompt(&session, "make it").await;
    client.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    server.prompt(&session, "the held one").await;
    let interrupt = format!("/sessions/{session}/interrupt");
    let (status, refused) = server.post(&interrupt, json!({ "hold_queue": "yes" })).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(server.post(&interrupt, json!({ "hold_queue": true })).await.0, 202);
    client.until(|page| page.is_idle() && page.parts["status"]["queue_held"] == true).await;
    assert_eq!(client.page.parts["queue"][0]["text"], "the held one");
    kill(&server);
    server.child.wait().await.expect("an end");
    let server = fixture.serve().await;
    let mut client = server.follow(&path).await;
    client.until(|page| page.snapshots > 0).await;
    assert_eq!(client.page.parts["status"]["queue_held"], true);
    assert!(!client.page.contains("answer to the held one"));
    assert_eq!(server.get(&format!("/sessions/{session}")).await["turn"], 1);
    let resume = format!("/sessions/{session}/queue/resume");
    assert_eq!(server.post(&resume, json!({})).await.0, 204);
    client.until(|page| page.is_idle() && page.contains("answer to the held one")).await;
    assert_eq!(client.page.parts["status"]["queue_held"], false);
    assert_eq!(server.post(&resume, json!({})).await.0, 204, "twice is the same as once");
}

/// Schedules a prompt; the status and the reply.
async fn schedule(server: &TestServer, session: &str, text: &str, when: &str) -> (u16, Value) {
    let body =
        json!({ "id": Uuid::new_v4(), "text": text, "when": when, "zone": "America/New_York" });
    server.post(&format!("/sessions/{session}/schedules"), body).await
}

#[tokio::test]
async fn a_scheduled_prompt_is_sent_once_after_the_server_was_killed() {
    let fixture = Fixture::new("api text \"answer to the scheduled one\"").await;
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let (status, made) = schedule(&server, &session, "the scheduled one", "in 2s").await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["schedules"][0]["text"], "the scheduled one");
    let (status, other) = schedule(&server, &session, "another one", "weekdays 09:00").await;
    assert_eq!(status, 201, "{other}");
    assert_eq!(other["schedules"][1]["when"], "weekdays 09:00");
    let due = made["schedules"][0]["next"].as_u64().expect("a time");
    kill(&server);
    server.child.wait().await.expect("an end");
    let server = fixture.serve().await;
    let path = format!("/sessions/{session}/follow");
    let mut client = server.follow(&path).await;
    let done = |page: &Page| page.is_idle() && page.contains("answer to the scheduled one");
    client.until(|page| page.snapshots > 0 && done(page)).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    assert!(now.expect("a time").as_millis() >= u128::from(due), "not before its time");
    assert_eq!(client.page.html().matches("answer to the scheduled one").count(), 1);
    assert_eq!(client.page.parts["status"]["schedules"], 1, "the other one waits");
    assert_eq!(server.get(&format!("/sessions/{session}")).await["turn"], 1);
    let left = server.get(&format!("/sessions/{session}/schedules")).await;
    let id = left["schedules"][0]["id"].as_str().expect("an id").to_owned();
    let path = format!("/sessions/{session}/schedules/{id}");
    assert_eq!(server.ask(Method::DELETE, &path, None).await.status(), 204);
    assert_eq!(server.ask(Method::DELETE, &path, None).await.status(), 404);
    client.until(|page| page.parts["status"]["schedules"] == 0).await;
}

#[tokio::test]
async fn what_cannot_be_scheduled_and_who_may_not_is_refused() {
    let fixture = Fixture::new("api text \"never\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let huge = "x".repeat(100_000);
    for (text, when) in [
        ("do it", "soon"),
        ("do it", huge.as_str()),
        (huge.as_str(), "in 2h"),
        (" ", "in 2h"),
        ("do it", "at 1999-01-01 09:00"),
        ("do it", "every 1s"),
    ] {
        let (status, problem) = schedule(&server, &session, text, when).await;
        assert!((400..500).contains(&status), "{status} {problem}");
        assert!(problem.to_string().len() < 2000, "the problem repeats what was sent");
    }
    let path = format!("/sessions/{session}/schedules");
    let body =
        |zone: &str| json!({ "id": Uuid::new_v4(), "text": "x", "when": "in 2h", "zone": zone });
    for zone in ["../../etc/passwd", "", "Mars/Olympus"] {
        let (status, problem) = server.post(&path, body(zone)).await;
        assert!((400..500).contains(&status), "{zone}: {status} {problem}");
    }
    let unknown = format!("/sessions/{}/schedules", Uuid::new_v4());
    assert_eq!(server.post(&unknown, body("UTC")).await.0, 404);
    assert_eq!(server.ask(Method::GET, &unknown, None).await.status(), 404);
    let other_origin = server
        .http
        .post(format!("{}/api/v1{path}", server.url))
        .bearer_auth(&server.token)
        .header("origin", "https://evil.example")
        .json(&body("UTC"))
        .send()
        .await
        .expect("an answer");
    assert_eq!(other_origin.status(), 403);
    let without_token = server.http.post(format!("{}/api/v1{path}", server.url));
    let answer = without_token.json(&body("UTC")).send().await.expect("an answer");
    assert_eq!(answer.status(), 401);
    let (status, made) = server.post("/tokens", json!({ "name": "screen", "role": "watch" })).await;
    assert!((200..300).contains(&status), "{made}");
    let watcher = made["token"].as_str().expect("a token");
    let request = |method: Method, path: &str| {
        server.http.request(method, format!("{}/api/v1{path}", server.url)).bearer_auth(watcher)
    };
    let answer = request(Method::GET, &path).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    for path in [path.clone(), format!("/sessions/{session}/queue/resume")] {
        let answer = request(Method::POST, &path).json(&body("UTC")).send().await.expect("one");
        assert_eq!(answer.status(), 403, "{path}");
    }
    let listed = server.get(&path).await;
    assert_eq!(listed["schedules"], json!([]), "{listed}");
}
