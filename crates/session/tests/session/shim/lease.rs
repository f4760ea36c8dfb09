//! Without an owner a turn finishes, the agent runs on for a while, and then nothing is left.

use std::time::{Duration, Instant};

use towpath_session::shim::{ExitStatus, ShimCommand, ShimPids, StdinState};

use super::fixture::{ShimFixture, TIMEOUT, read_until, wait_gone, wait_until};

/// Prints what the CLI prints: a turn for each prompt, which lasts until a file exists.
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
async fn a_turn_finishes_without_an_owner_and_then_the_idle_limit_counts() {
    let mut fixture = ShimFixture::new(TURNS);
    fixture.config.unattended.idle = Duration::from_millis(500);
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    connection.send(ShimCommand::Write { number: 1, bytes: PROMPT.to_vec() }).await.unwrap();
    read_until(&mut connection, "init").await;
    drop(connection);
    // Much longer than the limit, while the turn runs.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (hello, connection) = fixture.attach(0).await;
    assert_eq!((hello.exit, hello.stdin), (None, StdinState::Open));
    drop(connection);
    let before = Instant::now();
    std::fs::write(fixture.path("go"), "").unwrap();
    wait_gone(&[started.shim, started.agent]).await;
    assert!(
        before.elapsed() >= Duration::from_millis(450),
        "the idle limit counts from the end of the turn"
    );
    let (output, exit) = fixture.leftovers(0);
    assert!(output.ends_with(b"\"success\"}\nbye\n"), "{}", String::from_utf8_lossy(&output));
    assert_eq!(exit, Some(ExitStatus::Code(0)));
}

#[tokio::test]
async fn an_agent_that_never_had_an_owner_is_stopped() {
    let mut fixture = ShimFixture::new(TURNS);
    fixture.config.unattended.idle = Duration::ZERO;
    let started = fixture.start().await;
    wait_gone(&[started.shim, started.agent]).await;
    assert_eq!(fixture.leftovers(0), (b"bye\n".to_vec(), Some(ExitStatus::Code(0))));
}

/// An agent that waits for a person, and whose owner has just detached.
async fn unowned_request(idle: Duration, waiting: Duration) -> (ShimFixture, ShimPids) {
    let mut fixture = ShimFixture::new(ASK);
    let limits = &mut fixture.config.unattended;
    (limits.idle, limits.waiting) = (idle, waiting);
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    connection
        .send(ShimCommand::Write { number: 1, bytes: PROMPT.to_vec() })
        .await
        .expect("a command");
    read_until(&mut connection, "can_use_tool").await;
    connection.send(ShimCommand::Detach).await.expect("a command");
    connection.close().await;
    (fixture, started)
}

#[tokio::test]
async fn an_agent_that_waits_for_a_person_outlives_the_idle_limit() {
    // Long enough for an owner to attach at all.
    let idle = Duration::from_secs(2);
    let (fixture, _) = unowned_request(idle, TIMEOUT).await;
    tokio::time::sleep(idle + Duration::from_millis(500)).await;
    let (hello, _connection) = fixture.attach(0).await;
    assert_eq!((hello.stdin, hello.exit), (StdinState::Open, None));
}

#[tokio::test]
async fn an_agent_that_waits_for_a_person_is_stopped_at_its_limit() {
    let (fixture, started) = unowned_request(TIMEOUT, Duration::ZERO).await;
    wait_gone(&[started.shim, started.agent]).await;
    assert!(fixture.leftovers(0).0.ends_with(b"bye\n"));
}

#[tokio::test]
async fn no_turn_outlives_the_total_limit() {
    let mut fixture = ShimFixture::new(&format!("trap '' TERM; echo $$ > pid; {TURNS}"));
    // Long enough for an owner to attach at all.
    fixture.config.unattended.total = Duration::from_secs(3);
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    connection.send(ShimCommand::Write { number: 1, bytes: PROMPT.to_vec() }).await.unwrap();
    read_until(&mut connection, "init").await;
    drop(connection);
    wait_until(|| fixture.leftovers(0).1.is_some()).await;
    wait_gone(&[started.shim, started.agent]).await;
    assert_eq!(fixture.leftovers(0).1, Some(ExitStatus::Signal(9)));
}
