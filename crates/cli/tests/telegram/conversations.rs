//! Prompts and answers: in private chats, groups and topics, and in many chats at once.

use std::time::{Duration, Instant};

use test_support::bot_api::{BotApiChatId, BotApiUserId, BotApiUserMessage, MessageSnapshot};

use crate::fixture::{ANN, BOB, EVE, Fixture, TIMEOUT};
use crate::texts::{SESSION_ATTACHED, STOP};

#[tokio::test]
async fn a_prompt_is_answered_once_with_a_notification() {
    let fixture = Fixture::new("api text \"The **answer** is 42.\"").await;
    let bridge = fixture.start_bridge().await;
    assert_eq!(bridge.ready["bot"], "towpath_bot");
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "what is it?");
    let answer = fixture.wait_for_text(chat, "The answer is 42.").await;
    assert!(!answer.silent && answer.html.contains("<b>answer</b>"), "{answer:?}");
    assert_eq!(fixture.telegram.notifications(chat), [answer.message_id]);
    fixture.telegram.user_sends(chat, ANN, "and again?");
    fixture.wait_for_texts(chat, "The answer is 42.", 2).await;
    assert_eq!(fixture.count_prompts("what is it?"), 1);
    assert_eq!(fixture.count_prompts("and again?"), 1);
    fixture.assert_correct();
}

#[tokio::test]
async fn a_group_and_each_topic_have_their_own_sessions() {
    let fixture = Fixture::new(
        "api for \"first\" text \"To the first.\"\n\
         api for \"second\" text \"To the second.\"\n\
         api for \"group\" text \"To the group.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let forum = fixture.telegram.create_forum(&[ANN, BOB]);
    let one = fixture.telegram.user_creates_topic(forum, ANN, "one");
    let two = fixture.telegram.user_creates_topic(forum, ANN, "two");
    let group = fixture.telegram.create_group(&[ANN, BOB]);
    let first = BotApiUserMessage::from("first").in_topic(one).reply_to_topic_root();
    fixture.telegram.user_sends(forum, ANN, first);
    fixture.telegram.user_sends(forum, BOB, BotApiUserMessage::from("second").in_topic(two));
    fixture.telegram.user_sends(group, BOB, "group");
    assert_eq!(fixture.wait_for_text(forum, "To the first.").await.thread, Some(one));
    assert_eq!(fixture.wait_for_text(forum, "To the second.").await.thread, Some(two));
    fixture.wait_for_text(group, "To the group.").await;
    let requests = fixture.model_requests();
    let is_mixed = |it: &String| it.contains("first") && it.contains("second");
    assert!(!requests.iter().any(is_mixed), "{requests:?}");
    fixture.assert_correct();
}

#[tokio::test]
async fn a_long_answer_is_split_into_messages_in_order_with_one_notification() {
    let fixture = Fixture::new("api repeat \"The quick brown fox jumps over it. \" 400").await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "tell me");
    let is_part = |it: &&MessageSnapshot| it.from_bot && !it.deleted && it.text.contains("fox");
    let is_complete = |messages: &[MessageSnapshot]| {
        let count = |it: &MessageSnapshot| it.text.matches("fox").count();
        messages.iter().filter(is_part).map(count).sum::<usize>() == 400
    };
    let messages = fixture.wait_for_chat(chat, "the whole answer", is_complete).await;
    let parts: Vec<_> = messages.iter().filter(is_part).collect();
    assert!(parts.len() >= 4, "{} messages", parts.len());
    assert!(parts.iter().all(|it| it.text.encode_utf16().count() <= 4096));
    assert_eq!(fixture.telegram.notifications(chat).len(), 1, "only one part notifies");
    fixture.assert_correct();
}

#[tokio::test]
async fn a_user_who_is_not_allowed_gets_no_answer_and_is_logged() {
    let fixture = Fixture::new("api text \"Hello.\"").await;
    let _bridge = fixture.start_bridge().await;
    let (eve, ann) = (fixture.telegram.private_chat(EVE), fixture.telegram.private_chat(ANN));
    fixture.telegram.user_sends(eve, EVE, "let me in");
    fixture.telegram.user_sends(eve, EVE, "/help");
    let group = fixture.telegram.create_group(&[ANN, EVE]);
    fixture.telegram.user_sends(group, EVE, "me too");
    fixture.telegram.user_sends(ann, ANN, "hello");
    fixture.wait_for_text(ann, "Hello.").await;
    assert_eq!(fixture.bot_texts(eve), [""; 0]);
    assert_eq!(fixture.bot_texts(group), [""; 0]);
    let log = fixture.log();
    assert!(log.contains(&EVE.to_string()), "the user's id is not in the log: {log}");
    assert!(!log.contains("let me in"), "the user's text is in the log: {log}");
    assert!(!fixture.model_requests().iter().any(|it| it.contains("let me in")));
    fixture.assert_correct();
}

#[tokio::test]
async fn two_chats_of_one_session_show_the_same() {
    let fixture =
        Fixture::new("api for \"one\" text \"Answer one.\"\napi for \"two\" text \"Answer two.\"")
            .await;
    let _bridge = fixture.start_bridge().await;
    let (ann, bob) = (fixture.telegram.private_chat(ANN), fixture.telegram.private_chat(BOB));
    fixture.telegram.user_sends(ann, ANN, "one");
    fixture.wait_for_text(ann, "Answer one.").await;
    fixture.telegram.user_sends(bob, BOB, "/sessions");
    fixture.tap(bob, BOB, "one").await;
    fixture.wait_for_text(bob, SESSION_ATTACHED).await;
    fixture.telegram.user_sends(bob, BOB, "two");
    fixture.wait_for_text(bob, "Answer two.").await;
    fixture.wait_for_text(ann, "Answer two.").await;
    let texts = fixture.bot_texts(ann);
    assert!(texts.iter().any(|it| it.contains("Bob") && it.contains("two")), "{texts:?}");
    assert_eq!(fixture.count_texts(bob, "Answer one."), 0, "earlier answers are not repeated");
    fixture.assert_correct();
}

