//! Servers that end, by force or not, and those that come after.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::{Fixture, TIMEOUT, TestServer};

fn signal(server: &TestServer, signal: Signal) {
    let pid = server.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, signal).expect("it can be signalled");
}

#[tokio::test]
async fn a_server_killed_in_mid_turn_loses_nothing_and_shows_nothing_twice() {
    let fixture = Fixture::new("api text \"one two three four\" hold gate after 2").await;
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "count").await;
    let path = format!("/sessions/{session}/follow");
    let mut client = server.follow(&path).await;
    client.until(|page| page.snapshots > 0 && page.contains("one")).await;
    let had = client.page.revision;
    signal(&server, Signal::KILL);
    server.child.wait().await.expect("an end");
    fixture.api.open("gate");
    let server = fixture.serve().await;
    let mut client = server.follow(&format!("{path}?since={had}")).await;
    let mut late = server.follow(&path).await;
    late.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("four")).await;
    assert_eq!(late.page.html().matches("one two three four").count(), 1);
    assert_eq!(late.page.html().matches("count").count(), 1);
    client.page.revision = had;
    let frame = client.next().await;
    assert!(frame["to"].as_u64().or(frame["revision"].as_u64()) >= Some(had), "{frame}");
    assert_eq!(server.get(&format!("/sessions/{session}")).await["turn"], 1);
}

#[tokio::test]
async fn a_stopped_server_exits_at_once_and_the_turn_continues() {
    let fixture = Fixture::new("api text \"one two three four\" hold gate after 2").await;
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "count").await;
    let path = format!("/sessions/{session}/follow");
    let mut client = server.follow(&path).await;
    client.until(|page| page.snapshots > 0 && page.contains("one")).await;
    let token = server.token.clone();
    signal(&server, Signal::TERM);
    let ended = tokio::time::timeout(Duration::from_secs(20), server.child.wait()).await;
    assert_eq!(ended.expect("soon").expect("an end").code(), Some(0));
    let server = fixture.serve().await;
    assert_ne!(server.token, token, "each start has a link of its own");
    fixture.api.open("gate");
    let mut client = server.follow(&path).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("four")).await;
    assert_eq!(server.get(&format!("/sessions/{session}")).await["turn"], 1);
    assert!(!fixture.log().contains(&token) && !fixture.log().contains(&server.token));
}

#[tokio::test]
async fn stop_ends_the_server_and_its_agents() {
    let fixture = Fixture::new("api text \"one two three four\" hold gate after 2").await;
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "count").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.contains("one")).await;
    let data = fixture.path("data").display().to_string();
    let second = fixture.command(&["--listen", "127.0.0.1:0", "--demo", "--data", &data]).output();
    let second = second.expect("it runs");
    assert_eq!(second.status.code(), Some(2), "one server for each data directory");
    let stopped = fixture.command(&["--stop"]).output().expect("it runs");
    assert_eq!(stopped.status.code(), Some(0), "{}", String::from_utf8_lossy(&stopped.stderr));
    let ended = tokio::time::timeout(TIMEOUT, server.child.wait()).await;
    assert_eq!(ended.expect("in time").expect("an end").code(), Some(0));
    let again = fixture.command(&["--stop"]).output().expect("it runs");
    assert_eq!(again.status.code(), Some(1), "{}", String::from_utf8_lossy(&again.stderr));
}
