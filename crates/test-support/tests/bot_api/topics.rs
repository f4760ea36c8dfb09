//! Topics of groups and of private chats.

use serde_json::{Value, json};
use towpath_test_support::bot_api::{BotApiOptions, ChatId, Said, ThreadId};

use crate::stand::{ANN, Stand};

#[tokio::test]
async fn topics_are_made_used_and_deleted() {
    let stand = Stand::new().await;
    let forum = stand.api.chat_forum(&[ANN]);
    let group = stand.api.chat_group(&[ANN]);
    let create = |chat: ChatId, name: &str| json!({"chat_id": chat.0, "name": name});
    let made = stand.call("createForumTopic", create(forum, "fix the build")).await;
    let topic = ThreadId(made["message_thread_id"].as_i64().unwrap());
    let there = |topic: i64| json!({"chat_id": forum.0, "message_thread_id": topic, "text": "x"});
    let sent = stand.call("sendMessage", there(topic.0)).await;
    assert_eq!(
        (&sent["message_thread_id"], &sent["is_topic_message"]),
        (&json!(topic.0), &json!(true))
    );
    stand.api.user_says(forum, ANN, Said::from("in it").in_topic(topic).reply_to_topic_root());
    stand.api.user_says(forum, ANN, "in general");
    let theirs = stand.api.user_opens_topic(forum, ANN, "mine");
    let updates = stand.updates(0).await;
    assert_eq!(updates[0]["message"]["message_thread_id"], topic.0);
    let root = &updates[0]["message"]["reply_to_message"];
    assert_eq!(root["message_id"], topic.0);
    assert_eq!(root["forum_topic_created"]["name"], "fix the build");
    assert_eq!(updates[1]["message"]["message_thread_id"], Value::Null);
    assert_eq!(updates[2]["message"]["forum_topic_created"]["name"], "mine");

    let edit = |topic: ThreadId, name: &str| json!({"chat_id": forum.0, "message_thread_id": topic.0, "name": name});
    stand.call("editForumTopic", edit(theirs, "ours")).await;
    let cases = [
        ("createForumTopic", create(group, "x"), "Bad Request: the chat is not a forum"),
        ("createForumTopic", create(forum, " "), "Bad Request: topic name must be non-empty"),
        ("editForumTopic", edit(theirs, "ours"), "Bad Request: TOPIC_NOT_MODIFIED"),
        ("editForumTopic", edit(ThreadId(99), "x"), "Bad Request: TOPIC_ID_INVALID"),
        // The general topic is written to without a number.
        ("sendMessage", there(1), "Bad Request: message thread not found"),
        (
            "sendMessage",
            json!({"chat_id": group.0, "message_thread_id": 1, "text": "x"}),
            "Bad Request: message thread not found",
        ),
    ];
    for (method, params, refusal) in cases {
        assert_eq!(stand.refused(method, params).await, refusal);
    }
    stand.call("closeForumTopic", edit(theirs, "")).await;
    assert_eq!(
        stand.refused("closeForumTopic", edit(theirs, "")).await,
        "Bad Request: TOPIC_NOT_MODIFIED"
    );
    stand.call("reopenForumTopic", edit(theirs, "")).await;
    stand.call("deleteForumTopic", edit(theirs, "")).await;
    stand.api.user_deletes_topic(forum, topic);
    for gone in [theirs, topic] {
        let refusal = stand.refused("sendMessage", there(gone.0)).await;
        assert_eq!(refusal, "Bad Request: message thread not found");
    }
    let left: Vec<_> = stand.api.visible(forum).into_iter().map(|it| it.text).collect();
    assert_eq!(left, ["in general"]);
}

#[tokio::test]
async fn private_chats_have_topics_where_the_bot_has_them_on() {
    let options = BotApiOptions { private_topics: true, ..BotApiOptions::default() };
    let stand = Stand::with(options).await;
    let chat = stand.api.chat_private(ANN);
    assert_eq!(stand.call("getMe", json!({})).await["has_topics_enabled"], true);
    let topic = stand.call("createForumTopic", json!({"chat_id": 7, "name": "a"})).await;
    let draft = |thread: &Value| json!({"chat_id": 7, "draft_id": 1, "text": "x", "message_thread_id": thread});
    stand.call("sendMessageDraft", draft(&topic["message_thread_id"])).await;
    stand.call("sendMessageDraft", draft(&Value::Null)).await;
    // A message ends the draft of its own topic only.
    stand.send(chat, "done").await;
    let threads: Vec<_> = stand.api.drafts(chat).into_iter().map(|it| it.thread).collect();
    assert_eq!(threads, [topic["message_thread_id"].as_i64().map(ThreadId)]);
}
