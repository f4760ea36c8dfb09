//! Attaching: no output and no write is lost or repeated, whichever process is killed.

use std::fmt::Write as _;
use std::time::Duration;

use towpath_session::shim::{
    AgentSignal, AttachError, ExitStatus, RunId, ShimCommand, ShimConnection, ShimEvent, remove_run,
};

use super::fixture::{ShimFixture, next_event, read_rest, read_until, wait_gone, wait_until};

/// The output of `seq -f`: long enough for several spool files.
fn lines(count: u32) -> String {
    let mut text = String::new();
    for n in 1..=count {
        let _ = writeln!(text, "{n} {}", "x".repeat(90));
    }
    text
}

#[tokio::test]
async fn output_is_complete_however_often_its_owner_is_killed() {
    // The agent pauses, so that owners are killed before, between and after its lines.
    let x = "x".repeat(90);
    let fixture = ShimFixture::new(&format!(
        "i=0; while [ $i -lt 40 ]; do seq -f '%.0f {x}' $((i * 1000 + 1)) $((i * 1000 + 1000)); \
         i=$((i + 1)); sleep 0.05; done"
    ));
    fixture.start().await;
    let file = fixture.path("journal");
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut kills = 0;
    loop {
        let mut owner = fixture.spawn_owner(&["listen", file.to_str().expect("a path")]);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        tokio::time::sleep(Duration::from_millis(20 + (seed >> 33) % 180)).await;
        if let Some(status) = owner.try_wait().expect("an owner") {
            assert!(status.success(), "{status}");
            break;
        }
        owner.kill().expect("an owner to kill");
        owner.wait().expect("an exited owner");
        kills += 1;
    }
    assert!(std::fs::read_to_string(&file).expect("a journal") == lines(40_000));
    assert!(kills > 3, "{kills} kills");
    println!("{kills} owners were killed");
}

#[tokio::test]
async fn writes_are_neither_lost_nor_repeated_however_often_their_owner_is_killed() {
    let fixture = ShimFixture::new("while read -r line; do echo $line >> got; done");
    fixture.start().await;
    let mut seed: u64 = 0x2545_f491_4f6c_dd1d;
    loop {
        let mut owner = fixture.spawn_owner(&["write", "5000"]);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        tokio::time::sleep(Duration::from_millis(5 + (seed >> 33) % 40)).await;
        if let Some(status) = owner.try_wait().expect("an owner") {
            assert!(status.success(), "{status}");
            break;
        }
        owner.kill().expect("an owner to kill");
        owner.wait().expect("an exited owner");
        if fixture.text("got").lines().count() == 5000 {
            break;
        }
    }
    wait_until(|| fixture.text("got").ends_with("\n5000\n")).await;
    assert!(fixture.text("got").lines().eq((1..=5000).map(|n| n.to_string())));
}

#[tokio::test]
async fn output_is_sent_from_any_offset() {
    let fixture =
        ShimFixture::new("printf 'one\\ntwo\\nthree\\n'; read -r line; echo $line; exit 7");
    let started = fixture.start().await;
    for from in [0, 3, 14] {
        let (hello, mut connection) = fixture.attach(from).await;
        assert_eq!((hello.shim, hello.agent), (Some(started.shim), Some(started.agent)));
        assert_eq!((hello.run, hello.last_write), (Some(RunId(1)), 0));
        if from < 14 {
            let got = read_until(&mut connection, "three\n").await;
            assert_eq!(got, &b"one\ntwo\nthree\n"[usize::try_from(from).unwrap()..]);
        }
        connection.send(ShimCommand::Detach).await.unwrap();
        connection.close().await;
    }
    let (_, mut connection) = fixture.attach(14).await;
    connection.send(ShimCommand::Write { number: 1, bytes: b"four\n".to_vec() }).await.unwrap();
    assert_eq!(read_rest(&mut connection).await, (b"four\n".to_vec(), Some(ExitStatus::Code(7))));
    assert_eq!(next_event(&mut connection).await, None);
    drop(connection);

    wait_gone(&[started.shim]).await;
    assert!(matches!(
        ShimConnection::attach(fixture.live(), 0).await,
        Err(AttachError::NotRunning)
    ));
    assert_eq!(fixture.leftovers(8), (b"three\nfour\n".to_vec(), Some(ExitStatus::Code(7))));
    assert_eq!(fixture.leftovers(999), (Vec::new(), Some(ExitStatus::Code(7))));
    remove_run(fixture.live(), RunId(1)).unwrap();
    assert_eq!(fixture.leftovers(0), (Vec::new(), None));
}

