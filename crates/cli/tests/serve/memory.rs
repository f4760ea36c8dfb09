//! The memory of the server: huge lines, and clients that never read, stay within its bound.
//!
//! The bound is on the real process: the most memory it ever had (`VmHWM`).

#![expect(clippy::print_stdout, reason = "the test prints what it measured, and why it is skipped")]

use std::path::Path;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use journal::{Batch, Journal, NewEntry, NewSession, Origin, SessionId};
use reqwest::Method;
use serde_json::{Value, json};
use session::SessionsConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;
use wire::note::{Note, TurnEnding};

use crate::fixture::{Fixture, TIMEOUT, TestServer};

/// What `docs/api.md` promises for the whole server.
const MAX_SERVER_BYTES: u64 = 256 << 20;

/// The most memory the server ever had, in bytes; `None` where `/proc` does not tell.
fn peak_memory(server: &TestServer) -> Option<u64> {
    let pid = server.child.id().expect("it runs");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn check_peak(server: &TestServer, after: &str) {
    let Some(peak) = peak_memory(server) else {
        println!("skipped: there is no /proc to measure memory with");
        return;
    };
    println!("{after}: at most {} MB", peak >> 20);
    assert!(peak < MAX_SERVER_BYTES, "{after}: {} MB", peak >> 20);
}

fn open_journal(fixture: &Fixture) -> Journal {
    let path = SessionsConfig::journal_path(&fixture.path("data"));
    Journal::open(&path).expect("a journal").journal
}

async fn add_session(journal: &Journal, directory: &Path) -> SessionId {
    let id = SessionId(Uuid::new_v4());
    let options = json!({ "directory": directory }).to_string();
    let directory = directory.to_owned();
    let new = NewSession { id, directory, title: Some("Huge".to_owned()), options, at: 1 };
    journal.create(new).await.expect("a session");
    id
}

async fn add_line(journal: &Journal, session: SessionId, line: String) {
    add_lines(journal, session, vec![(Origin::Agent, line)]).await;
}

async fn add_lines(journal: &Journal, session: SessionId, lines: Vec<(Origin, String)>) {
    let entry = |(origin, line): (Origin, String)| {
        let bytes = Bytes::from(line);
        NewEntry { origin, bytes, transient: false }
    };
    let entries = lines.into_iter().map(entry).collect();
    let batch = Batch { at: 1, entries, ..Batch::default() };
    journal.write(session, batch).await.expect("it is stored");
}

#[tokio::test]
async fn paging_goes_on_before_any_number_of_empty_turns() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let journal = open_journal(&fixture);
    let id = add_session(&journal, &fixture.path("project")).await;
    for turn in 1..=400 {
        let start = Note::TurnStarted { turn, prompts: Vec::new() }.to_line();
        let end = Note::TurnEnded { turn, ending: TurnEnding::Completed }.to_line();
        let note = |line| (Origin::Towpath, String::from_utf8(line).expect("JSON"));
        let mut lines = vec![note(start)];
        let number = usize::try_from(turn).expect("a small number");
        match turn {
            1 => lines.push((Origin::Agent, answer(number, 10).replace("All", "The oldest"))),
            2..=101 => {}
            _ => lines.push((Origin::Agent, answer(number, 20_000))),
        }
        lines.push(note(end));
        add_lines(&journal, id, lines).await;
    }
    journal.close().await.expect("it closes");
    let server = fixture.serve().await;
    let mut path = format!("/sessions/{id}/items?limit=200");
    // A page of evicted items has those of one turn.
    for _ in 0..500 {
        let page = server.get(&path).await;
        if page.to_string().contains("The oldest") {
            assert_eq!(page["more"], false, "{page}");
            return;
        }
        assert_eq!(page["more"], true, "{page}");
        let before = match page["items"].get(0) {
            Some(first) => format!("{}.{}", first["position"][0], first["position"][1]),
            None => page["before"].as_str().expect("a position").to_owned(),
        };
        path = format!("/sessions/{id}/items?limit=200&before={before}");
    }
    panic!("it was not found");
}

