//! Streams: fast, slow, stalled and late clients see the same.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Page, TIMEOUT, TestServer};

/// Connects to the events of a session.
async fn connect(server: &TestServer, session: &str, after: Option<u64>) -> reqwest::Response {
    let url = format!("{}/api/v1/sessions/{session}/events", server.url);
    let mut request = server.http.get(url).bearer_auth(&server.token);
    if let Some(after) = after {
        request = request.header("last-event-id", after.to_string());
    }
    request.send().await.expect("a stream")
}

/// Events of a stream until one holds these words.
async fn events(stream: reqwest::Response, words: &str) -> Vec<(u64, Value)> {
    let mut stream = stream.bytes_stream();
    let (mut text, mut seen) = (String::new(), Vec::new());
    loop {
        let more = tokio::time::timeout(TIMEOUT, stream.next()).await.expect("in time");
        text.push_str(std::str::from_utf8(&more.expect("no end").expect("bytes")).expect("text"));
        while let Some((event, rest)) = text.split_once("\n\n") {
            let field = |name: &str| event.lines().find_map(|it| it.strip_prefix(name));
            if let (Some(id), Some(data)) = (field("id: "), field("data: ")) {
                let data: Value = serde_json::from_str(data).expect("JSON");
                assert_eq!(data["seq"].to_string(), id);
                seen.push((id.parse().expect("a number"), data));
            }
            text = rest.to_owned();
            if seen.last().is_some_and(|(_, it)| it["line"].to_string().contains(words)) {
                return seen;
            }
        }
    }
}

#[tokio::test]
async fn events_continue_after_the_last_received_one() {
    let fixture = Fixture::new("api text \"one two three four\" hold gate after 2").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "count").await;
    let first = events(connect(&server, &session, None).await, "text_delta").await;
    let had = first.last().expect("an event").0;
    let rest = connect(&server, &session, Some(had)).await;
    fixture.api.open("gate");
    let rest = events(rest, "turn_ended").await;
    assert!(rest[0].0 > had);
    let numbers: Vec<u64> = first.iter().chain(&rest).map(|it| it.0).collect();
    assert!(numbers.windows(2).all(|it| it[0] < it[1]), "{numbers:?}");
    // Deltas of a turn that has ended are removed from the journal, perhaps before the stream read them.
    // Everything that is still there was received.
    let lines = server.get(&format!("/sessions/{session}/lines?limit=1000")).await;
    let last = numbers.last().copied();
    for line in lines["lines"].as_array().expect("lines") {
        if line["seq"].as_u64() > last {
            continue;
        }
        let event = first.iter().chain(&rest).find(|it| line["seq"] == it.0);
        let (_, event) = event.unwrap_or_else(|| panic!("{line} is missing in {numbers:?}"));
        assert_eq!(event["line"], line["line"]);
    }
}

#[tokio::test]
async fn applied_updates_equal_a_new_snapshot() {
    let words = "# Head\\n\\nSome *words*, then `code`.\\n\\n- a\\n- b\\n\\n```rust\\nfn main() {}\\n```\\n\\nThe end";
    let fixture = Fixture::new(&format!("api text \"{words}\" hold gate after 12")).await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/follow");
    let mut client = server.follow(&path).await;
    server.prompt(&session, "write").await;
    client.until(|page| page.snapshots > 0 && page.contains("<h1>Head</h1>")).await;
    let mut second = server.follow(&path).await;
    second.until(|page| page.snapshots > 0).await;
    let at = second.page.revision;
    client.until(|page| page.revision >= at).await;
    if client.page.revision == at {
        assert_eq!(client.page.html(), second.page.html());
    }
    drop(second);
    fixture.api.open("gate");
    client.until(|page| page.is_idle() && page.contains("The end")).await;
    assert_eq!(client.page.snapshots, 1, "only updates after the first");
    let mut late = server.follow(&path).await;
    late.until(|page| page.revision >= client.page.revision).await;
    client.until(|page| page.revision >= late.page.revision).await;
    assert_eq!(client.page.html(), late.page.html());
    assert_eq!(client.page.parts, late.page.parts);
    assert_eq!(late.page.html().matches("The end").count(), 1);
    let since = format!("{path}?since={at}");
    let mut returned = server.follow(&since).await;
    assert_eq!(returned.socket.next().await.map(|it| it.is_ok()), Some(true));
    late.send(json!({ "frame": "snapshot" })).await;
    late.until(|page| page.snapshots == 2).await;
    assert_eq!(late.page.html(), client.page.html());
}

