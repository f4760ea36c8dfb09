//! Servers that end, by force or not, and those that come after.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::stage::{PATIENCE, Serving, Stage};

fn signal(serving: &Serving, signal: Signal) {
    let pid = serving.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, signal).expect("it can be told");
}

#[tokio::test]
async fn a_server_killed_in_mid_turn_loses_nothing_and_shows_nothing_twice() {
    let stage = Stage::new("api text \"one two three four\" hold gate after 2").await;
    let mut serving = stage.serve().await;
    let session = serving.session(&stage).await;
    serving.prompt(&session, "count").await;
    let path = format!("/sessions/{session}/follow");
    let mut follower = serving.follow(&path).await;
    follower.until(|page| page.snapshots > 0 && page.says("one")).await;
    let had = follower.page.revision;
    signal(&serving, Signal::KILL);
    serving.child.wait().await.expect("an end");
    stage.api.open("gate");
    let serving = stage.serve().await;
    let mut follower = serving.follow(&format!("{path}?since={had}")).await;
    let mut late = serving.follow(&path).await;
    late.until(|page| page.snapshots > 0 && page.is_idle() && page.says("four")).await;
    assert_eq!(late.page.html().matches("one two three four").count(), 1);
    assert_eq!(late.page.html().matches("count").count(), 1);
    follower.page.revision = had;
    let frame = follower.next().await;
    assert!(frame["to"].as_u64().or(frame["revision"].as_u64()) >= Some(had), "{frame}");
    assert_eq!(serving.get(&format!("/sessions/{session}")).await["turn"], 1);
}

#[tokio::test]
async fn told_to_end_it_ends_at_once_and_the_turn_goes_on() {
    let stage = Stage::new("api text \"one two three four\" hold gate after 2").await;
    let mut serving = stage.serve().await;
    let session = serving.session(&stage).await;
    serving.prompt(&session, "count").await;
    let path = format!("/sessions/{session}/follow");
    let mut follower = serving.follow(&path).await;
    follower.until(|page| page.snapshots > 0 && page.says("one")).await;
    let token = serving.token.clone();
    signal(&serving, Signal::TERM);
    let ended = tokio::time::timeout(Duration::from_secs(20), serving.child.wait()).await;
    assert_eq!(ended.expect("soon").expect("an end").code(), Some(0));
    let serving = stage.serve().await;
    assert_ne!(serving.token, token, "each start has a link of its own");
    stage.api.open("gate");
    let mut follower = serving.follow(&path).await;
    follower.until(|page| page.snapshots > 0 && page.is_idle() && page.says("four")).await;
    assert_eq!(serving.get(&format!("/sessions/{session}")).await["turn"], 1);
    assert!(!stage.log().contains(&token) && !stage.log().contains(&serving.token));
}

#[tokio::test]
async fn stop_ends_the_server_and_its_agents() {
    let stage = Stage::new("api text \"one two three four\" hold gate after 2").await;
    let mut serving = stage.serve().await;
    let session = serving.session(&stage).await;
    serving.prompt(&session, "count").await;
    let mut follower = serving.follow(&format!("/sessions/{session}/follow")).await;
    follower.until(|page| page.snapshots > 0 && page.says("one")).await;
    let data = stage.path("data").display().to_string();
    let second = stage.command(&["--listen", "127.0.0.1:0", "--demo", "--data", &data]).output();
    let second = second.expect("it runs");
    assert_eq!(second.status.code(), Some(2), "one server for each data directory");
    let stopped = stage.command(&["--stop"]).output().expect("it runs");
    assert_eq!(stopped.status.code(), Some(0), "{}", String::from_utf8_lossy(&stopped.stderr));
    let ended = tokio::time::timeout(PATIENCE, serving.child.wait()).await;
    assert_eq!(ended.expect("in time").expect("an end").code(), Some(0));
    let again = stage.command(&["--stop"]).output().expect("it runs");
    assert_eq!(again.status.code(), Some(1), "{}", String::from_utf8_lossy(&again.stderr));
}