/// A line of the agent with a text of so many bytes.
fn answer(number: usize, bytes: usize) -> String {
    let text = "All work and no play. ".repeat(bytes / 22 + 1);
    let content = json!([{ "type": "text", "text": text }]);
    let message = json!({ "id": format!("msg_{number}"), "type": "message", "role": "assistant",
        "model": "m", "content": content, "stop_reason": null, "stop_sequence": null,
        "usage": { "input_tokens": 1, "output_tokens": 1 } });
    json!({ "type": "assistant", "message": message, "parent_tool_use_id": null,
        "session_id": "s", "uuid": Uuid::from_u128(number as u128) })
    .to_string()
}

/// Sends a request and reads nothing of the response.
async fn stalled_request(server: &TestServer, path: &str, token: &str, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.expect("a connection");
    let host = server.address();
    let request = format!(
        "GET /api/v1{path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n{more}\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("it is sent");
    stream
}

const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
     sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

async fn watch_token(server: &TestServer) -> String {
    let (status, made) = server.post("/tokens", json!({ "name": "eyes", "role": "watch" })).await;
    assert_eq!(status, 201, "{made}");
    made["token"].as_str().expect("a token").to_owned()
}

/// The length of a body, read to its end.
async fn download(server: &TestServer, path: &str, token: &str) -> (u16, usize) {
    let url = format!("{}/api/v1{path}", server.url);
    let sent = server.http.get(url).bearer_auth(token).send();
    // Unoptimized code takes a while to read hundreds of megabytes.
    let response = timeout(5 * TIMEOUT, sent).await.expect("in time").expect("a response");
    let status = response.status().as_u16();
    let mut chunks = response.bytes_stream();
    let mut length = 0;
    while let Some(chunk) = timeout(TIMEOUT, chunks.next()).await.expect("in time") {
        length += chunk.expect("a whole body").len();
    }
    (status, length)
}

#[tokio::test]
async fn huge_lines_are_read_within_the_bound_by_many_at_once() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let journal = open_journal(&fixture);
    let id = add_session(&journal, &fixture.path("project")).await;
    for number in 0..60 {
        add_line(&journal, id, answer(number, 5_000_000)).await;
    }
    journal.close().await.expect("it closes");
    let server = fixture.serve().await;
    let token = watch_token(&server).await;
    check_peak(&server, "start");

    let lines = format!("/sessions/{id}/lines?limit=1000");
    let (status, length) = download(&server, &lines, &token).await;
    assert_eq!(status, 200);
    assert!(length > 300_000_000, "every line came: {length}");
    check_peak(&server, "one page of 60 lines");

    let mut stalled = Vec::new();
    for _ in 0..30 {
        stalled.push(stalled_request(&server, &lines, &token, "").await);
        stalled.push(stalled_request(&server, &format!("/sessions/{id}/events"), &token, "").await);
        let follow = format!("/sessions/{id}/follow");
        stalled.push(stalled_request(&server, &follow, &token, UPGRADE).await);
    }
    let items = format!("/sessions/{id}/items?limit=200");
    for path in [&items, &format!("/sessions/{id}/changed"), "/usage", "/sessions"] {
        let all = join_all((0..20).map(|_| download(&server, path, &token))).await;
        assert!(all.iter().all(|(status, _)| *status == 200), "{path}: {all:?}");
        check_peak(&server, path);
    }
    let page = server.get(&items).await;
    let first = page["items"][0]["id"].as_str().expect("an item").to_owned();
    let whole = format!("/sessions/{id}/items/{first}");
    let all = join_all((0..8).map(|_| download(&server, &whole, &token))).await;
    assert!(all.iter().all(|(status, _)| matches!(status, 200 | 413)), "{all:?}");
    check_peak(&server, "whole items");
    drop(stalled);
}

/// A session with long answers, a very long one at the end, and many prompts.
async fn add_large_session(journal: &Journal, directory: &Path) -> SessionId {
    let id = add_session(journal, directory).await;
    let prompt = |number: usize| {
        let message =
            json!({ "role": "user", "content": format!("{number} {}", "why ".repeat(50)) });
        let line = json!({ "type": "user", "message": message, "parent_tool_use_id": null,
            "session_id": "s", "uuid": Uuid::new_v4() });
        (Origin::Agent, line.to_string())
    };
    add_lines(journal, id, (0..300).map(prompt).collect()).await;
    let answers = (0..40).map(|number| (Origin::Agent, answer(number, 60_000)));
    add_lines(journal, id, answers.collect()).await;
    add_line(journal, id, answer(99, 4_000_000)).await;
    id
}