#[tokio::test]
async fn a_new_session_in_a_chat_removes_everything_of_the_one_before() {
    let fixture = Fixture::new(
        "api for \"slow\" text \"one two three\" hold gate after 1\napi text \"Elsewhere.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "slow");
    fixture.wait_for_button(chat, STOP).await;
    fixture.wait_for_reply(chat, ANN, "/new").await;
    fixture.wait_for_no_button(chat, STOP).await;
    fixture.api.open("gate");
    fixture.telegram.user_sends(chat, ANN, "where?");
    fixture.wait_for_text(chat, "Elsewhere.").await;
    assert_eq!(fixture.count_texts(chat, "one two three"), 0, "{:?}", fixture.bot_texts(chat));
    fixture.assert_correct();
}

#[tokio::test]
async fn voice_messages_forwards_and_replies_reach_the_agent() {
    let fixture = Fixture::new("api text \"Understood.\"").await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, BotApiUserMessage::voice(&b"OggS"[..]));
    let answer = fixture.wait_for_text(chat, "Understood.").await;
    let request = fixture.model_requests().pop().expect("a request");
    assert!(request.contains(".towpath/files/voice") && request.contains(".ogg"), "{request}");
    let forward = BotApiUserMessage::from("it is broken").forwarded_from("Zoe");
    fixture.telegram.user_sends(chat, ANN, forward);
    let is_forward = |it: &String| it.contains("Zoe") && it.contains("it is broken");
    fixture.wait_for_requests("forward", TIMEOUT, |it| it.iter().any(is_forward)).await;
    let reply = BotApiUserMessage::from("what do you mean?").reply_to(answer.message_id);
    fixture.telegram.user_sends(chat, ANN, reply);
    let is_quote = |it: &String| it.contains("> Understood.");
    fixture.wait_for_requests("quote", TIMEOUT, |it| it.iter().any(is_quote)).await;
    fixture.assert_correct();
}

const CHATS: i64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_chats_stream_at_once_and_each_gets_its_answers_in_order() {
    let replies: Vec<String> = (0..CHATS)
        .map(|n| {
            let words = format!("w{n} ").repeat(40);
            format!(
                "api for \"chat-{n}!\" text \"First {n}: {words}end.\" hold gate after 3 slow 100\n\
                 api for \"more-{n}!\" text \"Second {n}.\"\n"
            )
        })
        .collect();
    let mut fixture = Fixture::new(&replies.concat()).await;
    fixture.allowed_users = (0..CHATS).map(|n| 1_000 + n).collect();
    let bridge = fixture.start_bridge().await;
    let timeout = TIMEOUT * 4;
    let start = Instant::now();
    let chats: Vec<BotApiChatId> = (0..CHATS)
        .map(|n| {
            let user = BotApiUserId(1_000 + n);
            let chat = fixture.telegram.private_chat(user);
            fixture.telegram.user_sends(chat, user, format!("chat-{n}!"));
            chat
        })
        .collect();
    fixture.wait_for_requests("turn in every chat", timeout, |it| it.len() >= chats.len()).await;
    let all_running = start.elapsed();
    fixture.api.open("gate");
    let start = Instant::now();
    for (n, chat) in chats.iter().enumerate() {
        let prefix = format!("First {n}:");
        let is_first = |it: &MessageSnapshot| {
            it.text.starts_with(&prefix) && it.text.contains("end.") && !it.silent
        };
        let messages = fixture.telegram.wait_for_chat(*chat, |it| it.iter().any(is_first), timeout);
        messages.await.unwrap_or_else(|error| panic!("chat {n}: {error}\n{}", fixture.log()));
    }
    let first_answers = start.elapsed();
    for (n, chat) in chats.iter().enumerate() {
        fixture.telegram.user_sends(*chat, BotApiUserId(chat.0), format!("more-{n}!"));
    }
    for (n, chat) in chats.iter().enumerate() {
        let prefix = format!("Second {n}.");
        let is_second = |it: &MessageSnapshot| it.text.starts_with(&prefix);
        let messages =
            fixture.telegram.wait_for_chat(*chat, |it| it.iter().any(is_second), timeout);
        let messages =
            messages.await.unwrap_or_else(|error| panic!("chat {n}: {error}\n{}", fixture.log()));
        let answers: Vec<_> = messages.iter().filter(|it| it.from_bot && !it.silent).collect();
        assert_eq!(answers.len(), 2, "chat {n}: {answers:?}");
        let in_order =
            answers[0].text.starts_with("First") && answers[1].text.starts_with("Second");
        assert!(in_order, "chat {n}: {answers:?}");
    }
    let calls = fixture.telegram.calls();
    let count = |method: &str| calls.iter().filter(|it| it.is(method)).count();
    let cpu = cpu_time(bridge.ready["pid"].as_u64().expect("a pid"));
    println!(
        "{CHATS} chats: all turns running after {all_running:?}, first answers after \
         {first_answers:?}, all after {:?}; {} messages, {} drafts, {} edits, {} deletions; {cpu:?} \
         of CPU time in the bridge; {} rate violations",
        start.elapsed(),
        count("sendMessage"),
        count("sendMessageDraft"),
        count("editMessageText"),
        count("deleteMessage"),
        fixture.telegram.violations().len(),
    );
    fixture.assert_correct();
}

/// The CPU time that a process has used, where `/proc` exists.
fn cpu_time(pid: u64) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}