#[tokio::test]
async fn a_second_owner_is_refused_while_the_first_is_attached() {
    let fixture = ShimFixture::new("echo hi; read -r line; echo $line");
    fixture.start().await;
    let (_, mut first) = fixture.attach(0).await;
    let ours = i32::try_from(std::process::id()).ok();
    for _ in 0..3 {
        let refused = ShimConnection::attach(fixture.live(), 0).await;
        assert!(matches!(refused, Err(AttachError::Owned { pid }) if pid == ours));
    }
    read_until(&mut first, "hi\n").await;
    drop(first);
    // A disconnected owner is gone at once, so the next one is accepted.
    for _ in 0..50 {
        let (_, connection) = fixture.attach(0).await;
        drop(connection);
    }
    let (_, mut last) = fixture.attach(3).await;
    last.send(ShimCommand::Write { number: 1, bytes: b"bye\n".to_vec() }).await.unwrap();
    assert_eq!(read_rest(&mut last).await, (b"bye\n".to_vec(), Some(ExitStatus::Code(0))));
}

#[tokio::test]
async fn a_repeated_write_is_ignored_and_one_that_leaves_a_gap_is_refused() {
    // It outlives its stdin, so that the shim has someone to write to when the late write comes.
    let script =
        "trap 'exit 0' TERM; while read -r line; do echo $line; done; while :; do sleep 0.05; done";
    let fixture = ShimFixture::new(script);
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    for (number, text) in [(1, "a\n"), (1, "again\n"), (3, "gap\n"), (2, "b\n")] {
        connection.send(ShimCommand::Write { number, bytes: text.into() }).await.unwrap();
    }
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    connection.send(ShimCommand::Write { number: 3, bytes: b"late\n".to_vec() }).await.unwrap();
    let mut refused = Vec::new();
    let mut output = Vec::new();
    loop {
        match next_event(&mut connection).await.expect("an event") {
            ShimEvent::WriteRefused { number, last } => {
                refused.push((number, last));
                if refused.len() == 2 {
                    let stop = ShimCommand::Signal(AgentSignal::Terminate);
                    connection.send(stop).await.unwrap();
                }
            }
            ShimEvent::Output { bytes, .. } => output.extend(bytes),
            ShimEvent::Exited { status, .. } => break assert_eq!(status, ExitStatus::Code(0)),
            _ => {}
        }
    }
    assert_eq!(output, b"a\nb\n");
    assert_eq!(refused, [(3, 1), (3, 2)]);
}

#[tokio::test]
async fn acknowledged_output_is_deleted() {
    let fixture = ShimFixture::new("head -c 10000000 /dev/zero; echo; read -r line");
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    let got = read_until(&mut connection, "\n").await;
    assert_eq!(got.len(), 10_000_001);
    assert_eq!(fixture.leftovers(0).0.len(), 10_000_001);
    connection.send(ShimCommand::Acknowledge(10_000_001)).await.unwrap();
    wait_until(|| fixture.leftovers(0).0.is_empty()).await;
    drop(connection);
    let (hello, mut connection) = fixture.attach(10_000_001).await;
    assert_eq!((hello.start, hello.end), (10_000_001, 10_000_001));
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    assert_eq!(read_rest(&mut connection).await, (Vec::new(), Some(ExitStatus::Code(1))));
}
