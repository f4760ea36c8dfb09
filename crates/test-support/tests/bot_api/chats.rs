//! Chats, their topics and drafts, and what users do in them.

use std::time::Duration;

use serde_json::{Value, json};
use towpath_test_support::bot_api::{
    BotApiChatId, BotApiLimit, BotApiMessageId, BotApiOptions, BotApiThreadId, BotApiUserMessage,
};

use crate::fixture::{ANN, BOB, TIMEOUT, TestBot, keyboard};

#[tokio::test]
async fn a_chat_must_exist_and_must_not_block_the_bot() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let group = bot.api.create_group(&[ANN]);
    let cases = [
        (json!({"text": "x"}), "Bad Request: chat_id is empty"),
        (json!({"chat_id": 99, "text": "x"}), "Bad Request: chat not found"),
        (json!({"chat_id": "@nobody", "text": "x"}), "Bad Request: chat not found"),
    ];
    for (params, error) in cases {
        assert_eq!(bot.error("sendMessage", params).await, error);
    }
    let blocked = [
        (chat, "Forbidden: bot was blocked by the user", "member"),
        (group, "Forbidden: bot was kicked from the supergroup chat", "administrator"),
    ];
    for (chat, error, member) in blocked {
        bot.send(chat, "hello").await;
        bot.api.block_bot(chat);
        let params = json!({"chat_id": chat.0, "text": "x"});
        let answer = bot.response("sendMessage", params.clone()).await;
        assert_eq!((&answer["error_code"], &answer["description"]), (&json!(403), &json!(error)));
        let change = bot.updates(0).await.pop().unwrap()["my_chat_member"].clone();
        assert_eq!(change["old_chat_member"]["status"], member);
        assert_eq!(change["new_chat_member"]["status"], "kicked");
        bot.api.unblock_bot(chat);
        bot.call("sendMessage", params).await;
    }
}

#[tokio::test]
async fn replies_quotes_and_forwards_are_in_the_updates() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let bot_message = bot.send(chat, "a long answer").await;
    bot.api.user_sends(
        chat,
        ANN,
        BotApiUserMessage::from("why?").reply_to(bot_message).quote("long"),
    );
    bot.api.user_sends(chat, ANN, BotApiUserMessage::from("look").forwarded_from("Carol"));
    let updates = bot.updates(0).await;
    let reply = &updates[0]["message"];
    assert_eq!(reply["reply_to_message"]["message_id"], bot_message.0);
    assert_eq!(reply["reply_to_message"]["from"]["is_bot"], true);
    assert_eq!(reply["quote"]["text"], "long");
    assert_eq!(updates[1]["message"]["forward_origin"]["sender_user_name"], "Carol");

    let answer = |reply: Value| json!({"chat_id": 7, "text": "x", "reply_parameters": reply});
    let sent = bot.call("sendMessage", answer(json!({"message_id": 2, "quote": "why"}))).await;
    assert_eq!(sent["reply_to_message"]["text"], "why?");
    let cases = [
        (json!({"message_id": 99}), "Bad Request: message to be replied not found"),
        (json!({"message_id": 2, "quote": "how"}), "Bad Request: QUOTE_TEXT_INVALID"),
    ];
    for (reply, error) in cases {
        assert_eq!(bot.error("sendMessage", answer(reply)).await, error);
    }
    let lenient = json!({"message_id": 99, "allow_sending_without_reply": true});
    bot.call("sendMessage", answer(lenient)).await;
}

#[tokio::test]
async fn new_messages_notify_unless_they_are_silent() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let loud = bot.send(chat, "done").await;
    let quiet = json!({"chat_id": 7, "text": "…", "disable_notification": true});
    let quiet = bot.call("sendMessage", quiet).await["message_id"].clone();
    bot.call("editMessageText", json!({"chat_id": 7, "message_id": quiet, "text": "x"})).await;
    assert_eq!(bot.api.notifications(chat), [loud]);
    let silent: Vec<bool> = bot.api.messages(chat).iter().map(|it| it.silent).collect();
    assert_eq!(silent, [false, true]);
}

#[tokio::test]
async fn waiting_for_a_chat_ends_with_its_messages_or_with_an_error_that_lists_them() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let wait =
        bot.api.wait_for_chat(chat, |messages| messages.iter().any(|it| it.text == "two"), TIMEOUT);
    let send = async {
        bot.send(chat, "one").await;
        bot.send(chat, "two").await;
    };
    let (messages, ()) = tokio::join!(wait, send);
    assert_eq!(messages.unwrap().len(), 2);
    let short = Duration::from_millis(20);
    let error =
        bot.api.wait_for_chat(chat, |messages| messages.len() > 2, short).await.unwrap_err();
    assert!(error.to_string().contains("bot: \"one\""), "{error}");
}

