//! Ending: all that the agent started ends with it, and how it ended is kept.

use std::time::{Duration, Instant};

use rustix::process::Signal as Unix;
use towpath_session::shim::{Exit, Link, News, Order, Run, Signal, Swept, sweep};

use crate::stage::{Stage, alive, carriers, gone, kill, marker, next, printed, rest, until};

/// Leaves behind: a child in a session of its own, a grandchild whose parent is gone, one without an
/// environment whose parent is gone, and one that ignores what can be ignored. `setsid` is not
/// everywhere, so `sh -m` gives groups of their own where there is none.
const BROOD: &str = r#"
own() { if command -v setsid >/dev/null; then setsid "$@"; else sh -mc '"$@" & wait' sh "$@"; fi; }
own sh -c 'echo $$ > p1; exec sleep 600' &
(own sh -c 'sh -c "echo \$\$ > p2; exec sleep 600" &' &)
(own env -i "PATH=$PATH" sh -c 'echo $$ > p3; exec sleep 600' &) &
own sh -c 'trap "" HUP INT TERM; echo $$ > p4; while :; do sleep 600; done' &
"#;
const PIDS: [&str; 4] = ["p1", "p2", "p3", "p4"];

#[tokio::test]
async fn a_killed_agent_leaves_nothing_behind() {
    let stage = Stage::new(&format!("{BROOD} echo ready; wait"));
    let started = stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    let pids = stage.pids(&PIDS).await;
    printed(&mut link, "ready").await;
    assert!(pids.iter().all(|pid| alive(*pid)), "{pids:?}");
    kill(started.agent, Unix::KILL);
    assert_eq!(rest(&mut link).await, (Vec::new(), Some(Exit::Signal(9))));
    gone(&pids).await;
    drop(link);
    gone(&[started.shim]).await;
    assert_eq!(stage.left(6), (Vec::new(), Some(Exit::Signal(9))));
}

#[tokio::test]
async fn an_agent_that_ends_by_itself_leaves_nothing_behind() {
    let stage = Stage::new(&format!("{BROOD} read -r line; exit 3"));
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    let pids = stage.pids(&PIDS).await;
    link.order(Order::CloseStdin).await.unwrap();
    assert_eq!(rest(&mut link).await.1, Some(Exit::Code(3)));
    gone(&pids).await;
}

#[tokio::test]
async fn a_kill_reaches_everything_at_once() {
    let stage =
        Stage::new(&format!("trap '' INT TERM; {BROOD} echo ready; while :; do wait; done"));
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    let pids = stage.pids(&PIDS).await;
    printed(&mut link, "ready").await;
    link.order(Order::Signal(Signal::Kill)).await.unwrap();
    assert_eq!(rest(&mut link).await.1, Some(Exit::Signal(9)));
    gone(&pids).await;
}

#[tokio::test]
async fn a_killed_shim_leaves_nothing_that_a_sweep_does_not_find() {
    let stage = Stage::new(&format!("trap '' PIPE; {BROOD} echo ready; sleep 600"));
    let started = stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    let pids = stage.pids(&["p1", "p2", "p4"]).await;
    printed(&mut link, "ready").await;
    assert!(matches!(sweep(stage.live()), Err(towpath_session::shim::SweepError::Alive)));
    kill(started.shim, Unix::KILL);
    assert_eq!(next(&mut link).await, None);
    assert!(Link::attach(stage.live(), 0).await.is_err());
    let live = stage.live().to_owned();
    let swept = tokio::task::spawn_blocking(move || sweep(&live)).await.unwrap().unwrap();
    assert!(matches!(swept, Swept { run: Some(Run(1)), left: 0, .. }), "{swept:?}");
    assert!(swept.ended >= 4, "{swept:?}");
    gone(&pids).await;
    gone(&[started.agent]).await;
    assert_eq!(stage.left(0), (b"ready\n".to_vec(), None), "nobody saw how it ended");
    // The one without an environment went on only because nobody could know whose it was.
    for pid in stage.pids(&["p3"]).await {
        kill(pid, Unix::KILL);
    }
}

#[tokio::test]
async fn who_goes_on_starting_others_is_caught_with_all_of_them() {
    // Each of them starts others, in sessions of their own, faster than one could be killed.
    let spawner = "while :; do (setsid sleep 600 >/dev/null 2>&1 &); sleep 0.005; done";
    let stage = Stage::new(&format!(
        "command -v setsid >/dev/null || setsid() {{ \"$@\"; }}; \
         ({spawner}) & ({spawner}) & ({spawner}) & echo ready; wait"
    ));
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    printed(&mut link, "ready").await;
    let marker = marker(&stage);
    until(|| carriers(&marker) > 60).await;
    link.order(Order::Signal(Signal::Kill)).await.unwrap();
    assert_eq!(rest(&mut link).await.1, Some(Exit::Signal(9)));
    assert_eq!(carriers(&marker), 0);
}

#[tokio::test]
async fn what_a_killed_shim_said_is_what_it_left() {
    let stage = Stage::new("trap '' PIPE; i=0; while :; do echo line $i; i=$((i + 1)); done");
    let started = stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    let mut got = printed(&mut link, "line 2000\n").await;
    kill(started.shim, Unix::KILL);
    while let Some(News::Output { bytes, .. }) = next(&mut link).await {
        got.extend(bytes);
    }
    let (left, exit) = stage.left(0);
    assert_eq!(exit, None);
    assert!(left.starts_with(&got) && got.starts_with(b"line 0\nline 1\n"));
}

#[tokio::test]
async fn an_end_is_patient_then_firm() {
    let stage = Stage::new("trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done");
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    printed(&mut link, "ready\n").await;
    let before = Instant::now();
    link.order(Order::End { patience: Duration::from_millis(300) }).await.unwrap();
    let (output, exit) = rest(&mut link).await;
    assert_eq!((output, exit), (b"term\n".to_vec(), Some(Exit::Signal(9))));
    assert!(before.elapsed() >= Duration::from_secs(3), "it had time to obey");
}

#[tokio::test]
async fn an_end_lets_an_agent_finish() {
    let stage = Stage::new("while read -r line; do echo $line; done; echo done; exit 5");
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    link.order(Order::Write { number: 1, bytes: b"x\n".to_vec() }).await.unwrap();
    link.order(Order::End { patience: Duration::from_mins(1) }).await.unwrap();
    assert_eq!(rest(&mut link).await, (b"x\ndone\n".to_vec(), Some(Exit::Code(5))));
}

#[tokio::test]
async fn a_terminated_shim_ends_its_agent_cleanly_and_is_deaf_to_the_rest() {
    let stage = Stage::new("echo ready; cat; echo done >&2; exit 4");
    let started = stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    printed(&mut link, "ready\n").await;
    for signal in [Unix::HUP, Unix::INT, Unix::PIPE] {
        kill(started.shim, signal);
    }
    link.order(Order::Write { number: 1, bytes: b"still\n".to_vec() }).await.unwrap();
    printed(&mut link, "still\n").await;
    kill(started.shim, Unix::TERM);
    assert_eq!(rest(&mut link).await, (Vec::new(), Some(Exit::Code(4))));
    let remains = towpath_session::shim::remains(stage.live(), Run(1), 0).unwrap();
    assert_eq!(remains.stderr, b"done\n");
}
