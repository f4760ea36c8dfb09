//! Prompts and answers: in private chats, groups and topics.

use test_support::bot_api::Said;

use crate::stage::{ANN, BOB, EVE, Stage};

#[tokio::test]
async fn a_prompt_is_answered_once_by_a_message_that_rings() {
    let stage = Stage::new("api text \"The **answer** is 42.\"").await;
    let bridge = stage.bridge().await;
    assert_eq!(bridge.ready["bot"], "towpath_bot");
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "what is it?");
    let answer = stage.says(chat, "The answer is 42.").await;
    assert!(!answer.silent && answer.html.contains("<b>answer</b>"), "{answer:?}");
    assert_eq!(stage.telegram.notifications(chat), [answer.message_id]);
    stage.telegram.user_says(chat, ANN, "and again?");
    let twice = |seen: &[test_support::bot_api::Seen]| {
        seen.iter().filter(|it| it.text.contains("The answer is 42.")).count() == 2
    };
    let seen = stage.telegram.wait_until(chat, twice, crate::stage::PATIENCE).await;
    seen.unwrap_or_else(|not| panic!("{not}\n{}", stage.log()));
    assert_eq!(stage.times_asked("what is it?"), 1);
    assert_eq!(stage.times_asked("and again?"), 1);
    stage.check();
}

#[tokio::test]
async fn a_group_and_its_topics_are_sessions_of_their_own() {
    let stage = Stage::new(
        "api for \"first\" text \"To the first.\"\n\
         api for \"second\" text \"To the second.\"\n\
         api for \"group\" text \"To the group.\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let forum = stage.telegram.chat_forum(&[ANN, BOB]);
    let one = stage.telegram.user_opens_topic(forum, ANN, "one");
    let two = stage.telegram.user_opens_topic(forum, ANN, "two");
    let group = stage.telegram.chat_group(&[ANN, BOB]);
    stage.telegram.user_says(forum, ANN, Said::from("first").in_topic(one).reply_to_topic_root());
    stage.telegram.user_says(forum, BOB, Said::from("second").in_topic(two));
    stage.telegram.user_says(group, BOB, "group");
    assert_eq!(stage.says(forum, "To the first.").await.thread, Some(one));
    assert_eq!(stage.says(forum, "To the second.").await.thread, Some(two));
    stage.says(group, "To the group.").await;
    let asked = stage.asked();
    assert!(asked.iter().all(|it| !(it.contains("first") && it.contains("second"))), "{asked:?}");
    stage.check();
}

#[tokio::test]
async fn a_long_answer_comes_in_pieces_in_order_and_rings_once() {
    let stage = Stage::new("api repeat \"The quick brown fox jumps over it. \" 400").await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "tell me");
    let whole = |seen: &[test_support::bot_api::Seen]| {
        let parts = seen.iter().filter(|it| it.from_bot && !it.deleted && it.text.contains("fox"));
        let text: String = parts.map(|it| it.text.as_str()).collect::<Vec<_>>().join(" ");
        text.matches("fox").count() == 400
    };
    let seen = stage.telegram.wait_until(chat, whole, crate::stage::PATIENCE).await;
    let seen = seen.unwrap_or_else(|not| panic!("{not}\n{}", stage.log()));
    let parts: Vec<_> = seen.iter().filter(|it| it.text.contains("fox") && !it.deleted).collect();
    assert!(parts.len() >= 4, "{} messages", parts.len());
    assert!(parts.iter().all(|it| it.text.encode_utf16().count() <= 4096));
    assert_eq!(stage.telegram.notifications(chat).len(), 1, "only the first part rings");
    stage.check();
}

#[tokio::test]
async fn whoever_is_not_on_the_list_gets_no_answer_and_is_in_the_log() {
    let stage = Stage::new("api text \"Hello.\"").await;
    let _bridge = stage.bridge().await;
    let (eve, ann) = (stage.telegram.chat_private(EVE), stage.telegram.chat_private(ANN));
    stage.telegram.user_says(eve, EVE, "let me in");
    stage.telegram.user_says(eve, EVE, "/help");
    let group = stage.telegram.chat_group(&[ANN, EVE]);
    stage.telegram.user_says(group, EVE, "me too");
    stage.telegram.user_says(ann, ANN, "hello");
    stage.says(ann, "Hello.").await;
    assert_eq!(stage.said(eve), [""; 0]);
    assert_eq!(stage.said(group), [""; 0]);
    assert!(stage.log().contains("66"), "her number is in the log: {}", stage.log());
    assert!(!stage.log().contains("let me in"), "her words are not: {}", stage.log());
    assert_eq!(stage.asked().iter().filter(|it| it.contains("let me in")).count(), 0);
    stage.check();
}

#[tokio::test]
async fn two_who_show_the_same_session_see_the_same() {
    let stage =
        Stage::new("api for \"one\" text \"Answer one.\"\napi for \"two\" text \"Answer two.\"")
            .await;
    let _bridge = stage.bridge().await;
    let (ann, bob) = (stage.telegram.chat_private(ANN), stage.telegram.chat_private(BOB));
    stage.telegram.user_says(ann, ANN, "one");
    stage.says(ann, "Answer one.").await;
    stage.telegram.user_says(bob, BOB, "/sessions");
    stage.tap(bob, BOB, "one").await;
    stage.says(bob, "now shows").await;
    stage.telegram.user_says(bob, BOB, "two");
    stage.says(bob, "Answer two.").await;
    stage.says(ann, "Answer two.").await;
    assert!(stage.said(ann).iter().any(|it| it.contains("Bob") && it.contains("two")));
    assert_eq!(stage.times_said(bob, "Answer one."), 0, "what was before is not told again");
    stage.check();
}