#[tokio::test]
async fn stalled_clients_cost_no_memory() {
    let words = "word ".repeat(20_000);
    let fixture = Fixture::new(&format!("api text \"{words}\" hold gate after 2")).await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/follow");
    let mut stalled = Vec::new();
    for _ in 0..20 {
        stalled.push(server.follow(&path).await);
    }
    let mut quick = server.follow(&path).await;
    server.prompt(&session, "write much").await;
    quick.until(|page| page.snapshots > 0 && page.contains("word")).await;
    let Some(before) = memory(&server) else {
        println!("skipped: the memory of the server is unknown without /proc");
        return;
    };
    fixture.api.open("gate");
    quick.until(Page::is_over).await;
    let grown = memory(&server).expect("it runs").saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    // Who was stalled gets everything all the same, in fewer frames.
    let last = &mut stalled[7];
    last.until(|page| page.snapshots > 0 && page.revision >= quick.page.revision).await;
    assert_eq!(last.page.html(), quick.page.html());
}

impl Page {
    fn is_over(&self) -> bool {
        self.is_idle() && self.items.values().all(|it| it["open"] != true) && self.items.len() > 1
    }
}

/// The memory of the server in bytes; `None` if it is unknown.
fn memory(server: &TestServer) -> Option<u64> {
    let pid = server.child.id().expect("it runs");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
    Some(kilobytes? * 1024)
}

#[tokio::test]
async fn the_session_list_shows_sessions_that_need_the_user() {
    let fixture =
        Fixture::new("api tool Bash {\"command\":\"touch made\"}\napi text \"made it\"").await;
    let server = fixture.serve().await;
    let mut list = server.follow("/follow").await;
    assert_eq!(list.next().await["sessions"], json!([]));
    let session = server.session(&fixture).await;
    server.prompt(&session, "make it\nplease").await;
    let waiting = async {
        loop {
            let frame = list.next().await;
            if frame["session"]["tier"] == "needs_you" {
                return frame;
            }
        }
    };
    let frame =
        tokio::time::timeout(TIMEOUT + Duration::from_secs(1), waiting).await.expect("in time");
    assert_eq!(frame["session"]["title"], "make it");
    assert_eq!(frame["session"]["requests"], 1);
}

#[tokio::test]
async fn clients_that_keep_up_and_clients_that_stall_see_the_same_and_learn_of_a_deletion() {
    let words = "word ".repeat(2_000);
    let fixture = Fixture::new(&format!("api text \"{words}\" hold gate after 2")).await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/follow");
    let mut clients = Vec::new();
    for _ in 0..12 {
        clients.push(server.follow(&path).await);
    }
    server.prompt(&session, "write").await;
    clients[0].until(|page| page.snapshots > 0 && page.contains("word")).await;
    fixture.api.open("gate");
    clients[0].until(Page::is_over).await;
    let last = clients[0].page.revision;
    // Each update is checked to follow the one before it.
    for client in &mut clients {
        client.until(|page| page.snapshots > 0 && page.revision >= last).await;
    }
    let (first, others) = clients.split_first().expect("clients");
    assert!(others.iter().all(|it| it.page.html() == first.page.html()));
    let path = format!("/sessions/{session}");
    let response = server.ask(reqwest::Method::DELETE, &path, None).await;
    assert!(response.status().is_success());
    for client in &mut clients {
        while client.next().await["frame"] != "deleted" {}
    }
}
