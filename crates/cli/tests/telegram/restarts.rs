//! A bridge that is killed or ended, and the next one that continues its work.

use std::time::Duration;

use tokio::time::sleep;

use crate::fixture::{ANN, Fixture, SPEED};
use crate::texts::{ALLOW, SESSION_DRIVEN_ELSEWHERE, STOP};

#[tokio::test]
async fn an_answer_that_was_interrupted_by_a_kill_is_delivered_once_by_the_next_bridge() {
    let fixture = Fixture::new(
        "api for \"tell\" text \"alpha beta gamma delta epsilon\" hold gate after 2\n\
         api text \"Another.\"",
    )
    .await;
    let bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "tell");
    let progress = fixture.wait_for_button(chat, STOP).await;
    fixture.wait_until_stored(progress).await;
    bridge.kill().await;
    fixture.telegram.user_sends(chat, ANN, "and then?");
    let _bridge = fixture.start_bridge().await;
    fixture.api.open("gate");
    fixture.wait_for_text(chat, "alpha beta gamma delta epsilon").await;
    fixture.wait_for_text(chat, "Another.").await;
    assert_eq!(fixture.count_texts(chat, "alpha"), 1, "{:?}", fixture.bot_texts(chat));
    assert_eq!((fixture.count_prompts("tell"), fixture.count_prompts("and then?")), (1, 1));
    fixture.wait_for_no_button(chat, STOP).await;
    fixture.assert_correct();
}

#[tokio::test]
async fn a_request_can_be_answered_after_the_bridge_was_killed() {
    let fixture = Fixture::new(
        "api tool Bash {\"command\":\"echo x >> done\",\"description\":\"d\"}\napi text \"Made it.\"",
    )
    .await;
    let bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "make it");
    let card = fixture.wait_for_button(chat, ALLOW).await;
    fixture.wait_until_stored(card).await;
    bridge.kill().await;
    // The tap happens while no bridge is running, and the next one receives it.
    fixture.tap_without_waiting(chat, ANN, ALLOW).await;
    let _bridge = fixture.start_bridge().await;
    fixture.wait_for_text(chat, "Made it.").await;
    assert_eq!(std::fs::read_to_string(fixture.path("project/done")).expect("a file"), "x\n");
    // The progress message names the command too, until it is deleted.
    fixture.wait_for_no_button(chat, STOP).await;
    assert_eq!(fixture.count_texts(chat, "done"), 1, "{:?}", fixture.bot_texts(chat));
    fixture.assert_correct();
}

#[tokio::test]
async fn every_prompt_runs_once_and_is_answered_although_every_bridge_is_killed() {
    let reply = |n| format!("api for \"prompt {n}\" text \"Answer {n}.\"\n");
    let fixture = Fixture::new(&(0..6).map(reply).collect::<Vec<_>>().concat()).await;
    let chat = fixture.telegram.private_chat(ANN);
    for n in 0..6 {
        // The bridge joins messages that follow each other closely into one prompt.
        sleep(Duration::from_secs(4) / SPEED).await;
        let bridge = fixture.start_bridge().await;
        fixture.telegram.user_sends(chat, ANN, format!("prompt {n}"));
        // Each bridge lives a little longer: until before the update is read, after it, during the
        // answer.
        let life = Duration::from_millis(40 * n);
        let is_read =
            fixture.telegram.wait_for(life, |api| (api.pending_updates() == 0).then_some(()));
        let _ = is_read.await;
        bridge.kill().await;
    }
    let _bridge = fixture.start_bridge().await;
    for n in 0..6 {
        fixture.wait_for_text(chat, &format!("Answer {n}.")).await;
        assert_eq!(fixture.count_prompts(&format!("prompt {n}")), 1, "prompt {n}");
    }
    let texts = fixture.bot_texts(chat).join("\n");
    let position = |n| texts.find(&format!("Answer {n}.")).expect("an answer");
    assert!((0..6).map(position).is_sorted(), "not in order: {texts}");
    fixture.assert_correct();
}

#[tokio::test]
async fn a_terminated_bridge_leaves_its_agents_running_and_the_next_one_delivers_their_answers() {
    let fixture = Fixture::new(
        "api for \"tell\" text \"alpha beta gamma delta\" hold gate after 2\napi text \"Next.\"",
    )
    .await;
    let bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "tell");
    fixture.wait_for_button(chat, STOP).await;
    bridge.terminate().await;
    fixture.api.open("gate");
    let _bridge = fixture.start_bridge().await;
    fixture.wait_for_text(chat, "alpha beta gamma delta").await;
    assert_eq!((fixture.count_texts(chat, "alpha"), fixture.count_prompts("tell")), (1, 1));
    fixture.wait_for_no_button(chat, STOP).await;
    fixture.assert_correct();
}

#[tokio::test]
async fn a_session_that_another_towpath_drives_accepts_no_prompts() {
    let fixture = Fixture::new("api text \"Hello.\"").await;
    let bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "one");
    fixture.wait_for_text(chat, "Hello.").await;
    bridge.terminate().await;
    let ownership = fixture.own_session();
    // The bridge would take over an agent that is still running there, and cannot do that either.
    let _bridge = fixture.start_bridge().await;
    fixture.telegram.user_sends(chat, ANN, "two");
    let reply = fixture.wait_for_text(chat, SESSION_DRIVEN_ELSEWHERE).await;
    assert!(reply.text.contains("/new"), "{}", reply.text);
    drop(ownership);
    fixture.telegram.user_sends(chat, ANN, "three");
    fixture.wait_for_texts(chat, "Hello.", 2).await;
    assert_eq!(fixture.count_prompts("two"), 0);
    fixture.assert_correct();
}
