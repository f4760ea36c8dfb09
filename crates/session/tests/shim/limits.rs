//! Limits: much output, an agent that does not read, a disk that is full.

use std::process::Command;
use std::time::{Duration, Instant};

use towpath_session::shim::{Exit, News, Order, Signal};

use crate::stage::{PATIENCE, Stage, next, printed, rest, until};

/// A process's memory in KiB.
fn memory(pid: i32) -> u64 {
    let output = Command::new("ps").args(["-o", "rss=", "-p", &pid.to_string()]).output();
    String::from_utf8_lossy(&output.expect("ps").stdout).trim().parse().expect("a number")
}

#[tokio::test]
async fn an_owner_that_does_not_read_costs_disk_and_not_memory() {
    let stage = Stage::new(
        "yes '{\"type\":\"stream_event\",\"x\":\"0123456789012345678901234567890123456789\"}' \
         | head -c 200000000; touch done; read -r line",
    );
    let started = stage.start().await;
    let idle = memory(started.shim);
    let (_, mut link) = stage.attach(0).await;
    until(|| stage.path("done").exists()).await;
    let full = memory(started.shim);
    let mut got: u64 = 0;
    while got < 200_000_000 {
        if let Some(News::Output { offset, bytes }) = next(&mut link).await {
            assert_eq!(offset, got);
            got += bytes.len() as u64;
        }
    }
    let after = memory(started.shim);
    println!("the shim's memory: {idle} KiB idle, {full} KiB behind by 200 MB, {after} KiB after");
    assert!(full.max(after) < idle + 2048, "{idle} KiB, then {full} KiB, then {after} KiB");
    link.order(Order::Kept(got)).await.unwrap();
    link.order(Order::CloseStdin).await.unwrap();
    assert_eq!(rest(&mut link).await, (Vec::new(), Some(Exit::Code(1))));
}

#[tokio::test]
async fn an_agent_that_does_not_read_keeps_nobody_from_ending_it() {
    let stage = Stage::new("trap '' INT TERM; echo ready; while :; do sleep 1; done");
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    printed(&mut link, "ready").await;
    for number in 1..=20 {
        let write = Order::Write { number, bytes: vec![b'x'; 4 << 20] };
        tokio::time::timeout(PATIENCE, link.order(write)).await.expect("room").unwrap();
    }
    let before = Instant::now();
    link.order(Order::Signal(Signal::Kill)).await.unwrap();
    let mut refused = Vec::new();
    loop {
        match next(&mut link).await.expect("news") {
            News::Unwritten { number, last } => refused.push((number, last)),
            News::Exited { exit, .. } => break assert_eq!(exit, Exit::Signal(9)),
            _ => {}
        }
    }
    println!("it took {} ms behind 80 MB", before.elapsed().as_millis());
    assert!(before.elapsed() < Duration::from_secs(10));
    // What there is no room for is refused, in order, and so is all behind it.
    assert_eq!(refused.first().map(|first| first.0), Some(17), "{refused:?}");
    assert_eq!(refused.len(), 4);
}

#[tokio::test]
async fn complaints_are_told_and_their_end_is_kept() {
    let stage = Stage::new("read -r line; seq 100000 >&2; echo out; exit 1");
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    link.order(Order::CloseStdin).await.unwrap();
    assert_eq!(rest(&mut link).await, (b"out\n".to_vec(), Some(Exit::Code(1))));
    let run = towpath_session::shim::Run(1);
    let stderr = towpath_session::shim::remains(stage.live(), run, 0).unwrap().stderr;
    assert_eq!(stderr.len(), 16 << 10);
    assert!(stderr.ends_with(b"\n99999\n100000\n"));
}

#[tokio::test]
async fn a_full_disk_stops_the_agent_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=3m,mode=0700", "none"])
        .arg(home.path())
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: mounting a small file system is not allowed here");
        return;
    }
    let path = home.path().to_owned();
    let mut stage = Stage::in_directory(home, "read -r line; seq 1 1000000; echo end");
    stage.plan.working_directory = "/".into();
    std::fs::write(path.join("ballast"), vec![0; 1 << 20]).unwrap();
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    let mut got = Vec::new();
    link.order(Order::CloseStdin).await.unwrap();
    let (mut troubles, mut eased) = (0, 0);
    let exit = loop {
        match next(&mut link).await.expect("news") {
            News::Output { bytes, .. } => {
                got.extend(bytes);
                if troubles > 0 {
                    link.order(Order::Kept(got.len() as u64)).await.unwrap();
                }
            }
            News::Trouble(trouble) => {
                troubles += 1;
                assert!(!trouble.spool.is_empty());
                // Somebody makes room.
                let _ = std::fs::remove_file(path.join("ballast"));
                link.order(Order::Kept(got.len() as u64)).await.unwrap();
            }
            News::Eased => eased += 1,
            News::Exited { exit, .. } => break exit,
            _ => {}
        }
    };
    let got = String::from_utf8(got).unwrap();
    let lines = (1..=1_000_000).map(|n| n.to_string()).chain(["end".to_owned()]);
    assert!(got.lines().eq(lines), "{} bytes", got.len());
    assert_eq!(exit, Exit::Code(0));
    assert!(troubles > 0 && eased == troubles, "{troubles} troubles, {eased} eased");
    drop(link);
    drop(stage);
    let _ = Command::new("umount").arg(&path).status();
}
