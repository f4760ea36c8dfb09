//! Buttons that are tapped.

use std::time::Duration;

use serde_json::json;
use towpath_test_support::bot_api::{BotApiOptions, MessageId};

use crate::stand::{ANN, BOB, SOON, Stand, keyboard};

#[tokio::test]
async fn a_tap_reaches_the_bot_and_its_answer_the_person() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_group(&[ANN, BOB]);
    let rows = json!([
        [{"text": "Allow", "callback_data": "a"}, {"text": "Deny", "callback_data": "d"}],
        [{"text": "Docs", "url": "https://docs.example/"}],
    ]);
    let params = json!({"chat_id": chat.0, "text": "May I?", "reply_markup": keyboard(&rows)});
    let id = MessageId(stand.call("sendMessage", params).await["message_id"].as_i64().unwrap());
    let tap = stand.api.user_taps(chat, BOB, id, "Deny").unwrap();
    let query = stand.updates(0).await.pop().unwrap()["callback_query"].clone();
    assert_eq!(query["data"], "d");
    assert_eq!(query["from"]["id"], 8);
    assert_eq!(query["message"]["message_id"], id.0);
    let answer = json!({"callback_query_id": query["id"], "text": "Denied", "show_alert": true});
    stand.call("answerCallbackQuery", answer.clone()).await;
    let seen = stand.api.answer_to(&tap, SOON).await.unwrap();
    assert_eq!((seen.text.as_str(), seen.alert), ("Denied", true));
    // Answered is answered.
    let old = "Bad Request: query is too old and response timeout expired or query ID is invalid";
    assert_eq!(stand.refused("answerCallbackQuery", answer).await, old);

    assert!(stand.api.user_taps(chat, BOB, id, (0, 1)).is_ok());
    assert!(stand.api.user_taps(chat, BOB, id, "Maybe").is_err());
    assert!(stand.api.user_taps(chat, BOB, id, (1, 0)).is_err());
    assert!(stand.api.user_taps(chat, BOB, MessageId(99), "Deny").is_err());
}

#[tokio::test]
async fn a_tap_is_answered_in_time_or_not_at_all() {
    let options = BotApiOptions { callback_life: Duration::ZERO, ..BotApiOptions::default() };
    let stand = Stand::with(options).await;
    let chat = stand.api.chat_private(ANN);
    let id = stand.send(chat, "x").await;
    let tap = stand.api.user_taps_late(chat, ANN, id, "old");
    let old = "Bad Request: query is too old and response timeout expired or query ID is invalid";
    for id in [tap.0.as_str(), "nonsense"] {
        let answer = json!({"callback_query_id": id});
        assert_eq!(stand.refused("answerCallbackQuery", answer).await, old);
    }
    assert!(stand.api.answer_to(&tap, Duration::from_millis(20)).await.is_none());
}