#[tokio::test]
async fn one_client_that_follows_30_large_sessions_stays_within_the_bound() {
    const SESSIONS: usize = 30;
    let fixture = Fixture::new("api text \"hi\"").await;
    let journal = open_journal(&fixture);
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(add_large_session(&journal, &fixture.path("project")).await);
    }
    let server = fixture.serve().await;
    let token = watch_token(&server).await;
    check_peak(&server, "start");

    let follows = sessions.iter().map(|id| format!("/sessions/{id}/follow"));
    let follows = follows.collect::<Vec<_>>();
    let mut clients = join_all(follows.iter().map(|path| server.follow_with(path, &token))).await;
    for client in &mut clients {
        client.until(|page| page.snapshots > 0).await;
    }
    check_peak(&server, "30 sessions are followed");

    let outlines = sessions.iter().map(|id| format!("/sessions/{id}/outline"));
    let outlines = outlines.collect::<Vec<_>>();
    let all = join_all(outlines.iter().map(|path| download(&server, path, &token))).await;
    assert!(all.iter().all(|(status, _)| *status == 200), "{all:?}");
    check_peak(&server, "30 outlines");

    let exports = sessions.iter().take(8).map(|id| format!("/sessions/{id}/export"));
    let exports = exports.collect::<Vec<_>>();
    let mut stalled = Vec::new();
    for path in &exports {
        stalled.push(stalled_request(&server, path, &token, "").await);
    }
    let all = join_all(exports.iter().map(|path| download(&server, path, &token))).await;
    assert!(all.iter().all(|(status, length)| *status == 200 && *length > 1_000_000), "{all:?}");
    check_peak(&server, "exports");
    drop(stalled);

    // Whatever was dropped of a document, what follows comes.
    for (client, id) in clients.iter_mut().zip(&sessions) {
        add_line(&journal, *id, answer(100, 100)).await;
        let before = client.page.revision;
        client.until(|page| page.revision > before).await;
    }
    check_peak(&server, "30 sessions went on");
    journal.close().await.expect("it closes");
}

#[tokio::test]
async fn a_line_of_100_megabytes_and_stalled_clients_stay_within_the_bound() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let journal = open_journal(&fixture);
    let id = add_session(&journal, &fixture.path("project")).await;
    add_line(&journal, id, answer(0, 100)).await;
    let server = fixture.serve().await;
    let token = watch_token(&server).await;
    let mut stalled = Vec::new();
    for _ in 0..10 {
        let path = format!("/sessions/{id}");
        let mut request = async |kind: &str, more| {
            stalled.push(stalled_request(&server, &format!("{path}/{kind}"), &token, more).await);
        };
        request("follow", UPGRADE).await;
        request("events", "").await;
        request("lines?limit=1000", "").await;
    }
    let mut quick = server.follow(&format!("/sessions/{id}/follow")).await;
    quick.until(|page| page.snapshots > 0).await;
    let before = quick.page.revision;
    // Another process writes it, so that only what serves clients is measured.
    add_line(&journal, id, answer(1, 100_000_000)).await;
    add_line(&journal, id, answer(2, 100)).await;
    quick.until(|page| page.revision >= before + 2).await;
    check_peak(&server, "a line of 100 MB arrived");

    for _ in 0..10 {
        stalled
            .push(stalled_request(&server, &format!("/sessions/{id}/lines/2"), &token, "").await);
        let from_start = format!("/sessions/{id}/events");
        stalled.push(stalled_request(&server, &from_start, &token, "").await);
    }
    let page = server.get(&format!("/sessions/{id}/lines?limit=10")).await;
    let line = &page["lines"][1];
    assert_eq!((&line["seq"], &line["omitted"]), (&json!(2), &json!(true)), "{page}");
    assert!(line["bytes"].as_u64() > Some(100_000_000) && line["line"].is_null());
    assert_eq!(page["lines"][2]["seq"], 3, "the page goes on behind it");
    drop(stalled);
    let (status, length) = download(&server, &format!("/sessions/{id}/lines/2"), &token).await;
    assert_eq!((status, length as u64), (200, line["bytes"].as_u64().expect("a length")));
    let after = server.ask(Method::GET, "/sessions", None).await;
    assert_eq!(after.json::<Value>().await.expect("JSON")["sessions"][0]["last"], 3);
    check_peak(&server, "a line of 100 MB was downloaded");
}

