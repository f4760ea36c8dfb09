//! Permissions, questions and plans, answered by taps and replies.

use std::time::Duration;

use test_support::bot_api::{BotApiFault, BotApiFaultSpan, BotApiUserMessage};
use tokio::time::sleep;

use crate::fixture::{ANN, BOB, Fixture, SPEED};
use crate::texts::{ACCEPT_EDITS, ALLOW, ALLOWED, DENY, DENY_WITH_REASON, OTHER_ANSWER, QUEUED};

/// A command that needs permission, and the text after it.
const TOUCH: &str = "api tool Bash {\"command\":\"touch done\",\"description\":\"make a file\"}\n\
                     api text \"Made it.\"";

#[tokio::test]
async fn a_tap_gives_permission_and_the_card_names_the_user() {
    let fixture = Fixture::new(TOUCH).await;
    let _bridge = fixture.start_bridge().await;
    let group = fixture.telegram.create_group(&[ANN, BOB]);
    fixture.telegram.user_sends(group, ANN, "make it");
    let card = fixture.wait_for_text(group, "touch done").await;
    assert!(!card.silent, "a request notifies the users");
    let calls = fixture.telegram.calls_of("sendMessage");
    let buttons: String = calls.iter().map(|it| it.params["reply_markup"].to_string()).collect();
    assert!(!buttons.contains("touch"), "the command is in the data of a button: {buttons}");
    assert!(fixture.tap(group, BOB, ALLOW).await.contains(ALLOWED));
    fixture.wait_for_text(group, "Made it.").await;
    let outcome = fixture.wait_for_text(group, "Bob").await;
    assert_eq!(outcome.message_id, card.message_id);
    assert!(outcome.buttons.is_empty(), "{outcome:?}");
    assert!(fixture.path("project/done").exists());
    fixture.assert_correct();
}

