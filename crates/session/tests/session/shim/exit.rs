//! Stopping and exits: everything the agent started ends with it, and its exit status is recorded.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use towpath_session::shim::{
    AgentSignal, ExitStatus, ReapError, ReapReport, RunId, ShimCommand, ShimConnection, ShimEvent,
    read_leftovers, reap,
};

use super::fixture::{
    ShimFixture, TIMEOUT, is_alive, kill, marked_processes, next_event, read_rest, read_until,
    wait_gone, wait_until,
};

/// Leaves behind: a child in its own session, a grandchild whose parent is gone, one without an
/// environment whose parent is gone, and one that ignores all signals it can. Where there is no
/// `setsid`, `sh -m` creates process groups.
const DESCENDANTS: &str = r#"
own() { if command -v setsid >/dev/null; then setsid "$@"; else sh -mc '"$@" & wait' sh "$@"; fi; }
own sh -c 'echo $$ > p1; exec sleep 600' &
(own sh -c 'sh -c "echo \$\$ > p2; exec sleep 600" &' &)
(own env -i "PATH=$PATH" sh -c 'echo $$ > p3; exec sleep 600' &) &
own sh -c 'trap "" HUP INT TERM; echo $$ > p4; while :; do sleep 600; done' &
"#;
const PIDS: [&str; 4] = ["p1", "p2", "p3", "p4"];

