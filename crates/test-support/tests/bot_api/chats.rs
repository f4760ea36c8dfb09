//! Chats and the people in them.

use std::time::Duration;

use serde_json::{Value, json};
use towpath_test_support::bot_api::Said;

use crate::stand::{ANN, SOON, Stand};

#[tokio::test]
async fn a_chat_must_exist_and_want_the_bot() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let group = stand.api.chat_group(&[ANN]);
    let cases = [
        (json!({"text": "x"}), "Bad Request: chat_id is empty"),
        (json!({"chat_id": 99, "text": "x"}), "Bad Request: chat not found"),
        (json!({"chat_id": "@nobody", "text": "x"}), "Bad Request: chat not found"),
    ];
    for (params, refusal) in cases {
        assert_eq!(stand.refused("sendMessage", params).await, refusal);
    }
    let shut = [
        (chat, "Forbidden: bot was blocked by the user", "member"),
        (group, "Forbidden: bot was kicked from the supergroup chat", "administrator"),
    ];
    for (chat, refusal, member) in shut {
        stand.send(chat, "hello").await;
        stand.api.bot_is_shut_out(chat);
        let params = json!({"chat_id": chat.0, "text": "x"});
        let answer = stand.answer("sendMessage", params.clone()).await;
        assert_eq!((&answer["error_code"], &answer["description"]), (&json!(403), &json!(refusal)));
        let told = stand.updates(0).await.pop().unwrap()["my_chat_member"].clone();
        assert_eq!(told["old_chat_member"]["status"], member);
        assert_eq!(told["new_chat_member"]["status"], "kicked");
        stand.api.bot_is_let_in(chat);
        stand.call("sendMessage", params).await;
    }
}

#[tokio::test]
async fn replies_quotes_and_forwards_arrive_as_such() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let ours = stand.send(chat, "a long answer").await;
    stand.api.user_says(chat, ANN, Said::from("why?").reply_to(ours).quote("long"));
    stand.api.user_says(chat, ANN, Said::from("look").forwarded_from("Carol"));
    let updates = stand.updates(0).await;
    let reply = &updates[0]["message"];
    assert_eq!(reply["reply_to_message"]["message_id"], ours.0);
    assert_eq!(reply["reply_to_message"]["from"]["is_bot"], true);
    assert_eq!(reply["quote"]["text"], "long");
    assert_eq!(updates[1]["message"]["forward_origin"]["sender_user_name"], "Carol");

    let answer = |reply: Value| json!({"chat_id": 7, "text": "x", "reply_parameters": reply});
    let sent = stand.call("sendMessage", answer(json!({"message_id": 2, "quote": "why"}))).await;
    assert_eq!(sent["reply_to_message"]["text"], "why?");
    let cases = [
        (json!({"message_id": 99}), "Bad Request: message to be replied not found"),
        (json!({"message_id": 2, "quote": "how"}), "Bad Request: QUOTE_TEXT_INVALID"),
    ];
    for (reply, refusal) in cases {
        assert_eq!(stand.refused("sendMessage", answer(reply)).await, refusal);
    }
    let lenient = json!({"message_id": 99, "allow_sending_without_reply": true});
    stand.call("sendMessage", answer(lenient)).await;
}

#[tokio::test]
async fn phones_ring_for_new_messages_that_are_not_silent() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let loud = stand.send(chat, "done").await;
    let quiet = json!({"chat_id": 7, "text": "…", "disable_notification": true});
    let quiet = stand.call("sendMessage", quiet).await["message_id"].clone();
    stand.call("editMessageText", json!({"chat_id": 7, "message_id": quiet, "text": "x"})).await;
    assert_eq!(stand.api.notifications(chat), [loud]);
    let silent: Vec<bool> = stand.api.messages(chat).iter().map(|it| it.silent).collect();
    assert_eq!(silent, [false, true]);
}

#[tokio::test]
async fn whoever_waits_for_a_chat_sees_it_change_or_hears_what_it_holds() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let wait = stand.api.wait_until(chat, |seen| seen.iter().any(|it| it.text == "two"), SOON);
    let send = async {
        stand.send(chat, "one").await;
        stand.send(chat, "two").await;
    };
    let (seen, ()) = tokio::join!(wait, send);
    assert_eq!(seen.unwrap().len(), 2);
    let short = Duration::from_millis(20);
    let missed = stand.api.wait_until(chat, |seen| seen.len() > 2, short).await.unwrap_err();
    assert!(missed.to_string().contains("bot: \"one\""), "{missed}");
}