#[tokio::test]
async fn topics_are_created_used_and_deleted() {
    let bot = TestBot::new().await;
    let forum = bot.api.create_forum(&[ANN]);
    let group = bot.api.create_group(&[ANN]);
    let create = |chat: BotApiChatId, name: &str| json!({"chat_id": chat.0, "name": name});
    let created = bot.call("createForumTopic", create(forum, "fix the build")).await;
    let topic = BotApiThreadId(created["message_thread_id"].as_i64().unwrap());
    let text_in = |topic: i64| json!({"chat_id": forum.0, "message_thread_id": topic, "text": "x"});
    let sent = bot.call("sendMessage", text_in(topic.0)).await;
    assert_eq!(
        (&sent["message_thread_id"], &sent["is_topic_message"]),
        (&json!(topic.0), &json!(true))
    );
    bot.api.user_sends(
        forum,
        ANN,
        BotApiUserMessage::from("in it").in_topic(topic).reply_to_topic_root(),
    );
    bot.api.user_sends(forum, ANN, "in general");
    let user_topic = bot.api.user_creates_topic(forum, ANN, "mine");
    let updates = bot.updates(0).await;
    assert_eq!(updates[0]["message"]["message_thread_id"], topic.0);
    let root = &updates[0]["message"]["reply_to_message"];
    assert_eq!(root["message_id"], topic.0);
    assert_eq!(root["forum_topic_created"]["name"], "fix the build");
    assert_eq!(updates[1]["message"]["message_thread_id"], Value::Null);
    assert_eq!(updates[2]["message"]["forum_topic_created"]["name"], "mine");

    let edit = |topic: BotApiThreadId, name: &str| json!({"chat_id": forum.0, "message_thread_id": topic.0, "name": name});
    bot.call("editForumTopic", edit(user_topic, "ours")).await;
    let cases = [
        ("createForumTopic", create(group, "x"), "Bad Request: the chat is not a forum"),
        ("createForumTopic", create(forum, " "), "Bad Request: topic name must be non-empty"),
        ("editForumTopic", edit(user_topic, "ours"), "Bad Request: TOPIC_NOT_MODIFIED"),
        ("editForumTopic", edit(BotApiThreadId(99), "x"), "Bad Request: TOPIC_ID_INVALID"),
        // The general topic is addressed without a thread id.
        ("sendMessage", text_in(1), "Bad Request: message thread not found"),
        (
            "sendMessage",
            json!({"chat_id": group.0, "message_thread_id": 1, "text": "x"}),
            "Bad Request: message thread not found",
        ),
    ];
    for (method, params, error) in cases {
        assert_eq!(bot.error(method, params).await, error);
    }
    bot.call("closeForumTopic", edit(user_topic, "")).await;
    assert_eq!(
        bot.error("closeForumTopic", edit(user_topic, "")).await,
        "Bad Request: TOPIC_NOT_MODIFIED"
    );
    bot.call("reopenForumTopic", edit(user_topic, "")).await;
    bot.call("deleteForumTopic", edit(user_topic, "")).await;
    bot.api.user_deletes_topic(forum, topic);
    for deleted in [user_topic, topic] {
        let error = bot.error("sendMessage", text_in(deleted.0)).await;
        assert_eq!(error, "Bad Request: message thread not found");
    }
    let texts: Vec<_> = bot.api.visible_messages(forum).into_iter().map(|it| it.text).collect();
    assert_eq!(texts, ["in general"]);
}

#[tokio::test]
async fn private_chats_have_topics_if_the_bot_enables_them() {
    let options = BotApiOptions { private_topics: true, ..BotApiOptions::default() };
    let bot = TestBot::with(options).await;
    let chat = bot.api.private_chat(ANN);
    assert_eq!(bot.call("getMe", json!({})).await["has_topics_enabled"], true);
    let topic = bot.call("createForumTopic", json!({"chat_id": 7, "name": "a"})).await;
    let draft = |thread: &Value| json!({"chat_id": 7, "draft_id": 1, "text": "x", "message_thread_id": thread});
    bot.call("sendMessageDraft", draft(&topic["message_thread_id"])).await;
    bot.call("sendMessageDraft", draft(&Value::Null)).await;
    // A message replaces only the draft of its own topic.
    bot.send(chat, "done").await;
    let threads: Vec<_> = bot.api.drafts(chat).into_iter().map(|it| it.thread).collect();
    assert_eq!(threads, [topic["message_thread_id"].as_i64().map(BotApiThreadId)]);
}

