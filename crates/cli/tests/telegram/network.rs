//! Failures of the network and errors of Telegram.

use std::time::Duration;

use test_support::bot_api::{
    BotApiFault, BotApiFaultSpan, BotApiNetwork, BotApiOutcome, BotApiUserMessage,
};
use tokio::time::{sleep, timeout};

use crate::fixture::{ANN, BOB, Fixture, SPEED, TIMEOUT};
use crate::texts::{OTHER_POLLER, STOP};

#[tokio::test]
async fn an_unresponsive_network_loses_nothing_and_causes_no_flood() {
    assert_outage_is_survived(BotApiNetwork::Blackhole).await;
}

#[tokio::test]
async fn a_network_that_resets_connections_loses_nothing_and_causes_no_flood() {
    assert_outage_is_survived(BotApiNetwork::Reset).await;
}

/// Breaks the network for two minutes of Telegram's time, in which one turn ends and another user
/// sends a prompt.
async fn assert_outage_is_survived(network: BotApiNetwork) {
    let fixture = Fixture::new(
        "api for \"look\" text \"First I look.\" tool Read {\"file_path\":\"$cwd/a\"}\n\
         api text \"Then I look.\" tool Read {\"file_path\":\"$cwd/b\"}\n\
         api text \"And then.\" tool Read {\"file_path\":\"$cwd/c\"}\n\
         api text \"All seen.\" hold gate after 0\n\
         api for \"more\" text \"More seen.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let (ann, bob) = (fixture.telegram.private_chat(ANN), fixture.telegram.private_chat(BOB));
    fixture.telegram.user_sends(ann, ANN, "look");
    fixture.wait_for_button(ann, STOP).await;
    fixture.telegram.set_network(network);
    fixture.api.open("gate");
    fixture.telegram.user_sends(bob, BOB, "more of the same");
    sleep(Duration::from_mins(2) / SPEED).await;
    assert_eq!(fixture.count_texts(ann, "All seen."), 0, "nothing passes a broken network");
    assert_eq!(fixture.count_prompts("more of the same"), 0, "nothing passes a broken network");
    fixture.telegram.set_network(BotApiNetwork::Up);
    fixture.wait_for_text(ann, "All seen.").await;
    let answer = fixture.wait_for_text(bob, "More seen.").await;
    assert!(!answer.silent, "{answer:?}");
    assert_eq!((fixture.count_prompts("look"), fixture.count_prompts("more")), (1, 1));
    let texts = fixture.bot_texts(ann);
    assert!(texts.len() < 6, "delayed texts are combined: {texts:?}");
    fixture.assert_correct();
}

#[tokio::test]
async fn an_answer_whose_delivery_is_unknown_is_sent_again() {
    let fixture = Fixture::new(
        "api for \"first\" text \"Heard one?\"\napi for \"second\" text \"Heard two?\"\n\
         api for \"last\" text \"All said.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    // On a slow machine the bot also sends a message that says what the agent does.
    let fail = |words, fault, calls| {
        fixture.telegram.fail_text("sendMessage", words, fault, BotApiFaultSpan::Calls(calls));
    };
    let attempts = |words: &str, outcome: fn(&BotApiOutcome) -> bool| {
        let calls = fixture.telegram.calls_of("sendMessage");
        let is_about = |text: &str| text.contains(words);
        let about = calls.iter().filter(|it| it.params["text"].as_str().is_some_and(is_about));
        about.filter(|it| outcome(&it.outcome)).count()
    };
    let is_success = |it: &BotApiOutcome| matches!(it, BotApiOutcome::Success(_));
    let is_dropped = |it: &BotApiOutcome| matches!(it, BotApiOutcome::Dropped);
    // Telegram has the message, but the bridge does not know it and sends it again.
    fail("Heard one?", BotApiFault::LoseResponse, 1);
    fixture.telegram.user_sends(chat, ANN, "first");
    fixture.wait_for_texts(chat, "Heard one?", 2).await;
    // Telegram does not have the message, which the bridge does not know either.
    fail("Heard two?", BotApiFault::HtmlPage(502), 2);
    fixture.telegram.user_sends(chat, ANN, "second");
    fixture.wait_for_texts(chat, "Heard two?", 1).await;
    // Messages are sent in order, so no copy of an earlier answer can follow this one.
    fixture.telegram.user_sends(chat, ANN, "last");
    fixture.wait_for_text(chat, "All said.").await;
    fixture.wait_for_no_button(chat, STOP).await;
    assert_eq!(attempts("Heard one?", is_success), 2);
    assert_eq!(attempts("Heard two?", is_dropped), 2, "both failures met this answer");
    assert_eq!(attempts("Heard two?", is_success), 1, "it arrives exactly once");
    assert_eq!(fixture.count_texts(chat, "All said."), 1);
    for prompt in ["first", "second", "last"] {
        assert_eq!(fixture.count_prompts(prompt), 1, "{prompt}");
    }
    fixture.assert_correct();
}

#[tokio::test]
async fn the_bridge_waits_as_long_as_telegram_asks_and_loses_nothing() {
    let fixture = Fixture::new("api text \"The end.\"").await;
    let _bridge = fixture.start_bridge().await;
    let (ann, bob) = (fixture.telegram.private_chat(ANN), fixture.telegram.private_chat(BOB));
    fixture.telegram.fail("sendMessage", BotApiFault::RetryAfter(3), BotApiFaultSpan::Calls(3));
    fixture.telegram.user_sends(ann, ANN, "one");
    fixture.telegram.user_sends(bob, BOB, "two");
    fixture.wait_for_text(ann, "The end.").await;
    fixture.wait_for_text(bob, "The end.").await;
    let calls = fixture.telegram.calls_of("sendMessage");
    let is_answer = |text: &str| text.contains("The end.");
    let attempts = calls.iter().filter(|it| it.params["text"].as_str().is_some_and(is_answer));
    assert!(attempts.count() >= 3, "{calls:#?}");
    for pair in calls.windows(2) {
        let same_chat = pair[0].params["chat_id"] == pair[1].params["chat_id"];
        assert!(!same_chat || pair[1].at >= pair[0].at + Duration::from_millis(900), "{pair:#?}");
    }
    fixture.assert_correct();
}

#[tokio::test]
async fn a_text_whose_formatting_is_rejected_is_sent_without_it() {
    let fixture = Fixture::new("api text \"Some **bold** words.\"").await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.fail("sendMessage", BotApiFault::EntityError, BotApiFaultSpan::Calls(1));
    fixture.telegram.user_sends(chat, ANN, "say");
    let answer = fixture.wait_for_text(chat, "Some bold words.").await;
    assert!(!answer.html.contains("<b>"), "{answer:?}");
    assert_eq!(fixture.count_texts(chat, "Some bold words."), 1);
    fixture.assert_correct();
}

#[tokio::test]
async fn another_poller_of_the_same_bot_is_logged_and_outlasted() {
    let fixture = Fixture::new("api text \"Mine.\"").await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let url = format!("{}?timeout=20", fixture.telegram.method_url("getUpdates"));
    let other = tokio::spawn(test_support::http_client().get(url).send());
    let logged = async {
        while !fixture.log().contains(OTHER_POLLER) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TIMEOUT, logged).await.expect("a log line about the other poller");
    other.abort();
    fixture.telegram.user_sends(chat, ANN, "whose?");
    fixture.wait_for_text(chat, "Mine.").await;
    fixture.assert_correct();
}

#[tokio::test]
async fn a_user_who_blocks_the_bot_is_left_alone_until_the_next_message() {
    let fixture = Fixture::new(
        "api for \"slow\" text \"one two\" hold gate after 1\napi for \"back\" text \"Welcome.\" always\napi text \"x\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let (ann, bob) = (fixture.telegram.private_chat(ANN), fixture.telegram.private_chat(BOB));
    fixture.telegram.user_sends(ann, ANN, "slow");
    fixture.wait_for_button(ann, STOP).await;
    fixture.telegram.block_bot(ann);
    fixture.api.open("gate");
    fixture.telegram.user_sends(bob, BOB, "back");
    fixture.wait_for_text(bob, "Welcome.").await;
    let calls =
        || fixture.telegram.calls().iter().filter(|it| it.params["chat_id"] == ann.0).count();
    let before = calls();
    sleep(Duration::from_secs(20) / SPEED).await;
    assert!(calls() <= before + 1, "{} more calls", calls() - before);
    fixture.telegram.unblock_bot(ann);
    fixture.telegram.user_sends(ann, ANN, "back again");
    fixture.wait_for_text(ann, "one two").await;
    fixture.wait_for_text(ann, "Welcome.").await;
    fixture.assert_correct();
}

#[tokio::test]
async fn a_deleted_topic_does_not_affect_other_chats() {
    let fixture = Fixture::new(
        "api for \"slow\" text \"one two\" hold gate after 1\napi text \"Still here.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let forum = fixture.telegram.create_forum(&[ANN]);
    let topic = fixture.telegram.user_creates_topic(forum, ANN, "work");
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(forum, ANN, BotApiUserMessage::from("slow").in_topic(topic));
    fixture.wait_for_button(forum, STOP).await;
    fixture.telegram.user_deletes_topic(forum, topic);
    fixture.api.open("gate");
    fixture.telegram.user_sends(chat, ANN, "are you?");
    fixture.wait_for_text(chat, "Still here.").await;
    let calls =
        || fixture.telegram.calls().iter().filter(|it| it.params["chat_id"] == forum.0).count();
    let before = calls();
    sleep(Duration::from_secs(30) / SPEED).await;
    assert!(calls() <= before + 2, "{} more calls", calls() - before);
    fixture.assert_correct();
}

#[tokio::test]
async fn the_limits_hold_in_real_time_too() {
    let fixture = Fixture::with_speed("api repeat \"word \" 200 slow 10", 1).await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let group = fixture.telegram.create_group(&[ANN]);
    fixture.telegram.user_sends(chat, ANN, "go");
    fixture.telegram.user_sends(group, ANN, "go");
    fixture.wait_for_message(chat, "an answer", |it| !it.silent).await;
    fixture.wait_for_message(group, "an answer", |it| !it.silent).await;
    fixture.assert_correct();
}
