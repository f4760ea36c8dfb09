//! Much output, an agent that does not read, and a full disk.

use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;
use towpath_session::shim::{
    AgentSignal, ExitStatus, RunId, ShimCommand, ShimEvent, read_leftovers,
};

use super::fixture::{
    ShimFixture, TIMEOUT, kill, next_event, read_rest, read_until, wait_gone, wait_until,
};

/// The memory of a process in KiB.
fn memory(pid: i32) -> u64 {
    let output = Command::new("ps").args(["-o", "rss=", "-p", &pid.to_string()]).output();
    String::from_utf8_lossy(&output.expect("ps").stdout).trim().parse().expect("a number")
}

#[tokio::test]
async fn an_owner_that_does_not_read_costs_disk_and_not_memory() {
    let fixture = ShimFixture::new(
        "yes '{\"type\":\"stream_event\",\"x\":\"0123456789012345678901234567890123456789\"}' \
         | head -c 200000000; touch done; read -r line",
    );
    let started = fixture.start().await;
    let idle = memory(started.shim);
    let (_, mut connection) = fixture.attach(0).await;
    wait_until(|| fixture.path("done").exists()).await;
    let full = memory(started.shim);
    let mut got: u64 = 0;
    while got < 200_000_000 {
        if let Some(ShimEvent::Output { offset, bytes }) = next_event(&mut connection).await {
            assert_eq!(offset, got);
            got += bytes.len() as u64;
        }
    }
    let after = memory(started.shim);
    println!("the shim's memory: {idle} KiB idle, {full} KiB behind by 200 MB, {after} KiB after");
    assert!(full.max(after) < idle + 2048, "{idle} KiB, then {full} KiB, then {after} KiB");
    connection.send(ShimCommand::Acknowledge(got)).await.unwrap();
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    assert_eq!(read_rest(&mut connection).await, (Vec::new(), Some(ExitStatus::Code(1))));
}

#[tokio::test]
async fn an_agent_that_does_not_read_can_still_be_killed() {
    let fixture = ShimFixture::new("trap '' INT TERM; echo ready; while :; do sleep 1; done");
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    read_until(&mut connection, "ready").await;
    for number in 1..=20 {
        let write = ShimCommand::Write { number, bytes: vec![b'x'; 4 << 20] };
        tokio::time::timeout(TIMEOUT, connection.send(write))
            .await
            .expect("space in the queue")
            .unwrap();
    }
    let before = Instant::now();
    connection.send(ShimCommand::Signal(AgentSignal::Kill)).await.unwrap();
    let mut refused = Vec::new();
    loop {
        match next_event(&mut connection).await.expect("an event") {
            ShimEvent::WriteRefused { number, last } => refused.push((number, last)),
            ShimEvent::Exited { status, .. } => break assert_eq!(status, ExitStatus::Signal(9)),
            _ => {}
        }
    }
    println!("it took {} ms behind 80 MB", before.elapsed().as_millis());
    // What does not fit is refused in order, and so is everything after it.
    assert_eq!(refused.first().map(|first| first.0), Some(17), "{refused:?}");
    assert_eq!(refused.len(), 4);
}

#[tokio::test]
async fn stderr_is_forwarded_and_its_end_is_stored() {
    let fixture = ShimFixture::new("read -r line; seq 100000 >&2; echo out; exit 1");
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    assert_eq!(read_rest(&mut connection).await, (b"out\n".to_vec(), Some(ExitStatus::Code(1))));
    let run = RunId(1);
    let stderr = read_leftovers(fixture.live(), run, 0).unwrap().stderr;
    assert_eq!(stderr.len(), 16 << 10);
    assert!(stderr.ends_with(b"\n99999\n100000\n"));
}

/// A directory on a file system of 3 MB; none if it cannot be mounted.
fn small_disk() -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir().expect("a directory");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=3m,mode=0700", "none"])
        .arg(directory.path())
        .output();
    mounted.is_ok_and(|output| output.status.success()).then_some(directory)
}

#[tokio::test]
async fn a_full_disk_stops_the_agent_and_loses_nothing() {
    let Some(directory) = small_disk() else {
        println!("skipped: mounting a small file system is not allowed here");
        return;
    };
    let path = directory.path().to_owned();
    let mut fixture = ShimFixture::in_directory(directory, "read -r line; seq 1 1000000; echo end");
    fixture.config.working_directory = "/".into();
    std::fs::write(path.join("ballast"), vec![0; 1 << 20]).unwrap();
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    let mut got = Vec::new();
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    let (mut failures, mut recoveries) = (0, 0);
    let status = loop {
        match next_event(&mut connection).await.expect("an event") {
            ShimEvent::Output { bytes, .. } => {
                got.extend(bytes);
                if failures > 0 {
                    connection.send(ShimCommand::Acknowledge(got.len() as u64)).await.unwrap();
                }
            }
            ShimEvent::SpoolFailed(failure) => {
                failures += 1;
                assert!(!failure.spool.is_empty());
                // The user frees some space.
                let _ = std::fs::remove_file(path.join("ballast"));
                connection.send(ShimCommand::Acknowledge(got.len() as u64)).await.unwrap();
            }
            ShimEvent::SpoolRecovered => recoveries += 1,
            ShimEvent::Exited { status, .. } => break status,
            _ => {}
        }
    };
    let got = String::from_utf8(got).unwrap();
    let lines = (1..=1_000_000).map(|n| n.to_string()).chain(["end".to_owned()]);
    assert!(got.lines().eq(lines), "{} bytes", got.len());
    assert_eq!(status, ExitStatus::Code(0));
    assert!(failures > 0 && recoveries == failures, "{failures} failures, {recoveries} recoveries");
    drop(connection);
    drop(fixture);
    let _ = Command::new("umount").arg(&path).status();
}

#[tokio::test]
async fn a_terminated_shim_leaves_even_if_the_disk_stays_full() {
    let Some(directory) = small_disk() else {
        println!("skipped: mounting a small file system is not allowed here");
        return;
    };
    let path = directory.path().to_owned();
    let mut fixture = ShimFixture::in_directory(directory, "seq 1 1000000; read -r line");
    fixture.config.working_directory = "/".into();
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    while !matches!(next_event(&mut connection).await, Some(ShimEvent::SpoolFailed(_))) {}
    kill(started.shim, Signal::TERM);
    let (_, exit) = read_rest(&mut connection).await;
    assert_eq!(exit, None, "it could not record how the agent exited");
    wait_gone(&[started.shim, started.agent]).await;
    drop(connection);
    drop(fixture);
    let _ = Command::new("umount").arg(&path).status();
}