#[tokio::test]
async fn a_draft_is_shown_until_a_message_replaces_it() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let group = bot.api.create_group(&[ANN]);
    let draft = |chat: BotApiChatId, id: i64, text: &str| json!({"chat_id": chat.0, "draft_id": id, "text": text, "parse_mode": "HTML"});
    for text in ["Hel", "Hello, <b>wo</b>"] {
        assert_eq!(bot.call("sendMessageDraft", draft(chat, 5, text)).await, true);
    }
    let drafts = bot.api.drafts(chat);
    assert_eq!(
        drafts.iter().map(|it| (it.draft_id, it.text.as_str())).collect::<Vec<_>>(),
        [(5, "Hello, wo")]
    );
    assert!(bot.api.messages(chat).is_empty());
    bot.send(chat, "Hello, world").await;
    assert!(bot.api.drafts(chat).is_empty());

    let cases = [
        (draft(group, 5, "x"), "Bad Request: TEXTDRAFT_PEER_INVALID"),
        (draft(chat, 0, "x"), "Bad Request: draft identifier must be non-zero"),
        (draft(chat, 5, ""), "Bad Request: text must be non-empty"),
        (draft(chat, 5, &"x".repeat(4_097)), "Bad Request: message is too long"),
    ];
    for (params, error) in cases {
        assert_eq!(bot.error("sendMessageDraft", params).await, error);
    }
}

#[tokio::test]
async fn a_draft_expires_without_changes() {
    let options = BotApiOptions {
        draft_lifetime: Duration::ZERO,
        allow_empty_drafts: true,
        ..BotApiOptions::default()
    };
    let bot = TestBot::with(options).await;
    let chat = bot.api.private_chat(ANN);
    bot.call("sendMessageDraft", json!({"chat_id": 7, "draft_id": 1})).await;
    assert!(bot.api.drafts(chat).is_empty());
}

#[tokio::test]
async fn drafts_have_their_own_rate_limit() {
    let bot = TestBot::with(BotApiOptions { speed: 0.1, ..BotApiOptions::default() }).await;
    let chat = bot.api.private_chat(ANN);
    let mut rejected = 0;
    for number in 0..4 {
        let params = json!({"chat_id": chat.0, "draft_id": 1, "text": number.to_string()});
        let answer = bot.response("sendMessageDraft", params).await;
        rejected += usize::from(answer["error_code"] == 429);
    }
    assert_eq!(rejected, 1);
    assert_eq!(bot.api.violations()[0].limit, BotApiLimit::Drafts);
}

#[tokio::test]
async fn a_tap_reaches_the_bot_and_the_answer_reaches_the_user() {
    let bot = TestBot::new().await;
    let chat = bot.api.create_group(&[ANN, BOB]);
    let rows = json!([
        [{"text": "Allow", "callback_data": "a"}, {"text": "Deny", "callback_data": "d"}],
        [{"text": "Docs", "url": "https://docs.example/"}],
    ]);
    let params = json!({"chat_id": chat.0, "text": "May I?", "reply_markup": keyboard(&rows)});
    let id = BotApiMessageId(bot.call("sendMessage", params).await["message_id"].as_i64().unwrap());
    let tap = bot.api.user_taps(chat, BOB, id, "Deny").unwrap();
    let query = bot.updates(0).await.pop().unwrap()["callback_query"].clone();
    assert_eq!(query["data"], "d");
    assert_eq!(query["from"]["id"], 8);
    assert_eq!(query["message"]["message_id"], id.0);
    let reply = json!({"callback_query_id": query["id"], "text": "Denied", "show_alert": true});
    bot.call("answerCallbackQuery", reply.clone()).await;
    let answer = bot.api.callback_answer(&tap, TIMEOUT).await.unwrap();
    assert_eq!((answer.text.as_str(), answer.alert), ("Denied", true));
    // A tap can be answered only once.
    let old = "Bad Request: query is too old and response timeout expired or query ID is invalid";
    assert_eq!(bot.error("answerCallbackQuery", reply).await, old);

    assert!(bot.api.user_taps(chat, BOB, id, (0, 1)).is_ok());
    assert!(bot.api.user_taps(chat, BOB, id, "Maybe").is_err());
    assert!(bot.api.user_taps(chat, BOB, id, (1, 0)).is_err());
    assert!(bot.api.user_taps(chat, BOB, BotApiMessageId(99), "Deny").is_err());
}

#[tokio::test]
async fn a_tap_can_be_answered_only_within_its_lifetime() {
    let options = BotApiOptions { callback_lifetime: Duration::ZERO, ..BotApiOptions::default() };
    let bot = TestBot::with(options).await;
    let chat = bot.api.private_chat(ANN);
    let id = bot.send(chat, "x").await;
    let tap = bot.api.user_taps_removed_button(chat, ANN, id, "old");
    let old = "Bad Request: query is too old and response timeout expired or query ID is invalid";
    for id in [tap.0.as_str(), "nonsense"] {
        let answer = json!({"callback_query_id": id});
        assert_eq!(bot.error("answerCallbackQuery", answer).await, old);
    }
    assert!(bot.api.callback_answer(&tap, Duration::from_millis(20)).await.is_none());
}