/// Sends the head of a prompt that declares `length` bytes, and `sent` bytes of it.
async fn slow_prompt(server: &TestServer, session: &str, length: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.expect("a connection");
    let (host, token) = (server.address(), &server.token);
    let head = format!(
        "POST /api/v1/sessions/{session}/prompts HTTP/1.1\r\nhost: {host}\r\n\
         authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{{\"text\":\""
    );
    let text = vec![b'x'; sent];
    // The server may refuse it before all of it is sent.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = timeout(5 * TIMEOUT, stream.write_all(&text)).await;
    stream
}

/// Whether the server has refused the request. It may close the connection before its response is
/// read, because it does not read the rest of the request.
fn is_refused(stream: &TcpStream) -> bool {
    let mut head = [0; 12];
    match stream.try_read(&mut head) {
        Ok(0) => true,
        Ok(read) => head.get(9..read) == Some(b"503"),
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// The status of a response, if one has come.
fn status_so_far(stream: &TcpStream) -> Option<u16> {
    let mut head = [0; 12];
    let read = stream.try_read(&mut head).ok()?;
    std::str::from_utf8(head.get(9..read)?).ok()?.parse().ok()
}

#[tokio::test]
async fn prompts_that_100_clients_send_slowly_stay_within_the_bound() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let slow = (0..100).map(|_| slow_prompt(&server, &session, 30_000_000, 4_000_000));
    let slow = join_all(slow).await;
    check_peak(&server, "100 clients sent 4 MB each");
    let too_large = (0..20).map(|_| slow_prompt(&server, &session, 60_000_000, 4_000_000));
    let too_large = join_all(too_large).await;
    check_peak(&server, "20 clients more declared 60 MB");
    let sessions = server.get("/sessions").await;
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(1), "others are served");

    // The slow ones keep a quick one out for two seconds at most.
    let prompt = json!({ "id": Uuid::new_v4(), "text": "y".repeat(4 << 20) });
    let path = format!("/sessions/{session}/prompts");
    let mut answer = server.post(&path, prompt.clone()).await;
    for _ in 0..100 {
        if answer.0 == 202 {
            break;
        }
        assert_eq!(answer.0, 503, "{answer:?}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        answer = server.post(&path, prompt.clone()).await;
    }
    assert_eq!(answer.0, 202, "{answer:?}");
    check_peak(&server, "a quick prompt of 4 MB");

    // The rest fits into the bound, or waits without taking memory.
    let mut waiting: Vec<&TcpStream> = slow.iter().collect();
    let refused = async {
        while waiting.len() > 20 {
            waiting.retain(|stream| !is_refused(stream));
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    let refused = timeout(TIMEOUT, refused).await;
    assert!(refused.is_ok(), "only {} of 100 were refused", 100 - waiting.len());
    for stream in &too_large {
        let came = timeout(TIMEOUT, stream.readable()).await;
        came.expect("in time").expect("a response");
        assert_eq!(status_so_far(stream), Some(413));
    }
    check_peak(&server, "all are answered");
}

#[tokio::test]
async fn a_queue_takes_only_so_many_bytes() {
    let fixture = Fixture::new("api text \"one two three\" hold gate after 1").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let path = format!("/sessions/{session}/prompts");
    let mut statuses = Vec::new();
    for _ in 0..12 {
        let prompt = json!({ "id": Uuid::new_v4(), "text": "y".repeat(1 << 20) });
        statuses.push(server.post(&path, prompt).await.0);
    }
    let taken = statuses.iter().take_while(|it| **it == 202).count();
    assert!((8..=9).contains(&taken), "{statuses:?}");
    assert!(statuses[taken..].iter().all(|it| *it == 429), "{statuses:?}");
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0).await;
    check_peak(&server, "a full queue is followed");
    fixture.api.open("gate");
}
