//! Messages that are changed, deleted, pinned or reacted to.

use std::time::Duration;

use serde_json::{Value, json};
use towpath_test_support::bot_api::{BotApiOptions, Rates};

use crate::stand::{ANN, SAME, Stand, keyboard};

#[tokio::test]
async fn only_the_bots_own_messages_can_be_edited_and_only_to_something_else() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let theirs = stand.api.user_says(chat, ANN, "mine");
    let rows = json!([[{"text": "Stop", "callback_data": "s"}]]);
    let params = json!({"chat_id": 7, "text": "a", "reply_markup": keyboard(&rows)});
    let ours = stand.call("sendMessage", params).await["message_id"].clone();
    let gone = stand.send(chat, "gone").await;
    stand.call("deleteMessage", json!({"chat_id": 7, "message_id": gone.0})).await;
    let cases = [
        (json!(theirs.0), "b", None, "Bad Request: message can't be edited"),
        (json!(gone.0), "b", None, "Bad Request: message to edit not found"),
        (json!(99), "b", None, "Bad Request: message to edit not found"),
        (json!(null), "b", None, "Bad Request: message identifier is not specified"),
        (ours.clone(), "", None, "Bad Request: message text is empty"),
        (ours.clone(), "a", Some(&rows), SAME),
        (ours.clone(), "<i></i>a", Some(&rows), SAME),
    ];
    for (id, text, rows, refusal) in cases {
        let mut params =
            json!({"chat_id": 7, "message_id": id, "text": text, "parse_mode": "HTML"});
        if let Some(rows) = rows {
            params["reply_markup"] = keyboard(rows);
        }
        assert_eq!(stand.refused("editMessageText", params).await, refusal);
    }
    // Whoever does not name the buttons again takes them away.
    let params = json!({"chat_id": 7, "message_id": ours, "text": "a"});
    let edited = stand.call("editMessageText", params.clone()).await;
    assert_eq!(edited["reply_markup"], Value::Null);
    assert_eq!(stand.refused("editMessageText", params).await, SAME);
    let markup = json!({"chat_id": 7, "message_id": ours, "reply_markup": keyboard(&rows)});
    stand.call("editMessageReplyMarkup", markup.clone()).await;
    assert_eq!(stand.refused("editMessageReplyMarkup", markup).await, SAME);
    let seen = &stand.api.messages(chat)[1];
    assert_eq!((seen.text.as_str(), seen.edits, seen.deleted), ("a", 2, false));
    let caption = json!({"chat_id": 7, "message_id": ours, "caption": "c"});
    let refusal = stand.refused("editMessageCaption", caption).await;
    assert_eq!(refusal, "Bad Request: there is no caption in the message to edit");
}

#[tokio::test]
async fn reactions_are_of_the_allowed_set() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let theirs = stand.api.user_says(chat, ANN, "x");
    let react = |id: i64, emoji: &[&str]| {
        let reaction: Vec<_> =
            emoji.iter().map(|it| json!({"type": "emoji", "emoji": it})).collect();
        json!({"chat_id": 7, "message_id": id, "reaction": reaction})
    };
    let cases = [
        (react(theirs.0, &["✅"]), "Bad Request: REACTION_INVALID"),
        (react(theirs.0, &["👍", "🔥"]), "Bad Request: REACTIONS_TOO_MANY"),
        (react(99, &["👍"]), "Bad Request: message to react not found"),
    ];
    for (params, refusal) in cases {
        assert_eq!(stand.refused("setMessageReaction", params).await, refusal);
    }
    stand.call("setMessageReaction", react(theirs.0, &["❤️"])).await;
    assert_eq!(stand.api.messages(chat)[0].reactions, ["❤"]);
    stand.call("setMessageReaction", react(theirs.0, &[])).await;
    assert!(stand.api.messages(chat)[0].reactions.is_empty());
}

#[tokio::test]
async fn messages_are_deleted_and_pinned() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    for text in ["1", "2", "3", "4"] {
        stand.send(chat, text).await;
    }
    let one = |id: i64| json!({"chat_id": 7, "message_id": id});
    let many = |ids: Vec<i64>| json!({"chat_id": 7, "message_ids": ids});
    stand.call("pinChatMessage", one(4)).await;
    assert_eq!(stand.call("getChat", json!({"chat_id": 7})).await["pinned_message"]["text"], "4");
    stand.call("deleteMessage", one(1)).await;
    stand.call("deleteMessages", many(vec![1, 2, 99])).await;
    let cases = [
        ("deleteMessage", one(1), "Bad Request: message to delete not found"),
        ("deleteMessages", many(vec![]), "Bad Request: message identifiers are not specified"),
        (
            "deleteMessages",
            many((1..=101).collect()),
            "Bad Request: too many message identifiers specified",
        ),
        ("pinChatMessage", one(1), "Bad Request: message to pin not found"),
    ];
    for (method, params, refusal) in cases {
        assert_eq!(stand.refused(method, params).await, refusal);
    }
    let gone: Vec<bool> = stand.api.messages(chat).iter().map(|it| it.deleted).collect();
    assert_eq!(gone, [true, true, false, false]);
    let action = |action: &str| json!({"chat_id": 7, "action": action});
    stand.call("sendChatAction", action("typing")).await;
    let refusal = stand.refused("sendChatAction", action("thinking")).await;
    assert_eq!(refusal, "Bad Request: wrong parameter action in request");
}

#[tokio::test]
async fn an_old_message_stays() {
    let options =
        BotApiOptions { speed: 1e9, rates: Rates::unlimited(), ..BotApiOptions::default() };
    let stand = Stand::with(options).await;
    let chat = stand.api.chat_private(ANN);
    let id = stand.send(chat, "x").await;
    // Two days there are less than a millisecond here.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let refusal = stand.refused("deleteMessage", json!({"chat_id": 7, "message_id": id.0})).await;
    assert_eq!(refusal, "Bad Request: message can't be deleted for everyone");
}
