//! Attaching: nothing is lost or doubled, whoever is killed when.

use std::fmt::Write as _;
use std::time::Duration;

use towpath_session::shim::{AttachError, Exit, Link, Order, Run, forget};

use crate::stage::{Stage, gone, next, printed, rest, until};

/// What `seq -f` prints: lines long enough for the spool to change files.
fn lines(count: u32) -> String {
    let mut text = String::new();
    for n in 1..=count {
        let _ = writeln!(text, "{n} {}", "x".repeat(90));
    }
    text
}

#[tokio::test]
async fn output_is_whole_however_often_its_owner_is_killed() {
    // The agent pauses, so that owners are killed before, between and behind its lines.
    let x = "x".repeat(90);
    let stage = Stage::new(&format!(
        "i=0; while [ $i -lt 40 ]; do seq -f '%.0f {x}' $((i * 1000 + 1)) $((i * 1000 + 1000)); \
         i=$((i + 1)); sleep 0.05; done"
    ));
    stage.start().await;
    let file = stage.path("journal");
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut kills = 0;
    loop {
        let mut owner = stage.owner(&["listen", file.to_str().expect("a path")]);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        tokio::time::sleep(Duration::from_millis(20 + (seed >> 33) % 180)).await;
        if let Some(status) = owner.try_wait().expect("an owner") {
            assert!(status.success(), "{status}");
            break;
        }
        owner.kill().expect("an owner to kill");
        owner.wait().expect("an owner to bury");
        kills += 1;
    }
    assert!(std::fs::read_to_string(&file).expect("a journal") == lines(40_000));
    assert!(kills > 3, "{kills} kills");
    println!("{kills} owners were killed");
}

#[tokio::test]
async fn writes_are_neither_lost_nor_doubled_however_often_their_owner_is_killed() {
    let stage = Stage::new("while read -r line; do echo $line >> got; done");
    stage.start().await;
    let mut seed: u64 = 0x2545_f491_4f6c_dd1d;
    loop {
        let mut owner = stage.owner(&["speak", "5000"]);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        tokio::time::sleep(Duration::from_millis(5 + (seed >> 33) % 40)).await;
        if let Some(status) = owner.try_wait().expect("an owner") {
            assert!(status.success(), "{status}");
            break;
        }
        owner.kill().expect("an owner to kill");
        owner.wait().expect("an owner to bury");
        if stage.text("got").lines().count() == 5000 {
            break;
        }
    }
    until(|| stage.text("got").ends_with("\n5000\n")).await;
    assert!(stage.text("got").lines().eq((1..=5000).map(|n| n.to_string())));
}

#[tokio::test]
async fn output_comes_from_any_offset_on() {
    let stage = Stage::new("printf 'one\\ntwo\\nthree\\n'; read -r line; echo $line; exit 7");
    let started = stage.start().await;
    for from in [0, 3, 14] {
        let (greeting, mut link) = stage.attach(from).await;
        assert_eq!((greeting.shim, greeting.agent), (Some(started.shim), Some(started.agent)));
        assert_eq!((greeting.run, greeting.last_write), (Some(Run(1)), 0));
        if from < 14 {
            let got = printed(&mut link, "three\n").await;
            assert_eq!(got, &b"one\ntwo\nthree\n"[usize::try_from(from).unwrap()..]);
        }
        link.order(Order::Bye).await.unwrap();
        link.close().await;
    }
    let (_, mut link) = stage.attach(14).await;
    link.order(Order::Write { number: 1, bytes: b"four\n".to_vec() }).await.unwrap();
    assert_eq!(rest(&mut link).await, (b"four\n".to_vec(), Some(Exit::Code(7))));
    assert_eq!(next(&mut link).await, None);
    drop(link);

    gone(&[started.shim]).await;
    assert!(matches!(Link::attach(stage.live(), 0).await, Err(AttachError::Nobody)));
    assert_eq!(stage.left(8), (b"three\nfour\n".to_vec(), Some(Exit::Code(7))));
    assert_eq!(stage.left(999), (Vec::new(), Some(Exit::Code(7))));
    forget(stage.live(), Run(1)).unwrap();
    assert_eq!(stage.left(0), (Vec::new(), None));
}

#[tokio::test]
async fn a_second_owner_is_refused_while_the_first_is_there() {
    let stage = Stage::new("echo hi; read -r line; echo $line");
    stage.start().await;
    let (_, mut first) = stage.attach(0).await;
    let ours = i32::try_from(std::process::id()).ok();
    for _ in 0..3 {
        let refused = Link::attach(stage.live(), 0).await;
        assert!(matches!(refused, Err(AttachError::Owned { pid }) if pid == ours));
    }
    printed(&mut first, "hi\n").await;
    drop(first);
    // Gone is gone at once: whoever comes right behind is let in.
    for _ in 0..50 {
        let (_, link) = stage.attach(0).await;
        drop(link);
    }
    let (_, mut last) = stage.attach(3).await;
    last.order(Order::Write { number: 1, bytes: b"bye\n".to_vec() }).await.unwrap();
    assert_eq!(rest(&mut last).await, (b"bye\n".to_vec(), Some(Exit::Code(0))));
}

#[tokio::test]
async fn a_write_again_is_ignored_and_one_that_leaves_a_gap_refused() {
    use towpath_session::shim::News;

    let stage = Stage::new("while read -r line; do echo $line; done");
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    for (number, text) in [(1, "a\n"), (1, "again\n"), (3, "gap\n"), (2, "b\n")] {
        link.order(Order::Write { number, bytes: text.into() }).await.unwrap();
    }
    link.order(Order::CloseStdin).await.unwrap();
    link.order(Order::Write { number: 3, bytes: b"late\n".to_vec() }).await.unwrap();
    let mut unwritten = Vec::new();
    let mut output = Vec::new();
    loop {
        match next(&mut link).await.expect("news") {
            News::Unwritten { number, last } => unwritten.push((number, last)),
            News::Output { bytes, .. } => output.extend(bytes),
            News::Exited { exit, .. } => break assert_eq!(exit, Exit::Code(0)),
            _ => {}
        }
    }
    assert_eq!(output, b"a\nb\n");
    assert_eq!(unwritten, [(3, 1), (3, 2)]);
}

#[tokio::test]
async fn what_is_kept_leaves_the_disk() {
    let stage = Stage::new("head -c 10000000 /dev/zero; echo; read -r line");
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    let got = printed(&mut link, "\n").await;
    assert_eq!(got.len(), 10_000_001);
    assert_eq!(stage.left(0).0.len(), 10_000_001);
    link.order(Order::Kept(10_000_001)).await.unwrap();
    until(|| stage.left(0).0.is_empty()).await;
    drop(link);
    let (greeting, mut link) = stage.attach(10_000_001).await;
    assert_eq!((greeting.start, greeting.end), (10_000_001, 10_000_001));
    link.order(Order::CloseStdin).await.unwrap();
    assert_eq!(rest(&mut link).await, (Vec::new(), Some(Exit::Code(1))));
}
