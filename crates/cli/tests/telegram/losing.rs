//! What goes wrong, and what must hold all the same.

use std::time::Duration;

use test_support::bot_api::{Fault, Network, Span};
use tokio::time::timeout;

use crate::stage::{ANN, BOB, PATIENCE, SPEED, Stage};

#[tokio::test]
async fn killed_in_mid_answer_the_next_life_delivers_it_once_and_runs_nothing_twice() {
    let stage = Stage::new(
        "api for \"tell\" text \"alpha beta gamma delta epsilon\" hold gate after 2\n\
         api text \"Another.\"",
    )
    .await;
    let bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "tell");
    let progress = stage.button(chat, "Stop").await;
    stage.remembers(progress).await;
    bridge.kill().await;
    stage.telegram.user_says(chat, ANN, "and then?");
    let _bridge = stage.bridge().await;
    stage.model.open("gate");
    stage.says(chat, "alpha beta gamma delta epsilon").await;
    stage.says(chat, "Another.").await;
    assert_eq!(stage.times_said(chat, "alpha"), 1, "{:?}", stage.said(chat));
    assert_eq!((stage.times_asked("tell"), stage.times_asked("and then?")), (1, 1));
    let stop =
        |it: &test_support::bot_api::Seen| it.markup.iter().flatten().any(|it| it.contains("Stop"));
    let tidy = |seen: &[test_support::bot_api::Seen]| !seen.iter().any(|it| !it.deleted && stop(it));
    let seen = stage.telegram.wait_until(chat, tidy, PATIENCE).await;
    seen.unwrap_or_else(|not| panic!("progress is left: {not}"));
    stage.check();
}

#[tokio::test]
async fn killed_while_it_asks_the_card_can_still_be_answered() {
    let stage = Stage::new(
        "api tool Bash {\"command\":\"echo x >> done\",\"description\":\"d\"}\napi text \"Made it.\"",
    )
    .await;
    let bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "make it");
    let card = stage.button(chat, "Allow").await;
    stage.remembers(card).await;
    bridge.kill().await;
    // It is tapped while nobody is there, and the tap is there when somebody is.
    let tap = stage.telegram.user_taps(chat, ANN, card, "✔ Allow").expect("a button");
    let _bridge = stage.bridge().await;
    stage.says(chat, "Made it.").await;
    let _ = stage.telegram.answer_to(&tap, Duration::from_secs(1)).await;
    assert_eq!(std::fs::read_to_string(stage.path("project/done")).expect("a file"), "x\n");
    let cards = stage
        .telegram
        .visible(chat)
        .into_iter()
        .filter(|it| it.text.contains("done") && it.from_bot);
    assert_eq!(cards.count(), 1, "{:?}", stage.said(chat));
    stage.check();
}

#[tokio::test]
async fn killed_again_and_again_every_prompt_runs_once_and_every_answer_comes() {
    let reply = |n| format!("api for \"prompt {n}\" text \"Answer {n}.\"\n");
    let stage = Stage::new(&(0..6).map(reply).collect::<Vec<_>>().concat()).await;
    let chat = stage.telegram.chat_private(ANN);
    for n in 0..6 {
        // What is sent in one breath is one prompt.
        tokio::time::sleep(Duration::from_secs(4) / SPEED).await;
        let bridge = stage.bridge().await;
        stage.telegram.user_says(chat, ANN, format!("prompt {n}"));
        // Each life ends a little later: before the update is read, after, while it is answered.
        let taken = stage.telegram.eventually(Duration::from_millis(40 * n), |api| {
            (api.pending_updates() == 0).then_some(())
        });
        let _ = taken.await;
        bridge.kill().await;
    }
    let _bridge = stage.bridge().await;
    for n in 0..6 {
        stage.says(chat, &format!("Answer {n}.")).await;
        assert_eq!(stage.times_asked(&format!("prompt {n}")), 1, "prompt {n}");
    }
    let said = stage.said(chat).join("\n");
    let places: Vec<_> =
        (0..6).map(|n| said.find(&format!("Answer {n}.")).expect("it is there")).collect();
    assert!(places.is_sorted(), "in order: {said}");
    stage.check();
}

