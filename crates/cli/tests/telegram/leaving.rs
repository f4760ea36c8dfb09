//! Ending politely, and who may drive what.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use session::shim::Ownership;
use test_support::bot_api::Said;

use crate::stage::{ANN, Bridge, PATIENCE, Stage};

/// Ends a bridge as a service manager does.
async fn terminate(mut bridge: Bridge) {
    let pid = bridge.child.id().and_then(|it| Pid::from_raw(it.cast_signed())).expect("it runs");
    kill_process(pid, Signal::TERM).expect("it is there");
    let asked = Instant::now();
    let status = tokio::time::timeout(PATIENCE, bridge.child.wait()).await.expect("it ends");
    assert_eq!(status.expect("a status").code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn ended_politely_it_leaves_agents_at_work_and_the_next_one_tells_what_they_said() {
    let stage = Stage::new(
        "api for \"tell\" text \"alpha beta gamma delta\" hold gate after 2\napi text \"Next.\"",
    )
    .await;
    let bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "tell");
    stage.button(chat, "Stop").await;
    terminate(bridge).await;
    stage.model.open("gate");
    let _bridge = stage.bridge().await;
    stage.says(chat, "alpha beta gamma delta").await;
    assert_eq!((stage.times_said(chat, "alpha"), stage.times_asked("tell")), (1, 1));
    stage.no_button(chat, "Stop").await;
    stage.check();
}

#[tokio::test]
async fn a_session_that_another_towpath_drives_is_said_to_be() {
    let stage = Stage::new("api text \"Hello.\"").await;
    let bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "one");
    stage.says(chat, "Hello.").await;
    terminate(bridge).await;
    let live = std::fs::read_dir(stage.path("data/live")).expect("live sessions");
    let live = live.map(|it| it.expect("an entry").path()).next().expect("a session");
    let held = Ownership::take(&live).expect("nobody drives it");
    // An agent that is still at rest there would be taken over, and cannot be either.
    let _bridge = stage.bridge().await;
    stage.telegram.user_says(chat, ANN, "two");
    let said = stage.says(chat, "Another Towpath").await;
    assert!(said.text.contains("/new"), "{}", said.text);
    drop(held);
    stage.telegram.user_says(chat, ANN, "three");
    let twice = |seen: &[test_support::bot_api::Seen]| {
        seen.iter().filter(|it| it.text.contains("Hello.")).count() == 2
    };
    let seen = stage.telegram.wait_until(chat, twice, PATIENCE).await;
    seen.unwrap_or_else(|not| panic!("{not}\n{}", stage.log()));
    assert_eq!(stage.times_asked("two"), 0);
    stage.check();
}

#[tokio::test]
async fn a_place_that_takes_up_a_session_leaves_nothing_of_the_one_before() {
    let stage = Stage::new(
        "api for \"slow\" text \"one two three\" hold gate after 1\napi text \"Elsewhere.\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "slow");
    stage.button(chat, "Stop").await;
    stage.telegram.user_says(chat, ANN, "/new");
    stage.says(chat, "New session").await;
    stage.no_button(chat, "Stop").await;
    stage.model.open("gate");
    stage.telegram.user_says(chat, ANN, "where?");
    stage.says(chat, "Elsewhere.").await;
    assert_eq!(stage.times_said(chat, "one two three"), 0, "{:?}", stage.said(chat));
    stage.check();
}

#[tokio::test]
async fn a_voice_a_forward_and_a_reply_are_understood() {
    let stage = Stage::new("api text \"Understood.\"").await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, Said::voice(&b"OggS"[..]));
    let answer = stage.says(chat, "Understood.").await;
    let asked = stage.asked().pop().expect("a request");
    assert!(asked.contains(".towpath/files/voice") && asked.contains(".ogg"), "{asked}");
    stage.telegram.user_says(chat, ANN, Said::from("it is broken").forwarded_from("Zoe"));
    let forwarded = async || {
        while !stage.asked().iter().any(|it| it.contains("Zoe") && it.contains("it is broken")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, forwarded()).await.expect("it goes to the agent");
    let reply = Said::from("what do you mean?").reply_to(answer.message_id);
    stage.telegram.user_says(chat, ANN, reply);
    let quoted = async || {
        while !stage.asked().iter().any(|it| it.contains("> Understood.")) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, quoted()).await.expect("with what it replies to");
    stage.check();
}
