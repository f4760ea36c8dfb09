//! Messages that are sent later.

use crate::fixture::{ANN, Fixture};
use crate::texts::{NO_SESSION, SCHEDULE_REMOVED};

#[tokio::test]
async fn a_message_is_scheduled_listed_and_removed_with_a_button() {
    let fixture = Fixture::new("api text \"Hello.\"").await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let reply = fixture.wait_for_reply(chat, ANN, "/schedule in 2h go on").await;
    assert!(reply.text.contains(NO_SESSION), "{}", reply.text);
    fixture.telegram.user_sends(chat, ANN, "hello");
    fixture.wait_for_text(chat, "Hello.").await;
    let add = "/schedule zone=Europe/Berlin every weekday at 9 look through <the> issues";
    let reply = fixture.wait_for_reply(chat, ANN, add).await;
    assert!(reply.text.contains("weekdays 09:00, next 20"), "{}", reply.text);
    assert!(reply.text.contains(" 09:00 CE"), "{}", reply.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/schedule tomorrow 9:00 run it").await;
    assert!(reply.text.contains("09:00"), "{}", reply.text);
    for (wrong, words) in [
        ("/schedule at 2020-01-01 09:00 too late", "has passed"),
        ("/schedule every 5s hurry", "too often"),
        ("/schedule zone=Mars/Olympus in 2h x", "no time zone"),
        ("/schedule at 9", "does not say when"),
    ] {
        let reply = fixture.wait_for_reply(chat, ANN, wrong).await;
        assert!(reply.text.contains(words), "{wrong}: {}", reply.text);
    }
    let list = fixture.wait_for_reply(chat, ANN, "/schedule").await;
    assert!(list.text.contains("look through <the> issues"), "{}", list.text);
    assert!(list.text.contains("run it"), "{}", list.text);
    assert_eq!(list.buttons.len(), 2, "{:?}", list.buttons);
    fixture.tap(chat, ANN, "look through").await;
    fixture.wait_for_text(chat, SCHEDULE_REMOVED).await;
    // The button is still there, and what it is about is not.
    fixture.tap(chat, ANN, "look through").await;
    fixture.wait_for_text(chat, "no such scheduled message").await;
    let list = fixture.wait_for_reply(chat, ANN, "/schedule list").await;
    assert!(!list.text.contains("<the> issues"), "{}", list.text);
    assert!(list.text.contains("run it"), "{}", list.text);
    fixture.assert_correct();
}

#[tokio::test]
async fn a_scheduled_message_is_sent_once_even_if_the_bridge_was_killed_before() {
    let fixture = Fixture::new(
        "api for \"hello\" text \"Hello.\"\napi for \"go on\" text \"Went on.\"\napi text \"Hm.\"",
    )
    .await;
    let bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "hello");
    fixture.wait_for_text(chat, "Hello.").await;
    fixture.wait_for_reply(chat, ANN, "/schedule in 4s go on").await;
    bridge.kill().await;
    let _bridge = fixture.start_bridge().await;
    fixture.wait_for_text(chat, "Went on.").await;
    assert_eq!(fixture.count_prompts("go on"), 1);
    let list = fixture.wait_for_reply(chat, ANN, "/schedule").await;
    assert!(list.text.contains("Nothing is scheduled"), "{}", list.text);
    fixture.assert_correct();
}
