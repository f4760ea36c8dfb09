//! `towpath serve --stop` while agents are being started.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use test_support::packages;
use test_support::small_disk::SmallDisk;
use uuid::Uuid;

use crate::fixture::{Fixture, TIMEOUT};

/// How many servers run at once, and how often each is started and stopped.
const LANES: usize = 5;
const ROUNDS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn stop_right_after_a_prompt_leaves_no_process_and_names_what_it_ended() {
    let named: usize = join_all((0..LANES).map(|_| stop_repeatedly())).await.into_iter().sum();
    assert!(named > 0, "no agent was ever running");
    println!("{named} of {} agents were running when they were stopped", LANES * ROUNDS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_leaves_on_a_full_disk_says_what_it_could_not_store() {
    // More than fits on the disk, so that it becomes full during the turn.
    let reply =
        "api repeat \"words that fill the disk one after the other \" 3000 hold gate after 100";
    let fixture = Fixture::new(reply).await;
    let data = fixture.path("data");
    std::fs::create_dir_all(&data).expect("a directory");
    let Some(disk) = packages::or_skip(SmallDisk::mount(&data, "1m")) else { return };
    let mut server = fixture.serve().await;
    let session = server.session(&fixture).await;
    let mut page = server.follow(&format!("/sessions/{session}/follow")).await;
    server.prompt(&session, "fill it").await;
    page.until(|it| it.snapshots > 0 && it.contains("one after the other")).await;
    fixture.api.open("gate");
    // Once prompts are refused, something waits for space.
    let refused = async {
        loop {
            let prompt = json!({ "id": Uuid::new_v4(), "text": "is there room" });
            let (status, problem) =
                server.post(&format!("/sessions/{session}/prompts"), prompt).await;
            if problem["detail"].to_string().contains("was not carried out") {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let status = tokio::time::timeout(TIMEOUT, refused).await.expect("the disk becomes full");
    assert_eq!(status, 507);
    let pid = server.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, Signal::TERM).expect("it can be signalled");
    tokio::time::timeout(TIMEOUT, server.child.wait()).await.expect("in time").expect("an end");
    let said = fixture.log();
    let told = format!("the last changes of session {} were not stored", &session[..8]);
    assert!(said.contains(&told), "{said}");
    disk.grow("256m");
    drop((page, server, fixture));
}

/// Returns how often an agent was ended.
async fn stop_repeatedly() -> usize {
    let fixture = Fixture::new("api text \"one two three four\" slow 50").await;
    let mut ended = 0;
    for _ in 0..ROUNDS {
        let mut server = fixture.serve().await;
        let session = server.session(&fixture).await;
        server.prompt(&session, "count").await;
        // The random part of an id, because it is at hand.
        let pause = Uuid::new_v4().as_u128() % 300;
        let pause = Duration::from_millis(u64::try_from(pause).expect("a small number"));
        tokio::time::sleep(pause).await;
        let mut stop = tokio::process::Command::from(fixture.command(&["--stop"]));
        let stopped = tokio::time::timeout(TIMEOUT, stop.output()).await;
        let stopped = stopped.expect("in time").expect("it runs");
        let said = String::from_utf8_lossy(&stopped.stderr).into_owned();
        assert_eq!(stopped.status.code(), Some(0), "{said}");
        // The server is gone by then, whatever it had to do.
        server.child.wait().await.expect("an end");
        let left = processes(&fixture);
        assert!(left.is_empty(), "{left:?} run after {pause:?}: {said}\n{}", fixture.log());
        assert!(said.starts_with("stopped the server"), "{said}");
        if said.contains(&session[..8]) {
            ended += 1;
        }
    }
    ended
}

/// Agents and everything they started, found by their `HOME`, and shims, found by their locks.
fn processes(fixture: &Fixture) -> Vec<String> {
    let home = format!("HOME={}", fixture.path("home").display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        if read("environ").split(|byte| *byte == 0).any(|it| it == home.as_bytes()) {
            let command = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            found.push(format!("{} {command}", entry.path().display()));
        }
    }
    let live = std::fs::read_dir(fixture.path("data").join("live")).into_iter().flatten().flatten();
    let running = live.filter(|entry| session::shim::is_running(Path::new(&entry.path())));
    found.extend(running.map(|entry| format!("shim of {}", entry.path().display())));
    found
}

#[tokio::test]
async fn stop_finds_a_demo_by_its_address_or_by_its_name() {
    let fixture = Fixture::new("api text \"hi\"").await;
    for by_name in [false, true] {
        let mut server = fixture.start(fixture.command(&["--demo"])).await;
        let address = server.address().to_owned();
        let run = async |arguments: &[&str]| {
            let mut stop = tokio::process::Command::from(fixture.command(arguments));
            let output = tokio::time::timeout(TIMEOUT, stop.output()).await;
            let output = output.expect("in time").expect("it runs");
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        // Another address is not stopped, but it is said how to.
        let (code, said) = run(&["--stop"]).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("--stop --listen {address}")), "{said}");
        let (code, said) = if by_name {
            run(&["--stop", "--demo"]).await
        } else {
            run(&["--stop", "--listen", &address]).await
        };
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains(&format!("stopped the demo server on {address}")), "{said}");
        server.child.wait().await.expect("an end");
    }
}