#[tokio::test]
async fn a_killed_agent_leaves_nothing_behind() {
    let fixture = ShimFixture::new(&format!("{DESCENDANTS} echo ready; wait"));
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    let pids = fixture.pids(&PIDS).await;
    read_until(&mut connection, "ready").await;
    assert!(pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
    kill(started.agent, Signal::KILL);
    assert_eq!(read_rest(&mut connection).await, (Vec::new(), Some(ExitStatus::Signal(9))));
    wait_gone(&pids).await;
    drop(connection);
    wait_gone(&[started.shim]).await;
    assert_eq!(fixture.leftovers(6), (Vec::new(), Some(ExitStatus::Signal(9))));
}

#[tokio::test]
async fn an_agent_that_exits_by_itself_leaves_nothing_behind() {
    let fixture = ShimFixture::new(&format!("{DESCENDANTS} read -r line; exit 3"));
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    let pids = fixture.pids(&PIDS).await;
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    assert_eq!(read_rest(&mut connection).await.1, Some(ExitStatus::Code(3)));
    wait_gone(&pids).await;
}

#[tokio::test]
async fn a_kill_reaches_everything_at_once() {
    let fixture = ShimFixture::new(&format!(
        "trap '' INT TERM; {DESCENDANTS} echo ready; while :; do wait; done"
    ));
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    let pids = fixture.pids(&PIDS).await;
    read_until(&mut connection, "ready").await;
    connection.send(ShimCommand::Signal(AgentSignal::Kill)).await.unwrap();
    assert_eq!(read_rest(&mut connection).await.1, Some(ExitStatus::Signal(9)));
    wait_gone(&pids).await;
}

#[tokio::test]
async fn everything_a_killed_shim_left_is_reaped() {
    let fixture = ShimFixture::new(&format!("trap '' PIPE; {DESCENDANTS} echo ready; sleep 600"));
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    // Elsewhere the one without an environment cannot be found.
    let found = if cfg!(target_os = "linux") { &PIDS[..] } else { &["p1", "p2", "p4"] };
    let without_environment = fixture.pids(&["p3"]).await;
    let pids = fixture.pids(found).await;
    read_until(&mut connection, "ready").await;
    assert!(matches!(reap(fixture.live()), Err(ReapError::ShimAlive)));
    kill(started.shim, Signal::KILL);
    assert_eq!(next_event(&mut connection).await, None);
    assert!(ShimConnection::attach(fixture.live(), 0).await.is_err());
    let live = fixture.live().to_owned();
    let report = tokio::task::spawn_blocking(move || reap(&live)).await.unwrap().unwrap();
    assert!(matches!(report, ReapReport { run: Some(RunId(1)), alive: 0, .. }), "{report:?}");
    assert!(report.killed > pids.len(), "{report:?}");
    wait_gone(&pids).await;
    wait_gone(&[started.agent]).await;
    assert_eq!(fixture.leftovers(0), (b"ready\n".to_vec(), None), "no process saw the exit");
    for pid in without_environment {
        kill(pid, Signal::KILL);
    }
}

#[tokio::test]
async fn processes_that_keep_starting_others_are_all_killed() {
    // Each of them starts others, in their own sessions, faster than they could be killed.
    let spawner = "while :; do (setsid sleep 600 >/dev/null 2>&1 &); sleep 0.005; done";
    let fixture = ShimFixture::new(&format!(
        "command -v setsid >/dev/null || setsid() {{ \"$@\"; }}; \
         ({spawner}) & ({spawner}) & ({spawner}) & echo ready; wait"
    ));
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    read_until(&mut connection, "ready").await;
    let marker = fixture.marker();
    wait_until(|| marked_processes(&marker) > 60).await;
    connection.send(ShimCommand::Signal(AgentSignal::Kill)).await.unwrap();
    assert_eq!(read_rest(&mut connection).await.1, Some(ExitStatus::Signal(9)));
    assert_eq!(marked_processes(&marker), 0);
}

#[tokio::test]
async fn what_a_killed_shim_sent_is_in_its_leftovers() {
    let fixture =
        ShimFixture::new("trap '' PIPE; i=0; while :; do echo line $i; i=$((i + 1)); done");
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    let mut got = read_until(&mut connection, "line 2000\n").await;
    kill(started.shim, Signal::KILL);
    while let Some(ShimEvent::Output { bytes, .. }) = next_event(&mut connection).await {
        got.extend(bytes);
    }
    let (left, exit) = fixture.leftovers(0);
    assert_eq!(exit, None);
    assert!(left.starts_with(&got) && got.starts_with(b"line 0\nline 1\n"));
}

#[tokio::test]
async fn a_stop_first_waits_and_then_kills() {
    let fixture =
        ShimFixture::new("trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done");
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    read_until(&mut connection, "ready\n").await;
    let before = Instant::now();
    connection.send(ShimCommand::Stop { timeout: Duration::from_millis(300) }).await.unwrap();
    let (output, exit) = read_rest(&mut connection).await;
    assert_eq!((output, exit), (b"term\n".to_vec(), Some(ExitStatus::Signal(9))));
    assert!(before.elapsed() >= Duration::from_secs(3), "it had time to exit");
}

#[tokio::test]
async fn a_stop_lets_an_agent_finish() {
    let fixture = ShimFixture::new("while read -r line; do echo $line; done; echo done; exit 5");
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    connection.send(ShimCommand::Write { number: 1, bytes: b"x\n".to_vec() }).await.unwrap();
    connection.send(ShimCommand::Stop { timeout: Duration::from_mins(1) }).await.unwrap();
    assert_eq!(
        read_rest(&mut connection).await,
        (b"x\ndone\n".to_vec(), Some(ExitStatus::Code(5)))
    );
}

#[tokio::test]
async fn a_terminated_shim_stops_its_agent_cleanly_and_ignores_other_signals() {
    let fixture = ShimFixture::new("echo ready; cat; echo done >&2; exit 4");
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    read_until(&mut connection, "ready\n").await;
    for signal in [Signal::HUP, Signal::INT, Signal::PIPE] {
        kill(started.shim, signal);
    }
    connection.send(ShimCommand::Write { number: 1, bytes: b"still\n".to_vec() }).await.unwrap();
    read_until(&mut connection, "still\n").await;
    kill(started.shim, Signal::TERM);
    assert_eq!(read_rest(&mut connection).await, (Vec::new(), Some(ExitStatus::Code(4))));
    let leftovers = read_leftovers(fixture.live(), RunId(1), 0).unwrap();
    assert_eq!(leftovers.stderr, b"done\n");
}

#[tokio::test]
async fn a_shim_that_is_terminated_again_does_not_wait_for_its_agent() {
    // What a shim that is terminated once waits before it terminates its agent. On a busy machine even
    // one that does not wait may take as long, so that several are tried.
    let wait = Duration::from_secs(5);
    let mut took = Vec::new();
    while took.len() < 6 && took.iter().all(|time| *time >= wait) {
        took.push(time_to_terminate_twice().await);
    }
    println!("it took {took:?}");
    assert!(took.iter().any(|time| *time < wait), "{took:?}");
}

/// How long a shim takes to end its agent if it is terminated again while it waits for it.
async fn time_to_terminate_twice() -> Duration {
    let fixture = ShimFixture::new("trap 'exit 6' TERM; echo ready; while :; do sleep 0.05; done");
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    read_until(&mut connection, "ready\n").await;
    let before = Instant::now();
    kill(started.shim, Signal::TERM);
    // The signal may arrive after a write that was sent later. A second signal counts only when the
    // shim has noticed the first one, and then it refuses writes.
    let mut number = 0;
    let mut is_stopping = false;
    while !is_stopping {
        assert!(before.elapsed() < TIMEOUT, "it accepted {number} writes");
        number += 1;
        let write = ShimCommand::Write { number, bytes: b"x\n".to_vec() };
        connection.send(write).await.expect("the shim reads");
        loop {
            match next_event(&mut connection).await.expect("the shim waits for its agent") {
                ShimEvent::WriteRefused { number: refused, last } => {
                    assert_eq!((refused, last), (number, number - 1));
                    is_stopping = true;
                    break;
                }
                ShimEvent::Written(written) if written == number => break,
                ShimEvent::Written(_) => {}
                event => panic!("{event:?}"),
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    kill(started.shim, Signal::TERM);
    assert_eq!(read_rest(&mut connection).await.1, Some(ExitStatus::Code(6)));
    before.elapsed()
}
