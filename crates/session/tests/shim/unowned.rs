//! Without an owner: a turn finishes, a grace is given, and then nothing is left.

use std::time::{Duration, Instant};

use towpath_session::shim::{Exit, Order, Started, Stdin};

use crate::stage::{PATIENCE, Stage, gone, printed, until};

/// Speaks as the CLI does: a turn per prompt that lasts until a file is there.
const TURNS: &str = r#"
while read -r line; do
    echo '{"type":"system","subtype":"init"}'
    while [ ! -e go ]; do sleep 0.02; done
    echo '{"duration_ms":1,"type":"result","subtype":"success"}'
done
echo bye
"#;
const PROMPT: &[u8] = b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n";
const ASK: &str = r#"
read -r line
echo '{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}'
cat
echo bye
"#;

#[tokio::test]
async fn a_turn_finishes_without_its_owner_and_then_the_grace_counts() {
    let mut stage = Stage::new(TURNS);
    stage.plan.grace = Duration::from_millis(500);
    let started = stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    link.order(Order::Write { number: 1, bytes: PROMPT.to_vec() }).await.unwrap();
    printed(&mut link, "init").await;
    drop(link);
    // Much longer than the grace, while the turn runs.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (greeting, link) = stage.attach(0).await;
    assert_eq!((greeting.exit, greeting.stdin), (None, Stdin::Open));
    drop(link);
    let before = Instant::now();
    std::fs::write(stage.path("go"), "").unwrap();
    gone(&[started.shim, started.agent]).await;
    assert!(before.elapsed() >= Duration::from_millis(450), "it was given its grace");
    let (output, exit) = stage.left(0);
    assert!(output.ends_with(b"\"success\"}\nbye\n"), "{}", String::from_utf8_lossy(&output));
    assert_eq!(exit, Some(Exit::Code(0)));
}

#[tokio::test]
async fn an_agent_nobody_ever_came_for_ends() {
    let mut stage = Stage::new(TURNS);
    stage.plan.grace = Duration::ZERO;
    let started = stage.start().await;
    gone(&[started.shim, started.agent]).await;
    assert_eq!(stage.left(0), (b"bye\n".to_vec(), Some(Exit::Code(0))));
}

/// An agent that waits for a person, and whose owner has just left.
async fn abandoned_question(grace: Duration, ask_grace: Duration) -> (Stage, Started) {
    let mut stage = Stage::new(ASK);
    (stage.plan.grace, stage.plan.ask_grace) = (grace, ask_grace);
    let started = stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    link.order(Order::Write { number: 1, bytes: PROMPT.to_vec() }).await.expect("an order");
    printed(&mut link, "can_use_tool").await;
    link.order(Order::Bye).await.expect("an order");
    link.close().await;
    (stage, started)
}

#[tokio::test]
async fn one_that_waits_for_a_person_outlives_the_grace_of_an_idle_one() {
    // Long enough for an owner to come at all.
    let grace = Duration::from_secs(2);
    let (stage, _) = abandoned_question(grace, PATIENCE).await;
    tokio::time::sleep(grace + Duration::from_millis(500)).await;
    let (greeting, _link) = stage.attach(0).await;
    assert_eq!((greeting.stdin, greeting.exit), (Stdin::Open, None));
}

#[tokio::test]
async fn one_that_waits_for_a_person_does_not_wait_for_ever() {
    let (stage, started) = abandoned_question(PATIENCE, Duration::ZERO).await;
    gone(&[started.shim, started.agent]).await;
    assert!(stage.left(0).0.ends_with(b"bye\n"));
}

#[tokio::test]
async fn no_turn_outlives_the_limit_and_what_ignores_it_is_killed() {
    let mut stage = Stage::new(&format!("trap '' TERM; echo $$ > pid; {TURNS}"));
    stage.plan.unowned_limit = Duration::from_millis(300);
    let started = stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    link.order(Order::Write { number: 1, bytes: PROMPT.to_vec() }).await.unwrap();
    printed(&mut link, "init").await;
    drop(link);
    until(|| stage.left(0).1.is_some()).await;
    gone(&[started.shim, started.agent]).await;
    assert_eq!(stage.left(0).1, Some(Exit::Signal(9)));
}