#[tokio::test]
async fn a_network_that_is_dead_for_a_while_loses_nothing_and_floods_nobody() {
    let stage = Stage::new(
        "api for \"look\" text \"First I look.\" tool Read {\"file_path\":\"$cwd/a\"}\n\
         api text \"Then I look.\" tool Read {\"file_path\":\"$cwd/b\"}\n\
         api text \"And then.\" tool Read {\"file_path\":\"$cwd/c\"}\n\
         api text \"All seen.\" hold gate after 0\n\
         api for \"more\" text \"More seen.\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let (ann, bob) = (stage.telegram.chat_private(ANN), stage.telegram.chat_private(BOB));
    stage.telegram.user_says(ann, ANN, "look");
    stage.button(ann, "Stop").await;
    for network in [Network::Dead, Network::Refusing] {
        stage.telegram.set_network(network);
        stage.model.open("gate");
        stage.telegram.user_says(bob, BOB, "more of the same");
        // Two minutes of Telegram's time.
        tokio::time::sleep(Duration::from_mins(2) / SPEED).await;
        stage.telegram.set_network(Network::Up);
        stage.says(ann, "All seen.").await;
        stage.bot_message(bob, "an answer", |it| !it.silent).await;
    }
    assert_eq!(stage.times_asked("look"), 1);
    let said = stage.said(ann);
    assert!(said.len() < 6, "what waited is told together: {said:?}");
    stage.check();
}

#[tokio::test]
async fn an_answer_whose_delivery_nobody_confirmed_comes_again_rather_than_never() {
    let stage = Stage::new("api text \"Heard?\"").await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.fail("sendMessage", Fault::LoseAnswer, Span::Calls(1));
    stage.telegram.user_says(chat, ANN, "say it");
    let twice = |seen: &[test_support::bot_api::Seen]| {
        seen.iter().filter(|it| it.text.contains("Heard?")).count() == 2
    };
    let seen = stage.telegram.wait_until(chat, twice, PATIENCE).await;
    seen.unwrap_or_else(|not| panic!("{not}\n{}", stage.log()));
    stage.telegram.fail("sendMessage", Fault::Html(502), Span::Calls(2));
    stage.telegram.user_says(chat, ANN, "say it again");
    let thrice = |seen: &[test_support::bot_api::Seen]| {
        seen.iter().filter(|it| it.text.contains("Heard?")).count() == 3
    };
    let seen = stage.telegram.wait_until(chat, thrice, PATIENCE).await;
    seen.unwrap_or_else(|not| panic!("{not}\n{}", stage.log()));
    stage.check();
}

#[tokio::test]
async fn whoever_is_told_to_wait_waits_and_everything_comes() {
    let stage = Stage::new("api text \"The end.\"").await;
    let _bridge = stage.bridge().await;
    let (ann, bob) = (stage.telegram.chat_private(ANN), stage.telegram.chat_private(BOB));
    stage.telegram.fail("sendMessage", Fault::RetryAfter(3), Span::Calls(3));
    stage.telegram.user_says(ann, ANN, "one");
    stage.telegram.user_says(bob, BOB, "two");
    stage.says(ann, "The end.").await;
    stage.says(bob, "The end.").await;
    let calls = stage.telegram.calls_of("sendMessage");
    let refused: Vec<_> = calls
        .iter()
        .filter(|it| it.params["text"].as_str().is_some_and(|it| it.contains("The end.")))
        .collect();
    assert!(refused.len() >= 3, "{refused:#?}");
    for pair in calls.windows(2) {
        let same = pair[0].params["chat_id"] == pair[1].params["chat_id"];
        assert!(!same || pair[1].at >= pair[0].at + Duration::from_millis(900), "{pair:#?}");
    }
    stage.check();
}

#[tokio::test]
async fn words_whose_tags_are_refused_are_sent_plain() {
    let stage = Stage::new("api text \"Some **bold** words.\"").await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.fail("sendMessage", Fault::Tags, Span::Calls(1));
    stage.telegram.user_says(chat, ANN, "say");
    let answer = stage.says(chat, "Some bold words.").await;
    assert!(!answer.html.contains("<b>"), "{answer:?}");
    assert_eq!(stage.times_said(chat, "Some bold words."), 1);
    stage.check();
}

#[tokio::test]
async fn another_poller_is_waited_for_and_said_in_the_log() {
    let stage = Stage::new("api text \"Mine.\"").await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    let http = test_support::http_client();
    let other = http.get(format!("{}?timeout=20", stage.telegram.method("getUpdates")));
    let other = tokio::spawn(other.send());
    let said = async || {
        while !stage.log().contains("another program") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, said()).await.expect("it is in the log");
    other.abort();
    stage.telegram.user_says(chat, ANN, "whose?");
    stage.says(chat, "Mine.").await;
    stage.check();
}

#[tokio::test]
async fn whoever_blocks_the_bot_is_left_alone_until_they_speak_again() {
    let stage = Stage::new(
        "api for \"slow\" text \"one two\" hold gate after 1\napi for \"back\" text \"Welcome.\" always\napi text \"x\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let (ann, bob) = (stage.telegram.chat_private(ANN), stage.telegram.chat_private(BOB));
    stage.telegram.user_says(ann, ANN, "slow");
    stage.button(ann, "Stop").await;
    stage.telegram.bot_is_shut_out(ann);
    stage.model.open("gate");
    stage.telegram.user_says(bob, BOB, "back");
    stage.says(bob, "Welcome.").await;
    let refused =
        || stage.telegram.calls().iter().filter(|it| it.params["chat_id"] == ann.0).count();
    let before = refused();
    tokio::time::sleep(Duration::from_secs(20) / SPEED).await;
    assert!(refused() <= before + 1, "it does not insist");
    stage.telegram.bot_is_let_in(ann);
    stage.telegram.user_says(ann, ANN, "back again");
    stage.says(ann, "one two").await;
    stage.says(ann, "Welcome.").await;
    stage.check();
}

#[tokio::test]
async fn a_topic_that_is_deleted_ends_nothing_else() {
    let stage =
        Stage::new("api for \"slow\" text \"one two\" hold gate after 1\napi text \"Still here.\"")
            .await;
    let _bridge = stage.bridge().await;
    let forum = stage.telegram.chat_forum(&[ANN]);
    let topic = stage.telegram.user_opens_topic(forum, ANN, "work");
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(forum, ANN, test_support::bot_api::Said::from("slow").in_topic(topic));
    stage.button(forum, "Stop").await;
    stage.telegram.user_deletes_topic(forum, topic);
    stage.model.open("gate");
    stage.telegram.user_says(chat, ANN, "are you?");
    stage.says(chat, "Still here.").await;
    let calls =
        || stage.telegram.calls().iter().filter(|it| it.params["chat_id"] == forum.0).count();
    let before = calls();
    tokio::time::sleep(Duration::from_secs(30) / SPEED).await;
    assert!(calls() <= before + 2, "it does not insist: {} calls", calls() - before);
    stage.check();
}

#[tokio::test]
async fn the_strict_clock_of_the_world_breaks_no_limit_either() {
    let stage = Stage::with("api repeat \"word \" 200 slow 10", Stage::options(1)).await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    let group = stage.telegram.chat_group(&[ANN]);
    stage.telegram.user_says(chat, ANN, "go");
    stage.telegram.user_says(group, ANN, "go");
    stage.bot_message(chat, "an answer", |it| !it.silent).await;
    stage.bot_message(group, "an answer", |it| !it.silent).await;
    stage.check();
}