#[tokio::test]
async fn a_message_does_not_deny_but_a_reply_with_the_reason_does() {
    let fixture = Fixture::new(
        "api for \"make it\" tool Bash {\"command\":\"touch done\",\"description\":\"d\"}\n\
         api for \"use make\" text \"I will use make.\"\n\
         api text \"Something else.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "make it");
    let card = fixture.wait_for_button(chat, DENY_WITH_REASON).await;
    fixture.telegram.user_sends(chat, ANN, "by the way, how are you?");
    fixture.wait_for_text(chat, QUEUED).await;
    let messages = fixture.telegram.messages(chat);
    let card = messages.iter().find(|it| it.message_id == card).expect("the card");
    assert!(!card.buttons.is_empty(), "the request is still open");
    fixture.tap(chat, ANN, DENY_WITH_REASON).await;
    let question = fixture.wait_for_message(chat, "a question", |it| it.force_reply).await;
    fixture.wait_until_stored(question.message_id).await;
    let reply = BotApiUserMessage::from("use make").reply_to(question.message_id);
    fixture.telegram.user_sends(chat, ANN, reply);
    fixture.wait_for_text(chat, "I will use make.").await;
    assert!(!fixture.path("project/done").exists());
    fixture.assert_correct();
}

#[tokio::test]
async fn a_reply_before_the_response_of_its_question_is_an_answer() {
    let fixture = Fixture::new(
        "api for \"make it\" tool Bash {\"command\":\"touch done\",\"description\":\"d\"}\n\
         api for \"use make\" text \"I will use make.\"\n\
         api for \"after that\" text \"And after that.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "make it");
    let card = fixture.wait_for_button(chat, DENY_WITH_REASON).await;
    fixture.wait_until_stored(card).await;
    let hold = BotApiFault::HoldResponse;
    fixture.telegram.fail("sendMessage", hold, BotApiFaultSpan::Calls(1));
    fixture.tap_without_waiting(chat, ANN, DENY_WITH_REASON).await;
    let question = fixture.wait_for_message(chat, "a question", |it| it.force_reply).await;
    let reply = BotApiUserMessage::from("use make").reply_to(question.message_id);
    fixture.telegram.user_sends(chat, ANN, reply);
    // The bridge joins messages that follow each other closely, so it waits this long for more.
    sleep(Duration::from_secs(8) / SPEED).await;
    fixture.telegram.user_sends(chat, ANN, "after that");
    sleep(Duration::from_secs(8) / SPEED).await;
    assert_eq!(fixture.count_prompts("use make"), 0, "the reply is held");
    fixture.telegram.clear_faults();
    fixture.wait_for_text(chat, "I will use make.").await;
    fixture.wait_for_text(chat, "And after that.").await;
    assert!(!fixture.path("project/done").exists());
    let requests = fixture.model_requests();
    let denied = |it: &String| it.contains("tool_result") && it.contains("use make");
    assert!(requests.iter().any(denied), "it is the reason of the denial: {requests:?}");
    fixture.assert_correct();
}

#[tokio::test]
async fn a_late_tap_gets_the_outcome() {
    let fixture = Fixture::new(TOUCH).await;
    let _bridge = fixture.start_bridge().await;
    let group = fixture.telegram.create_group(&[ANN, BOB]);
    fixture.telegram.user_sends(group, ANN, "make it");
    let card = fixture.wait_for_button(group, ALLOW).await;
    let deny = callback_data(&fixture, DENY);
    fixture.tap(group, ANN, ALLOW).await;
    fixture.wait_for_text(group, "Made it.").await;
    let late = fixture.telegram.user_taps_removed_button(group, BOB, card, &deny);
    let notification = fixture.notification(&late).await;
    let allowed = notification.to_lowercase().contains(&ALLOWED.to_lowercase());
    assert!(allowed && notification.contains("Ann"), "{notification}");
    let unknown = fixture.telegram.user_taps_removed_button(group, BOB, card, "nonsense");
    fixture.notification(&unknown).await;
    fixture.assert_correct();
}

/// The callback data of the first button whose label contains these words.
fn callback_data(fixture: &Fixture, label: &str) -> String {
    let calls = fixture.telegram.calls_of("sendMessage");
    let keyboards = calls.iter().map(|it| &it.params["reply_markup"]["inline_keyboard"]);
    let rows = keyboards.filter_map(|it| it.as_array()).flatten();
    let mut buttons = rows.filter_map(|it| it.as_array()).flatten();
    let button = buttons.find(|it| it["text"].as_str().is_some_and(|it| it.contains(label)));
    button.expect("a button")["callback_data"].as_str().expect("data").to_owned()
}

#[tokio::test]
async fn a_question_is_answered_by_a_choice_or_by_text() {
    let question = "{\"questions\":[{\"question\":\"Which colour?\",\"header\":\"Colour\",\"multiSelect\":false,\
        \"options\":[{\"label\":\"Red\",\"description\":\"warm\"},{\"label\":\"Blue\",\"description\":\"cold\"}]}]}";
    let fixture = Fixture::new(&format!(
        "api tool AskUserQuestion {question}\napi text \"Blue it is.\"\n\
         api tool AskUserQuestion {question}\napi text \"As you say.\""
    ))
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "paint it");
    fixture.wait_for_text(chat, "Which colour?").await;
    fixture.tap(chat, ANN, "Blue").await;
    fixture.wait_for_text(chat, "Blue it is.").await;
    fixture.telegram.user_sends(chat, ANN, "paint the other");
    fixture.tap(chat, ANN, OTHER_ANSWER).await;
    let question = fixture.wait_for_message(chat, "a question", |it| it.force_reply).await;
    fixture.wait_until_stored(question.message_id).await;
    let reply = BotApiUserMessage::from("ochre").reply_to(question.message_id);
    fixture.telegram.user_sends(chat, ANN, reply);
    fixture.wait_for_text(chat, "As you say.").await;
    let requests = fixture.model_requests();
    assert!(requests.iter().any(|it| it.contains("ochre")), "{requests:?}");
    assert!(requests.iter().any(|it| it.contains("Blue")), "{requests:?}");
    fixture.assert_correct();
}

#[tokio::test]
async fn a_plan_is_shown_completely_and_approved() {
    let plan = "1. Look around\\n2. Touch nothing";
    let fixture = Fixture::new(&format!(
        "api tool ExitPlanMode {{\"plan\":\"{plan}\"}}\napi text \"Off I go.\""
    ))
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.wait_for_reply(chat, ANN, "/new").await;
    fixture.wait_for_reply(chat, ANN, "/mode plan").await;
    fixture.telegram.user_sends(chat, ANN, "make a plan");
    fixture.wait_for_text(chat, "Touch nothing").await;
    fixture.tap(chat, ANN, ACCEPT_EDITS).await;
    fixture.wait_for_text(chat, "Off I go.").await;
    fixture.assert_correct();
}
